"""Confidence intervals for proportions, for F1 and for costs."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from solver.evaluation.counts import ConfusionCounts
from solver.typing import FloatArray

WORTH_FOR_INTERVALS: Final = 0.7
"""`worth` of calibration rows: what one says of a threshold that they have chosen, of what an untouched row says.

Chances have `solver.chances.WORTH_FOR_CHANCES`. With it, test figures
lie inside as often as is said. Measured on ten data sets, for F1, F_β, targets and costs, and confirmed on others with
every algorithm (`benchmarks/claims.py`).
"""


def wilson(successes: int, trials: int, confidence: float = 0.95, worth: float = 1.0) -> tuple[float, float]:
    """Two-sided Wilson score interval of a proportion (Wilson 1927).

    Parameters
    ----------
    successes, trials : int
        0 <= successes <= trials, trials >= 1.
    confidence : float, default 0.95
        Nominal coverage in (0, 1).
    worth : float, default 1
        What each trial counts, in (0, 1]: less than one where the trials have had a say in what is measured.

    Returns
    -------
    (low, high) : tuple of float, both in [0, 1]
    """
    _check(successes, trials, confidence)
    z = float(ndtri(0.5 + confidence / 2))
    share, n = successes / trials, worth * trials
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # at the ends the formula is exact up to rounding; say 0 and 1 there
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return float(low), float(high)


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95) -> FloatArray:
    """One-sided exact lower bounds of proportions, BetaInv(1 - confidence; k, n - k + 1).

    Parameters
    ----------
    successes, trials : arrays of the same shape
        0 <= successes <= trials; a bound is 0 where successes is 0.
    confidence : float, default 0.95
        The true proportion lies at or above each single bound with at least this probability.

    Returns
    -------
    float64 array of the same shape
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    hits = np.asarray(successes, dtype=np.float64)
    total = np.asarray(trials, dtype=np.float64)
    if np.any(hits < 0) or np.any(hits > total):
        raise ValueError("successes must lie between 0 and trials")
    some = hits > 0
    bounds = betaincinv(np.where(some, hits, 1.0), np.where(some, total - hits, 0.0) + 1, 1 - confidence)
    return np.where(some, bounds, 0.0)


def cost_interval(
    counts: ConfusionCounts, costs: tuple[float, float], confidence: float = 0.95, worth: float = 1.0
) -> tuple[float, float]:
    """Interval of the mean cost of a row, from the Wilson intervals of the two error rates.

    The squared distances of the two parts are added (MOVER); that the two kinds of errors exclude each other is left
    out, which errs towards a wider interval. Unlike a bootstrap it is not of length zero where no error was seen. Where
    all rows are decided alike, the other error cannot happen and counts nothing.

    Parameters
    ----------
    counts : ConfusionCounts
        At least one row.
    costs : (false_negative, false_positive)
        Cost of one such error, at least 0.
    confidence, worth
        As in `wilson`.

    Returns
    -------
    (low, high) : tuple of float, low >= 0

    References
    ----------
    Zou and Donner, "Construction of confidence intervals about effect measures", Statistics in Medicine 27, 2008.
    """
    n = counts.total
    below = above = 0.0
    negative = counts.true_negatives + counts.false_negatives
    for errors, cost, decided in (
        (counts.false_negatives, costs[0], negative),
        (counts.false_positives, costs[1], n - negative),
    ):
        if decided == 0:
            continue
        low, high = wilson(errors, n, confidence, worth)
        below += (cost * (errors / n - low)) ** 2
        above += (cost * (high - errors / n)) ** 2
    mean = counts.cost(*costs) / n
    return max(0.0, mean - float(np.sqrt(below))), mean + float(np.sqrt(above))


def f1_interval(counts: ConfusionCounts, confidence: float = 0.95, worth: float = 1.0) -> tuple[float, float]:
    """Interval of F1: a Wilson interval, as F1 = 2s / (1 + s).

    There s is the share of true positives among the rows that are positive or predicted positive, and given their
    number it is a proportion. Unlike a bootstrap this says something where no error was seen, too.

    Parameters
    ----------
    counts : ConfusionCounts
        At least one row that is positive or predicted positive, otherwise F1 is undefined.
    confidence, worth
        As in `wilson`.

    Returns
    -------
    (low, high) : tuple of float, both in [0, 1]
    """
    relevant = counts.true_positives + counts.false_positives + counts.false_negatives
    if relevant == 0:
        raise ValueError("F1 is undefined: no row is positive or predicted positive")
    low, high = wilson(counts.true_positives, relevant, confidence, worth)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def _check(successes: int, trials: int, confidence: float) -> None:
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
