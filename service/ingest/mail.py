"""One mail message → its texts. Whatever the bytes are, this takes bounded time and memory and raises nothing.

Python's own `email` parser recurses into nested parts and is quadratic in some headers, so the parts are told apart
here, one after the other; only single, short headers are handed to it.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime

import numpy as np

from service.ingest.charsets import MAX_NAME, decoded
from service.ingest.html_text import shown_pieces, without_tags
from service.ingest.mail_meta import meta_words
from service.ingest.mbox import ENVELOPE
from service.ingest.threads import thread_links
from solver.kinds import IDEOGRAPHS
from solver.single_bytes import bytes_where, is_of_a_word, single_bytes

META = "meta"
"""What is told of a mail beside its texts."""
FIELDS = ("subject", "from", "to", "date", "body", META)
"""Names of `Mail.fields`, in order."""
MAX_DEPTH = 20
"""Parts within parts; deeper ones are left out."""
MAX_PARTS = 100
"""Further parts are left out."""
MAX_HEADERS = 1000
"""Header fields of one part; further ones are left out."""
MAX_FIELD_BYTES = 8 << 10
"""Of one header field."""
MAX_TYPE_BYTES = 1 << 10
"""Of a Content-… field."""
MAX_BODY_BYTES = 256 << 10
"""Of the text that is kept, as UTF-8."""
MAX_WORDS = 3_000
"""Of the body. It bounds what a long mail takes to decide on: a mail of 100 KB has five times as many."""
LIKELY_CHARACTERS = 12 * MAX_WORDS
"""Of a text, in which so many words are looked for first."""
MAX_HTML_BYTES = 256 << 10
"""Of HTML that is looked at where there is no plain text, before its tags are taken out."""

MAX_MESSAGE_BYTES = 10 << 20
"""Of a message that are looked at; calls that take one message refuse a longer one."""
MAX_QUOTED = 8
"""Times that a line ``From …`` of a body may have been quoted, by one mbox file after the other."""

MAX_ENDING = 8
"""Characters of the ending of an attachment's name."""
TOLD_HEADERS = ("from", "reply-to", "user-agent", "x-mailer")

_BREAK = rb"(?:\r{0,2}\n|\r)"
_END_OF_HEADERS = re.compile(_BREAK + _BREAK)
_FIELD = re.compile(rb"([!-9;-~]+)([ \t]*):((?:[^\r\n]*" + _BREAK + rb"[ \t]+)*+[^\r\n]*)(?:" + _BREAK + rb"|\Z)")
_LIKE_A_BOUNDARY = re.compile(rb"(?im)^--([^\r\n]{1,200}?)[ \t]*\r?\nContent-")
_BLANK_LINE = re.compile(_BREAK)
_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=")
_ENCODED_WORDS = re.compile(rf"{_ENCODED_WORD.pattern}(?:\s*{_ENCODED_WORD.pattern})*+")
_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}]+")
_ALL_WORDS = re.compile(rf"(?:[^\w{IDEOGRAPHS}]*+(?:[{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}]++)){{{MAX_WORDS}}}")
_LINE_BREAK = re.compile(r"\r{1,2}\n|\r")
_NOT_BASE64 = bytes(set(range(256)) - set(string.ascii_letters.encode() + string.digits.encode() + b"+/"))
_OF_A_WORD = bytes_where(is_of_a_word)
_IN_A_WORD = bytes(byte in _OF_A_WORD for byte in range(256))
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r"))
_ONE_WORD_FIELDS = frozenset(
    b"approved archive bcc cc comments control date distribution encrypted errors expires from importance keywords "
    b"language lines newsgroups organisation organization path precedence priority received references sender "
    b"sensitivity status subject summary supersedes to xref".split()
)
"""Names of header fields without a hyphen. A line of another one, such as ``Note: …``, may as well be text."""


@dataclass(frozen=True)
class Mail:
    """A message as texts.

    Attributes
    ----------
    fields : dict of str to str
        One for each of `FIELDS`; empty where the message has none.
    is_cut : bool
        Whether something went beyond the limits of this module and was left out.
    unknown_charsets : tuple of str
        Names of charsets that are not known here; such texts were read by their looks.
    thread : str
        What links it to others of its thread, see `service.ingest.threads`.
    """

    fields: dict[str, str]
    is_cut: bool
    unknown_charsets: tuple[str, ...] = ()
    thread: str = ""


