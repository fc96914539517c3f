"""A mail with our marks: header fields above it, those of others with such names taken out, and all else untouched."""

from __future__ import annotations

import re
from collections.abc import Sequence

_END_OF_HEADERS = re.compile(rb"(?:\A|\n)\r{0,2}\n")
_EOL = rb"(?:\r{0,2}\n|\r|\Z)"
# Mails come from strangers: no pattern here may backtrack, and no loop in Python may visit each of ten million lines.
# A name may be folded before its colon, too, since some software reads it so.
_NAME = rb"x-spam-[^:\r\n]*+(?:(?:\r{0,2}\n|\r)[ \t][^:\r\n]*+)*+:"
_MARKS = re.compile(
    rb"(?i)(?:\A|(?<=[\r\n]))(?:" + _NAME + rb"[^\r\n]*+" + _EOL + rb"(?:[ \t][^\r\n]*+" + _EOL + rb")*+)++"
)


def split(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the mbox ``From `` line in front of a mail, if any, its header, and the rest from the empty line on."""
    envelope = b""
    if raw.startswith(b"From ") and b"\n" in raw:
        line, newline, raw = raw.partition(b"\n")
        envelope = line + newline
    end = _END_OF_HEADERS.search(raw)
    if end is None:
        return envelope, raw, b""
    at = end.start() + (raw[end.start() : end.start() + 1] == b"\n" and end.end() - end.start() > 1)
    return envelope, raw[:at], raw[at:]


def without_marks(header: bytes) -> bytes:
    """Return a header without the fields whose names begin as ours do, however they are written or folded.

    A lone carriage return parts lines here, too: there is software that takes it for one.
    """
    if b"x-spam-" not in header.lower():
        return header
    kept: list[bytes] = []
    end = 0
    for found in _MARKS.finditer(header):
        kept.append(header[end : found.start()])
        if kept[-1].endswith(b"\r") and b"\n" in found[0]:
            kept.append(b"\n")  # otherwise the next field would become a part of the one before
        end = found.end()
    return b"".join([*kept, header[end:]])


def marked(raw: bytes, headers: Sequence[str], *, only_header: bool = False) -> bytes:
    """Return a mail with header fields above it, its line breaks as in its first line.

    Parameters
    ----------
    raw : bytes
    headers : sequence of str
        Lines of ASCII.
    only_header : bool
        Leave out what follows the empty line below the header.
    """
    envelope, header, body = split(raw)
    first, newline, _ = (envelope or raw).partition(b"\n")
    line_break = b"\r\n" if newline and first.endswith(b"\r") else b"\n"
    ours = b"".join(line.encode("ascii").replace(b"\n", line_break) + line_break for line in headers)
    if only_header:
        body = body[: body.find(b"\n") + 1]
    return without_marks(envelope) + ours + without_marks(header) + body
