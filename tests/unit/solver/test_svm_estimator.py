import json
import time

import numpy as np
import pandas as pd
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from solver.estimators import SVM
from solver.evaluation import confusion
from solver.report import Report, RowCounts


@pytest.fixture(scope="module")
def tumours():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), 1 - y


def two_blobs(n=120, seed=0, features=4):
    return make_classification(
        n, features, n_informative=3, n_redundant=0, flip_y=0.15, weights=[0.65], random_state=seed
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": 0.05, "C": 10.0},
        {"kernel": "rbf", "gamma": "auto", "class_weight": "balanced"},
        {"kernel": "linear", "C": 0.1, "class_weight": {0: 1.0, 1: 5.0}},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "sigmoid", "gamma": 0.01},
    ],
)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_plain_svm_agrees_with_scikit_learn(tumours, parameters, form):
    X, y = tumours
    X, y = X[:250], y[:250]
    if form == "sparse":
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    mine = SVM(threshold_rule="zero", labeled_split="full", tol=1e-6, **parameters).fit(X, y)
    theirs = SVC(tol=1e-6, **parameters).fit(X, y)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=2e-4)
    assert mine.threshold_ == 0.0
    assert mine.status_ == "met"


def test_sample_weights_scale_the_cost_and_zero_leaves_a_row_out():
    X, y = two_blobs()
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(y))
    mine = SVM(threshold_rule="zero", labeled_split="full", tol=1e-6, gamma=0.3).fit(X, y, sample_weight=weight)
    theirs = SVC(tol=1e-6, gamma=0.3).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=2e-4)
    assert mine.report_.rows.total == np.count_nonzero(weight)


@pytest.mark.parametrize("split", ["xfit", "part", "full"])
@pytest.mark.parametrize("objective", ["f1", {"kind": "recall", "target": 0.95}, {"kind": "precision", "target": 0.9}])
def test_report_tells_what_the_decision_does(tumours, split, objective):
    X, y = tumours
    svm = SVM(objective=objective, labeled_split=split, random_state=0).fit(X, y)
    report = svm.report_
    assert Report.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report
    calibration = report.calibration
    # met is what is likely to hold, which rows that trained the model cannot say
    likely = objective == "f1" or report.promise.level == "likely"
    assert svm.status_ == report.status == ("met" if likely else "cannot_certify")
    assert svm.status_reason_ == ("" if likely else report.promise.sentence)
    assert likely or report.promise.level == "open"
    assert (report.promise.bounds == {}) == (split == "full")
    if isinstance(objective, dict):
        assert getattr(calibration, objective["kind"]).value >= objective["target"]
    assert report.threshold == svm.threshold_
    assert np.array_equal(svm.predict(X) == 1, svm.decision_function(X) > svm.threshold_)
    assert calibration.n == len(y) // 2 if split == "part" else len(y)
    if split == "full":
        counts = confusion(np.where(y == 1, 1, -1), svm.predict(X) == 1)
        assert counts.true_positives == calibration.true_positives
        assert "optimistic" in report.warnings[0]
    plain = report.controls["plain_svm"]
    assert plain.threshold == 0.0
    assert plain.calibration.n == len(y)
    curve = report.curve
    assert curve.positives + curve.negatives == calibration.n
    assert report.rows == RowCounts(total=569, labelled=569, positive=212, negative=357, unlabelled=0)


def test_cross_fitted_scores_come_from_models_that_did_not_see_the_row():
    # labels without any relation to X: in-sample the RBF kernel remembers them, out of sample nothing is left
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.choice([0, 1], 200)
    parameters = {"gamma": 5.0, "C": 100.0, "random_state": 0}
    remembered = SVM(labeled_split="full", **parameters).fit(X, y).report_.calibration.f1.value
    honest = SVM(**parameters).fit(X, y).report_.controls["plain_svm"].calibration
    assert remembered == 1.0
    accuracy = (honest.true_positives + honest.true_negatives) / 200
    assert 0.35 < accuracy < 0.65


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["ham", "spam"], ["ham", "spam"]),
        ([0, 1], [0, 1]),
        ([-1, 1], [-1, 1]),
        ([1.0, 2.0], [1.0, 2.0]),
        ([False, True], [False, True]),
    ],
)
def test_labels_come_back_as_they_were(labels, classes):
    X, y = two_blobs()
    named = np.array(labels)[y]
    svm = SVM(random_state=0).fit(X, named)
    assert svm.classes_.tolist() == classes
    assert svm.predict(X).dtype == named.dtype
    assert (svm.predict(X) == named).mean() > 0.75


