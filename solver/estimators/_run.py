"""One fit in progress: the rows, their kernel, the time that is left and what was spent."""

from __future__ import annotations

import copy
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from solver.choices import Certificate, EngineName
from solver.estimators._expansion import Expansion
from solver.estimators._lowrank import LowRank
from solver.kernels.kernel import FEW, FeatureKernel, Kernel
from solver.kernels.row_cache import default_cache_bytes
from solver.parts import ALONE, PartExecutor
from solver.smo import Callback, Program, Solution, Start, StoppingLimits, kernel_of_its_own, solve, solve_many
from solver.smo.engines import DIRECT_LIMIT
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

# when a run is told to stop before it has any model, its first one may still take so long
_FIRST_MODEL_SECONDS: Final = 3.0

FitCallback = Callable[[float, dict[str, Any]], Any]
EndReason = Literal["", "solver_limit", "stopped"]


@dataclass(frozen=True)
class KernelParameters:
    """A kernel with all its parameters as numbers."""

    kind: str
    gamma: float
    degree: int
    coef0: float


@dataclass(frozen=True)
class SolverLimits:
    """What one fit may spend; the caller stops it after `planned_seconds`."""

    tol: float
    max_iter: int | None
    max_seconds: float | None
    cache_bytes: int | None
    backend: str
    solver: EngineName = "exact"
    planned_seconds: float | None = None


