"""Numbers that are written with commas, separators of thousands or units, and whether it is sure what they are.

A column of texts becomes one of numbers only if every text of it is a number in one way of writing, and no other way
that fits them all would give other numbers: ``1,234`` alone may be a thousand or one and a bit, ``1,234.5`` may not.
Where a column is not sure, another one of the file may tell: beside ``12,50`` the point of ``1.234`` is no decimal one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.limits import MAX_LISTED_VALUES, MAX_NAME_CHARACTERS
from service.ingest.missing_words import are_words
from service.ingest.numbers import text_bytes
from service.ingest.options import correction
from service.ingest.statistics import number_text
from solver.labels import is_missing_word
from solver.reading import BLANKS, THOUSANDS, UNITS, Reading

WAYS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Decimal sign and separator of thousands, the simplest first."""
FEWEST_VALUES = 3
"""Two different texts are two classes, and as such stay what they are."""
MOST_DIGITS = 15
"""Longer numbers are identifiers, of which float64 would lose digits."""
_UNIT_BLANKS = "[ \t\u00a0\u202f]*"
_PLAIN = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
FIRST_TEXTS = 100
"""Among so many the first one is looked for that is no word for a missing value."""
GROUPED_BY_POINT = Reading(kind="number", decimal=",", thousands=".")
_GROUP = r"^[ \t]*[+-]?[1-9][0-9]{0,2}\.[0-9]{3}[ \t]*$"
_IN_PLAIN = np.zeros(256, dtype=bool)
_IN_PLAIN[np.frombuffer(b"0123456789-.", dtype=np.uint8)] = True
_SIGNS_OF_NUMBERS = (",", ".", " \u00a0\u2009\u202f", "'\u2019")


