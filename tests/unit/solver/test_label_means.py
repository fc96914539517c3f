import json

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from smo_support import solve

from solver.estimators import CS4VM, SVM, MeanS3VM
from solver.estimators._expansion import Expansion
from solver.estimators._run import KernelParameters, SolverLimits, TrainingRun
from solver.estimators._scores import exact_scores
from solver.estimators._semi_supervised import positives_among
from solver.estimators.cs4vm import find_label_means, train_with_labels

C1, C2 = 1.0, 0.1


def overlapping(labelled=12, unlabelled=60, seed=0, features=4):
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random(labelled + unlabelled) < 0.4, 1.0, -1.0)
    truth[:4] = [1, -1, 1, -1]
    X = rng.normal(size=(len(truth), features)) + 0.7 * truth[:, None]
    return X, np.where(np.arange(len(truth)) < labelled, truth, 0.0), truth


def start_run(X, y, kind="linear", tol=1e-6, **kernel):
    parameters = KernelParameters(kind, kernel.get("gamma", 1.0), kernel.get("degree", 3), kernel.get("coef0", 0.0))
    limits = SolverLimits(tol=tol, max_iter=None, max_seconds=None, cache_bytes=None, backend="auto")
    return TrainingRun(X, y, np.ones(len(y)), parameters, limits)


def cost_of(y, costs):
    return np.where(y > 0, *costs)


def linear_weights(X, model):
    return X[model.rows].T @ model.coefficients, model.intercept


@pytest.mark.parametrize("costs", [(1.0, 1.0), (5.0, 1.0), (1.0, 3.0)])
def test_second_step_is_optimal_for_equation_6(costs):
    """Primal and dual values agree, so both are optimal whatever the solver does."""
    X, y, truth = overlapping()
    run = start_run(X, y)
    labels = truth[run.unlabelled].copy()
    labels[::7] *= -1  # any labels do
    cost = C1 * cost_of(y[run.labelled], costs)
    model = train_with_labels(run, run.labelled, cost, C2, costs, labels)
    w, b = linear_weights(X, model)
    f = X @ w + b
    own, other = cost_of(labels, costs), cost_of(-labels, costs)
    margin = labels * f[run.unlabelled]
    primal = (
        w @ w / 2
        + cost @ np.maximum(0, 1 - y[run.labelled] * f[run.labelled])
        + C2 * own @ np.maximum(0, 1 - margin)
        + C2 * other @ np.maximum(0, -1 - margin)
    )
    assert primal == pytest.approx(-model.solution.objective, rel=1e-5)


@pytest.mark.parametrize("costs", [(1.0, 1.0), (10.0, 1.0)])
def test_second_step_equals_the_papers_dual_corrected(costs):
    """Equation 9 with w = C₂v + … and the equality constraint = -C₂n₂ instead of 0."""
    X, y, truth = overlapping(seed=1)
    run = start_run(X, y)
    labelled, unlabelled = run.labelled, run.unlabelled
    labels = truth[unlabelled]
    cost = C1 * cost_of(y[labelled], costs)
    mine = exact_scores(run, train_with_labels(run, labelled, cost, C2, costs, labels), np.arange(len(y)))
    theta = np.where(labels > 0, costs[0], -costs[1])
    v = X[unlabelled].T @ theta
    rows = np.r_[labelled, unlabelled, unlabelled]
    signs = np.r_[y[labelled], -np.ones(len(unlabelled)), np.ones(len(unlabelled))]
    p = np.r_[-np.ones(len(labelled)), np.ones(2 * len(unlabelled))] + C2 * signs * (X[rows] @ v)
    hi = np.r_[cost, np.full(len(unlabelled), C2 * costs[0]), np.full(len(unlabelled), C2 * costs[1])]
    dual = solve(run.kernel, rows, signs, p, 0.0, hi, -C2 * theta.sum(), tol=1e-6)
    theirs = X @ (C2 * v + X[rows].T @ (signs * dual.alpha)) + dual.b
    np.testing.assert_allclose(mine, theirs, atol=1e-3)


