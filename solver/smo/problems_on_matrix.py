# mypy: ignore-errors
# Numba gives these functions their types; the checker sees neither its intrinsics nor its unsigned arithmetic.
"""Many small C-SVCs on one kernel matrix, each also without the rows of each fold, with no Python between them.

A problem of two classes on some hundred rows takes tens of microseconds; what `solve` does around one takes more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import njit

from solver.kernels.parallel import for_ranges
from solver.smo.engines import TAU
from solver.smo.inner import BIG, extremes, solve_block
from solver.typing import BoolArray, FloatArray, IndexArray

LARGEST: Final = 1024
"""Variables of a problem; larger ones are better off with working sets, and take so long that they must be stoppable"""

_STEPS_A_VARIABLE: Final = 50
"""Whoever needs more is left to the engines, which look at the clock and check their sums."""

# estimated seconds between two calls of `stopped`, and of a pair of variables in a step (measured: a tenth of that)
_SECONDS_A_CALL: Final = 0.1
_SECONDS_A_PAIR: Final = 1e-8

# rounding of v may take up so much of the tolerance
_DRIFT: Final = 1e-3
_EPSILON: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class MatrixSolutions:
    """Solutions of problems whose variables stand one problem after the other.

    Attributes
    ----------
    signed : (1 + folds, variables) float64
        `y·alpha` of the model of all rows, then of those without a fold.
    intercepts : (1 + folds, problems) float64
    left_out : (variables,) float64
        Score of each variable's row by the model without its fold; NaN where there are no folds.
    is_solved : (problems,) bool
        False where the engines have to be asked.
    stopped : bool
        Whether the callback said so; then nothing else holds.
    """

    signed: FloatArray
    intercepts: FloatArray
    left_out: FloatArray
    is_solved: BoolArray
    stopped: bool


def solve_on_matrix(
    K: FloatArray,
    starts: IndexArray,
    rows: IndexArray,
    y: FloatArray,
    cost: FloatArray,
    fold: IndexArray | None,
    *,
    tol: float,
    stopped: Callable[[int], bool] | None = None,
) -> MatrixSolutions:
    """Solve problems of at most `LARGEST` variables.

    Parameters
    ----------
    K : (n, n) float64, C-contiguous
    starts : (problems + 1,) int
        Where the variables of each problem begin.
    rows : (variables,) int
        Row of each variable. What lies side by side in K is read sooner.
    y, cost : (variables,) float64
        Signs, -1 or +1, and upper bounds.
    fold : (n,) int, optional
        Which fold leaves a row out.
    tol : float
        Largest gap of a solution.
    stopped : callable, optional
        Called several times a second with the number of problems that are solved; a true answer cancels.

    Notes
    -----
    A model without a fold starts from that of all rows. Each problem is solved by one thread, so that the number of
    threads changes no bit.
    """
    problems, folds = len(starts) - 1, 0 if fold is None else int(fold.max(initial=-1)) + 1
    signed = np.zeros((1 + folds, len(rows)))
    intercepts = np.zeros((1 + folds, problems))
    left_out = np.full(len(rows), np.nan)
    solved = np.zeros(problems, np.bool_)
    of_rows = np.zeros(len(K), np.int64) if fold is None else fold.astype(np.int64)
    sizes = np.diff(starts)
    work = _SECONDS_A_PAIR * (1.0 + folds) * sizes.astype(np.float64) ** 2
    largest = float(np.abs(K.diagonal()).max(initial=0.0))

    def run(first: int, last: int) -> None:
        _solve_range(K, starts, rows, y, cost, of_rows, first, last, tol, largest, signed, intercepts, left_out, solved)

    begin = 0
    while begin < problems:
        end = problems
        if stopped is not None:
            if stopped(begin):
                return MatrixSolutions(signed, intercepts, left_out, solved, True)
            end = begin + max(1, int(np.searchsorted(np.cumsum(work[begin:]), _SECONDS_A_CALL)))
        end, offset = min(end, problems), begin
        for_ranges(
            lambda s, e, offset=offset: run(offset + s, offset + e),
            end - begin, 1, work=0.1 * float(work[begin:end].sum()),
        )  # fmt: skip
        begin = end
    return MatrixSolutions(signed, intercepts, left_out, solved, False)


@njit(cache=True, nogil=True)
def _solve_range(
    K: Any, starts: Any, rows: Any, y: Any, cost: Any, fold: Any, first: int, last: int, tol: float, largest: float,
    signed: Any, intercepts: Any, left_out: Any, solved: Any,
) -> None:  # fmt: skip
    """Solve the problems from `first` to before `last`."""
    longest = 0
    for p in range(first, last):
        longest = max(longest, starts[p + 1] - starts[p])
    space = np.empty(longest * longest)
    for p in range(first, last):
        s, e = starts[p], starts[p + 1]
        own = rows[s:e]
        block = _block(K, own, space)
        solved[p] = _solve_with_folds(
            block, y[s:e], cost[s:e], fold[own], tol, largest, signed[:, s:e], intercepts[:, p], left_out[s:e]
        )


@njit(cache=True, nogil=True)
def _block(K: Any, own: Any, space: Any) -> Any:
    """Kernel values among a problem's rows: K itself if they are all there is, else copied run by run."""
    q, n = own.size, K.shape[0]
    runs = np.empty(q + 1, np.int64)
    count = 0
    for t in range(q):
        if t == 0 or own[t] != own[t - 1] + 1:
            runs[count] = t
            count += 1
    runs[count] = q
    if q == n and count == 1:
        return K
    block = space[: q * q].reshape(q, q)
    for t in range(q):
        row = K[own[t]]
        for k in range(count):
            a, b = runs[k], runs[k + 1]
            block[t, a:b] = row[own[a] : own[a] + b - a]
    return block


