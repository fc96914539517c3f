"""The whole GPU engine on the CPU: NumPy for arrays, the CUDA source as C++ for kernels; against the CPU engine."""

import gc
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import scipy.sparse as sp
import shim_device
from smo_support import solve

from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
from solver.kernels.values import KernelColumns
from solver.smo import Program, UnboundedError, backend, gpu, gpu_pools, solve_many, stopping
from solver.smo.gpu_device import DeviceMemoryError

pytestmark = pytest.mark.skipif(shim_device.reason_to_skip() is not None, reason=str(shim_device.reason_to_skip()))

KINDS = {
    "rbf": {"gamma": 0.4},
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 1.0},
    "sigmoid": {"gamma": 0.02, "coef0": 0.1},
}


@pytest.fixture
def device(monkeypatch):
    device = shim_device.ShimDevice(memory=1 << 28)
    monkeypatch.setattr(backend, "cuda_device", lambda: device)
    monkeypatch.setattr(
        backend,
        "resolve_backend",
        lambda wish, large: "cuda" if wish == "cuda" or (wish == "auto" and large) else "cpu",
    )
    return device


@pytest.fixture
def working_sets(monkeypatch):
    """Small sets and no direct solution, so that small problems take several rounds."""
    monkeypatch.setattr(gpu, "DIRECT_LIMIT", 0)
    monkeypatch.setattr(gpu, "set_size", lambda _: 32)


