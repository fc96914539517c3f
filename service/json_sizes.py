"""How much a JSON text holds, told before it is parsed: what is small as a text may be large as objects."""

from __future__ import annotations

import re

MOST_SMALL_BYTES = 1 << 16
"""What a text of so few bytes may hold is not worth a look."""
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""One without an end takes all that follows: it is not JSON, and each of its quotes would be tried as a beginning."""

_BEFORE_VALUES = (b",", b"[", b"{")


def is_mostly_brackets(raw: bytes) -> bool:
    """Tell whether a text is mostly nested brackets: more than one in three bytes opens a list or an object.

    As many as a small text may hold are not held against it. A list in a list takes two bytes of JSON and some 80 of
    memory, against which nothing else comes up.
    """

    def has_too_many(text: bytes) -> bool:
        return 3 * (text.count(b"[") + text.count(b"{")) > len(text) + MOST_SMALL_BYTES

    # The texts within take longer to leave out than all else here; nearly nothing has many brackets with them.
    return has_too_many(raw) and has_too_many(_TEXTS.sub(b"", raw))


def has_more_values_than(most: int, raw: bytes) -> bool:
    """Tell whether a text may hold more values than so many: each but the first follows a comma or opens something."""
    if sum(map(raw.count, _BEFORE_VALUES)) <= most:
        return False
    seen = end = 0
    for texts, found in enumerate(_TEXTS.finditer(raw)):
        seen += sum(raw.count(each, end, found.start()) for each in _BEFORE_VALUES)
        end = found.end()
        if seen > most or texts > 2 * most:  # each is a value, or its name
            return True
    return seen + sum(raw.count(each, end) for each in _BEFORE_VALUES) > most
