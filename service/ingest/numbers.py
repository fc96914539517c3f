"""Which texts are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.limits import MAX_EXACT_INTEGER
from solver.reading import BLANKS

PLAIN_NUMBER = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
"""A decimal number, maybe with an exponent: no leading zeros or ``+``, no ``nan`` or ``inf``, no hex, no separators.
Such texts are often not meant as numbers, and the caller can still say that they are."""

_DECIMAL_COMMA = "^[+-]?[0-9]*,[0-9]+$"
_THOUSANDS = "^[+-]?[1-9][0-9]{0,2}(?:[.,'\u2019 \u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?$"
_SIGNS = "()\u2212\u00a0\u202f$\u20ac\u00a3\u00a5%"
_WITH_SIGNS = f"^[{_SIGNS} +-]*[0-9][0-9.,]*[{_SIGNS} ]*$"
SEEN_TEXTS = 1000
"""Texts that are looked at for another way of writing numbers."""
SEEN_SHARE = 0.9
"""How many of them have to be written in it."""

FIRST_TEXTS = 16
"""Of a column, that are converted before the others are."""

_IN_NUMBERS = b"0123456789+-.eE"
_LETTERS = np.zeros(256, dtype=bool)
_LETTERS[np.frombuffer(ascii_letters.encode(), dtype=np.uint8)] = True
_ZERO, _MINUS, _PLUS = (np.uint8(each) for each in b"0-+")


def array_values(array: pa.Array, dtype: type[Any]) -> NDArray[Any]:
    """Return the values of an array without missing ones, as a view."""
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def text_bytes(texts: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return offsets (n + 1) into, and the bytes of, a string array; missing texts are empty."""
    offsets, data = _buffers(texts)
    # Arrow may keep the bytes of a text that it made missing.
    if texts.null_count and len(data) != (pc.sum(pc.binary_length(texts)).as_py() or 0):
        return _buffers(pc.fill_null(texts, ""))
    return offsets, data


