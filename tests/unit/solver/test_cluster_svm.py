"""The cluster SVM: votes of clusters against counting by hand, and what it reaches where the paper looked."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from solver.estimators import SVM, ClusterSVM
from solver.estimators import _clusterings as clusterings
from solver.estimators._clusterings import Clustering, cluster, clusterable, principal_components, telling_components

ALONE = {"threshold_rule": "zero", "labeled_split": "full"}


def simulated(seed, labelled, n=500):
    """The paper's A1: two classes of 20 columns with variance 4 and means ±0.7; and 1000 rows to test on."""
    rng = np.random.default_rng(seed)

    def draw(count):
        truth = (rng.random(count) < 0.5).astype(int)
        return rng.normal(size=(count, 20)) * 2 + 0.7 * (2 * truth - 1)[:, None], truth

    X, y = draw(n)
    y[labelled:] = -1
    return X, y, *draw(1000)


def never():
    return False


def test_the_papers_simulation():
    settings = {"kernel": "linear", "C": 0.01, **ALONE}
    reached = {"svm": [], "ensemble": [], "loo": []}
    for seed in range(4):
        X, y, rows, truth = simulated(seed, 25)
        for name, model in (
            ("svm", SVM(**settings)),
            ("ensemble", ClusterSVM(random_state=seed, **settings)),
            ("loo", ClusterSVM(clusters="loo", random_state=seed, **settings)),
        ):
            reached[name].append((model.fit(X, y).predict(rows) == truth).mean())
    # measured over 100 repeats: .932 and .927, the SVM .865 to .88; the best there is .941
    assert np.mean(reached["ensemble"]) > 0.92
    assert np.mean(reached["loo"]) > 0.91
    assert np.mean(reached["ensemble"]) > np.mean(reached["svm"]) + 0.03


def naive_labels(clustering, centres, labelled, positive, rng):
    labels = []
    for number in range(len(centres)):
        mine = [p for row, p in zip(labelled, positive, strict=True) if clustering.number[row] == number]
        if not mine:
            labels.append(None)
        elif 2 * sum(mine) == len(mine):
            labels.append(rng.random() < 0.5)
        else:
            labels.append(2 * sum(mine) > len(mine))
    known = [number for number, label in enumerate(labels) if label is not None]
    result = []
    for number, label in enumerate(labels):
        if label is None:
            label = labels[min(known, key=lambda other: np.linalg.norm(centres[number] - centres[other]))]
        result.append(label)
    return np.array(result)[clustering.number]


def naive_leave_one_out(clustering, centres, labelled, positive):
    total = 0.0
    for i, row in enumerate(labelled):
        others = [j for j in range(len(labelled)) if j != i]
        own = clustering.number[row]
        voters = [j for j in others if clustering.number[labelled[j]] == own]
        if not voters:
            rest = {clustering.number[labelled[j]] for j in others} - {own}
            if not rest:
                continue
            nearest = min(sorted(rest), key=lambda other: np.linalg.norm(centres[own] - centres[other]))
            voters = [j for j in others if clustering.number[labelled[j]] == nearest]
        share = np.mean(positive[voters])
        total += 0.5 if share == 0.5 else float((share > 0.5) == positive[i])
    return total / len(labelled)


@pytest.mark.parametrize("seed", range(12))
def test_votes_are_those_of_counting_by_hand(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 9))
    centres = rng.normal(size=(k, 2))
    made = Clustering(rng.integers(0, k, 40), cdist(centres, centres))
    labelled = np.sort(rng.permutation(40)[: int(rng.integers(4, 15))])
    positive = rng.random(len(labelled)) < 0.4
    labels, told = made.labels(labelled, positive, np.random.default_rng(seed))
    np.testing.assert_array_equal(labels, naive_labels(made, centres, labelled, positive, np.random.default_rng(seed)))
    np.testing.assert_array_equal(told, np.isin(made.number, made.number[labelled]))
    assert made.leave_one_out(labelled, positive) == pytest.approx(
        naive_leave_one_out(made, centres, labelled, positive)
    )


def test_a_lonely_labelled_row_without_others_is_told_by_nobody():
    made = Clustering(np.array([0, 0, 1]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert made.leave_one_out(np.array([2]), np.array([True])) == 0.0


@pytest.mark.parametrize(
    ("form", "options"),
    [(np.asarray, {}), (sparse.csr_array, {"clusters": 5}), (sparse.csr_array, {"space": "kernel-pca", "clusters": 9})],
    ids=str,
)
def test_the_same_bits_on_any_number_of_threads(form, options):
    X, y, _, _ = simulated(0, 40)
    made = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            made.append(ClusterSVM(random_state=3, **options, **ALONE).fit(form(X), y))
    one, other = (model.decision_state() for model in made)
    assert one.dual_coef.tobytes() == other.dual_coef.tobytes()
    assert (one.intercept, made[0].report_.rounds) == (other.intercept, made[1].report_.rounds)


def test_more_rows_than_are_clustered(monkeypatch):
    X, y, rows, truth = simulated(1, 50)
    monkeypatch.setattr(clusterings, "CLUSTERED_ROWS", 120)
    monkeypatch.setattr(clusterings, "PROJECTED_ROWS", 30)
    for space in ("input", "kernel-pca"):
        model = ClusterSVM(kernel="linear", C=0.01, space=space, random_state=0, **ALONE).fit(X, y)
        assert (model.predict(rows) == truth).mean() > 0.88


def test_sparse_rows_give_what_dense_ones_give():
    X, y, _, _ = simulated(2, 40)
    X[np.abs(X) < 1.5] = 0.0
    settings = {"kernel": "linear", "random_state": 0, "scaling": "standard", **ALONE}
    dense, thin = (ClusterSVM(**settings).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    agree = np.mean((dense.decision_function(X) > 0) == (thin.decision_function(X) > 0))
    assert agree > 0.95  # k-means++ draws differently
    scaled = clusterable(sparse.csr_array(X), standardise=True)
    np.testing.assert_allclose(scaled.toarray(), clusterable(X, standardise=True), rtol=1e-12)
    assert scaled.indices.dtype == np.int32


def test_scaling_is_what_it_says():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=50) * 9, np.full(50, 1e9 / 3), rng.normal(size=50)])
    np.testing.assert_allclose(clusterable(X, standardise=True).std(axis=0), [1, 0, 1], atol=1e-6)
    np.testing.assert_array_equal(clusterable(X, standardise=False), X)


