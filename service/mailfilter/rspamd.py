"""What rspamd answers over HTTP, as far as its client and scripts that call it by curl ask for it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from service.ingest.mail import MAX_MESSAGE_BYTES
from service.mailfilter.counted import CountedFilter, NotLearned
from service.mailfilter.http_exchange import HttpAnswer, HttpRequest, Paths, json_answer, problem
from service.mailfilter.inbound import IncomingMail
from service.mailfilter.verdict import REQUIRED, MailVerdict, fields_of
from solver.corrections import PERSON

DOOR = "rspamd"
MARKS = ("X-Spam-Flag", "X-Spam-Status", "X-Spam-Score", "X-Spam-Level", "X-Spam-Model")


class Rspamd:
    """Answers rspamd's clients.

    Parameters
    ----------
    mails : CountedFilter
    tempfail : bool
        Whether to answer with an error where nothing is known of a mail.
    """

    most_bytes = MAX_MESSAGE_BYTES
    is_for_addons = False

    def __init__(self, mails: CountedFilter, *, tempfail: bool) -> None:
        self.paths: Paths = dict.fromkeys(("/checkv2", "/learnspam", "/learnham"), ("POST",))
        self._mails = mails
        self._tempfail = tempfail

    async def answer(self, request: HttpRequest, mail: IncomingMail) -> HttpAnswer:
        """Decide on a mail, or learn it."""
        if request.path == "/checkv2":
            return await self._check(request, mail)
        inner = parse_qs(request.query).get("learn_attachments") == ["true"]
        try:
            is_spam = request.path == "/learnspam"
            result = await self._mails.learn(DOOR, mail, _user(request), is_spam, _source(request), attached=inner)
        except NotLearned as error:
            return problem(error.status, error.detail, [("Retry-After", "60")] if error.status == 503 else [])
        when = {} if result == "ignored" else {"takes_effect": "the next training learns from it"}
        return json_answer(200, {"success": True, "result": result, **when})

    async def _check(self, request: HttpRequest, mail: IncomingMail) -> HttpAnswer:
        verdict, seconds = await self._mails.check(DOOR, mail, _user(request), mail.raw())
        if self._tempfail and verdict.may_be_tried_again:
            return problem(503, f"nothing can be said of this mail ({verdict.reason})", [("Retry-After", "60")])
        return json_answer(200, told(verdict, seconds))


def told(verdict: MailVerdict, seconds: float) -> dict[str, Any]:
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
            "add_headers": {name: {"value": value, "order": 0} for name, value in fields_of(verdict)},
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


def _source(request: HttpRequest) -> str:
    """Return who says what a mail is; somebody, unless it is concluded."""
    return next(iter(request.all(b"learn-source")), PERSON).lower()


def _user(request: HttpRequest) -> str | None:
    """Return whose mail it is: to whom it is delivered, or its only recipient. ``User`` is who has sent it, here."""
    for name in (b"deliver-to", b"rcpt"):
        values = request.all(name)
        if values:
            return values[0].strip("<>") if len(values) == 1 else None
    return None
