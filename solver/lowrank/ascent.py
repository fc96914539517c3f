"""Dual coordinate ascent on the factor, with the equality constraint by the method of multipliers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.lowrank.factor import Factor
from solver.lowrank.loops import ascend
from solver.smo.inner import BIG, directions, survey
from solver.smo.problem import Task, repair
from solver.smo.verification import intercept, width
from solver.typing import BoolArray, FloatArray, IndexArray

# weight of the squared constraint, as a share of the mean curvature or, for narrow bounds, of what moves a variable
# from one to the other: larger ones slow the coordinates down, smaller ones the multiplier
_CONSTRAINT_WEIGHT: Final = 0.1

# a pass over the active variables counts as converged at this share of the tolerance
_INNER_TOLERANCE: Final = 0.3

# looks at all variables without reaching the tolerance before rounding is blamed
_MOST_CHECKS: Final = 25

# float32 elements of the active rows that are copied together: 64 MB
_GATHERED_ELEMENTS: Final = 1 << 24

# seconds between two looks at the clock and the callback
_LOOK_SECONDS: Final = 0.05


# rows of the factor, the row of each variable among them, the variables
_Part = tuple[FloatArray, IndexArray, IndexArray]


@dataclass
class _GatheredRows:
    """Copies of the rows of few active variables, and where each of those has its row."""

    G: FloatArray
    at: IndexArray


class Ascent:
    """State of one solve.

    Minimises `½|w|² + pᵀa + λ(yᵀa - δ) + ½ρ(yᵀa - δ)²` with `w = Σ y_i a_i G_i` over one variable after the other
    within its bounds; after each pass `λ += ρ(yᵀa - δ)`. At the end `yᵀa = δ` and λ is the intercept, which nothing
    penalises.

    Attributes
    ----------
    a : (n,) float64
    w : (rank,) float64
    v : (n,) float64
        `-y · gradient` of the factor's problem, as in `solver.smo.engines`.
    gap : float
    """

    def __init__(self, factor: Factor, task: Task, seed: int) -> None:
        problem = task.problem
        self.factor, self.problem, self.tol, self.budget = factor, problem, task.program.tol, task.budget
        self.a = problem.alpha
        self.w: FloatArray = np.zeros(factor.rank)
        self.v = np.zeros(self.a.size)
        self.gap = np.inf
        self._row = factor.place[problem.idx]
        self._linear = -problem.y * problem.p
        self._random = np.random.default_rng(seed)
        squares = factor.squares[self._row]
        width = problem.hi - problem.lo
        width = width[(width > 0) & (width < BIG)]
        scales = [float(squares.mean()) if squares.size else 0.0, 1 / float(np.median(width)) if width.size else 0.0]
        self._weight = _CONSTRAINT_WEIGHT * (max(scales) or 1.0)
        self._curvature = squares + self._weight
        self._excess = 0.0
        self._looked = time.perf_counter()

    def run(self) -> str:
        """Iterate to the tolerance or a limit; returns the status."""
        moved = np.flatnonzero(self.a)
        self.w = self._weights(moved, self.a[moved])
        self._multiplier = self._survey()
        if self.gap <= self.tol:
            return "optimal"
        by_row = np.argsort(self._row, kind="stable")
        inner = _INNER_TOLERANCE * self.tol
        for _ in range(_MOST_CHECKS):
            status = self._ascend(by_row, inner)
            self._meet_constraint()
            self._survey()
            if self.gap <= self.tol:
                return "optimal"
            if status is not None:
                return status
            inner *= 0.5
        return "precision"

    def _ascend(self, by_row: IndexArray, inner: float) -> str | None:
        """Passes over the variables, fewer and fewer of them, until none that is left violates optimality."""
        active = np.ones(self.a.size, np.bool_)
        left, bound = by_row, BIG
        rows: _GatheredRows | None = None
        while True:
            violation = 0.0
            if left.size * self.factor.rank <= _GATHERED_ELEMENTS:
                if rows is None or 4 * left.size < len(rows.G):
                    rows = _GatheredRows(self.factor.gather(self._row[left]), np.arange(left.size))
                parts: Iterable[_Part] = [(rows.G, rows.at, left)]
            else:
                parts = self._chunks(left)
            for G, row, variables in parts:
                order = self._random.permutation(variables.size)
                violation = max(violation, self._visit(G, row[order], variables[order], bound, active))
                reason = self._reason_to_stop(violation)
                if reason is not None:
                    return reason
            step = self._weight * self._excess
            self._multiplier += step
            if violation <= inner:
                if abs(step) <= inner:
                    return None
                # nothing moves at this multiplier, but the constraint is not met: the multiplier is too slow
                self._curvature += self._weight
                self._weight *= 2
                active[:] = True
                left, bound, rows = by_row, BIG, None
                continue
            bound = max(violation, self.tol)
            kept = active[left]
            left = left[kept]
            if rows is not None:
                rows.at = rows.at[kept]

    def _chunks(self, variables: IndexArray) -> Iterator[_Part]:
        """The chunks of the factor in random order, with the variables whose rows they hold."""
        n, size = self.factor.n_samples, self.factor.chunk_rows
        begins = np.arange(0, n, size)
        bounds = np.searchsorted(self._row[variables], np.append(begins, n))
        for k in self._random.permutation(begins.size):
            part = variables[bounds[k] : bounds[k + 1]]
            if part.size:
                begin = int(begins[k])
                yield self.factor.rows(begin, min(n, begin + size)), self._row[part] - begin, part

    def _visit(self, G: FloatArray, row: IndexArray, variables: IndexArray, bound: float, active: BoolArray) -> float:
        problem = self.problem
        self._excess, violation = ascend(
            G, row, variables, problem.y, problem.p, problem.lo, problem.hi, self._curvature, self.a, self.w,
            self._multiplier, self._weight, self._excess, bound, active,
        )  # fmt: skip
        self.budget.iterations += variables.size
        return float(violation)

    def _reason_to_stop(self, violation: float) -> str | None:
        now = time.perf_counter()
        if now - self._looked < _LOOK_SECONDS and self.budget.steps_left:
            return None
        self._looked = now
        return self.budget.reason_to_stop(violation)

    def _meet_constraint(self) -> None:
        """Move the few variables it takes to meet the equality constraint to rounding."""
        problem = self.problem
        start = self.a.copy()
        # The free variable with the most room takes all: one that is moved to a bound, or off it, would violate
        # optimality by far more than the constraint was missed.
        room = np.minimum(start - problem.lo, problem.hi - start)
        widest = int(np.argmax(room))
        excess = float(problem.y @ start) - problem.delta
        if room[widest] > abs(excess):
            start[widest] -= problem.y[widest] * excess
        exact = repair(start, problem.y, problem.lo, problem.hi, problem.delta)
        moved = np.flatnonzero(exact != self.a)
        self.w += self._weights(moved, exact[moved] - self.a[moved])
        self.a[moved] = exact[moved]
        self._excess = 0.0

    def _weights(self, variables: IndexArray, change: FloatArray) -> FloatArray:
        """`Σ_i y_i change_i G_i` of some variables."""
        if not variables.size:
            return np.zeros(self.factor.rank)
        change = self.problem.y[variables] * change
        if variables.size > self.factor.chunk_rows:
            sums = np.bincount(self._row[variables], change, minlength=self.factor.n_samples)
            return self.factor.weights(sums.astype(np.float64))
        order = np.argsort(self._row[variables], kind="stable")
        rows = self.factor.gather(self._row[variables][order])
        return np.asarray(change[order] @ rows.astype(np.float64))

    def _survey(self) -> float:
        """Compute v and the gap afresh; returns the intercept that the variables imply."""
        problem = self.problem
        moves = directions(problem.y, self.a, problem.lo, problem.hi)
        highest, lowest, _ = survey(
            self.factor.products(self.w), self._row, self._linear, problem.y * self.a, moves, self.v
        )
        self.gap = width(highest, lowest)
        return intercept(self.v, (self.a > problem.lo) & (self.a < problem.hi), highest, lowest)