def margin_problem(X, y, labels, costs):
    """min ½|w|² + C₁Σcξ - C₂ρ for given labels, by a generic solver: (value, w)."""
    labelled, unlabelled = np.flatnonzero(y), np.flatnonzero(y == 0)
    positive = X[unlabelled][labels > 0].mean(axis=0)
    negative = X[unlabelled][labels < 0].mean(axis=0)
    d, n = X.shape[1], len(labelled)
    cost = C1 * cost_of(y[labelled], costs)

    def objective(z):
        return z[:d] @ z[:d] / 2 + cost @ z[d + 2 :] - C2 * z[d + 1]

    def gradient(z):
        return np.r_[z[:d], 0.0, -C2, cost]

    rows = np.zeros((2 + n, d + 2 + n))
    rows[0, :d], rows[0, d], rows[0, d + 1] = positive, 1.0, -costs[0]
    rows[1, :d], rows[1, d], rows[1, d + 1] = -negative, -1.0, -costs[1]
    rows[2:, :d] = y[labelled][:, None] * X[labelled]
    rows[2:, d] = y[labelled]
    rows[2:, d + 2 :] = np.eye(n)
    offset = np.r_[0.0, 0.0, -np.ones(n)]
    found = minimize(
        objective,
        np.r_[np.zeros(d + 2), np.full(n, 2.0)],
        jac=gradient,
        method="SLSQP",
        bounds=[(None, None)] * (d + 2) + [(0, None)] * n,
        constraints={"type": "ineq", "fun": lambda z: rows @ z + offset, "jac": lambda _: rows},
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert found.success, found.message
    return found.fun, found.x[:d]


@pytest.mark.parametrize("costs", [(1.0, 1.0), (5.0, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_first_step_ends_where_neither_part_improves(costs, seed):
    X, y, _ = overlapping(seed=seed, labelled=8, unlabelled=30)
    run = start_run(X, y)
    positives = 12
    cost = C1 * cost_of(y[run.labelled], costs)
    solution = run.solve(run.labelled, y[run.labelled], cost)
    start = Expansion.from_solution(run.labelled, y[run.labelled], solution, len(y))
    labels = find_label_means(run, run.labelled, cost, C2, costs, positives, start)
    assert (labels > 0).sum() == positives
    value, w = margin_problem(X, y, labels, costs)
    # for this w, the chosen rows are the highest ones (up to the solver's tolerance)
    scores = X[run.unlabelled] @ w
    assert scores[labels > 0].min() >= scores[labels < 0].max() - 1e-3
    first = np.full(30, -1.0)
    first[np.argsort(-exact_scores(run, start, run.unlabelled), kind="stable")[:positives]] = 1.0
    assert value <= margin_problem(X, y, first, costs)[0] + 1e-6


def test_linear_path_without_a_matrix_equals_the_kernel_path():
    X, y, _ = overlapping(seed=3)
    linear = start_run(X, y)
    kernelised = start_run(X, y, kind="poly", degree=1, gamma=1.0)
    found = []
    for run in (linear, kernelised):
        cost = C1 * cost_of(y[run.labelled], (4.0, 1.0))
        start = Expansion.from_solution(
            run.labelled, y[run.labelled], run.solve(run.labelled, y[run.labelled], cost), len(y)
        )
        labels = find_label_means(run, run.labelled, cost, C2, (4.0, 1.0), 25, start)
        model = train_with_labels(run, run.labelled, cost, C2, (4.0, 1.0), labels)
        found.append((labels, exact_scores(run, model, np.arange(len(y)))))
    assert np.array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-3)


PAPER = {"threshold_rule": "zero", "labeled_split": "full", "unlabeled": 0}


def test_equal_costs_are_mean_s3vm():
    X, y, _ = overlapping()
    same = CS4VM(**PAPER).fit(X, y)
    assert np.array_equal(MeanS3VM(**PAPER).fit(X, y).decision_function(X), same.decision_function(X))
    doubled = CS4VM(false_negative=2.0, false_positive=2.0, C1=0.5, C2=0.05, tol=1e-6, **PAPER).fit(X, y)
    tight = CS4VM(tol=1e-6, **PAPER).fit(X, y)
    np.testing.assert_allclose(doubled.decision_function(X), tight.decision_function(X), atol=1e-3)


def test_costs_move_the_decision():
    X, y, _ = overlapping(unlabelled=200)
    costs = [1.0, 3.0, 10.0]
    found = [(CS4VM(false_negative=c, **PAPER).fit(X, y).predict(X) == 1).sum() for c in costs]
    assert found[0] < found[1] < found[2]
    few = [(CS4VM(false_positive=c, **PAPER).fit(X, y).predict(X) == 1).sum() for c in costs]
    assert few[0] > few[1] > few[2]
    shifted = CS4VM(false_negative=10.0, cost_shift=0.5, **PAPER).fit(X, y)
    plain = CS4VM(false_negative=10.0, **PAPER).fit(X, y)
    np.testing.assert_allclose(
        shifted.decision_function(X), plain.decision_function(X) + 0.5 * np.log(10.0), atol=1e-12
    )


def test_costs_come_from_the_objective():
    X, y, _ = overlapping()
    objective = {"kind": "cost", "false_negative": 5.0, "false_positive": 2.0}
    by_objective = CS4VM(objective=objective, **PAPER).fit(X, y)
    by_name = CS4VM(false_negative=5.0, false_positive=2.0, **PAPER).fit(X, y)
    assert np.array_equal(by_objective.decision_function(X), by_name.decision_function(X))
    assert by_name.report_.objective == objective
    assert by_name.report_.calibration.cost.value >= 0
    json.dumps(by_name.report_.to_dict(), allow_nan=False)


def test_share_of_positives_given_estimated_or_shrunk():
    truth = np.array([1, 1, 1, -1])
    assert positives_among(100, truth, None, None) == 75
    assert positives_among(100, truth, 0.2, None) == 20
    assert positives_among(100, truth, 0.2, 4.0) == 48  # (3 + 0.8) / 8 = 0.475
    assert positives_among(100, truth, 0.2, 0.0) == 75
    assert positives_among(10, truth, 0.001, None) == 1
    assert positives_among(10, truth, 0.999, None) == 9


@pytest.mark.parametrize("means", ["alternating", "tsvm"])
def test_sparse_input_and_few_unlabelled_rows(means):
    X, y, _ = overlapping()
    X = np.where(np.abs(X) > 0.4, X, 0.0)
    settings = {**PAPER, "means": means, "tol": 1e-6, "false_negative": 3.0}
    dense, compressed = CS4VM(**settings).fit(X, y), CS4VM(**settings).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(compressed.decision_function(X), dense.decision_function(X), atol=1e-3)
    for unlabelled in (0, 1, 2):
        CS4VM(**settings).fit(X[: 12 + unlabelled], y[: 12 + unlabelled])
    alone = CS4VM(**settings).fit(X[:12], y[:12])
    svm = SVM(kernel="linear", class_weight={1: 3.0, -1: 1.0}, tol=1e-6, **PAPER).fit(X[:12], y[:12])
    np.testing.assert_allclose(alone.decision_function(X), svm.decision_function(X), atol=1e-3)


@pytest.mark.parametrize(
    "parameters",
    [{"false_negative": 0.0}, {"false_positive": -1.0}, {"C2": 0.0}, {"positive_share": 1.0}, {"means": "x"}],
)
def test_wrong_parameters_are_refused(parameters):
    X, y, _ = overlapping()
    with pytest.raises(ValueError, match=next(iter(parameters))):
        CS4VM(unlabeled=0, **parameters).fit(X, y)
