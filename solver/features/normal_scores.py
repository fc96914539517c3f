"""Columns of numbers with a long tail → normal scores, so that what differs where most values lie is seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from solver.features.errors import StateError
from solver.features.wild_values import moments
from solver.typing import FloatArray

# Columns whose skewness is larger, either way. Chosen on seven data sets, confirmed on others: docs/features.md.
SKEWED: Final = 1.0
# so many knots, of which the normal scores are evenly spaced from -3 to 3: dense where the tail is long
KNOTS: Final = 33
_FURTHEST_SCORE: Final = 3.0
# values that differ by less are not told apart: no slope overflows
_LEAST_GAP: Final = 1e-290


class Knots(NamedTuple):
    """Where one column bends, in its own units, and the normal scores there; both rise."""

    values: FloatArray
    scores: FloatArray


def find_knots(values: FloatArray) -> Knots | None:
    """Return how the numbers of a column become normal scores; None for one that is not skewed, or has two values.

    The score of a value is what a standard normal variable has below it with the share of values that are smaller,
    and half of those that are equal (van der Waerden; midranks). Between knots it is interpolated. So a model learns
    from which of two values is larger, and how many lie between, where the difference would say next to nothing for
    most and everything for the tail.

    Parameters
    ----------
    values : float64 array
        Finite, in any order.
    """
    mean, deviation = moments(values)
    if not deviation > 0 or not float(values.max()) - float(values.min()) < math.inf:
        return None
    standard = (values - mean) / deviation
    if not abs(float((standard**3).mean())) > SKEWED:
        return None
    ordered = np.sort(values)
    distinct = np.unique(ordered)
    if len(distinct) > KNOTS:
        shares = [NormalDist().cdf(score) for score in np.linspace(-_FURTHEST_SCORE, _FURTHEST_SCORE, KNOTS - 2)]
        places = np.floor(np.array(shares) * len(ordered)).astype(np.intp)
        chosen = np.searchsorted(distinct, np.concatenate([ordered[:1], ordered[places], ordered[-1:]]))
        # A value that many rows have, such as 0, is far from its neighbours by rank: these are knots, too.
        shared = chosen[np.bincount(chosen, minlength=len(distinct))[chosen] > 1]
        chosen = np.concatenate([chosen, shared + 1, shared - 1])
        distinct = distinct[np.unique(chosen.clip(0, len(distinct) - 1))]
    if len(distinct) < 3 or np.diff(distinct).min() < _LEAST_GAP:
        return None
    below, up_to = (np.searchsorted(ordered, distinct, side) for side in ("left", "right"))
    midranks = (below + up_to) / (2 * len(ordered))
    return Knots(distinct, np.array([NormalDist().inv_cdf(share) for share in midranks]))


class NormalScores:
    """Applies the knots of skewed columns. Beyond the first and the last one, scores go on as they do between these.

    Parameters
    ----------
    columns : sequence of int
        Which columns of numbers are skewed.
    knots : sequence of Knots
        As many.

    Attributes
    ----------
    bends : float64 array of shape (skewed columns, knots)
        Where the knots are; infinite behind the last one of a column.
    pieces : float64 array of shape (3, skewed columns, knots + 1)
        What lies before the first bend, between two, and behind the last: a value, its score, and the slope.
    """

    def __init__(self, columns: Sequence[int], knots: Sequence[Knots]) -> None:
        self.columns = np.array(columns, dtype=np.int64)
        self.knots = list(knots)
        most = max((len(each.values) for each in knots), default=0)
        shape = len(knots), most + 1
        self.bends = np.full((len(knots), most), np.inf)  # no value is beyond what fills a row up
        self.pieces = np.zeros((3, *shape))
        self._from, self._score, self._slope = self.pieces
        for row, (values, scores) in enumerate(knots):
            n = len(values)
            beyond = (scores[-1] - scores[0]) / (values[-1] - values[0])
            self.bends[row, :n] = values
            self._from[row, : n + 1] = [values[0], *values]
            self._score[row, : n + 1] = [scores[0], *scores]
            self._slope[row, : n + 1] = [beyond, *(np.diff(scores) / np.diff(values)), beyond]
        self._rows = np.arange(len(knots))

    def of_row(self, values: FloatArray) -> FloatArray:
        """Scores of one value of each skewed column, in the order of `columns`; NaN stays NaN."""
        at = self._rows, (values[:, None] >= self.bends).sum(axis=1)
        scores: FloatArray = self._score[at] + self._slope[at] * (values - self._from[at])
        return scores

    def of_column(self, which: int, values: FloatArray) -> FloatArray:
        """Scores of values of one skewed column: that at a place of `columns`."""
        n = len(self.knots[which].values)
        at = np.searchsorted(self.bends[which, :n], values, side="right")
        scores: FloatArray = self._score[which][at] + self._slope[which][at] * (values - self._from[which][at])
        return scores

    def value_of(self, which: int, score: float) -> float:
        """The value that has a score, in the units of the column."""
        at = int(np.searchsorted(self.knots[which].scores, score, side="right"))
        return float(self._from[which, at] + (score - self._score[which, at]) / self._slope[which, at])

    def slope_beyond(self, which: int) -> float:
        """By how much the score of a column grows with its value beyond its first and last knot."""
        return float(self._slope[which, 0])

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        return {
            "skewed": self.columns,
            "knot_counts": np.array([len(each.values) for each in self.knots], dtype=np.int64),
            "knots": np.concatenate([each.values for each in self.knots]),
            "knot_scores": np.concatenate([each.scores for each in self.knots]),
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], columns: int) -> Self:
        """Rebuild from `state`, believing nothing.

        Parameters
        ----------
        arrays : mapping of str to ndarray
        columns : int
            How many columns of numbers there are.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        skewed, counts, values, scores = (arrays[key] for key in ("skewed", "knot_counts", "knots", "knot_scores"))
        if len(skewed) != len(counts) or (np.diff(skewed) <= 0).any() or not np.isin(skewed, np.arange(columns)).all():
            raise StateError("table features: skewed columns must be columns of numbers, each once, with their knots")
        if (counts < 2).any() or not sum(counts.tolist()) == len(values) == len(scores):
            raise StateError("table features: each skewed column needs two knots, at least, with a score each")
        ends = np.cumsum(counts)[:-1]
        knots = [Knots(*each) for each in zip(np.split(values, ends), np.split(scores, ends), strict=True)]
        for each in knots if len(counts) else []:
            # of NaN, neither is so
            if not ((np.diff(each.values) >= _LEAST_GAP).all() and (np.diff(each.scores) > 0).all()):
                raise StateError("table features: knots and their scores must rise")
            with np.errstate(over="ignore"):
                if not (each.values[-1] - each.values[0] < math.inf and np.abs(each.scores).max() <= 100):
                    raise StateError("table features: knots are too far apart")
        return cls(skewed.tolist(), knots if len(counts) else [])
