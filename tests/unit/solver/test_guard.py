"""What is returned when the unlabelled rows do not help, and what the report says beside it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from solver.estimators import CS4VM, PSVM, SVM, TSVM
from solver.estimators._guard import compare, wins
from solver.evaluation import PairedDifference, stratified_halves
from solver.operating_point import Objective


def partly_labelled(labelled=80, unlabelled=150, seed=0):
    X, y = make_classification(
        labelled + unlabelled, 6, n_informative=4, n_redundant=0, weights=[0.65], flip_y=0.1, random_state=seed
    )
    return X, np.where(np.arange(len(y)) < labelled, y, -1), y


def decisions(wrong, n=200):
    """Truth, and a decision that is wrong on the given rows."""
    truth = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    decision = truth > 0
    decision[wrong] = ~decision[wrong]
    return truth, decision


@pytest.mark.parametrize(
    ("method_errors", "control_errors", "returned"),
    [
        (10, 60, {"safe": "method", "balanced": "method", "bold": "method"}),
        (40, 42, {"safe": "no_unlabelled", "balanced": "no_unlabelled", "bold": "method"}),
        (32, 45, {"safe": "no_unlabelled", "balanced": "method", "bold": "method"}),
        (40, 40, {"safe": "no_unlabelled", "balanced": "no_unlabelled", "bold": "no_unlabelled"}),
        (60, 10, {"safe": "no_unlabelled", "balanced": "no_unlabelled", "bold": "no_unlabelled"}),
    ],
)
def test_modes_ask_for_more_or_less_evidence(method_errors, control_errors, returned):
    truth, control = decisions(slice(100, 100 + control_errors))
    _, method = decisions(slice(0, method_errors))
    for mode, expected in returned.items():
        assert compare(truth, method, control, Objective(), mode).returned == expected
    assert compare(truth, method, control, Objective(), "method").returned == "method"


def test_a_missed_target_counts_against_a_decision():
    objective = Objective.parse({"kind": "recall", "target": 0.9})
    truth = np.r_[np.ones(100), -np.ones(100)]
    precise = np.r_[np.ones(70, bool), np.zeros(130, bool)]  # recall 0.7, F1 0.82
    wide = np.r_[np.ones(92, bool), np.zeros(8, bool), np.ones(45, bool), np.zeros(55, bool)]  # recall 0.92, F1 0.78
    assert compare(truth, wide, precise, objective, "safe").returned == "method"
    assert compare(truth, wide, precise, Objective(), "safe").returned == "no_unlabelled"


def test_winning_means_by_more_than_one_standard_error_or_all_of_the_interval():
    assert wins(PairedDifference(0.2, 0.1, 0, 0.4))
    assert not wins(PairedDifference(0.1, 0.1, 0, 0.4))
    assert wins(PairedDifference(-0.401, 0.404, -1.32, -0.143).reversed())
    assert not wins(PairedDifference(-0.401, 0.404, -1.32, 0.0).reversed())
    assert not wins(PairedDifference(0.0, 0.0, 0, 0))
    assert PairedDifference(0.2, 0.1, -0.1, 0.4).reversed() == PairedDifference(-0.2, 0.1, -0.4, 0.1)


@pytest.mark.parametrize("method", [PSVM, TSVM])
def test_safe_mode_returns_the_control_unless_the_method_is_shown_better(method):
    X, y, _ = partly_labelled()
    settings = {"random_state": 0, "gamma": 0.3}
    safe = method(mode="safe", **settings).fit(X, y)
    own = method(mode="method", **settings).fit(X, y)
    comparison = safe.report_.comparison
    assert comparison.returned == "no_unlabelled"
    assert comparison.gain <= 1.64 * comparison.standard_error
    svm = SVM(**settings).fit(X[y >= 0], y[y >= 0])
    np.testing.assert_allclose(safe.decision_function(X), svm.decision_function(X), atol=1e-6)
    assert safe.threshold_ == pytest.approx(svm.threshold_, abs=1e-6)
    assert safe.report_.calibration == safe.report_.controls["no_unlabelled"].calibration
    assert own.report_.comparison == replace(comparison, mode="method", returned="method")
    assert own.report_.controls["no_unlabelled"] == safe.report_.controls["no_unlabelled"]


def test_certificate_of_the_guarded_model_uses_rows_that_the_guard_did_not_see():
    X, y, _ = partly_labelled(labelled=160)
    objective = {"kind": "recall", "target": 0.6, "confidence": 0.9, "certificate": "strict"}
    tsvm = TSVM(objective=objective, mode="safe", random_state=0).fit(X, y)
    assert tsvm.report_.threshold_rule == "fixed-sequence"
    assert tsvm.report_.calibration.n == 80
    changed = TSVM(objective=objective, mode="safe", random_state=0)
    labels = y.copy()
    # swapping the labels inside the held-out half changes the threshold at most, never the comparison
    rng = np.random.default_rng(np.random.RandomState(0).randint(2**31))
    _, held_out = stratified_halves(np.where(y[:160] == 1, 1, -1), rng)
    noise = X.copy()
    noise[held_out] = noise[held_out][::-1]
    changed.set_params(gamma=0.2).fit(noise, labels)
    same = TSVM(objective=objective, mode="safe", gamma=0.2, random_state=0).fit(X, labels)
    assert vars(changed.report_.comparison) == pytest.approx(vars(same.report_.comparison), abs=1e-9)


def test_report_says_where_a_control_wins():
    X, y, _ = partly_labelled(labelled=120)
    costs = {"kind": "cost", "false_negative": 100.0, "false_positive": 1.0}
    unshifted = SVM(objective=costs, threshold_rule="zero", random_state=0).fit(X, y)
    controls = unshifted.report_.controls
    assert {"all_positive", "all_negative"} <= controls.keys()
    everything = controls["all_positive"].calibration
    assert everything.recall.value == 1.0
    assert everything.cost.value < unshifted.report_.calibration.cost.value
    assert any("all_positive is better" in warning for warning in unshifted.report_.warnings)
    assert unshifted.control_states_["all_positive"].predict_positive(X).all()
    assert not unshifted.control_states_["all_negative"].predict_positive(X).any()
    chosen = SVM(objective=costs, random_state=0).fit(X, y)
    assert not any("all_positive is better" in warning for warning in chosen.report_.warnings)
    assert chosen.report_.calibration.cost.value <= everything.cost.value
    assert "all_positive" not in SVM(random_state=0).fit(X, y).report_.controls


def test_probabilities_come_from_scores_of_rows_not_trained_on():
    X, y, truth = partly_labelled(labelled=150)
    for estimator in (SVM(random_state=0), PSVM(random_state=0), SVM(labeled_split="part", random_state=0)):
        probabilities = estimator.fit(X, y).predict_proba(X)
        assert probabilities.shape == (len(X), 2)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        order = np.argsort(estimator.decision_function(X))
        assert np.all(np.diff(probabilities[order, 1]) >= 0)
        report = estimator.report_.probability
        assert 0 < report.brier < 0.25
        assert sum(point.n for point in report.reliability) == estimator.report_.calibration.n
        new = y == -1
        assert np.mean((probabilities[new, 1] - truth[new]) ** 2) < 0.2
    in_sample = SVM(labeled_split="full")
    assert not hasattr(in_sample, "predict_proba")
    assert in_sample.fit(X, y).report_.probability is None
    with pytest.raises(ValueError, match="no probabilities"):
        in_sample.decision_state().probabilities(np.zeros(1))


def test_wrong_mode_is_refused():
    X, y, _ = partly_labelled()
    with pytest.raises(ValueError, match="mode"):
        CS4VM(mode="careful").fit(X, y)
