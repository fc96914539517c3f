"""``Idempotency-Key``: the same key and request make one resource, however often and however fast they are sent."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import orjson
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables import IdempotencyKeyRow
from service.errors import IdempotencyConflict

Row = TypeVar("Row")


def digest(request: Any) -> str:
    """Return the SHA-256 of a request that JSON can say, whatever the order of its members, as hexadecimal digits."""
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


def made_with(session: Session, project_id: str, operation: str, key: str) -> str | None:
    """Return the id of the resource that a key has made, whatever the request was; None if the key is new."""
    row = session.get(IdempotencyKeyRow, (project_id, operation, key))
    return None if row is None else row.resource_id


def find(session: Session, project_id: str, operation: str, key: str | None, request: Any) -> str | None:
    """Return the id of the resource that this key made, or None if the key is new or there is none.

    Raises
    ------
    IdempotencyConflict
        If the key was used with another request.
    """
    row = None if key is None else session.get(IdempotencyKeyRow, (project_id, operation, key))
    return None if row is None else _same_request(row, digest(request))


def claim(
    session: Session, project_id: str, operation: str, key: str | None, request: Any, resource_id: str
) -> str | None:
    """Tie a key, if there is one, to the resource that this transaction is about to make.

    Call it first in the transaction that inserts the resource. Of two requests at once, the second waits at the
    unique index until the first has committed (and then finds its resource) or was rolled back (and then wins).

    Returns
    -------
    str or None
        The id of the resource that the key has made before; None if the resource is to be made.

    Raises
    ------
    IdempotencyConflict
        If the key was used with another request.
    """
    if key is None:
        return None
    values = {"project_id": project_id, "operation": operation, "key": key}
    claimed = insert(IdempotencyKeyRow).values(**values, request_sha256=digest(request), resource_id=resource_id)
    if session.execute(claimed.on_conflict_do_nothing().returning(IdempotencyKeyRow.key)).first() is not None:
        return None
    return _same_request(session.get_one(IdempotencyKeyRow, tuple(values.values())), digest(request))


def existing(row: Row | None, what: str) -> Row:
    """Return what a key has made; raises `IdempotencyConflict` if it is there no more."""
    if row is None:
        raise IdempotencyConflict(f"the {what} that this Idempotency-Key made was deleted; use a new key")
    return row


def _same_request(row: IdempotencyKeyRow, request_sha256: str) -> str:
    if row.request_sha256 != request_sha256:
        raise IdempotencyConflict("this Idempotency-Key was used before with another request; use a new key")
    return row.resource_id
