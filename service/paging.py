"""Cursor paging, newest first, shared by all lists."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, tuple_

from service.errors import InvalidRequest
from service.schemas import Page

MAX_CURSOR_LENGTH = 256
NOT_OURS = "was not made by this service; send `next_cursor` as it came"


@dataclass(frozen=True)
class Cursor:
    """Where a page ends: the last row that was given out."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        """Return the opaque text that the client sends back."""
        text = json.dumps([self.created_at.isoformat(), self.id])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Read what `encode` wrote.

        Raises
        ------
        InvalidRequest
            If the text was not made by this service.
        """
        try:
            if len(text) > MAX_CURSOR_LENGTH:
                raise ValueError
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            created_at, row_id = json.loads(raw)
            time = datetime.fromisoformat(created_at)
            if time.tzinfo is None or not isinstance(row_id, str) or "\0" in row_id or not row_id.isascii():
                raise ValueError
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise InvalidRequest.of("query.cursor", NOT_OURS) from None
        return cls(time, row_id)


Row = TypeVar("Row")
Item = TypeVar("Item")


def page_of(statement: Select[Any], table: Any, cursor: str | None, limit: int) -> Select[Any]:
    """Order a query newest first and cut it to the page after `cursor`, with one row more to see whether it goes on.

    Raises
    ------
    InvalidRequest
        If the cursor was not made by this service.
    """
    if cursor is not None:
        after = Cursor.decode(cursor)
        statement = statement.where(tuple_(table.created_at, table.id) < (after.created_at, after.id))
    return statement.order_by(table.created_at.desc(), table.id.desc()).limit(limit + 1)


def as_page(
    rows: Sequence[Row], limit: int, show: Callable[[Row], Item], key: Callable[[Row], Any] = lambda row: row
) -> Page[Item]:
    """Return a page of what `show` makes of rows, of which there is one more than `limit` if the list goes on.

    `key` returns what a row is ordered by.
    """
    shown = rows[:limit]
    last = key(shown[-1]) if len(rows) > limit else None
    return Page(
        items=[show(row) for row in shown],
        next_cursor=None if last is None else Cursor(last.created_at, last.id).encode(),
    )
