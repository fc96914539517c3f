"""All SQL about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, delete, func, or_, select, text
from sqlalchemy.orm import Session

from service.db.tables import DatasetRow, JobRow, ModelRow
from service.paging import Cursor, page_of

_SUMMARY = (
    *(DatasetRow.id, DatasetRow.name, DatasetRow.format, DatasetRow.layout),
    *(DatasetRow.bytes, DatasetRow.sha256, DatasetRow.rows, DatasetRow.created_at),
    func.jsonb_array_length(DatasetRow.columns).label("column_count"),
    DatasetRow.options.op("-")("columns").label("options"),
)


class DatasetRepository:
    """Data sets of one project, in the transaction of `session`."""

    def __init__(self, session: Session, project_id: str) -> None:
        self._session = session
        self._project_id = project_id

    def add(self, row: DatasetRow) -> DatasetRow:
        """Insert a data set."""
        self._session.add(row)
        self._session.flush()
        self._session.refresh(row)
        return row

    def get(self, dataset_id: str) -> DatasetRow | None:
        """Return a data set."""
        return self._session.scalar(self._select(dataset_id))

    def is_there_for_good(self, dataset_id: str) -> bool:
        """Tell whether a data set is there, after any transaction has ended that might be about to commit it."""
        self._session.execute(text("LOCK TABLE datasets IN SHARE MODE"))
        return self._session.scalar(self._select(dataset_id)) is not None

    def lock_for_use(self, dataset_id: str) -> DatasetRow | None:
        """Return a data set that nobody can delete before this transaction ends."""
        return self._session.scalar(self._select(dataset_id).with_for_update(key_share=True, read=True))

    def lock_for_delete(self, dataset_id: str) -> DatasetRow | None:
        """Return a data set that nobody can start to use before this transaction ends."""
        return self._session.scalar(self._select(dataset_id).with_for_update())

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

    def list(self, cursor: Cursor | None, limit: int) -> Sequence[Row[Any]]:
        """Return up to ``limit + 1`` data sets as lists show them, newest first."""
        statement = select(*_SUMMARY).where(DatasetRow.project_id == self._project_id)
        return self._session.execute(page_of(statement, DatasetRow.created_at, DatasetRow.id, cursor, limit)).all()

    def delete(self, row: DatasetRow) -> None:
        """Delete a data set; jobs and models that came from it stay."""
        owned = delete(DatasetRow).where(DatasetRow.project_id == self._project_id, DatasetRow.id == row.id)
        self._session.execute(owned)

    def _select(self, dataset_id: str) -> Select[DatasetRow]:
        return select(DatasetRow).where(DatasetRow.project_id == self._project_id, DatasetRow.id == dataset_id)
