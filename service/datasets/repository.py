"""All SQL about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Text, and_, bindparam, except_, func, or_, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from service.datasets.errors import DatasetNotFound
from service.db.repository import ResourceRepository
from service.db.tables import AuditRow, DatasetRow, JobRow, ModelRow
from service.paging import page_of

_SUMMARY = (
    *(DatasetRow.id, DatasetRow.name, DatasetRow.format, DatasetRow.layout),
    *(DatasetRow.bytes, DatasetRow.sha256, DatasetRow.rows, DatasetRow.created_at),
    func.jsonb_array_length(DatasetRow.columns).label("column_count"),
    DatasetRow.options.op("-")("columns").label("options"),
)

MOST_LOOKED_AT = 1000
"""Data sets whose columns are compared with a model's for one page."""
MOST_BYTES_LOOKED_AT = 2 << 20
"""Of their columns, as Postgres stores them. It unpacks them to compare them: 0.4 s for a page of so many."""


class DatasetRepository(ResourceRepository[DatasetRow]):
    """Data sets of one project, in the transaction of `session`. Jobs and models that came from one outlive it."""

    table = DatasetRow
    prefix = "ds"
    not_found = DatasetNotFound

    def is_there_for_good(self, dataset_id: str) -> bool:
        """Tell whether a data set is there, after any transaction has ended that might be about to commit it."""
        self._session.execute(text("LOCK TABLE datasets IN SHARE MODE"))
        return self.get(dataset_id) is not None

    def lock_for_use(self, dataset_id: str) -> DatasetRow | None:
        """Return a data set that nobody can delete before this transaction ends."""
        return self._find(dataset_id, {"key_share": True, "read": True})

    def lock_for_delete(self, dataset_id: str) -> DatasetRow:
        """Return a data set that nobody can start to use before this transaction ends; raises `DatasetNotFound`."""
        return self.found(self._find(dataset_id, {}))

    def is_used(self, dataset_id: str) -> bool:
        """Tell whether a job, or a model, came from a data set."""
        reads_it = or_(JobRow.dataset_id == dataset_id, JobRow.labels_dataset_id == dataset_id)
        by_jobs = JobRow.project_id == self._project_id, reads_it
        by_models = ModelRow.project_id == self._project_id, ModelRow.dataset_id == dataset_id
        jobs, models = select(JobRow.id).where(*by_jobs).exists(), select(ModelRow.id).where(*by_models).exists()
        return bool(self._session.scalar(select(or_(jobs, models))))

    def job_that_reads(self, dataset_id: str) -> str | None:
        """Return the id of a queued or running job that reads this data set, or None."""
        statement = select(JobRow.id).where(
            JobRow.project_id == self._project_id,
            or_(JobRow.dataset_id == dataset_id, JobRow.labels_dataset_id == dataset_id),
            JobRow.status.in_(("queued", "running")),
        )
        return self._session.scalar(statement.limit(1))

    def audit_of(self, job_id: str) -> str | None:
        """Return the id of the audit that a job draws rows for, or None."""
        mine = (AuditRow.project_id == self._project_id, AuditRow.job_id == job_id)
        return self._session.scalar(select(AuditRow.id).where(*mine))

    def summaries(self, cursor: str | None, limit: int, *fits: ColumnElement[bool]) -> Sequence[Row[Any]]:
        """Return up to ``limit + 1`` data sets as lists show them, newest first."""
        statement = select(*_SUMMARY).where(self._mine(), *fits)
        return self._session.execute(page_of(statement, DatasetRow, cursor, limit)).all()

    def last_looked_at(self, cursor: str | None) -> Row[Any] | None:
        """Return where to stop to compare columns for a page; None if it may compare those of all data sets."""
        size = func.pg_column_size(DatasetRow.columns).label("size")  # without unpacking them
        statement = select(DatasetRow.id, DatasetRow.created_at, size).where(self._mine())
        found = self._session.execute(page_of(statement, DatasetRow, cursor, MOST_LOOKED_AT)).all()
        looked_at, last = 0, None
        for row in found[:MOST_LOOKED_AT]:
            looked_at += row.size
            if last is not None and looked_at > MOST_BYTES_LOOKED_AT:
                return last
            last = row
        return last if len(found) > MOST_LOOKED_AT else None


def up_to(last: Row[Any]) -> ColumnElement[bool]:
    """Return the condition of data sets as new as one, or newer."""
    return tuple_(DatasetRow.created_at, DatasetRow.id) >= (last.created_at, last.id)


def with_columns(names: Sequence[str] | None) -> ColumnElement[bool]:
    """Return the condition of tables that have these columns; None: of matrices."""
    if names is None:
        return DatasetRow.layout == "matrix"
    # `columns @> …` would look through all columns for each name: 26 s for a data set of 20,000 columns.
    asked = select(func.unnest(bindparam(None, list(names), ARRAY(Text))))
    there = select(func.jsonb_array_elements(DatasetRow.columns).op("->>")("name"))
    return and_(DatasetRow.layout == "table", ~except_(asked, there.correlate(DatasetRow)).exists())
