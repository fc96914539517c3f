"""Choice of C and gamma for the objective."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from solver.estimators import PSVM, SVM, TSVM
from solver.estimators._tuning import C_GRID, GAMMA_FACTORS
from solver.evaluation import stratified_folds, stratified_halves
from solver.operating_point import Objective, choose_threshold


def moons(n=160, noise=0.25, seed=0):
    X, y = make_moons(n, noise=noise, random_state=seed)
    return X, y


def seeded(random_state):
    return np.random.default_rng(np.random.RandomState(random_state).randint(2**31))


@pytest.mark.parametrize("objective", [{"kind": "f1"}, {"kind": "precision", "target": 0.95}])
def test_every_cell_is_what_cross_validation_says(objective):
    X, y = moons(100)
    svm = SVM(objective=objective, tune="C-gamma", tol=1e-5, random_state=0).fit(X, y)
    tuning = svm.report_.tuning
    assert len(tuning.cells) == len(C_GRID) * len(GAMMA_FACTORS)
    signs = np.where(y == 1, 1, -1)
    fold = stratified_folds(signs, 5, seeded(0))
    goal = Objective.parse(objective)
    for cell in tuning.cells[::4]:
        scores = np.empty(100)
        for k in range(5):
            model = SVC(C=cell.C, gamma=cell.gamma, tol=1e-6).fit(X[fold != k], signs[fold != k])
            scores[fold == k] = model.decision_function(X[fold == k])
        assert cell.utility == pytest.approx(goal.utility(choose_threshold(scores, signs, goal).counts), abs=0.02)
    best = max(cell.utility for cell in tuning.cells)
    chosen = [c for c in tuning.cells if (c.C, c.gamma) == (tuning.C, tuning.gamma)]
    assert chosen[0].utility == best
    same = SVM(objective=objective, C=tuning.C, gamma=tuning.gamma, tol=1e-5, random_state=1).fit(X, y)
    np.testing.assert_allclose(svm.decision_function(X), same.decision_function(X), atol=1e-2)
    json.dumps(svm.report_.to_dict(), allow_nan=False)


def test_tuning_helps_where_the_default_kernel_is_wrong():
    X, y = moons(400, noise=0.15)
    wide = {"gamma": 0.05, "C": 0.1, "random_state": 0}
    plain = SVM(**wide).fit(X[:200], y[:200])
    tuned = SVM(tune="C-gamma", **wide).fit(X[:200], y[:200])
    assert (tuned.predict(X[200:]) == y[200:]).mean() > (plain.predict(X[200:]) == y[200:]).mean() + 0.05
    assert tuned.get_params()["C"] == 0.1  # the parameter stays what it was


@pytest.mark.parametrize("method", [PSVM, TSVM])
def test_semi_supervised_methods_are_tuned_on_their_labelled_rows(method):
    X, y = moons()
    labels = np.where(np.arange(160) < 60, y, -1)
    gamma = float(1 / (2 * X.var()))
    tuned = method(tune="C", random_state=0).fit(X, labels)
    alone = SVM(tune="C", gamma=gamma, random_state=0).fit(X[:60], y[:60])
    assert tuned.report_.tuning.C == alone.report_.tuning.C
    assert len(tuned.report_.tuning.cells) == len(C_GRID)
    fixed = method(C=tuned.report_.tuning.C, random_state=5).fit(X, labels)
    assert fixed.report_.tuning is None


def test_certificate_rows_have_no_say():
    X, y = moons(400)
    objective = {"kind": "precision", "target": 0.7, "confidence": 0.9}
    signs = np.where(y == 1, 1, -1)
    _, held_out = stratified_halves(signs, seeded(0))
    noise = X.copy()
    noise[held_out] = np.random.default_rng(0).normal(size=(len(held_out), 2))
    reports = [
        SVM(objective=objective, tune="C", gamma=1.0, random_state=0).fit(data, y).report_ for data in (X, noise)
    ]
    assert reports[0].tuning.C == reports[1].tuning.C
    for first, second in zip(reports[0].tuning.cells, reports[1].tuning.cells, strict=True):
        assert first.utility == pytest.approx(second.utility, abs=0.02)


def test_linear_kernel_has_no_gamma_to_tune_and_a_stop_is_obeyed():
    X, y = moons()
    svm = SVM(kernel="linear", tune="C-gamma", random_state=0).fit(X, y)
    assert len(svm.report_.tuning.cells) == len(C_GRID)
    stopped = SVM(tune="C-gamma", random_state=0, max_seconds=1e-6).fit(X, y)
    assert stopped.status_ == "solver_limit"
    assert stopped.report_.tuning.C == 1.0
    with pytest.raises(ValueError, match="tune"):
        SVM(tune="everything").fit(X, y)


@pytest.mark.parametrize("what", ["C", "C-gamma"])
def test_progress_moves_from_cell_to_cell(what):
    X, y = moons(600)
    news = []
    SVM(tune=what, random_state=0, callback=lambda fraction, info: news.append((fraction, info)) or False).fit(X, y)
    tuned = sorted({(fraction, info["tuned"]) for fraction, info in news if "tuned" in info})
    cells = news[0][1]["to_tune"]
    # Each fold is left out, and each two of them.
    assert cells == (5 + 10) * len(C_GRID) * (len(GAMMA_FACTORS) if what == "C-gamma" else 1)
    assert len(tuned) >= cells / 6
    assert max(fraction for fraction, _ in tuned) == pytest.approx(0.5)
    fractions = [fraction for fraction, _ in news]
    assert fractions == sorted(fractions)
    assert fractions[-1] > 0.9, "what follows has the other half"
