"""When the rows that a model meets are said to be unlike its training, by scores that chance drew."""

from __future__ import annotations

import numpy as np
import pytest

from service.models.drift import FEWEST_ROWS, is_unlike

RUNS = 400


def alarms(labelled: int, rows: int, shift: float) -> float:
    """Return how often it is said of rows whose scores are drawn like those of the labelled ones, and then moved."""
    rng = np.random.default_rng(labelled + rows)
    said = 0
    for _ in range(RUNS):
        calibration = rng.normal(size=labelled)
        met = rng.normal(shift, size=rows)
        outside = int(np.count_nonzero((met < calibration.min()) | (met > calibration.max())))
        said += is_unlike(outside, rows, labelled)
    return said / RUNS


@pytest.mark.parametrize("labelled", [20, 40, 100, 1000])
@pytest.mark.parametrize("rows", [100, 1000])
def test_rows_like_the_labelled_ones_are_seldom_called_unlike(labelled: int, rows: int) -> None:
    assert alarms(labelled, rows, 0.0) <= 0.03


@pytest.mark.parametrize("labelled", [20, 100, 1000])
def test_rows_that_have_moved_are(labelled: int) -> None:
    assert alarms(labelled, 1000, 4.0) >= 0.99


def test_of_few_rows_nothing_is_said() -> None:
    assert not is_unlike(FEWEST_ROWS - 1, FEWEST_ROWS - 1, 1000)
    assert is_unlike(FEWEST_ROWS, FEWEST_ROWS, 1000)
