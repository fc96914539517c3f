"""Scores of an expansion on the rows of a run, exact ones and those that the solver has at hand; and its decision."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

import numpy as np
from scipy import sparse

from solver.decision import DecisionState
from solver.estimators._expansion import Expansion
from solver.estimators._quadratic import Quadratic
from solver.estimators._run import TrainingRun
from solver.lowrank import LowRankSolution
from solver.typing import FloatArray, IndexArray

# of a kernel value: a few units in the last place, as the exponent of the RBF kernel is rounded too
_FLOAT32_ROUNDING: Final = 1e-6

# seconds that scoring rows may take once a run has to stop, and how many rows are scored at once
_SCORING_SECONDS: Final = 1.0
_SCORING_ROWS: Final = 1024


def exact_scores(run: TrainingRun, expansion: Expansion, rows: IndexArray) -> FloatArray:
    """Scores of some of the run's rows."""
    if len(rows) == 0:
        return np.zeros(0)
    if expansion.plane is not None:
        return expansion.plane.scores(run.X, rows)
    return np.asarray(run.kernel.products(expansion.rows, expansion.coefficients, rows) + expansion.intercept)


def scores_in_time(run: TrainingRun, expansion: Expansion, rows: IndexArray) -> FloatArray:
    """Scores of some of the run's rows; once the run was stopped, only of as many as take about a second.

    Those are drawn at random; the others' scores are NaN.
    """
    if run.ended != "stopped":
        return exact_scores(run, expansion, rows)
    scores = np.full(len(rows), np.nan)
    order = np.random.default_rng(0).permutation(len(rows))
    give_up = time.monotonic() + _SCORING_SECONDS
    for start in range(0, len(rows), _SCORING_ROWS):
        part = order[start : start + _SCORING_ROWS]
        scores[part] = exact_scores(run, expansion, rows[part])
        if time.monotonic() >= give_up:
            break
    return scores


def approximate_scores(run: TrainingRun, expansion: Expansion, rows: IndexArray) -> FloatArray:
    """Scores that the solver knows from training, otherwise from its float32 kernel rows, often at hand.

    The former are as accurate as its decision when to stop. The latter are replaced by exact ones where the
    rounding of these rows could add up to a tenth of the solver's tolerance.
    """
    if expansion.plane is not None:
        return exact_scores(run, expansion, rows)
    return _approximate_sums(run, expansion, rows) + expansion.intercept


def remember_scores(run: TrainingRun, expansion: Expansion, rows: IndexArray) -> Expansion:
    """The expansion with approximate scores of these rows, which a training that starts from it is spared then."""
    if expansion.sums is None:
        return expansion
    sums = expansion.sums.copy()
    sums[rows] = _approximate_sums(run, expansion, rows)
    return replace(expansion, sums=sums)


def _approximate_sums(run: TrainingRun, expansion: Expansion, rows: IndexArray) -> FloatArray:
    """Approximate scores without the intercept."""
    if expansion.sums is not None and not np.isnan(expansion.sums[rows]).any():
        return np.asarray(expansion.sums[rows])
    solution = expansion.solution
    if isinstance(solution, LowRankSolution) and solution.polish is None and solution.factor.kernel is run.kernel:
        factor = solution.factor
        return np.asarray(factor.products(solution.weights)[factor.place[rows]])
    rounding = _FLOAT32_ROUNDING * float(np.linalg.norm(expansion.coefficients))
    if rounding > 0.1 * run.limits.tol and len(rows):
        return np.asarray(run.kernel.products(expansion.rows, expansion.coefficients, rows))
    return approximate_products(run, expansion.rows, expansion.coefficients, rows)


def approximate_products(
    run: TrainingRun, rows: IndexArray, coefficients: FloatArray, columns: IndexArray
) -> FloatArray:
    """Σ_j coefficients_j K(x_{rows_j}, x) for some columns x, from float32 kernel rows (exact if linear)."""
    if run.kernel_parameters.kind == "linear" or len(rows) == 0 or len(columns) == 0:
        return np.asarray(run.kernel.products(rows, coefficients, columns))
    pool = run.kernel.pool(np.concatenate([rows, columns]), run.cache_bytes)
    sums = np.zeros(pool.samples.size)
    pool.update(pool.columns(rows), coefficients, sums, np.ones(len(rows), dtype=bool))
    return np.asarray(sums[pool.columns(columns)])


def ruler_scores(run: TrainingRun, expansion: Expansion) -> FloatArray:
    """Scores of the rows of the run's ruler."""
    if run.ruler is None:
        raise ValueError("the run has no ruler")
    return decision_state(run, expansion, 0.0).decision_function(run.ruler)


def decision_state(run: TrainingRun, expansion: Expansion, threshold: float) -> DecisionState:
    """The expansion as a decision that stands on its own."""
    if isinstance(expansion.plane, Quadratic):
        return expansion.plane.state(float(threshold))
    kernel = run.kernel_parameters
    state = DecisionState(
        kind=kernel.kind,
        gamma=kernel.gamma,
        degree=kernel.degree,
        coef0=kernel.coef0,
        support_vectors=run.X[expansion.rows],
        dual_coef=expansion.coefficients,
        intercept=expansion.intercept,
        threshold=float(threshold),
    )
    if expansion.plane is None:
        return state
    # the linear kernel with the weights as its one vector, in the form of the rows
    weights = expansion.plane.weights[None, :]
    vectors = sparse.csr_array(weights) if sparse.issparse(run.X) else weights
    return replace(state, kind="linear", support_vectors=vectors, dual_coef=np.ones(1))
