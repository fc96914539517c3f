"""Bets against a hypothesis: evidence that may be looked at after every label.

Whoever doubts a statement offers a fair bet on each draw, one that on average wins nothing if the doubt is right. To
turn 1 unit of capital into 20 has then a probability of at most 1/20, at *any* moment (Ville's inequality). So neither
the number of looks nor the choice of when to stop makes a false proof more frequent. The capital is shared among bets
of several sizes beforehand, and their sum counts.

References
----------
Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal Statistical
Society B 86, 2024. Ville, "Étude critique de la notion de collectif", 1939.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.typing import FloatArray


@dataclass(frozen=True)
class Bets:
    """How the capital is shared at the start.

    Parameters
    ----------
    kept : tuple of float
        Of each bet, the share of its capital that is kept where a draw pays nothing: in [0, 1). With 0 all is bet.
    weights : tuple of float
        Shares of the capital, positive; they add up to 1.
    """

    kept: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no way to share."""
        if len(self.kept) != len(self.weights) or not np.isclose(sum(self.weights), 1.0):
            raise ValueError("one weight a bet is needed, and together they must be 1")
        if not all(0 <= kept < 1 for kept in self.kept) or not all(weight > 0 for weight in self.weights):
            raise ValueError("of a bet at least 0 and less than all is kept, and its weight is positive")


BETS_ON_MANY: Final = Bets((0.0, 0.24, 0.6, 0.85), (0.695, 0.285, 0.015, 0.005))
"""For a mean that is thought to lie much nearer to its maximum than the hypothesis says.

Most is bet on draws without any failure: that proves a share of 0.95 with 62 of them (a test of a fixed number needs
59). The second bet suits a fourth of the failures that the hypothesis allows, the others suit more."""
BETS_ON_FEW: Final = Bets((0.3, 0.6, 0.8, 0.9, 0.95, 0.98), (0.1, 0.1, 0.2, 0.2, 0.2, 0.2))
"""For draws that mostly pay nothing, sometimes much."""
_SMALLEST_MEAN: Final = 1e-12


def log_capital(payoffs: FloatArray, means: FloatArray, bets: Bets) -> FloatArray:
    """Return the logarithm of the capital after each draw.

    A bet multiplies its capital by (1 + s u) / (1 + s m), where u is what the draw paid, m what it pays on average if
    the hypothesis is right, and s = 1 / kept - 1. So it needs no upper limit of u, and it never falls below zero.

    Parameters
    ----------
    payoffs : array of shape (draws,)
        At least 0; in units in which a draw pays about 1 under the hypothesis.
    means : array of shape (draws,)
        What each draw pays at most on average, given those before it, if the hypothesis is right. Without replacement
        it changes with every draw. A mean of 0 or less says that the hypothesis cannot be right any more.
    bets : Bets

    Returns
    -------
    float64 array of shape (draws,)
        At most log(1 / alpha) at all times with a probability of at least 1 - alpha, if the hypothesis is right.
    """
    means = np.maximum(means, _SMALLEST_MEAN)
    logs = np.empty((len(bets.kept), len(payoffs)))
    for row, (kept, weight) in enumerate(zip(bets.kept, bets.weights, strict=True)):
        if kept == 0:
            with np.errstate(divide="ignore"):
                steps = np.log(payoffs) - np.log(means)
        else:
            size = 1 / kept - 1
            steps = np.log1p(size * payoffs) - np.log1p(size * means)
        np.cumsum(steps, out=logs[row])
        logs[row] += np.log(weight)
    best = logs.max(axis=0, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = best + np.log(np.exp(logs - best).sum(axis=0))
    return np.where(np.isneginf(best), -np.inf, sums)
