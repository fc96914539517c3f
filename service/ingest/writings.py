"""Numbers that are written with commas, separators of thousands or units, and whether it is sure what they are.

A column of texts becomes one of numbers only if every text of it is a number in one way of writing, and no other way
that fits them all would give other numbers: ``1,234`` alone may be a thousand or one and a bit, ``1,234.5`` may not.
"""

from __future__ import annotations

import math
import re

import pyarrow as pa
import pyarrow.compute as pc

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
        What the options say: a decimal comma leaves no other way.
    """

    def __init__(self, said: Reading) -> None:
        self._said = said
        self._ways = [way for way in WAYS if said.decimal in (".", way[0])]
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
        if self._unit is None and not any("0" <= each <= "9" for each in texts[0].as_py()):
            self._ways = []  # as most texts: nothing more of the column is looked at
            return
        values = pc.utf8_trim(pc.unique(texts), BLANKS)
        if self._unit is None:
            self._unit = _unit_of(values[0].as_py())
        for way in tuple(self._ways):
            if not pc.all(pc.match_substring_regex(values, _pattern(*way, self._unit))).as_py():
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
        if not self._ways or not self._unlike_plain or len(self._values) < FEWEST_VALUES:
            return None
        if self._most_digits > MOST_DIGITS:
            return None
        meanings = {tuple(_meaning(sign, way) for sign in sorted(self._seen)) for way in self._ways}
        if len(meanings) > 1:
            return None
        (meaning,) = meanings
        # Identifiers are grouped too, but all of one length.
        grouped = "thousands" in meaning and "decimal" not in meaning
        if grouped and self._fewest_digits == self._most_digits:
            return None
        decimal, thousands = self._ways[0]
        return Reading(
            kind="number",
            missing=self._said.missing,
            trim=self._said.trim,
            decimal=decimal,
            thousands=thousands,
            unit=self._unit or "",
        )


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


def _pattern(decimal: str, thousands: str, unit: str) -> str:
    """What a text of a column looks like that writes numbers in this way; no zeros in front, which codes have."""
    point = re.escape(decimal)
    number = rf"(?:(?:0|[1-9][0-9]*)(?:{point}[0-9]+)?|{point}[0-9]+)"
    if thousands:
        for separator in THOUSANDS[thousands]:
            number += rf"|[1-9][0-9]{{0,2}}(?:{re.escape(separator)}[0-9]{{3}})+(?:{point}[0-9]+)?"
    number = f"(?:{number})"
    sign = "[\u2212-]?"  # what begins with a plus is often a telephone number
    if not unit:
        return f"^{sign}{number}$"
    mark = re.escape(unit)
    before = f"(?:{sign}{mark}{_UNIT_BLANKS}|{mark}{_UNIT_BLANKS}{sign})"
    return f"^(?:{before}{number}|{sign}{number}{_UNIT_BLANKS}{mark})$"
