"""All SQL about batches that the API runs. They are jobs of the kind ``batch``; the worker's half is that of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from service.db.tables import JobRow
from service.paging import Cursor, page_of

KIND = "batch"


class BatchRepository:
    """Batches of one project, in the transaction of `session`."""

    def __init__(self, session: Session, project_id: str) -> None:
        self._session = session
        self._project_id = project_id

    def get(self, batch_id: str) -> JobRow | None:
        """Return a batch."""
        return self._session.scalars(self._select().where(JobRow.id == batch_id)).one_or_none()

    def list(self, cursor: Cursor | None, limit: int) -> Sequence[JobRow]:
        """Return up to ``limit + 1`` batches, newest first."""
        return self._session.scalars(page_of(self._select(), JobRow.created_at, JobRow.id, cursor, limit)).all()

    def _select(self) -> Select[JobRow]:
        return select(JobRow).where(JobRow.project_id == self._project_id, JobRow.kind == KIND)
