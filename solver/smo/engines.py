"""The CPU engines: small problems directly on their kernel matrix, all others by working sets.

Notation: `v = -y · gradient`. With `up` the variables whose y·a may grow and `down` those whose y·a may shrink,
alpha is optimal when `max_up v <= min_down v`; the difference is the gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from solver.kernels.aligned import aligned_empty, aligned_zeros
from solver.kernels.kernel import Kernel
from solver.kernels.parallel import single_threaded_blas
from solver.kernels.row_cache import default_cache_bytes
from solver.smo.inner import GROWS, SHRINKS, directions, solve_block, survey, violators
from solver.smo.problem import Solution, Task
from solver.smo.stopping import Stall
from solver.smo.verification import Outcome, check_bounded, make_solution, strongest, true_gap, verify, width
from solver.typing import BoolArray, FloatArray, IndexArray

# up to so many variables the whole matrix is computed in float64 (2 MB)
DIRECT_LIMIT: Final = 512

# least curvature along a pair of variables, as in LIBSVM
TAU: Final = 1e-12

# steps between two looks at the clock and the callback; a step takes about a microsecond
STEPS_A_LOOK: Final = 50_000

# most steps of an inner solve, for each variable of its block
STEPS_A_VARIABLE: Final = 20

# estimated seconds of one thread between two looks at the clock and the callback
_SECONDS_A_LOOK: Final = 0.1
_FEWEST_ROWS: Final = 16
_MOST_ROWS: Final = 1024

# a kernel value in float64 costs as much as so many in float32
_EXACT: Final = 4.0


class _StopError(Exception):
    """A limit was met between two surveys; `status` tells which."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def solve_on_cpu(task: Task) -> Solution:
    """Solve by the engine that suits the task, whose budget is used up."""
    name = engine_name(task)
    # BLAS sums in another order on several threads, and its threads would spin on beside the next solve
    with single_threaded_blas():
        outcome = _solve_direct(task) if name == "direct" else _WorkingSet(task).run()
    return make_solution(task, outcome, name)


def engine_name(task: Task) -> str:
    """The engine that suits a task: small ones directly, others by working sets."""
    if task.problem.idx.size <= DIRECT_LIMIT:
        return "direct"
    return "linear" if getattr(task.program.kernel, "kind", None) == "linear" else "working-set"


def _solve_direct(task: Task) -> Outcome:
    """Solve with the whole kernel matrix at hand, all in float64."""
    problem, tol, budget = task.problem, task.program.tol, task.budget
    kernel = task.program.kernel
    samples, variable = np.unique(problem.idx, return_inverse=True)
    K = kernel.matrix(samples, samples)
    if samples.size < problem.idx.size or not np.array_equal(variable, np.arange(variable.size)):
        K = K[variable][:, variable]
    K = np.ascontiguousarray(K)
    y, alpha = problem.y, problem.alpha
    linear = -y * problem.p
    v = linear - K @ (y * alpha)
    stop = tol
    gap = true_gap(problem, alpha, v)
    status = "optimal" if gap <= tol else budget.reason_to_stop(gap)
    while status is None:
        steps, gap = solve_block(
            K, y, v, alpha, problem.lo, problem.hi, stop, min(STEPS_A_LOOK, budget.steps_left), TAU
        )
        budget.iterations += steps
        check_bounded(alpha, problem.lo, problem.hi)
        if gap <= stop or steps == 0:
            # v was updated step by step: judge by a fresh one
            v = linear - K @ (y * alpha)
            gap = true_gap(problem, alpha, v)
            if gap <= tol:
                status = "optimal"
            elif steps == 0 and budget.steps_left:
                status = "precision"
            stop = 0.5 * tol
        status = status or budget.reason_to_stop(gap)
    v = linear - K @ (y * alpha)
    return Outcome(alpha, v, true_gap(problem, alpha, v), status, samples.size)


