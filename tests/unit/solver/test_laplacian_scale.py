"""The Laplacian SVM's deformed kernel without a kernel matrix of all rows, and what is refused for want of memory."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import kneighbors_graph

from solver.estimators import CS4VM, LaplacianSVM, MeanS3VM
from solver.estimators import _deformation as deformation
from solver.estimators._run import KernelParameters, SolverLimits, TrainingRun
from solver.kernels import sparse_loops

ALONE = {"threshold_rule": "zero", "labeled_split": "full"}
MEGABYTE = 1 << 20


def rows_of(n, features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    X[:, 0] += 2.0 * (2 * (np.arange(n) % 2) - 1)
    X[np.abs(X) < 0.2] = 0.0
    return X


def start_run(X, labelled, kind="linear", gamma=0.1, **limits):
    signs = np.where(np.arange(X.shape[0]) < labelled, 2.0 * (np.arange(X.shape[0]) % 2) - 1, 0.0)
    limits = {"tol": 1e-6, "max_iter": None, "max_seconds": None, "cache_bytes": None, "backend": "auto"} | limits
    return TrainingRun(X, signs, np.ones(len(signs)), KernelParameters(kind, gamma, 3, 0.0), SolverLimits(**limits))


def written_out(X, labelled, M, kind, **parameters):
    """The deformed kernel among the labelled rows and the rows' corrections, by dense algebra."""
    G = pairwise_kernels(X, metric=kind, **parameters)
    Z = np.linalg.solve(np.eye(len(X)) + M @ G, M @ G[:, labelled])
    return G[np.ix_(labelled, labelled)] - G[labelled] @ Z, Z, G


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("way", ["direct", "products", "products on all threads"])
def test_linear_deformation_is_the_dense_one(form, way, monkeypatch):
    X, labelled = rows_of(500), np.arange(40)
    M = 0.7 * deformation.normalised_laplacian(kneighbors_graph(X, 6))
    kernel, Z, G = written_out(X, labelled, M, "linear")
    if way != "direct":
        monkeypatch.setattr(deformation, "DIRECT_SIZE", 0)
        monkeypatch.setattr(deformation, "_THREADED_PRODUCT", 0 if way == "products on all threads" else np.inf)
        monkeypatch.setattr(deformation, "_BLOCK_ELEMENTS", 500 * 16)  # the columns in three blocks
    mine = deformation.LinearDeformation(start_run(form(X), 40), np.arange(500), labelled, M)
    np.testing.assert_allclose(mine.kernel, kernel, atol=1e-5)
    signed = np.random.default_rng(1).normal(size=40)
    # Z itself is not unique where G has no say: what counts are the scores
    np.testing.assert_allclose(G @ mine.correction(signed), -G @ Z @ signed, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sparse_product_on_all_threads(dtype, monkeypatch):
    monkeypatch.setattr(deformation, "_THREADED_PRODUCT", 0)
    sparse_loops.warm_up()
    compiled = list(sparse_loops.multiply_rows.signatures)
    X = sparse.random_array((1500, 3000), density=0.02, format="csr", dtype=dtype, rng=0)
    V = np.random.default_rng(0).normal(size=(3000, 20))
    wanted = X.astype(np.float64) @ V
    for columns in (V, np.asfortranarray(V)):
        np.testing.assert_allclose(deformation.multiply(X, columns), wanted, atol=1e-12)
    np.testing.assert_array_equal(deformation.multiply(X[:700], V), deformation.multiply(X, V)[:700])
    assert sparse_loops.multiply_rows.signatures == compiled, "a job would have to compile it again"


@pytest.mark.parametrize("cache_bytes", [None, 0, 2 * 8 * 512 * 1100], ids=["all kept", "none kept", "some kept"])
def test_conjugate_gradients_give_the_dense_deformation(cache_bytes, monkeypatch):
    X, _ = make_moons(1100, noise=0.1, random_state=0)
    labelled = np.arange(40)
    M = 0.5 * deformation.normalised_laplacian(kneighbors_graph(X, 6))
    kernel, Z, G = written_out(X, labelled, M, "rbf", gamma=2.0)
    monkeypatch.setattr(deformation, "DIRECT_SIZE", 0)
    monkeypatch.setattr(deformation, "_BLOCK_ELEMENTS", 1100 * 16)
    run = start_run(X, 40, "rbf", 2.0, cache_bytes=cache_bytes)
    mine = deformation.KernelDeformation(run, np.arange(1100), labelled, M)
    assert run.ended == ""
    np.testing.assert_allclose(mine.kernel, kernel, atol=1e-5)
    signed = np.random.default_rng(1).normal(size=40)
    np.testing.assert_allclose(G @ mine.correction(signed), -G @ Z @ signed, atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_classifier_is_the_same_beyond_the_direct_size(kernel, monkeypatch):
    X, y = rows_of(150), np.where(np.arange(150) < 12, np.arange(150) % 2, -1)
    settings = {"kernel": kernel, "gamma": 0.2, "tol": 1e-6, **ALONE}
    direct = LaplacianSVM(**settings).fit(X, y)
    monkeypatch.setattr(deformation, "DIRECT_SIZE", 0)
    iterative = LaplacianSVM(**settings).fit(X, y)
    np.testing.assert_allclose(iterative.decision_function(X), direct.decision_function(X), atol=1e-3)


def test_twenty_thousand_rows_take_no_kernel_matrix():
    n = 20_000
    X, y = rows_of(n), np.where(np.arange(n) < 60, np.arange(n) % 2, -1)
    tracemalloc.start()
    try:
        fitted = LaplacianSVM(kernel="linear", random_state=0).fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert fitted.status_ == "met"
    assert (fitted.predict(X) == np.arange(n) % 2).mean() > 0.95
    assert peak < 200 * MEGABYTE  # a kernel matrix has 3,052


def test_deforming_can_be_stopped(monkeypatch):
    monkeypatch.setattr(deformation, "DIRECT_SIZE", 0)
    X, y = rows_of(150), np.where(np.arange(150) < 12, np.arange(150) % 2, -1)
    supervised = LaplacianSVM(manifold_weight=0.0, gamma=0.2, **ALONE).fit(X, y)
    calls = []

    def stop(fraction, info):
        calls.append(info)
        return not info  # the deformation's own reports say nothing but that it goes on

    stopped = LaplacianSVM(gamma=0.2, callback=stop, **ALONE).fit(X, y)
    assert stopped.status_ == "stopped"
    assert {} in calls
    np.testing.assert_allclose(stopped.decision_function(X), supervised.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("method", [LaplacianSVM, CS4VM, MeanS3VM])
def test_what_does_not_fit_into_memory_is_refused(method, monkeypatch):
    X, y = rows_of(150), np.where(np.arange(150) < 20, np.arange(150) % 2, -1)
    monkeypatch.setattr("solver.arrays.available_memory", lambda: 2000)
    with pytest.raises(ValueError, match=r"keeps .* MB, which does not fit into memory; use "):
        method(kernel="rbf", **ALONE).fit(X, y)
