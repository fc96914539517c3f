"""``POST /v1/chat/completions``, for add-ons of mail clients that ask a language model whether a mail is spam.

There is no language model here. What is answered are the words that such an add-on reads (ThunderAI's are the JSON
``{"spamValue": …, "explanation": …}``) with the verdict that every door gives. What stands in a mail is counted, and
nothing in it is an instruction to anybody.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

import orjson
from anyio import to_thread

from service.ingest.mail import MAX_MESSAGE_BYTES
from service.json_sizes import TooManyValuesError
from service.mailfilter.counted import CountedFilter
from service.mailfilter.http_exchange import SMALL, HttpAnswer, HttpRequest, Paths, json_answer, json_in
from service.mailfilter.inbound import IncomingMail
from service.mailfilter.verdict import HIGHEST, LOWEST, REQUIRED, MailVerdict

DOOR = "chat"
HAM_AT_MOST, UNSURE, SPAM_AT_LEAST = 45, 50, 75
"""Of 100. ThunderAI calls spam what has its threshold and more, 70 unless its user changes that."""
_FIELD = re.compile(r"(?im)^(?:subject|from|to|date|cc|reply-to)[ \t]*:")
_BREAKS = re.compile(r"\r\n?")


class Chat:
    """Answers add-ons.

    Parameters
    ----------
    mails : CountedFilter
    alias : str
        What the one model is called.
    tempfail : bool
        Whether to answer with an error where nothing is known of a mail.
    """

    most_bytes = MAX_MESSAGE_BYTES
    is_for_addons = True

    def __init__(self, mails: CountedFilter, alias: str, *, tempfail: bool) -> None:
        self.paths: Paths = {"/v1/chat/completions": ("POST",), "/v1/models": ("GET",)}
        self._mails = mails
        self._alias = alias
        self._tempfail = tempfail

    async def answer(self, request: HttpRequest, mail: IncomingMail) -> HttpAnswer:
        """Answer a request of an add-on."""
        if request.path == "/v1/models":
            model = {"id": self._alias, "object": "model", "created": 0, "owned_by": "prefsvm"}
            return json_answer(200, {"object": "list", "data": [model]})
        body = mail.raw()
        said, raw = _read(body) if len(body) <= SMALL else await to_thread.run_sync(_read, body)
        if mail.is_whole and raw is None:
            return _error(400, "expected JSON with messages, the last of which the role user has, with a text")
        verdict, _ = await self._mails.check(DOOR, mail, None, raw)
        if self._tempfail and verdict.may_be_tried_again:
            return _error(503, f"nothing can be said of this mail ({verdict.reason})")
        return completion(self._alias, words(verdict), streamed=isinstance(said, dict) and said.get("stream") is True)


def _read(body: bytes) -> tuple[Any, bytes | None]:
    """Return what a body says, and the mail that it asks about."""
    try:
        said = json_in(body)
    except TooManyValuesError:
        said = None
    text = asked_about(said)
    return said, None if text is None else mail_in(text)


def asked_about(said: Any) -> str | None:
    """Return the text of the last message of the user; None if there is none."""
    messages = said.get("messages") if isinstance(said, dict) else None
    if not isinstance(messages, list):
        return None
    for message in reversed(messages):
        if not isinstance(message, dict) or message.get("role") != "user":
            continue
        content = message.get("content")
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
            content = "\n".join(text for text in texts if isinstance(text, str))
        return content if isinstance(content, str) and content.strip() else None
    return None


def mail_in(text: str) -> bytes:
    """Return the mail in what a user asks: what begins with the first line that a header field begins, or all of it."""
    text = _BREAKS.sub("\n", text)
    found = _FIELD.search(text)
    return (text[found.start() :] if found else f"\n{text}").encode()


def words(verdict: MailVerdict) -> str:
    """Return a verdict in the words that ThunderAI reads."""
    points = verdict.shown if verdict.kind != "unknown" else 0.0
    match verdict.kind:
        case "spam":
            value = SPAM_AT_LEAST + round((100 - SPAM_AT_LEAST) * (points - REQUIRED) / (HIGHEST - REQUIRED))
        case "ham":
            value = max(0, round(HAM_AT_MOST * (points - LOWEST) / (REQUIRED - LOWEST)))
        case "unsure":
            value = UNSURE
        case _:
            value = 0
    if verdict.kind == "unknown":
        why = f"nothing can be said of this mail ({verdict.reason})"
    else:
        why = f"{verdict.kind}, {points:.1f} points where {REQUIRED:.1f} are spam, by {verdict.alias}"
    return orjson.dumps({"spamValue": value, "explanation": why}).decode()


def completion(alias: str, content: str, *, streamed: bool) -> HttpAnswer:
    """Return an answer as OpenAI's service has it, whole or as a stream of one piece."""
    common = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": alias}
    if not streamed:
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return json_answer(200, common | {"object": "chat.completion", "choices": [choice], "usage": usage})
    deltas = [({"role": "assistant", "content": content}, None), ({}, "stop")]
    pieces = [
        common | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]
    lines = b"".join(b"data: " + orjson.dumps(piece) + b"\n\n" for piece in pieces)
    return HttpAnswer(200, lines + b"data: [DONE]\n\n", "text/event-stream")


def _error(status: int, message: str) -> HttpAnswer:
    return json_answer(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})
