"""Every estimator in the company it will be in: frames, sparse rows, string labels, clones, grid searches, seeds."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from solver.estimators import (
    CS4VM,
    PSVM,
    SVM,
    TSVM,
    AugmentedClassifier,
    ClusterSVM,
    GaussianMixtureClassifier,
    LaplacianSVM,
    MeanS3VM,
    RampTSVM,
    SelfTraining,
)

ESTIMATORS = [
    *(SVM, PSVM, TSVM, RampTSVM, LaplacianSVM, SelfTraining, CS4VM, MeanS3VM, AugmentedClassifier),
    # of two clusters k-means finds the same whether rows are sparse or not; of many it finds others
    *(partial(ClusterSVM, clusters=2, scaling="standard"), GaussianMixtureClassifier),
]
COLUMNS = ["age", "height", "weight", "pulse"]


def partly_labelled(seed=0, n=70, labelled=12):
    """Two clusters of rows with many zeros; the named labels of all but the first `labelled` of each class are None."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    X = rng.normal(size=(n, len(COLUMNS))) + 1.2 * (2 * truth - 1)[:, None]
    X[np.abs(X) < 0.3] = 0.0
    named = np.array(["healthy", "ill"], dtype=object)[truth]
    y = named.copy()
    y[2 * labelled :] = None
    return X, y, named


@pytest.mark.parametrize("method", ESTIMATORS)
def test_frames_sparse_rows_and_string_labels_give_what_arrays_give(method):
    X, y, named = partly_labelled()
    estimator = method(positive="ill", random_state=0, tol=1e-6, gamma=0.2)
    reference = clone(estimator).fit(X, y)
    assert reference.classes_.tolist() == ["healthy", "ill"]
    assert (reference.predict(X) == named).mean() > 0.9
    assert not hasattr(reference, "feature_names_in_")
    scores = reference.decision_function(X)
    frames = {
        "pandas": (pd.DataFrame(X, columns=COLUMNS), pd.Series(y)),
        "pandas strings": (pd.DataFrame(X, columns=COLUMNS), pd.Series(y, dtype="string")),
        "polars": (pl.DataFrame(X, schema=COLUMNS), pl.Series(y.tolist())),
    }
    for name, (frame, labels) in frames.items():
        fitted = clone(estimator).fit(frame, labels)
        assert fitted.feature_names_in_.tolist() == COLUMNS, name
        # a frame lies in memory by columns, so its products round differently
        np.testing.assert_allclose(fitted.decision_function(frame), scores, atol=1e-4, err_msg=name)
        assert fitted.predict(frame).tolist() == reference.predict(X).tolist(), name
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(frame[COLUMNS[::-1]])
    compressed = sparse.csr_array(X)
    for rows in (compressed, sparse.csc_matrix(X)):
        fitted = clone(estimator).fit(rows, y)
        np.testing.assert_allclose(fitted.decision_function(compressed), scores, atol=5e-3)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_clones_and_equal_seeds_give_equal_models(method):
    X, y, _ = partly_labelled()
    estimator = method(positive="ill", random_state=3).set_params(threshold_rule="f1max", kernel="linear")
    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()
    first, second = estimator.fit(X, y), copy.fit(X, y)
    assert np.array_equal(first.decision_function(X), second.decision_function(X))
    assert first.threshold_ == second.threshold_
    generator = np.random.RandomState(3)
    drawn = clone(estimator).set_params(random_state=generator).fit(X, y)
    assert np.array_equal(drawn.decision_function(X), first.decision_function(X))
    assert not hasattr(clone(first), "threshold_")


@pytest.mark.parametrize("method", ESTIMATORS)
def test_grid_search_over_partly_labelled_rows(method):
    X, y, named = partly_labelled()
    unlabelled = pd.isna(pd.Series(y)).to_numpy()
    codes = np.where(unlabelled, -1, (named == "ill").astype(int))
    # folds of the labelled rows only; the unlabelled ones train in each
    labelled = np.flatnonzero(~unlabelled)
    folds = [
        (np.concatenate([labelled[train], np.flatnonzero(unlabelled)]), labelled[test])
        for train, test in StratifiedKFold(3).split(labelled, codes[labelled])
    ]
    cost = "C1" if "C1" in method().get_params() else "C"
    grid = [{cost: [1e-6]}, {"objective": [{"kind": "recall", "target": 0.9}]}]
    search = GridSearchCV(method(random_state=0), grid, cv=folds, scoring="f1", error_score="raise").fit(X, codes)
    assert len(search.cv_results_["params"]) == 2
    assert search.best_score_ > 0.8
    assert (search.predict(X) == (named == "ill")).mean() > 0.85
