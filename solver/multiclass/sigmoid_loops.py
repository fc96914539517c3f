# mypy: ignore-errors
# Numba gives these functions their types.
"""Sigmoids of many problems of two classes, fitted one after the other in compiled code."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numba import njit

from solver.kernels.simd import exp2_nonpositive_double

_ROUNDS: Final = 100
_HALVINGS: Final = 30
_SMALL: Final = 1e-9
_AT_ONCE: Final = 256
"""Factors between 1 and 2 whose product is still a number."""
_LOG2_E: Final = 1.0 / math.log(2.0)


@njit(cache=True, nogil=True)
def fit_sigmoids(starts: Any, scores: Any, positive: Any, slopes: Any, offsets: Any, is_start: bool) -> None:
    """Maximum likelihood with Platt's targets by Newton's method with halved steps, as `fit_sigmoid` has it for one.

    Parameters
    ----------
    starts : (problems + 1,) int64
        Where the rows of each problem begin.
    scores, positive : (rows,) float64 and bool
    slopes, offsets : (problems,) float64
        Filled; with `is_start` the search begins with what they hold.
    """
    for p in range(starts.size - 1):
        s, e = starts[p], starts[p + 1]
        slopes[p], offsets[p] = _fit(scores[s:e], positive[s:e], slopes[p], offsets[p], is_start and slopes[p] > 0.0)


@njit(cache=True, nogil=True)
def _fit(scores: Any, positive: Any, slope: float, offset: float, is_start: bool) -> tuple[float, float]:
    n = scores.size
    positives = 0
    total = 0.0
    for t in range(n):
        positives += positive[t]
        total += scores[t]
    centre = total / max(n, 1)
    squares = 0.0
    for t in range(n):
        squares += (scores[t] - centre) ** 2
    scale = math.sqrt(squares / max(n, 1))
    if scale == 0.0:
        scale = 1.0
    high, low = (positives + 1.0) / (positives + 2.0), 1.0 / (n - positives + 2.0)
    standard, target = np.empty(n), np.empty(n)
    for t in range(n):
        standard[t] = (scores[t] - centre) / scale
        target[t] = high if positive[t] else low
    if is_start:
        slope, offset = slope * scale, offset + slope * centre
    else:
        slope, offset = 1.0, math.log((positives + 1.0) / (n - positives + 1.0))
    before, by_slope, by_offset, a, b, c = _derivatives(standard, target, slope, offset)
    for _ in range(_ROUNDS):
        determinant = max(a * c - b * b, _SMALL**2)
        step_slope = (c * by_slope - b * by_offset) / determinant
        step_offset = (a * by_offset - b * by_slope) / determinant
        factor, after = 1.0, before
        for _ in range(_HALVINGS):
            after, by_slope, by_offset, a, b, c = _derivatives(
                standard, target, slope - factor * step_slope, offset - factor * step_offset
            )
            if after <= before:
                break
            factor /= 2.0
        if not after <= before:
            break
        slope, offset = slope - factor * step_slope, offset - factor * step_offset
        gained, before = before - after, after
        if gained <= _SMALL * n:
            break
    if slope < 0.0:
        # scores that rank the wrong way round tell nothing: all rows have the share of the targets
        share = target.sum() / max(n, 1)
        return 0.0, math.log(share / (1.0 - share))
    return slope / scale, offset - slope / scale * centre


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def _derivatives(
    standard: Any, target: Any, slope: float, offset: float
) -> tuple[float, float, float, float, float, float]:
    """Loss, its slopes by slope and offset, and its curvatures by both, by one each, and by the offset."""
    loss = by_slope = by_offset = a = b = c = 0.0
    for s in range(0, standard.size, _AT_ONCE):
        product = 1.0
        for t in range(s, min(s + _AT_ONCE, standard.size)):
            x = standard[t]
            margin = slope * x + offset
            small = exp2_nonpositive_double(-abs(margin) * _LOG2_E)
            product *= 1.0 + small
            likely = (1.0 if margin >= 0.0 else small) / (1.0 + small)
            loss += max(margin, 0.0) - target[t] * margin
            error, curvature = likely - target[t], likely * (1.0 - likely)
            by_slope += error * x
            by_offset += error
            a += curvature * x * x
            b += curvature * x
            c += curvature
        loss += math.log(product)
    return loss, by_slope, by_offset, a + _SMALL, b, c + _SMALL
