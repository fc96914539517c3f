"""MTA Hooks: a mail system asks over HTTP what to do with a mail that it is about to take.

Two forms of it: that of draft-degennaro-mta-hooks-01 (May 2026), in JSON or CBOR, with its discovery and registration;
and that which Stalwart has shipped up to 0.16, where one address is asked without either. Both come to the same path,
and a request says itself which it is of. No request gets an error for its content: mail systems defer a mail then.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from anyio import to_thread

from service.ingest.mail import MAX_MESSAGE_BYTES
from service.json_sizes import TooManyValuesError
from service.mailfilter import cbor
from service.mailfilter.counted import CountedFilter
from service.mailfilter.http_exchange import SMALL, HttpAnswer, HttpRequest, Paths, json_answer, json_in
from service.mailfilter.inbound import IncomingMail
from service.mailfilter.marking import split
from service.mailfilter.verdict import MailVerdict, Reason, fields_of

DOOR = "mta-hooks"
VERSION = "1.0"
"""Of the protocol, as the draft has it."""
DISCOVERY = "/.well-known/mta-hooks"
HOOK = "/mta-hooks"
REGISTRATIONS = "/mta-hooks/registrations"
CBOR = "application/cbor"
STAGE = "data"
PROPERTIES = ("/stage", "/action", "/timestamp", "/protocol", "/rawMessage", "/envelope", "/queue", "/client")
"""What may be sent of a mail. Looked at are stage, message and envelope; some scanners' clients want all confirmed."""
MOST_MARKS = 500
"""Fields of the sender's that are taken out: mail systems take so many changes, and no mail in earnest has more."""
MOST_LINES = 20_000
"""Lines of a header that are looked at for them."""
_LINE = re.compile(rb"(?:\A|(?<=\n))([^ \t\r\n:][^\r\n:]*)[^\n]*")
_TIMEOUT_MS = 2000


class HookRequest(NamedTuple):
    """What a request asks."""

    is_draft: bool
    raw: bytes | None
    user: str | None
    marks: Sequence[tuple[int, str, int]] = ()
    """Fields ``X-Spam-…`` of the sender: place in the header from 0, name, and the how-manieth of this name from 1."""
    is_crowded: bool = False
    """Whether it was not read, as it holds too many values: there may be a mail in it."""


class MtaHooks:
    """Answers hooks.

    Parameters
    ----------
    mails : CountedFilter
    tempfail : bool
        Whether to have a mail tried again where nothing is known of it.
    """

    most_bytes = MAX_MESSAGE_BYTES * 4 // 3 + (1 << 20)
    is_for_addons = False

    def __init__(self, mails: CountedFilter, *, tempfail: bool) -> None:
        self.paths: Paths = {
            DISCOVERY: ("GET", "HEAD"),
            HOOK: ("POST",),
            REGISTRATIONS: ("POST",),
            f"{REGISTRATIONS}/": ("GET", "DELETE"),
        }
        self._mails = mails
        self._tempfail = tempfail

    async def answer(self, request: HttpRequest, mail: IncomingMail) -> HttpAnswer:
        """Answer a request of the protocol."""
        if request.path == DISCOVERY:
            return json_answer(200, discovery())
        if request.path == REGISTRATIONS:
            return _registered(mail)
        if request.path != HOOK:
            return _registration(request)
        is_cbor = request.content_type == CBOR
        body = mail.raw()
        if len(body) > SMALL:
            asked = await to_thread.run_sync(asked_by, body, is_cbor)
        else:
            asked = asked_by(body, is_cbor)
        missing: Reason = "too_many_values" if asked.is_crowded else "no_mail"
        verdict, _ = await self._mails.check(DOOR, mail, asked.user, asked.raw, missing)
        if not asked.is_draft:
            return json_answer(200, stalwarts(verdict, asked, tempfail=self._tempfail))
        said = operations(verdict, asked, tempfail=self._tempfail)
        if not said:
            return HttpAnswer(204, b"")
        return HttpAnswer(200, cbor.dumps(said), CBOR) if is_cbor else json_answer(200, said)


def discovery() -> dict[str, Any]:
    """Return what is offered, as the draft has it."""
    inbound = {
        "stages": [STAGE],
        "fetchProperties": list(PROPERTIES),
        "actions": ["accept", "reject"],
        "updateProperties": ["/action", "/response", "/message/headers"],
    }
    return {
        "version": VERSION,
        "endpoints": {"registration": REGISTRATIONS, "deregistration": f"{REGISTRATIONS}/{{registration_id}}"},
        "serialization": ["json", "cbor"],
        "capabilities": {"inbound": inbound},
        "limits": {"maxMessageSize": MAX_MESSAGE_BYTES, "timeoutMs": _TIMEOUT_MS},
    }


def asked_by(body: bytes, is_cbor: bool) -> HookRequest:
    """Return what a request asks; of what cannot be read, nothing. Raises nothing."""
    try:
        said = cbor.loads(body) if is_cbor else json_in(body)
    except TooManyValuesError:
        return HookRequest(is_draft=True, raw=None, user=None, is_crowded=True)
    except cbor.CborError:
        said = None
    if not isinstance(said, dict):
        return HookRequest(is_draft=True, raw=None, user=None)
    user = _only_recipient(said.get("envelope"))
    if isinstance(said.get("context"), dict):
        headers, raw = _parts(said.get("message"))
        return HookRequest(False, raw, user, _marks(name for name, _ in headers))
    raw = _bytes(said.get("rawMessage")) if said.get("stage", STAGE) == STAGE else None
    return HookRequest(True, raw, user, _marks(_names(raw)) if raw else ())


