"""Sentences of the service say shares in percent wherever they are read, and what people call something as it is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from service.db.tables import AuditRow
from service.labelling.class_rows import improving_classes, suspicious_classes
from service.locales import LOCALES, read_in
from service.models.verdicts import verdict_words
from service.models.words import promise_level
from service.pages.showing import hint
from solver.classes_report import ClassRowsToLabel, DoubtedClasses
from solver.evaluation.counts import ConfusionCounts
from solver.operating_point import Objective
from solver.promise import promise_of

DECIMAL = re.compile(r"(?<![\w.])0?\.\d+(?!%|\d)")


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
def test_a_promise_says_its_shares_in_percent(asked: dict[str, Any], counts: tuple[int, ...]) -> None:
    said = promise_of(Objective.parse(asked), ConfusionCounts(*counts), "spam").sentence
    assert "%" in said
    assert not DECIMAL.search(said), said


@pytest.mark.parametrize("standing", ["open", "proven"])
@pytest.mark.parametrize(
    "asked",
    [{"kind": "precision", "target": 0.9}, {"kind": "recall", "target": 0.9}, {"kind": "ham_loss", "at_most": 0.01}],
)
def test_a_verdict_says_its_shares_in_percent(asked: dict[str, Any], standing: str) -> None:
    said = _verdict(asked, standing, 0.5 if "target" in asked else 0.6)
    assert not DECIMAL.search(said), said


def test_a_cost_is_no_share() -> None:
    asked = {"kind": "cost", "at_most": 0.9, "false_negative": 5, "false_positive": 1}
    assert "cost at most 0.9 a row (confidence 95%)" in _verdict(asked, "proven", 0.5)


def test_a_bound_that_is_proved_is_rounded_so_that_it_is() -> None:
    assert "at least 94.9% (confidence" in _verdict({"kind": "precision", "target": 0.95}, "open", None, 0.9497)
    assert "at most 0.1004% (confidence" not in _verdict({"kind": "ham_loss", "at_most": 0.001}, "open", None, 0.001004)
    assert "at most 0.11% (confidence" in _verdict({"kind": "ham_loss", "at_most": 0.001}, "open", None, 0.001004)


def _verdict(asked: dict[str, Any], standing: str, estimate: float | None, bound: float = 0.55) -> str:
    verdict = {"standing": standing, "bound": bound, "estimate": estimate, "decided_after": 50}
    pool = {"rows": 200, "positive": "1.5", "threshold": 3.0, "called_positive": 40}
    said = verdict_words(AuditRow(objective=asked, confidence=0.95, pool=pool, verdict=verdict, answered=60))
    assert said is not None
    return said


def test_a_class_that_is_called_like_a_number_stays_so_in_every_language() -> None:
    doubted = DoubtedClasses(
        **{"rows": [3], "labels": [0], "instead": [1], "probabilities": [0.125], "instead_probabilities": [0.75]},
        **{"judged": 9, "better_than_chance": True},
    )
    unsure = ClassRowsToLabel(
        **{"rows": [4], "best": [0], "following": [1], "probabilities": [0.41], "following_probabilities": [0.396]},
        **{"said": [0], "reasons": ["unsure"], "covers": [0], "compared": 5, "nearest": [0.1]},
    )
    classes = ["1.5", "2.25"]
    said = [
        *(each["reason"] for each in suspicious_classes(doubted, classes)),
        *(each["reason"] for each in improving_classes(unsure, classes)),
        promise_of(Objective.parse({"kind": "recall", "target": 0.95}), ConfusionCounts(9, 0, 30, 1), "1.5").sentence,
        _verdict({"kind": "recall", "target": 0.955}, "proven", 0.99),
    ]
    with read_in(LOCALES["de"]):
        shown = [str(hint(each)) for each in said]
    assert not [each for each in shown if "1,5" in each or "2,25" in each]
    assert "give &#39;1.5&#39; 12,5\u00a0%" in shown[0]
    assert "between &#39;1.5&#39; 41\u00a0% and &#39;2.25&#39; 39,6\u00a0%" in shown[1]
    assert "at least 95,5\u00a0% of those" in shown[3]


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
