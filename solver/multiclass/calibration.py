"""Scores of two-class problems turned into probabilities of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from solver.multiclass.coupling import coupled, normalised
from solver.multiclass.problems import Scheme
from solver.typing import BoolArray, FloatArray, IndexArray

_ROUNDS: Final = 100
_SMALL: Final = 1e-9
_BLOCK_ELEMENTS: Final = 1 << 21


@dataclass(frozen=True)
class Calibration:
    """A sigmoid for each problem of two classes, and how they become probabilities of the classes.

    Attributes
    ----------
    slopes, offsets : float64 arrays of shape (problems,)
        P(positive | score) = 1 / (1 + exp(-(slope · score + offset))); no slope is below 0.
    scheme : {"one_vs_rest", "one_vs_one"}
        Probabilities against the rest are divided by their sum, those of pairs are coupled.
    classes : int
    """

    slopes: FloatArray
    offsets: FloatArray
    scheme: Scheme
    classes: int

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Probabilities, (n, classes), of scores, (n, problems)."""
        each = expit(self.slopes * scores + self.offsets)
        if self.classes == 2:
            return np.column_stack([1 - each[:, 0], each[:, 0]])
        return coupled(each, self.classes) if self.scheme == "one_vs_one" else normalised(each)


def calibrate(scores: FloatArray, problems: NDArray[np.int8], scheme: Scheme, classes: int) -> Calibration:
    """Fit a sigmoid for each problem to scores of rows that the scored models were not trained on (Platt scaling).

    Parameters
    ----------
    scores : float64 array of shape (n, problems)
    problems : int8 array of shape (n, problems)
        1 and 0 for the two classes, anything else for a row without a part.
    scheme, classes
        See `Calibration`.
    """
    slopes, offsets = np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
    step = max(1, _BLOCK_ELEMENTS // max(1, len(scores)))
    for start in range(0, scores.shape[1], step):
        columns = np.arange(start, min(start + step, scores.shape[1]))
        rows, counts = _own_rows(problems[:, columns] >= 0)
        truth = problems[rows, columns] == 1
        slopes[columns], offsets[columns] = _sigmoids(scores[rows, columns], truth, counts)
    return Calibration(slopes, offsets, scheme, classes)


def _own_rows(takes_part: BoolArray) -> tuple[IndexArray, BoolArray]:
    """Rows that take part in each column, (longest, columns), and which of them count: short columns are filled up."""
    lengths = takes_part.sum(axis=0)
    counts = np.arange(int(lengths.max(initial=0)))[:, None] < lengths
    # the rows that take part first, in their order
    rows = np.argsort(~takes_part, axis=0, kind="stable")[: len(counts)]
    return rows, counts


def _sigmoids(scores: FloatArray, truth: BoolArray, counts: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Slopes and offsets by Newton's method with halved steps, of all columns at once.

    Maximum likelihood with Platt's targets, as `solver.evaluation.probability.fit_sigmoid` has it for one.
    """
    rows = np.maximum(counts.sum(axis=0), 1)
    positives = (truth & counts).sum(axis=0)
    negatives = rows - positives
    target = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    weight = counts.astype(np.float64)
    centre = (scores * weight).sum(axis=0) / rows
    scale = np.sqrt((((scores - centre) ** 2) * weight).sum(axis=0) / rows)
    scale[scale == 0] = 1.0
    standard = (scores - centre) / scale

    def loss(slope: FloatArray, offset: FloatArray) -> FloatArray:
        margin = slope * standard + offset
        return np.asarray(((np.logaddexp(0, margin) - target * margin) * weight).sum(axis=0))

    flat = np.log((positives + 1) / (negatives + 1))
    slope, offset = np.ones_like(flat), flat.copy()
    before = loss(slope, offset)
    for _ in range(_ROUNDS):
        likely = expit(slope * standard + offset)
        error = (likely - target) * weight
        curvature = likely * (1 - likely) * weight
        by_slope, by_offset = (error * standard).sum(axis=0), error.sum(axis=0)
        a = (curvature * standard**2).sum(axis=0) + _SMALL
        b, c = (curvature * standard).sum(axis=0), curvature.sum(axis=0) + _SMALL
        determinant = np.maximum(a * c - b * b, _SMALL**2)
        step_slope = (c * by_slope - b * by_offset) / determinant
        step_offset = (a * by_offset - b * by_slope) / determinant
        factor = np.ones_like(slope)
        for _ in range(30):
            after = loss(slope - factor * step_slope, offset - factor * step_offset)
            worse = after > before
            if not worse.any():
                break
            factor[worse] /= 2
        factor[after > before] = 0.0
        slope, offset, gained = slope - factor * step_slope, offset - factor * step_offset, before - after
        before = np.minimum(before, after)
        if np.all(gained <= _SMALL * rows):
            break
    # scores that rank the wrong way round tell nothing: all rows have the share of the targets
    shares = (target * weight).sum(axis=0) / rows
    falls = slope < 0
    slope = np.where(falls, 0.0, slope)
    offset = np.where(falls, np.log(shares / (1 - shares)), offset)
    return slope / scale, offset - slope / scale * centre
