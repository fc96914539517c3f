"""What all engines end with: a result checked in float64, and the solution made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.smo.inner import BIG, extremes
from solver.smo.problem import DualProblem, Solution, Task, UnboundedError
from solver.typing import BoolArray, FloatArray, IndexArray

# a variable without a bound beyond this has no minimum to go to
_RUNAWAY: Final = 1e10


@dataclass
class Outcome:
    """What an engine leaves behind: alpha and v agree with each other to float64."""

    alpha: FloatArray
    v: FloatArray
    gap: float
    status: str
    n_kernel_rows: int


def width(highest: float, lowest: float) -> float:
    """The gap between the extremes; 0 where one side has no variable that may move."""
    return max(0.0, highest - lowest) if highest > -BIG and lowest < BIG else 0.0


def intercept(v: FloatArray, free: BoolArray, highest: float, lowest: float) -> float:
    """The mean of v over the free variables, or the middle of the interval that the extremes leave."""
    if free.any():
        return float(v[free].mean())
    if highest > -BIG and lowest < BIG:
        return 0.5 * (highest + lowest)
    return highest if highest > -BIG else lowest if lowest < BIG else 0.0


def true_gap(problem: DualProblem, alpha: FloatArray, v: FloatArray) -> float:
    """The gap of `alpha` with its `v`."""
    highest, lowest, _, _ = extremes(v, problem.y, alpha, problem.lo, problem.hi)
    return width(highest, lowest)


def check_bounded(alpha: FloatArray, lo: FloatArray, hi: FloatArray) -> None:
    """Raise when a variable without a bound runs away (a step along no curvature has length gap / TAU)."""
    if np.any((alpha > _RUNAWAY) & (hi >= BIG)) or np.any((alpha < -_RUNAWAY) & (lo <= -BIG)):
        raise UnboundedError(
            "the objective falls without end: variables without bounds share a sample or a direction that the kernel"
            " does not penalise"
        )


def strongest(candidates: IndexArray, keys: FloatArray, count: int) -> IndexArray:
    """Those `count` of the candidates with the smallest keys, in index order."""
    if candidates.size <= count:
        return candidates
    return candidates[np.sort(np.argpartition(keys, count)[:count])]


def verify(
    problem: DualProblem, alpha: FloatArray, v: FloatArray, products: Callable[[IndexArray, IndexArray], FloatArray]
) -> tuple[FloatArray, float]:
    """Recompute in float64 what decides the gap.

    That is v of the variables that could be the extremes: those within eight times the largest error seen so far of
    the exact extremes. Starts with the 32 outermost of each side.

    Parameters
    ----------
    problem : DualProblem
    alpha : (n,) float64
    v : (n,) float64
        As the engine kept it; not changed.
    products : callable
        `products(variables, samples)`: `Σ_j y_j alpha_j K(idx_j, sample)` over these variables, in float64.

    Returns
    -------
    v : (n,) float64
        With the recomputed values.
    gap : float
    """
    linear = -problem.y * problem.p
    support = np.flatnonzero(alpha)
    grow, shrink = alpha < problem.hi, alpha > problem.lo
    up = np.where(problem.y > 0, grow, shrink)
    down = np.where(problem.y > 0, shrink, grow)
    up_at, down_at = np.flatnonzero(up), np.flatnonzero(down)
    todo = np.union1d(strongest(up_at, -v[up_at], 32), strongest(down_at, v[down_at], 32))
    known = np.zeros(v.size, np.bool_)
    v = v.copy()
    error = 0.0
    highest, lowest = -BIG, BIG
    while todo.size:
        exact = linear[todo] - products(support, problem.idx[todo])
        error = max(error, float(np.abs(exact - v[todo]).max()))
        v[todo] = exact
        known[todo] = True
        highest = float(v[up & known].max(initial=-BIG))
        lowest = float(v[down & known].min(initial=BIG))
        margin = 8 * error
        todo = np.flatnonzero(~known & ((up & (v > highest - margin)) | (down & (v < lowest + margin))))
    return v, width(highest, lowest)


def make_solution(task: Task, outcome: Outcome, engine: str) -> Solution:
    """What an engine's outcome says: intercept, objective, counts of support vectors.

    Parameters
    ----------
    task : Task
        Its budget counted the iterations and seconds.
    outcome : Outcome
    engine : str
        Name for `Solution.engine`.
    """
    problem, alpha, v = task.problem, outcome.alpha, outcome.v
    highest, lowest, _, _ = extremes(v, problem.y, alpha, problem.lo, problem.hi)
    free = (alpha > problem.lo) & (alpha < problem.hi)
    support = alpha != 0
    return Solution(
        alpha=alpha,
        b=intercept(v, free, highest, lowest),
        b_low=highest if highest > -BIG else -np.inf,
        b_high=lowest if lowest < BIG else np.inf,
        # no BLAS here: its threads would spin on for 0.1 s beside the next solve
        objective=0.5 * float((alpha * (problem.p - problem.y * v)).sum()),
        gap=outcome.gap,
        iterations=task.budget.iterations,
        status=outcome.status,
        gradient=-problem.y * v,
        n_support=int(np.count_nonzero(support)),
        n_bounded=int(np.count_nonzero(support & ~free)),
        n_kernel_rows=outcome.n_kernel_rows,
        seconds=task.budget.seconds,
        engine=engine,
    )
