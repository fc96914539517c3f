"""How numbers and days are written in a language: as browsers of that language write them."""

from __future__ import annotations

from datetime import date

import pytest

from service.locales import (
    ENGLISH,
    LOCALES,
    locale_in_use,
    locale_of,
    localized,
    localized_day,
    localized_sentence,
    read_in,
)
from service.shown_text import chance, number, percent, size


@pytest.mark.parametrize(
    ("accepted", "tag"),
    [
        ("de-DE,de;q=0.9,en;q=0.8", "de"),
        ("DE", "de"),
        ("de-ch, de;q=0.5", "de-ch"),
        ("pt-BR", "pt"),
        ("fr;q=0.9", "fr"),
        ("en;q=0.8, fr;q=0.9, de;q=0.9", "fr"),
        ("*;q=0.1, nl ; q=1.0 ,de;q=1", "nl"),
        ("de;q=0, fr;q=0.001", "fr"),
        ("de;q=0", "en"),
        ("en;q=half,de;q=0.3", "de"),
        ("en-US,en;q=0.5", "en-us"),
        # Whose numbers are not known here, and what is no language.
        ("hi-IN,de;q=0.1", "en"),
        ("", "en"),
        ("*", "en"),
        ("de_DE", "en"),
        (";,;;" * 10_000, "en"),
        ("\x00\xff<script>", "en"),
    ],
)
def test_the_language_that_a_browser_wants_most(accepted: str, tag: str) -> None:
    assert locale_of(accepted).tag == tag


@pytest.mark.parametrize(
    ("tag", "large", "half", "day", "share"),
    [
        ("en", "1,234,567", "0.5", "2026-11-30", "99.9%"),
        ("en-us", "1,234,567", "0.5", "11/30/2026", "99.9%"),
        ("de", "1.234.567", "0,5", "30.11.2026", "99,9\u00a0%"),
        ("de-ch", "1’234’567", "0.5", "30.11.2026", "99.9%"),
        ("fr", "1\u202f234\u202f567", "0,5", "30/11/2026", "99,9\u00a0%"),
        ("sv", "1\u00a0234\u00a0567", "0,5", "2026-11-30", "99,9\u00a0%"),
        ("tr", "1.234.567", "0,5", "30.11.2026", "%99,9"),
    ],
)
def test_numbers_and_days(tag: str, large: str, half: str, day: str, share: str) -> None:
    with read_in(LOCALES.get(tag, ENGLISH)):
        assert (number(1_234_567), number(0.5), localized_day(date(2026, 11, 30))) == (large, half, day)
        assert percent(0.999) == share
        assert percent(0.00012) == share.replace("99", "0").replace("9", "012")
        assert chance(0.9999) == f"over {share}"
        assert size(1_500_000) == f"{half.replace('0', '1', 1)} MB"
        assert localized("+1.5e-07") == half.replace("0", "+1", 1) + "e-07"
    assert locale_in_use() is ENGLISH


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("a precision of 0.72, of 1,520 rows", "a precision of 0,72, of 1.520 rows"),
        ("between -0.5 and +1.25.", "between -0,5 and +1,25."),
        ("12,345.678 (0.70 to 0.81)", "12.345,678 (0,70 to 0,81)"),
        ("1.5e-07 a row", "1,5e-07 a row"),
        ("80%, over 99.5 % (1,000% of “7%”)", "80\u00a0%, over 99,5\u00a0% (1.000\u00a0% of “7%”)"),
        ("10%off", "10%off"),
        # What people called so, and what only looks like a number.
        ("rows called '1.0' and “2.5”, \"3.5\", ‘4.5’", "rows called '1.0' and “2.5”, \"3.5\", ‘4.5’"),
        ("the classes' F1 is 0.5, it's 0.6", "the classes' F1 is 0,5, it's 0,6"),
        ("version 1.2.3 of 10.0.0.1:80 at /ui/1.5", "version 1.2.3 of 10.0.0.1:80 at /ui/1.5"),
        ("column x1.5, rows 1, 2, 3 and 100,20", "column x1.5, rows 1, 2, 3 and 100,20"),
    ],
)
def test_numbers_of_a_sentence(said: str, read: str) -> None:
    assert localized_sentence(said) == said
    with read_in(LOCALES["de"]):
        assert localized_sentence(said) == read
