"""All SQL that predictions need: which bytes a model consists of, and those bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.tables import AliasRow, ModelChunkRow, ModelRow
from service.identifiers import is_id
from service.schemas import is_alias


@dataclass(frozen=True)
class ModelFile:
    """Which bytes a model consists of."""

    model_id: str
    sha256: str
    bytes: int


class ModelFileRepository:
    """Files of models, in the transaction of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, name: str) -> ModelFile | None:
        """Return the file behind the id of a model or behind an alias."""
        statement = select(ModelRow.id, ModelRow.sha256, ModelRow.bytes)
        if is_id(name, "mdl"):
            statement = statement.where(ModelRow.id == name)
        elif is_alias(name):
            statement = statement.join(AliasRow, AliasRow.model_id == ModelRow.id).where(AliasRow.name == name)
        else:
            return None
        found = self._session.execute(statement).one_or_none()
        return None if found is None else ModelFile(found.id, found.sha256, found.bytes)

    def chunks(self, model_id: str) -> Iterator[bytes]:
        """Yield the bytes of a model in pieces of 1 MiB."""
        statement = select(ModelChunkRow.data).where(ModelChunkRow.model_id == model_id).order_by(ModelChunkRow.seq)
        yield from self._session.scalars(statement.execution_options(yield_per=4))
