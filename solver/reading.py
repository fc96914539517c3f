"""How the values of one column are written: what a text means, wherever it comes from.

An upload finds it out, a data set keeps it beside its columns, a model in its manifest. Whatever brings values later
(rows as JSON, tensors, another file, feedback) is read by it, so that the same value is the same at each door.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal

BLANKS: Final = " \t"
DECIMALS: Final = (".", ",")
# what may separate thousands, and the characters that are taken for it
THOUSANDS: Final[dict[str, str]] = {
    "": "",
    ",": ",",
    ".": ".",
    " ": " \u00a0\u2009\u202f",
    "'": "'\u2019",
}
CURRENCY_SIGNS: Final = ("$", "€", "£", "¥", "₹")
CURRENCY_CODES: Final = (
    *("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF"),
    *("BRL", "MXN", "ZAR", "KRW", "SGD", "HKD", "TRY", "ILS"),
)
# what may stand before or behind a number; it stays what it is: `12 %` is 12
UNITS: Final = ("%", *CURRENCY_SIGNS, *CURRENCY_CODES)

# words for missing values of one column, and characters of one, that a stored reading may hold
MAX_MISSING: Final = 1000
MAX_CHARACTERS: Final = 256
# float64 holds every integer up to here
LARGEST_EXACT: Final = 2**53

_PLAIN: Final = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?").fullmatch
_LOWER: Final = {ord(letter): ord(letter) + 32 for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_AROUND_UNITS: Final = " \t\u00a0\u202f"


class ReadingError(ValueError):
    """A stored reading contradicts itself: it was not written by this product, or is damaged."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the values of a column are written.

    Attributes
    ----------
    kind : {"number", "text"}, default "text"
        How they are held: dates, categories and free text are texts.
    missing : tuple of str
        Words that mean "missing"; the empty text always does.
    trim : bool, default False
        Blanks around a text do not count. Around a number they never do.
    decimal : {".", ","}, default "."
    thousands : str, default ""
        A key of `THOUSANDS`; empty where thousands are not separated.
    unit : str, default ""
        One of `UNITS`, or empty.
    composed : bool, default True
        Unicode is normalised (NFC): é is one character, however it was written.
    lower : bool, default False
        Capitals of texts do not count: a column of `TRUE` and `true`.
    typed : bool, default False
        Numbers were numbers by the format of the file, such as Parquet, and no texts. Of a column of texts: some were.
    """

    kind: Literal["number", "text"] = "text"
    missing: tuple[str, ...] = ()
    trim: bool = False
    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    composed: bool = True
    lower: bool = False
    typed: bool = False

    def number(self, text: str) -> float:
        """Return the number that a text is, NaN where it means "missing".

        Raises
        ------
        ValueError
            If it is neither; the text of the error says what was expected, never what was found.
        """
        if self.decimal == "." and _PLAIN(text) and math.isfinite(number := float(text)) and text not in self.missing:
            return number
        trimmed = text.strip(BLANKS)
        if not trimmed or trimmed in self.missing or text in self.missing:
            return math.nan
        sign, rest = _parts(trimmed, self.unit)
        found = _pattern(self.decimal, self.thousands).fullmatch(rest)
        if found is None:
            raise ValueError(self.expected)
        if (grouped := found["grouped"]) is not None:
            rest = grouped.replace(found["separator"], "")
        number = float(sign + rest.replace(self.decimal, "."))
        if not math.isfinite(number):
            raise ValueError(self.expected)
        return number

    def text(self, text: str) -> str | None:
        """Return a text as the column holds it, None where it means "missing"."""
        if self.composed and not text.isascii():
            text = unicodedata.normalize("NFC", text)
        if self.trim:
            text = text.strip(BLANKS)
        if not text or text in self.missing:
            return None
        return text.translate(_LOWER) if self.lower else text

    def category(self, text: str) -> str | None:
        """Return a text as the name of a level: of a column of numbers, the number in its shortest form."""
        if self.kind == "number":
            try:
                number = self.number(text)
            except ValueError:
                return self.text(text)
            return None if math.isnan(number) else number_text(number)
        return self.text(text)

    def loses(self, held: Reading, *, is_number: bool) -> bool:
        """Whether a column that was read in another way no longer tells what its texts are by this one.

        Parameters
        ----------
        held : Reading
            How it was read. Numbers that were no texts are what they are.
        is_number : bool
            Whether this reading is to give numbers, rather than texts as they were written.
        """
        if held.kind == "text":
            return held.lower and not self.lower
        if held.typed:
            return False
        if not is_number and self.kind == "text":
            return True
        return (
            held.decimal != self.decimal
            or held.thousands not in ("", self.thousands)
            or held.unit not in ("", self.unit)
            or (is_number and held.missing != self.missing and _has_number_besides(held, self.missing))
        )

    def is_number(self, text: str) -> bool:
        """Whether a text is a number, and no word for a missing one."""
        try:
            return not math.isnan(self.number(text))
        except ValueError:
            return False

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """Numbers that mean "missing" when they come as such: those of which the shortest form is a word for that."""
        return () if self.typed or not self.missing else _shortest_forms(self.missing)

    @property
    def expected(self) -> str:
        """What a text in a column of numbers should be, as in "expected a finite number, such as 1,5, or null"."""
        example = f"1{self.thousands}234{self.decimal}5" if self.thousands else f"1{self.decimal}5"
        if self.decimal == "." and not self.thousands and not self.unit:
            return "a finite number or null"
        shown = f"{example} {self.unit}" if self.unit else example
        return f"a finite number, as text written like {shown!r}, or null"

    def to_json(self) -> dict[str, Any]:
        """Return what differs from the default as a JSON object."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, (value, default) in values.items()
            if value != default
        }

    @classmethod
    def from_json(cls, stored: Any) -> Reading:
        """Rebuild from `to_json`, believing nothing.

        Raises
        ------
        ReadingError
            If it is no such object.
        """
        if not isinstance(stored, Mapping):
            raise ReadingError("the reading of a column must be a JSON object")
        checks: dict[str, Callable[[Any], bool]] = {
            "kind": lambda value: value in ("number", "text"),
            "missing": _is_missing,
            "trim": lambda value: isinstance(value, bool),
            "decimal": lambda value: value in DECIMALS,
            "thousands": lambda value: isinstance(value, str) and value in THOUSANDS,
            "unit": lambda value: value == "" or value in UNITS,
            **dict.fromkeys(("composed", "lower", "typed"), lambda value: isinstance(value, bool)),
        }
        for name, value in stored.items():
            if name not in checks or not checks[name](value):
                raise ReadingError("the reading of a column holds what it cannot")
        made = cls(**{**stored, "missing": tuple(stored.get("missing", ()))})
        if made.decimal == made.thousands:
            raise ReadingError("the reading of a column has one sign for decimals and thousands")
        return made