def read_mail(message: bytes | str) -> Mail:
    """Return the texts of one message.

    Parameters
    ----------
    message : bytes or str
        As RFC 5322 says, with any kind of line break; an mbox ``From `` line may stand in front. The first line that is
        no header field begins the body, also without an empty line before it. What is beyond ASCII in a str has been
        decoded already, whatever charset a header names.

    Returns
    -------
    Mail
        ``subject``, ``from`` and ``to`` decoded, ``date`` as ``2026-11-28T02:30:00Z``, and ``body``: the plain text
        parts or, if there are none, the HTML parts without their tags. Attachments are left out. ``meta`` is what is
        told of it beside, see `service.ingest.mail_meta`. What a message does not have is an empty text.
    """
    raw = _without_envelope(message.encode("utf-8", "replace") if isinstance(message, str) else message)
    is_long = len(raw) > MAX_MESSAGE_BYTES
    parts = _MimeParts(raw[:MAX_MESSAGE_BYTES], is_text=isinstance(message, str))
    parts.is_cut = parts.is_cut or is_long
    plain, marked_up = _Texts(MAX_BODY_BYTES), _Texts(MAX_HTML_BYTES)
    for part in parts:
        (marked_up if part.type == "text/html" else plain).add(parts, part)
        if plain.is_cut:
            break
    used = plain
    body = "\n".join(plain.texts)
    if not body.strip():
        used = marked_up
        body = _visible_words(marked_up.texts)
    parts.is_cut = parts.is_cut or used.is_cut
    cleaned = _clean(body)
    body = _first_words(cleaned)
    kept = _first_bytes(body)
    parts.is_cut = parts.is_cut or len(kept) < len(cleaned)
    fields = {name: parts.header_text(name) for name in ("subject", "from", "to")}
    fields["date"] = _date(parts.header_text("date"))
    fields["body"] = kept
    headers = {name: text for name in TOLD_HEADERS if (text := parts.header_text(name))}
    told = (parts.told, fields["subject"], fields["body"], [*plain.texts, *marked_up.texts])
    fields["meta"] = meta_words(headers, *told) if raw else ""
    return Mail(fields, parts.is_cut, tuple(sorted(parts.unknown_charsets)), thread_links(parts.top))


def mail_identity(message: bytes) -> str:
    """Return what tells a message from others, wherever a copy of it was taken: 64 hexadecimal digits.

    A SHA-256 over To, Date and the body, with line breaks as on Unix and without what mbox files add. Other header
    fields do not count: those that mail systems add on the way are not the same in all copies.
    """
    parts = _MimeParts(_without_envelope(message)[:MAX_MESSAGE_BYTES], is_text=False)
    body = b"\n" + parts.body.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\n")
    for marks in range(MAX_QUOTED, 0, -1):
        body = body.replace(b"\n" + b">" * marks + b"From ", b"\nFrom ")
    digest = hashlib.sha256()
    for name in ("to", "date"):
        digest.update(b" ".join(parts.top.get(name, b"").split()) + b"\0")
    digest.update(body)
    return digest.hexdigest()


def attached_mails(message: bytes) -> list[bytes]:
    """Return the mails that were attached to a message, as people forward spam to an address that learns it."""
    parts = _MimeParts(_without_envelope(message)[:MAX_MESSAGE_BYTES], is_text=False)
    return list(parts.attached())


def _visible_words(sources: list[str]) -> str:
    """Return the text of HTML documents, at least as much of it as is looked at."""
    text = ""
    for number, source in enumerate(sources):
        text += "\n" if number else ""
        for at, piece in enumerate(shown_pieces(source)):
            if at and len(_first_words(cleaned := _clean(text))) < len(cleaned):
                return text
            text += without_tags(piece)
    return text


def _first_words(text: str) -> str:
    """Return a text up to the last word that is looked at."""
    for begin in (text[:LIKELY_CHARACTERS], text):
        data = single_bytes(begin)
        if data is None:
            break
        of_word = np.frombuffer(data.translate(_IN_A_WORD), dtype=np.int8)
        begins = np.flatnonzero(np.diff(of_word, prepend=np.int8(0)) > 0)
        if len(begins) > MAX_WORDS:
            return text[: int(begins[MAX_WORDS])]
        if len(begin) == len(text):
            return text
    words = _ALL_WORDS.match(text)
    next_word = _WORD.search(text, words.end()) if words else None
    return text if next_word is None else text[: next_word.start()]


def _first_bytes(text: str) -> str:
    """Return as much of a text as may be kept, which has nothing that UTF-8 cannot say."""
    if len(text) <= MAX_BODY_BYTES // 4:
        return text
    return text.encode("utf-8")[:MAX_BODY_BYTES].decode("utf-8", "ignore")


def _without_envelope(raw: bytes) -> bytes:
    """Return a message without empty lines and the mbox ``From `` line in front of it."""
    raw = raw.lstrip(b"\r\n")
    return raw.partition(b"\n")[2] if raw.startswith(b"From ") else raw


