"""JSON bodies: read with a limit, parsed strictly. The route class that all JSON routes use."""

from __future__ import annotations

import asyncio
import email.message
import json
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.api.headers import header
from service.api.problem import BodyStalled, ContentTooLarge, InvalidJson, UnsupportedMediaType
from service.json_names import has_repeated_names
from service.json_sizes import MOST_SMALL_BYTES, is_mostly_brackets
from service.leaving import Gone
from service.predictions.budget import HeldMemory

STALLED_SECONDS = 30.0
"""So long the next part of a body may take to come, as in deploy/nginx.conf: a client that is cut off says no word, and
would hold the memory for its body until the process ends."""


class JsonRoute(APIRoute):
    """A route whose body, if it has one, is JSON of at most ``app.state.max_body_bytes``.

    The bodies of all such requests that are being served share the memory of ``app.state.body_budget``.

    The parser refuses what `json.loads` takes and Postgres or JSON cannot give back: NaN, infinities, numbers beyond
    double, lone surrogates, more than 1,024 levels, NUL in strings, and a name that is twice in one object.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the body read and checked before it."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def read_then_handle(request: Request) -> Response:
            with self.memory(request) as memory:
                return await handle(await _ReadRequest.of(request, memory))

        return read_then_handle

    def memory(self, request: Request) -> HeldMemory:
        """Return where the memory for the body of a request is held."""
        return HeldMemory(request.app.state.body_budget)


class _ReadRequest(Request):
    """A request whose body has been read and parsed."""

    _raw: bytes
    _parsed: Any

    @classmethod
    async def of(cls, request: Request, memory: HeldMemory) -> _ReadRequest:
        read = cls(request.scope, request.receive)
        read._raw = await read_limited(request, request.app.state.max_body_bytes, memory.grow)
        read._parsed = parse_body(read._raw, request.headers.get("content-type", ""))
        return read

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._parsed


def parse_body(raw: bytes, content_type: str) -> Any:
    """Return the JSON value of a body, None if it is empty; raises `UnsupportedMediaType`, `InvalidJson`."""
    if not raw:
        return None
    if not is_json(content_type):
        raise UnsupportedMediaType("this call takes Content-Type: application/json")
    return parse_json(raw)


def is_json(content_type: str) -> bool:
    """Tell whether a Content-Type is ``application/json`` or ``application/…+json``."""
    if content_type == "application/json":  # what nearly all send, without the work below
        return True
    message = email.message.Message()
    message["content-type"] = content_type
    subtype = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))


def declared_length(request: Request) -> int | None:
    """Return the Content-Length of a request, or None if it has none that makes sense."""
    declared = header(request.scope, b"content-length")
    return int(declared) if declared.isascii() and declared.isdecimal() and len(declared) < 20 else None


def until_gone(request: Request) -> Gone:
    """Return what waits until whoever sent a request, which is read, has hung up."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone


async def read_limited(request: Request, limit: int, received: Callable[[int], None] | None = None) -> bytes:
    """Return the body of a request.

    Parameters
    ----------
    request : Request
    limit : int
        Bytes.
    received : callable, optional
        Called with the bytes that the body has as soon as that many are known to come, and again whenever more came.

    Raises
    ------
    ContentTooLarge
        As soon as the body is known to have more than `limit` bytes.
    BodyStalled
        If the next part of it does not come.
    """
    declared = declared_length(request) or 0
    if declared > limit:
        raise ContentTooLarge(_too_large(limit))
    if received is not None:
        received(declared)
    parts = bytearray()
    more = True
    while more:
        # So few bytes come in one part with their head, nearly always, and are not worth a timer.
        is_small = not parts and declared <= MOST_SMALL_BYTES
        message = await (request.receive() if is_small else _next_part(request))
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        if len(parts) + len(chunk) > limit:
            raise ContentTooLarge(_too_large(limit))
        if not more and not parts:
            return chunk  # all of it at once, as most bodies come
        parts += chunk
        if received is not None:
            received(len(parts))
    return bytes(parts)


async def _next_part(request: Request) -> Message:
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            return await request.receive()
    except TimeoutError:
        message = f"no further part of the body came within {STALLED_SECONDS:g} s"
        raise BodyStalled(message, headers={"Connection": "close"}) from None


def _too_large(limit: int) -> str:
    return f"a body of this call may have at most {limit} bytes"


def parse_json(raw: bytes, field: str = "body") -> Any:
    """Parse JSON that must be usable everywhere; `field` is where it came from, for the error.

    Raises
    ------
    InvalidJson
        With the place, not the text, of what is wrong.
    """
    if len(raw) > MOST_SMALL_BYTES and is_mostly_brackets(raw):
        raise InvalidJson.of(field, "too many lists or objects within others")
    try:
        value = orjson.loads(raw)
    except json.JSONDecodeError as error:
        # orjson's messages name what it expected and where, never what it read.
        raise InvalidJson.of(field, str(error)) from None
    if b"\\u0000" in raw and _has_nul(value):
        raise InvalidJson.of(field, "a text holds the character NUL (U+0000), which cannot be stored")
    try:
        repeated = has_repeated_names(raw, value)
    except RecursionError:
        raise InvalidJson.of(field, "too many levels") from None
    if repeated:
        raise InvalidJson.of(field, "an object has the same name twice; expected each name once")
    return value


def _has_nul(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False
