"""Probabilities from scores, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from solver.band import Band
from solver.report import ReliabilityBin
from solver.typing import FloatArray


@dataclass(frozen=True)
class Sigmoid:
    """P(positive | score) = 1 / (1 + exp(-(slope · score + offset)))."""

    slope: float
    offset: float

    def __call__(self, scores: ArrayLike) -> FloatArray:
        """Probabilities of the positive class, in the order of the scores."""
        return np.asarray(expit(self.slope * np.asarray(scores, dtype=np.float64) + self.offset))

    def of_threshold(self, threshold: float) -> float | None:
        """A threshold as a probability; None where all rows have the same one, which then decides nothing."""
        return float(self(threshold)) if self.slope > 0 else None


def band_probabilities(band: Band, sigmoid: Sigmoid | None) -> dict[str, float | None]:
    """The bounds of a band as probabilities; None where a bound is none, or as of a threshold."""
    return {
        name: None if sigmoid is None or bound is None else sigmoid.of_threshold(bound)
        for name, bound in band.to_json().items()
    }


def told_band(band: Band | None, sigmoid: Sigmoid | None) -> dict[str, float | None] | None:
    """The bounds of a band, and the same as probabilities, as answers have them."""
    if band is None:
        return None
    as_probabilities = band_probabilities(band, sigmoid)
    return band.to_json() | {f"{name}_probability": value for name, value in as_probabilities.items()}


def fit_sigmoid(scores: ArrayLike, y: ArrayLike) -> Sigmoid:
    """Fit probabilities to scores of rows that the scored model was not trained on (Platt scaling).

    Maximum likelihood with Platt's targets (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2), which keep the probabilities of
    separable scores away from 0 and 1. The slope is never negative, so the order of the scores is kept.

    Parameters
    ----------
    scores : float array of shape (n,), finite
    y : array of shape (n,)
        Positive where > 0; both classes.

    References
    ----------
    Platt, "Probabilistic outputs for support vector machines", 1999; Lin, Lin and Weng, Machine Learning 68, 2007.
    """
    values = np.asarray(scores, dtype=np.float64)
    truth = np.asarray(y) > 0
    if values.shape != truth.shape or values.ndim != 1 or not np.all(np.isfinite(values)):
        raise ValueError("scores must be finite, 1-d and as long as y")
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if positives == 0 or negatives == 0:
        raise ValueError("probabilities need calibration rows of both classes")
    target = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    centre, scale = values.mean(), values.std()
    standard = (values - centre) / (scale if scale > 0 else 1.0)

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        margin = parameters[0] * standard + parameters[1]
        error = expit(margin) - target
        return (
            float(np.sum(np.logaddexp(0, margin) - target * margin)),
            np.array([error @ standard, error.sum()]),
        )

    start = np.array([1.0, np.log((positives + 1) / (negatives + 1))])
    # imported here, as the API, which only predicts, is to start without it
    from scipy.optimize import minimize

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (None, None)])
    slope = float(found.x[0]) / (scale if scale > 0 else 1.0)
    return Sigmoid(slope, float(found.x[1]) - slope * float(centre))


def brier_score(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean squared difference between the probability and the truth (0 or 1)."""
    truth = (np.asarray(y) > 0).astype(np.float64)
    return float(np.mean((np.asarray(probabilities, dtype=np.float64) - truth) ** 2))


def reliability_curve(y: ArrayLike, probabilities: ArrayLike, bins: int = 10) -> list[ReliabilityBin]:
    """Observed share of positives against the predicted one, in bins of equally many rows.

    Returns
    -------
    list of ReliabilityBin
        By rising probability; rows of equal probability share a bin.
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    truth = np.asarray(y) > 0
    values = np.asarray(probabilities, dtype=np.float64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1])) if len(values) else np.zeros(0)
    group = np.searchsorted(edges, values, side="left")
    return [
        ReliabilityBin(
            n=int(members.sum()), predicted=float(values[members].mean()), observed=float(truth[members].mean())
        )
        for members in (group == k for k in range(len(edges) + 1))
        if members.any()
    ]
