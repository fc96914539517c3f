"""HTTP as mail software speaks it: a request a connection, read with limits, and an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import h11
import orjson

from service.ingest.mail import MAX_MESSAGE_BYTES
from service.json_sizes import TooManyValuesError, has_more_values_than
from service.mailfilter.inbound import MOST_SKIPPED, HungUp, Inbound, IncomingMail

MAX_HEAD = 1 << 14
"""Of a request, in bytes."""
MAX_CHUNKS = 1 << 14
"""Of a body that is sent in chunks: as many as 10 MiB have of 640 bytes each. Programs send thousands at a time."""
MAX_VALUES = 200_000
"""In JSON, three for a header field: bytes that are one value each would take some thirty times as much memory."""
SMALL = 1 << 18
"""Bytes of a request that are read on the event loop."""
IN_ONE_GO = 64
"""Chunks that are taken before other connections have their turn."""
MOST_REASON = 200
"""Characters of what the first line of an answer says is wrong."""
JSON = "application/json"
Paths = dict[str, tuple[str, ...]]
"""Methods by path; a path that ends with a slash stands for all that begin with it."""


class TooManyChunks(Exception):  # noqa: N818 (nothing is wrong here)
    """A body is sent in pieces of a few bytes, each of which costs as much as a large one."""


@dataclass(frozen=True)
class HttpAnswer:
    """Status, content and its type."""

    status: int
    content: bytes
    type: str = JSON
    headers: Sequence[tuple[str, str]] = field(default_factory=list)
    reason: str | None = None
    """Said in the first line instead of what the standard calls the status: all that `rspamc` shows of an error."""


@dataclass(frozen=True)
class HttpRequest:
    """A request without its body."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    query: str = ""

    def all(self, name: bytes) -> list[str]:
        """Return the values of a header field, named in lower case."""
        return [value.decode("latin-1").strip() for key, value in self.headers if key == name]

    @property
    def content_type(self) -> str:
        """Type of the body in lower case, without parameters; empty if it is not said."""
        said = self.all(b"content-type")
        return said[0].partition(";")[0].strip().lower() if said else ""


def json_answer(status: int, body: Any, headers: Sequence[tuple[str, str]] = ()) -> HttpAnswer:
    """Return an answer in JSON."""
    return HttpAnswer(status, orjson.dumps(body), headers=headers)


def problem(status: int, error: str, headers: Sequence[tuple[str, str]] = ()) -> HttpAnswer:
    """Return an answer that says what is wrong."""
    return HttpAnswer(status, orjson.dumps({"error": error}), headers=headers, reason=_first_line(error))


def _first_line(text: str) -> str:
    """Return what of a text the first line of an answer may hold."""
    return "".join(each for each in text if " " <= each <= "~")[:MOST_REASON]


class Exchange:
    """One request and its answer, on one connection.

    Parameters
    ----------
    inbound : Inbound
        Whose first line was read already.
    first : bytes
        That line.
    writer : asyncio.StreamWriter
    """

    def __init__(self, inbound: Inbound, first: bytes, writer: asyncio.StreamWriter) -> None:
        inbound.again(first + b"\r\n")
        self._inbound = inbound
        self._writer = writer
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._is_head = first.startswith(b"HEAD ")

    async def request(self) -> HttpRequest:
        """Return the request; raises `HungUp`, `h11.RemoteProtocolError`."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            raise HungUp
        path, _, query = event.target.decode("latin-1").partition("?")
        return HttpRequest(event.method.decode("latin-1"), path, list(event.headers), query)

    async def body(self, mail: IncomingMail) -> None:
        """Read the body into `mail`; raises `HungUp`, `h11.RemoteProtocolError`, `TooManyChunks`."""
        chunks = taken = 0
        while isinstance(event := await self._next(), h11.Data):
            mail.add(bytes(event.data))
            chunks += event.chunk_start
            taken += 1
            if chunks > MAX_CHUNKS:
                raise TooManyChunks
            if mail.size > MOST_SKIPPED * MAX_MESSAGE_BYTES:
                raise HungUp
            if taken % IN_ONE_GO == 0:
                await asyncio.sleep(0)

    def send(self, answer: HttpAnswer) -> None:
        """Write an answer, if one is still to be had."""
        if self._connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        head = [
            ("Content-Length", str(len(answer.content))),
            ("Connection", "close"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        if answer.status == HTTPStatus.NO_CONTENT:
            del head[0]  # which has none
        else:
            head.insert(0, ("Content-Type", answer.type))
        reason = answer.reason or HTTPStatus(answer.status).phrase
        told = h11.Response(status_code=answer.status, headers=head, reason=reason.encode())
        self._writer.write(self._connection.send(told) or b"")
        if answer.content and not self._is_head:
            self._writer.write(self._connection.send(h11.Data(data=answer.content)) or b"")

    async def _next(self) -> Any:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            if self._connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._connection.send(go_on) or b"")
            self._connection.receive_data(await self._inbound.chunk())
        if isinstance(event, h11.ConnectionClosed):
            raise HungUp
        return event


def json_in(raw: bytes) -> Any:
    """Return the value of a JSON text, None if it is none; raises `TooManyValuesError` above `MAX_VALUES`."""
    if has_more_values_than(MAX_VALUES, raw):
        raise TooManyValuesError
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