class _Texts:
    """What is kept of the parts of one kind, up to so many characters in all."""

    def __init__(self, room: int) -> None:
        self.texts: list[str] = []
        self.is_cut = False
        self._room = room

    def add(self, parts: _MimeParts, part: _Part) -> None:
        if self._room == 0:
            self.is_cut = True
            return
        text = parts.text(part, self._room)
        self.is_cut = self.is_cut or len(text) > self._room or len(part.content) > 4 * self._room
        self.texts.append(text[: self._room])
        self._room -= len(self.texts[-1])


@dataclass(frozen=True)
class _Part:
    """A part without parts."""

    type: str
    charset: str
    encoding: str
    content: bytes


class _MimeParts:
    """The text parts of a message, in order."""

    def __init__(self, raw: bytes, *, is_text: bool) -> None:
        self.is_cut = False
        self.unknown_charsets: set[str] = set()
        self.told: list[tuple[str, str]] = []
        """Kind and value of what is told of the parts, see `meta_words`."""
        self._is_text = is_text
        self.top, self.body = self._split(raw)

    def __iter__(self) -> Iterator[_Part]:
        waiting = [(self.top, self.body, 0)]
        seen = 0
        while waiting:
            fields, body, depth = waiting.pop()
            seen += 1
            if seen > MAX_PARTS:
                self.is_cut = True
                return
            kind = _type(fields)
            main = kind.get_content_type()
            self.told += _told(fields, kind, main)
            inner: list[bytes] | None = None
            if main == "message/rfc822":
                inner = [body]
            elif main.startswith("multipart/"):
                inner = self._inside(body, _boundary(kind), MAX_PARTS - seen - len(waiting))
            if inner is None:
                part = _text_part(fields, kind, main, body)
                if part is not None:
                    yield part
                continue
            if depth == MAX_DEPTH:
                self.is_cut = True
                continue
            waiting += [(*self._split(each), depth + 1) for each in reversed(inner)]

    def attached(self) -> Iterator[bytes]:
        """Yield the messages among the parts that are right below the top."""
        kind = _type(self.top)
        if kind.get_content_type() == "message/rfc822":
            yield self.body
        elif kind.get_content_type().startswith("multipart/"):
            for part in self._inside(self.body, _boundary(kind), MAX_PARTS) or []:
                fields, body = self._split(part)
                if _type(fields).get_content_type() == "message/rfc822":
                    yield body

    def text(self, part: _Part, room: int) -> str:
        """Return the text of a part, cut before it is decoded if it is far too long."""
        content = part.content[: 4 * room]  # no encoding takes more than four bytes for one
        match part.encoding:
            case "base64":
                content = _base64(content)
            case "quoted-printable":
                content = binascii.a2b_qp(content)
            case _ if self._is_text and not content.isascii():
                return content.decode("utf-8", "replace")
        return self._decoded(content[: 4 * room], part.charset)

    def header_text(self, name: str) -> str:
        """Return a field of the message itself, its encoded words decoded."""
        text, _ = decoded(self.top.get(name, b""), "")
        return " ".join(_clean(_ENCODED_WORDS.sub(self._words, text)).split())

    def _words(self, found: re.Match[str]) -> str:
        """Decode encoded words with nothing but blanks between them.

        Those of one charset are joined before they are decoded: programs cut them inside of characters.
        """
        joined: list[tuple[str, bytes]] = []
        for charset, kind, text in _ENCODED_WORD.findall(found[0]):
            data = text.encode("ascii", "ignore")
            content = _base64(data) if kind in "bB" else binascii.a2b_qp(data, header=True)
            name = charset.partition("*")[0].lower()  # a language may follow
            if joined and joined[-1][0] == name:
                content = joined.pop()[1] + content
            joined.append((name, content))
        return "".join(self._decoded(content, name) for name, content in joined)

    def _decoded(self, data: bytes, charset: str) -> str:
        text, is_known = decoded(data, charset)
        if not is_known:
            self.unknown_charsets.add(_clean(charset)[:MAX_NAME])
        return text

    def _split(self, raw: bytes) -> tuple[dict[str, bytes], bytes]:
        """Tell fields and body apart; of fields that are there twice the first counts.

        Without an empty line between them, the body begins with the first line that is no field; and what stands right
        before it and has no name that fields have is taken for text, too.
        """
        if raw[:1] in (b"\n", b"\r"):  # a part without headers
            return {}, raw.lstrip(b"\r\n")
        found: list[re.Match[bytes]] = []
        position = lines = 0
        while lines < MAX_HEADERS:
            field = _FIELD.match(raw, position)
            if field is not None and (not field[2] or _may_be_spaced(field[1].lower())):
                found.append(field)
            else:
                field = ENVELOPE.match(raw, position)
            if field is None or field.end() == position:
                break
            position = field.end()
            lines += 1
        if lines == MAX_HEADERS and _FIELD.match(raw, position):
            self.is_cut = True
            end = _END_OF_HEADERS.search(raw, position - 2)
            body = b"" if end is None else raw[end.end() :]
        elif blank := _BLANK_LINE.match(raw, position):
            body = raw[blank.end() :]
        else:
            while found and not _is_surely_a_field(found[-1], found[0]):
                position = found.pop().start()
            body = raw[position:]
        fields: dict[str, bytes] = {}
        for field in found:
            fields.setdefault(field[1].decode("ascii").lower(), field[3][:MAX_FIELD_BYTES])
            self.is_cut = self.is_cut or field.end(3) - field.start(3) > MAX_FIELD_BYTES
        return fields, body

    def _inside(self, body: bytes, boundary: bytes | None, most: int) -> list[bytes] | None:
        """Return the parts of a body; None if it has none, and is a text then."""
        parts = self._between(body, boundary, most) if boundary is not None else []
        if not parts and (found := _LIKE_A_BOUNDARY.search(body)):  # another one than the header says
            parts = self._between(body, found[1], most)
        return parts or None

    def _between(self, body: bytes, boundary: bytes, most: int) -> list[bytes]:
        """Return what stands between the boundaries, without copying what stands before and after them."""
        # What is fixed comes first, as that is looked for fast; whether a line begins there is looked at behind it.
        line = rb"--" + re.escape(boundary)
        marks = re.compile(
            line + rb"(?:(?<=[\r\n]" + line + rb")|(?<=\A" + line + rb"))(--)?[ \t]*+(?:\r{0,2}\n|\r|\Z)"
        )
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


