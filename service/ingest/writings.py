"""Numbers that are written with commas, separators of thousands or units, and whether it is sure what they are.

A column of texts becomes one of numbers only if every text of it is a number in one way of writing, and no other way
that fits them all would give other numbers: ``1,234`` alone may be a thousand or one and a bit, ``1,234.5`` may not.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from service.ingest.limits import MAX_LISTED_VALUES, MAX_NAME_CHARACTERS
from service.ingest.statistics import number_text
from solver.reading import BLANKS, THOUSANDS, UNITS, Reading

WAYS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Decimal sign and separator of thousands, the simplest first."""
FEWEST_VALUES = 3
"""Two different texts are two classes, and as such stay what they are."""
MOST_DIGITS = 15
"""Longer numbers are identifiers, of which float64 would lose digits."""
_UNIT_BLANKS = "[ \t\u00a0\u202f]*"
_PLAIN = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
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
    """

    def __init__(self, said: Reading, *, expected: bool = False) -> None:
        self._said = said
        self._expected = expected
        self._ways = [way for way in WAYS if said.decimal in (".", way[0]) and said.thousands in ("", way[1])]
        self._unit: str | None = None
        self._seen: set[str] = set()
        self._unlike_plain = False
        self._values: set[str] = set()
        self._fewest_digits, self._most_digits = math.inf, 0

    def add(self, texts: pa.StringArray) -> None:
        """Take a batch into account."""
        if not self._ways:
            return
        texts = texts.drop_null()
        if len(texts) == 0:
            return
        # Of a column of which nobody has said that it holds numbers.
        if not self._expected and self._unit is None and not any("0" <= each <= "9" for each in texts[0].as_py()):
            self._ways = []  # as most texts: nothing more of the column is looked at
            return
        values = pc.utf8_trim(pc.unique(texts), BLANKS)
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

    def found(self) -> Reading | None:
        """Return how all texts write numbers; None if they do not, or do so plainly, or if that is not sure."""
        if not self._may_be_numbers():
            return None
        meanings = self._meanings()
        by_default = self._expected and WAYS[0] in self._ways
        if len(meanings) > 1 and not by_default:
            return None
        # Identifiers are grouped too, but all of one length.
        grouped = "thousands" in meanings[0] and "decimal" not in meanings[0]
        is_said = self._expected or bool(self._said.thousands)
        if grouped and self._fewest_digits == self._most_digits and not is_said:
            return None
        decimal, thousands = self._ways[0]
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
        if not self._may_be_numbers() or len(self._meanings()) < 2:
            return None
        if "," in self._seen:
            return (
                "looks like numbers whose comma may be decimal or separate thousands; if it is decimal, upload again "
                'with option decimal ","; if it separates thousands, with option thousands ","'
            )
        return (
            "looks like numbers whose point may be decimal or separate thousands; if it is decimal, say number for it "
            'in option columns; if it separates thousands, upload again with options decimal "," and thousands "."'
        )

    def _may_be_numbers(self) -> bool:
        if not self._ways or not self._values:
            return False
        if self._expected:
            return True
        # With points for thousands a number may look like one with decimals.
        unlike_plain = self._unlike_plain or (self._said.thousands == "." and "." in self._seen)
        few = len(self._values) < FEWEST_VALUES and not self._said.thousands and self._said.decimal == "."
        return unlike_plain and not few and self._most_digits <= MOST_DIGITS

    def _meanings(self) -> list[tuple[str, ...]]:
        """What the signs that occur may mean, the simplest way first."""
        return list(dict.fromkeys(tuple(_meaning(sign, way) for sign in sorted(self._seen)) for way in self._ways))


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

    def add(self, texts: pa.StringArray) -> None:
        """Take a batch into account, of whose texts those that are numbers by the reading count."""
        if self._texts is None:
            return
        for part in (texts[: 10 * MAX_LISTED_VALUES], texts[10 * MAX_LISTED_VALUES :]):
            different = pc.unique(part.drop_null())
            for text in different[: 10 * MAX_LISTED_VALUES].to_pylist():
                with suppress(ValueError):  # a word for a missing value
                    self._texts.setdefault(self._reading.number(text), text.strip(BLANKS))
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


def numbers_of(texts: pa.StringArray, reading: Reading) -> pa.DoubleArray:
    """Return the numbers that all texts of a column were found to be."""
    coded = texts.dictionary_encode()
    values = [None if text is None else reading.number(text) for text in coded.dictionary.to_pylist()]
    return pa.array(values, pa.float64()).take(coded.indices)


def said_of(name: str, reading: Reading) -> str:
    """What the person who sent the file should know of a column that is read so."""
    parts = []
    if reading.decimal == ",":
        parts.append("a comma is the decimal sign")
    if reading.thousands:
        parts.append(f"{reading.thousands!r} separates thousands")
    if reading.unit:
        parts.append(f"{reading.unit} is left out (12 {reading.unit} is 12)")
    how = ", ".join(parts) or "with a minus of typesetters"
    return f"column {name!r} is read as numbers: {how}; if they are none, say category for it in option columns"


def _meaning(sign: str, way: tuple[str, str]) -> str:
    return "decimal" if sign == way[0] else "thousands" if sign == way[1] else ""


def _unit_of(text: str) -> str:
    bare = text.lstrip("+-\u2212")
    return next((unit for unit in UNITS if bare.startswith(unit) or text.endswith(unit)), "")


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
