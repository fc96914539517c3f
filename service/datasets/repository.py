"""All SQL about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    except_,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, JSONPATH

from service.datasets.errors import DatasetNotFound
from service.db.repository import ResourceRepository
from service.db.tables import AuditRow, DatasetRow, JobRow, ModelRow
from service.paging import page_of

_COLUMN_COUNT = func.jsonb_array_length(DatasetRow.columns).label("column_count")
_ALL_BUT_COLUMNS = [column for column in DatasetRow.__table__.columns if column.name != "columns"]
_EACH = (
    func.jsonb_array_elements(DatasetRow.columns)
    .table_valued("told", with_ordinality="place", joins_implicitly=True)
    .render_derived()
)
_TOLD = type_coerce(_EACH.c.told, JSONB)
_VALUE_COUNT = func.jsonb_array_length(
    func.jsonb_path_query_array(_TOLD["values"], cast("$.keyvalue()", JSONPATH), cast({}, JSONB), True)
)
_NAMES_OF_LABELS = r"^\W*(y|class(es)?|(\w*[\W_])?(labels?|targets?)([\W_]\w*)?)\W*$"
"""What columns of labels are called, such as ``label``, ``is_target`` and ``Class``."""
_SUMMARY = (
    *(DatasetRow.id, DatasetRow.name, DatasetRow.format, DatasetRow.layout),
    *(DatasetRow.bytes, DatasetRow.sha256, DatasetRow.rows, DatasetRow.created_at),
    _COLUMN_COUNT,
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

    def insert(self, row: DatasetRow) -> None:
        """Insert a row without reading back what is known of its columns."""
        self._session.add(row)
        self._session.flush()

    def profile(self, dataset_id: str, first: int, count: int) -> Row[Any] | None:
        """Return a data set with some of its columns, and how many it has as ``column_count``; None if there is none.

        What is known of fifty thousand columns takes hundreds of megabytes here, so it stays in the database.
        """
        if not self._may_be(dataset_id):
            return None
        window = cast(f"$[{first} to {first + count - 1}]", JSONPATH)
        columns = func.jsonb_path_query_array(DatasetRow.columns, window, type_=JSONB).label("columns")
        statement: Select[Any] = select(*_ALL_BUT_COLUMNS, columns, _COLUMN_COUNT)
        found: Row[Any] | None = self._session.execute(statement.where(self._mine(dataset_id))).one_or_none()
        return found

    def column_names(self, dataset_id: str) -> Sequence[str]:
        """Return the names of all columns of a data set."""
        return self._session.scalars(self._of_each(dataset_id, _TOLD["name"].astext)).all()

    def columns_named(self, dataset_id: str, names: Sequence[str]) -> Sequence[dict[str, Any]]:
        """Return what is known of the columns of these names, in the order of the file."""
        possible = [name for name in names if "\0" not in name]  # Postgres refuses it in a text; no column has it
        wanted = _TOLD["name"].astext == any_(literal(possible, ARRAY(Text)))
        statement = self._of_each(dataset_id, _TOLD).where(wanted)
        return self._session.scalars(statement.order_by(_EACH.c.place)).all()

    def likely_targets(self, dataset_id: str, most: int) -> Sequence[dict[str, Any]]:
        """Return some of the columns that may hold labels, those that look most like it first.

        Of those with few different values first one that is called so, then one that half of the rows or more have no
        value in, as labels are few, then one of two values, then one with many gaps, then the last of the file. What
        holds no labels comes last.
        """
        values, missing = func.coalesce(_VALUE_COUNT, 0), func.coalesce(_TOLD["missing"].as_integer(), 0)
        holds_none = or_(
            _TOLD["kind"].astext.in_(("text", "date", "vector")),
            _TOLD["identifier"].astext.isnot(None),
            func.coalesce(_TOLD["constant"].as_boolean(), False),
        )
        unlike = (
            func.coalesce(holds_none, False),
            values == 0,  # very many, or none
            _TOLD["name"].astext.regexp_match(_NAMES_OF_LABELS, "i").is_(False),
            2 * missing < DatasetRow.rows,
            values != 2,
            10 * missing < DatasetRow.rows,
            _EACH.c.place != func.jsonb_array_length(DatasetRow.columns),
        )
        statement = self._of_each(dataset_id, _TOLD).order_by(*unlike, _EACH.c.place)
        return self._session.scalars(statement.limit(most)).all()

    def _of_each(self, dataset_id: str, told: ColumnElement[Any]) -> Select[Any]:
        return select(told).select_from(DatasetRow, _EACH).where(self._mine(dataset_id))

    def is_there_for_good(self, dataset_id: str) -> bool:
        """Tell whether a data set is there, after any transaction has ended that might be about to commit it."""
        self._session.execute(text("LOCK TABLE datasets IN SHARE MODE"))
        return self.profile(dataset_id, 0, 1) is not None

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