# by kind: of columns that no upload has read, and of those that one did which kept no reading yet
AS_IS: Final[dict[str, Reading]] = {
    "number": Reading(kind="number", composed=False, typed=True),
    "text": Reading(composed=False),
}


def number_text(value: float) -> str:
    """Return a number as text in its shortest form: `1` for 1.0, `0.5`."""
    return str(int(value)) if value.is_integer() and abs(value) < LARGEST_EXACT else repr(value)


def _is_missing(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_MISSING
        and all(isinstance(word, str) and len(word) <= MAX_CHARACTERS for word in value)
    )


# Remembered, because a table may have thousands of columns with the same words.
@lru_cache(maxsize=64)
def _has_number_besides(held: Reading, words: tuple[str, ...]) -> bool:
    """Whether one of these words was read as a number."""
    return any(map(held.is_number, set(words).difference(held.missing)))


@lru_cache(maxsize=64)
def _shortest_forms(words: tuple[str, ...]) -> tuple[float, ...]:
    """The numbers of which some of these words are the shortest form."""
    return tuple(float(word) for word in words if _PLAIN(word) and number_text(float(word)) == word)


@lru_cache(maxsize=256)
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """What a number without its sign and unit looks like."""
    point = re.escape(decimal)
    plain = rf"(?P<plain>(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    if not thousands:
        return re.compile(rf"(?P<grouped>(?!))|{plain}")
    separator = f"(?P<separator>[{re.escape(THOUSANDS[thousands])}])"  # the same one throughout
    grouped = rf"[1-9][0-9]{{0,2}}{separator}[0-9]{{3}}(?:(?P=separator)[0-9]{{3}})*(?:{point}[0-9]*)?"
    return re.compile(rf"(?P<grouped>{grouped})|{plain}")


def _parts(text: str, unit: str) -> tuple[str, str]:
    """Sign and rest of a number; its unit, which may stand before (maybe behind the sign) or behind it, is left out."""
    sign, rest = _cut_sign(text)
    if unit:
        if rest.startswith(unit):
            rest = rest.removeprefix(unit).lstrip(_AROUND_UNITS)
            if not sign:
                sign, rest = _cut_sign(rest)
        elif rest.endswith(unit):
            rest = rest.removesuffix(unit).rstrip(_AROUND_UNITS)
    return sign, rest


def _cut_sign(text: str) -> tuple[str, str]:
    if text[:1] in ("+", "-", "\u2212"):
        return "" if text[0] == "+" else "-", text[1:]
    return "", text
