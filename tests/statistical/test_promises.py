"""What is promised holds about as often as is said, and cross-fitted certificates are seldom false.

On Gaussian classes; real sets are in `benchmarks/promises.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.estimators import SVM
from solver.operating_point import Objective
from solver.retuning import chosen_point

PRIOR, FEATURES = 0.35, 3


def rows(rng: np.random.Generator, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    y = (rng.random(n) < PRIOR).astype(int)
    return rng.normal(size=(n, FEATURES)) + 2.2 / np.sqrt(FEATURES) * y[:, None], y


def labelled(rng: np.random.Generator, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    X, y = rows(rng, n + 300)
    y[n:] = -1
    return X, y


def measure(kind: str, truth: NDArray[Any], found: NDArray[Any]) -> float:
    if not found.any():
        return 0.0
    return float(truth[found].mean() if kind == "precision" else found[truth == 1].mean())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_chances_are_those_of_new_rows() -> None:
    rng = np.random.default_rng(0)
    new_rows, truth = rows(rng, 20_000)
    chances, held, likely = [], [], []
    for draw in range(150):
        X, y = labelled(rng, int(rng.choice([40, 100, 300])))
        model = SVM(random_state=draw).fit(X, y)
        scores = model.decision_function(new_rows)
        for kind in ("precision", "recall"):
            for target in (0.7, 0.8, 0.9):
                point = chosen_point(model.report_, Objective.parse({"kind": kind, "target": target}))
                assert point is not None
                assert point.promise is not None
                chances.append(point.promise.chance)
                held.append(measure(kind, truth, scores > point.threshold) >= target)
                likely.append(point.status == "met")
    told, true = np.array(chances, dtype=float), np.array(held)
    some = (told >= 0.7) & (told < 0.9)
    assert some.sum() > 100
    assert 0.65 <= true[some].mean() <= 0.95
    assert true[np.array(likely)].mean() >= 0.8


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "target", "power"), [("precision", 0.8, 0.5), ("recall", 0.9, 0.9)])
def test_cross_fitted_certificates_keep_their_word(kind: str, target: float, power: float) -> None:
    rng = np.random.default_rng(1)
    new_rows, truth = rows(rng, 20_000)
    objective = {"kind": kind, "target": target, "confidence": 0.9}
    certified = missed = 0
    draws = 150
    for draw in range(draws):
        model = SVM(objective=objective, random_state=draw).fit(*labelled(rng, 200))
        assert model.report_.certificate == "cross_fitted"
        if model.status_ == "met":
            certified += 1
            missed += measure(kind, truth, model.predict(new_rows) == 1) < target
    assert missed / draws <= 0.1
    assert certified / draws >= power