@dataclass
class TrainingRun:
    """The rows of one fit and the solver calls on them, which share kernel rows, deadline and progress.

    Attributes
    ----------
    X : dense or CSR matrix of shape (n, d)
        Labelled and unlabelled rows.
    y : float64 array of shape (n,)
        +1, -1, or 0 for an unlabelled row.
    cost : float64 array of shape (n,)
        Factor on C of each row: class weight times sample weight.
    ended : str
        Why training ended early, empty while it has not.
    iterations : int
        Of all solver calls.
    has_model : bool
        Whether a solver call has ended. The first one has a few seconds even if the run had to stop before it
        began: a model that was hardly trained is of more use than none.
    memo : dict
        What a method computes once and uses in each of its trainings.
    trace : list of dict
        What a method has to tell of its training, JSON-ready; that of its final model goes into the report.
    seed : int
        Of the fit, for what a method draws: where each training begins anew with it, parts have the same bits anywhere.
    parts : PartExecutor
        Who computes what falls into parts.
    tuned_C : float, optional
        C of the labelled rows where it was tuned.
    ruler : dense or CSR matrix of shape (m, d), optional
        Unlabelled rows among which the scores of models of different folds are ranked; nothing is trained on it.
    certificate : str
        What a confidence would test a target by.
    groups : int array of shape (n,), optional
        Number of what lies on one side of every split, of each row; None where that is each row, or each case of rows
        that are the same.
    before : float
        Share of the fit that is done when this run begins; what it reports of itself is a share of the rest.
    """

    X: Matrix
    y: FloatArray
    cost: FloatArray
    kernel_parameters: KernelParameters
    limits: SolverLimits
    callback: FitCallback | None = None
    fraction: float = 0.0
    ended: EndReason = ""
    iterations: int = 0
    has_model: bool = False
    memo: dict[str, Any] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)
    seed: int = 0
    parts: PartExecutor = ALONE
    tuned_C: float | None = None  # noqa: N815 (as C itself)
    ruler: Matrix | None = None
    certificate: Certificate = "strict"
    groups: IndexArray | None = None
    before: float = 0.0
    started: float = field(default_factory=time.monotonic)
    _solving_since: float = 0.0

    def __post_init__(self) -> None:
        kernel = self.kernel_parameters
        self.kernel = FeatureKernel(
            self.X, kind=kernel.kind, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0
        )
        self.low_rank = LowRank(self.kernel, self._engine_to_use(), self.cache_bytes)

    @property
    def labelled(self) -> IndexArray:
        """Labelled rows."""
        return np.flatnonzero(self.y)

    @property
    def unlabelled(self) -> IndexArray:
        """Unlabelled rows."""
        return np.flatnonzero(self.y == 0)

    def is_exhausted(self) -> bool:
        """Whether nothing more can be trained: told to stop, or out of time."""
        limit = self.limits.max_seconds
        return self.ended == "stopped" or (limit is not None and self.seconds >= limit)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.started

    @property
    def cache_bytes(self) -> int:
        """Memory for kernel values."""
        limit = self._cache_limit
        return default_cache_bytes() if limit is None else limit

    @property
    def _cache_limit(self) -> int | None:
        return self.parts.cache_bytes if self.limits.cache_bytes is None else self.limits.cache_bytes

    def rebuilt(self, **changes: Any) -> TrainingRun:
        """A run with these changes that goes on from here, with a kernel and a low-rank engine of its own.

        It shares no kernel rows with this one.
        """
        return replace(self, **changes)  # which calls `__post_init__`

    def apart(self, **changes: Any) -> TrainingRun:
        """A run with these changes that has nothing in common with this one but clock and callback.

        What is trained on it has the same bits wherever and whenever that happens. It never returns a model, so that it
        may be stopped before it has one.
        """
        return self.rebuilt(**{"memo": {}, "trace": [], "iterations": 0, "has_model": True, **changes})

    def tuned(self, C: float, gamma: float) -> dict[str, Any]:
        """What distinguishes a run with this C and gamma, for `rebuilt` and `apart`."""
        return {"tuned_C": C, "kernel_parameters": replace(self.kernel_parameters, gamma=gamma)}

    def tuned_to(self, C: float, gamma: float) -> TrainingRun:
        """A run on the same rows and clock with this C and gamma, the same one each time; it may be this one.

        With the gamma of this one it shares kernel rows and memo.
        """
        if (C, gamma) == (self.tuned_C, self.kernel_parameters.gamma):
            return self
        runs: dict[tuple[float, float], TrainingRun] = self.memo.setdefault("tuned", {})
        if (C, gamma) not in runs:
            if gamma == self.kernel_parameters.gamma:
                other = copy.copy(self)
                other.tuned_C = C
            else:
                other = self.apart(**self.tuned(C, gamma))
            runs[C, gamma] = other
        other = runs[C, gamma]
        other.fraction, other.ended = self.fraction, self.ended
        return other

    def solve(
        self,
        rows: IndexArray,
        y: FloatArray,
        hi: ArrayLike,
        *,
        p: ArrayLike = -1.0,
        lo: ArrayLike = 0.0,
        delta: float = 0.0,
        alpha0: FloatArray | None = None,
        grad0: FloatArray | None = None,
        kernel: Kernel | None = None,
    ) -> Solution:
        """Solve one program on the run's rows; see `solver.smo.Program` for its parts.

        `alpha0` need not be feasible. A solve that ends early marks the run as ended; its partial solution is returned
        all the same.
        """
        self._solving_since = time.monotonic()
        # a low-rank solution's gradient is not that of the exact problem
        start = None if alpha0 is None else Start(alpha0, None if self.low_rank.is_used else grad0)
        program = replace(self._program(rows, y, hi, self._seconds_left()), p=p, lo=lo, delta=delta, start=start)
        if kernel is None and self.low_rank.takes(len(rows), self._seconds_to_plan_with()):
            solution = self.low_rank.solve(program)
        else:
            solution = solve(program if kernel is None else replace(program, kernel=kernel))
        self._note(solution)
        return solution

    def _program(
        self,
        rows: IndexArray,
        y: FloatArray,
        hi: ArrayLike,
        max_seconds: float | None = None,
        callback: Callback | None = None,
    ) -> Program:
        """A C-SVC on some of the run's rows, within its limits; by default its own callback may cancel."""
        limits = self.limits
        if callback is None and self.callback is not None:
            callback = self._on_iteration
        return Program(
            self.kernel, rows, y, -1.0, 0.0, hi, tol=limits.tol,
            limits=StoppingLimits(limits.max_iter, max_seconds, callback),
            cache_bytes=self._cache_limit, backend=limits.backend,
        )  # fmt: skip

    def train(self, rows: IndexArray, y: FloatArray, hi: FloatArray, start: Expansion | None = None) -> Expansion:
        """Train the C-SVC on some of the run's rows; its scores of the others come with it where that costs little.

        Parameters
        ----------
        rows : int array
            Each at most once.
        y, hi : float64 arrays
            Labels and upper bounds.
        start : Expansion, optional
            From an earlier training: its duals stay where row and label did.
        """
        n, k = len(self.y), len(rows)
        others = self._scored_besides(rows)
        variables = np.concatenate([rows, others])
        signs = np.concatenate([y, np.ones(len(others))])
        alpha0 = grad0 = None
        if start is not None and start.duals is not None:
            # those that do not fit any more are repaired by the solver, and the change is folded into the gradient
            alpha0 = signs * start.duals[variables]
            if start.sums is not None and np.count_nonzero(alpha0) == np.count_nonzero(start.duals):
                grad0 = signs * start.sums[variables] - 1.0
        solution = self.solve(variables, signs, np.concatenate([hi, np.zeros(len(others))]), alpha0=alpha0, grad0=grad0)
        duals, sums = np.zeros(n), np.full(n, np.nan)
        duals[variables] = signs * solution.alpha
        sums[variables] = signs * (solution.gradient + 1.0)
        own = replace(solution, alpha=solution.alpha[:k], gradient=solution.gradient[:k])
        return replace(Expansion.from_solution(rows, y, own, n), sums=sums, duals=duals)

    def _scored_besides(self, rows: IndexArray) -> IndexArray:
        """Rows that take part in a training on others as variables that stay 0, so that it tells their scores.

        That is all of them if the training computes kernel rows which run over most of them anyway.
        """
        n, k = len(self.y), len(rows)
        if k <= DIRECT_LIMIT or k * FEW < n or self.kernel_parameters.kind == "linear":
            return np.zeros(0, dtype=np.intp)
        if self.low_rank.takes(k, self._seconds_to_plan_with()):
            return np.zeros(0, dtype=np.intp)
        others = np.ones(n, dtype=bool)
        others[rows] = False
        return np.flatnonzero(others)

    def solve_along_costs(
        self,
        folds: Sequence[BoolArray],
        costs: Sequence[FloatArray],
        kernel: Kernel | None = None,
        progress: Callable[[int], object] = lambda _begun: None,
    ) -> list[list[Solution]]:
        """Solve, for each fold, the run's labelled problem along growing costs, on all threads.

        Parameters
        ----------
        folds : sequence of bool arrays of shape (n,)
            Rows that the fold holds out: variables that stay 0, whose gradients tell their scores.
        costs : sequence of float64 arrays of shape (n,)
            Upper bounds, each solved from the solution for the one before.
        kernel : Kernel, optional
            From `kernel_of_folds`, when these are not all folds.
        progress : callable, optional
            Told how many of the problems have begun to take time, as each one does.

        Returns
        -------
        list of list of Solution
            By fold, then by cost. Once the run is exhausted, those that are left end at once.
        """
        lock = threading.Lock()
        stopped = False
        begun: set[int] = set()

        def is_over(number: int, iteration: int, gap: float) -> bool:
            nonlocal stopped
            with lock:
                if number not in begun:
                    begun.add(number)
                    progress(len(begun))
                stopped = stopped or self._on_iteration(iteration, gap)
            return stopped or self.is_exhausted()

        if kernel is None and self.low_rank.takes(len(self.y), self._seconds_to_plan_with()):
            paths = []
            for number, held_out in enumerate(folds):
                progress(number * len(costs))
                paths.append(self._solve_along_costs_low_rank(held_out, costs))
            return paths
        chains = self._paths_along_costs(folds, costs, is_over)
        if kernel is not None:
            chains = [[replace(program, kernel=kernel) for program in chain] for chain in chains]
        paths = solve_many(chains)
        for path in paths:
            for solution in path:
                self._note(solution, "stopped" if stopped else "solver_limit")
        return paths

    def kernel_of_folds(self, folds: Sequence[BoolArray], costs: Sequence[FloatArray]) -> Kernel | None:
        """A kernel on which `solve_along_costs` gives some folds what they get among all; None if there is none."""
        if self.low_rank.takes(len(self.y), self._seconds_to_plan_with()):
            return None
        return kernel_of_its_own(self._paths_along_costs(folds, costs))

    def _paths_along_costs(
        self,
        folds: Sequence[BoolArray],
        costs: Sequence[FloatArray],
        is_over: Callable[[int, int, float], bool] | None = None,
    ) -> list[list[Program]]:
        """The programs of each fold; `is_over(number, iteration, gap)` is told which of all programs it is about."""
        every = np.arange(len(self.y))
        callbacks = [
            None if is_over is None else functools.partial(is_over, number) for number in range(len(folds) * len(costs))
        ]
        return [
            [
                self._program(
                    every, self.y, np.where(held_out, 0.0, cost), callback=callbacks[fold * len(costs) + step]
                )
                for step, cost in enumerate(costs)
            ]
            for fold, held_out in enumerate(folds)
        ]

    def _solve_along_costs_low_rank(self, held_out: BoolArray, costs: Sequence[FloatArray]) -> list[Solution]:
        path: list[Solution] = []
        every = np.arange(len(self.y))
        for cost in costs:
            program = self._program(every, self.y, np.where(held_out, 0.0, cost), self._seconds_left())
            start = Start(path[-1].alpha) if path else None
            # polishing would leave the gradients of the held-out rows unknown
            solution = self.low_rank.solve(replace(program, start=start), polish=False)
            self._note(solution)
            path.append(solution)
        return path

    def _engine_to_use(self) -> EngineName:
        wish = self.limits.solver
        if self.limits.backend != "cuda":
            return wish
        if wish == "lowrank":
            raise ValueError("solver = 'lowrank' computes on the CPU; use it with device = 'auto' or 'cpu'")
        return "exact"

    def _seconds_to_plan_with(self) -> float | None:
        known = [seconds for seconds in (self._seconds_left(), self.limits.planned_seconds) if seconds is not None]
        return min(known, default=None)

    def _seconds_left(self) -> float | None:
        limit = self.limits.max_seconds
        return None if limit is None else max(0.0, limit - self.seconds)

    def _note(self, solution: Solution, cancelled: EndReason = "stopped") -> None:
        self.iterations += solution.iterations
        self.has_model = True
        if solution.status == "cancelled":
            self.ended = cancelled
        elif solution.status != "optimal" or not np.isfinite(solution.b):
            self.ended = self.ended or "solver_limit"

    def progress(self, fraction: float, **info: Any) -> bool:
        """Report progress; True when training shall stop, because it was asked to or has ended already."""
        self.fraction = max(self.fraction, self.before + (1.0 - self.before) * min(fraction, 1.0))
        if self.callback is not None and not self.ended and self.callback(self.fraction, info):
            self.ended = "stopped"
        return bool(self.ended)

    def _on_iteration(self, iteration: int, gap: float) -> bool:
        if self.callback is None:
            return False
        if not self.callback(self.fraction, {"iterations": self.iterations + iteration, "gap": gap}):
            return False
        return self.has_model or time.monotonic() - self._solving_since >= _FIRST_MODEL_SECONDS
