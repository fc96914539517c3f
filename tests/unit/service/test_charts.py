"""Pictures made of numbers."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import charts
from solver.report import Estimate

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture: str) -> ET.Element:
    return ET.fromstring(str(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))  # noqa: S314


@given(values=st.lists(st.floats(-1e9, 1e9), max_size=30), whole=st.booleans(), zero=st.booleans())
def test_numbers_lie_on_their_axis_with_few_ticks_between(values: list[float], whole: bool, zero: bool) -> None:
    axis = charts.numbers("x", values, whole=whole, zero=zero)
    assert axis.least < axis.greatest
    assert all(axis.least <= value <= axis.greatest for value in values)
    assert len(axis.ticks) <= 8
    slack = 1e-8 * (axis.greatest - axis.least)
    for tick, _ in axis.ticks:
        assert axis.least - slack <= tick <= axis.greatest + slack
    if whole:
        assert all(tick == round(tick) for tick, _ in axis.ticks)


def test_a_plot_has_what_it_was_given_in_its_place() -> None:
    points = [charts.Point(0.0, 0.5, 0.25, 0.75), charts.Point(1.0, 1.0, 0.9, 1.0)]
    lines = [charts.Line(points), charts.Line(points, "other", dots=True)]
    drawn = parsed(charts.plot(lines, charts.shares("a <b>"), charts.shares("y"), 'says "it" & more'))
    assert drawn.get("aria-label") == 'says "it" & more'
    assert "a <b>" in [each.text for each in drawn.iter(f"{SVG}text")]
    kinds = [each.get("class") for each in drawn.iter(f"{SVG}path")]
    assert (kinds.count("band"), kinds.count("line bar"), kinds.count("whisker")) == (1, 1, 2)
    first, last = drawn.iter(f"{SVG}circle")
    assert float(first.get("cx", "")) < float(last.get("cx", ""))
    assert float(first.get("cy", "")) > float(last.get("cy", ""))


@pytest.mark.parametrize("points", [[], [charts.Point(2.0, -1.0)], [charts.Point(math.inf, 0.5)]])
def test_what_lies_outside_is_drawn_at_the_edge(points: list[charts.Point]) -> None:
    drawn = parsed(charts.plot([charts.Line(points, dots=True)], charts.shares("x"), charts.shares("y"), ""))
    for circle in drawn.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "")) <= 380
        assert 0 <= float(circle.get("cy", "")) <= 260


def test_a_cost_is_said_as_a_number() -> None:
    cost = Estimate(2.5, 2.0, 5.0)
    assert "2.5, between 2 and 5" in charts.interval(cost, most=5.0, as_share=False)
    assert "50%, between 10% and 60%" in charts.interval(Estimate(0.5, 0.1, 0.6))


def test_scores_of_others_are_a_line_over_the_bars() -> None:
    without = charts.scores([1, 2], [2, 1], 0.5)
    assert "guide" not in without
    drawn = charts.scores([1, 2], [2, 1], 0.5, others=[(0.25, 0.0), (0.5, 1.0), (1.0, 0.5)])
    assert '<path class="line guide" d="M160.0 90V8.0H320.0V49.0H640.0V90"/>' in drawn
