"""What rspamd answers over HTTP, as far as its client and scripts that call it by curl ask for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import h11
import orjson

from service.db.session import AWAY
from service.errors import Problem
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.mailfilter.figures import Figures
from service.mailfilter.filtering import MailFilter
from service.mailfilter.inbound import MOST_SKIPPED, HungUp, Inbound, Mail
from service.mailfilter.verdict import REQUIRED, Verdict, headers_of
from service.predictions.budget import Room

DOOR = "rspamd"
MAX_HEAD = 1 << 14
"""Of a request, in bytes."""
MARKS = ("X-Spam-Flag", "X-Spam-Status", "X-Spam-Score", "X-Spam-Level", "X-Spam-Model")
PATHS = {
    "/ping": ("GET", "HEAD"),
    "/metrics": ("GET", "HEAD"),
    "/checkv2": ("POST",),
    "/learnspam": ("POST",),
    "/learnham": ("POST",),
}


@dataclass(frozen=True)
class Answer:
    """Status, content and its type."""

    status: int
    content: bytes
    type: str = "application/json"
    headers: Sequence[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Request:
    """A request without its body."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]

    def all(self, name: bytes) -> list[str]:
        """Return the values of a header field, named in lower case."""
        return [value.decode("latin-1").strip() for key, value in self.headers if key == name]

    @property
    def user(self) -> str | None:
        """Whose mail it is: to whom it is delivered, or its only recipient. ``User`` is who has sent it, here."""
        for name in (b"deliver-to", b"rcpt"):
            values = self.all(name)
            if values:
                return values[0].strip("<>") if len(values) == 1 else None
        return None


class Rspamd:
    """Serves requests of this kind, one a connection.

    Parameters
    ----------
    mails : MailFilter
    figures : Figures
    tempfail : bool
        Whether to answer with an error where nothing is known of a mail.
    """

    def __init__(self, mails: MailFilter, figures: Figures, *, tempfail: bool) -> None:
        self._mails = mails
        self._figures = figures
        self._tempfail = tempfail

    async def serve(self, inbound: Inbound, first: bytes, writer: asyncio.StreamWriter, room: Room) -> None:
        """Answer the request that begins with a line; raises `HungUp`."""
        inbound.again(first + b"\r\n")
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        try:
            answer = await self._answer(connection, inbound, writer, room)
        except h11.RemoteProtocolError as error:
            answer = _problem(error.error_status_hint, "this is no request of HTTP/1.1")
        head = [
            ("Content-Type", answer.type),
            ("Content-Length", str(len(answer.content))),
            ("Connection", "close"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            reason = HTTPStatus(answer.status).phrase
            told = h11.Response(status_code=answer.status, headers=head, reason=reason.encode())
            writer.write(connection.send(told) or b"")
            if not first.startswith(b"HEAD "):
                writer.write(connection.send(h11.Data(data=answer.content)) or b"")

    async def _answer(
        self, connection: h11.Connection, inbound: Inbound, writer: asyncio.StreamWriter, room: Room
    ) -> Answer:
        event = await _next(connection, inbound, writer)
        if not isinstance(event, h11.Request):
            raise HungUp
        target = event.target.decode("latin-1").partition("?")[0]
        request = Request(event.method.decode("latin-1"), target, list(event.headers))
        refused = _refused(request)
        if refused is not None:
            return refused
        mail = Mail(room)
        while isinstance(event := await _next(connection, inbound, writer), h11.Data):
            mail.add(bytes(event.data))
            if mail.size > MOST_SKIPPED * MAX_MESSAGE_BYTES:
                raise HungUp
        if request.path == "/ping":
            return Answer(200, b"pong\r\n", "text/plain")
        if request.path == "/metrics":
            return Answer(200, self._figures.render(), "text/plain; version=0.0.4; charset=utf-8")
        if request.path == "/checkv2":
            return await self._check(request, mail)
        return await self._learn(request, mail)

    async def _check(self, request: Request, mail: Mail) -> Answer:
        began = time.perf_counter()
        if mail.is_whole:
            verdict = await self._mails.check(mail.raw(), request.user)
        else:
            verdict = Verdict("unknown", reason="too_large" if mail.is_too_large else "busy")
        seconds = time.perf_counter() - began
        self._figures.note(DOOR, verdict, mail.size, seconds)
        if verdict.kind == "unknown" and self._tempfail:
            return _problem(503, f"nothing can be said of this mail ({verdict.reason})", [("Retry-After", "60")])
        return Answer(200, orjson.dumps(told(verdict, seconds)))

    async def _learn(self, request: Request, mail: Mail) -> Answer:
        if not mail.is_whole:
            return _problem(413, f"a mail that is learned may have at most {MAX_MESSAGE_BYTES} bytes")
        try:
            result = await self._mails.learn(mail.raw(), request.user, request.path == "/learnspam")
        except Problem as error:
            self._figures.note_learned(DOOR, "refused" if error.status == 403 else "failed")
            return _problem(error.status, error.detail)
        except AWAY:
            self._figures.note_learned(DOOR, "failed")
            return _problem(503, "the database does not answer")
        self._figures.note_learned(DOOR, result)
        return Answer(200, orjson.dumps({"success": True, "result": result}))


def told(verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Return a verdict as rspamd has it, and below it as we have it."""
    known = verdict.kind != "unknown"
    points = verdict.shown if known else 0.0
    symbol = {
        "name": verdict.symbol,
        "score": points,
        "metric_score": points,
        "description": f"{verdict.kind}, by {verdict.alias}",
        "options": [] if verdict.label is None else [verdict.label],
    }
    fields = [line.partition(": ") for line in "\n".join(headers_of(verdict)).replace("\n\t", " ").split("\n") if line]
    return {
        "is_skipped": not known,
        "score": points,
        "required_score": REQUIRED,
        "action": "add header" if verdict.is_spam else "no action",
        "thresholds": {"add header": REQUIRED},
        "symbols": {verdict.symbol: symbol} if known else {},
        "messages": {},
        "time_real": round(seconds, 6),
        "milter": {
            "remove_headers": dict.fromkeys(MARKS, 0),
            "add_headers": {name: {"value": value, "order": 0} for name, _, value in fields},
        },
        "verdict": verdict.kind,
        "reason": verdict.reason,
        "model": verdict.model,
        "label": verdict.label,
        "svm_score": verdict.score,
        "svm_threshold": verdict.threshold,
        "probability": verdict.probability,
        "truncated": verdict.truncated,
    }


async def _next(connection: h11.Connection, inbound: Inbound, writer: asyncio.StreamWriter) -> Any:
    while (event := connection.next_event()) is h11.NEED_DATA:
        if connection.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            writer.write(connection.send(go_on) or b"")
        connection.receive_data(await inbound.chunk())
    if isinstance(event, h11.ConnectionClosed):
        raise HungUp
    return event


def _refused(request: Request) -> Answer | None:
    """Return the answer to a request that is none of ours, before its body is read."""
    if request.all(b"origin"):
        return _problem(403, "pages of browsers may not call this service")
    methods = PATHS.get(request.path)
    if methods is None:
        return _problem(404, f"there are {', '.join(PATHS)}")
    if request.method not in methods:
        return _problem(405, f"{request.path} takes {' and '.join(methods)}", [("Allow", ", ".join(methods))])
    return None


def _problem(status: int, error: str, headers: Sequence[tuple[str, str]] = ()) -> Answer:
    return Answer(status, orjson.dumps({"error": error}), headers=headers)
