"""The protocol of SpamAssassin's spamd, 1.2 to 1.5, as its clients in use speak it.

The answers have the forms of spamd 4.0.1, which differ by the version that the client names: see the tests.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from dataclasses import dataclass, field

from service.mailfilter.counted import CountedFilter, NotLearned
from service.mailfilter.inbound import CHUNK, Inbound, IncomingMail
from service.mailfilter.marking import marked
from service.mailfilter.verdict import REQUIRED, MailVerdict, headers_of, report_of

DOOR = "spamd"
REQUEST = re.compile(rb"([A-Z_]{1,20}) SPAMC/(\d{1,2})\.(\d{1,2})[ \t]*")
CHECKS = frozenset({"CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "HEADERS", "PROCESS"})
MAX_FIELDS = 32
"""Header fields of a request."""
UNAVAILABLE = 69, "EX_UNAVAILABLE"
TEMPFAIL = 75, "EX_TEMPFAIL"
PROTOCOL = 76, "EX_PROTOCOL"
TOO_BIG = 98, "EX_TOOBIG"
"""What SpamAssassin's client calls it, and then passes on the mail that it has."""
_OF_STATUS = {413: TOO_BIG, 503: TEMPFAIL}


@dataclass(frozen=True)
class SpamdRequest:
    """The first lines of a request."""

    command: str
    version: tuple[int, int]
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def user(self) -> str | None:
        """Whose mail it is, if that is said."""
        return self.fields.get("user")

    @property
    def length(self) -> int | None:
        """Bytes of the mail as it is sent; None: up to the end."""
        said = self.fields.get("content-length")
        return int(said) if said is not None else None


class Spamd:
    """Serves requests of this protocol, one a connection.

    Parameters
    ----------
    mails : CountedFilter
    tempfail : bool
        Whether to answer with an error where nothing is known of a mail.
    """

    def __init__(self, mails: CountedFilter, *, tempfail: bool) -> None:
        self._mails = mails
        self._tempfail = tempfail

    async def serve(self, inbound: Inbound, first: bytes, writer: asyncio.StreamWriter) -> None:
        """Answer the request that begins with a line; raises `HungUp`."""
        writer.write(await self._answer(inbound, first))

    async def _answer(self, inbound: Inbound, first: bytes) -> bytes:
        found = REQUEST.fullmatch(first)
        command = "" if found is None else found[1].decode()
        if found is None or command not in (*CHECKS, "PING", "SKIP", "TELL"):
            return _refusal(PROTOCOL, "Bad header line: expected a command and SPAMC/1.2 to SPAMC/1.5")
        if command == "PING":
            return b"SPAMD/1.5 0 PONG\r\n"
        if command == "SKIP":
            return b""
        fields = await _fields(inbound)
        if fields is None:
            return _refusal(PROTOCOL, "Bad header line: expected Name: value, and Content-length in digits")
        request = SpamdRequest(command, (int(found[2]), int(found[3])), fields)
        mail = await inbound.mail(request.length)
        if fields.get("compress") is not None:
            if fields["compress"].lower() != "zlib":
                return _refusal(PROTOCOL, "Compress: expected zlib")
            if mail.is_whole and not await _inflate(mail):
                return _refusal(PROTOCOL, "the mail is not what zlib compresses")
        if command == "TELL":
            return await self._tell(request, mail)
        return await self._check(request, mail)

    async def _check(self, request: SpamdRequest, mail: IncomingMail) -> bytes:
        raw = mail.raw()
        verdict, _ = await self._mails.check(DOOR, mail, request.user, raw)
        if self._tempfail and verdict.may_be_tried_again:
            return _refusal(TEMPFAIL, f"nothing can be said of this mail ({verdict.reason})")
        if not mail.is_whole and request.command in ("PROCESS", "HEADERS"):
            # Nobody has the mail any more but who sent it, and passes it on.
            return _refusal(TOO_BIG if mail.is_too_large else TEMPFAIL, "the mail was not looked at")
        return reply(request, verdict, raw)

    async def _tell(self, request: SpamdRequest, mail: IncomingMail) -> bytes:
        sets, removes = (_places(request.fields.get(name, "")) for name in ("set", "remove"))
        said = request.fields.get("message-class", "").lower()
        wanted = {"spam": True, "ham": False}.get(said)
        if "local" not in sets | removes or ("local" in sets and wanted is None):
            return _refusal(PROTOCOL, "TELL: expected Set: local with Message-class: spam or ham, or Remove: local")
        try:
            result = await self._mails.learn(DOOR, mail, request.user, wanted if "local" in sets else None)
        except NotLearned as error:
            return _refusal(_OF_STATUS.get(error.status, UNAVAILABLE), error.detail)
        did = {"learned": b"DidSet: local\r\n", "forgotten": b"DidRemove: local\r\n"}.get(result, b"")
        return b"SPAMD/1.1 0 EX_OK\r\n" + did + b"Content-length: 0\r\n\r\n"


