"""Tells whether the first line of a delimited file names its columns or holds values.

It loads nothing but the standard library: the command line asks it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

NUMBER_SHARE = 0.95
"""So many values have to be numbers for their column to be one of numbers."""
REPEATS = 2
"""How often a value has to occur again to be one of a few."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NAME = re.compile(r"-.*|.*[eE][+-]?[0-9]+|.*[.,][0-9]{3,}")
"""Numbers that nobody calls a column by: negative ones, with exponents or many decimals."""
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}(?:[ T][0-9]{1,2}:[0-9]{2}.*)?")
_USUAL_NAMES = frozenset(
    (
        *("abstract", "address", "answer", "article", "author", "body", "category", "city", "comment", "content"),
        *("country", "date", "description", "document", "email", "feature", "file", "filename", "from", "headline"),
        *("id", "item", "key", "mail", "message", "name", "note", "post", "product", "prompt", "query", "question"),
        *(
            "reason",
            "response",
            "review",
            "sentence",
            "sender",
            "source",
            "subject",
            "summary",
            "text",
            "time",
            "title",
        ),
        *("to", "topic", "tweet", "url", "user", "utterance", "word"),
    )
)
"""Above texts of any length, such a word is a name, unless it occurs again."""
FEWEST_TO_TELL = 10
"""So many values below, none of which is spelt as the first line, tell that this is no value."""
_SPELLINGS = (
    re.compile(r"[^\W_]+(?:_[^\W_]+)+"),
    re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+"),
    re.compile(r"[A-Z][A-Z0-9 _-]+"),
    re.compile(r"[A-Z][^\W_].*"),
)
"""Names of columns: `word_form`, `wordForm`, `WORD`, `Word`. The last is for values in small letters alone."""
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "-", "?", "unknown", "\\n"))


@dataclass(frozen=True)
class FirstLine:
    """What the first line seems to be.

    Attributes
    ----------
    holds_values : bool
        Whether it can be no names.
    why : str
        What speaks for values; empty if nothing does.
    """

    holds_values: bool
    why: str


_NAMES = FirstLine(False, "")


def look_at_first_line(first: Sequence[str], rows: Sequence[Sequence[str]]) -> FirstLine:
    """Compare the first line with rows below it.

    A text above numbers or dates is a name, whatever the others are. Else the line holds values if one of them occurs
    again and again in the few values of its column, if dates stand above dates, or if several numbers stand above
    numbers of their size. Numbers that rise from column to column (years, places) may well be names.

    Parameters
    ----------
    first : sequence of str
    rows : sequence of sequence of str
        Some of the first rows; those with another number of values are left out.
    """
    first = [each.strip() for each in first]
    width = len(first)
    below = [[each.strip() for each in row] for row in rows if len(row) == width]
    if width > 1 and not all(map(_NUMBER.fullmatch, first)):
        below = [row for row in below if row != first]  # files that were put together repeat their names
    if not below:
        return _NAMES
    evidence: list[str] = []
    doubts = 0
    numbers: list[tuple[str, float, float, float]] = []
    other_numbers = False
    for position, (value, column) in enumerate(zip(first, zip(*below, strict=True), strict=True), start=1):
        present = [each for each in column if each.lower() not in _MISSING]
        if value.lower() in _MISSING or not present:
            continue
        if _share(_NUMBER, present) >= NUMBER_SHARE:
            if _NUMBER.fullmatch(value) is None:
                return _NAMES
            found = [_float(each) for each in present if _NUMBER.fullmatch(each)]
            numbers.append((value, _float(value), min(found), max(found)))
        elif _share(_DATE, present) >= NUMBER_SHARE:
            if _DATE.fullmatch(value) is None:
                return _NAMES
            evidence.append(f"a date stands above dates in column {position}")
        elif _NUMBER.fullmatch(value):
            other_numbers = True
        else:
            again = present.count(value)
            distinct = len(set(present))
            if again >= REPEATS and distinct * 2 <= len(present) and (width > 1 or again * 10 >= len(present)):
                evidence.append(f"its value in column {position} occurs {again} times below")
            elif again == 0 and (
                distinct * 2 <= len(present)
                or _is_short(value, present)
                or value.lower() in _USUAL_NAMES
                or _is_spelt_otherwise(value, present)
            ):
                doubts += 1
    if evidence:
        return FirstLine(len(evidence) > 2 * doubts, evidence[0])
    if numbers and not doubts and not other_numbers and _are_values(numbers):
        return FirstLine(True, "numbers stand above numbers of their size")
    return FirstLine(False, "numbers stand in it" if numbers or other_numbers else "")


def _are_values(numbers: Sequence[tuple[str, float, float, float]]) -> bool:
    """Tell whether these cannot be names: (text, number, smallest and largest number below)."""
    inside = sum(low <= number <= high for _, number, low, high in numbers)
    if inside < 0.9 * len(numbers):
        return False
    if any(_NO_NAME.fullmatch(text) for text, *_ in numbers):
        return True
    values = [number for _, number, *_ in numbers]
    rises = all(a < b for a, b in pairwise(values)) or all(a > b for a, b in pairwise(values))
    return len(values) > 2 and not rises


def _is_short(value: str, present: Sequence[str]) -> bool:
    """Whether it is a word above long texts."""
    return len(value) * 4 <= median(map(len, present))


def _is_spelt_otherwise(value: str, present: Sequence[str]) -> bool:
    """Whether it is spelt as names are, and none of the values below is, although there are enough to tell."""
    return len(present) >= FEWEST_TO_TELL and any(
        spelling.fullmatch(value) and not any(map(spelling.fullmatch, present)) for spelling in _SPELLINGS
    )


def _share(pattern: re.Pattern[str], values: Sequence[str]) -> float:
    return sum(pattern.fullmatch(value) is not None for value in values) / len(values)


def _float(text: str) -> float:
    return float(text.replace(",", "."))