def two_classes(n, d=5, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def kernel_block(X, Z, kind, **parameters):
    return KernelColumns(Z, kind, **parameters).block(X)


def check(solution, K, y, p, lo, hi, delta, tol):
    """What must hold of every optimal solution, computed from the definitions."""
    p, lo, hi = (np.broadcast_to(np.asarray(x, dtype=float), y.shape) for x in (p, lo, hi))
    a = solution.alpha
    scale = max(1.0, np.abs(a).sum())
    assert solution.status == "optimal"
    assert np.all((a >= lo) & (a <= hi))
    assert abs(y @ a - delta) < 1e-11 * scale
    v = -y * p - K @ (y * a)
    up, down = np.where(y > 0, a < hi, a > lo), np.where(y > 0, a > lo, a < hi)
    gap = max(0.0, v[up].max(initial=-np.inf) - v[down].min(initial=np.inf))
    assert gap <= 1.001 * tol
    assert solution.gap == pytest.approx(gap, abs=1e-9 * scale)
    assert solution.objective == pytest.approx(0.5 * (y * a) @ K @ (y * a) + p @ a, rel=1e-6, abs=1e-7 * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("n", [90, 530])
def test_c_svc_equals_the_cpu_engine(device, kind, form, n):
    X, y = two_classes(n)
    if form == "csr":
        X[np.abs(X) < 0.5] = 0.0
    C = 0.05 if kind in ("linear", "poly") else 1.0
    features = sp.csr_array(X) if form == "csr" else X
    arguments = (np.arange(n), y, -1.0, 0.0, C)
    expected = solve(FeatureKernel(features, kind, **KINDS[kind]), *arguments, backend="cpu")
    solution = solve(FeatureKernel(features, kind, **KINDS[kind]), *arguments, backend="cuda")
    check(solution, kernel_block(X, X, kind, **KINDS[kind]), y, -1.0, 0.0, C, 0.0, 1e-3)
    assert solution.engine == f"cuda-{expected.engine}"
    assert solution.objective == pytest.approx(expected.objective, rel=1e-5)
    assert solution.b == pytest.approx(expected.b, abs=2e-3)
    assert abs(solution.n_support - expected.n_support) <= 0.02 * n
    # rows computed for nothing would be the first sign of a broken cache
    assert solution.n_kernel_rows <= n


def general_problem(rng):
    """Shared samples, linear term, negative and infinite bounds, delta not 0."""
    n, m = int(rng.integers(2, 90)), int(rng.integers(2, 60))
    X = np.round(rng.normal(size=(m, 3)), int(rng.integers(0, 3)))
    idx = rng.permutation(m)[:n] if n <= m and rng.random() < 0.5 else rng.integers(0, m, size=n)
    y = rng.choice([-1.0, 1.0], size=n)
    p = rng.normal(size=n) * rng.choice([0.1, 1.0, 10.0])
    lo = -rng.random(n) * rng.integers(0, 2)
    hi = lo + rng.random(n) * rng.choice([1.0, 10.0])
    delta = float(y @ (lo + rng.random(n) * (hi - lo)))
    if len(np.unique(X[idx], axis=0)) == n:
        hi[-1], lo[-1] = np.inf, -np.inf
    return X, idx, y, p, lo, hi, delta


@pytest.mark.parametrize("small", [True, False])
def test_general_problems_equal_the_cpu_engine(device, small, monkeypatch):
    if not small:
        monkeypatch.setattr(gpu, "DIRECT_LIMIT", 0)
        monkeypatch.setattr(gpu, "set_size", lambda _: 8)
        monkeypatch.setattr(gpu, "_SMALLEST_SET", 8)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, idx, y, p, lo, hi, delta = general_problem(rng)
        features = sp.csr_array(X) if seed % 3 == 0 else X
        expected = solve(FeatureKernel(features, gamma=0.5), idx, y, p, lo, hi, delta, tol=1e-5, backend="cpu")
        solution = solve(FeatureKernel(features, gamma=0.5), idx, y, p, lo, hi, delta, tol=1e-5, backend="cuda")
        check(solution, kernel_block(X[idx], X[idx], "rbf", gamma=0.5), y, p, lo, hi, delta, 1e-5)
        scale = 1 + abs(expected.objective)
        assert solution.objective == pytest.approx(
            expected.objective, abs=1e-6 * scale + 1e-5 * np.abs(solution.alpha).sum()
        )


def test_kernels_that_are_no_features_are_read_from_the_host(device, working_sets):
    X, y = two_classes(150)
    K = kernel_block(X, X, "rbf", gamma=0.4)
    for matrix in (K, K.astype(np.float32)):
        solution = solve(PrecomputedKernel(matrix), np.arange(150), y, -1.0, 0.0, 1.0, backend="cuda")
        check(solution, K, y, -1.0, 0.0, 1.0, 0.0, 1e-3)
        assert "finish_rows_float32" not in device.launches


def test_warm_starts(device, working_sets):
    X, y = two_classes(200, seed=5)
    kernel, n = FeatureKernel(X, gamma=0.4), np.arange(200)
    K = kernel_block(X, X, "rbf", gamma=0.4)
    first = solve(kernel, n[:150], y[:150], -1.0, 0.0, 1.0, backend="cuda")
    again = solve(kernel, n[:150], y[:150], -1.0, 0.0, 1.0, alpha0=first.alpha, grad0=first.gradient, backend="cuda")
    assert again.status == "optimal"
    assert again.iterations == 0
    assert again.n_kernel_rows == 0
    np.testing.assert_array_equal(again.alpha, first.alpha)
    without_gradient = solve(kernel, n[:150], y[:150], -1.0, 0.0, 1.0, alpha0=first.alpha, backend="cuda")
    assert without_gradient.iterations <= first.iterations / 5
    assert without_gradient.n_kernel_rows == 0  # the rows are still there
    # 50 new variables, whose gradient is not known; and the start is not feasible for the smaller C
    alpha, gradient = np.append(first.alpha, np.zeros(50)), np.append(first.gradient, np.full(50, np.nan))
    for C in (0.7, 1.3):
        grown = solve(kernel, n, y, -1.0, 0.0, C, alpha0=alpha, grad0=gradient, backend="cuda")
        check(grown, K, y, -1.0, 0.0, C, 0.0, 1e-3)


def test_a_wrong_gradient_is_found_out(device, working_sets):
    X, y = two_classes(150, seed=7)
    kernel, n = FeatureKernel(X, gamma=0.4), np.arange(150)
    first = solve(kernel, n, y, -1.0, 0.0, 1.0, backend="cuda")
    noise = np.random.default_rng(0).normal(scale=0.01, size=150)
    again = solve(kernel, n, y, -1.0, 0.0, 1.0, alpha0=first.alpha, grad0=first.gradient + noise, backend="cuda")
    check(again, kernel_block(X, X, "rbf", gamma=0.4), y, -1.0, 0.0, 1.0, 0.0, 1e-3)


@pytest.mark.parametrize("exponent", [1.0, 900.0])
def test_tolerances_beyond_float32(device, working_sets, exponent):
    """Large C and small tol: the gradient is refined in float64; far samples: products are float64 from the start."""
    X, y = two_classes(80, d=2, seed=8, noise=0.1)
    X = X + (30.0 if exponent > 1 else 0.0)
    X[0] = 0.0  # far from all others
    solution = solve(FeatureKernel(X, gamma=2.0), np.arange(80), y, -1.0, 0.0, 100.0, tol=1e-6, backend="cuda")
    check(solution, kernel_block(X, X, "rbf", gamma=2.0), y, -1.0, 0.0, 100.0, 0.0, 1e-6)
    assert ("finish_rows_float64" in device.launches) == (exponent > 1)


def test_the_last_bits_come_from_float64_blocks(device, working_sets, monkeypatch):
    monkeypatch.setattr(stopping, "REFINEMENTS", 0)
    X, y = two_classes(80, d=2, seed=8, noise=0.1)
    solution = solve(FeatureKernel(X, gamma=2.0), np.arange(80), y, -1.0, 0.0, 100.0, tol=1e-7, backend="cuda")
    check(solution, kernel_block(X, X, "rbf", gamma=2.0), y, -1.0, 0.0, 100.0, 0.0, 1e-7)
    assert "solve_block_float64" in device.launches


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_a_batch_equals_its_problems_alone(device, kind, monkeypatch):
    """One against one among four classes, a fold with held-out rows, a path of C: one launch for all of them."""
    monkeypatch.setattr(gpu, "DIRECT_LIMIT", 40)  # some of the pairs are small problems, some are not
    monkeypatch.setattr(gpu, "set_size", lambda _: 32)
    X, _ = two_classes(160, seed=9)
    label = np.repeat([0, 1, 2, 3], [15, 20, 60, 65])
    X += 0.5 * label[:, None]
    kernel = FeatureKernel(X, kind, **KINDS[kind])
    chains = []
    for first in range(4):
        for second in range(first + 1, 4):
            idx = np.flatnonzero((label == first) | (label == second))
            y = np.where(label[idx] == first, 1.0, -1.0)
            chains.append([Program(kernel, idx, y, -1.0, 0.0, 0.1, backend="cuda")])
    y = np.where(label > 1, 1.0, -1.0)
    held_out = np.where(np.arange(160) % 5 == 0, 0.0, 0.2)
    fold = Program(kernel, np.arange(160), y, -1.0, 0.0, held_out, backend="cuda")
    chains.append([fold, replace(fold, hi=3 * held_out)])
    together = [*chain.from_iterable(solve_many(chains))]
    # the problems advance together: far fewer launches than problems and their rounds
    launches = device.launches["survey"]
    for program, solution in zip(chain.from_iterable(chains), together, strict=True):
        alone = solve(replace(program, kernel=FeatureKernel(X, kind, **KINDS[kind])))
        part = X[program.idx]
        K = kernel_block(part, part, kind, **KINDS[kind])
        check(solution, K, program.y, -1.0, 0.0, program.hi, 0.0, 1e-3)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-4)
        assert solution.engine == alone.engine
    assert launches < 0.5 * (device.launches["survey"] - launches)
    assert sum(solution.n_kernel_rows for solution in together if solution.engine == "cuda-working-set") <= 160


def test_kernel_rows_are_kept_extended_and_given_up(device, working_sets, monkeypatch):
    X, y = two_classes(240, seed=6)
    K = kernel_block(X, X, "rbf", gamma=0.4)
    kernel = FeatureKernel(X, gamma=0.4)
    rows = 0
    for n in (100, 160, 240):  # as the rounds of a self-training method
        solution = solve(kernel, np.arange(n), y[:n], -1.0, 0.0, 1.0, backend="cuda")
        check(solution, K[:n, :n], y[:n], -1.0, 0.0, 1.0, 0.0, 1e-3)
        rows += solution.n_kernel_rows
    assert rows <= 240  # every row was computed once
    few = FeatureKernel(X, gamma=0.4)
    solution = solve(few, np.arange(240), y, -1.0, 0.0, 1.0, cache_bytes=20 * 4 * 256, backend="cuda")
    check(solution, K, y, -1.0, 0.0, 1.0, 0.0, 1e-3)
    assert solution.n_kernel_rows > 240


def test_limits_and_cancelling(device, working_sets):
    X, y = two_classes(200)
    seen = []

    def cancel(iterations, gap):
        seen.append((iterations, gap))
        return len(seen) == 3

    arguments = (FeatureKernel(X, gamma=0.4), np.arange(200), y, -1.0, 0.0, 10.0)
    cancelled = solve(*arguments, callback=cancel, backend="cuda")
    assert cancelled.status == "cancelled"
    assert cancelled.gap > 1e-3
    assert len(seen) == 3
    assert seen[1][0] > seen[0][0] == 0
    limited = solve(*arguments, max_iter=50, backend="cuda")
    assert (limited.status, limited.iterations) == ("max_iter", 50)
    assert solve(*arguments, max_seconds=0.0, backend="cuda").status == "time"
    # v agrees with alpha however it ended
    K = kernel_block(X, X, "rbf", gamma=0.4)
    for solution in (cancelled, limited):
        np.testing.assert_allclose(solution.gradient, y * (K @ (y * solution.alpha)) - 1.0, atol=1e-4)


@pytest.mark.parametrize("n", [40, 60])
def test_limits_of_small_problems(device, n):
    X, y = two_classes(n)
    arguments = (FeatureKernel(X, gamma=0.4), np.arange(n), y, -1.0, 0.0, 10.0)
    assert solve(*arguments, max_iter=5, backend="cuda").status == "max_iter"
    assert solve(*arguments, callback=lambda *_: True, backend="cuda").status == "cancelled"


def test_degenerate_inputs(device, working_sets):
    one_sign = solve(FeatureKernel(np.eye(40), gamma=1.0), np.arange(40), np.ones(40), -1.0, 0.0, 1.0, backend="cuda")
    assert one_sign.status == "optimal"
    assert not one_sign.alpha.any()
    with pytest.raises(UnboundedError):
        solve(FeatureKernel(np.ones((2, 1)), gamma=1.0), [0, 1], [1, -1], -1.0, 0.0, np.inf, backend="cuda")


def test_no_variables(device):
    empty = solve(FeatureKernel(np.eye(3), gamma=1.0), np.empty(0, int), [], -1.0, 0.0, 1.0, backend="cuda")
    assert (empty.status, empty.alpha.size) == ("optimal", 0)


def test_same_bits_whatever_the_order_of_the_threads(monkeypatch, working_sets):
    X, y = two_classes(150)
    results = []
    for seed in (1, 1001):
        device = shim_device.ShimDevice(seed=seed)
        monkeypatch.setattr(backend, "cuda_device", lambda device=device: device)
        monkeypatch.setattr(backend, "resolve_backend", lambda *_, **__: "cuda")
        results.append(solve(FeatureKernel(X, gamma=0.4), np.arange(150), y, -1.0, 0.0, 1.0))
    np.testing.assert_array_equal(results[0].alpha, results[1].alpha)
    np.testing.assert_array_equal(results[0].gradient, results[1].gradient)


def test_less_memory_means_smaller_blocks_and_at_last_a_clear_error(device, monkeypatch):
    X, y = two_classes(700, d=8, seed=3)
    K = kernel_block(X, X, "rbf", gamma=0.2)
    arguments = (np.arange(700), y, -1.0, 0.0, 0.02)
    device.memory = 1_400_000  # a block of 512 variables alone takes 1 MB
    solution = solve(FeatureKernel(X, gamma=0.2), *arguments, backend="cuda")
    check(solution, K, y, -1.0, 0.0, 0.02, 0.0, 1e-3)
    assert device.most_used <= 1_400_000
    device.memory = 60_000
    with pytest.raises(DeviceMemoryError, match=r"CPU shim has 0 MB of free memory, too little for 700 samples"):
        solve(FeatureKernel(X, gamma=0.2), *arguments, backend="cuda")
    monkeypatch.setattr(backend, "GPU_LEAST_WORK", 1.0)
    with pytest.warns(RuntimeWarning, match="solving on the CPU: CPU shim has"):
        fallen_back = solve(FeatureKernel(X, gamma=0.2), *arguments)
    assert fallen_back.engine == "working-set"
    check(fallen_back, K, y, -1.0, 0.0, 0.02, 0.0, 1e-3)


def test_memory_is_given_back_with_the_kernel(device, working_sets):
    X, y = two_classes(100)
    kernel = FeatureKernel(X, gamma=0.4)
    solve(kernel, np.arange(100), y, -1.0, 0.0, 1.0, backend="cuda")
    gc.collect()
    assert device.used > 100 * 100 * 4  # rows, features
    pools = len(gpu._pools._pools)
    releases = device.releases
    del kernel
    gc.collect()
    assert len(gpu._pools._pools) == pools - 1
    assert device.releases == releases + 1
    assert device.used == 0


def test_auto_takes_the_gpu_for_large_problems_only(device, monkeypatch):
    X, y = two_classes(100)
    arguments = (FeatureKernel(X, gamma=0.4), np.arange(100), y, -1.0, 0.0, 1.0)
    assert solve(*arguments).engine == "direct"
    monkeypatch.setattr(backend, "GPU_LEAST_WORK", 100.0**2 * 35)
    assert solve(*arguments).engine == "cuda-direct"
    assert solve(FeatureKernel(X, "linear"), *arguments[1:]).engine == "direct"
    monkeypatch.setattr(backend, "GPU_LEAST_WORK", 100.0**2 * 35 + 1)
    assert solve(*arguments).engine == "direct"


def test_row_cache_gives_up_what_was_not_used_for_longest(device):
    cache = gpu_pools._RowCache(device, 100, 4 * 128 * 5)
    assert cache.capacity == 5
    slots, missing = cache.find(np.array([7, 3, 50]))
    assert slots.tolist() == [0, 1, 2]
    assert missing.tolist() == [0, 1, 2]
    assert cache.find(np.array([3]))[1].size == 0
    slots, missing = cache.find(np.array([3, 8, 9, 10]))
    assert missing.tolist() == [1, 2, 3]
    assert slots.tolist() == [1, 3, 4, 0]  # 7 and 50 are the oldest; the first of them goes
    assert cache.find(np.array([50, 7]))[1].tolist() == [1]


def test_cupy_has_what_the_engine_calls():
    """The functions that the shim offers are the ones the engine uses: CuPy has to have them by the same names."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    for name in (name for name in dir(shim_device._Functions) if not name.startswith("_")):
        assert callable(getattr(cupy, name)), name
    for name in ("reshape", "transpose", "astype", "sum", "T", "shape", "dtype"):
        assert hasattr(cupy.ndarray, name), name