def operations(verdict: MailVerdict, asked: HookRequest, *, tempfail: bool) -> dict[str, list[dict[str, Any]]]:
    """Return what to change, as the draft has it; nothing if nothing is to be."""
    if tempfail and verdict.may_be_tried_again:
        told = {"code": 451, "enhancedCode": "4.7.1", "message": _why(verdict)}
        return {"set": [{"path": "/action", "value": "reject"}, {"path": "/response", "value": told}]}
    # Behind the fields that are there, so that those keep their places; the last of these goes first.
    adds = [{"path": "/message/headers", "value": {"name": n, "value": v}} for n, v in fields_of(verdict)]
    deletes = [{"path": f"/message/headers/{place}"} for place, _, _ in reversed(asked.marks)]
    return ({"add": adds} if adds else {}) | ({"delete": deletes} if deletes else {})


def stalwarts(verdict: MailVerdict, asked: HookRequest, *, tempfail: bool) -> dict[str, Any]:
    """Return what to do, in Stalwart's own form."""
    if tempfail and verdict.may_be_tried_again:
        status = {"enhancedStatus": "4.7.1", "enhanced_status": "4.7.1"}  # documented, and read
        return {"action": "reject", "response": {"status": 451, "message": _why(verdict), **status}}
    deletes = [{"type": "deleteHeader", "index": nth, "name": name} for _, name, nth in reversed(asked.marks)]
    adds = [{"type": "addHeader", "name": name, "value": value} for name, value in fields_of(verdict)]
    return {"action": "accept", "modifications": deletes + adds}


def _registered(mail: IncomingMail) -> HttpAnswer:
    """Answer a registration. None is kept: who has one, or had one before a restart, is served all the same."""
    raw = mail.raw()
    try:
        said = json_in(raw) if len(raw) <= SMALL else None
    except TooManyValuesError:
        said = None
    inbound = said.get("inbound") if isinstance(said, dict) else None
    stages = inbound.get("stages") if isinstance(inbound, dict) else None
    if not isinstance(said, dict) or not isinstance(inbound, dict) or not isinstance(stages, list):
        return _error(400, "INVALID_REQUEST", "expected JSON with inbound.stages")
    wanted = inbound.get("properties") or list(PROPERTIES)
    if STAGE not in stages or not isinstance(wanted, list) or "/rawMessage" not in wanted:
        return _error(422, "UNSUPPORTED_CAPABILITY", "expected the stage data, with the property /rawMessage")
    serialization = said.get("serialization", "json")
    if serialization not in ("json", "cbor"):
        return _error(422, "UNSUPPORTED_CAPABILITY", "serialization: expected json or cbor")
    identifier = uuid.uuid4().hex
    here = f"{REGISTRATIONS}/{identifier}"
    negotiated = {
        "serialization": serialization,
        "inbound": {"stages": [STAGE], "properties": [each for each in PROPERTIES if each in wanted]},
        "outbound": None,
    }
    told = {
        "registrationId": identifier,
        "status": "active",
        "createdAt": _now(),
        "expiresAt": None,
        "hookEndpoint": HOOK,
        "negotiated": negotiated,
        "endpoints": {"status": f"{here}/status", "deregistration": here},
    }
    return json_answer(201, told, [("Location", here)])


def _registration(request: HttpRequest) -> HttpAnswer:
    identifier, _, rest = request.path.removeprefix(f"{REGISTRATIONS}/").partition("/")
    if request.method == "GET" and rest == "status":
        return json_answer(200, {"registrationId": identifier, "status": "active"})
    if request.method == "DELETE" and not rest:
        return json_answer(200, {"registrationId": identifier, "status": "deregistered", "deregisteredAt": _now()})
    return _error(404, "INVALID_REQUEST", "there is nothing here")


def _error(status: int, code: str, message: str) -> HttpAnswer:
    return json_answer(status, {"error": {"code": code, "message": message}})


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _why(verdict: MailVerdict) -> str:
    return f"Nothing can be said of this mail ({verdict.reason}); try again later"


def _bytes(said: Any) -> bytes | None:
    """Return a message as it was: bytes, or such in Base64."""
    if isinstance(said, bytes):
        return said
    if not isinstance(said, str):
        return None
    try:
        return base64.b64decode(said, validate=True)
    except (binascii.Error, ValueError):
        return None


def _only_recipient(envelope: Any) -> str | None:
    to = envelope.get("to") if isinstance(envelope, dict) else None
    if not isinstance(to, list) or len(to) != 1 or not isinstance(to[0], dict):
        return None
    address = to[0].get("address")
    return address.strip("<>") if isinstance(address, str) else None


def _parts(message: Any) -> tuple[list[tuple[str, str]], bytes | None]:
    """Return header fields and bytes of a message that comes as names, values and text."""
    if not isinstance(message, dict):
        return [], None
    headers, contents = message.get("headers"), message.get("contents")
    if not isinstance(headers, list) or not isinstance(contents, str):
        return [], None
    fields = [
        (each[0], each[1])
        for each in headers[:MOST_LINES]
        if isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each)
    ]
    lines = [f"{name}: {value.strip()}\r\n" for name, value in fields]
    return fields, "".join([*lines, "\r\n", contents]).encode()


def _names(raw: bytes) -> Iterable[str]:
    """Yield the names of a message's header fields, in order."""
    header = split(raw)[1]
    if b"x-spam-" not in header.lower():
        return
    for place, found in enumerate(_LINE.finditer(header)):
        if place == MOST_LINES:
            return
        yield found[1].decode("latin-1").strip()


def _marks(names: Iterable[str]) -> list[tuple[int, str, int]]:
    seen: Counter[str] = Counter()
    found = []
    for place, name in enumerate(names):
        if name.lower().startswith("x-spam-"):
            seen[name.lower()] += 1
            found.append((place, name, seen[name.lower()]))
            if len(found) == MOST_MARKS:
                break
    return found
