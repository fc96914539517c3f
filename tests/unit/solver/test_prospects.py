"""What is said of few labels before a training is what its promise would say afterwards, at best."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import clopper_pearson_lower
from solver.operating_point import Objective
from solver.promise import promise_of
from solver.prospects import too_few_for


def said_of(objective: dict[str, Any], positives: int, negatives: int = 1000, test_fraction: float = 0.2) -> str | None:
    return too_few_for(Objective.parse(objective), "spam", positives, negatives, test_fraction)


def without_error(objective: dict[str, Any], positives: int, negatives: int, test_fraction: float) -> str | None:
    """The level of a promise of rows that the model decides without an error."""
    held_out = [math.floor(test_fraction * rows + 0.5) for rows in (positives, negatives)]
    test = ConfusionCounts(true_positives=held_out[0], false_positives=0, true_negatives=held_out[1], false_negatives=0)
    found, left = positives - held_out[0], negatives - held_out[1]
    stay = ConfusionCounts(true_positives=found, false_positives=0, true_negatives=left, false_negatives=0)
    return promise_of(Objective.parse(objective), stay, "spam", test=test if test_fraction else None).level


@pytest.mark.parametrize("test_fraction", [0.0, 0.2])
@pytest.mark.parametrize(
    "objective",
    [
        {"kind": "recall", "target": 0.95},
        {"kind": "precision", "target": 0.9},
        {"kind": "ham_loss", "at_most": 0.02},
    ],
)
def test_it_is_said_exactly_where_no_model_would_be_called_likely(
    objective: dict[str, Any], test_fraction: float
) -> None:
    for rows in range(3, 90):
        counts = (100, rows) if objective["kind"] == "ham_loss" else (rows, 100)
        level = without_error(objective, *counts, test_fraction)
        assert (said_of(objective, *counts, test_fraction) is None) == (level == "likely"), rows


@pytest.mark.parametrize("certificate", [None, "strict"])
def test_a_confidence_takes_as_many_rows_as_its_exact_bound(certificate: str | None) -> None:
    objective = {"kind": "recall", "target": 0.95, "confidence": 0.9, "certificate": certificate}
    for rows in range(20, 130):
        testing = (rows - math.floor(0.2 * rows + 0.5)) // (2 if certificate else 1)
        may = clopper_pearson_lower(testing, testing, 0.9) >= 0.95
        assert (said_of(objective, rows) is None) == may, rows


@pytest.mark.parametrize("test_fraction", [0.0, 0.2, 0.35, 0.5])
@pytest.mark.parametrize(
    "objective",
    [
        {"kind": "recall", "target": 0.95},
        {"kind": "ham_loss", "at_most": 0.001},
        *({"kind": "recall", "target": 0.95, "confidence": sure} for sure in (0.5, 0.8, 0.9, 0.95, 0.99)),
        {"kind": "recall", "target": 0.8, "confidence": 0.9, "certificate": "strict"},
    ],
)
def test_as_many_rows_as_it_says_do(objective: dict[str, Any], test_fraction: float) -> None:
    said = said_of(objective, 10, 10, test_fraction)
    assert said is not None
    fewest = int(re.search(r"it takes at least ([\d,]+)", said)[1].replace(",", ""))  # type: ignore[index]
    assert said_of(objective, fewest, fewest, test_fraction) is None
    assert said_of(objective, fewest - 1, fewest - 1, test_fraction) is not None


def test_words() -> None:
    assert said_of({"kind": "recall", "target": 0.95}, 15, test_fraction=0) == (
        "15 labelled 'spam' rows are too few to promise recall 95%: even without an error among them it would hold "
        "with a chance of 57% at most; it takes at least 32, or a lower target"
    )
    assert "30 labelled rows that are not 'spam' are too few to promise ham loss 0.1%" in str(
        said_of({"kind": "ham_loss", "at_most": 0.001}, 1000, 30)
    )
    for without in ({"kind": "f1"}, {"kind": "cost", "false_negative": 5, "false_positive": 1}):
        assert said_of(without, 2, 2) is None
    assert said_of({"kind": "recall", "target": 1}, 2) is None
