# mypy: ignore-errors
# Numba gives these functions their types; the checker sees neither its intrinsics nor its unsigned arithmetic.
"""The sequential heart: sequential minimal optimisation on a small dense kernel block.

One step picks the variable that violates the optimality conditions most, pairs it with the one that promises the
largest decrease of the objective (Fan, Chen and Lin, JMLR 6, 2005, working set selection 2) and solves for the two.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from solver.kernels.simd import fast_max, fast_min

# stands for infinity: the loops are compiled under the promise that there are no infinities
BIG: Final = 1e100

# whether y·a of a variable may grow or shrink
GROWS: Final = 1
SHRINKS: Final = 2

_BINS: Final = 1024
_BLOCK: Final = np.uint64(128)
_0 = np.uint64(0)


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _set_movable(t: Any, y: Any, a: Any, lo: Any, hi: Any, up: Any, down: Any) -> None:
    """Note as 0 or ∓BIG whether y·a of variable t may still grow (up) and shrink (down)."""
    below, above = a[t] < hi[t], a[t] > lo[t]
    if y[t] < 0:
        below, above = above, below
    up[t] = 0.0 if below else -BIG
    down[t] = 0.0 if above else BIG


# error_model: Python's looks at each divisor, which keeps a loop from vectorising
@njit(cache=True, fastmath=True, nogil=True, error_model="numpy")
def _iterate(
    K: Any,
    stride: Any,
    diagonal: Any,
    y: Any,
    v: Any,
    a: Any,
    lo: Any,
    hi: Any,
    up: Any,
    down: Any,
    gains: Any,
    stop: float,
    max_steps: int,
    tau: float,
) -> tuple[int, float]:
    # unsigned indices and a flat K: signed ones cost wrap-around checks and slices cost reference counts
    q = np.uint64(v.size)
    steps = 0
    gap = BIG
    delta = 0.0
    row_i = _0
    row_j = _0
    while True:
        # apply the last step to v and find the extremes in the same pass; whole blocks first, so that it vectorises
        highest, lowest, best_block = -BIG, BIG, _0
        for s in range(_0, q, _BLOCK):
            e = s + _BLOCK
            if e > q:
                e = q
            high, low = -BIG, BIG
            for t in range(s, e):
                x = v[t] - delta * (np.float64(K[row_i + t]) - np.float64(K[row_j + t]))
                v[t] = x
                high = fast_max(high, x + up[t])
                low = fast_min(low, x + down[t])
            if high > highest:
                highest = high
                best_block = s
            if low < lowest:
                lowest = low
        gap = highest - lowest
        if gap <= stop or steps >= max_steps:
            break
        e = best_block + _BLOCK
        if e > q:
            e = q
        i = best_block
        for t in range(best_block, e):
            if v[t] + up[t] >= highest:
                i = t
                break
        row_i = i * stride
        d_i = diagonal[i]
        v_i = v[i]
        most, best_block = 0.0, q
        for s in range(_0, q, _BLOCK):
            e = s + _BLOCK
            if e > q:
                e = q
            gain = 0.0
            for t in range(s, e):
                difference = fast_max(v_i - (v[t] + down[t]), 0.0)
                curvature = fast_max(d_i + diagonal[t] - 2.0 * np.float64(K[row_i + t]), tau)
                decrease = difference * difference / curvature
                gains[t] = decrease
                gain = fast_max(gain, decrease)
            if gain > most:
                most = gain
                best_block = s
        if best_block == q:
            break
        e = best_block + _BLOCK
        if e > q:
            e = q
        j = best_block
        for t in range(best_block, e):
            if gains[t] >= most:
                j = t
                break
        row_j = j * stride
        delta = (v_i - v[j]) / fast_max(d_i + diagonal[j] - 2.0 * np.float64(K[row_i + j]), tau)
        # y_i a_i grows and y_j a_j shrinks by delta; a variable that meets its bound is set to it exactly
        room_i = hi[i] - a[i] if y[i] > 0 else a[i] - lo[i]
        room_j = a[j] - lo[j] if y[j] > 0 else hi[j] - a[j]
        at_bound_i = False
        at_bound_j = False
        if delta >= room_i:
            delta = room_i
            at_bound_i = True
        if delta >= room_j:
            if delta > room_j:
                at_bound_i = False
            delta = room_j
            at_bound_j = True
        if y[i] > 0:
            a[i] = hi[i] if at_bound_i else a[i] + delta
        else:
            a[i] = lo[i] if at_bound_i else a[i] - delta
        if y[j] > 0:
            a[j] = lo[j] if at_bound_j else a[j] - delta
        else:
            a[j] = hi[j] if at_bound_j else a[j] + delta
        _set_movable(i, y, a, lo, hi, up, down)
        _set_movable(j, y, a, lo, hi, up, down)
        steps += 1
    return steps, gap


@njit(cache=True, fastmath=True, nogil=True)
def solve_block(
    K: Any, y: Any, v: Any, a: Any, lo: Any, hi: Any, stop: float, max_steps: int, tau: float
) -> tuple[int, float]:
    """Minimise over the q variables of one kernel block, in place.

    Parameters
    ----------
    K : (q, q) float32 or float64, C-contiguous
        Kernel values, without the labels' signs.
    y : (q,) float64
        Signs, -1 or +1.
    v : (q,) float64, updated
        `-y · gradient`.
    a, lo, hi : (q,) float64
        Variables (updated) and their finite bounds (`±BIG` for none).
    stop : float
        Stops when the gap `max v (y·a may grow) - min v (y·a may shrink)` is at most this.
    max_steps : int
        Stops after so many steps.
    tau : float
        Least curvature along a pair (duplicates have 0, indefinite kernels less).

    Returns
    -------
    steps : int
    gap : float
        The gap at the end, within the block.
    """
    q = v.size
    up = np.empty(q)
    down = np.empty(q)
    diagonal = np.empty(q)
    gains = np.empty(q)
    for t in range(q):
        diagonal[t] = K[t, t]
        _set_movable(t, y, a, lo, hi, up, down)
    return _iterate(
        K.reshape(-1), np.uint64(K.shape[1]), diagonal, y, v, a, lo, hi, up, down, gains, stop, max_steps, tau
    )


@njit(cache=True, nogil=True)
def directions(y: Any, a: Any, lo: Any, hi: Any) -> Any:
    """Tell for each variable whether its y·a may grow (`GROWS`) and shrink (`SHRINKS`)."""
    moves = np.empty(a.size, np.uint8)
    for t in range(a.size):
        below, above = a[t] < hi[t], a[t] > lo[t]
        if y[t] < 0:
            below, above = above, below
        moves[t] = (GROWS if below else 0) | (SHRINKS if above else 0)
    return moves


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, nogil=True)
def survey(F: Any, column: Any, linear: Any, signed: Any, moves: Any, v: Any) -> tuple[float, float, float]:
    """Fill `v = linear - F[column]` and look at all variables once.

    Parameters
    ----------
    F, column, linear : as the engine keeps them
        An empty `column` stands for 0, 1, 2 …
    signed : (n,) float64
        `y·a`.
    moves : (n,) uint8
        From `directions`.

    Returns
    -------
    highest, lowest : float
        As of `extremes`.
    product : float
        `signed · F[column]`.
    """
    highest, lowest, product = -BIG, BIG, 0.0
    n = np.uint64(v.size)
    if column.size == 0:
        for t in range(_0, n):
            f = F[t]
            x = linear[t] - f
            v[t] = x
            product += signed[t] * f
            highest = fast_max(highest, x if moves[t] & GROWS else -BIG)
            lowest = fast_min(lowest, x if moves[t] & SHRINKS else BIG)
    else:
        for t in range(_0, n):
            f = F[column[t]]
            x = linear[t] - f
            v[t] = x
            product += signed[t] * f
            highest = fast_max(highest, x if moves[t] & GROWS else -BIG)
            lowest = fast_min(lowest, x if moves[t] & SHRINKS else BIG)
    return highest, lowest, product


@njit(cache=True, nogil=True)
def extremes(v: Any, y: Any, a: Any, lo: Any, hi: Any) -> tuple[float, float, int, int]:
    """Largest v over the variables whose y·a may grow and smallest over those whose y·a may shrink, with indices.

    Returns
    -------
    highest, lowest : float
        `-BIG` and `BIG` where no such variable exists.
    i, j : int
        The first index that attains each, or -1.
    """
    highest, lowest, i, j = -BIG, BIG, -1, -1
    for t in range(v.size):
        grow, shrink = a[t] < hi[t], a[t] > lo[t]
        if y[t] < 0:
            grow, shrink = shrink, grow
        if grow and v[t] > highest:
            highest = v[t]
            i = t
        if shrink and v[t] < lowest:
            lowest = v[t]
            j = t
    return highest, lowest, i, j


@njit(cache=True, nogil=True)
def violators(v: Any, moves: Any, highest: float, lowest: float, wanted_up: int, wanted: int) -> tuple[Any, Any]:
    """Indices of variables that violate optimality most.

    First those whose y·a may grow and v > lowest, the strongest `wanted_up` of them; then those where it may shrink and
    v < highest, the strongest `wanted`. There may be fewer, and a few more: all that share the last bin of a histogram.
    """
    # few branches: which way a variable may move is a coin toss to the processor
    n = np.uint64(v.size)
    last = _BINS - 1
    scale = _BINS / (highest - lowest)
    ups = np.zeros(_BINS, np.int64)
    downs = np.zeros(_BINS, np.int64)
    for t in range(_0, n):
        x, m = v[t], np.int64(moves[t])
        place = np.uint64(fast_min(fast_max((x - lowest) * scale, 0.0), float(last)))
        ups[place] += (m & GROWS) * (x > lowest)
        downs[place] += (m >> 1) * (x < highest)
    least, n_up = _BINS, 0
    while least > 0 and n_up < wanted_up:
        least -= 1
        n_up += ups[least]
    most, n_down = -1, 0
    while most < last and n_down < wanted:
        most += 1
        n_down += downs[most]
    up = np.empty(n_up, np.int64)
    down = np.empty(n_down, np.int64)
    i = 0
    j = 0
    for t in range(_0, n):
        x, m = v[t], np.int64(moves[t])
        place = np.int64(fast_min(fast_max((x - lowest) * scale, 0.0), float(last)))
        strong_up = (m & GROWS) * (x > lowest) * (place >= least)
        strong_down = (m >> 1) * (x < highest) * (place <= most)
        if strong_up + strong_down:
            if strong_up:
                up[i] = t
                i += 1
            if strong_down:
                down[j] = t
                j += 1
    return up, down
