"""One mail message → its texts. Whatever the bytes are, this takes bounded time and memory and raises nothing.

Python's own `email` parser recurses into nested parts and is quadratic in some headers, so the parts are told apart
here, one after the other; only single, short headers are handed to it.
"""

from __future__ import annotations

import binascii
import codecs
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime

from service.ingest.options import ENCODINGS

FIELDS = ("subject", "from", "to", "date", "body")
"""What `parse_mail` returns, in order."""
MAX_DEPTH = 20
"""Parts within parts; deeper ones are left out."""
MAX_PARTS = 1000
"""Further parts are left out."""
MAX_HEADER_BYTES = 64 << 10
"""Of the headers of one part; further ones are left out."""
MAX_FIELD_BYTES = 8 << 10
"""Of one header field."""
MAX_TYPE_BYTES = 1 << 10
"""Of a Content-… field."""
MAX_BODY_BYTES = 1 << 20
"""Of the text that is kept, as UTF-8."""

_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n|\r\r")
_FIELD = re.compile(rb"(?m)^([!-9;-~]+)[ \t]*:((?:[^\r\n]*(?:\r\n|\n|\r(?!\n))[ \t]+)*[^\r\n]*)")
_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=")
_BLANKS_BETWEEN_WORDS = re.compile(r"\?=\s+=\?")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
_BLOCK_TAG = re.compile(r"(?i)</?(?:address|blockquote|br|div|dd|dt|h[1-6]|hr|li|ol|p|pre|table|td|th|tr|ul)\b[^<>]*>")
_TAG = re.compile(r"<[/!?a-zA-Z][^<>]*>")
_HIDDEN = (("<!--", "-->"), ("<script", "</script"), ("<style", "</style"), ("<head>", "</head"))
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127])


@dataclass(frozen=True)
class Mail:
    """A message as texts.

    Attributes
    ----------
    fields : dict of str to str
        One for each of `FIELDS`; empty where the message has none.
    is_cut : bool
        Whether something went beyond the limits of this module and was left out.
    """

    fields: dict[str, str]
    is_cut: bool


def parse_mail(raw: bytes) -> dict[str, str]:
    """Return the texts of one message.

    Parameters
    ----------
    raw : bytes
        As RFC 5322 says, with any kind of line break; an mbox ``From `` line may stand in front.

    Returns
    -------
    dict of str to str
        ``subject``, ``from`` and ``to`` decoded, ``date`` as ``2026-11-28T02:30:00Z``, and ``body``: the plain text
        parts or, if there are none, the HTML parts without their tags. Attachments are left out. What a message does
        not have is an empty text.
    """
    return read_mail(raw).fields


def read_mail(raw: bytes) -> Mail:
    """Return the texts of one message, and whether some had to be left out. See `parse_mail`."""
    raw = raw.lstrip(b"\r\n")
    if raw.startswith(b"From "):
        raw = raw.partition(b"\n")[2]
    parts = _Parts(raw)
    plain: list[str] = []
    marked_up: list[str] = []
    room = MAX_BODY_BYTES
    for part in parts:
        if room <= 0:
            parts.is_cut = True
            break
        text = _decoded(part, room)
        room -= len(text)
        (marked_up if part.type == "text/html" else plain).append(text)
    body = "\n".join(plain)
    if not body.strip():
        body = "\n".join(map(_without_tags, marked_up))
    encoded = _clean(body).encode("utf-8", "ignore")
    parts.is_cut = parts.is_cut or len(encoded) > MAX_BODY_BYTES
    top = parts.top
    fields = {name: _header_text(top.get(name, b"")) for name in ("subject", "from", "to")}
    fields["date"] = _date(_header_text(top.get("date", b"")))
    fields["body"] = encoded[:MAX_BODY_BYTES].decode("utf-8", "ignore")
    return Mail(fields, parts.is_cut)


@dataclass(frozen=True)
class _Part:
    """A part without parts."""

    type: str
    charset: str
    encoding: str
    content: bytes


