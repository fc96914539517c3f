"""Whether one classifier is better than another on the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    cells = joint_counts(y_true, first, second)
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


def joint_counts(y_true: ArrayLike, first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
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
