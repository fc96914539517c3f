"""Several classes: unlabelled rows in every pair, ties, and scikit-learn's own classes for labelled rows alone."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from solver.estimators import SVM, AugmentedClassifier, OneVsOne, OneVsRest, SelfTraining

X, NUMBERS = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NAMES = np.array(["setosa", "versicolor", "virginica"])[NUMBERS]
ALONE = {"threshold_rule": "zero", "labeled_split": "full"}


def partly(labelled=8):
    y = np.full(len(NAMES), None, dtype=object)
    for name in np.unique(NAMES):
        rows = np.flatnonzero(name == NAMES)[:labelled]
        y[rows] = NAMES[rows]
    return y


@pytest.mark.parametrize("method", [OneVsOneClassifier, OneVsRestClassifier])
@pytest.mark.parametrize("labels", [NAMES, NUMBERS], ids=["names", "numbers"])
def test_scikit_learns_own_take_labelled_rows(method, labels):
    assert (method(SVM(random_state=0)).fit(X, labels).predict(X) == labels).mean() > 0.93


@pytest.mark.parametrize(
    ("method", "scikit_learns"), [(OneVsOne, OneVsOneClassifier), (OneVsRest, OneVsRestClassifier)]
)
def test_without_unlabelled_rows_it_is_scikit_learns(method, scikit_learns):
    mine = method(SVM(**ALONE)).fit(X, NAMES)
    theirs = scikit_learns(SVM(**ALONE)).fit(X, NAMES)
    assert (mine.predict(X) == theirs.predict(X)).mean() > 0.99
    assert mine.decision_function(X).shape == (150, 3)


@pytest.mark.parametrize("method", [OneVsOne, OneVsRest])
@pytest.mark.parametrize("learner", [AugmentedClassifier, SelfTraining])
def test_unlabelled_rows_reach_every_classifier(method, learner):
    y = partly()
    fitted = method(learner(**ALONE)).fit(X, y)
    assert fitted.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert (fitted.predict(X) == NAMES).mean() > 0.85
    for classifier in fitted.estimators_:
        rows = classifier.report_.rows
        assert rows.unlabelled == 126
        # the other class's labelled rows have no part in a pair, neither as its rows nor as unlabelled ones
        assert (rows.positive, rows.negative) == ((8, 8) if method is OneVsOne else (8, 16))
    marked = np.where([name is None for name in y], "?", y).astype(str)
    codes = np.where(marked == "?", -1, NUMBERS)
    scores = fitted.decision_function(X)
    for labels, mark in ((marked, "?"), (codes, None), (np.where(codes < 0, 9, codes), 9)):
        again = method(learner(**ALONE), unlabeled=mark).fit(X, labels)
        assert np.array_equal(again.decision_function(X), scores)


def test_sparse_rows_and_weights():
    weight = np.where(np.arange(150) % 3 == 0, 0.0, 1.0)
    dense = OneVsRest(SVM(**ALONE)).fit(X, NAMES, sample_weight=weight)
    compressed = OneVsRest(SVM(**ALONE)).fit(sparse.csr_array(X), NAMES, sample_weight=weight)
    kept = OneVsRest(SVM(**ALONE)).fit(X[weight > 0], NAMES[weight > 0])
    scores = compressed.decision_function(sparse.csr_array(X))
    np.testing.assert_allclose(scores, dense.decision_function(X), atol=0.01)
    np.testing.assert_allclose(scores, kept.decision_function(X), atol=0.01)


@pytest.mark.parametrize("method", [OneVsOne, OneVsRest])
def test_two_classes_are_one_problem(method):
    two = NUMBERS > 0
    y = np.where(np.arange(150) % 7 == 0, NUMBERS, -1)
    fitted = method(SelfTraining(random_state=0)).fit(X[two], y[two])
    alone = SelfTraining(random_state=0, positive=2).fit(X[two], y[two])
    assert len(fitted.estimators_) == 1
    assert fitted.predict(X[two]).tolist() == alone.predict(X[two]).tolist()
    assert (fitted.predict(X[two]) == NUMBERS[two]).mean() > 0.8


def test_ties_go_to_the_scores_among_equals_then_to_the_larger_class():
    y = np.repeat(["a", "b", "c", "d"], [2, 2, 3, 2])
    rows = np.random.default_rng(0).normal(size=(9, 2))
    voting = OneVsOne(SVM()).fit(rows, y)
    #   row 0: b wins all · row 1: a over b, b over c, c over a, all over d; c by most · row 2: the same, all by as much
    #   row 3: as row 1, but c's win counts as 1 and no more, and so do the others
    of_pairs = np.column_stack(
        [
            [0.2, -0.4, -0.5, -2.0],  # b or a
            [0.2, 0.7, 0.5, 9.0],  # c or a
            [-9.0, -9.0, -9.0, -9.0],  # d or a
            [-0.2, -0.5, -0.5, -3.0],  # c or b
            [-9.0, -0.1, -0.1, -0.1],  # d or b
            [-0.1, -0.1, -0.1, -0.1],  # d or c
        ]
    )
    scores = voting.decision_.of_classes(of_pairs)
    assert np.round(scores[0]).tolist() == [1, 3, 2, 0]
    assert np.round(scores[1]).tolist() == [2, 2, 2, 0]
    assert scores[1].tolist() == pytest.approx([2 - 0.3 / 3.9, 2 + 0.1 / 3.3, 2 + 0.2 / 3.6, 0])
    assert scores[2, :3].tolist() == [2, 2, 2]
    assert voting.classes_[voting.decision_.says(of_pairs)].tolist() == ["b", "c", "c", "c"]


@pytest.mark.parametrize("method", [OneVsOne, OneVsRest])
def test_what_cannot_be_learned_is_named(method):
    with pytest.raises(ValueError, match="only one class"):
        method(SVM()).fit(X, np.where(NUMBERS == 1, 1, -1))
    y = partly()
    y[(y == "virginica") & (np.arange(150) > 100)] = None
    with pytest.raises(ValueError, match=r"got 1 of .*virginica"):
        method(SVM()).fit(X, y)
    with pytest.raises(ValueError, match="no row is labelled"):
        method(SVM()).fit(X, np.full(150, -1))
    with pytest.raises(ValueError, match="150 rows but y has 149"):
        method(SVM()).fit(X, NUMBERS[1:])
