import json

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import SVC

from solver.estimators import CS4VM, PSVM, SVM, TSVM, LaplacianSVM, MeanS3VM, RampTSVM, SelfTraining
from solver.estimators._expansion import Expansion
from solver.estimators._run import KernelParameters, SolverLimits, TrainingRun
from solver.estimators._scores import exact_scores
from solver.estimators.tsvm import switch_labels

ALONE = {"threshold_rule": "zero", "labeled_split": "full"}
SEMI_SUPERVISED = [TSVM, RampTSVM, LaplacianSVM, SelfTraining, CS4VM, MeanS3VM]


def clusters(seed=0, n=200, labelled=3, distance=2.2, features=8):
    """Two spherical clusters; `labelled` rows of each class have a label, the others -1."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.5).astype(int)
    X = rng.normal(size=(n, features))
    X[:, 0] += distance * (2 * truth - 1)
    y = np.full(n, -1)
    for label in (0, 1):
        y[np.flatnonzero(truth == label)[:labelled]] = label
    return X, y, truth


def start_run(X, y, kind="linear", gamma=1.0, tol=1e-5):
    signs = np.where(y == 1, 1.0, np.where(y == 0, -1.0, 0.0))
    limits = SolverLimits(tol=tol, max_iter=None, max_seconds=None, cache_bytes=None, backend="auto")
    return TrainingRun(X, signs, np.ones(len(y)), KernelParameters(kind, gamma, 3, 0.0), limits)


def accuracy(estimator, X, y, truth):
    return (estimator.fit(X, y).predict(X) == truth).mean()


@pytest.mark.parametrize("estimator", [TSVM(C_unlabeled=0.1), RampTSVM(C_unlabeled=0.1)], ids=["tsvm", "ramp"])
def test_clusters_are_found_from_few_labels(estimator):
    estimator = clone(estimator).set_params(kernel="linear", **ALONE)
    gains = []
    for seed in range(8):
        X, y, truth = clusters(seed)
        gains.append(accuracy(estimator, X, y, truth) - accuracy(SVM(kernel="linear", **ALONE), X, y, truth))
    assert np.mean(gains) > 0.02
    assert np.min(gains) > -0.03


def test_laplacian_follows_the_moons():
    gains = []
    for seed in range(6):
        X, truth = make_moons(200, noise=0.08, random_state=seed)
        y = np.full(200, -1)
        for label in (0, 1):
            y[np.flatnonzero(truth == label)[:2]] = label
        settings = {"gamma": 2.0, "C": 10.0, **ALONE}
        laplacian = LaplacianSVM(manifold_weight=100.0, **settings)
        gains.append(accuracy(laplacian, X, y, truth) - accuracy(SVM(**settings), X, y, truth))
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("balance", [True, False])
def test_label_switching_ends_without_a_pair_to_switch(seed, balance):
    X, y, _ = clusters(seed, n=80, distance=0.8)
    run = start_run(X, y)
    labelled, unlabelled = run.labelled, run.unlabelled
    cost = np.ones(len(labelled))
    solution = run.solve(labelled, run.y[labelled], cost)
    start = Expansion.from_solution(labelled, run.y[labelled], solution, len(y))
    model, labels = switch_labels(run, labelled, cost, 0.2, 30, start, balance=balance)
    assert (labels > 0).sum() == 30
    scores = exact_scores(run, model, unlabelled)
    error = np.maximum(0, 1 - labels * scores)
    for i in np.flatnonzero((labels > 0) & (error > 0)):
        for j in np.flatnonzero((labels < 0) & (error > 0)):
            assert error[i] + error[j] <= 2 + 2e-4

    def value(expansion, signs):
        w = X[expansion.rows].T @ expansion.coefficients
        soft = 0.2 * np.where(signs > 0, (len(signs) - 30) / 30 if balance else 1.0, 1.0)
        of_labelled = np.maximum(0, 1 - run.y[labelled] * exact_scores(run, expansion, labelled)).sum()
        return w @ w / 2 + of_labelled + soft @ np.maximum(0, 1 - signs * exact_scores(run, expansion, unlabelled))

    first = np.full(len(unlabelled), -1.0)
    first[np.argsort(-exact_scores(run, start, unlabelled), kind="stable")[:30]] = 1.0
    rows = np.r_[labelled, unlabelled]
    signs = np.r_[run.y[labelled], first]
    hi = np.r_[cost, 0.2 * np.where(first > 0, (len(first) - 30) / 30 if balance else 1.0, 1.0)]
    unswitched = Expansion.from_solution(rows, signs, run.solve(rows, signs, hi), len(y))
    assert value(model, labels) <= value(unswitched, first) + 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_ramp_tsvm_is_a_fixed_point_of_the_concave_convex_procedure(seed):
    X, y, _ = clusters(seed, n=60, distance=0.7, features=3)
    ramp = RampTSVM(kernel="linear", C_unlabeled=0.3, tol=1e-6, **ALONE).fit(X, y)
    state = ramp.decision_state()
    w, b = state.support_vectors.T @ state.dual_coef, state.intercept
    signs = np.where(y == 1, 1.0, np.where(y == 0, -1.0, 0.0))
    unlabelled = signs == 0
    f = X @ w + b
    target = signs[~unlabelled].mean()
    assert f[unlabelled].mean() == pytest.approx(target, abs=1e-3)
    beta_up, beta_down = 0.3 * (f[unlabelled] < -0.3), 0.3 * (-f[unlabelled] < -0.3)

    def convex(z):  # the step's objective in w, with b eliminated by the balance constraint
        v = z
        c = target - (X[unlabelled] @ v).mean()
        g = X @ v + c
        gu = g[unlabelled]
        return (
            v @ v / 2
            + np.maximum(0, 1 - signs[~unlabelled] * g[~unlabelled]).sum()
            + 0.3 * (np.maximum(0, 1 - gu) + np.maximum(0, 1 + gu)).sum()
            + beta_up @ gu
            - beta_down @ gu
        )

    mine = convex(w)
    # no direction, and no start of a generic method, gets below it
    rng = np.random.default_rng(0)
    for step in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(50):
            assert convex(w + step * rng.normal(size=3)) >= mine - 1e-5
    generic = minimize(
        convex, np.zeros(3), method="Nelder-Mead", options={"maxiter": 20000, "fatol": 1e-10, "xatol": 1e-8}
    )
    assert mine <= generic.fun + 1e-4


def test_ramp_tsvm_kernel_path_equals_the_linear_one():
    X, y, _ = clusters(n=80)
    settings = {"C_unlabeled": 0.2, "tol": 1e-6, **ALONE}
    linear = RampTSVM(kernel="linear", **settings).fit(X, y)
    kernelised = RampTSVM(kernel="poly", degree=1, gamma=1.0, **settings).fit(X, y)
    np.testing.assert_allclose(kernelised.decision_function(X), linear.decision_function(X), atol=2e-3)


def test_laplacian_equals_the_deformed_kernel_written_out():
    X, truth = make_moons(120, noise=0.1, random_state=0)
    y = np.where(np.arange(120) < 12, truth, -1)
    y[np.flatnonzero(truth == 0)[:3]], y[np.flatnonzero(truth == 1)[:3]] = 0, 1
    mu, gamma = 0.5, 1.5
    mine = LaplacianSVM(manifold_weight=mu, gamma=gamma, C=2.0, tol=1e-7, **ALONE).fit(X, y)
    new, _ = make_moons(50, noise=0.1, random_state=1)
    A = kneighbors_graph(X, 6).toarray()
    A = np.maximum(A, A.T)
    D = np.diag(1 / np.sqrt(A.sum(axis=1)))
    M = mu * (np.eye(120) - D @ A @ D)
    G = rbf_kernel(X, X, gamma=gamma)
    middle = np.linalg.solve(np.eye(120) + M @ G, M)

    def deformed(P, Q):
        return rbf_kernel(P, Q, gamma=gamma) - rbf_kernel(P, X, gamma=gamma) @ middle @ rbf_kernel(X, Q, gamma=gamma)

    known = y >= 0
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-7).fit(deformed(X[known], X[known]), y[known])
    np.testing.assert_allclose(
        mine.decision_function(new), theirs.decision_function(deformed(new, X[known])), atol=1e-4
    )


def test_without_manifold_the_laplacian_is_the_svm():
    X, y, _ = clusters()
    laplacian = LaplacianSVM(manifold_weight=0.0, gamma=0.2, tol=1e-6, **ALONE).fit(X, y)
    svm = SVM(gamma=0.2, tol=1e-6, **ALONE).fit(X[y >= 0], y[y >= 0])
    np.testing.assert_allclose(laplacian.decision_function(X), svm.decision_function(X), atol=1e-3)


def test_self_training_adds_what_it_is_surest_of():
    X, y, truth = clusters(distance=3.0)
    known = y >= 0
    trained = SelfTraining(kernel="linear", added_share=0.2, max_rounds=3, tol=1e-6, **ALONE).fit(X, y)
    # by hand: of each class the surest rows, in the ratio of the labelled ones, round by round
    rows, labels, weight = np.flatnonzero(known), y[known].copy(), np.ones(known.sum())
    unlabelled = np.count_nonzero(~known)
    positives = round(unlabelled * labels.mean())
    most = round(0.2 * positives), round(0.2 * (unlabelled - positives))
    model = SVC(kernel="linear", tol=1e-8).fit(X[rows], labels)
    for _ in range(3):
        left = np.setdiff1d(np.arange(len(y)), rows)
        order = left[np.argsort(-model.decision_function(X[left]), kind="stable")]
        rows = np.r_[rows, order[: most[0]], order[-most[1] :]]
        labels = np.r_[labels, np.ones(most[0], int), np.zeros(most[1], int)]
        weight = np.r_[weight, np.full(sum(most), 0.1)]
        model = SVC(kernel="linear", tol=1e-8).fit(X[rows], labels, sample_weight=weight)
    np.testing.assert_allclose(trained.decision_function(X), model.decision_function(X), atol=5e-3)
    assert (trained.predict(X) == truth).mean() > 0.9
    alone = SVC(kernel="linear", tol=1e-8).fit(X[known], y[known])
    assert np.abs(trained.decision_function(X) - alone.decision_function(X)).max() > 0.01  # it does something


def test_self_training_takes_every_row_once_and_then_ends():
    X, y, _ = clusters(distance=3.0)
    many = SelfTraining(kernel="linear", added_share=0.3, max_rounds=50, **ALONE).fit(X, y)
    few = SelfTraining(kernel="linear", added_share=0.3, max_rounds=4, **ALONE).fit(X, y)
    np.testing.assert_array_equal(many.decision_function(X), few.decision_function(X))


@pytest.mark.parametrize("method", SEMI_SUPERVISED)
def test_layer_of_objectives_is_the_same_for_all(method):
    X, y, truth = clusters(n=240, labelled=20, distance=1.0)
    estimator = method(objective={"kind": "recall", "target": 0.9}, random_state=0).fit(X, y)
    report = estimator.report_
    json.dumps(report.to_dict(), allow_nan=False)
    assert report.calibration.n == 40
    assert report.promise.level in ("likely", "open")  # reached; 20 positive rows are few to promise it
    assert estimator.status_ == ("met" if report.promise.level == "likely" else "cannot_certify")
    assert report.calibration.recall.value >= 0.9
    supervised = report.controls["no_unlabelled"].calibration
    assert supervised.recall.value >= 0.9
    assert set(report.controls) == {"no_unlabelled", "plain_svm"}
    assert np.array_equal(estimator.predict(X) == 1, estimator.decision_function(X) > estimator.threshold_)
    assert ((estimator.predict(X) == truth) & (y == -1)).sum() > 120
    again = clone(estimator).fit(X, y)
    assert np.array_equal(again.decision_function(X), estimator.decision_function(X))
    held = method(objective={"kind": "recall", "target": 0.5, "confidence": 0.8}, random_state=0).fit(X, y)
    assert held.report_.threshold_rule == "fixed-sequence"
    assert held.report_.calibration.n == (40 if held.report_.certificate == "cross_fitted" else 20)


@pytest.mark.parametrize("method", SEMI_SUPERVISED)
def test_sparse_rows_and_limits(method):
    X, y, _ = clusters(n=100, labelled=8)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    settings = {"tol": 1e-6, "random_state": 0, "gamma": 0.1}
    dense = method(**settings).fit(X, y)
    compressed = method(**settings).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(compressed.decision_function(X), dense.decision_function(X), atol=5e-3)
    limited = method(max_iter=1, random_state=0).fit(X, y)
    assert limited.status_ == "solver_limit"
    assert np.isfinite(limited.decision_function(X)).all()
    stopped = method(callback=lambda *_: True, random_state=0).fit(X, y)
    assert np.isfinite(stopped.decision_function(X)).all()


@pytest.mark.parametrize("method", [*SEMI_SUPERVISED, PSVM])
def test_string_labels(method):
    X, y, truth = clusters(n=120, labelled=8, distance=3.0)
    named = np.array(["no", "yes", None], dtype=object)[y]
    estimator = method(random_state=0).fit(X, named)
    assert estimator.classes_.tolist() == ["no", "yes"]
    assert (estimator.predict(X) == np.array(["no", "yes"])[truth]).mean() > 0.85
