"""The low-rank engine against the exact one, and on its own."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from smo_support import solve

from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
from solver.lowrank import Factor, Interrupted, solve_lowrank
from solver.lowrank.loops import ascend
from solver.smo import InfeasibleError, Program, Start, StoppingLimits
from solver.smo.stopping import Budget


def solve_on(factor, *terms, seed=0, polish_up_to=0, **options):
    return solve_lowrank(factor, Program(factor.kernel, *terms, **options), seed=seed, polish_up_to=polish_up_to)


def overlapping(n, d=6, seed=0):
    """Two overlapping Gaussians."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    return X, y


def every(n):
    return np.arange(n)


# -- against the exact engine ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "C"), [("rbf", 2.0), ("linear", 2.0), ("poly", 0.1)])
def test_with_all_landmarks_it_is_the_exact_solution(kind, C):
    X, y = overlapping(700, d=4)
    kernel = FeatureKernel(X, kind, gamma=0.3, degree=2, coef0=1.0)
    exact = solve(kernel, every(700), y, -1.0, 0.0, C, tol=1e-5)
    factor = Factor.build(kernel, 700)
    found = solve_on(factor, every(700), y, -1.0, 0.0, C, tol=1e-5)
    assert found.status == "optimal"
    assert_allclose(found.objective, exact.objective, rtol=1e-6)
    assert abs(y @ found.alpha) < 1e-9
    f = kernel.products(every(700), y * exact.alpha, every(700)) + exact.b
    g = kernel.products(factor.landmarks, found.coefficients, every(700)) + found.b
    assert_allclose(g, f, atol=2e-3)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32 - 1))
