"""The GPU engine on a GPU, beside the CPU engine and scikit-learn; needs nothing of the service."""

import gc
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC
from smo_support import solve

from solver.arrays import BackendUnavailableError, cuda_available, cupy
from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
from solver.kernels.values import KernelColumns
from solver.smo import Program, gpu, solve_many
from solver.smo.gpu_device import DeviceMemoryError, cuda_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cuda_available(), reason="CuPy finds no CUDA device (or is not installed)"),
]

KINDS = {
    "rbf": {"gamma": 0.4},
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 1.0},
    "sigmoid": {"gamma": 0.02, "coef0": 0.1},
}


def two_classes(n, d=5, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def kernel_block(X, Z, kind, **parameters):
    return KernelColumns(Z, kind, **parameters).block(X)


def true_gap(K, y, p, lo, hi, alpha):
    v = -y * p - K @ (y * alpha)
    up = np.where(y > 0, alpha < hi, alpha > lo)
    down = np.where(y > 0, alpha > lo, alpha < hi)
    return max(0.0, v[up].max(initial=-np.inf) - v[down].min(initial=np.inf))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["dense", "float32", "csr", "precomputed"])
@pytest.mark.parametrize("n", [120, 3000])
def test_c_svc_equals_the_cpu_engine_and_scikit_learn(kind, form, n):
    X, y = two_classes(n)
    C = 0.05 if kind in ("linear", "poly") else 1.0
    if form == "float32":
        X = X.astype(np.float32)
    if form == "csr":
        X[np.abs(X) < 0.5] = 0.0
    K = kernel_block(X, X, kind, **KINDS[kind])

    def kernel():
        if form == "precomputed":
            return PrecomputedKernel(K)
        return FeatureKernel(sp.csr_array(X) if form == "csr" else X, kind, **KINDS[kind])

    tol = 1e-4
    solution = solve(kernel(), np.arange(n), y, -1.0, 0.0, C, tol=tol, backend="cuda")
    expected = solve(kernel(), np.arange(n), y, -1.0, 0.0, C, tol=tol, backend="cpu")
    assert solution.status == "optimal"
    assert solution.engine == f"cuda-{expected.engine}"
    assert true_gap(K, y, -1.0, 0.0, C, solution.alpha) <= 1.001 * tol
    assert solution.objective == pytest.approx(expected.objective, rel=1e-6, abs=1e-6)
    if kind != "sigmoid":  # indefinite: another start may end elsewhere
        peer = SVC(kernel="precomputed", C=C, tol=tol).fit(K, y)
        np.testing.assert_allclose(K @ (y * solution.alpha) + solution.b, peer.decision_function(K), atol=2e-3)


@pytest.mark.parametrize("seed", range(6))
def test_general_problems_equal_the_cpu_engine(seed):
    """Shared samples, linear term, negative and infinite bounds, delta not 0."""
    rng = np.random.default_rng(seed)
    m, n = 900, 300 if seed % 2 else 1500
    X = rng.normal(size=(m, 4))
    idx = rng.integers(0, m, size=n)
    y = rng.choice([-1.0, 1.0], size=n)
    p = rng.normal(size=n)
    lo = -rng.random(n) * (seed % 3)
    hi = lo + rng.random(n) * 5
    delta = float(y @ (lo + rng.random(n) * (hi - lo)))
    features = sp.csr_array(X) if seed > 3 else X
    solution = solve(FeatureKernel(features, gamma=0.5), idx, y, p, lo, hi, delta, tol=1e-5, backend="cuda")
    expected = solve(FeatureKernel(features, gamma=0.5), idx, y, p, lo, hi, delta, tol=1e-5, backend="cpu")
    assert solution.status == expected.status == "optimal"
    assert abs(y @ solution.alpha - delta) < 1e-10 * np.abs(solution.alpha).sum()
    K = kernel_block(X[idx], X[idx], "rbf", gamma=0.5)
    assert true_gap(K, y, p, lo, hi, solution.alpha) <= 1.001e-5
    scale = 1e-6 * abs(expected.objective) + 1e-5 * np.abs(solution.alpha).sum()
    assert solution.objective == pytest.approx(expected.objective, abs=scale)


@pytest.mark.parametrize("csr", [False, True])
def test_warm_start_needs_no_more_work(csr):
    X, y = two_classes(2000, seed=5)
    kernel, n = FeatureKernel(sp.csr_array(X) if csr else X, gamma=0.4), np.arange(2000)
    first = solve(kernel, n, y, -1.0, 0.0, 1.0, backend="cuda")
    again = solve(kernel, n, y, -1.0, 0.0, 1.0, alpha0=first.alpha, grad0=first.gradient, backend="cuda")
    assert (again.status, again.iterations, again.n_kernel_rows) == ("optimal", 0, 0)
    np.testing.assert_array_equal(again.alpha, first.alpha)
    larger = solve(kernel, n, y, -1.0, 0.0, 1.5, alpha0=first.alpha, grad0=first.gradient, backend="cuda")
    assert true_gap(kernel_block(X, X, "rbf", gamma=0.4), y, -1.0, 0.0, 1.5, larger.alpha) <= 1.001e-3


