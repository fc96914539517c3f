"""Confidence from all labelled rows: which rows certify, what is refused, and what is told of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.estimators import PSVM, SVM, MeanS3VM, SelfTraining
from solver.evaluation import OperatingCurve
from solver.operating_point import Objective
from solver.retuning import CalibrationRows

OBJECTIVE = {"kind": "precision", "target": 0.8, "confidence": 0.9}


def rows(labelled: int, unlabelled: int, seed: int = 0, random: bool = False) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    truth = (rng.random(labelled + unlabelled) < 0.35).astype(int)
    X = rng.normal(size=(len(truth), 3)) + (0 if random else 2 / 3**0.5) * truth[:, None]
    y = truth.copy()
    y[labelled:] = -1
    return X, y, truth


@pytest.mark.parametrize("method", [SVM, MeanS3VM, SelfTraining])
def test_all_labelled_rows_certify(method: type[Any]) -> None:
    X, y, _ = rows(200, 300)
    model = method(objective=OBJECTIVE, random_state=0).fit(X, y)
    assert model.report_.certificate == "cross_fitted"
    assert model.report_.labeled_split == "xfit"
    assert model.report_.calibration.n == 200
    assert model.report_.threshold_rule == "fixed-sequence"
    plain = method(objective={"kind": "precision", "target": 0.8}, random_state=0).fit(X, y)
    # the same model, and more of it than half of the labelled rows would have made
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=5e-3)
    assert plain.report_.certificate is None


def test_the_threshold_stands_among_the_ranks_of_the_unlabelled_rows() -> None:
    X, y, _ = rows(300, 500)
    model = SVM(objective={**OBJECTIVE, "target": 0.7}, random_state=0).fit(X, y)
    assert model.status_ == "met"
    of_unlabelled = model.decision_function(X[300:])
    np.testing.assert_allclose(
        np.abs(OperatingCurve.from_scores(of_unlabelled, np.zeros(500), 1e-3).thresholds - model.threshold_).min(),
        0.0,
        atol=1e-9,
    )


def test_strict_is_the_half_that_training_does_not_look_at() -> None:
    X, y, _ = rows(200, 300)
    strict = SVM(objective={**OBJECTIVE, "certificate": "strict"}, random_state=0).fit(X, y)
    assert strict.report_.certificate == "strict"
    assert strict.report_.calibration.n == 100
    assert not strict.report_.warnings


@pytest.mark.parametrize(
    ("method", "unlabelled", "why"),
    [(SVM, 99, "fewer than 100"), (SVM, 0, "fewer than 100"), (PSVM, 300, "a round")],
)
def test_where_ranks_are_not_to_be_had_it_is_strict_and_says_so(method: type[Any], unlabelled: int, why: str) -> None:
    X, y, _ = rows(200, unlabelled)
    model = method(objective=OBJECTIVE, random_state=0).fit(X, y)
    assert model.report_.certificate == "strict"
    assert any("strict" in warning and why in warning for warning in model.report_.warnings)


def test_precision_and_recall_together() -> None:
    X, y, _ = rows(400, 300)
    objective = {"kind": "precision_recall", "precision": 0.6, "recall": 0.6, "confidence": 0.9}
    model = SVM(objective=objective, random_state=0).fit(X, y)
    assert (model.status_, model.report_.certificate) == ("met", "cross_fitted")
    measured = model.report_.calibration
    assert min(measured.precision.value, measured.recall.value) > 0.6


def test_tuned_folds_are_ranked_too_and_corrections_stay_outside() -> None:
    X, y, _ = rows(240, 200)
    corrected = np.zeros(len(y), dtype=bool)
    corrected[:40] = True
    model = SVM(objective=OBJECTIVE, tune="C-gamma", random_state=0).fit(X, y, unmeasured=corrected)
    assert model.report_.certificate == "cross_fitted"
    assert model.report_.calibration.n == 200
    assert model.report_.tuning is not None


def test_a_later_threshold_is_certified_by_the_same_rows() -> None:
    X, y, _ = rows(300, 300)
    report = SVM(objective=OBJECTIVE, random_state=0).fit(X, y).report_
    calibration = CalibrationRows.from_report(report)
    assert calibration is not None
    lower = Objective.parse({"kind": "recall", "target": 0.8, "confidence": 0.9})
    assert calibration.operating_point(lower).status == "met"
    strict = Objective.parse({"kind": "recall", "target": 0.8, "confidence": 0.9, "certificate": "strict"})
    assert calibration.operating_point(strict).status == "cannot_certify"


@pytest.mark.parametrize("method", [SVM, MeanS3VM])
def test_of_labels_drawn_at_random_nothing_is_certified(method: type[Any]) -> None:
    certified = [
        method(objective={"kind": "precision", "target": 0.5, "confidence": 0.9}, random_state=seed)
        .fit(*rows(100, 150, seed, random=True)[:2])
        .status_
        == "met"
        for seed in range(4)
    ]
    assert not any(certified)  # a third of the rows are positive, whatever the threshold


def test_a_training_that_is_stopped_says_so() -> None:
    X, y, _ = rows(200, 200)
    model = SVM(objective=OBJECTIVE, random_state=0, callback=lambda *_: True).fit(X, y)
    assert model.status_ == "stopped"
    assert np.isfinite(model.threshold_)
