"""The quadratic program: its checked form, its solution, and making a start feasible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver.smo.inner import BIG
from solver.smo.program import Program
from solver.smo.stopping import Budget
from solver.typing import FloatArray, IndexArray


class InfeasibleError(ValueError):
    """Raised when no alpha within its bounds meets the equality constraint."""


class UnboundedError(ArithmeticError):
    """Raised when the objective falls without end along a direction without bounds."""


@dataclass(frozen=True)
class DualProblem:
    """A checked quadratic program in the variables' order; bounds are finite (`±BIG` for none).

    Attributes
    ----------
    idx : (n,) int64
        Sample of each variable.
    y, p, lo, hi : (n,) float64
    delta : float
    alpha : (n,) float64
        Feasible start, not shared with the caller.
    gradient : (n,) float64 or None
        Gradient at `gradient_at` if the caller knows it; NaN where it is not known.
    gradient_at : (n,) float64
        The start as it was given, which may be infeasible.
    """

    idx: IndexArray
    y: FloatArray
    p: FloatArray
    lo: FloatArray
    hi: FloatArray
    delta: float
    alpha: FloatArray
    gradient: FloatArray | None
    gradient_at: FloatArray


@dataclass(frozen=True)
class Solution:
    """What a call to the solver ended with, whether or not it reached the tolerance.

    Attributes
    ----------
    alpha : (n,) float64
        The variables, within their bounds.
    b : float
        Intercept of `f(x) = Σ_j y_j alpha_j K(idx_j, x) + b`: the mean over the free variables, or the middle of
        the interval that the optimality conditions leave.
    b_low, b_high : float
        That interval (`b_low <= b_high + gap`); infinite on a side where no variable is left to move.
    objective : float
        `½ aᵀQa + pᵀa`, from `gradient` and as exact as that is.
    gap : float
        Violation of the optimality conditions, `max v - min v` of [1]_ eq. 5, at least 0, recomputed in float64 at
        the end; `status` is `"optimal"` only when it is at most the tolerance.
    iterations : int
        Two-variable steps.
    status : {"optimal", "max_iter", "time", "cancelled", "precision"}
        Why it ended; `precision`: no further progress was possible in floating point.
    gradient : (n,) float64
        `Qa + p`; a `Start` together with `alpha`. Float64 throughout where `engine` is
        `"direct"`. Else kernel rows are float32, and only the entries that set the gap are recomputed in float64: the
        others, and `objective`, are as a rule right to 1e-6 or better, but where alphas or kernel values of many
        orders of magnitude meet only to 4e-4, relative to the largest parts of their sums.
    n_support, n_bounded : int
        Variables that are not zero, and those of them at a bound.
    n_kernel_rows : int
        Kernel rows computed by this call (rows found in the cache do not count).
    seconds : float
        Wall time.
    engine : str
        Which engine ran: `"direct"`, `"working-set"` or `"linear"`; `cuda-` before it on the GPU.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen and C.-J. Lin, "Working set selection using second order information for training
       support vector machines", JMLR 6, 2005.
    """

    alpha: FloatArray
    b: float
    b_low: float
    b_high: float
    objective: float
    gap: float
    iterations: int
    status: str
    gradient: FloatArray
    n_support: int
    n_bounded: int
    n_kernel_rows: int
    seconds: float
    engine: str


def _vector(name: str, value: ArrayLike, n: int, *, infinite: bool = False, missing: bool = False) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"{name} must be a number or have shape ({n},), like idx; got shape {array.shape}")
    wrong = (np.isinf(array) & (not infinite)) | (np.isnan(array) & (not missing))
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name}[{bad}] is {array[bad]}: expected a {'' if infinite else 'finite '}number")
    return array


def make_problem(program: Program) -> DualProblem:
    """Check the parts of a program and give it a feasible start.

    Raises
    ------
    ValueError
        If a part has the wrong shape, type or a value that is not a number; names the part.
    InfeasibleError
        If a lower bound is above its upper bound, or `delta` cannot be reached.
    """
    if not program.tol > 0:
        raise ValueError(f"tol must be positive; got {program.tol}")
    index: NDArray[Any] = np.asarray(program.idx)
    n_samples, delta, start = program.kernel.n_samples, program.delta, program.start
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise ValueError(f"idx must be a vector of integers; got shape {index.shape} of {index.dtype}")
    n = index.size
    if n and (index.min() < 0 or index.max() >= n_samples):
        raise ValueError(f"idx holds {index.min()} … {index.max()}, but the kernel's samples are 0 … {n_samples - 1}")
    signs = _vector("y", program.y, n)
    if not np.all(np.abs(signs) == 1):
        raise ValueError("y must hold -1 and +1 only")
    if not np.isfinite(delta):
        raise ValueError(f"delta must be finite; got {delta}")
    lower = np.clip(_vector("lo", program.lo, n, infinite=True), -BIG, BIG)
    upper = np.clip(_vector("hi", program.hi, n, infinite=True), -BIG, BIG)
    given = np.zeros(n) if start is None else _vector("start.alpha (alpha0)", start.alpha, n)
    return DualProblem(
        idx=index.astype(np.int64),
        y=signs,
        p=_vector("p", program.p, n),
        lo=lower,
        hi=upper,
        delta=float(delta),
        alpha=repair(given, signs, lower, upper, delta),
        gradient=None
        if start is None or start.gradient is None
        else _vector("start.gradient (grad0)", start.gradient, n, missing=True),
        gradient_at=given,
    )


@dataclass(frozen=True)
class Task:
    """A program that is being solved: with its checked form, and with what is used up of its limits."""

    program: Program
    problem: DualProblem
    budget: Budget

    @classmethod
    def of(cls, program: Program, steps_a_variable: int | None = None) -> Task:
        """Check a program and start its clock.

        Parameters
        ----------
        program : Program
        steps_a_variable : int, optional
            Steps for each variable where the program names no limit, by default 100 and at least 10,000,000 in all.
        """
        problem = make_problem(program)
        n = problem.idx.size
        steps = max(10_000_000, 100 * n) if steps_a_variable is None else steps_a_variable * n
        return cls(program, problem, Budget(program.limits, steps))


def repair(alpha0: ArrayLike, y: ArrayLike, lo: ArrayLike, hi: ArrayLike, delta: float = 0.0) -> FloatArray:
    """Make a start feasible, changing few variables.

    Clips to the bounds; then takes the excess of `yᵀa - delta` first from free variables, then from bounded ones,
    each moved towards zero no further than needed, and at last from whatever variable still has room.
    In index order, so the result is always the same.

    Parameters
    ----------
    alpha0, y, lo, hi : (n,) array_like
        Start, signs -1 or +1, bounds (may be infinite).
    delta : float, default 0
        Value that `yᵀa` must have.

    Returns
    -------
    (n,) float64
        A new array with `lo <= a <= hi` and `yᵀa = delta` up to rounding.

    Raises
    ------
    InfeasibleError
        If a lower bound is above its upper bound or no such point exists; tells which values of `yᵀa` do.
    """
    signs, lower, upper = (np.asarray(x, dtype=np.float64) for x in (y, lo, hi))
    crossed = np.flatnonzero(lower > upper)
    if crossed.size:
        i = int(crossed[0])
        raise InfeasibleError(f"lo[{i}] = {lower[i]} is above hi[{i}] = {upper[i]}")
    a = np.clip(np.asarray(alpha0, dtype=np.float64), lower, upper)
    largest = max(abs(delta), float(np.abs(a).max(initial=0.0)))
    for towards_zero, bounded in ((True, False), (True, True), (False, True)):
        excess = float((signs * a).sum()) - delta
        if abs(excess) <= 1e-13 * max(largest, float(np.abs(a).sum())):
            return a
        step = -signs * np.sign(excess)  # direction of each variable that lessens the excess
        limit = np.where(step > 0, upper, lower)
        if towards_zero:
            limit = np.where(step * a < 0, np.where(step > 0, np.minimum(limit, 0), np.maximum(limit, 0)), a)
        room = np.abs(limit - a)
        if not bounded:
            room[(a <= lower) | (a >= upper)] = 0.0
        before = np.concatenate([[0.0], np.cumsum(room)[:-1]]) if room.size else room
        move = np.clip(abs(excess) - before, 0.0, room)
        full = (room > 0) & (room - move <= 1e-15 * np.abs(a))
        a = np.where(full, limit, a + step * move) + 0.0  # no negative zeros
    excess = float((signs * a).sum()) - delta
    if abs(excess) > 1e-12 * max(1.0, largest, float(np.abs(a).sum())):
        least = float(np.where(signs > 0, lower, -upper).sum())
        most = float(np.where(signs > 0, upper, -lower).sum())
        raise InfeasibleError(f"yᵀa = {delta} is out of reach: the bounds allow {least:.17g} … {most:.17g}")
    return a
