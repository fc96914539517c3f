"""HTML → the text that people see, roughly: no tags, no comments, no scripts, no styles."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

PIECE_CHARACTERS = 1 << 16
"""About what is looked at in one go. Python's regular expressions let no other thread run meanwhile."""

_BLOCK_TAG = re.compile(r"(?i)</?(?:address|blockquote|br|div|dd|dt|h[1-6]|hr|li|ol|p|pre|table|td|th|tr|ul)\b[^<>]*>")
_TAG = re.compile(r"<[/!?a-zA-Z][^<>]*>")
_HIDDEN = (("<!--", "-->", 2), ("<script", "</script", 7), ("<style", "</style", 6), ("<head>", "</head", 6))
"""Begin, end, and from which of its characters on the end may follow: ``<!-->`` is a whole comment."""


def visible_text(source: str) -> str:
    """Return the text of an HTML document, in linear time.

    Tags of blocks, and only they, part words: letters around a comment or around ``<b>`` are one word.
    """
    return "".join(map(without_tags, shown_pieces(source)))


def shown_pieces(source: str) -> Iterator[str]:
    """Yield a document in pieces, without what browsers hide."""
    return _pieces(_shown(source))


def without_tags(piece: str) -> str:
    """Return the text of a piece of `shown_pieces`."""
    return html.unescape(_TAG.sub("", _BLOCK_TAG.sub("\n", piece)))


def _shown(text: str) -> str:
    """Return a document without what browsers hide."""
    # Each character is one byte here, so that places stay the same; only letters of ASCII are looked for.
    lower = text.encode("latin-1", "replace").lower().decode("latin-1")
    for begin, end, least in _HIDDEN:
        kept: list[str] = []
        kept_lower: list[str] = []
        position = 0
        while (start := lower.find(begin, position)) >= 0:
            kept.append(text[position:start])
            kept_lower.append(lower[position:start])
            stop = lower.find(end, start + least)
            if stop >= 0:
                stop = lower.find(">", stop)  # an end tag may hold blanks
            position = len(text) if stop < 0 else stop + 1
        if position:
            text = "".join([*kept, text[position:]])
            lower = "".join([*kept_lower, lower[position:]])
    return text


def _pieces(text: str) -> Iterator[str]:
    """Cut a document before tags."""
    start = 0
    while start < len(text):
        end = text.find("<", start + PIECE_CHARACTERS)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end
