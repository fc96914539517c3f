"""An mbox file → its messages, one after the other.

Between messages stands a line ``From address weekday month day time year``. So may a line of a text begin, therefore a
message begins only where such a line has a date and a header field follows. Where a message says how long it is
(``Content-Length``) and one begins, or the file ends, right there, nothing within is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
"""Longer lines are taken in pieces."""
MAX_COUNTED_BYTES = 64 << 20
"""Of a ``Content-Length`` that is believed, as it has to be checked in memory."""
MAX_HEADER_BYTES = 1 << 16
"""Of a message, in which its ``Content-Length`` is looked for."""

_DATED = (
    rb">?From [^\r\n]{0,998}?\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?[ ]+"
    rb"(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]+\d{1,2}|"
    rb"\d{1,2}[ ]+(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]+\d{4})[ ,]+\d{1,2}:\d\d[^\r\n]*"
)
ENVELOPE = re.compile(_DATED + rb"(?:\r{0,2}\n|\r|\Z)")
"""A line that tells messages of an mbox file apart, or was one before somebody quoted it."""
_UNDATED = re.compile(rb"From \S+[^\r\n]*\r?\n")
_FIELD = re.compile(rb"[!-9;-~]+:")
_FIRST_FIELD = re.compile(
    rb"(?i)>?(?:From |(?:From|To|Cc|Subject|Date|Received|Return-Path|Delivered-To|Delivery-Date|Envelope-To|"
    rb"Message-ID|MIME-Version|Reply-To|Sender|Status|List-[a-z]+|Content-[a-z]+|DKIM-Signature|ARC-[a-z-]+|X-[!-9;-~]+):)"
)
_CONTENT_LENGTH = re.compile(rb"(?im)^Content-Length:[ \t]*(\d{1,10})[ \t]*\r?$")
_QUOTED_FROM_LINE = re.compile(rb"(?m)^>(>*From )")


def messages_of(chunks: Iterator[bytes], most: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the messages of an mbox file without its ``From `` lines, and of each whether it is longer than `most`.

    Parameters
    ----------
    chunks : iterator of bytes
        The file, which begins with a line ``From …``, maybe after empty ones.
    most : int
        Bytes of a message that are kept.
    """
    lines = _Lines(chunks)
    while (first := lines.next()) in (b"\n", b"\r\n"):
        pass
    is_dated = ENVELOPE.fullmatch(first) is not None
    while first:
        kept, size, in_head = list[bytes](), 0, True
        after_empty_line, at_start = False, True
        first = b""
        while line := lines.next():
            if at_start and line.startswith(b"From ") and _begins(line, lines.peek(), after_empty_line, is_dated):
                first = line
                break
            if size <= most:
                kept.append(line)
            size += len(line)
            after_empty_line = at_start and line in (b"\n", b"\r\n")
            at_start = line.endswith(b"\n")
            if in_head and (after_empty_line or size > MAX_HEADER_BYTES):
                in_head = False
                content = lines.counted(b"".join(kept)) if after_empty_line else b""
                if content:
                    kept.append(content)
                    size += len(content)
                    after_empty_line = at_start = True
        yield _QUOTED_FROM_LINE.sub(rb"\1", b"".join(kept)[:most]), size > most


def mails_in(start: bytes) -> int:
    """Tell from its beginning whether a file is one mail or several: 0 if it is none, 1, or 2 for more.

    Parameters
    ----------
    start : bytes
        Ends where a line does, or the file.
    """
    begin = start.lstrip(b"\r\n")
    if not begin.startswith(b"From "):
        return int(_FIRST_FIELD.match(begin) is not None and not begin.startswith(b">"))
    if _FIRST_FIELD.match(begin.partition(b"\n")[2]) is None:
        return 0
    return len(list(islice(messages_of(iter([begin]), 0), 2)))


def _begins(line: bytes, following: bytes, after_empty_line: bool, is_dated: bool) -> bool:
    """Whether a message begins with a line, by the one that follows.

    A file whose first line has no whole date has none anywhere; there the field has to be one of those that come first.
    """
    if is_dated:
        likely = (_FIELD if after_empty_line else _FIRST_FIELD).match(following) or following.startswith(b">From ")
        return bool(likely) and ENVELOPE.fullmatch(line) is not None
    return after_empty_line and _UNDATED.fullmatch(line) is not None and _FIRST_FIELD.match(following) is not None


class _Lines:
    """Lines of chunks, with a look ahead."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = bytearray()
        self._at = 0

    def next(self) -> bytes:
        """Return the next line, or piece of a long one; nothing at the end."""
        line = self.peek()
        self._at += len(line)
        return line

    def peek(self) -> bytes:
        """Return what `next` will."""
        end = self._buffer.find(b"\n", self._at, self._at + MAX_LINE_BYTES) + 1
        if not end:
            self._have(MAX_LINE_BYTES)
            end = self._buffer.find(b"\n", self._at, self._at + MAX_LINE_BYTES) + 1
        return bytes(self._buffer[self._at : end or self._at + MAX_LINE_BYTES])

    def counted(self, head: bytes) -> bytes:
        """Take the content that a header gives the length of, if a message begins, or the file ends, right behind."""
        found = _CONTENT_LENGTH.search(head)
        length = int(found[1]) if found is not None else 0
        if not 0 < length <= MAX_COUNTED_BYTES or self._have(length + MAX_LINE_BYTES) < length:
            return b""
        end = self._at + length
        tail = bytes(self._buffer[end : end + MAX_LINE_BYTES])
        behind = tail.lstrip(b"\r\n")
        ends_line = tail[:1] in (b"\n", b"\r") or self._buffer[end - 1 : end] == b"\n"
        if behind and not (ends_line and behind.startswith(b"From ") and ENVELOPE.match(behind)):
            return b""
        content = bytes(self._buffer[self._at : end])
        self._at = end
        return content

    def _have(self, size: int) -> int:
        """Read until so many bytes are there, and return how many there are."""
        while len(self._buffer) - self._at < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            if self._at > _CHUNK_BYTES:
                del self._buffer[: self._at]
                self._at = 0
            self._buffer += chunk
        return len(self._buffer) - self._at
