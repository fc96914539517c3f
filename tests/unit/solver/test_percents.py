"""Shares in percent: no bound is rounded to the unsafe side, and what is short of all does not read as all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver import percents

SHARES = st.floats(1e-9, 1.0 - 1e-9)


@pytest.mark.parametrize(
    ("share", "measured", "least", "most"),
    [
        (0.0, "0%", "0%", "0%"),
        (1.0, "100%", "100%", "100%"),
        (0.5, "50%", "50%", "50%"),
        (2 / 3, "66.7%", "66.6%", "66.7%"),
        (0.9497, "95%", "94.9%", "95%"),
        (0.9996, "99.96%", "99.96%", "99.96%"),
        (0.99961, "99.961%", "99.961%", "99.961%"),
        (0.0014, "0.14%", "0.14%", "0.14%"),
        (0.00141, "0.14%", "0.14%", "0.15%"),
        (1e-8, "0.000001%", "0.000001%", "0.000001%"),
        # What arithmetic leaves behind.
        (0.1 + 0.2, "30%", "30%", "30%"),
        (0.95 - 1e-14, "95%", "95%", "95%"),
        (1.0 - 1e-15, "100%", "100%", "100%"),
    ],
)
def test_rounding(share: float, measured: str, least: str, most: str) -> None:
    assert (percents.measured(share), percents.at_least(share), percents.at_most(share)) == (measured, least, most)


@given(SHARES)
def test_no_bound_is_rounded_to_the_unsafe_side_and_nothing_to_an_end(share: float) -> None:
    least, said, most = (
        float(each(share)[:-1]) / 100 for each in (percents.at_least, percents.measured, percents.at_most)
    )
    assert 0.0 < least <= share + 1e-11
    assert share - 1e-11 <= most < 1.0
    assert least - 1e-12 <= said <= most + 1e-12
    assert abs(said - share) <= 0.0005 + 1e-12


@given(SHARES)
def test_no_table_shows_a_share_that_is_none_or_all(share: float) -> None:
    assert 0.0 < float(percents.decimal(share)) < 1.0


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.9996, "0.9996"), (0.0004, "0.0004"), (1.0, "1.000"), (0.0, "0.000"), (0.95, "0.950"), (12.3456, "12.346")],
)
def test_numbers_of_tables(share: float, said: str) -> None:
    assert percents.decimal(share) == said


def test_what_falls_short_does_not_read_like_what_was_asked() -> None:
    assert percents.measured(0.94996, 0.95) == "94.996%"
    assert percents.measured(0.001004, 0.001) == "0.1004%"
    assert percents.measured(0.9, 0.95) == "90%"


@pytest.mark.parametrize(("share", "said"), [(0.95, "95%"), (0.9999, "99.99%"), (0.29, "29%"), (1e-300, "1e-298%")])
def test_what_was_asked_is_said_to_the_last_digit(share: float, said: str) -> None:
    assert percents.asked(share) == said


@pytest.mark.parametrize(
    ("chance", "said"), [(0.799999, "79%"), (0.8, "80%"), (0.999, "over 99%"), (0.001, "under 1%")]
)
def test_chances_and_progress_are_rounded_down(chance: float, said: str) -> None:
    assert percents.odds(chance) == said
    assert percents.done(0.999) == "99%"