def _buffers(texts: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def plain_numbers(texts: pa.StringArray) -> pa.DoubleArray | None:
    """Return the numbers that all texts are, or None if one of them is something else.

    Blanks around a number do not matter. A number that float64 cannot hold is something else: an infinite one, and an
    integer beyond 2**53, which is an identifier.
    """
    offsets, data = text_bytes(texts)
    if other := data.tobytes().translate(None, _IN_NUMBERS):
        if other.translate(None, BLANKS.encode()):
            return None
        texts = pc.utf8_trim(texts, BLANKS)
        offsets, data = text_bytes(texts)
        if data.tobytes().translate(None, _IN_NUMBERS):
            return None
    if _has_sign_or_zero_in_front(offsets, data):
        return None
    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None
    size = _largest(numbers)
    if size < MAX_EXACT_INTEGER:
        return numbers
    if size == float("inf"):
        return None
    large = texts.filter(pc.greater_equal(pc.abs(numbers), float(MAX_EXACT_INTEGER)))
    if pc.any(pc.match_substring_regex(large, "^-?[0-9]+$")).as_py():
        return None
    return numbers


def plain_columns(columns: Sequence[pa.StringArray]) -> list[pa.DoubleArray | None]:
    """Return for each column what `plain_numbers` does, or None where that has to look closer, at the cost of one.

    Columns that hold nothing but numbers, without blanks around them, are told together: of a few thousand values, what
    each call costs weighs more than the values.

    Parameters
    ----------
    columns : sequence of string array of shape (rows,)
    """
    # The first values show most columns of other texts to be such. Each text that is no number costs several times as
    # much to convert as one, for Arrow words an error about it.
    shown = _clean_columns([column[:FIRST_TEXTS] for column in columns])
    maybe = [place for place, numbers in enumerate(shown) if numbers is not None]
    found: list[pa.DoubleArray | None] = [None] * len(columns)
    for place, numbers in zip(maybe, _clean_columns([columns[place] for place in maybe]), strict=True):
        found[place] = numbers
    return found


def _clean_columns(columns: Sequence[pa.StringArray]) -> list[pa.DoubleArray | None]:
    if not columns:
        return []
    numbers = _clean_numbers(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
    if numbers is not None:
        rows = len(columns[0])
        return [numbers.slice(place * rows, rows) for place in range(len(columns))]
    if len(columns) == 1:
        return [None]
    half = len(columns) // 2
    return [*_clean_columns(columns[:half]), *_clean_columns(columns[half:])]


def _clean_numbers(texts: pa.StringArray) -> pa.DoubleArray | None:
    """Return the numbers that texts are whose conversion alone tells that they are plain."""
    if _has_sign_or_zero_in_front(*text_bytes(texts)):
        return None
    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None
    # Words that Arrow takes for numbers are infinite ones or none.
    if not _largest(numbers) < MAX_EXACT_INTEGER or (numbers.null_count and pc.any(pc.is_nan(numbers)).as_py()):
        return None
    return numbers


def _largest(numbers: pa.DoubleArray) -> float:
    """Return the largest absolute value; 0 without any."""
    if numbers.null_count:
        return pc.max(pc.abs(numbers)).as_py() or 0.0
    values = array_values(numbers, np.float64)
    return float(max(values.max(), -values.min())) if len(values) else 0.0


def any_numbers(texts: pa.StringArray) -> pa.DoubleArray:
    """Return numbers for a column of which the caller has said that it holds some; null where a text is none.

    Takes what `plain_numbers` takes, leading zeros, a leading ``+``, and integers of any length (rounded).
    """
    trimmed = pc.utf8_trim(texts, BLANKS)
    fits = pc.match_substring_regex(trimmed, r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")
    numbers = pc.cast(pc.if_else(fits, trimmed, None), pa.float64())
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def are_plain(texts: pa.StringArray) -> pa.BooleanArray:
    """Tell for each text by itself whether it is a plain number; null where it is missing."""
    return pc.match_substring_regex(pc.utf8_trim(texts, BLANKS), PLAIN_NUMBER)


def written_otherwise(texts: pa.StringArray, decimal: str) -> str | None:
    """Say what to do about texts that seem to be numbers in a way that is not read; None if they do not seem so."""
    texts = texts.drop_null()[:SEEN_TEXTS]
    if 1 - share_of_letters(texts) < SEEN_SHARE:
        return None
    trimmed = pc.utf8_trim(texts, BLANKS)
    plain = pc.match_substring_regex(trimmed, PLAIN_NUMBER)

    def seem(such: pa.BooleanArray) -> bool:
        others = pc.any(pc.and_not(such, plain)).as_py()
        return bool(others and pc.mean(pc.or_(such, plain)).as_py() >= SEEN_SHARE)

    with_comma = pc.match_substring_regex(trimmed, _DECIMAL_COMMA)
    with_thousands = pc.match_substring_regex(trimmed, _THOUSANDS)
    if decimal != "," and seem(with_comma):
        if pc.any(pc.and_not(with_comma, with_thousands)).as_py():
            return 'looks like numbers with decimal commas; if they are, upload again with option decimal ","'
        return (
            'looks like numbers with commas; if these are decimal, upload again with option decimal ","; if they '
            'separate thousands, with option thousands ","'
        )
    if seem(with_thousands):
        return "looks like numbers with separators of thousands; upload again with the separator as option thousands"
    if seem(pc.and_(pc.match_substring_regex(texts, _WITH_SIGNS), pc.match_substring_regex(texts, f"[{_SIGNS}]"))):
        return (
            "looks like numbers with signs (of currency or percent, parentheses, a blank or minus of typesetters) that "
            "are not read; leave them out"
        )
    return None


def share_of_letters(texts: pa.StringArray) -> float:
    """Return which share of the texts that are not empty begins with a letter of ASCII, as no number does."""
    if len(texts) == 0:
        return 0.0
    offsets, data = text_bytes(texts)
    first = data[offsets[:-1][np.diff(offsets) > 0]]
    return float(_LETTERS[first].mean()) if len(first) else 0.0


def _has_sign_or_zero_in_front(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> bool:
    """Whether a text begins with ``+``, or has a digit after a zero in front."""
    if len(data) == 0:
        return False
    # Of a missing one this is where the next one begins, which harms nothing.
    begin, end = offsets[:-1], offsets[1:]
    first = data.take(begin, mode="clip")
    if (first == _PLUS).any():
        return True
    is_negative = first == _MINUS
    if is_negative.any():
        begin = begin + is_negative
        first = data.take(begin, mode="clip")
    second = begin + 1
    is_digit = data.take(second, mode="clip") - _ZERO < 10  # unsigned: what is less than zero becomes large
    return bool(((first == _ZERO) & is_digit & (second < end)).any())


def has_leading_zeros(texts: pa.StringArray) -> bool:
    """Whether a text of digits only begins with a zero and goes on."""
    offsets, data = text_bytes(texts)
    starts = offsets[:-1]
    long_enough = np.flatnonzero(np.diff(offsets) > 1)
    suspects = long_enough[data[starts[long_enough]] == _ZERO]
    if len(suspects) == 0:
        return False
    return bool(pc.any(pc.match_substring_regex(texts.take(pa.array(suspects)), "^0[0-9]+$")).as_py())


def has_outer_blanks(texts: pa.StringArray) -> bool:
    """Whether a text begins or ends with a blank."""
    offsets, data = text_bytes(texts)
    raw = data.tobytes()
    if not any(blank in raw for blank in BLANKS.encode()):  # as in most columns, and told at the speed of memory
        return False
    present = np.flatnonzero(np.diff(offsets))
    edges: NDArray[Any] = np.concatenate([data[offsets[:-1][present]], data[offsets[1:][present] - 1]])
    return any(bool((edges == blank).any()) for blank in BLANKS.encode())
