"""What users of other SVM solvers complain about, one test for each complaint; ours must not give cause for it."""

import sys
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC
from smo_support import solve

from solver.arrays import BackendUnavailableError, cuda_available
from solver.estimators import SVM
from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
from solver.kernels.values import KernelColumns
from solver.smo import Program, solve_many


def two_classes(n, d=4, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def kernel_block(X, Z, kind, **parameters):
    return KernelColumns(Z, kind, **parameters).block(X)


def c_svc(X, y, C, kind="rbf", gamma=0.5, **options):
    return solve(FeatureKernel(X, kind, gamma=gamma), np.arange(len(y)), y, -1.0, 0.0, C, **options)


def scores(solution, X, y, Z, kind="rbf", gamma=0.5):
    return kernel_block(Z, X, kind, gamma=gamma) @ (y * solution.alpha) + solution.b


def gap_of(K, y, C, alpha):
    v = y - K @ (y * alpha)
    up, down = np.where(y > 0, alpha < C, alpha > 0), np.where(y > 0, alpha > 0, alpha < C)
    return v[up].max() - v[down].min()


@pytest.mark.parametrize("C", [10.0, 1e3])
def test_01_training_on_one_feature_with_many_equal_values_ends(C):
    """Cycles for ever where curvature and gradient come from numbers of different precision."""
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(900, 1)), 1)
    y = np.where(X[:, 0] + rng.normal(size=900) > 0, 1.0, -1.0)
    solution = c_svc(X, y, C)
    assert solution.status == "optimal"
    assert solution.iterations < 200_000
    assert gap_of(kernel_block(X, X, "rbf", gamma=0.5), y, C, solution.alpha) <= 1.001e-3


def test_02_a_hopeless_run_ends_at_its_limit_and_says_how_far_it_came():
    """A polynomial kernel on values around 1e5 hangs; there is no limit of time."""
    X, y = two_classes(700, noise=2.0)
    started = time.thread_time()  # a neighbour may have the cores meanwhile
    stopped = c_svc(X * 300, y, 1.0, "poly", 1.0, max_seconds=0.3)
    assert time.thread_time() - started < 0.8
    assert stopped.status in ("time", "precision")
    assert stopped.gap > 1e-3
    assert c_svc(X * 300, y, 1.0, "poly", 1.0, max_iter=500).iterations == 500
    with pytest.raises(ValueError, match="scale them"):
        FeatureKernel(X * 1e9, "poly", gamma=1.0, degree=4)


def test_03_unscaled_features_with_a_linear_kernel_do_not_hang():
    X, y = two_classes(800, seed=3)
    y = np.where(X[:, 0] > 0, y, -y) * np.sign(X[:, 1])
    started = time.thread_time()
    raw = c_svc(X * [1.0, 1e3, 1e-2, 10.0], y, 1.0, "linear", max_seconds=0.5)
    assert time.thread_time() - started < 1.5
    assert raw.gap == pytest.approx(max(0.0, raw.b_low - raw.b_high), abs=1e-6)
    assert raw.status in ("optimal", "time", "max_iter", "precision")
    assert (raw.status == "optimal") == (raw.gap <= 1e-3)


