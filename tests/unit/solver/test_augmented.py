"""Augmentation: who claims what, what both claim, and what it is good for."""

import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from solver.choices import Augmenter, CutOff
from solver.estimators import SVM, AugmentedClassifier
from solver.estimators import augmented as module
from solver.estimators.augmented import binary_rows, purify
from solver.positive_unlabelled.bayesian_sets import rank_by_set

ALONE = {"threshold_rule": "zero", "labeled_split": "full"}
LINEAR = {"kernel": "linear", **ALONE}
NEWSGROUPS = (
    Path(os.environ.get("PREFSVM_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "newsgroups20_counts.npz"
)


def texts(seed=0, n=400, labelled=6, words=400, topical=60, share=0.5):
    """Rows of length 1 over many words, of which each of two topics has some; the labels of most rows are -1."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(int)
    rates = np.full((2, words), 0.05)
    rates[0, :topical] = rates[1, topical : 2 * topical] = 0.15
    X = rng.poisson(rates[truth] * rng.uniform(0.4, 2.0, size=(n, 1))).astype(float)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    y = np.full(n, -1)
    for label in (0, 1):
        y[np.flatnonzero(truth == label)[:labelled]] = label
    return sparse.csr_array(X), y, truth


def test_rows_that_both_classes_claim_are_dropped():
    positive, negative = np.array([True, True, False, False]), np.array([True, False, True, False])
    left, right = purify(positive, negative)
    assert left.tolist() == [False, True, False, False]
    assert right.tolist() == [False, False, True, False]
    assert positive.tolist() == [True, True, False, False]


def test_large_values_are_marked():
    dense = np.array([[0.0, -1.0, 1.0, 5.0], [0.0, 0.0, 1.0, 5.0], [2.0, 3.0, 0.0, 5.0]])
    expected = [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1]]
    assert binary_rows(dense).tolist() == expected
    # an entry in two parts, a zero that is stored, a negative value
    parts = sparse.csr_array((np.array([3.0, -2.0, 0.0, -1.0, 2.0]), np.array([0, 0, 1, 1, 2]), np.array([0, 3, 5])))
    before = parts.copy()
    marked = binary_rows(parts)
    assert sparse.issparse(marked)
    assert marked.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert marked.nnz == 2
    assert (parts.data == before.data).all()
    assert (parts.indices == before.indices).all()


@pytest.mark.parametrize("share", [None, 0.3])
def test_it_is_the_svm_on_labelled_and_claimed_rows(share):
    X, y, _ = texts(share=0.4)
    factor, soft = 0.4, 0.2
    fitted = AugmentedClassifier(
        claim_factor=factor, C_soft=soft, positive_share=share, C=2.0, tol=1e-8, c=20.0, **LINEAR
    ).fit(X, y)
    unlabelled = np.flatnonzero(y == -1)
    u = len(unlabelled)
    expected = round(u * ((y == 1).sum() / (y != -1).sum() if share is None else share))
    marks = binary_rows(X)
    claims = {}
    for label, count in ((1, expected), (0, u - expected)):
        scores = rank_by_set(marks, np.flatnonzero(y == label), unlabelled, 0.0, c=20.0, exponent=2.0).scores
        claims[label] = set(unlabelled[np.argsort(-scores, kind="stable")[: round(factor * count)]].tolist())
    both = claims[0] & claims[1]
    report = fitted.report_.rounds
    assert report == [
        {
            "round": 1,
            "claimed": {"positive": len(claims[1]), "negative": len(claims[0])},
            "dropped": len(both),
            "added": {"positive": len(claims[1] - both), "negative": len(claims[0] - both)},
        }
    ]
    labels, weight = y.copy(), np.where(y == -1, soft, 1.0)
    for label in (0, 1):
        labels[sorted(claims[label] - both)] = label
    used = labels != -1
    alone = SVM(C=2.0, tol=1e-8, **LINEAR).fit(X[used], labels[used], sample_weight=weight[used])
    np.testing.assert_allclose(fitted.decision_function(X), alone.decision_function(X), atol=1e-5)


def test_both_classes_can_claim_the_same_rows():
    # all values are the same: both rank the rows as they come
    X = sparse.csr_array(np.ones((40, 3)))
    y = np.array([0, 1, 0, 1] + [-1] * 36)
    (report,) = AugmentedClassifier(**LINEAR).fit(X, y).report_.rounds
    assert report["dropped"] == 9
    assert report["added"] == {"positive": 0, "negative": 0}


def test_bayesian_sets_help_where_labels_are_few():
    gains = []
    for seed in range(6):
        X, y, truth = texts(seed)
        rest = y == -1
        accuracy = [
            (method(**LINEAR).fit(X, y).predict(X[rest]) == truth[rest]).mean() for method in (AugmentedClassifier, SVM)
        ]
        gains.append(accuracy[0] - accuracy[1])
    assert np.mean(gains) > 0.04
    assert np.min(gains) > 0


@pytest.mark.parametrize("augmenter", get_args(Augmenter))
@pytest.mark.parametrize("cut_off", get_args(CutOff))
def test_every_augmenter_with_every_cut_off(augmenter, cut_off):
    X, y, truth = texts(1, labelled=30)
    settings = {"augmenter": augmenter, "cut_off": cut_off, "random_state": 7, **LINEAR}
    fitted, again = (AugmentedClassifier(**settings).fit(X, y) for _ in range(2))
    assert fitted.decision_function(X).tobytes() == again.decision_function(X).tobytes()
    rest = y == -1
    assert (fitted.predict(X[rest]) == truth[rest]).mean() > 0.8
    (report,) = fitted.report_.rounds
    claimed, added = report["claimed"], report["added"]
    for side in ("positive", "negative"):
        assert added[side] == claimed[side] - report["dropped"] >= 0
    if cut_off == "prior":
        assert sum(claimed.values()) == rest.sum() // 2
    # a dense matrix of the same values, most of them 0, is the same to it
    dense = AugmentedClassifier(**settings).fit(X.toarray(), y)
    np.testing.assert_allclose(dense.decision_function(X), fitted.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("augmenter", get_args(Augmenter))
def test_indices_of_64_bits_change_nothing(augmenter):
    X, y, _ = texts(n=120)
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    settings = {"augmenter": augmenter, "random_state": 0, **LINEAR}
    fitted, other = (AugmentedClassifier(**settings).fit(rows, y) for rows in (X, wide))
    assert np.array_equal(fitted.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("augmenter", get_args(Augmenter))
@pytest.mark.parametrize("cut_off", get_args(CutOff))
def test_two_labelled_rows_of_each_class_are_enough(augmenter, cut_off):
    X, y, _ = texts(2, n=60, labelled=2)
    fitted = AugmentedClassifier(augmenter=augmenter, cut_off=cut_off, kernel="linear").fit(X, y)
    assert np.isfinite(fitted.decision_function(X)).all()
    assert len(fitted.report_.rounds) == 1


def test_a_spy_em_that_failed_claims_nothing(monkeypatch):
    X, y, _ = texts()
    found = module.spy_em

    def failing(*arguments, **named):
        separated = found(*arguments, **named)
        separated.claimed[:] = True
        return type(separated)(**{**vars(separated), "failed": True})

    monkeypatch.setattr(module, "spy_em", failing)
    fitted = AugmentedClassifier(augmenter="spy-em", cut_off="own", **LINEAR).fit(X, y)
    assert fitted.report_.rounds[0]["claimed"] == {"positive": 0, "negative": 0}
    alone = SVM(**LINEAR).fit(X, y)
    np.testing.assert_allclose(fitted.decision_function(X), alone.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("augmenter", get_args(Augmenter))
def test_one_that_is_stopped_keeps_what_it_has(augmenter):
    X, y, _ = texts()
    calls = []

    def callback(fraction, info):
        calls.append(fraction)
        return len(calls) > 2

    fitted = AugmentedClassifier(augmenter=augmenter, kernel="linear", callback=callback).fit(X, y)
    assert fitted.status_ == "stopped"
    assert np.isfinite(fitted.decision_function(X)).all()
    timed = AugmentedClassifier(augmenter=augmenter, max_seconds=1e-9, kernel="linear").fit(X, y)
    assert timed.status_ == "solver_limit"
    assert np.isfinite(timed.decision_function(X)).all()


@pytest.mark.slow
@pytest.mark.skipif(not NEWSGROUPS.is_file(), reason="20 Newsgroups is not here; PREFSVM_SHARED_DATA names its folder")
@pytest.mark.parametrize(("labelled", "gain"), [(5, 0.1), (20, 0.05)])
def test_newsgroups_gain_what_the_page_says(labelled, gain):
    stored = np.load(NEWSGROUPS)
    counts = sparse.csr_array((stored["data"].astype(float), stored["indices"], stored["indptr"]), stored["shape"])
    names = stored["classes"].tolist()
    groups = [names.index("rec.sport.baseball"), names.index("rec.sport.hockey")]
    rows = np.isin(stored["y"], groups)
    X, truth = TfidfTransformer(sublinear_tf=True).fit_transform(counts[rows]), stored["y"][rows] == groups[0]
    accuracy = {AugmentedClassifier: [], SVM: []}
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(truth))
        test, train = np.split(order, [len(order) // 3])
        y = np.full(len(train), -1)
        for label in (0, 1):
            y[np.flatnonzero(truth[train] == label)[:labelled]] = label
        for method, measured in accuracy.items():
            measured.append((method(**LINEAR).fit(X[train], y).predict(X[test]) == truth[test]).mean())
    assert np.mean(accuracy[AugmentedClassifier]) > np.mean(accuracy[SVM]) + gain