class NumberWriting:
    """Finds out, batch by batch, how the texts of a column write numbers.

    Parameters
    ----------
    said : Reading
        What the options say: a decimal comma, or a separator of thousands, leaves no other way.
    expected : bool, default False
        Whether somebody has said that the column holds numbers. Then zeros or a plus may stand in front, a few values
        are enough, and a point is a decimal one unless the options say otherwise.
    unit : str, default ""
        Of the numbers that are no texts, see `add_typed`. Texts have to have it too.
    """

    def __init__(self, said: Reading, *, expected: bool = False, unit: str = "") -> None:
        self._said = said
        self._expected = expected
        self._ways = [way for way in WAYS if said.decimal in (".", way[0]) and said.thousands in ("", way[1])]
        self._unit: str | None = unit or None
        self._typed_unit = unit
        self._has_typed = False
        self._has_words = False
        self._seen: set[str] = set()
        self._unlike_plain = False
        self._values: set[str] = set()
        self._fewest_digits, self._most_digits = math.inf, 0

    def add(self, texts: pa.StringArray) -> None:
        """Take a batch into account. Words for missing values do not count."""
        if not self._ways:
            return
        texts = texts.drop_null()
        if len(texts) == 0:
            return
        # Of a column of which nobody has said that it holds numbers.
        first = next((text for text in texts[:FIRST_TEXTS].to_pylist() if not is_missing_word(text)), None)
        if first is not None:
            if not self._expected and self._unit is None and not any("0" <= each <= "9" for each in first):
                self._ways = []  # as most texts: nothing more of the column is looked at
                return
            first = first.strip(BLANKS)
            if self._unit is None:
                self._unit = _unit_of(first)
            # One text by itself: it shows most columns of other texts to be such.
            self._ways = [way for way in self._ways if re.search(_pattern(*way, self._unit, self._expected), first)]
            if not self._ways:
                return
        values = pc.utf8_trim(pc.unique(texts), BLANKS)
        words = are_words(values)
        if pc.any(words).as_py():
            self._has_words = True
            values = values.filter(pc.invert(words))
            if len(values) == 0:
                return
        if self._unit is None:
            self._unit = _unit_of(values[0].as_py())
        for way in tuple(self._ways):
            if not pc.all(pc.match_substring_regex(values, _pattern(*way, self._unit, self._expected))).as_py():
                self._ways.remove(way)
        if not self._ways:
            return
        if len(self._values) < FEWEST_VALUES:
            self._values.update(values[:FEWEST_VALUES].to_pylist())
        self._unlike_plain = self._unlike_plain or not pc.all(pc.match_substring_regex(values, _PLAIN)).as_py()
        for signs in _SIGNS_OF_NUMBERS:
            inside = f"[0-9][{re.escape(signs)}]+[0-9]" if signs[0] not in ",." else re.escape(signs)
            if signs[0] not in self._seen and pc.any(pc.match_substring_regex(values, inside)).as_py():
                self._seen.add(signs[0])
        digits = pc.utf8_length(pc.replace_substring_regex(values, "[^0-9]", ""))
        bounds = pc.min_max(digits).as_py()
        self._fewest_digits = min(self._fewest_digits, bounds["min"])
        self._most_digits = max(self._most_digits, bounds["max"])

    def add_typed(self, numbers: pa.DoubleArray) -> None:
        """Take numbers of the same column into account that are no texts: they keep their values in any way."""
        few = pc.unique(numbers[:FIRST_TEXTS].drop_null())[:FEWEST_VALUES]
        if len(few):
            self._has_typed = True
        if len(self._values) < FEWEST_VALUES:
            self._values.update(map(number_text, few.to_pylist()))

    def proven_decimal(self) -> str | None:
        """Return the decimal sign that texts of the column have in any way that fits them; None without any."""
        signs = {decimal for decimal, _ in self._ways}
        return next(iter(signs)) if len(signs) == 1 and self._values and signs <= self._seen else None

    def found(self, decimal: str | None = None) -> Reading | None:
        """Return how all texts write numbers; None if they do not, or do so plainly, or if that is not sure.

        Parameters
        ----------
        decimal : {".", ","}, optional
            The decimal sign of other columns of the file. It tells of a column that else may be written in two ways;
            not of one that somebody has said to hold numbers, whose point is a decimal one.
        """
        by_default = self._expected and WAYS[0] in self._ways
        ways = self._ways if decimal is None or by_default else [way for way in self._ways if way[0] == decimal]
        if not ways or not self._may_be_numbers(ways):
            return None
        meanings = self._meanings(ways)
        if len(meanings) > 1 and not by_default:
            return None
        # Identifiers are grouped too, but all of one length.
        grouped = "thousands" in meanings[0] and "decimal" not in meanings[0]
        is_said = self._expected or bool(self._said.thousands)
        # Where it is known what a comma is, it is known what a point is.
        is_said = is_said or ((decimal or self._said.decimal) == "," and ways[0][1] == ".")
        is_said = is_said or (decimal == "." and ways[0][1] == ",")
        if grouped and self._fewest_digits == self._most_digits and not is_said:
            return None
        decimal, thousands = ways[0]
        return Reading(
            kind="number",
            missing=self._said.missing,
            trim=self._said.trim,
            decimal=decimal,
            thousands=thousands or self._said.thousands,
            unit=self._unit or "",
        )

    def doubt(self) -> str | None:
        """Say, as the end of a sentence about the column, why it stays text if it may hold numbers in several ways."""
        if not self._ways or not self._may_be_numbers(self._ways) or len(self._meanings(self._ways)) < 2:
            return None
        if "," in self._seen:
            return (
                "looks like numbers whose comma may be decimal or separate thousands; if it is decimal, upload again "
                'with option decimal ","; if it separates thousands, with option thousands ","'
            )
        return (
            "looks like numbers whose point may be decimal or separate thousands; if it is decimal, upload again with "
            'option thousands ","; if it separates thousands, with options decimal "," and thousands "."'
        )

    def _may_be_numbers(self, ways: Sequence[tuple[str, str]]) -> bool:
        if not self._values or (self._has_typed and (self._unit or "") != self._typed_unit):
            return False
        if self._expected:
            return True
        # With points for thousands a number may look like one with decimals.
        unlike_plain = self._unlike_plain or ("." in self._seen and all(thousands == "." for _, thousands in ways))
        different = len(self._values) + self._has_words
        few = different < FEWEST_VALUES and not self._said.thousands and self._said.decimal == "."
        return unlike_plain and not few and self._most_digits <= MOST_DIGITS

    def _meanings(self, ways: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
        """What the signs that occur may mean, the simplest way first."""
        return list(dict.fromkeys(tuple(_meaning(sign, way) for sign in sorted(self._seen)) for way in ways))


class PointsOfNumbers:
    """Finds out, batch by batch, what the points are in a column of plain numbers.

    Attributes
    ----------
    may_group : bool
        Whether a point separates three digits from up to three, as in ``1.234``.
    are_decimal : bool
        Whether one can be nothing else than the decimal sign, as in ``12.50`` and ``0.125``.
    """

    def __init__(self) -> None:
        self.may_group = False
        self.are_decimal = False

    def add(self, texts: pa.StringArray) -> None:
        """Take a batch into account. Words for missing values do not count."""
        # A slice first: most columns show it at once.
        for part in (texts[:FIRST_TEXTS], texts[FIRST_TEXTS:]):
            self._add(part)

    @classmethod
    def add_together(cls, each: Sequence[PointsOfNumbers], columns: Sequence[pa.StringArray]) -> None:
        """Take a batch of several columns into account, which have as many rows: as `add` of each, at less cost."""
        undecided = [(points, texts) for points, texts in zip(each, columns, strict=True) if not points.are_decimal]
        if not undecided or not len(columns[0]):
            return
        firsts = [texts[:FIRST_TEXTS] for _, texts in undecided]
        offsets, data = text_bytes(pa.concat_arrays(firsts))
        if _IN_PLAIN.take(data).all():
            rows, grouped = _points(offsets, data)
            places = rows // len(firsts[0])
            count = np.bincount(places, minlength=len(firsts))
            in_groups = np.bincount(places[grouped], minlength=len(firsts))
            for (points, _), here, of_groups in zip(undecided, count.tolist(), in_groups.tolist(), strict=True):
                points._note(here, of_groups)
        else:
            for (points, _), first in zip(undecided, firsts, strict=True):
                points._add(first)
        for points, texts in undecided:
            points._add(texts[FIRST_TEXTS:])

    def _add(self, texts: pa.StringArray) -> None:
        if self.are_decimal or not len(texts):
            return
        offsets, data = text_bytes(texts)
        if not (data == ord(".")).any():
            return
        if _IN_PLAIN[data].all():
            _, grouped = _points(offsets, data)
            self._note(len(grouped), int(np.count_nonzero(grouped)))
        else:
            with_point = pc.match_substring_regex(texts, r"[0-9]\.|\.[0-9]")
            grouped = pc.match_substring_regex(texts, _GROUP)
            self.may_group = self.may_group or pc.any(grouped).as_py() is True
            self.are_decimal = pc.any(pc.and_not(with_point, grouped)).as_py() is True

    def _note(self, points: int, in_groups: int) -> None:
        self.may_group = self.may_group or in_groups > 0
        self.are_decimal = in_groups < points


def _points(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the rows of the points of plain numbers, and whether each may separate thousands."""
    points = np.flatnonzero(data == ord("."))
    rows = np.searchsorted(offsets, points, side="right") - 1
    starts = offsets[rows] + (data[offsets[rows]] == ord("-"))
    before, behind = points - starts, offsets[rows + 1] - points
    grouped: NDArray[np.bool_] = (behind == 4) & (before >= 1) & (before <= 3) & (data[starts] != ord("0"))
    return rows, grouped


class WrittenLabels:
    """How the numbers of a column stand in the file where they are few, in case they are labels: ``10%`` for 10.

    Parameters
    ----------
    reading : Reading
        Of the column.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._texts: dict[float, str] | None = {}
        self._others: dict[float, str] = {}

    def add(self, texts: pa.StringArray) -> None:
        """Take a batch into account, of whose texts those that are numbers by the reading count."""
        if self._texts is None:
            return
        for part in (texts[: 10 * MAX_LISTED_VALUES], texts[10 * MAX_LISTED_VALUES :]):
            different = pc.unique(part.drop_null())
            for text in different[: 10 * MAX_LISTED_VALUES].to_pylist():
                with suppress(ValueError):  # a word for a missing value
                    number, spelt = self._reading.number(text), text.strip(BLANKS)
                    if self._texts.setdefault(number, spelt) != spelt:
                        self._others.setdefault(number, spelt)
            if len(self._texts) > MAX_LISTED_VALUES or len(different) > 10 * MAX_LISTED_VALUES:
                self._texts = None
                return

    def found(self) -> dict[str, str] | None:
        """Return the texts by the shortest form of the number, of several ones the first; None if there are many.

        Also None where all stand in that form, and for 0, 1 and -1 with zeros as decimals: labels that need no telling.
        """
        if not self._texts:
            return None
        if self._texts.keys() <= {-1.0, 0.0, 1.0} and not self._reading.unit:
            return None
        texts = {number_text(number): text for number, text in self._texts.items() if not math.isnan(number)}
        if any(len(text) > MAX_NAME_CHARACTERS for text in texts.values()):
            return None
        return None if all(form == text for form, text in texts.items()) else texts

    def several(self) -> list[tuple[str, str]]:
        """Return the text of each number that has two and more, the first one, and another one."""
        texts = self._texts if self.found() is not None and self._texts else {}
        return [(texts[number], other) for number, other in self._others.items() if number in texts]


def numbers_of(texts: pa.StringArray, reading: Reading) -> pa.DoubleArray:
    """Return the numbers that all texts of a column were found to be."""
    coded = texts.dictionary_encode()
    values = [None if text is None else reading.number(text) for text in coded.dictionary.to_pylist()]
    return pa.array(values, pa.float64()).take(coded.indices)


def said_of(name: str, reading: Reading, proof: str | None = None) -> str:
    """What the person who sent the file should know of a column that is read so, maybe because of another column."""
    parts = []
    if reading.decimal == ",":
        parts.append("a comma is the decimal sign")
    if reading.thousands:
        parts.append(f"{reading.thousands!r} separates thousands")
    if reading.unit:
        parts.append(f"{reading.unit} is left out (12 {reading.unit} is 12)")
    how = ", ".join(parts) or "with a minus of typesetters"
    if proof is not None:
        how += f", because of what column {proof!r} holds"
        if reading.thousands == ".":
            how += f"; if its point is decimal: {correction(name, 'number')}"
    return f"column {name!r} is read as numbers: {how}; if they are none: {correction(name, 'category')}"


def _meaning(sign: str, way: tuple[str, str]) -> str:
    return "decimal" if sign == way[0] else "thousands" if sign == way[1] else ""


def _unit_of(text: str) -> str:
    bare = text.lstrip("+-\u2212")
    return next((unit for unit in UNITS if bare.startswith(unit) or text.endswith(unit)), "")


@lru_cache(1024)
def _pattern(decimal: str, thousands: str, unit: str, expected: bool) -> str:
    """What a text of a column looks like that writes numbers in this way; no zeros in front, which codes have."""
    point = re.escape(decimal)
    exponent = "(?:[eE][+-]?[0-9]+)?" if expected else ""
    whole = "[0-9]+" if expected else "(?:0|[1-9][0-9]*)"
    number = rf"(?:{whole}(?:{point}[0-9]{'*' if expected else '+'})?|{point}[0-9]+){exponent}"
    if thousands:
        for separator in THOUSANDS[thousands]:
            number += rf"|[1-9][0-9]{{0,2}}(?:{re.escape(separator)}[0-9]{{3}})+(?:{point}[0-9]+)?"
    number = f"(?:{number})"
    sign = "[+\u2212-]?" if expected else "[\u2212-]?"  # what begins with a plus is often a telephone number
    if not unit:
        return f"^{sign}{number}$"
    mark = re.escape(unit)
    before = f"(?:{sign}{mark}{_UNIT_BLANKS}|{mark}{_UNIT_BLANKS}{sign})"
    return f"^(?:{before}{number}|{sign}{number}{_UNIT_BLANKS}{mark})$"
