"""Parameters that many calls take, and how their errors are documented."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query

from service.api.problem import MEDIA_TYPE

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="Any text of your own. The same key with the same request gives the same answer and makes nothing "
        "new; with another request it is refused with 409.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=100, description="Items on the page, at most.")]
CursorText = Annotated[
    str | None, Query(alias="cursor", max_length=512, description="`next_cursor` of the page before.")
]

_REASONS = {
    400: "The request breaks the rules of HTTP or multipart",
    401: "No API key was sent, or it is unknown, revoked or expired",
    403: "The key may not do this, or the project may not store more",
    404: "There is no such thing",
    406: "Not in one of the forms that Accept asks for",
    409: "Not in the present state",
    410: "It was there once",
    413: "Too large",
    415: "Not a type that this call takes",
    422: "The request cannot be used; `errors` names the fields",
    429: "The project has used up its requests, or its places in the queue; try again after `Retry-After` seconds",
    503: "A part that the call needs is away; try again after `Retry-After` seconds",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error answers of a call for its documentation; `openapi` adds what goes without saying."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _REASONS[status], "content": content} for status in statuses}