class _WorkingSet:
    """State of one solve by working sets.

    F holds `Σ_j y_j alpha_j K(idx_j, ·)` on the columns of the kernel's pool, so that `v = -y p - F[column]`;
    variables that share a sample share a column.
    """

    def __init__(self, task: Task) -> None:
        program, problem = task.program, task.problem
        self.kernel: Kernel = program.kernel
        self.problem, self.tol, self.budget = problem, program.tol, task.budget
        memory = default_cache_bytes() if program.cache_bytes is None else program.cache_bytes
        self.pool = self.kernel.pool(problem.idx, memory)
        self.rows_before = self.pool.rows_computed
        self.column = self.pool.columns(problem.idx)
        self.shared = bool((np.bincount(self.column) > 1).any())
        self.linear = -problem.y * problem.p
        self.alpha = problem.alpha
        self.signed = problem.y * self.alpha
        self.moves = directions(problem.y, self.alpha, problem.lo, problem.hi)
        # what p adds to the objective
        self.linear_part = float((problem.p * self.alpha).sum())
        in_order = np.array_equal(self.column, np.arange(self.pool.samples.size))
        self.surveyed = self.column[:0] if in_order else self.column
        self.F: FloatArray = aligned_zeros(self.pool.samples.size, np.float64)
        self.size = min(problem.idx.size, set_size(problem.idx.size), self.pool.largest_set)
        self.exact = False  # float64 blocks and updates, for the last bits
        self.stall = Stall()
        self.gap = np.inf  # at the last survey
        self.started = False  # until then there is no gradient, so nothing to end with

    def run(self) -> Outcome:
        """Iterate to the tolerance or a limit."""
        self._start()
        self.started = True
        v = aligned_empty(self.problem.idx.size, np.float64)
        chosen = np.empty(0, np.int64)
        while True:
            highest, lowest, product = survey(self.F, self.surveyed, self.linear, self.signed, self.moves, v)
            objective = 0.5 * product + self.linear_part
            self.gap = gap = width(highest, lowest)
            self.stall.note(objective)
            moved = False
            if gap > self.tol and not self.stall.is_reached:
                reason = self.budget.reason_to_stop(gap)
                if reason is not None:
                    return self._finish(v, reason)
                chosen = self._choose(v, highest, lowest, chosen)
                try:
                    moved = self._improve(chosen, v, gap)
                except _StopError as stop:
                    return self._finish(v, stop.status)
            if not moved:
                outcome = self._finish(v, "optimal")
                if outcome.gap <= self.tol:
                    return outcome
                self.gap = outcome.gap
                if self.exact:
                    outcome.status = self.budget.reason_to_stop(self.gap) or "precision"
                    return outcome
                try:
                    self._refine()
                except _StopError as stop:
                    outcome.status = stop.status
                    return outcome
                chosen = chosen[:0]

    def _start(self) -> None:
        problem = self.problem
        if problem.gradient is None:
            moved = np.flatnonzero(self.alpha)
            self._add(moved, problem.y[moved] * self.alpha[moved])
            return
        known = ~np.isnan(problem.gradient)
        unknown = np.setdiff1d(self.column[~known], self.column[known])
        self.F[self.column[known]] = (problem.y * (problem.gradient - problem.p))[known]
        if unknown.size:
            # new variables, as a rule the last columns: only that part of the kernel rows is looked at
            sums = np.zeros_like(self.F)
            support = np.flatnonzero(problem.gradient_at)
            self._fold(support, (problem.y * problem.gradient_at)[support], sums, int(unknown.min()))
            self.F[unknown] = sums[unknown]
        change = problem.y * (self.alpha - problem.gradient_at)
        moved = np.flatnonzero(change)
        self._add(moved, change[moved])

    def _add(self, variables: IndexArray, coefficients: FloatArray) -> None:
        """Fold `coefficients` of some variables' samples into F."""
        self._fold(variables, coefficients, self.F)

    def _fold(self, variables: IndexArray, coefficients: FloatArray, sums: FloatArray, begin: int = 0) -> None:
        """Add `coefficients` times the kernel rows of some variables' samples to `sums[begin:]`."""
        columns = self.column[variables]
        keep = self._free(variables)
        if self.shared:
            columns, inverse = np.unique(columns, return_inverse=True)
            coefficients = np.bincount(inverse, coefficients, minlength=columns.size).astype(np.float64)
            keep = np.bincount(inverse, keep, minlength=columns.size) > 0
        if self.exact:
            samples = self.pool.samples
            sums[begin:] += self.kernel.products(samples[columns], coefficients, samples[begin:])
            return
        for part in self._parts(columns.size, 1.0):
            self.pool.update(columns[part], coefficients[part], sums, keep[part], begin)

    def _parts(self, n_rows: int, factor: float) -> Iterator[slice]:
        """Rows to be computed between two looks, each of whose values costs `factor` times one of the pool."""
        seconds = factor * self.pool.seconds_an_element * self.F.size
        count = _MOST_ROWS if seconds == 0 else max(_FEWEST_ROWS, min(_MOST_ROWS, int(_SECONDS_A_LOOK / seconds)))
        for s in range(0, n_rows, count):
            if s and self.started:
                self._look()
            yield slice(s, s + count)

    def _look(self) -> None:
        """Stop if the callback or a limit says so."""
        status = self.budget.reason_to_stop(self.gap)
        if status is not None:
            raise _StopError(status)

    def _free(self, variables: IndexArray) -> BoolArray:
        free: BoolArray = self.moves[variables] == GROWS | SHRINKS
        return free

    def _choose(self, v: FloatArray, highest: float, lowest: float, last: IndexArray) -> IndexArray:
        """The free variables of the last set and the strongest violators of both sides."""
        kept = last[self._free(last)]
        kept = kept[max(0, kept.size - self.size // 2) :]
        new = self.size - kept.size
        moves = self.moves.copy()
        moves[kept] = 0
        up, down = violators(v, moves, highest, lowest, new // 2, new)
        up = strongest(up, -v[up], new // 2)
        moves[up] = 0
        down = down[moves[down] != 0]
        down = strongest(down, v[down], new - up.size)
        return np.concatenate([kept, up, down])

    def _improve(self, chosen: IndexArray, v: FloatArray, gap: float) -> bool:
        """Solve for the chosen variables; tell whether any moved."""
        problem = self.problem
        if self.exact:
            samples = problem.idx[chosen]
            K = self.kernel.matrix(samples, samples)
        else:
            K = self.pool.block(self.column[chosen])
        before = self.alpha[chosen]
        after = before.copy()
        y, lo, hi = problem.y[chosen], problem.lo[chosen], problem.hi[chosen]
        steps, _ = solve_block(
            K, y, v[chosen], after, lo, hi, max(0.1 * gap, 0.5 * self.tol),
            min(STEPS_A_VARIABLE * chosen.size, self.budget.steps_left), TAU,
        )  # fmt: skip
        self.budget.iterations += steps
        change = y * (after - before)
        moved = np.flatnonzero(change)
        self.alpha[chosen] = after
        self.signed[chosen] = y * after
        self.moves[chosen] = directions(y, after, lo, hi)
        self.linear_part += float((problem.p[chosen] * (after - before)).sum())
        check_bounded(after, lo, hi)
        try:
            self._add(chosen[moved], change[moved])
        except _StopError:
            self.alpha[chosen] = before  # what v belongs to
            raise
        return moved.size > 0

    def _refine(self) -> None:
        """Compute F afresh in float64; float32 errors of what follows are then proportional to small changes only.

        If it is stopped meanwhile, F is as it was.
        """
        self.exact = not self.stall.may_refine
        self.stall.refine()
        support = np.flatnonzero(self.alpha)
        sums = np.zeros(self.problem.idx.size)
        self._look()
        for part in self._parts(support.size, _EXACT):
            sums += self._products(support[part], self.problem.idx)
        self.F[self.column] = sums

    def _products(self, variables: IndexArray, samples: IndexArray) -> FloatArray:
        coefficients = self.problem.y[variables] * self.alpha[variables]
        return self.kernel.products(self.problem.idx[variables], coefficients, samples)

    def _finish(self, v: FloatArray, status: str) -> Outcome:
        v, gap = verify(self.problem, self.alpha, v, self._products)
        return Outcome(self.alpha, v, gap, status, self.pool.rows_computed - self.rows_before)


def set_size(n: int) -> int:
    """Variables of a working set of a problem of n variables."""
    return 512 if n < 15_000 else 768 if n < 40_000 else 1024
