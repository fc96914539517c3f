"""How many unlabelled rows a threshold calls positive, as far as a report tells."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.models.figures import CalledUnlabelled, called_unlabelled
from solver.report import DecidedUnlabelled, SpreadScores

SCORES = np.random.default_rng(0).normal(size=1000)
COUNTS, EDGES = np.histogram(SCORES, 40)
TOLD = DecidedUnlabelled(
    rows=1000,
    measured=1000,
    positive=321,
    share=0.321,
    labelled_share=0.5,
    scores=SpreadScores(least=EDGES[0], greatest=EDGES[-1], counts=COUNTS.tolist()),
)


def called(threshold: float, told: DecidedUnlabelled | None = TOLD, upper: Any = "none") -> CalledUnlabelled | None:
    report: Any = SimpleNamespace(threshold=0.25, abstain=None, unlabelled=told)
    abstain = None if upper == "none" else SimpleNamespace(upper=upper)
    point: Any = SimpleNamespace(threshold=threshold, abstain=abstain)
    return called_unlabelled(report, point)


@pytest.mark.parametrize("threshold", [-9.0, *np.linspace(-3, 3, 23), 9.0])
def test_it_is_wrong_by_no_more_than_lies_in_a_part(threshold: float) -> None:
    found = called(threshold)
    assert found is not None
    assert found.is_about
    assert abs(found.positive - np.count_nonzero(threshold < SCORES)) <= COUNTS.max() / 2


def test_that_of_the_training_was_counted() -> None:
    assert called(0.25) == CalledUnlabelled(1000, 321, is_about=False)
    assert called(0.25, replace(TOLD, rows=5000)) == CalledUnlabelled(5000, 1605, is_about=True)


def test_what_is_not_known_is_not_said() -> None:
    assert called(0.5, None) is None
    assert called(0.5, replace(TOLD, scores=None)) is None


def test_what_is_left_undecided_is_not_called_positive() -> None:
    assert called(0.25, upper=0.5) == called(0.5)
    assert called(0.25, upper=None) == CalledUnlabelled(1000, 0, is_about=False)