def reply(request: SpamdRequest, verdict: MailVerdict, raw: bytes) -> bytes:
    """Return the answer to one of `CHECKS`, of the form that this version of the protocol has."""
    told = f"Spam: {verdict.is_spam} ; {verdict.shown if verdict.kind != 'unknown' else 0.0:.1f} / {REQUIRED:.1f}\r\n"
    if request.command in ("PROCESS", "HEADERS"):
        body = marked(raw, headers_of(verdict), only_header=request.command == "HEADERS")
        counted = f"Content-length: {len(body)}\r\n"
        if request.version < (1, 2):
            return b"SPAMD/1.0 0 EX_OK\r\n\r\n" + body
        head = counted if request.version < (1, 3) else counted + told
        return b"SPAMD/1.1 0 EX_OK\r\n" + head.encode() + b"\r\n" + body
    if request.command == "CHECK":
        return b"SPAMD/1.1 0 EX_OK\r\n" + told.encode() + b"\r\n"
    text = ""
    if request.command == "SYMBOLS":
        text = "" if verdict.kind == "unknown" else verdict.symbol
        text += "\r\n" if request.version < (1, 3) else ""
    elif request.command == "REPORT" or verdict.is_spam:
        text = report_of(verdict).replace("\n", "\r\n")
    counted = f"Content-length: {len(text)}\r\n" if request.version >= (1, 3) else ""
    return b"SPAMD/1.1 0 EX_OK\r\n" + f"{counted}{told}\r\n{text}".encode("ascii")


async def _fields(inbound: Inbound) -> dict[str, str] | None:
    """Return the header fields of a request, their names in lower case; None if they are none."""
    fields: dict[str, str] = {}
    for _ in range(MAX_FIELDS):
        line = await inbound.line()
        if not line:
            said = fields.get("content-length", "0")
            return fields if said.isascii() and said.isdecimal() and len(said) < 16 else None
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            return None
        fields[name.strip().lower()] = value.strip()
    return None


async def _inflate(mail: IncomingMail) -> bool:
    """Unpack a mail as far as one may be long, and let others have their turns; False if it is not packed."""
    packed = mail.raw()
    unpacking = zlib.decompressobj()
    mail.size = 0
    while not unpacking.eof and mail.is_whole:
        try:
            piece = unpacking.decompress(packed, CHUNK)
        except zlib.error:
            return False
        packed = unpacking.unconsumed_tail
        mail.add(piece)
        if not piece and not packed:
            return False  # it ends in the middle
        await asyncio.sleep(0)
    return True


def _places(text: str) -> set[str]:
    return {place.strip().lower() for place in text.split(",")} - {""}


def _refusal(code: tuple[int, str], why: str) -> bytes:
    number, name = code
    return f"SPAMD/1.1 {number} {name}: {why}\r\n".encode("ascii", "replace")