def test_04_small_data_need_little_memory_however_many_rows():
    X, y = two_classes(30_000, d=3, seed=4)
    tracemalloc.start()
    try:
        c_svc(X, y, 1.0, cache_bytes=8 << 20, max_iter=3000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 << 20


@pytest.mark.parametrize("cache_bytes", [1 << 18, 1 << 22])
def test_05_the_memory_limit_is_kept(cache_bytes):
    X, y = two_classes(1500, seed=5)
    kernel = FeatureKernel(X, gamma=0.5)
    solution = solve(kernel, np.arange(1500), y, -1.0, 0.0, 10.0, cache_bytes=cache_bytes)
    assert solution.status == "optimal"
    cache = kernel.pool(np.arange(1500), cache_bytes)._cache
    assert 0 < 4 * cache.used * cache.stride <= cache_bytes


def test_06_many_classes_are_told_apart_as_libsvm_does():
    """Models of another solver were at chance level with 20 classes and had 50 support vectors instead of thousands."""
    X, digits = load_digits(return_X_y=True)
    X = X[:700] / 16.0
    digits = digits[:700]
    kernel = FeatureKernel(X, gamma=0.3)
    pairs = [(a, b) for a in range(10) for b in range(a)]
    programs = []
    for a, b in pairs:
        rows = np.flatnonzero((digits == a) | (digits == b))
        y = np.where(digits[rows] == a, 1.0, -1.0)
        programs.append(Program(kernel, rows, y, -1.0, 0.0, 1.0))
    solutions = [solution for [solution] in solve_many([[program] for program in programs])]
    votes = np.zeros((700, 10))
    for (a, b), program, solution in zip(pairs, programs, solutions, strict=True):
        f = kernel_block(X, X[program.idx], "rbf", gamma=0.3) @ (program.y * solution.alpha) + solution.b
        votes[np.arange(700), np.where(f > 0, a, b)] += 1
    peer = SVC(C=1.0, gamma=0.3).fit(X, digits)
    assert np.mean(votes.argmax(axis=1) == peer.predict(X)) > 0.99
    support = np.unique(np.concatenate([p.idx[s.alpha > 0] for p, s in zip(programs, solutions, strict=True)])).size
    assert support == pytest.approx(peer.support_.size, rel=0.02)


@pytest.mark.parametrize("C", [1e4, 1e5])
def test_07_large_c_keeps_its_accuracy(C):
    X, y = two_classes(600, seed=7, noise=0.05)
    solution = c_svc(X, y, C, max_seconds=5)
    peer = SVC(C=C, gamma=0.5).fit(X, y)
    assert solution.status == "optimal"
    assert np.mean((scores(solution, X, y, X) > 0) == (y > 0)) >= peer.score(X, y) - 0.002


def test_08_weights_of_samples_and_classes_count():
    X, y = two_classes(600, seed=8)
    weight = np.random.default_rng(8).uniform(0.1, 5.0, size=600) * np.where(y > 0, 3.0, 1.0)
    solution = c_svc(X, y, 2.0 * weight, tol=1e-4)
    peer = SVC(C=2.0, gamma=0.5, tol=1e-4, class_weight={1.0: 3.0}).fit(X, y, weight / np.where(y > 0, 3.0, 1.0))
    np.testing.assert_allclose(scores(solution, X, y, X), peer.decision_function(X), atol=2e-3)
    plain = c_svc(X, y, 2.0, tol=1e-4)
    assert np.abs(scores(plain, X, y, X) - peer.decision_function(X)).max() > 0.1


def test_09_probabilities_rise_with_the_score_and_name_the_right_class():
    X, y = two_classes(500, seed=9)
    svm = SVM(gamma=0.5, random_state=0).fit(X[:300], y[:300])
    score, probability = svm.decision_function(X[300:]), svm.predict_proba(X[300:])
    order = np.argsort(score)
    assert np.all(np.diff(probability[order, 1]) >= 0)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert roc_auc_score(y[300:] == svm.classes_[1], probability[:, 1]) > 0.7


def test_09_probabilities_that_say_nothing_are_said():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    mirrored = np.repeat(rng.normal(size=(20, 4)), 2, axis=0)  # each row has its twin in the other class
    told = SVM(gamma=0.5, random_state=0).fit(mirrored, np.tile([0, 1], 20))
    assert np.ptp(told.predict_proba(mirrored)[:, 1]) < 0.01
    assert any(warning.startswith("All probabilities are about 0.50") for warning in told.report_.warnings)
    learned = SVM(gamma=0.5, random_state=0).fit(rng.normal(size=(40, 4)) + 2 * y[:, None], y)
    assert not any("All probabilities" in warning for warning in learned.report_.warnings)


@pytest.mark.parametrize("n", [300, 900])
def test_10_every_result_says_how_exact_it_is(n):
    """Two libraries differ and nobody can tell which one is right."""
    X, y = two_classes(n, seed=10)
    solution = c_svc(X, y, 5.0)
    K = kernel_block(X, X, "rbf", gamma=0.5)
    assert solution.gap == pytest.approx(gap_of(K, y, 5.0, solution.alpha), abs=1e-9)
    v = y * solution.alpha
    assert solution.objective == pytest.approx(0.5 * v @ K @ v - solution.alpha.sum(), rel=1e-6)
    report = SVM(C=5.0, gamma=0.5, random_state=0).fit(X, y).report_.solver
    assert report.gap <= 1e-3
    assert report.objective < 0


def test_11_sparse_features_with_64_bit_indices():
    X, y = two_classes(700, seed=11)
    X[np.abs(X) < 0.6] = 0.0
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert c_svc(wide, y, 1.0).objective == pytest.approx(c_svc(X, y, 1.0).objective, rel=1e-6)
    svm = SVM(gamma=0.5, random_state=0).fit(wide, y)
    np.testing.assert_allclose(svm.decision_function(wide), svm.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.float16, np.float32])
