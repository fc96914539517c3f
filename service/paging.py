"""Cursor paging, newest first, shared by all lists."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from service.errors import InvalidRequest

MAX_CURSOR_LENGTH = 256
NOT_OURS = "was not made by this service; send `next_cursor` as it came"


class Created(Protocol):
    """A row that a list can be ordered by."""

    @property
    def id(self) -> Any:
        """Its id."""

    @property
    def created_at(self) -> Any:
        """When it was made."""


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


def page_of(
    statement: Select[Any],
    created_at: InstrumentedAttribute[datetime],
    row_id: InstrumentedAttribute[str],
    cursor: Cursor | None,
    limit: int,
) -> Select[Any]:
    """Order a query newest first and cut it to the page after `cursor`, with one row more to see whether it goes on."""
    if cursor is not None:
        statement = statement.where(tuple_(created_at, row_id) < (cursor.created_at, cursor.id))
    return statement.order_by(created_at.desc(), row_id.desc()).limit(limit + 1)


def next_cursor(rows: Sequence[Row], limit: int, key: Callable[[Row], Created]) -> str | None:
    """Return the cursor of the page after these rows, or None if `rows` (one more than `limit` asked) was the last."""
    if len(rows) <= limit:
        return None
    last = key(rows[limit - 1])
    return Cursor(last.created_at, last.id).encode()
