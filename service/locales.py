"""How numbers and days are written in the language of whoever reads a page, as browsers write them (Unicode CLDR).

The words of the pages are English. But who writes 0,5 reads 1.234 as more than a thousand: so numbers follow the
language that the browser wants most, in what the server writes and in the scripts of the pages. The language holds
for a request (`read_in`), so that not each of the many functions that say a number has to be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from typing import Final

_NARROW_BLANK: Final = "\u202f"
_BLANK: Final = "\u00a0"


@dataclass(frozen=True)
class Locale:
    """A language with its habits.

    Attributes
    ----------
    tag : str
        As `Intl` of browsers takes it (BCP 47).
    point, thousands : str
        What stands before the part of a number that is not whole, and between its thousands.
    day : str
        A day in digits, as `strftime` takes it.
    percentage : str
        A number of percent, as `format` takes it.
    """

    tag: str
    point: str
    thousands: str
    day: str
    percentage: str = "{}%"


ENGLISH: Final = Locale("en", ".", ",", "%Y-%m-%d")
"""Of every language that is not in the table, and of who names none."""
_HABITS: Final = (
    (",", ".", "%d.%m.%Y", "de da hr ro sl sr tr"),
    (",", ".", "%d/%m/%Y", "ca el es id it nl-be pt vi"),
    (",", ".", "%d-%m-%Y", "es-cl nl"),
    (",", _NARROW_BLANK, "%d/%m/%Y", "fr"),
    (",", _NARROW_BLANK, "%d.%m.%Y", "fr-ch"),
    (",", _BLANK, "%d.%m.%Y", "bg cs de-at et fi lv nb no pl ru sk uk"),
    (",", _BLANK, "%Y-%m-%d", "af fr-ca hu lt sv"),
    (",", _BLANK, "%d/%m/%Y", "pt-pt"),
    (",", _BLANK, "%Y/%m/%d", "en-za"),
    (".", "’", "%d.%m.%Y", "de-ch de-li it-ch"),
    (".", ",", "%d/%m/%Y", "en-au en-gb en-ie en-nz es-419 es-mx es-pe es-us"),
    (".", ",", "%m/%d/%Y", "en-us"),
)
"""What stands in numbers, how days are written, and of which languages; a region where it differs from its language."""
_BLANK_BEFORE_PERCENT: Final = "ca cs da de de-at es fi fr fr-ca hr lt nb no ro ru sk sl sv"
_PERCENTAGES: Final = dict.fromkeys(_BLANK_BEFORE_PERCENT.split(), f"{{}}{_BLANK}%") | {"tr": "%{}"}
"""Where the sign does not stand right behind the number."""
LOCALES: Final = {
    tag: Locale(tag, point, thousands, day, _PERCENTAGES.get(tag, "{}%"))
    for point, thousands, day, tags in _HABITS
    for tag in tags.split()
}
_read_in: ContextVar[Locale] = ContextVar("locale", default=ENGLISH)
GIVEN: Final = r"“[^”]*”|‘[^’]*’|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)"
"""What people gave stands in quotes (a pattern): an apostrophe within a word begins none."""
_PARTS = re.compile(
    rf"(?P<given>{GIVEN})"
    r"|(?P<share>(?<![\w.,:/])(?<!\w-)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?) ?%(?!\w)"
    # Not a version, an address, a time, or the end of a name.
    r"|(?P<number>(?<![\w.,:/])(?<!\w-)(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+)(?:e[+-]?\d+)?(?![\w:/-]|[.,]\d))"
)

_LANGUAGE: Final = re.compile(r"(?:^|,)[ \t]*([A-Za-z0-9*-]+)[ \t]*(?:;[ \t]*[qQ]=([01](?:\.\d{0,3})?)[ \t]*)?(?=,|$)")
"""Of a header ``Accept-Language`` (RFC 9110): a language, and how much it is wanted. All else is not read."""
_MOST_OF_A_HEADER: Final = 1000


def locale_of(accepted: str) -> Locale:
    """Return the locale of a header ``Accept-Language``: that of the language that is wanted most.

    Parameters
    ----------
    accepted : str
        Such as ``de-AT,de;q=0.9,en;q=0.8``. Without a weight it is 1; what has that of 0 is not wanted. Of
        languages that are wanted alike it is the first.
    """
    wanted, most = "", 0.0
    for tag, weight in _LANGUAGE.findall(accepted[:_MOST_OF_A_HEADER]):
        how_much = float(weight or 1.0)
        if how_much > most:
            wanted, most = tag.lower(), how_much
    return LOCALES.get(wanted) or LOCALES.get(wanted.partition("-")[0], ENGLISH)


@contextmanager
def read_in(locale: Locale) -> Iterator[None]:
    """Write numbers and days so within."""
    token = _read_in.set(locale)
    try:
        yield
    finally:
        _read_in.reset(token)


def locale_in_use() -> Locale:
    """Return the locale that numbers are written in here."""
    return _read_in.get()


def localized(number: str) -> str:
    """Return a number that is written as Python does, thousands by commas, as it is written here."""
    locale = _read_in.get()
    return number.translate({ord(","): locale.thousands, ord("."): locale.point})


def localized_sentence(sentence: str) -> str:
    """Return a sentence with its numbers as they are written here. What stands in quotes is somebody's, and stays."""
    if _read_in.get() is ENGLISH:
        return sentence
    return _PARTS.sub(_localized_part, sentence)


def _localized_part(found: re.Match[str]) -> str:
    if found["given"]:
        return found[0]
    return percentage(found["share"]) if found["share"] else localized(found[0])


def percentage(number: str) -> str:
    """Return a number of percent, written as Python does, with its sign, as it is written here."""
    return _read_in.get().percentage.format(localized(number))


def localized_day(day: date) -> str:
    """Return a day in digits."""
    return day.strftime(_read_in.get().day)
