"""The bytes of stored models: whole and checked, or streamed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

from service.db.session import Database
from service.models.chunks import stream_chunks
from service.models.errors import DamagedModel, ModelNotFound
from service.models.repository import ModelFile, ModelFileRepository
from solver.model_file import AnyModel, Model, ModelFileError, read_any_model
from solver.nearest import KeptRows, KeptRowsError

logger = logging.getLogger("prefsvm.models")


class ModelFiles:
    """Reads what workers have stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, project_id: str, name: str) -> ModelFile:
        """Return the file behind the id of a model or behind an alias; raises `ModelNotFound`."""
        with self._database.transaction() as session:
            file = ModelFileRepository(session, project_id).find(name)
        if file is None:
            raise ModelNotFound
        return file

    def read(self, file: ModelFile) -> AnyModel:
        """Return a model with the threshold, or rule, that was applied last; raises `ModelNotFound`, `DamagedModel`."""
        try:
            model = read_any_model(b"".join(self.stream(file)))
            if isinstance(model, Model):
                return model.with_threshold(file.threshold, file.band)
            return model.with_rule(None if file.rule is None else json.loads(file.rule))
        except ModelFileError:
            logger.exception("model unreadable", extra={"fields": {"model": file.model_id}})
            raise DamagedModel("the stored model cannot be read by this version") from None

    def kept_rows(self, project_id: str, model_id: str) -> KeptRows | None:
        """Return the labelled rows that a model keeps to compare others with; None for one of before.

        Raises
        ------
        DamagedModel
            If they are not what was written.
        """
        with self._database.transaction() as session:
            stored = ModelFileRepository(session, project_id).kept_rows(model_id)
        try:
            return None if stored is None else KeptRows.read(stored)
        except KeptRowsError:
            logger.exception("kept rows unreadable", extra={"fields": {"model": model_id}})
            raise DamagedModel("the labelled rows that were kept with this model cannot be read") from None

    def stream(self, file: ModelFile) -> Iterator[bytes]:
        """Yield the stored bytes piece by piece; see `service.models.chunks`."""
        return stream_chunks(self._database, file.project_id, file.model_id, file.sha256)