@njit(cache=True, nogil=True)
def _solve_with_folds(
    K: Any, y: Any, cost: Any, fold: Any, tol: float, largest: float, signed: Any, intercepts: Any, left_out: Any
) -> bool:
    """Solve on all rows, then without each fold; False if something is left to be desired."""
    q = y.size
    most = 1000 + _STEPS_A_VARIABLE * q
    lo, base, base_v = np.zeros(q), np.zeros(q), y.copy()
    good = True
    for k in range(signed.shape[0]):
        upper, a, v = cost.copy(), base.copy(), base_v.copy()
        if k:
            for t in range(q):
                if fold[t] == k - 1:
                    upper[t] = 0.0
            _leave_out(K, y, upper, a, v)
        good = good and _solve_one(K, y, v, a, lo, upper, tol, largest, most)
        signed[k, :] = y * a
        intercepts[k] = b = _intercept(v, y, a, lo, upper)
        if not k:
            base, base_v = a, v
            continue
        for t in range(q):
            if fold[t] == k - 1:
                left_out[t] = y[t] - v[t] + b
    return good


@njit(cache=True, nogil=True)
def _solve_one(
    K: Any, y: Any, v: Any, a: Any, lo: Any, upper: Any, tol: float, largest: float, most: int
) -> bool:  # fmt: skip
    """Solve in place; whether the tolerance is met, and rounding cannot have lost it since."""
    steps, gap = solve_block(K, y, v, a, lo, upper, tol, most, TAU)
    size = np.abs(v).max() + 2.0 * upper.max() * largest
    return gap <= tol and (steps + a.size) * _EPSILON * size <= _DRIFT * tol


@njit(cache=True, nogil=True)
def _leave_out(K: Any, y: Any, upper: Any, a: Any, v: Any) -> None:
    """Set to 0 what has no room left, and lessen others of the same sign until `yᵀa` is 0 again: free ones first."""
    excess = 0.0
    for t in range(a.size):
        if a[t] > upper[t]:
            _lessen(K, y, a, v, t, a[t] - upper[t])
        excess += y[t] * a[t]
    for bounded in (False, True):
        for t in range(a.size):
            if excess * y[t] <= 0.0 or a[t] == 0.0 or (a[t] == upper[t]) != bounded:
                continue
            step = min(a[t], abs(excess))
            _lessen(K, y, a, v, t, step)
            excess -= y[t] * step


@njit(cache=True, nogil=True, fastmath={"contract"})
def _lessen(K: Any, y: Any, a: Any, v: Any, t: int, step: float) -> None:
    """Take `step` from a variable."""
    a[t] = 0.0 if step == a[t] else a[t] - step
    change = y[t] * step
    row = K[t]
    for s in range(v.size):
        v[s] += change * row[s]


@njit(cache=True, nogil=True)
def _intercept(v: Any, y: Any, a: Any, lo: Any, upper: Any) -> float:
    """As `solver.smo.verification.intercept`."""
    total, free = 0.0, 0
    for t in range(a.size):
        if lo[t] < a[t] < upper[t]:
            total += v[t]
            free += 1
    if free:
        return total / free
    highest, lowest, _, _ = extremes(v, y, a, lo, upper)
    if highest > -BIG and lowest < BIG:
        return 0.5 * (highest + lowest)
    return highest if highest > -BIG else lowest if lowest < BIG else 0.0
