"""``Idempotency-Key``: the same key and request make one resource, however often and however fast they are sent."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables import IdempotencyKeyRow
from service.errors import IdempotencyConflict


def digest(request: Any) -> str:
    """Return the SHA-256 of a request that JSON can say, whatever the order of its members, as hexadecimal digits."""
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


def find(session: Session, project_id: str, operation: str, key: str, request_sha256: str) -> str | None:
    """Return the id of the resource that this key made, or None if the key is new.

    Raises
    ------
    IdempotencyConflict
        If the key was used with another request.
    """
    row = session.get(IdempotencyKeyRow, (project_id, operation, key))
    return None if row is None else _same_request(row, request_sha256)


def claim(session: Session, project_id: str, operation: str, key: str, request_sha256: str, resource_id: str) -> str:
    """Tie a key to the resource that this transaction is about to make, or find the one that it has made before.

    Call it first in the transaction that inserts the resource. Of two requests at once, the second waits at the
    unique index until the first has committed (and then finds its resource) or was rolled back (and then wins).

    Returns
    -------
    str
        `resource_id` if the key is new; else the id of the resource that the key made.

    Raises
    ------
    IdempotencyConflict
        If the key was used with another request.
    """
    made = session.execute(
        insert(IdempotencyKeyRow)
        .values(
            project_id=project_id, operation=operation, key=key, request_sha256=request_sha256, resource_id=resource_id
        )
        .on_conflict_do_nothing()
        .returning(IdempotencyKeyRow.resource_id)
    ).scalar_one_or_none()
    if made is not None:
        return made
    row = session.get_one(IdempotencyKeyRow, (project_id, operation, key))
    return _same_request(row, request_sha256)


def _same_request(row: IdempotencyKeyRow, request_sha256: str) -> str:
    if row.request_sha256 != request_sha256:
        raise IdempotencyConflict("this Idempotency-Key was used before with another request; use a new key")
    return row.resource_id
