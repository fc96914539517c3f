"""The low-rank engine as the classifiers use it: chosen, reported, stopped."""

import json

import numpy as np
import pytest
from scipy import sparse

from solver.algorithms import ALGORITHMS
from solver.engine_choice import choose_engine, exact_limit, values_a_row
from solver.estimators import PSVM, SVM


def overlapping(n, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.5).astype(int)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2 * y
    return X, y


def test_a_low_rank_model_is_an_expansion_over_its_landmarks():
    X, y = overlapping(1000)
    exact = SVM(random_state=0, unlabeled=-1).fit(X, y)
    low = SVM(random_state=0, unlabeled=-1, solver="lowrank").fit(X, y)
    assert exact.report_.solver.engine == "working-set"
    assert exact.report_.solver.lowrank is None
    report = low.report_.solver
    assert report.engine == "lowrank"
    assert report.lowrank.reason == "solver was set to lowrank"
    assert report.support_vectors == report.lowrank.landmarks <= 1024
    state = low.decision_state()
    assert len(state.dual_coef) == state.support_vectors.shape[0] == report.lowrank.landmarks
    f, g = exact.decision_function(X), low.decision_function(X)
    assert np.mean(np.abs(f - g)) < 0.05
    assert np.mean(exact.predict(X) == low.predict(X)) > 0.97
    difference = report.lowrank.difference
    assert difference.rows_trained == difference.rows_compared == 500
    assert abs(difference.accuracy_exact - difference.accuracy_lowrank) < 0.02
    assert difference.same_decision > 0.97
    json.dumps(low.report_.to_dict(), allow_nan=False)


def test_a_sparse_solution_is_polished_and_said_to_be():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    low = SVM(C=10, random_state=0, unlabeled=-1, solver="lowrank", labeled_split="full").fit(X, y)
    report = low.report_.solver
    assert report.engine == "lowrank+polish"
    assert report.lowrank.polish.candidates <= 500
    assert report.lowrank.polish.missed < 0.01
    exact = SVM(C=10, random_state=0, unlabeled=-1, labeled_split="full").fit(X, y)
    assert np.mean(exact.predict(X) == low.predict(X)) > 0.999


def test_auto_goes_by_the_memory_for_kernel_rows():
    X, y = overlapping(5200)
    few = SVM(cache_size=1, random_state=0, unlabeled=-1, labeled_split="full").fit(X, y)
    assert few.report_.solver.engine.startswith("lowrank")
    assert "5200 rows are more than the 5000" in few.report_.solver.lowrank.reason


def test_the_choice():
    assert values_a_row(np.zeros((7, 22))) == values_a_row(sparse.csr_array(np.ones((7, 22)))) == 22
    X, cache = 22.0, 2 << 30
    assert choose_engine("auto", 200_000, X, "rbf", cache, None).low_rank
    assert not choose_engine("auto", 100_000, X, "rbf", cache, None).low_rank
    assert not choose_engine("auto", 200_000, X, "linear", cache, None).low_rank
    assert not choose_engine("exact", 200_000, X, "rbf", cache, None).low_rank
    assert choose_engine("lowrank", 100, X, "rbf", cache, None).low_rank
    assert choose_engine("auto", 100_000, X, "rbf", cache, 10.0).low_rank
    assert exact_limit(X, cache, 1.0) < exact_limit(X, cache, 1000.0) <= exact_limit(X, cache, None)
    assert exact_limit(X, 1, 0.0) == 5000


def test_psvm_labels_many_unlabelled_rows_with_it():
    X, y = overlapping(1500)
    y[100:] = -1
    low = PSVM(solver="lowrank", max_rounds=2, random_state=0).fit(X, y)
    exact = PSVM(solver="exact", max_rounds=2, random_state=0).fit(X, y)
    assert low.report_.solver.engine.startswith("lowrank")
    assert low.report_.rounds[1]["f1"] == pytest.approx(exact.report_.rounds[1]["f1"], abs=0.02)
    assert np.mean(low.predict(X) == exact.predict(X)) > 0.98


@pytest.mark.slow
def test_tuning_uses_it_too():
    X, y = overlapping(400)
    svm = SVM(solver="lowrank", tune="C", random_state=0, unlabeled=-1).fit(X, y)
    exact = SVM(solver="exact", tune="C", random_state=0, unlabeled=-1).fit(X, y)
    assert svm.report_.solver.engine.startswith("lowrank")
    assert svm.report_.tuning.cells != exact.report_.tuning.cells  # the search itself did without the exact kernel
    for found, expected in zip(svm.report_.tuning.cells, exact.report_.tuning.cells, strict=True):
        assert abs(found.utility - expected.utility) < 0.01


def test_out_of_time_before_the_first_factor_leaves_a_model():
    X, y = overlapping(20_000)
    svm = SVM(solver="lowrank", max_seconds=0.05, random_state=0, unlabeled=-1, labeled_split="full").fit(X, y)
    assert svm.status_ == "solver_limit"
    assert svm.report_.solver.engine == "sample of 2000 rows"
    assert svm.report_.solver.lowrank is None
    assert np.mean(svm.predict(X) == y) > 0.75


def test_stopped_at_once_leaves_a_model(monkeypatch):
    monkeypatch.setattr("solver.estimators._run._FIRST_MODEL_SECONDS", 0.1)
    X, y = overlapping(20_000)
    svm = SVM(solver="lowrank", callback=lambda *_: True, random_state=0, unlabeled=-1, labeled_split="full").fit(X, y)
    assert svm.status_ == "stopped"
    assert np.mean(svm.predict(X) == y) > 0.75


def test_a_gpu_that_was_asked_for_is_not_silently_left_out():
    X, y = overlapping(100)
    with pytest.raises(ValueError, match="computes on the CPU"):
        SVM(solver="lowrank", device="cuda", unlabeled=-1).fit(X, y)


@pytest.mark.parametrize("name", ["svm", "psvm", "tsvm", "self-training", "augment", "roc-svm"])
def test_the_parameter_is_offered(name):
    parameter = {p.name: p for p in ALGORITHMS[name].parameters}["solver"]
    assert parameter.choices == ("auto", "exact", "lowrank")
    assert parameter.default == ALGORITHMS[name].load()().solver