class _Parts:
    """The text parts of a message, in order."""

    def __init__(self, raw: bytes) -> None:
        self.is_cut = False
        self.top, self._body = self._split(raw)

    def __iter__(self) -> Iterator[_Part]:
        waiting = [(self.top, self._body, 0)]
        seen = 0
        while waiting:
            fields, body, depth = waiting.pop()
            seen += 1
            if seen > MAX_PARTS:
                self.is_cut = True
                return
            kind = _type(fields)
            main = kind.get_content_type()
            boundary = _boundary(kind) if main.startswith("multipart/") else None
            if boundary is None and main != "message/rfc822":
                part = _text_part(fields, kind, main, body)
                if part is not None:
                    yield part
                continue
            if depth == MAX_DEPTH:
                self.is_cut = True
                continue
            inner = [body] if boundary is None else self._between(body, boundary, MAX_PARTS - seen - len(waiting))
            waiting += [(*self._split(each), depth + 1) for each in reversed(inner)]

    def _split(self, raw: bytes) -> tuple[dict[str, bytes], bytes]:
        """Tell fields and body apart; of fields that are there twice the first counts."""
        if raw[:1] in (b"\n", b"\r"):  # a part without headers
            return {}, raw.lstrip(b"\r\n")
        found = _END_OF_HEADERS.search(raw)
        head, body = (raw, b"") if found is None else (raw[: found.start()], raw[found.end() :])
        if len(head) > MAX_HEADER_BYTES:
            self.is_cut = True
            head = head[:MAX_HEADER_BYTES]
        fields: dict[str, bytes] = {}
        for match in _FIELD.finditer(head):
            fields.setdefault(match[1].decode("ascii").lower(), match[2][:MAX_FIELD_BYTES])
        return fields, body

    def _between(self, body: bytes, boundary: bytes, most: int) -> list[bytes]:
        """Return what stands between the boundaries, without copying what stands before and after them."""
        marks = re.compile(rb"(?m)^--" + re.escape(boundary) + rb"(--)?[ \t]*\r?$\n?")
        parts: list[bytes] = []
        start = None
        for mark in marks.finditer(body):
            if start is not None:
                parts.append(body[start : mark.start()])
            start = None if mark[1] else mark.end()
            if mark[1] or len(parts) > most:
                break
        if start is not None and len(parts) <= most:  # the end is missing
            parts.append(body[start:])
        return parts


def _type(fields: dict[str, bytes]) -> Message:
    """Return a message with nothing but the Content-… fields, for `email` to read their parameters."""
    message = Message()
    for name in ("content-type", "content-disposition"):
        if name in fields:
            message[name] = " ".join(fields[name][:MAX_TYPE_BYTES].decode("latin-1").split())
    return message


def _boundary(kind: Message) -> bytes | None:
    try:
        boundary = kind.get_boundary()
    except (ValueError, TypeError, LookupError):
        return None
    return boundary.encode("latin-1", "ignore") if boundary else None


def _text_part(fields: dict[str, bytes], kind: Message, main: str, body: bytes) -> _Part | None:
    if main not in ("text/plain", "text/html") or kind.get_content_disposition() == "attachment":
        return None
    try:
        charset = str(kind.get_content_charset() or "")
    except (ValueError, TypeError, LookupError):
        charset = ""
    encoding = fields.get("content-transfer-encoding", b"").strip().lower().decode("latin-1")
    return _Part(main, charset, encoding, body)


def _decoded(part: _Part, room: int) -> str:
    """Return the text of a part, cut before it is decoded if it is far too long."""
    content = part.content[: 4 * room]  # no encoding takes more than four bytes for one
    match part.encoding:
        case "base64":
            content = _base64(content)
        case "quoted-printable":
            content = binascii.a2b_qp(content)
    return _text(content[: 4 * room], part.charset)


def _base64(data: bytes) -> bytes:
    kept = _NOT_BASE64.sub(b"", data)
    if len(kept) % 4 == 1:
        kept = kept[:-1]
    return binascii.a2b_base64(kept + b"=" * (-len(kept) % 4))


def _text(data: bytes, charset: str) -> str:
    """Decode with the charset that was named if there is one, else by looks. Never fails."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        name = ""
    if name in ENCODINGS and name != "ascii":
        return data.decode(name, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _header_text(raw: bytes) -> str:
    text = _BLANKS_BETWEEN_WORDS.sub("?==?", _text(raw, ""))
    return " ".join(_clean(_ENCODED_WORD.sub(_word, text)).split())


def _word(match: re.Match[str]) -> str:
    charset, kind, data = match[1].partition("*")[0], match[2], match[3].encode("ascii", "ignore")
    return _text(_base64(data) if kind in "bB" else binascii.a2b_qp(data, header=True), charset)


def _date(text: str) -> str:
    try:
        date: datetime = parsedate_to_datetime(text)
        date = (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return ""
    return f"{date:%Y-%m-%dT%H:%M:%S}Z" if date.year >= 1000 else ""


def _without_tags(text: str) -> str:
    """Return what of an HTML text people see, roughly: no tags, no scripts, no styles."""
    lower = text.lower()
    if len(lower) != len(text):  # a few letters change their length
        lower = text
    for begin, end in _HIDDEN:
        kept: list[str] = []
        kept_lower: list[str] = []
        position = 0
        while (start := lower.find(begin, position)) >= 0:
            kept.append(text[position:start])
            kept_lower.append(lower[position:start])
            stop = lower.find(end, start + len(begin))
            if stop >= 0:
                stop = lower.find(">", stop)  # an end tag may hold blanks
            position = len(text) if stop < 0 else stop + 1
        text = " ".join([*kept, text[position:]])
        lower = " ".join([*kept_lower, lower[position:]])
    return html.unescape(_TAG.sub("", _BLOCK_TAG.sub("\n", text)))


def _clean(text: str) -> str:
    """Return a text without control characters, its line breaks as on Unix."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)
