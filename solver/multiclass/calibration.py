"""Scores of two-class problems turned into probabilities of the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from solver.multiclass.coupling import coupled, normalised
from solver.multiclass.problems import OwnRows, Scheme
from solver.typing import FloatArray


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
        return self.of_classes(expit(self.slopes * scores + self.offsets))

    def of_classes(self, each: FloatArray) -> FloatArray:
        """Probabilities of the classes, (n, classes), from those of the problems, (n, problems)."""
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
    problem, row = np.nonzero(problems.T >= 0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(problem, minlength=problems.shape[1]))])
    own = OwnRows(starts, row, problems[row, problem] == 1)
    return calibrate_own(scores[row, problem], own, scheme, classes)


def calibrate_own(
    scores: FloatArray, own: OwnRows, scheme: Scheme, classes: int, like: Calibration | None = None
) -> Calibration:
    """Fit a sigmoid for each problem to scores of its own rows.

    Parameters
    ----------
    scores : float64 array
        As they stand in `own`, each by a model that its row did not train.
    own : OwnRows
    scheme, classes
        See `Calibration`.
    like : Calibration, optional
        One of nearly the same rows, from which the search starts.
    """
    # compiled: what only applies models does without
    from solver.multiclass.sigmoid_loops import fit_sigmoids

    slopes: FloatArray = np.zeros(own.problems) if like is None else like.slopes.copy()
    offsets: FloatArray = np.zeros(own.problems) if like is None else like.offsets.copy()
    starts, values = own.starts.astype(np.int64), np.ascontiguousarray(scores, dtype=np.float64)
    fit_sigmoids(starts, values, own.positive, slopes, offsets, like is not None)
    return Calibration(slopes, offsets, scheme, classes)