def test_12_narrow_features_are_not_blown_up(dtype):
    """One-hot features of 8 bits became float64, eight times their size."""
    X = (np.random.default_rng(12).random((600, 40)) < 0.1).astype(dtype)
    y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    assert FeatureKernel(X, gamma=0.1).X.dtype == np.float32
    assert FeatureKernel(sp.csr_matrix(X.astype(np.float32)), gamma=0.1).X.dtype == np.float32
    assert c_svc(X, y, 1.0).objective == pytest.approx(c_svc(X.astype(np.float64), y, 1.0).objective, rel=1e-6)


def test_13_no_gpu_no_trouble_and_never_silently_on_the_cpu():
    if cuda_available():
        pytest.skip("this machine has a GPU")
    X, y = two_classes(50, seed=13)
    assert c_svc(X, y, 1.0).status == "optimal"
    assert "cupy" not in sys.modules or not sys.modules["cupy"].cuda.is_available()
    with pytest.raises(BackendUnavailableError):
        c_svc(X, y, 1.0, backend="cuda")


@pytest.mark.parametrize("tol", [1e-3, 1.0])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_14_tiny_data_and_their_folds(n, tol):
    X = np.arange(float(n))[:, None]
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    kernel = FeatureKernel(X, gamma=1.0)
    rows = np.arange(n)
    programs = [Program(kernel, rows, y, -1.0, 0.0, np.where(rows == fold, 0.0, 1.0), tol=tol) for fold in rows]
    for [solution] in solve_many([[program] for program in programs]):
        assert solution.status == "optimal"
        assert np.isfinite(solution.b)
        assert np.isfinite(solution.alpha).all()


def test_15_precomputed_kernels_warm_starts_and_folds_share_their_work():
    X, y = two_classes(900, seed=15)
    K = kernel_block(X, X, "rbf", gamma=0.5)
    n = np.arange(900)
    assert solve(PrecomputedKernel(K), n, y, -1.0, 0.0, 1.0).objective == pytest.approx(
        c_svc(X, y, 1.0).objective, rel=1e-5
    )
    kernel = FeatureKernel(X, gamma=0.5)
    first = solve(kernel, n, y, -1.0, 0.0, 1.0)
    second = solve(kernel, n, y, -1.0, 0.0, 1.2, alpha0=first.alpha, grad0=first.gradient)
    alone = c_svc(X, y, 1.2)
    assert second.iterations < alone.iterations
    fold = np.where(n % 5 == 0, 0.0, 1.2)
    held_out = solve(kernel, n, y, -1.0, 0.0, fold, alpha0=second.alpha)
    assert held_out.n_kernel_rows < alone.n_kernel_rows / 2


def test_16_the_model_can_be_looked_into():
    X, y = two_classes(300, seed=16)
    svm = SVM(gamma=0.5, random_state=0).fit(X, y)
    state = svm.decision_state()
    assert list(svm.classes_) == [-1.0, 1.0]
    assert len(state.support_vectors) == len(state.dual_coef) == svm.report_.solver.support_vectors > 0
    f = kernel_block(X, state.support_vectors, "rbf", gamma=0.5) @ state.dual_coef + state.intercept
    np.testing.assert_allclose(f, svm.decision_function(X), atol=1e-9)