def test_principal_components_tell_rings_apart():
    rng = np.random.default_rng(0)
    angle, outer = rng.random(300) * 2 * np.pi, np.arange(300) % 2 == 1
    X = (np.where(outer, 3.0, 0.6) * np.array([np.cos(angle), np.sin(angle)])).T + 0.1 * rng.normal(size=(300, 2))
    labelled = np.arange(12)
    scores = principal_components(X, labelled, np.random.default_rng(0))
    chosen = telling_components(scores[labelled], outer[labelled])
    assert scores.shape == (300, 10)
    assert 1 <= len(chosen) <= 4
    y = np.where(np.arange(300) < 12, outer, -1)
    model = ClusterSVM(space="kernel-pca", random_state=0, **ALONE).fit(X, y)
    assert (model.predict(X) == outer).mean() > 0.97
    assert model.report_.rounds[0]["components"] == list(chosen)


def test_components_of_equal_rows():
    assert telling_components(np.zeros((6, 3)), np.arange(6) < 3) == (0, 1)
    perfect = np.array([[0.0, 5], [0, 3], [1, 5], [1, 4]])
    assert telling_components(perfect, np.array([False, False, True, True])) == (0,)
    scores = principal_components(np.zeros((8, 2)), np.arange(4), np.random.default_rng(0))
    assert len(scores) == 8


def test_equal_rows_and_constant_columns_are_learned_from():
    X = np.repeat([[0.0, 1, 7], [1.0, 0, 7]], 20, axis=0)
    truth = np.repeat([0, 1], 20)
    y = np.where(np.arange(40) % 5 < 2, truth, -1)
    for space in ("input", "kernel-pca"):
        model = ClusterSVM(space=space, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), truth)


def test_clusters_without_labelled_rows_can_be_left_out():
    rng = np.random.default_rng(0)
    centres = np.array([[-4.0, 0], [4, 0], [0, 30]])
    number = np.arange(90) % 3
    X = centres[number] + rng.normal(size=(90, 2))
    y = np.where((np.arange(90) < 12) & (number < 2), number, -1)
    used = {
        empty: ClusterSVM(clusters=3, empty=empty, random_state=0, **ALONE).fit(X, y).report_.rounds[-1]["unlabelled"]
        for empty in ("nearest", "drop")
    }
    assert used == {"nearest": 82, "drop": 52}


def test_the_report_has_the_clusterings():
    X, y, _, _ = simulated(0, 40)
    rounds = ClusterSVM(random_state=0).fit(X, y).report_.rounds
    assert [each["clusters"] for each in rounds[:-1]] == [2, 2, 4, 4, 6, 6, 10, 10, 16, 16, 20, 20, 40, 40]
    assert max(each["weight"] for each in rounds[:-1]) == 1.0
    assert all(0 <= each["left_out_right"] <= 1 for each in rounds[:-1])
    assert 0 < rounds[-1]["positive"] < rounds[-1]["unlabelled"] <= 460
    one = ClusterSVM(clusters="loo", random_state=0).fit(X, y).report_.rounds
    assert len(one) == 2
    assert one[0]["left_out_right"] >= max(each["left_out_right"] for each in rounds[:-1:2])


def test_it_can_be_stopped_and_has_a_limit_of_time():
    X, y, rows, truth = simulated(0, 40)
    seen = []

    def stop_at_the_third(_fraction, told):
        seen.append(told)
        return sum("clusters" in each for each in seen) > 2

    stopped = ClusterSVM(kernel="linear", C=0.01, callback=stop_at_the_third).fit(X, y)
    assert stopped.status_ == "stopped"
    assert (stopped.predict(rows) == truth).mean() > 0.7
    began = time.thread_time()
    limited = ClusterSVM(max_seconds=1e-6).fit(X, y)
    assert limited.status_ == "solver_limit"
    assert time.thread_time() - began < 20


def test_a_run_of_k_means_ends_when_time_is_over():
    Z = np.random.default_rng(0).normal(size=(3000, 2))
    asked = []

    def at_once():
        asked.append(1)
        return True

    assert cluster(Z, 60, np.random.default_rng(0), at_once) is None
    assert len(asked) == 1
    assert cluster(Z, 60, np.random.default_rng(0), never) is not None
