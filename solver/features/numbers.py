"""Numbers → standardised numbers, of skewed columns standardised normal scores, and where they are missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solver.features.columns import CUT, LARGEST_SCORE, FeatureCounts
from solver.features.errors import StateError
from solver.features.normal_scores import Knots, NormalScores, find_knots
from solver.features.strings import pack_strings, unpack_strings
from solver.features.wild_values import WildValues, find_wild, may_be_wild, moments, wild_warnings
from solver.typing import BoolArray, FloatArray


class NumberColumns:
    """The fitted number columns, and how to apply them.

    Features are ordered: standardised numbers, then the 0/1 features that say where one is missing. Of a skewed column
    the normal scores are standardised (`solver.features.normal_scores`). A column of two values becomes 0 and 1
    instead, as a category would. All are cut. Wild values (`find_wild`) are no part of the mean and the scale, so that
    the others stay as different as they are.

    Parameters
    ----------
    names : list of str
    median, mean, scale : float64 arrays
        What stands in, what is taken off, and what that is divided by, of each column.
    indicator : uint8 array
        Whether there is a feature that says where the column is missing.
    low, high : float64 arrays, optional
        The range of the fitted rows; older models have none.
    cut : float, default 1e6
        Largest size of a scaled number, `CUT` since models know of it.
    scores : NormalScores, optional
        Of the skewed columns; `mean` and `scale` are those of the scores then.

    Attributes
    ----------
    names : list of str
        The columns.
    width : int
        Number of features.
    """

    def __init__(
        self,
        names: list[str],
        median: FloatArray,
        mean: FloatArray,
        scale: FloatArray,
        indicator: NDArray[np.uint8],
        low: FloatArray | None = None,
        high: FloatArray | None = None,
        cut: float = LARGEST_SCORE,
        scores: NormalScores | None = None,
    ) -> None:
        self.names = names
        self.cut = cut
        self.scores = scores or NormalScores([], [])
        self._low, self._high = low, high
        self._median, self._mean, self._scale, self._indicator = median, mean, scale, indicator
        valued = scale > 0  # else only the indicator is a feature
        self._valued, self._indicated = np.flatnonzero(valued), np.flatnonzero(indicator)
        self._valued_median, self._valued_mean, self._valued_scale = median[valued], mean[valued], scale[valued]
        self._far_low = np.full(int(valued.sum()), -np.inf)
        self._far_high = -self._far_low
        self._range = np.ones(int(valued.sum()))
        self._greatest = cut * self._range  # of the length of a row: NumPy is quicker with arrays than with numbers
        self._least = -self._greatest
        # where the skewed columns stand among those that have a feature
        self._skewed = np.searchsorted(self._valued, self.scores.columns)
        if low is not None and high is not None:
            with np.errstate(over="ignore"):
                width = high - low
                far_low, far_high = low - width, high + width
                for which, j in enumerate(self.scores.columns.tolist()):
                    far_low[j], far_high[j] = self.scores.of_column(which, np.array([far_low[j], far_high[j]]))
                    width[j] *= self.scores.slope_beyond(which)
                self._far_low = ((far_low - mean) / np.where(valued, scale, 1.0))[valued]
                self._far_high = ((far_high - mean) / np.where(valued, scale, 1.0))[valued]
                self._range = (width / np.where(valued, scale, 1.0))[valued]
        # a row whose scaled numbers have a smaller sum of squares than this has none that is far
        near = float(np.minimum(-self._far_low, self._far_high).min(initial=np.inf))
        self._near = near * near  # infinite beside a wild number; ** would raise
        self._surprising_if_missing = (indicator == 0)[valued]
        self.width = len(self._valued) + len(self._indicated)
        self._in_place = self.width == len(self._valued) == len(names)

    @classmethod
    def fit(cls, columns: Mapping[str, FloatArray], indicate: bool, warnings: list[str]) -> Self:
        """Learn medians, means and scales; a column that does not vary is left out with a warning.

        Parameters
        ----------
        columns : mapping of str to float64 array
            What is not finite is missing.
        indicate : bool
            Whether there may be a feature that says where a number is missing.
        warnings : list of str
        """
        fitted: list[tuple[str, float, float, float, bool, Knots | None]] = []
        ranges: list[tuple[float, float]] = []
        wild: list[tuple[str, WildValues, float]] = []
        for name, values in columns.items():
            found = _fit_column(name, values, indicate, warnings, wild)
            if found is not None:
                fitted.append((name, *found))
                present = values[np.isfinite(values)]
                ranges.append((float(present.min()), float(present.max())))
        warnings += wild_warnings(wild, "; if it stands for no value at all, leave it empty")
        statistics = np.array([row[1:4] for row in fitted], dtype=np.float64).reshape(-1, 3)
        return cls(
            [row[0] for row in fitted],
            statistics[:, 0].copy(),
            statistics[:, 1].copy(),
            statistics[:, 2].copy(),
            np.array([row[4] for row in fitted], dtype=np.uint8),
            np.array([low for low, _ in ranges], dtype=np.float64),
            np.array([high for _, high in ranges], dtype=np.float64),
            CUT,
            NormalScores(
                [j for j, row in enumerate(fitted) if row[5] is not None],
                [row[5] for row in fitted if row[5] is not None],
            ),
        )

    @property
    def feature_names(self) -> list[str]:
        """Readable names, such as `age` and `age is missing`."""
        return [self.names[j] for j in self._valued] + [f"{self.names[j]} is missing" for j in self._indicated]

    @property
    def feature_columns(self) -> list[str]:
        """The column that each feature is of."""
        return [self.names[j] for j in (*self._valued.tolist(), *self._indicated.tolist())]

    def transform(self, numbers: FloatArray, counts: FeatureCounts) -> FloatArray:
        """Features of values, shape (rows, width).

        Parameters
        ----------
        numbers : float64 array of shape (rows, columns)
            In the order of `names`; it may be written over.
        counts : FeatureCounts
            `missing` and `far` are filled in.
        """
        if self._in_place:
            if len(numbers) == 1 and (ordinary := self._ordinary_row(numbers)) is not None:
                return ordinary
            self._standardise(numbers, counts)
            return numbers
        out = np.empty((len(numbers), self.width))
        n_valued = len(self._valued)
        out[:, :n_valued] = numbers[:, self._valued]
        self._standardise(out[:, :n_valued], counts)
        out[:, n_valued:] = ~np.isfinite(numbers[:, self._indicated])
        return out

    def _ordinary_row(self, numbers: FloatArray) -> FloatArray | None:
        """What `_standardise` makes of one row, or None if a value of it is missing or may be beyond the limit.

        The sum of squares tells that; to look at each value in turn costs as much again as all the rest.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self._skewed):  # not in place: the caller goes on with the values where this returns None
                numbers = numbers.copy()
                numbers[0, self._skewed] = self.scores.of_row(numbers[0, self._skewed])
            scaled = numbers - self._valued_mean
            scaled /= self._valued_scale
            values = scaled[0]
            square = values.dot(values)
            if not square < self._near and not (
                square < math.inf and not ((values < self._far_low) | (values > self._far_high)).any()
            ):
                return None
        if square > self.cut**2:  # else none of them is beyond it
            np.maximum(values, self._least, out=values)
            np.minimum(values, self._greatest, out=values)
        return scaled

    def _standardise(self, block: FloatArray, counts: FeatureCounts) -> None:
        """Fill and scale in place."""
        finite = np.isfinite(block)
        if not finite.all():
            absent = ~finite
            np.copyto(block, self._valued_median, where=absent)
            surprises = absent.sum(axis=0) * self._surprising_if_missing
            counts.missing.update(
                {self.names[self._valued[j]]: int(surprises[j]) for j in np.flatnonzero(surprises).tolist()}
            )
        with np.errstate(over="ignore"):
            for which, j in enumerate(self._skewed.tolist()):
                block[:, j] = self.scores.of_column(which, block[:, j])
            block -= self._valued_mean
            block /= self._valued_scale
        if not len(block):
            return
        low, high = block.min(axis=0), block.max(axis=0)
        if (low < self._far_low).any() or (high > self._far_high).any():
            far = (block < self._far_low) | (block > self._far_high)
            found = far.sum(axis=0)
            with np.errstate(over="ignore", invalid="ignore"):  # a range may be infinite: nothing is beyond it
                beyond = np.maximum(self._far_low - low, high - self._far_high) / self._range + 1
            for j in np.flatnonzero(found).tolist():
                counts.count_far(self.names[self._valued[j]], int(found[j]), beyond[j])
            counts.far_rows = np.flatnonzero(far.any(axis=1)).tolist()
        if (low < -self.cut).any() or (high > self.cut).any():
            np.maximum(block, -self.cut, out=block)
            np.minimum(block, self.cut, out=block)

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        text, ends = pack_strings(self.names)
        ranges = {} if self._low is None or self._high is None else {"number_low": self._low, "number_high": self._high}
        scores = self.scores.state() if len(self.scores.columns) else {}
        return (
            ranges
            | scores
            | {
                "number_text": text,
                "number_ends": ends,
                "median": self._median,
                "mean": self._mean,
                "scale": self._scale,
                "indicator": self._indicator,
            }
        )

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], cut: float = LARGEST_SCORE) -> Self:
        """Rebuild from `state`, believing nothing.

        Parameters
        ----------
        arrays : mapping of str to ndarray
        cut : float
            Where scaled numbers are cut.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        names = unpack_strings(arrays["number_text"], arrays["number_ends"])
        median, mean, scale, indicator = (arrays[key] for key in ("median", "mean", "scale", "indicator"))
        if any(len(part) != len(names) for part in (median, mean, scale, indicator)):
            raise StateError("table features: numbers need one median, mean, scale and indicator each")
        if (scale < 0).any() or ((scale == 0) & (indicator == 0)).any():
            raise StateError("table features: a scale must be above 0, or 0 for a column that is only an indicator")
        if (indicator > 1).any():
            raise StateError("table features: flags must be 0 or 1")
        low, high = arrays.get("number_low"), arrays.get("number_high")  # older files have none
        if low is not None and high is not None and (len(low) != len(names) or len(high) != len(names)):
            raise StateError("table features: numbers need one range each")
        if low is not None and high is not None and (low > high).any():
            raise StateError("table features: a range ends before it begins")
        scores = NormalScores.from_state(arrays, len(names))
        if not (scale[scores.columns] > 0).all():
            raise StateError("table features: a skewed column must be a feature")
        return cls(names, median, mean, scale, indicator, low, high, cut, scores)


def _fit_column(
    name: str,
    values: FloatArray,
    indicate: bool,
    warnings: list[str],
    wild: list[tuple[str, WildValues, float]],
) -> tuple[float, float, float, bool, Knots | None] | None:
    """Median, mean, scale (0: only the indicator is a feature), whether there is an indicator, knots if skewed."""
    finite = np.isfinite(values)
    present = values[finite]
    has_indicator = indicate and len(present) < len(values)
    if len(present) == 0:
        warnings.append(f"column {name!r} is left out: it has no number in the training rows")
        return None
    median = 2 * float(np.median(present / 2))  # so that the sum of two cannot overflow
    low, high = float(present.min()), float(present.max())
    if low == high:
        if has_indicator:  # where it is missing is all that it tells
            return median, median, 0.0, True, None
        warnings.append(f"column {name!r} is left out: it has the same value in all training rows")
        return None
    mean, scale, aside, knots = _centre_and_scale(values, finite, median, low, high)
    if not scale > 0:  # the values differ by less than float64 can square
        warnings.append(f"column {name!r} is left out: its values differ by next to nothing")
        return None
    if aside is not None:
        counts_as = mean + math.copysign(CUT * scale, aside.furthest - median)
        wild.append((name, aside, counts_as if knots is None else NormalScores([0], [knots]).value_of(0, counts_as)))
    return median, mean, scale, has_indicator, knots


def _centre_and_scale(
    values: FloatArray, finite: BoolArray, median: float, low: float, high: float
) -> tuple[float, float, WildValues | None, Knots | None]:
    """What is taken off and divided by, which the wild values have no part in, these, and knots of a skewed column."""
    filled = np.where(finite, values, median)
    mean, scale = moments(filled)
    found = find_wild(filled) if may_be_wild(len(filled), max(high - mean, mean - low), scale) else None
    aside, present = None, values[finite]
    if found is not None:
        aside, ordinary = found
        filled, present = filled[ordinary], values[finite & ordinary]
        mean, scale = moments(filled)
        low, high = float(present.min()), float(present.max())
    if high - low < math.inf and not ((present > low) & (present < high)).any():
        return low, high - low, aside, None
    knots = find_knots(present)
    if knots is not None:
        mean, scale = moments(NormalScores([0], [knots]).of_column(0, filled))
    return mean, scale, aside, knots