@example(264)  # the constraint was once met by taking a variable off its bound
def test_general_problems(seed):
    """Any linear term, negative and infinite bounds, delta, several variables on a sample; against the exact engine."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(5, 40)), int(rng.integers(8, 60))
    kernel = FeatureKernel(rng.normal(size=(m, 3)), gamma=0.5)
    idx = rng.integers(0, m, n)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    p = rng.normal(size=n)
    lo = np.where(rng.random(n) < 0.3, -rng.random(n), 0.0)
    hi = lo + rng.uniform(0.1, 3.0, n)
    delta = float(rng.normal()) * 0.3
    try:
        exact = solve(kernel, idx, y, p, lo, hi, delta, tol=1e-6)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            solve_on(Factor.build(kernel, m), idx, y, p, lo, hi, delta)
        return
    found = solve_on(Factor.build(kernel, m), idx, y, p, lo, hi, delta, tol=1e-4)
    assert found.status == "optimal"
    assert np.all(found.alpha >= lo)
    assert np.all(found.alpha <= hi)
    assert abs(y @ found.alpha - delta) < 1e-9
    assert_allclose(found.objective, exact.objective, rtol=1e-4, atol=1e-4)


def test_an_infinite_bound_is_none():
    X, y = overlapping(60, d=3)
    kernel = FeatureKernel(X, gamma=2.0)
    exact = solve(kernel, every(60), y, -1.0, 0.0, np.inf, tol=1e-5)
    found = solve_on(Factor.build(kernel, 60), every(60), y, -1.0, 0.0, np.inf, tol=1e-4)
    assert found.status == "optimal"
    assert_allclose(found.objective, exact.objective, rtol=1e-4)


def test_few_landmarks_decide_like_the_exact_solution():
    X, y = overlapping(3000, d=10)
    kernel = FeatureKernel(X[:2000], gamma=0.05)
    exact = solve(kernel, every(2000), y[:2000], -1.0, 0.0, 1.0)
    found = solve_on(Factor.build(kernel, 200), every(2000), y[:2000], -1.0, 0.0, 1.0)
    test = FeatureKernel(X, gamma=0.05)
    new = np.arange(2000, 3000)
    f = test.products(every(2000), y[:2000] * exact.alpha, new) + exact.b
    g = test.products(found.factor.landmarks, found.coefficients, new) + found.b
    assert np.mean((f > 0) == (g > 0)) > 0.97
    assert abs(np.mean((f > 0) == (y[2000:] > 0)) - np.mean((g > 0) == (y[2000:] > 0))) < 0.01


def test_polishing_gives_the_exact_solution():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    kernel = FeatureKernel(X, gamma=0.5)
    exact = solve(kernel, every(2000), y, -1.0, 0.0, 10.0, tol=1e-4)
    factor = Factor.build(kernel, 40)
    plain = solve_on(factor, every(2000), y, -1.0, 0.0, 10.0, tol=1e-4)
    found = solve_on(factor, every(2000), y, -1.0, 0.0, 10.0, tol=1e-4, polish_up_to=500)
    assert plain.polish is None
    assert plain.engine == "lowrank"
    assert found.engine == "lowrank+polish"
    assert found.polish is not None
    assert found.polish.candidates <= 500
    assert found.polish.missed < 0.005
    f, g = (kernel.products(every(2000), y * s.alpha, every(2000)) + s.b for s in (exact, found))
    h = kernel.products(factor.landmarks, plain.coefficients, every(2000)) + plain.b
    assert np.abs(g - f).mean() < 0.1 * np.abs(h - f).mean()


# -- the factor's own problem ------------------------------------------------------------------------------------------


def test_optimality_recomputed_from_the_factor():
    X, y = overlapping(3000)
    factor = Factor.build(FeatureKernel(X, gamma=0.1), 150)
    found = solve_on(factor, every(3000), y, -1.0, 0.0, 3.0, tol=1e-3)
    G = factor.rows(0, 3000)[factor.place].astype(np.float64)
    w = G.T @ (y * found.alpha)
    assert_allclose(found.weights, w, atol=1e-9)
    v = y - G @ w
    up, down = np.where(y > 0, found.alpha < 3, found.alpha > 0), np.where(y > 0, found.alpha > 0, found.alpha < 3)
    assert_allclose(found.gap, max(0.0, v[up].max() - v[down].min()), atol=1e-9)
    assert found.gap <= 1e-3
    assert_allclose(found.gradient, y * (G @ w) - 1, atol=1e-9)
    assert_allclose(found.objective, 0.5 * w @ w - found.alpha.sum(), rtol=1e-12)


def test_every_pass_lowers_the_objective():
    rng = np.random.default_rng(0)
    n, multiplier, weight = 400, 0.3, 0.2
    G = rng.normal(size=(n, 7)).astype(np.float32)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    p, lo, hi, a, w = -np.ones(n), np.zeros(n), np.full(n, 0.1), np.zeros(n), np.zeros(7)
    curvature = np.einsum("ij,ij->i", G, G, dtype=np.float64) + weight
    active, excess, last = np.ones(n, bool), 0.0, 0.0
    for _ in range(10):
        order = rng.permutation(n)
        excess, _ = ascend(G, order, order, y, p, lo, hi, curvature, a, w, multiplier, weight, excess, 1e9, active)
        value = 0.5 * w @ w + p @ a + multiplier * excess + 0.5 * weight * excess**2
        assert value < last
        last = value
    assert_allclose(w, G.T.astype(np.float64) @ (y * a), atol=1e-9)
    assert_allclose(excess, y @ a, atol=1e-12)


def test_a_warm_start_at_the_solution_is_the_solution():
    X, y = overlapping(1500)
    factor = Factor.build(FeatureKernel(X, gamma=0.1), 100)
    first = solve_on(factor, every(1500), y, -1.0, 0.0, 1.0)
    again = solve_on(factor, every(1500), y, -1.0, 0.0, 1.0, start=Start(first.alpha))
    assert again.iterations == 0
    assert_array_equal(again.alpha, first.alpha)
    cold = solve_on(factor, every(1500), y, -1.0, 0.0, 1.2)
    warm = solve_on(factor, every(1500), y, -1.0, 0.0, 1.2, start=Start(first.alpha))
    assert warm.status == "optimal"
    assert warm.iterations < cold.iterations
    assert_allclose(warm.objective, cold.objective, rtol=1e-5)


def test_sparse_and_precomputed_kernels():
    rng = np.random.default_rng(0)
    X = sp.random_array((600, 200), density=0.05, rng=rng, format="csr")
    y = np.where(np.asarray(X[:, :20].sum(axis=1)).ravel() > 0.5, 1.0, -1.0)
    sparse = FeatureKernel(sp.csr_array(X), gamma=0.5)
    full = PrecomputedKernel(sparse.matrix(every(600), every(600)))
    found = [solve_on(Factor.build(kernel, 80), every(600), y, -1.0, 0.0, 1.0) for kernel in (sparse, full)]
    assert [s.status for s in found] == ["optimal", "optimal"]
    assert_allclose(found[0].objective, found[1].objective, rtol=1e-4)


# -- the same bits -----------------------------------------------------------------------------------------------------


def test_memory_mapped_features_and_a_factor_in_a_file_give_the_same_bits(tmp_path):
    X, y = overlapping(3000)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    here = Factor.build(FeatureKernel(X, gamma=0.1), 300)
    there = Factor.build(FeatureKernel(mapped, gamma=0.1), 300, max_bytes=1 << 20)
    assert not here.in_file
    assert there.in_file
    assert there.rank == 256  # fewer, but no fewer than that, before a file is used
    here = Factor.build(FeatureKernel(X, gamma=0.1), 256)
    found = [solve_on(factor, every(3000), y, -1.0, 0.0, 1.0) for factor in (here, there)]
    assert_array_equal(found[0].alpha, found[1].alpha)
    assert_array_equal(found[0].weights, found[1].weights)
    assert found[0].b == found[1].b


PROGRAM = """
import sys
import numpy as np
from solver.kernels.kernel import FeatureKernel
from solver.lowrank import Factor, solve_lowrank
from solver.smo import Program
rng = np.random.default_rng(0)
X = rng.normal(size=(12000, 5))
y = np.where(X[:, 0] + rng.normal(size=12000) > 0, 1.0, -1.0)
kernel = FeatureKernel(X, gamma=0.2)
s = solve_lowrank(Factor.build(kernel, 64), Program(kernel, np.arange(12000), y, -1.0, 0.0, 1.0))
sys.stdout.write(s.alpha.tobytes().hex() + s.weights.tobytes().hex())
"""


@pytest.mark.slow
def test_the_same_bits_with_any_number_of_threads():
    """Each number of threads needs a process of its own."""
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "OMP_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert found[0] == found[1]
    assert len(found[0]) > 12000 * 16


def test_the_same_bits_twice():
    X, y = overlapping(2000)
    kernel = FeatureKernel(X, gamma=0.1)
    found = [solve_on(Factor.build(kernel, 64, seed=3), every(2000), y, -1.0, 0.0, 1.0, seed=5) for _ in range(2)]
    assert_array_equal(found[0].alpha, found[1].alpha)
    assert found[0].iterations == found[1].iterations


# -- degenerate inputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "rank"),
    [
        pytest.param(np.ones((50, 3)), 1, id="constant"),
        pytest.param(np.repeat(np.arange(5.0)[:, None], 10, axis=0), 5, id="duplicates"),
    ],
)
def test_the_rank_is_that_of_the_data(X, rank):
    factor = Factor.build(FeatureKernel(X, gamma=0.5), 40)
    assert factor.rank == rank
    y = np.where(np.arange(50) % 2, 1.0, -1.0)
    found = solve_on(factor, every(50), y, -1.0, 0.0, 1.0)
    assert found.status == "optimal"
    assert np.isfinite(found.b)


def test_a_linear_kernel_needs_as_many_landmarks_as_features():
    X, y = overlapping(3000, d=5)
    factor = Factor.build(FeatureKernel(X, "linear"), 100)
    assert factor.rank == 5
    found = solve_on(factor, every(3000), y, -1.0, 0.0, 0.1)
    exact = solve(FeatureKernel(X, "linear"), every(3000), y, -1.0, 0.0, 0.1)
    assert_allclose(found.objective, exact.objective, rtol=1e-4)


def test_features_without_any_information():
    factor = Factor.build(FeatureKernel(np.zeros((20, 3)), "linear"), 5)
    assert factor.rank == 0
    y = np.where(np.arange(20) < 10, 1.0, -1.0)
    found = solve_on(factor, every(20), y, -1.0, 0.0, 1.0)
    assert found.status == "optimal"
    assert len(found.coefficients) == 0


@pytest.mark.parametrize("n", [1, 2])
def test_one_point_a_class(n):
    X = np.vstack([np.full((n, 2), -1.0), np.full((n, 2), 1.0)])
    y = np.repeat([-1.0, 1.0], n)
    kernel = FeatureKernel(X, gamma=0.5)
    found = solve_on(Factor.build(kernel), every(2 * n), y, -1.0, 0.0, 10.0)
    exact = solve(kernel, every(2 * n), y, -1.0, 0.0, 10.0)
    assert found.status == "optimal"
    assert_allclose(found.objective, exact.objective, rtol=1e-3)


def test_one_class_only():
    X, _ = overlapping(30)
    found = solve_on(Factor.build(FeatureKernel(X, gamma=0.5), 10), every(30), np.ones(30), -1.0, 0.0, 1.0)
    assert not found.alpha.any()


def test_bounds_so_narrow_that_all_variables_are_at_them():
    X, y = overlapping(300)
    y[:200] = 1.0
    kernel = FeatureKernel(X, gamma=0.1)
    exact = solve(kernel, every(300), y, -1.0, 0.0, 1e-3, tol=1e-5)
    found = solve_on(Factor.build(kernel, 300), every(300), y, -1.0, 0.0, 1e-3)
    assert found.status == "optimal"
    assert_allclose(found.objective, exact.objective, rtol=1e-4)
    assert found.iterations < 500 * 300


# -- limits ------------------------------------------------------------------------------------------------------------


def test_cancelled_within_a_fifth_of_a_second():
    """While landmarks are chosen, while the factor is computed, and during the ascent.

    In processor time, which a busy machine stretches less; five times as much is allowed to it.
    """
    X, y = overlapping(40_000, d=10)
    kernel = FeatureKernel(X, gamma=0.1)
    asked: list[float] = []

    def cancel_after(seconds):
        began = time.process_time()
        asked.clear()

        def callback(*_):
            asked.append(time.process_time())
            return asked[-1] - began > seconds

        return callback

    for seconds in (0.0, 0.3):
        with pytest.raises(Interrupted, match="cancelled"):
            Factor.build(kernel, 512, budget=Budget(StoppingLimits(callback=cancel_after(seconds))))
        assert time.process_time() - asked[-1] < 1
        assert max(np.diff(asked), default=0.0) < 2  # two threads at most
    factor = Factor.build(kernel, 128)
    callback = cancel_after(0.1)
    found = solve_on(factor, every(40_000), y, -1.0, 0.0, 1e4, tol=1e-6, limits=StoppingLimits(callback=callback))
    assert found.status == "cancelled"
    assert time.process_time() - asked[-1] < 1
    assert abs(y @ found.alpha) < 1e-6
    assert np.isfinite(found.gap)


def test_limits_of_time_and_steps():
    X, y = overlapping(4000)
    factor = Factor.build(FeatureKernel(X, gamma=0.1), 100)
    few = solve_on(factor, every(4000), y, -1.0, 0.0, 100.0, limits=StoppingLimits(max_iter=4000))
    assert few.status == "max_iter"
    assert few.iterations <= 8000
    assert few.gap > 1e-3
    late = solve_on(factor, every(4000), y, -1.0, 0.0, 100.0, limits=StoppingLimits(max_seconds=0.0))
    assert late.status == "time"
    with pytest.raises(Interrupted, match="time"):
        Factor.build(FeatureKernel(X, gamma=0.1), 100, budget=Budget(StoppingLimits(max_seconds=0.0)))


def test_little_time_means_few_landmarks():
    kernel = FeatureKernel(overlapping(40_000)[0], gamma=0.1)

    def rank(seconds):
        return Factor._rank_in_time(kernel, every(1024), Budget(StoppingLimits(max_seconds=seconds)))

    assert rank(None) == rank(1e6) == 1024
    assert 32 <= rank(0.5) < 1024
    assert rank(0.0) == 32


def test_wrong_input():
    X, y = overlapping(20)
    factor = Factor.build(FeatureKernel(X, gamma=0.1), 5)
    with pytest.raises(ValueError, match="tol must be positive"):
        solve_on(factor, every(20), y, -1.0, 0.0, 1.0, tol=0.0)
    with pytest.raises(ValueError, match="idx holds"):
        solve_on(factor, every(21), np.ones(21), -1.0, 0.0, 1.0)
