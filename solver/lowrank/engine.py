"""One quadratic program on the factor, and its polishing with the exact engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from solver.kernels.kernel import FeatureKernel
from solver.kernels.parallel import single_threaded_blas
from solver.lowrank.ascent import Ascent
from solver.lowrank.factor import Factor
from solver.smo.problem import DualProblem, Solution, Task
from solver.smo.program import Program, Start
from solver.smo.solve import solve
from solver.smo.stopping import StoppingLimits
from solver.smo.verification import Outcome, make_solution
from solver.typing import FloatArray, IndexArray

# visits of a variable, on average, before the solver gives up
_MOST_PASSES: Final = 10_000

# a variable whose low-rank gradient holds it at its bound by less than this may be a support vector after all
_MARGIN: Final = 0.5

# polishing needs a sparse solution: it pays while no more than this share of the variables are candidates
_MOST_CANDIDATES: Final = 0.25

# variables outside the candidates that are looked at to tell whether polishing missed any
_CHECKED_OUTSIDE: Final = 2000


@dataclass(frozen=True)
class Polish:
    """What the exact engine did after the low-rank one.

    Attributes
    ----------
    candidates : int
        Variables that were solved for exactly.
    missed : float
        Share of the other variables that violate optimality by more than the tolerance, from a sample of 2,000.
    """

    candidates: int
    missed: float


@dataclass(frozen=True)
class LowRankSolution(Solution):
    """A solution of the factor's problem; `gap`, `objective` and `gradient` are those of that problem.

    If it was polished they are those of the exact problem of the candidates, and the gradient of all others is NaN.

    Attributes
    ----------
    factor : Factor
    weights : (rank,) float64
        `f(s) = G_s · weights + b`, before polishing.
    polish : Polish or None
    """

    factor: Factor
    weights: FloatArray
    polish: Polish | None

    @property
    def coefficients(self) -> FloatArray:
        """`f(x) = Σ_j coefficients_j K(landmarks_j, x) + b`, before polishing."""
        with single_threaded_blas():
            return np.asarray(self.factor.whitening @ self.weights, dtype=np.float64)


def solve_lowrank(factor: Factor, program: Program, *, seed: int = 0, polish_up_to: int = 0) -> LowRankSolution:
    """Solve one quadratic program with `G Gᵀ` in place of the kernel matrix.

    Dual coordinate ascent [1]_ in random order, with shrinking. The equality constraint is met by the method of
    multipliers, so the intercept is the exact one and not penalised.

    Parameters
    ----------
    factor : Factor
        Of the program's kernel. Successive calls share it.
    program : Program
        The tolerance is on the same gap as `solver.smo.solve`'s. A gradient to start from is not used; `cache_bytes`
        and `backend` are for polishing.
    seed : int, default 0
        Of the order of the visits.
    polish_up_to : int, default 0
        Solve the exact problem of the support vectors and of those variables that may become some, if there are at
        most so many and at most a quarter of all; 0 never does. All other variables stay where they are, at a bound
        of 0.

    Returns
    -------
    LowRankSolution
        Its `engine` is `"lowrank"` or `"lowrank+polish"`.

    Notes
    -----
    Deterministic, whatever the number of threads.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi and S. Sundararajan, "A dual coordinate descent method
       for large-scale linear SVM", ICML 2008.
    """
    if program.kernel is not factor.kernel:
        raise ValueError("the factor is of another kernel than the program's")
    task = Task.of(program, steps_a_variable=_MOST_PASSES)
    with single_threaded_blas():  # which adds up in another order on more threads
        ascent = Ascent(factor, task, seed)
        status = ascent.run()
        outcome = Outcome(ascent.a, ascent.v, ascent.gap, status, len(factor.landmarks))
        base = make_solution(task, outcome, "lowrank")
    solution = LowRankSolution(**vars(base), factor=factor, weights=ascent.w, polish=None)
    candidates = _candidates(task.problem, solution)
    if status != "optimal" or candidates.size > min(polish_up_to, _MOST_CANDIDATES * task.problem.idx.size):
        return solution
    return _polished(task, solution, candidates)


def _candidates(problem: DualProblem, solution: Solution) -> IndexArray:
    """Variables that are not 0, or that may not stay there once the kernel is exact."""
    gradient = solution.gradient + problem.y * solution.b
    grows = (problem.hi > 0) & (gradient < _MARGIN)
    shrinks = (problem.lo < 0) & (gradient > -_MARGIN)
    return np.flatnonzero((solution.alpha != 0) | grows | shrinks)


def _polished(task: Task, solution: LowRankSolution, candidates: IndexArray) -> LowRankSolution:
    """The exact solution of the candidates' problem; the one given if that was not reached in time."""
    c, problem, budget = candidates, task.problem, task.budget
    exact = solve(
        replace(
            task.program, idx=problem.idx[c], y=problem.y[c], p=problem.p[c], lo=problem.lo[c], hi=problem.hi[c],
            start=Start(solution.alpha[c]),
            limits=StoppingLimits(max_seconds=budget.seconds_left, callback=budget.limits.callback),
        )
    )  # fmt: skip
    if exact.status != "optimal":
        cut_short = exact.status if exact.status in ("cancelled", "time") else solution.status
        return replace(solution, status=cut_short, seconds=budget.seconds)
    alpha, gradient = np.zeros(problem.idx.size), np.full(problem.idx.size, np.nan)
    alpha[c], gradient[c] = exact.alpha, exact.gradient
    missed = _missed(problem, solution.factor, alpha, exact.b, candidates, task.program.tol)
    fields = vars(exact) | {
        "alpha": alpha,
        "gradient": gradient,
        "iterations": solution.iterations + exact.iterations,
        "seconds": budget.seconds,
        "engine": "lowrank+polish",
        "polish": Polish(candidates.size, missed),
    }
    return replace(solution, **fields)


def _missed(
    problem: DualProblem, factor: Factor, alpha: FloatArray, b: float, candidates: IndexArray, tol: float
) -> float:
    outside = np.ones(alpha.size, np.bool_)
    outside[candidates] = False
    others = np.flatnonzero(outside)
    if not others.size:
        return 0.0
    others = np.sort(np.random.default_rng(0).permutation(others)[:_CHECKED_OUTSIDE])
    support = np.flatnonzero(alpha)
    f = factor.kernel.products(problem.idx[support], (problem.y * alpha)[support], problem.idx[others])
    gradient = problem.y[others] * (f + b) + problem.p[others]
    violates = ((problem.hi[others] > 0) & (gradient < -tol)) | ((problem.lo[others] < 0) & (gradient > tol))
    return float(violates.mean())


def warm_up() -> None:
    """Compile or load everything that the engine needs, so that the next solve runs at full speed."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2))
    y = np.where(X[:, 0] + random.normal(size=600) > 0, 1.0, -1.0)
    kernel = FeatureKernel(X, gamma=0.5)
    solve_lowrank(Factor.build(kernel, 20), Program(kernel, np.arange(600), y, -1.0, 0.0, 1.0))
