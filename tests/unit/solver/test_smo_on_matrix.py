"""Many small problems on one kernel matrix: the solutions of the engine, with and without folds, and what it leaves."""

import numpy as np
import pytest

from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
from solver.multiclass import own_rows
from solver.smo import Program, solve, solve_on_matrix


def problems(scheme, n=240, classes=4, seed=0):
    random = np.random.default_rng(seed)
    codes = np.sort(random.integers(0, classes, n))
    X = np.eye(classes)[codes] + 0.6 * random.normal(size=(n, classes))
    own = own_rows(codes, classes, scheme)
    return FeatureKernel(X, gamma=0.5), own, np.where(own.positive, 1.0, -1.0)


@pytest.mark.parametrize("kind", ["rbf", "linear", "poly", "sigmoid"])
def test_the_matrix_of_all_samples_is_that_of_any(kind):
    X = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)
    kernel = FeatureKernel(X, kind, gamma=0.2, coef0=0.5)
    K, every = kernel.whole_matrix(), np.arange(300)
    np.testing.assert_allclose(K, kernel.matrix(every, every), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_solutions_are_those_of_the_engine(scheme):
    kernel, own, y = problems(scheme)
    K, cost = kernel.whole_matrix(), np.random.default_rng(1).uniform(0.5, 2.0, len(own.rows))
    solved = solve_on_matrix(K, own.starts, own.rows, y, cost, None, tol=1e-3)
    assert solved.is_solved.all()
    for number in range(own.problems):
        part = own.of(number)
        alone = solve(Program(PrecomputedKernel(K), own.rows[part], y[part], -1.0, 0.0, cost[part]))
        assert np.array_equal(solved.signed[0, part], y[part] * alone.alpha)  # the same steps
        assert solved.intercepts[0, number] == pytest.approx(alone.b, abs=1e-12)


@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_what_a_fold_leaves_out_has_no_say(scheme):
    kernel, own, y = problems(scheme)
    K, fold = kernel.whole_matrix(), np.arange(240) % 3
    fold[:12] = -1  # in no fold
    tight = solve_on_matrix(K, own.starts, own.rows, y, np.ones(len(y)), fold, tol=1e-8)
    for number in range(own.problems):
        part = own.of(number)
        rows = own.rows[part]
        assert np.isnan(tight.left_out[part][fold[rows] == -1]).all()
        for each in range(3):
            kept, held = rows[fold[rows] != each], fold[rows] == each
            alone = solve(Program(PrecomputedKernel(K), kept, y[part][~held], -1.0, 0.0, 1.0, tol=1e-8))
            scores = K[np.ix_(rows[held], kept)] @ (y[part][~held] * alone.alpha) + alone.b
            assert tight.left_out[part][held] == pytest.approx(scores, abs=1e-6)
            assert not tight.signed[1 + each, part][held].any()
            assert tight.signed[1 + each, part].sum() == pytest.approx(0, abs=1e-9)


def test_more_threads_change_no_bit(monkeypatch):
    kernel, own, y = problems("one_vs_one", n=900, classes=8)
    K, fold = kernel.whole_matrix(), np.arange(900) % 5
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("solver.kernels.parallel.thread_count", lambda threads=threads: threads)
        found.append(solve_on_matrix(K, own.starts, own.rows, y, np.ones(len(y)), fold, tol=1e-3))
    assert np.array_equal(found[0].signed, found[1].signed)
    assert np.array_equal(found[0].left_out, found[1].left_out, equal_nan=True)


def test_what_is_hard_is_left_to_the_engines():
    kernel, own, y = problems("one_vs_rest")
    K = kernel.whole_matrix()
    # so large a cost needs more steps, and loses more to rounding, than is looked after here
    solved = solve_on_matrix(K, own.starts, own.rows, y, np.full(len(y), 1e9), None, tol=1e-9)
    assert not solved.is_solved.any()


def test_a_fold_that_holds_all_of_a_class_gives_a_constant():
    K, y = np.eye(4), np.array([-1.0, -1.0, 1.0, 1.0])
    solved = solve_on_matrix(K, np.array([0, 4]), np.arange(4), y, np.ones(4), np.array([0, 0, 1, 1]), tol=1e-3)
    assert solved.is_solved.all()
    assert solved.left_out.tolist() == [1.0, 1.0, -1.0, -1.0]


def test_who_is_asked_stops_it():
    kernel, own, y = problems("one_vs_one")
    heard = []
    solved = solve_on_matrix(
        kernel.whole_matrix(), own.starts, own.rows, y, np.ones(len(y)), None, tol=1e-3,
        stopped=lambda done: heard.append(done) or True,
    )  # fmt: skip
    assert solved.stopped
    assert heard == [0]
