"""Whether one classifier is better than another on the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtr

from solver.evaluation.counts import ConfusionTables
from solver.typing import FloatArray

BOOTSTRAP_DRAWS: Final = 2000


@dataclass(frozen=True)
class PairedDifference:
    """How much better the first of two classifiers is.

    Attributes
    ----------
    gain : float
        Value of the first minus value of the second on these rows.
    standard_error : float
        Standard deviation of the gain over bootstrap samples of the rows.
    low, high : float
        Percentile interval of the gain.
    """

    gain: float
    standard_error: float
    low: float
    high: float

    def reversed(self) -> PairedDifference:
        """How much better the second one is."""
        return PairedDifference(-self.gain, self.standard_error, -self.high, -self.low)


def paired_bootstrap(
    y_true: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    value: Callable[[ConfusionTables], FloatArray],
    *,
    confidence: float = 0.95,
    draws: int = BOOTSTRAP_DRAWS,
    seed: int = 0,
) -> PairedDifference:
    """Bootstrap the difference of two decisions on the same rows; the same for the same input and seed.

    Parameters
    ----------
    y_true : array of shape (n,), n >= 1
        Positive where > 0.
    first, second : bool arrays of shape (n,)
        Which rows each classifier predicts positive.
    value : callable
        What confusion matrices are worth; greater is better.
    confidence : float, default 0.95
        Of the interval.
    draws, seed : int
        Bootstrap samples and seed.
    """
    cells = _joint_counts(y_true, first, second)
    total = int(cells.sum())
    if total == 0:
        raise ValueError("no row to compare the classifiers on")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")

    # resampling rows is resampling the eight cells of truth x first x second
    samples = np.random.default_rng(seed).multinomial(total, cells.ravel() / total, size=draws).reshape(-1, 2, 2, 2)
    gains = _values(samples, 1, value) - _values(samples, 2, value)
    tail = (1 - confidence) / 2
    low, high = np.quantile(gains, [tail, 1 - tail])
    gain = float((_values(cells[None], 1, value) - _values(cells[None], 2, value))[0])
    return PairedDifference(gain, float(gains.std()), float(low), float(high))


def mcnemar(y_true: ArrayLike, first: ArrayLike, second: ArrayLike) -> float:
    """Exact McNemar test: two-sided p-value that two classifiers have the same error rate.

    Looks at the rows that exactly one of them gets right; under the hypothesis each is right on half of these
    (McNemar 1947, with the binomial distribution).

    Parameters
    ----------
    y_true : array of shape (n,)
        Positive where > 0.
    first, second : bool arrays of shape (n,)
        Which rows each classifier predicts positive.

    Returns
    -------
    float
        1 when they are right on the same rows.
    """
    cells = _joint_counts(y_true, first, second)
    only_first = int(cells[1, 1, 0] + cells[0, 0, 1])
    only_second = int(cells[1, 0, 1] + cells[0, 1, 0])
    return float(min(1.0, 2 * bdtr(min(only_first, only_second), only_first + only_second, 0.5)))


def unpaired_z_test(first_error: float, second_error: float, n: int) -> tuple[float, float]:
    """z-test of two error rates on a test set, as equation 4.6 of the data-augmentation dissertation prints it.

    It takes the classifiers for independent although they share the test rows, and the one-sided p-value for the
    difference's absolute value; it is here to reproduce that work's tables. Use `mcnemar` or `paired_bootstrap`
    otherwise.

    Parameters
    ----------
    first_error, second_error : float in [0, 1]
    n : int
        Test rows.

    Returns
    -------
    (z, p) : tuple of float
        p = P[Z > z]; z is 0 when the rates are equal, infinite when they differ without any variance.
    """
    if n < 1 or not (0 <= first_error <= 1 and 0 <= second_error <= 1):
        raise ValueError(f"need error rates in [0, 1] and n >= 1, got {first_error}, {second_error} and {n}")
    difference = abs(first_error - second_error)
    variance = (first_error * (1 - first_error) + second_error * (1 - second_error)) / n
    if difference == 0:
        return 0.0, 0.5
    z = difference / np.sqrt(variance) if variance > 0 else np.inf
    return float(z), float(ndtr(-z))


def _joint_counts(y_true: ArrayLike, first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """Counts by (truth, first, second), each 0 or 1."""
    parts = [np.asarray(y_true) > 0, np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)]
    if len({part.shape for part in parts}) != 1 or parts[0].ndim != 1:
        raise ValueError(f"need three 1-d arrays of one length, got shapes {[part.shape for part in parts]}")
    code = parts[0] * 4 + parts[1] * 2 + parts[2]
    return np.bincount(code, minlength=8).astype(np.int64).reshape(2, 2, 2)


def _values(samples: NDArray[np.int64], axis: int, value: Callable[[ConfusionTables], FloatArray]) -> FloatArray:
    """What each sample's confusion matrix is worth for the classifier on this axis."""
    tables = samples.sum(axis=4 - axis)
    return np.asarray(
        value(ConfusionTables(tables[:, 1, 1], tables[:, 0, 1], tables[:, 0, 0], tables[:, 1, 0])), dtype=np.float64
    )