def test_positive_class_can_be_chosen():
    X, y = two_blobs()
    names = np.array(["cat", "dog"])[y]
    dog = SVM(random_state=0).fit(X, names)
    cat = SVM(random_state=0, positive="cat").fit(X, names)
    assert cat.classes_.tolist() == ["dog", "cat"]
    assert cat.report_.rows.positive == dog.report_.rows.negative
    np.testing.assert_allclose(cat.decision_function(X), -dog.decision_function(X), atol=5e-3)
    with pytest.raises(ValueError, match="'cow'"):
        SVM(positive="cow").fit(X, names)


@pytest.mark.parametrize("mark", ["None", "nan", "NA", "-1", "named"])
def test_unlabelled_rows_are_ignored(mark):
    X, y = two_blobs()
    known = np.arange(len(y)) % 3 != 0
    if mark == "None":
        labels = np.array([["no", "yes"][k] if keep else None for k, keep in zip(y, known, strict=True)], dtype=object)
    elif mark == "nan":
        labels = np.where(known, y.astype(float), np.nan)
    elif mark == "NA":
        labels = pd.Series(np.where(known, y, -1)).astype("Int64").where(known).astype(object).to_numpy()
    elif mark == "-1":
        labels = np.where(known, y, -1)
    else:
        labels = np.where(known, np.array(["no", "yes"])[y], "?")
    svm = SVM(random_state=0, unlabeled="?" if mark == "named" else None).fit(X, labels)
    alone = SVM(random_state=0).fit(X[known], y[known])
    assert np.array_equal(svm.decision_function(X), alone.decision_function(X))
    assert svm.threshold_ == alone.threshold_


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 0, 0, 0, 0], "one class"),
        ([0, 0, 0, 0, 0, 1], "got 1 of the positive class 1 and 5 of the negative class 0"),
        ([0, 1, 2, 0, 1, 2], "Only binary classification"),
        ([0.5, 1.2, 0.3, 2.2, 1.1, 0.9], "continuous"),
        ([None] * 6, "no row is labelled"),
        (["a", "b", 1, "a", "b", 1], "all numbers or all strings"),
        ([0, 1], "y has 2"),
    ],
)
def test_labels_that_cannot_be_learned_from(labels, message):
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match=message):
        SVM().fit(X, np.array(labels, dtype=object) if any(isinstance(v, str | None) for v in labels) else labels)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.0},
        {"gamma": -1.0},
        {"gamma": "wide"},
        {"kernel": "precomputed"},
        {"tol": 0},
        {"max_seconds": 0},
        {"threshold_rule": "best"},
        {"labeled_split": "half"},
        {"objective": {"kind": "recall"}},
        {"threshold_rule": "lcb"},
        {"class_weight": {"x": 2.0}},
        {"class_weight": {0: 0.0}},
    ],
)
def test_wrong_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters)).split("_")[0]):
        SVM(**parameters).fit(*two_blobs())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_must_be_finite(bad):
    X, y = two_blobs()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        SVM().fit(X, y)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["xfit", "part", "full"]))
def test_degenerate_data_give_an_answer(seed, split):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 30))
    X = rng.integers(-1, 2, size=(n, int(rng.integers(1, 4)))).astype(float)  # duplicates, ties, constant columns
    y = np.r_[0, 0, 1, 1, rng.integers(0, 2, n - 4)]
    svm = SVM(labeled_split=split, random_state=0, C=float(rng.choice([0.01, 1.0, 1e4]))).fit(X, y)
    assert np.isfinite(svm.threshold_)
    assert np.isfinite(svm.decision_function(X)).all()
    assert np.array_equal(svm.predict(X) == 1, svm.decision_function(X) > svm.threshold_)
    json.dumps(svm.report_.to_dict(), allow_nan=False)


def test_same_seed_same_bits(tumours):
    X, y = tumours
    first, second = (SVM(random_state=3).fit(X, y) for _ in range(2))
    assert first.threshold_ == second.threshold_
    assert np.array_equal(first.decision_function(X), second.decision_function(X))
    assert SVM(random_state=4).fit(X, y).threshold_ != first.threshold_


