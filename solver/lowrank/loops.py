# mypy: ignore-errors
# Numba gives these functions their types; the checker does not see them.
"""The compiled loops over rows of the factor: float32 rows, float64 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, nogil=True)
def dots(G: Any, w: Any, out: Any) -> None:
    """`out = G w`."""
    for i in range(G.shape[0]):
        total = 0.0
        for j in range(G.shape[1]):
            total += np.float64(G[i, j]) * w[j]
        out[i] = total


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, nogil=True)
def squares(G: Any, out: Any) -> None:
    """Squared norms of the rows."""
    for i in range(G.shape[0]):
        total = 0.0
        for j in range(G.shape[1]):
            total += np.float64(G[i, j]) * np.float64(G[i, j])
        out[i] = total


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, nogil=True)
def accumulate(G: Any, coefficients: Any, w: Any) -> None:
    """`w += Gᵀ coefficients`."""
    for i in range(G.shape[0]):
        c = coefficients[i]
        if c != 0.0:
            for j in range(G.shape[1]):
                w[j] += c * np.float64(G[i, j])


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, nogil=True)
def ascend(
    G: Any,
    row: Any,
    variables: Any,
    y: Any,
    p: Any,
    lo: Any,
    hi: Any,
    curvature: Any,
    a: Any,
    w: Any,
    multiplier: float,
    weight: float,
    excess: float,
    bound: float,
    active: Any,
) -> tuple[float, float]:
    """Minimise over one variable after the other.

    Parameters
    ----------
    G : (m, r) float32
    row : (k,) int64
        Row of G of each variable.
    variables : (k,) int64
        The variables, in the order in which they are visited.
    y, p, lo, hi : (n,) float64
    curvature : (n,) float64
        Second derivative along each variable.
    a : (n,) float64, updated
    w : (r,) float64, updated
        `Σ_i y_i a_i G_i`.
    multiplier, weight : float
        Of the equality constraint: its multiplier and the weight of its square.
    excess : float
        `yᵀa - delta`.
    bound : float
        A variable at a bound whose gradient holds it there by more than this is left out from now on.
    active : (n,) bool, updated
        False for the variables that were left out.

    Returns
    -------
    excess : float
    violation : float
        Largest projected gradient that was met.
    """
    violation = 0.0
    width = G.shape[1]
    for k in range(variables.size):
        i = variables[k]
        g_row = row[k]
        total = 0.0
        for j in range(width):
            total += np.float64(G[g_row, j]) * w[j]
        before = a[i]
        gradient = y[i] * (total + multiplier + weight * excess) + p[i]
        if before <= lo[i] and gradient >= 0.0:
            if gradient > bound:
                active[i] = False
            continue
        if before >= hi[i] and gradient <= 0.0:
            if -gradient > bound:
                active[i] = False
            continue
        violation = max(violation, abs(gradient))
        after = min(max(before - gradient / curvature[i], lo[i]), hi[i])
        a[i] = after
        change = y[i] * (after - before)
        if change != 0.0:
            excess += change
            for j in range(width):
                w[j] += change * np.float64(G[g_row, j])
    return excess, violation
