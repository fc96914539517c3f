"""The chance that a target holds on new rows, from the counts of calibration rows that a threshold was chosen by."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import betainc, betaincinv

from solver.typing import FloatArray

LIKELY: Final = 0.75
"""Chance from which on a target is called likely to hold."""
WORTH_FOR_CHANCES: Final = 0.4
"""What a calibration row that has chosen the threshold counts in chances: so much of one that has not. Intervals have
`solver.evaluation.intervals.WORTH_FOR_INTERVALS`.

Measured over ten data sets, and confirmed on others (`benchmarks/promises.py`); it is no theorem."""
# Jeffreys' prior of a proportion
_PRIOR: Final = 0.5


class Share:
    """Beta posterior of a proportion, or of many.

    Parameters
    ----------
    hits, misses : float or array
        In rows that did not choose the threshold.
    """

    def __init__(self, hits: FloatArray | float, misses: FloatArray | float) -> None:
        self._a, self._b = np.asarray(hits) + _PRIOR, np.asarray(misses) + _PRIOR

    def above(self, target: float) -> FloatArray:
        """Chance that it is at least the target."""
        return np.asarray(1 - betainc(self._a, self._b, target))

    def lower(self, confidence: float) -> FloatArray:
        """Lower bound."""
        return np.asarray(betaincinv(self._a, self._b, 1 - confidence))

    def upper(self, confidence: float) -> FloatArray:
        """Upper bound."""
        return np.asarray(betaincinv(self._a, self._b, confidence))