def test_decision_state_is_the_whole_decision(tumours):
    X, y = tumours
    svm = SVM(random_state=0).fit(X, y)
    state = svm.decision_state()
    assert np.array_equal(state.decision_function(X), svm.decision_function(X))
    assert np.array_equal(state.predict_positive(X), svm.predict(X) == 1)
    assert state.threshold == svm.threshold_
    sparse_scores = state.decision_function(sparse.csr_matrix(X))
    np.testing.assert_allclose(sparse_scores, svm.decision_function(X), atol=1e-9)
    moved = state.with_threshold(10.0)
    assert not moved.predict_positive(X).any()


def test_limits_are_reported_and_never_called_converged(tumours):
    X, y = tumours
    svm = SVM(max_iter=3, random_state=0).fit(X, y)
    assert svm.status_ == "solver_limit"
    assert "limit" in svm.status_reason_
    assert svm.report_.calibration.n == len(y)
    started = time.thread_time()  # a neighbour may have the cores meanwhile
    hurried = SVM(C=1e6, gamma=10.0, max_seconds=1e-3, random_state=0).fit(np.tile(X, (4, 1)), np.tile(y, 4))
    assert time.thread_time() - started < 5
    assert hurried.status_ == "solver_limit"
    assert np.isfinite(hurried.decision_function(X)).all()


def test_progress_goes_on_from_fold_to_fold(tumours):
    X, y = tumours
    seen = []
    SVM(callback=lambda fraction, info: seen.append((fraction, info)), random_state=0).fit(X, y)
    folds = [(fraction, info["fold"]) for fraction, info in seen if "fold" in info]
    assert [fold for _, fold in folds] == [1, 2, 3, 4, 5]
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert 0 < folds[0][0] < folds[-1][0] < 1


def test_callback_stops_and_what_is_there_can_be_used(tumours):
    X, y = tumours
    svm = SVM(callback=lambda *_: True, random_state=0).fit(X, y)
    assert svm.status_ == "stopped"
    assert svm.predict(X).shape == y.shape
    json.dumps(svm.report_.to_dict(), allow_nan=False)


def test_confidence_holds_out_rows_that_never_train(tumours):
    X, y = tumours
    objective = {"kind": "precision", "target": 0.85, "confidence": 0.9}
    svm = SVM(objective=objective, random_state=0).fit(X, y)
    assert svm.status_ == "met"
    assert svm.report_.threshold_rule == "fixed-sequence"
    assert svm.report_.calibration.n == 284
    assert svm.report_.controls["no_unlabelled"].threshold == svm.threshold_
    few = SVM(objective=objective, random_state=0).fit(np.r_[X[y == 0][:9], X[y == 1][:3]], [0] * 9 + [1] * 3)
    assert few.status_ == "cannot_certify"
    assert "at least 4" in few.status_reason_


def test_works_inside_scikit_learn(tumours):
    X, y = tumours
    copy = clone(SVM(C=3.0, objective={"kind": "recall", "target": 0.9}))
    assert copy.get_params()["C"] == 3.0
    search = GridSearchCV(SVM(random_state=0), {"C": [0.1, 10.0]}, cv=3, scoring="f1").fit(X[:200], y[:200])
    assert search.best_score_ > 0.9
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(30)])
    piped = make_pipeline(StandardScaler(), SVM(random_state=0)).fit(frame, pd.Series(y))
    assert (piped.predict(frame) == y).mean() > 0.95
    named = SVM(random_state=0).fit(frame, y)
    assert named.feature_names_in_.tolist() == list(frame.columns)


@pytest.mark.parametrize("target", [0.65, 0.7])
def test_equal_rows_are_on_one_side_of_the_threshold(target):
    """One category of two values: 40 of 60 and 10 of 60 are positive, so no threshold reaches more than two thirds."""
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 60, axis=0)
    y = np.r_[np.arange(60) < 40, np.arange(60) < 10].astype(int)
    svm = SVM(objective={"kind": "precision", "target": target}, random_state=0).fit(X, y)
    assert svm.status_ == ("cannot_certify" if target < 2 / 3 else "preference_unmet")  # 40 of 60 are too near to it
    assert svm.report_.promise.level == ("open" if target < 2 / 3 else "missed")
    found = svm.predict(X)
    calibration = svm.report_.calibration
    assert (calibration.true_positives, calibration.false_positives) == (40, 20)
    assert (np.sum(found[y == 1]), np.sum(found[y == 0])) == (40, 20)
