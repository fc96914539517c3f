"""All SQL about batches that the API runs. They are jobs of the kind ``batch``; the worker's half is that of jobs."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_

from service.batches.errors import BatchNotFound
from service.db.repository import ResourceRepository
from service.db.tables import JobRow

KIND = "batch"


class BatchRepository(ResourceRepository[JobRow]):
    """Batches of one project, in the transaction of `session`."""

    table = JobRow
    prefix = "job"
    not_found = BatchNotFound

    def _mine(self, row_id: str | None = None) -> ColumnElement[bool]:
        return and_(super()._mine(row_id), JobRow.kind == KIND)