def _may_be_spaced(name: bytes) -> bool:
    """Whether a word before blanks and a colon is the name of a field, and not a word of a text."""
    return name in _ONE_WORD_FIELDS or name.startswith(b"x-")


def _is_surely_a_field(field: re.Match[bytes], first: re.Match[bytes]) -> bool:
    """Whether a line that looks like a header field is one, even with text right behind it."""
    name = field[1].lower()
    return (b"-" in name or name in _ONE_WORD_FIELDS) and bool(field[2]) <= bool(first[2])


def _type(fields: dict[str, bytes]) -> Message:
    """Return a message with nothing but the Content-… fields, for `email` to read their parameters."""
    message = Message()
    for name in ("content-type", "content-disposition"):
        if name in fields:
            message[name] = " ".join(fields[name][:MAX_TYPE_BYTES].decode("latin-1").split())
    return message


def _told(fields: dict[str, bytes], kind: Message, main: str) -> Iterator[tuple[str, str]]:
    """Say what a part is, in the words of its own header."""
    yield "type", main if "content-type" in fields else "none"
    try:
        yield "charset", str(kind.get_content_charset() or "")
        name = str(kind.get_filename() or "")
    except (ValueError, TypeError, LookupError):
        name = ""
    yield "encoding", fields.get("content-transfer-encoding", b"").strip().lower()[:40].decode("latin-1")
    ending = name.rpartition(".")[2]
    if ending != name and 0 < len(ending) <= MAX_ENDING:
        yield "attached", ending


def _boundary(kind: Message) -> bytes | None:
    try:
        boundary = kind.get_boundary()
    except (ValueError, TypeError, LookupError):
        return None
    return boundary.encode("latin-1", "ignore") if boundary else None


def _text_part(fields: dict[str, bytes], kind: Message, main: str, body: bytes) -> _Part | None:
    if main.startswith("multipart/"):  # without parts
        main = "text/plain"
    if main not in ("text/plain", "text/html") or kind.get_content_disposition() == "attachment":
        return None
    try:
        charset = str(kind.get_content_charset() or "")
    except (ValueError, TypeError, LookupError):
        charset = ""
    encoding = fields.get("content-transfer-encoding", b"").strip().lower().decode("latin-1")
    return _Part(main, charset, encoding, body)


def _base64(data: bytes) -> bytes:
    kept = data.translate(None, _NOT_BASE64)
    if len(kept) % 4 == 1:
        kept = kept[:-1]
    return binascii.a2b_base64(kept + b"=" * (-len(kept) % 4))


def _date(text: str) -> str:
    try:
        date: datetime = parsedate_to_datetime(text)
        date = (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return ""
    return f"{date:%Y-%m-%dT%H:%M:%S}Z" if date.year >= 1000 else ""


def _clean(text: str) -> str:
    """Return a text without control characters, its line breaks as on Unix."""
    text = _LINE_BREAK.sub("\n", text) if "\r" in text else text
    # in bytes that takes a fifth of the time; half of a pair of surrogates is left out, too
    return text.encode("utf-8", "ignore").translate(None, _CONTROLS).decode()
