"""Where a run's problems go that are too large for the exact solver, and what the report says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from solver.choices import EngineName
from solver.engine_choice import Choice, choose_engine, exact_limit, values_a_row
from solver.kernels.kernel import FeatureKernel
from solver.lowrank import Factor, Interrupted, LowRankSolution
from solver.lowrank import solve_lowrank as solve_on_factor
from solver.report import LowRankDifference, LowRankReport, PolishReport
from solver.smo import Program, Solution, StoppingLimits, solve
from solver.smo.stopping import Budget
from solver.typing import FloatArray

# rows of the stand-in that is trained when a limit was met before there was a factor: a fraction of a second
_STAND_IN_ROWS: Final = 2000

# rows that the comparison with the exact solver trains on, and rows it compares on
_COMPARED_ROWS: Final = 4000


class LowRank:
    """The low-rank engine of one run; its factor is made when the first problem needs it.

    Parameters
    ----------
    kernel : FeatureKernel
        Over the run's rows.
    engine : {"auto", "exact", "lowrank"}
    cache_bytes : int
        Memory for kernel rows.
    """

    def __init__(self, kernel: FeatureKernel, engine: EngineName, cache_bytes: int) -> None:
        self.kernel, self.engine, self.cache_bytes = kernel, engine, cache_bytes
        self.choice: Choice | None = None
        self._width = values_a_row(kernel.X)
        self._factor: Factor | None = None

    @property
    def is_used(self) -> bool:
        """Whether any problem went to this engine."""
        return self._factor is not None

    def takes(self, n: int, seconds_left: float | None) -> bool:
        """Whether a problem of n variables is for this engine; folds go where the whole went."""
        if self._factor is not None and 2 * n > self._factor.n_samples:
            return True
        choice = choose_engine(self.engine, n, self._width, self.kernel.kind, self.cache_bytes, seconds_left)
        if choice.low_rank:
            self.choice = choice
        return choice.low_rank

    def solve(self, program: Program, *, polish: bool = True) -> Solution:
        """Solve a program on the run's kernel by the factor.

        A limit that is met before there is a factor leaves the exact solution on some rows, with the status of that
        limit.
        """
        budget = Budget(replace(program.limits, max_iter=None))
        if self._factor is None:
            try:
                self._factor = Factor.build(self.kernel, budget=budget)
            except Interrupted as interrupted:
                return self._stand_in(program, str(interrupted))
        left = budget.seconds_left
        return solve_on_factor(
            self._factor,
            replace(program, limits=replace(program.limits, max_seconds=left), cache_bytes=self.cache_bytes),
            polish_up_to=exact_limit(self._width, self.cache_bytes, left) if polish else 0,
        )

    def _stand_in(self, program: Program, status: str) -> Solution:
        n = np.size(program.idx)
        some = np.sort(np.random.default_rng(0).permutation(n)[:_STAND_IN_ROWS])
        given = (program.idx, program.y, program.p, program.lo, program.hi)
        idx, y, p, lo, hi = (np.broadcast_to(part, n)[some] for part in given)
        limits = StoppingLimits(max_seconds=1.0)
        solution = solve(Program(program.kernel, idx, y, p, lo, hi, program.delta, tol=program.tol, limits=limits))
        alpha, gradient = np.zeros(n), np.full(n, np.nan)
        alpha[some], gradient[some] = solution.alpha, solution.gradient
        return replace(solution, alpha=alpha, gradient=gradient, status=status, engine=f"sample of {len(some)} rows")

    def report(
        self, solution: Solution, y: FloatArray, cost: FloatArray, tol: float, *, compare: bool
    ) -> LowRankReport | None:
        """What the report says when a model is a low-rank one; None for an exact one.

        Parameters
        ----------
        solution : Solution
            The model's.
        y : float64 array
            +1, -1, or 0 for an unlabelled row.
        cost : float64 array
            Upper bound of each row's variable.
        tol : float
        compare : bool
            Whether to train on a sample to tell the difference to the exact solver.
        """
        if not isinstance(solution, LowRankSolution):
            return None
        polish = solution.polish
        return LowRankReport(
            reason=None if self.choice is None else self.choice.reason,
            landmarks=len(solution.factor.landmarks),
            rank=solution.factor.rank,
            factor_in_file=solution.factor.in_file,
            polish=None if polish is None else PolishReport(polish.candidates, polish.missed),
            difference=self._difference(solution, y, cost, tol) if compare else None,
        )

    def _difference(
        self, solution: LowRankSolution, y: FloatArray, cost: FloatArray, tol: float
    ) -> LowRankDifference | None:
        """Both engines trained on the same sample of the labelled rows, compared on rows that neither has seen."""
        rows = np.random.default_rng(0).permutation(np.flatnonzero(y))[: 2 * _COMPARED_ROWS]
        training, others = np.sort(rows[::2]), np.sort(rows[1::2])
        if len(np.unique(y[training])) < 2 or not len(others):
            return None
        factor, kernel = solution.factor, solution.factor.kernel
        program = Program(
            kernel, training, y[training], -1.0, 0.0, cost[training], tol=tol, limits=StoppingLimits(max_seconds=30.0),
            cache_bytes=self.cache_bytes,
        )  # fmt: skip
        exact = solve(program)
        low = solve_on_factor(factor, program, polish_up_to=0 if solution.polish is None else len(training))
        if exact.status != "optimal" or low.status != "optimal":
            return None
        f = kernel.products(training, y[training] * exact.alpha, others) + exact.b
        if low.polish is None:
            g = factor.products(low.weights)[factor.place[others]] + low.b
        else:
            g = kernel.products(training, y[training] * low.alpha, others) + low.b
        return LowRankDifference(
            rows_trained=len(training),
            rows_compared=len(others),
            accuracy_exact=float(np.mean((f > 0) == (y[others] > 0))),
            accuracy_lowrank=float(np.mean((g > 0) == (y[others] > 0))),
            same_decision=float(np.mean((f > 0) == (g > 0))),
            mean_score_difference=float(np.mean(np.abs(f - g))),
            mean_score=float(np.mean(np.abs(f))),
        )
