"""Sentences of the service as people read them: shares in percent, as all others are, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from service.db.tables import AuditRow
from service.locales import LOCALES, read_in
from service.models.verdicts import verdict_words
from service.models.words import promise_level, shares_in_percent
from service.pages.showing import hint
from solver.evaluation.counts import ConfusionCounts
from solver.operating_point import Objective
from solver.promise import promise_of


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("recall 0.667, where recall 0.95 was asked", "recall 66.7%, where recall 95% was asked"),
        (
            "Precision 1 is likely (chance 80%), a precision of 0.92",
            "Precision 100% is likely (chance 80%), a precision of 92%",
        ),
        ("a ham loss of 0.0012 where at most 0.001 was asked", "a ham loss of 0.12% where at most 0.1% was asked"),
        ("at least 0.95 are '0.95' (confidence 0.95)", "at least 95% are '0.95' (confidence 95%)"),
        (
            "on 30 common rows: recall 0.83 → 0.85, F0.5 0.10 → 1.00",
            "on 30 common rows: recall 83% → 85%, F0.5 10% → 100%",
        ),
        (
            "its F1 on its calibration rows is .9 (0.85 to 0.95), that of the older one on its own 0.95 (0.94 to 0.96)",
            "its F1 on its calibration rows is 90% (85% to 95%), that of the older one on its own 95% (94% to 96%)",
        ),
        ("recall undefined → undefined, F1 undefined → 0.05", "recall undefined → undefined, F1 undefined → 5%"),
        (
            "labelled 0.12; models that have not seen this label give 0.12 0.12",
            "labelled 0.12; models that have not seen this label give 0.12 12%",
        ),
        (
            "the model is least sure of rows like it, between 0.1 0.41 and b 0.39",
            "the model is least sure of rows like it, between 0.1 41% and b 39%",
        ),
        (
            "accuracy 0.87 (0.74 to 0.94) and macro-F1 0.87 (0.73 to 0.94) were reached",
            "accuracy 87% (74% to 94%) and macro-F1 87% (73% to 94%) were reached",
        ),
        ("recall 0.50 → undefined", "recall 50% → undefined"),
        # No shares: scores, thresholds, costs, and numbers of rows; and what is too small to be read so.
        *(
            (same, same)
            for same in (
                "its cost of a row on its calibration rows is 0.900 (0.850 to 0.950)",
                "the model is least sure of rows like it: score 0.34, threshold 0.31",
                "a mean cost of at most 0.32 a row; a cost of 0.5",
                "recall takes 1 row; recall 10, precision 12.5",
                "a false positive rate of at most 1e-300",
                "“recall 0.5” and 'recall 0.5'",
            )
        ),
    ],
)
def test_shares_and_nothing_else(said: str, read: str) -> None:
    assert shares_in_percent(said) == read


@pytest.mark.parametrize("counts", [(100, 2, 200, 5), (100, 9, 200, 5), (20, 0, 80, 5), (20, 0, 3, 1)])
@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "precision", "target": 0.95},
        {"kind": "recall", "target": 0.95, "confidence": 0.9},
        {"kind": "precision_recall", "precision": 0.7, "recall": 0.8},
        {"kind": "ham_loss", "at_most": 0.01},
        {"kind": "recall", "target": 1.0},
        {"kind": "f1"},
    ],
)
def test_no_share_of_a_promise_is_left(asked: dict[str, Any], counts: tuple[int, ...]) -> None:
    said = promise_of(Objective.parse(asked), ConfusionCounts(*counts), "spam").sentence
    assert re.search(r"\d\.\d", said)
    assert not re.search(r"\b0\.\d+(?!%|\d)", shares_in_percent(said)), said


@pytest.mark.parametrize("standing", ["open", "proven"])
@pytest.mark.parametrize(
    "asked",
    [{"kind": "precision", "target": 0.9}, {"kind": "recall", "target": 0.9}, {"kind": "ham_loss", "at_most": 0.01}],
)
def test_no_share_of_a_verdict_is_left(asked: dict[str, Any], standing: str) -> None:
    estimate = 0.5 if "target" in asked else 0.6
    verdict = {"standing": standing, "bound": 0.55, "estimate": estimate, "decided_after": 50}
    pool = {"rows": 200, "positive": "spam", "threshold": 3.0, "called_positive": 40}
    said = verdict_words(AuditRow(objective=asked, confidence=0.95, pool=pool, verdict=verdict, answered=60))
    assert said is not None
    assert not re.search(r"\b0\.\d+(?!%|\d)", shares_in_percent(said)), said


def test_a_verdict_on_a_cost_has_no_share() -> None:
    asked = {"kind": "cost", "at_most": 0.9, "false_negative": 5, "false_positive": 1}
    verdict = {"standing": "proven", "bound": 0.55, "estimate": 0.6, "decided_after": 50}
    pool = {"rows": 200, "positive": "spam", "threshold": 3.0, "called_positive": 40}
    said = verdict_words(AuditRow(objective=asked, confidence=0.95, pool=pool, verdict=verdict, answered=60))
    assert said is not None
    assert shares_in_percent(said) == said.replace("confidence 0.95", "confidence 95%")


def test_the_reader_gets_them_in_his_own_language() -> None:
    with read_in(LOCALES["de"]):
        assert hint("Recall 0.955 is likely (chance 80%)") == "Recall 95,5\u00a0% is likely (chance 80\u00a0%)"


@pytest.mark.parametrize(
    ("level", "kind", "word"),
    [
        ("likely", "recall", "Likely"),
        (None, "cost", "Least cost"),
        (None, "f1", "Best F1"),
        (None, "macro_f1", "Best macro-F1"),
    ],
)
def test_a_model_without_a_target_was_asked_for_something_all_the_same(level: str | None, kind: str, word: str) -> None:
    assert promise_level(level, {"kind": kind}) == word