def test_large_cost_is_refined_in_float64():
    X, y = two_classes(1500, d=2, seed=8, noise=0.02)
    solution = solve(FeatureKernel(X, gamma=2.0), np.arange(1500), y, -1.0, 0.0, 1e4, max_seconds=20, backend="cuda")
    gap = true_gap(kernel_block(X, X, "rbf", gamma=2.0), y, -1.0, 0.0, 1e4, solution.alpha)
    assert solution.status == "optimal"
    assert gap <= 1.01e-3


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_a_batch_equals_its_problems_alone(kind):
    X, _ = two_classes(4000, seed=9)
    label = np.repeat(np.arange(6), [100, 200, 300, 800, 1200, 1400])
    X += 0.5 * label[:, None]
    kernel = FeatureKernel(X, kind, **KINDS[kind])
    programs = [
        Program(kernel, idx, np.where(label[idx] == i, 1.0, -1.0), -1.0, 0.0, 0.3, backend="cuda")
        for i in range(6)
        for j in range(i + 1, 6)
        for idx in [np.flatnonzero((label == i) | (label == j))]
    ]
    together = solve_many([[program] for program in programs])
    for program, [solution] in zip(programs, together, strict=True):
        alone = solve(replace(program, kernel=FeatureKernel(X, kind, **KINDS[kind])))
        cpu = solve(replace(program, kernel=FeatureKernel(X, kind, **KINDS[kind]), backend="cpu"))
        assert solution.status == "optimal"
        assert solution.engine == alone.engine
        assert solution.objective == pytest.approx(alone.objective, rel=1e-4)
        assert solution.objective == pytest.approx(cpu.objective, rel=1e-4)


def test_same_bits_twice():
    X, y = two_classes(5000, d=30, seed=4)
    results = [
        solve(FeatureKernel(X, gamma=0.05), np.arange(5000), y, -1.0, 0.0, 1.0, backend="cuda") for _ in range(2)
    ]
    np.testing.assert_array_equal(results[0].alpha, results[1].alpha)
    np.testing.assert_array_equal(results[0].gradient, results[1].gradient)


def test_cancelling():
    X, y = two_classes(5000)
    arguments = (FeatureKernel(X, gamma=0.4), np.arange(5000), y, -1.0, 0.0, 10.0)
    assert solve(*arguments, callback=lambda iterations, _: iterations > 0, backend="cuda").status == "cancelled"


@pytest.fixture
def limited_memory():
    """Limit CuPy's pool to so many bytes more than are in use."""
    pool = cupy().get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    yield lambda n_bytes: pool.set_limit(size=pool.used_bytes() + n_bytes)
    pool.set_limit(size=0)


def test_less_memory_means_smaller_blocks_and_at_last_a_clear_error(limited_memory):
    cuda_device()
    X, y = two_classes(6000, d=20)
    arguments = (np.arange(6000), y, -1.0, 0.0, 0.5)
    expected = solve(FeatureKernel(X, gamma=0.05), *arguments, backend="cpu")
    limited_memory(6 << 20)
    solution = solve(FeatureKernel(X, gamma=0.05), *arguments, backend="cuda")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(expected.objective, rel=1e-5)
    limited_memory(200_000)
    with pytest.raises(DeviceMemoryError, match="too little for 6000 samples"):
        solve(FeatureKernel(X, gamma=0.05), *arguments, backend="cuda")


def test_memory_is_given_back_with_the_kernel():
    pool = cupy().get_default_memory_pool()
    X, y = two_classes(3000)
    solve(FeatureKernel(X, gamma=0.3), np.arange(3000), y, -1.0, 0.0, 1.0, backend="cuda")  # the libraries' own memory
    kernel = FeatureKernel(X, gamma=0.4)
    gc.collect()
    before = pool.used_bytes()
    solve(kernel, np.arange(3000), y, -1.0, 0.0, 1.0, backend="cuda")
    assert pool.used_bytes() >= before + 3000 * 3000 * 4
    pools = len(gpu._pools._pools)
    del kernel
    gc.collect()
    assert len(gpu._pools._pools) == pools - 1
    assert pool.used_bytes() <= before
    assert pool.free_bytes() < 1 << 20


def test_auto_takes_the_gpu_for_a_large_problem():
    X, y = two_classes(12_000, d=400)
    arguments = (FeatureKernel(X, gamma=0.001), np.arange(12_000), y, -1.0, 0.0, 1.0)
    assert solve(*arguments, max_iter=1000).engine == "cuda-working-set"
    assert solve(FeatureKernel(X[:2000, :5], gamma=0.1), np.arange(2000), y[:2000], -1.0, 0.0, 1.0).engine == (
        "working-set"
    )


def test_hidden_device_is_told_clearly():
    code = (
        "import numpy as np; from solver.kernels.kernel import FeatureKernel; from solver.smo import Program, solve;"
        "solve(Program(FeatureKernel(np.eye(3), gamma=1.0), [0, 1], [1, -1], -1.0, 0.0, 1.0, backend='cuda'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert BackendUnavailableError.__name__ in done.stderr
    assert "finds no CUDA device" in done.stderr
