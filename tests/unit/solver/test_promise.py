"""What a threshold promises: levels, chances and bounds in order, what would prove it, and the words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import clopper_pearson_lower, cost_interval
from solver.operating_point import Objective
from solver.promise import LIKELY, promise_of, promised_status
from solver.report import Promise

PRECISION = {"kind": "precision", "target": 0.95}


def promise(objective: Any, *counts: int, **more: Any) -> Promise:
    """Of counts in the order true positive, false positive, true negative, false negative."""
    return promise_of(Objective.parse(objective), ConfusionCounts(*counts), "spam", **more)


def test_ten_spam_labels_promise_little() -> None:
    made = promise(PRECISION, 10, 0, 90, 5)
    assert (made.level, made.confidence) == ("open", 0.95)
    assert made.bounds["precision"] == pytest.approx(0.638, abs=0.001)
    assert made.needs is not None
    assert made.needs.checked_rows == 59  # as 0.95^59 is the first below 0.05
    assert made.sentence == (
        "10 labelled rows called 'spam' are too few to promise precision 0.95 (chance 49%); what you can count on is a "
        "precision of 0.64. Check some 60 of the rows it calls 'spam' to prove precision 0.95."
    )


@pytest.mark.parametrize(
    ("objective", "counts", "more", "level", "said"),
    [
        (PRECISION, (100, 2, 200, 5), {}, "likely", "is likely to hold on new rows (chance 81%), not proven"),
        (
            PRECISION,
            (100, 9, 200, 5),
            {},
            "missed",
            "rows reach precision 0.917, where precision 0.95 was",
        ),
        ({**PRECISION, "confidence": 0.9}, (60, 0, 80, 4), {"is_proven": True}, "proven", "with confidence 0.9."),
        ({"kind": "recall", "target": 0.9}, (20, 4, 80, 0), {}, "likely", "Label some 50 more rows, drawn at random"),
        ({"kind": "recall", "target": 0.7}, (90, 4, 80, 2), {}, "likely", "Ask for it with a confidence"),
        ({"kind": "recall", "target": 0.9}, (20, 4, 80, 2), {}, "open", "too near to the target"),
        (PRECISION, (20, 0, 3, 1), {}, "open", "3 labelled rows that are not 'spam' are too few"),
        (PRECISION, (90, 0, 80, 1), {"has_seen": True}, "open", "Nothing can be promised"),
        (
            {"kind": "precision_recall", "precision": 0.7, "recall": 0.8},
            (95, 4, 80, 4),
            {},
            "likely",
            "and a recall of",
        ),
        ("f1", (40, 4, 80, 1), {}, None, "What you can count on is an F1 of 0.84."),
        ({"kind": "f_beta", "beta": 2}, (40, 4, 80, 1), {}, None, "an F-beta of 0.87."),
        ({"kind": "cost", "false_negative": 10, "false_positive": 1}, (40, 4, 80, 1), {}, None, "at most 0.58 a row"),
    ],
)
def test_levels_and_words(objective: Any, counts: tuple[int, ...], more: Any, level: str | None, said: str) -> None:
    made = promise(objective, *counts, **more)
    assert made.level == level
    assert said in made.sentence
    assert (made.chance is None) == (level is None or "has_seen" in more)
    assert Promise.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made


@given(hits=st.integers(0, 300), misses=st.integers(0, 60), target=st.floats(0.05, 0.99))
def test_chance_bound_and_level_agree(hits: int, misses: int, target: float) -> None:
    made = promise({"kind": "precision", "target": target}, hits, misses, 50, 5)
    assert made.chance is not None
    assert 0 <= made.chance <= 1
    # the bound is what holds with the confidence
    assert (made.bounds["precision"] >= target) == (made.chance >= 0.95) or abs(made.chance - 0.95) < 1e-6
    if made.level == "likely":
        assert made.chance >= LIKELY
    if made.level == "missed":
        assert hits < target * (hits + misses) or hits == 0
    more = promise({"kind": "precision", "target": target}, hits + 10, misses, 50, 5)
    assert more.chance is not None
    assert more.chance >= made.chance - 1e-12
    if made.needs is not None and made.needs.checked_rows is not None:
        rows = made.needs.checked_rows
        assert clopper_pearson_lower(int(rows * hits / (hits + misses) + 1e-9), rows, 0.95) >= target


def test_untouched_rows_count_whole() -> None:
    alone, with_test = (
        promise(PRECISION, 50, 0, 50, 2),
        promise(PRECISION, 50, 0, 50, 2, test=ConfusionCounts(50, 0, 50, 2)),
    )
    assert alone.chance is not None
    assert with_test.chance is not None
    assert with_test.chance > alone.chance
    refuted = promise(PRECISION, 50, 0, 50, 2, test=ConfusionCounts(40, 10, 50, 2))
    assert refuted.level == "open"


def test_met_is_said_of_what_is_likely_only() -> None:
    likely, unlikely = promise(PRECISION, 100, 2, 200, 5), promise(PRECISION, 10, 0, 90, 5)
    assert promised_status("met", "", likely) == ("met", "")
    assert promised_status("met", "", unlikely) == ("cannot_certify", unlikely.sentence)
    assert promised_status("preference_unmet", "why", unlikely) == ("preference_unmet", "why")
    assert promised_status("met", "", promise("f1", 1, 9, 9, 1)) == ("met", "")


def test_where_half_of_the_labels_certify_twice_as_many_are_needed():
    counts = ConfusionCounts(20, 0, 20, 0)
    objective = Objective.parse({"kind": "recall", "target": 0.95, "confidence": 0.9})
    whole, half = (promise_of(objective, counts, "spam", labelled=labelled) for labelled in (40, 80))
    assert half.needs.random_labels == pytest.approx(2 * whole.needs.random_labels, abs=1)


@pytest.mark.parametrize("counts", [ConfusionCounts(15, 24, 0, 0), ConfusionCounts(0, 0, 24, 15)])
def test_where_all_rows_are_decided_alike_a_cost_is_that_of_the_one_error_that_there_is(counts):
    objective = Objective.parse({"kind": "cost", "false_negative": 200.0, "false_positive": 1.0})
    most = 1.0 if counts.false_positives else 200.0
    assert promise_of(objective, counts, "malignant").bounds["cost"] <= most
    low, high = cost_interval(counts, (200.0, 1.0))
    assert low < high <= most
