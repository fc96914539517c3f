"""The confusion matrix of a binary decision and the ratios read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver.typing import FloatArray


@dataclass(frozen=True)
class ConfusionCounts:
    """Counts of a binary decision against the truth.

    The ratios are 0 where their denominator is 0: the convention that threshold rules need, because "nothing is
    predicted positive" must never look good. Reports show such a ratio as undefined instead
    (`solver.evaluation.measures`).
    """

    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int

    @property
    def total(self) -> int:
        """Number of rows."""
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def positives(self) -> int:
        """Number of rows that are truly positive."""
        return self.true_positives + self.false_negatives

    @property
    def negatives(self) -> int:
        """Number of rows that are truly negative."""
        return self.true_negatives + self.false_positives

    @property
    def predicted_positives(self) -> int:
        """Number of rows predicted positive."""
        return self.true_positives + self.false_positives

    @property
    def precision(self) -> float:
        """TP / (TP + FP)."""
        return _ratio(self.true_positives, self.predicted_positives)

    @property
    def recall(self) -> float:
        """TP / (TP + FN)."""
        return _ratio(self.true_positives, self.positives)

    @property
    def specificity(self) -> float:
        """TN / (TN + FP), one minus the false positive rate."""
        return _ratio(self.true_negatives, self.negatives)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN)."""
        return self.f_beta(1.0)

    def mirrored(self) -> ConfusionCounts:
        """The same with the names of the classes exchanged."""
        return ConfusionCounts(self.true_negatives, self.false_negatives, self.true_positives, self.false_positives)

    def f_beta(self, beta: float) -> float:
        """F_β = (1 + β²) TP / ((1 + β²) TP + β² FN + FP): recall counts β times as much as precision."""
        weight = beta * beta
        weighted = (1.0 + weight) * self.true_positives
        return _ratio(weighted, weighted + weight * self.false_negatives + self.false_positives)

    def cost(self, false_negative: float, false_positive: float) -> float:
        """Total cost of the errors, in the unit of the two costs."""
        return false_negative * self.false_negatives + false_positive * self.false_positives


@dataclass(frozen=True)
class ConfusionTables:
    """Many confusion matrices: arrays of counts, and of the ratios of `ConfusionCounts`."""

    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]
    true_negatives: NDArray[np.int64]
    false_negatives: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        """Number of rows."""
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def precision(self) -> FloatArray:
        """TP / (TP + FP)."""
        return _ratios(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> FloatArray:
        """TP / (TP + FN)."""
        return _ratios(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def specificity(self) -> FloatArray:
        """TN / (TN + FP)."""
        return _ratios(self.true_negatives, self.true_negatives + self.false_positives)

    @property
    def f1(self) -> FloatArray:
        """Harmonic mean of precision and recall."""
        return self.f_beta(1.0)

    def f_beta(self, beta: float) -> FloatArray:
        """F_β."""
        weight = beta * beta
        weighted = (1.0 + weight) * self.true_positives
        return _ratios(weighted, weighted + weight * self.false_negatives + self.false_positives)

    def cost(self, false_negative: float, false_positive: float) -> FloatArray:
        """Total cost of the errors, in the unit of the two costs."""
        return np.asarray(false_negative * self.false_negatives + false_positive * self.false_positives)


def confusion(y_true: ArrayLike, predicted_positive: ArrayLike) -> ConfusionCounts:
    """Count the four cells of the confusion matrix.

    Parameters
    ----------
    y_true : array of shape (n,)
        +1 (or any value > 0, or True) for a positive row, otherwise negative.
    predicted_positive : bool array of shape (n,)
        Which rows are predicted positive.
    """
    truth = np.asarray(y_true) > 0
    predicted = np.asarray(predicted_positive, dtype=bool)
    if truth.shape != predicted.shape or truth.ndim != 1:
        raise ValueError(
            f"y_true and predicted_positive must be 1-d and equally long, got {truth.shape} and {predicted.shape}"
        )
    true_positives = int(np.count_nonzero(truth & predicted))
    false_positives = int(np.count_nonzero(predicted)) - true_positives
    false_negatives = int(np.count_nonzero(truth)) - true_positives
    return ConfusionCounts(
        true_positives=true_positives,
        false_positives=false_positives,
        true_negatives=len(truth) - true_positives - false_positives - false_negatives,
        false_negatives=false_negatives,
    )


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0


def _ratios(numerators: NDArray[Any], denominators: NDArray[Any]) -> FloatArray:
    ratios: FloatArray = np.divide(numerators, denominators, out=np.zeros(denominators.shape), where=denominators > 0)
    return ratios
