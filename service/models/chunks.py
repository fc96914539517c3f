"""The stored bytes of a model, streamed and checked; for those who do not want to read them as a model."""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Iterator

from service.db.session import Database
from service.models.errors import DamagedModel, ModelNotFound
from service.models.repository import ModelFileRepository

logger = logging.getLogger("prefsvm.models")


def stream_chunks(database: Database, project_id: str, model_id: str, sha256: str) -> Iterator[bytes]:
    """Yield the stored bytes piece by piece.

    Each piece is a transaction of its own: a slow reader must not hold a connection. The last one is given out only
    when the hash of all is right.

    Raises
    ------
    ModelNotFound
        If the model was deleted before the first piece.
    DamagedModel
        If the bytes are not those that were written, or none of them are there.
    """
    digest = hashlib.sha256()
    held: bytes | None = None
    for seq in itertools.count():
        with database.transaction() as session:
            chunk = ModelFileRepository(session, project_id).chunk(model_id, seq)
        if chunk is None:
            break
        digest.update(chunk)
        if held is not None:
            yield held
        held = chunk
    if held is None:
        with database.transaction() as session:
            if ModelFileRepository(session, project_id).find(model_id) is None:
                raise ModelNotFound("the model was deleted")
    if held is None or digest.hexdigest() != sha256:
        logger.error("model damaged", extra={"fields": {"model": model_id}})
        raise DamagedModel("the stored bytes of this model are not those that were written")
    yield held
