"""The GPU engine: many problems on one kernel at a time, by working sets, with data and gradients on the device.

The same method as the CPU engines (see engines.py). In turn, for all problems together: select a working set each, form
the kernel blocks among them by matrix products, solve each block in one thread block of one launch, and fold the kernel
rows of the variables that moved into v. The host decides when a problem is done and which kernel rows are kept; it
reads the selection and the new values of the chosen variables, nothing larger.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from solver.kernels.kernel import Kernel
from solver.smo.engines import DIRECT_LIMIT, STEPS_A_LOOK, STEPS_A_VARIABLE, TAU, engine_name, set_size
from solver.smo.gpu_device import LARGEST_SET, SELECT_THREADS, THREADS, Device, DeviceMemoryError
from solver.smo.gpu_pools import (
    Change,
    DeviceExactPool,
    DevicePool,
    PoolRegistry,
    ProblemBatch,
    blocks_a_problem,
    exact_matrix,
    exact_products,
)
from solver.smo.problem import DualProblem, Solution, Task
from solver.smo.stopping import Stall
from solver.smo.verification import Outcome, check_bounded, make_solution, true_gap, verify, width
from solver.typing import FloatArray, IndexArray

_SMALLEST_SET: Final = 32

# attempts with ever smaller blocks before memory is given up on: down to 1/64
_ATTEMPTS: Final = 7

# of the free memory, for the kernel blocks of all problems solved together
_BLOCKS_SHARE: Final = 0.2

_pools = PoolRegistry()


def solve_batch(device: Device, tasks: Sequence[Task]) -> list[Solution]:
    """Solve tasks of one kernel together.

    Parameters
    ----------
    device : Device
    tasks : sequence of Task
        Samples and rows of their kernel stay on the device until it is no longer used. The first one's `cache_bytes`
        limits the device memory for kernel rows; by default that is what the device says is free, less a reserve.

    Returns
    -------
    list of Solution
        In order.

    Raises
    ------
    DeviceMemoryError
        If the device's memory does not suffice even for small blocks.
    """
    kernel = tasks[0].program.kernel
    solutions: list[Solution | None] = [None] * len(tasks)
    small = [place for place, task in enumerate(tasks) if task.problem.idx.size <= DIRECT_LIMIT]
    large = [place for place, task in enumerate(tasks) if task.problem.idx.size > DIRECT_LIMIT]
    for places, solve in ((small, _solve_small), (large, _solve_large)):
        chosen = [tasks[place] for place in places]
        for attempt in range(_ATTEMPTS):
            try:
                outcomes = solve(device, kernel, chosen, 0.5**attempt)
                for place, task, outcome in zip(places, chosen, outcomes, strict=True):
                    solutions[place] = make_solution(task, outcome, f"cuda-{engine_name(task)}")
                break
            except device.out_of_memory as error:
                _pools.drop(kernel)
                reason = str(error)
            # out of the handler, so that no traceback keeps the arrays of the failed attempt alive; collected, because
            # kernels that are no longer used may still hold theirs. The next attempt goes on from the alphas reached
            gc.collect()
            device.release()
        else:
            raise DeviceMemoryError(
                f"{device.name} has {device.free_bytes() >> 20} MB of free memory, too little for {kernel.n_samples}"
                f" samples even with blocks a {2 ** (_ATTEMPTS - 1)}th of the usual size ({reason}); use fewer rows or"
                " features, or device='cpu'"
            )
    return [solution for solution in solutions if solution is not None]


# -- small problems: the whole kernel matrix in float64, a thread block each -------------------------------------------


def _solve_small(device: Device, kernel: Kernel, tasks: Sequence[Task], scale: float) -> list[Outcome]:
    outcomes: list[Outcome] = []
    largest = max((task.problem.idx.size for task in tasks), default=1)
    budget = _BLOCKS_SHARE * device.free_bytes() * scale
    together = max(1, int(budget // (8 * max(1, largest) ** 2)))
    for s in range(0, len(tasks), together):
        outcomes.extend(_Small(device, kernel, tasks[s : s + together]).run())
    return outcomes


class _Small:
    """Problems of at most `DIRECT_LIMIT` variables, each with its whole kernel matrix, as on the CPU."""

    def __init__(self, device: Device, kernel: Kernel, tasks: Sequence[Task]) -> None:
        self._device, self._tasks = device, tasks
        xp = device.xp
        self._q = max(task.problem.idx.size for task in tasks)
        self._K = xp.zeros((len(tasks), self._q, self._q), np.float64)
        self._samples = np.zeros(len(tasks), np.int64)
        for b, task in enumerate(tasks):
            samples, variable = np.unique(task.problem.idx, return_inverse=True)
            self._samples[b] = samples.size
            n = task.problem.idx.size
            if n:
                matrix = exact_matrix(device, kernel, samples, samples)
                at = device.put(variable, np.int64)
                self._K[b, :n, :n] = matrix[at][:, at]
        self._alpha = [task.problem.alpha for task in tasks]

    def run(self) -> list[Outcome]:
        device, tasks, q = self._device, self._tasks, self._q
        stops = np.array([task.program.tol for task in tasks])
        v = self._gradients()
        gaps = [true_gap(task.problem, task.problem.alpha, v[b]) for b, task in enumerate(tasks)]
        status = [
            "optimal" if gap <= task.program.tol else task.budget.reason_to_stop(gap)
            for task, gap in zip(tasks, gaps, strict=True)
        ]
        while any(reason is None for reason in status):
            active = np.array([b for b, reason in enumerate(status) if reason is None])
            counts = np.array([tasks[b].problem.idx.size for b in active])
            starts = np.concatenate([[0], np.cumsum(counts)])
            chosen = np.zeros((active.size, q), np.int32)
            for row, (start, count) in enumerate(zip(starts, counts, strict=False)):
                chosen[row, :count] = np.arange(start, start + count)

            def flat(arrays: Sequence[FloatArray]) -> Any:
                return device.put(np.concatenate(arrays), np.float64)

            problems = [tasks[b].problem for b in active]
            K = self._K if active.size == len(tasks) else self._K[device.put(active, np.int64)]
            after = device.xp.zeros((active.size, q), np.float64)
            report = device.xp.zeros((active.size, 2), np.float64)
            most = [min(STEPS_A_LOOK, tasks[b].budget.steps_left) for b in active]
            device.launch(
                "solve_block_float64", active.size, THREADS, K, device.put(chosen, np.int32),
                device.put(counts, np.int32), np.int32(q), flat([p.y for p in problems]), flat([v[b] for b in active]),
                flat([p.lo for p in problems]), flat([p.hi for p in problems]), device.put(stops[active], np.float64),
                device.put(most, np.int32), np.float64(TAU), flat([self._alpha[b] for b in active]), after, report,
            )  # fmt: skip
            new, told = device.get(after), device.get(report)
            for row, b in enumerate(active):
                problem = tasks[b].problem
                tasks[b].budget.iterations += int(told[row, 0])
                self._alpha[b] = new[row, : counts[row]].copy()
                check_bounded(self._alpha[b], problem.lo, problem.hi)
            # v is formed anew after every launch: what was updated step by step has drifted
            v = self._gradients()
            for row, b in enumerate(active):
                task, steps = tasks[b], int(told[row, 0])
                gap = true_gap(task.problem, self._alpha[b], v[b])
                if gap <= task.program.tol:
                    status[b] = "optimal"
                elif steps == 0 and task.budget.steps_left:
                    status[b] = "precision"
                if told[row, 1] <= stops[b]:
                    stops[b] = 0.5 * task.program.tol
                status[b] = status[b] or task.budget.reason_to_stop(gap)
        return [
            Outcome(alpha, v[b], true_gap(tasks[b].problem, alpha, v[b]), str(status[b]), int(self._samples[b]))
            for b, alpha in enumerate(self._alpha)
        ]

    def _gradients(self) -> list[FloatArray]:
        """`v` of each problem."""
        signed = np.zeros((len(self._tasks), self._q, 1))
        for b, task in enumerate(self._tasks):
            signed[b, : task.problem.idx.size, 0] = task.problem.y * self._alpha[b]
        sums = self._device.get(self._device.xp.matmul(self._K, self._device.put(signed, np.float64)))
        return [
            -task.problem.y * task.problem.p - sums[b, : task.problem.idx.size, 0] for b, task in enumerate(self._tasks)
        ]


# -- larger problems: working sets -------------------------------------------------------------------------------------


def _solve_large(device: Device, kernel: Kernel, tasks: Sequence[Task], scale: float) -> list[Outcome]:
    if not tasks:
        return []
    pool = _pools.get(device, kernel, tasks[0].program.cache_bytes, scale)
    for task in tasks:
        pool.add(task.problem.idx)
    largest = max(task.problem.idx.size for task in tasks)
    q = max(_SMALLEST_SET, int(min(set_size(largest), LARGEST_SET) * min(1.0, 4 * scale)))
    budget = _BLOCKS_SHARE * device.free_bytes() * scale
    together = max(1, int(budget // pool.block_bytes(q)))
    outcomes: list[Outcome] = []
    for s in range(0, len(tasks), together):
        outcomes.extend(_WorkingSets(device, kernel, pool, tasks[s : s + together], q).run())
    for place, outcome in enumerate(outcomes):
        if outcome.status == "precision":
            # float32 kernel values have nothing more to give
            exact = DeviceExactPool(device, kernel)
            exact.add(tasks[place].problem.idx)
            task = replace(tasks[place], problem=_continued(tasks[place].problem, outcome))
            rows = outcome.n_kernel_rows
            outcomes[place] = _WorkingSets(device, kernel, exact, [task], q).run()[0]
            outcomes[place].n_kernel_rows += rows
    return outcomes


def _continued(problem: DualProblem, outcome: Outcome) -> DualProblem:
    """The problem, started where an engine left off; its gradient is to be computed afresh."""
    return replace(problem, alpha=outcome.alpha, gradient=None, gradient_at=outcome.alpha)


@dataclass
class _State:
    """What the host knows of one problem."""

    stall: Stall = field(default_factory=Stall)
    outcome: Outcome | None = None
    kernel_rows: int = 0
    alpha: FloatArray = field(default_factory=lambda: np.zeros(0))


class _WorkingSets:
    """Several problems of one kernel, advanced together; their variables stand one after the other on the device."""

    def __init__(self, device: Device, kernel: Kernel, pool: DevicePool, tasks: Sequence[Task], q: int) -> None:
        self._device, self._kernel, self._pool, self._tasks, self._q = device, kernel, pool, tasks, q
        self._exact = isinstance(pool, DeviceExactPool)
        problems = [task.problem for task in tasks]
        sizes = np.array([problem.idx.size for problem in problems])
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._states = [_State(alpha=problem.alpha) for problem in problems]

        def put(arrays: Sequence[FloatArray | IndexArray], dtype: type = np.float64) -> Any:
            return device.put(np.concatenate(arrays), dtype)

        self._y, self._p = put([problem.y for problem in problems]), put([problem.p for problem in problems])
        self._lo, self._hi = put([problem.lo for problem in problems]), put([problem.hi for problem in problems])
        self._a = put([problem.alpha for problem in problems])
        self._batch = ProblemBatch(
            start=device.put(self._starts, np.int32),
            column=put([pool.columns(problem.idx) for problem in problems], np.int32),
            problem_of=device.put(np.repeat(np.arange(len(tasks)), sizes), np.int32),
            sizes=sizes,
        )
        xp, n = device.xp, int(self._starts[-1])
        self._v: Any = None
        self._start()
        self._up, self._down = xp.empty(n, np.uint32), xp.empty(n, np.uint32)
        self._chosen = xp.zeros((len(tasks), q), np.int32)
        self._count = xp.zeros(len(tasks), np.int32)

    def run(self) -> list[Outcome]:
        """Iterate until every problem has met its tolerance or a limit."""
        active = np.arange(len(self._tasks))
        while active.size:
            extremes, chosen, counts = self._select(active)
            going: list[int] = []
            gaps: list[float] = []
            for row, b in enumerate(active):
                gap = width(extremes[row, 0], extremes[row, 1])
                if self._goes_on(int(b), gap, float(extremes[row, 2])):
                    going.append(row)
                    gaps.append(gap)
            if going:
                self._improve(active[going], chosen[going], counts[going], np.array(gaps))
            active = np.array([b for b in active if self._states[b].outcome is None], np.int64)
        return [state.outcome for state in self._states if state.outcome is not None]

    def _start(self) -> None:
        """Set `v`: from the gradients that are known, and by kernel rows for the rest."""
        device = self._device
        problems = [task.problem for task in self._tasks]
        everyone = np.arange(len(problems))
        self._v = device.put(np.concatenate([-problem.y * problem.p for problem in problems]), np.float64)
        # where every entry of the gradient is known nothing has to be summed up
        known = [problem.gradient is not None and not np.isnan(problem.gradient).any() for problem in problems]
        at = [problem.alpha if problem.gradient is None else problem.gradient_at for problem in problems]
        signed = [problem.y * alpha for problem, alpha in zip(problems, at, strict=True)]
        self._fold(everyone, [0 * sums if all_known else sums for sums, all_known in zip(signed, known, strict=True)])
        if all(problem.gradient is None for problem in problems):
            return
        v = device.get(self._v)
        for b, problem in enumerate(problems):
            if problem.gradient is not None:
                own = slice(self._starts[b], self._starts[b + 1])
                v[own] = np.where(np.isnan(problem.gradient), v[own], -problem.y * problem.gradient)
        self._v = device.put(v, np.float64)
        self._fold(
            everyone,
            [problem.y * (problem.alpha - start) for problem, start in zip(problems, at, strict=True)],
        )

    def _fold(self, problems: IndexArray, changes: Sequence[FloatArray]) -> None:
        """Fold changes of `y·a`, one array over all variables of each problem, into v."""
        moved = [np.flatnonzero(change) for change in changes]
        self._update(
            problems,
            [self._pool.columns(self._tasks[b].problem.idx[at]) for b, at in zip(problems, moved, strict=True)],
            [change[at] for change, at in zip(changes, moved, strict=True)],
        )

    def _update(self, problems: IndexArray, columns: Sequence[IndexArray], coefficients: Sequence[FloatArray]) -> None:
        counts = np.array([part.size for part in columns])
        some = counts > 0
        if not some.any():
            return
        change = Change(problems[some], counts[some], np.concatenate(columns), np.concatenate(coefficients))
        computed = self._pool.update(self._batch, change, self._v)
        for b, rows in zip(change.problems, computed, strict=True):
            self._states[b].kernel_rows += int(rows)

    def _select(self, active: IndexArray) -> tuple[FloatArray, IndexArray, IndexArray]:
        """Extremes and objective, chosen variables and how many they are, of the active problems."""
        device, xp = self._device, self._device.xp
        blocks = blocks_a_problem(self._batch.sizes[active])
        at = device.put(active, np.int32)
        partial = xp.empty((active.size, blocks, 3), np.float64)
        extremes = xp.empty((active.size, 3), np.float64)
        start, bounds = self._batch.start, (self._lo, self._hi)
        device.launch(
            "survey", active.size * blocks, THREADS, at, start, np.int32(blocks), self._y, self._p, *bounds, self._a,
            self._v, partial,
        )  # fmt: skip
        device.launch(
            "rate_violations", active.size * blocks, THREADS, at, start, np.int32(blocks), self._y, *bounds, self._a,
            self._v, partial, self._up, self._down, extremes,
        )  # fmt: skip
        device.launch(
            "select_variables", active.size, SELECT_THREADS, at, start, np.int32(self._q), *bounds, self._a, self._up,
            self._down, self._chosen, self._count,
        )  # fmt: skip
        return device.get(extremes), device.get(self._chosen)[active].astype(np.int64), device.get(self._count)[active]

    def _goes_on(self, b: int, gap: float, objective: float) -> bool:
        """Tell whether problem `b` is to be improved on now; concludes it where that is the end."""
        task, state = self._tasks[b], self._states[b]
        state.stall.note(objective)
        if gap > task.program.tol and not state.stall.is_reached:
            reason = task.budget.reason_to_stop(gap)
            if reason is None:
                return True
            state.outcome = self._verified(b, reason)
        else:
            self._conclude(b)
        return False

    def _conclude(self, b: int) -> None:
        """Verify in float64 that problem `b` is solved; if it is not, compute its v afresh."""
        task, state = self._tasks[b], self._states[b]
        outcome = self._verified(b, "optimal")
        if outcome.gap > task.program.tol:
            reason = task.budget.reason_to_stop(outcome.gap)
            if reason is None and not self._exact and state.stall.may_refine:
                state.stall.refine()
                self._refine(b)
                return
            outcome.status = reason or "precision"
        state.outcome = outcome

    def _products(self, b: int, variables: IndexArray, samples: IndexArray) -> Any:
        problem = self._tasks[b].problem
        weights = problem.y[variables] * self._states[b].alpha[variables]
        return exact_products(self._device, self._kernel, problem.idx[variables], weights, samples)

    def _verified(self, b: int, status: str) -> Outcome:
        problem, state, device = self._tasks[b].problem, self._states[b], self._device
        v, gap = verify(
            problem,
            state.alpha,
            device.get(self._v[self._starts[b] : self._starts[b + 1]]),
            lambda variables, samples: device.get(self._products(b, variables, samples)),
        )
        return Outcome(state.alpha, v, gap, status, state.kernel_rows)

    def _refine(self, b: int) -> None:
        """Compute v afresh in float64; float32 errors of what follows are then proportional to small changes only."""
        problem, device = self._tasks[b].problem, self._device
        sums = self._products(b, np.flatnonzero(self._states[b].alpha), problem.idx)
        linear = device.put(-problem.y * problem.p, np.float64)
        self._v[self._starts[b] : self._starts[b + 1]] = linear - sums
        count = device.get(self._count)
        count[b] = 0
        self._count = device.put(count, np.int32)

    def _improve(self, problems: IndexArray, chosen: IndexArray, counts: IndexArray, gaps: FloatArray) -> None:
        """Solve for the chosen variables of each problem and fold what moved into v."""
        device, xp, q = self._device, self._device.xp, self._q
        column = np.zeros((problems.size, q), np.int64)
        for row, (b, count) in enumerate(zip(problems, counts, strict=True)):
            own = chosen[row, :count] - self._starts[b]
            column[row, :count] = self._pool.columns(self._tasks[b].problem.idx[own])
        tasks = [self._tasks[b] for b in problems]
        K = self._pool.blocks(column)
        after, report = xp.zeros((problems.size, q), np.float64), xp.zeros((problems.size, 2), np.float64)
        stops = np.maximum(0.1 * gaps, [0.5 * task.program.tol for task in tasks])
        most = [
            min(STEPS_A_VARIABLE * int(count), task.budget.steps_left)
            for count, task in zip(counts, tasks, strict=True)
        ]
        device.launch(
            f"solve_block_{np.dtype(K.dtype).name}", problems.size, THREADS, K, device.put(chosen, np.int32),
            device.put(counts, np.int32), np.int32(q), self._y, self._v, self._lo, self._hi,
            device.put(stops, np.float64), device.put(most, np.int32), np.float64(TAU), self._a, after, report,
        )  # fmt: skip
        new, told = device.get(after), device.get(report)
        columns: list[IndexArray] = []
        coefficients: list[FloatArray] = []
        for row, (b, count) in enumerate(zip(problems, counts, strict=True)):
            problem, alpha = self._tasks[b].problem, self._states[b].alpha
            own = chosen[row, :count] - self._starts[b]
            change = problem.y[own] * (new[row, :count] - alpha[own])
            moved = np.flatnonzero(change)
            alpha[own] = new[row, :count]
            self._tasks[b].budget.iterations += int(told[row, 0])
            check_bounded(alpha[own], problem.lo[own], problem.hi[own])
            columns.append(column[row, moved])
            coefficients.append(change[moved])
            if not moved.size:
                self._conclude(int(b))
        self._update(problems, columns, coefficients)
