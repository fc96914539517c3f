"""What the repositories of the resources share: rows that belong to one project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import ColumnElement, CursorResult, and_, delete, select
from sqlalchemy.orm import Session

from service.db.tables import Base
from service.errors import NotFound
from service.identifiers import Prefix, is_id
from service.paging import page_of

Row = TypeVar("Row", bound=Base)


class Repository:
    """Rows of one project, in the transaction of `session`."""

    def __init__(self, session: Session, project_id: str) -> None:
        self._session = session
        self._project_id = project_id

    def _stored(self, row: Row) -> Row:
        """Insert a row, and return it as the database has it."""
        self._session.add(row)
        self._session.flush()
        self._session.refresh(row)
        return row

    def _changes_one(self, statement: Any) -> bool:
        """Run an update or a delete, and tell whether there was a row for it."""
        changed: CursorResult[Any] = self._session.execute(statement)  # type: ignore[assignment]
        return changed.rowcount == 1


class ResourceRepository(Repository, Generic[Row]):
    """Rows of one table that have ids.

    A subclass names the table, how its ids begin, and what is raised where nothing has an id.
    """

    table: ClassVar[Any]
    prefix: ClassVar[Prefix]
    not_found: ClassVar[type[NotFound]]

    def add(self, row: Row) -> Row:
        """Insert a row, and return it as the database has it."""
        return self._stored(row)

    def get(self, row_id: str) -> Row | None:
        """Return a row; None if there is none, as of a text that is no id at all."""
        return self._find(row_id)

    def require(self, row_id: str) -> Row:
        """Return a row; raises `not_found`."""
        return self.found(self.get(row_id))

    def found(self, row: Row | None) -> Row:
        """Return a row that was looked for; raises `not_found`."""
        if row is None:
            raise self.not_found
        return row

    def list(self, cursor: str | None, limit: int, **wanted: str | None) -> Sequence[Row]:
        """Return up to ``limit + 1`` rows after `cursor`, newest first, that have the values of `wanted`, by column.

        Raises
        ------
        InvalidRequest
            If the cursor was not made by this service.
        """
        given = {name: value for name, value in wanted.items() if value is not None}
        statement = select(self.table).where(self._mine()).filter_by(**given)
        return self._session.scalars(page_of(statement, self.table, cursor, limit)).all()

    def delete(self, row_id: str) -> bool:
        """Delete a row; False if there is none of this id."""
        return self._may_be(row_id) and self._changes_one(delete(self.table).where(self._mine(row_id)))

    def _find(self, row_id: str, lock: Mapping[str, Any] | None = None) -> Row | None:
        """Return a row, locked with these options of `Select.with_for_update` if there are any."""
        if not self._may_be(row_id):
            return None
        statement = select(self.table).where(self._mine(row_id))
        row: Row | None = self._session.scalar(statement if lock is None else statement.with_for_update(**lock))
        return row

    def _may_be(self, row_id: str) -> bool:
        """Tell whether a text has the form of an id: another one is unknown without asking the database."""
        return is_id(row_id, self.prefix)

    def _mine(self, row_id: str | None = None) -> ColumnElement[bool]:
        """Return the condition that a row is of the project, and has this id if one is given."""
        mine: ColumnElement[bool] = self.table.project_id == self._project_id
        return mine if row_id is None else and_(mine, self.table.id == row_id)
