"""Of a rate of false positives that the rows are too few to show, the threshold is cautious beyond what they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solver import operating_point
from solver.cautious_threshold import cautious_position, is_beyond
from solver.evaluation.curves import OperatingCurve
from solver.features import Column, Table
from solver.operating_point import Objective, choose_from_curve
from solver.training import TrainedModel, TrainingRequest, train

LOST: dict[str, Any] = {"kind": "ham_loss", "at_most": 0.001}
OBJECTIVES = [LOST, {**LOST, "confidence": 0.9}]


def curve_of(good: np.ndarray, spam: np.ndarray) -> OperatingCurve:
    return OperatingCurve.from_scores(np.concatenate([good, spam]), np.repeat([0, 1], [len(good), len(spam)]))


def chosen(curve: OperatingCurve, asked: dict[str, Any]) -> float:
    return choose_from_curve(curve, Objective.parse(asked), "lcb" if "confidence" in asked else "auto").threshold


def test_it_lies_beyond_the_highest_and_beyond_the_mean_of_the_positive_rows() -> None:
    spam = np.linspace(5.0, 15.0, 101)  # mean 10, and 0 of the others
    low = curve_of(np.linspace(-1, 1, 75), spam)
    at = low.thresholds[cautious_position(low, 1e-3)]
    assert at == pytest.approx(10 * (1 + 0.08 * np.log(1000 / 75)), abs=0.11)
    high = curve_of(np.append(np.linspace(-1, 1, 75), 11.0), spam)
    above = 0.12 * np.log(1000 / 76) * 10
    assert high.thresholds[cautious_position(high, 1e-3)] == pytest.approx(11.0 + above, abs=0.2)
    some = 10 * (1 + 0.08 * np.log(100 / 75))
    assert low.thresholds[cautious_position(low, 1e-2)] == pytest.approx(some * 2 / 3, abs=0.11)
    many = curve_of(np.linspace(-1, 1, 750), spam)  # which are nearly enough to show it
    assert many.thresholds[cautious_position(many, 1e-3)] == pytest.approx(10.2, abs=0.11)
    far = low.thresholds[cautious_position(low, 1e-6)]  # beyond all: what still finds one
    assert far == low.thresholds[1]


@pytest.mark.parametrize("asked", OBJECTIVES)
def test_of_few_rows_it_loses_what_was_asked_for_and_still_finds_some(asked: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    lost, found, right_above = [], [], []
    for _ in range(60):
        good, spam = rng.normal(size=75), rng.normal(4.5, 1.5, 25)
        at = chosen(curve_of(good, spam), asked)
        lost.append(np.mean(rng.normal(size=4000) > at))
        right_above.append(np.mean(rng.normal(size=4000) > good.max()))
        found.append(np.mean(rng.normal(4.5, 1.5, 1000) > at))
    assert np.mean(right_above) > 0.01
    assert np.mean(lost) < 0.001
    assert np.mean(found) > 0.2


@pytest.mark.parametrize("asked", OBJECTIVES)
def test_where_the_rows_can_show_it_nothing_changes(asked: dict[str, Any]) -> None:
    good, spam = np.linspace(0, 1, 1000), np.linspace(0.9, 5, 100)
    curve = curve_of(good, spam)
    assert not is_beyond(curve, asked["at_most"])
    assert chosen(curve, asked) == pytest.approx(1.0, abs=0.05)
    assert is_beyond(curve_of(good[1:], spam), asked["at_most"])
    assert chosen(curve_of(good[1:], spam), asked) > 2.5


@pytest.mark.parametrize("asked", OBJECTIVES)
def test_a_training_on_labels_drawn_at_random_promises_nothing_and_calls_less_than_what_is_seen_would_allow(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(11)
    called, bounds, right_above = [], [], []

    def share_called(made: TrainedModel, table: Table) -> float:
        return float(np.mean([label == "spam" for label in made.model.predict(table).labels[120:]]))

    for seed in range(5):
        columns = {name: Column(name, "number", rng.normal(size=500)) for name in "abcd"}
        labels = np.where(rng.random(500) < 0.3, "spam", "ham").astype(object)
        labels[120:] = None
        table, request = Table(columns), TrainingRequest(positive="spam", objective=asked, seed=seed)
        made = train(table, labels, request)
        assert made.report.promise.level in ("open", "missed")
        assert made.report.promise.chance < 0.5
        called.append(share_called(made, table))
        bounds.append(made.report.promise.bounds["false_positive_rate"])
        with monkeypatch.context() as patch:  # as if the rows could show it: right above the highest that is no spam
            patch.setattr(operating_point, "is_beyond", lambda *_: False)
            right_above.append(share_called(train(table, labels, request), table))
    assert all(here <= there for here, there in zip(called, right_above, strict=True)), (called, right_above)
    assert sum(here < there for here, there in zip(called, right_above, strict=True)) >= 2, (called, right_above)
    assert sum(share > bound for share, bound in zip(called, bounds, strict=True)) <= 2  # one in ten may be
