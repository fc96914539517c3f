"""How much a JSON text holds, told before it is parsed: what is small as a text may be large as objects."""

from __future__ import annotations

import re

import numpy as np

MOST_SMALL_BYTES = 1 << 16
"""What a text of so few bytes may hold is not worth a look."""
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""One without an end takes all that follows: it is not JSON, and each of its quotes would be tried as a beginning."""

_BEFORE_VALUES = (b",", b"[", b"{")
_COUNTED_BY_NUMPY_BYTES = 1 << 13
"""From here on NumPy counts sooner: a tenth of the time that `bytes.count` takes for a large text."""
_BLOCK_BYTES = 1 << 18
"""It looks at so many at a time, of which it needs a copy."""


def count_of(character: bytes, raw: bytes) -> int:
    """Return how often a character of ASCII is in a text."""
    if len(raw) < _COUNTED_BY_NUMPY_BYTES:
        return raw.count(character)
    codes = np.frombuffer(raw, np.uint8)
    blocks = np.split(codes, range(_BLOCK_BYTES, len(codes), _BLOCK_BYTES))
    return sum([int(np.count_nonzero(block == ord(character))) for block in blocks])


class TooManyValuesError(ValueError):
    """What holds more values than are read: as objects they would take far more memory than it has bytes."""


def is_mostly_brackets(raw: bytes) -> bool:
    """Tell whether a text is mostly nested brackets: more than one in four bytes opens a list or an object.

    As many as a small text may hold are not held against it. A list in a list takes two bytes of JSON and some 80 of
    memory, an empty one after another three and 80, against which nothing else comes up.
    """

    def has_too_many(text: bytes) -> bool:
        return 4 * (count_of(b"[", text) + count_of(b"{", text)) > len(text) + MOST_SMALL_BYTES

    # The texts within take longer to leave out than all else here; nearly nothing has many brackets with them.
    return has_too_many(raw) and has_too_many(_TEXTS.sub(b"", raw))


def has_more_values_than(most: int, raw: bytes) -> bool:
    """Tell whether a text may hold more values than so many: each but the first follows a comma or opens something."""
    if sum(count_of(each, raw) for each in _BEFORE_VALUES) <= most:
        return False
    seen = end = 0
    for texts, found in enumerate(_TEXTS.finditer(raw)):
        seen += sum(raw.count(each, end, found.start()) for each in _BEFORE_VALUES)
        end = found.end()
        if seen > most or texts > 2 * most:  # each is a value, or its name
            return True
    return seen + sum(raw.count(each, end) for each in _BEFORE_VALUES) > most
