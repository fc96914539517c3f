"""Every decision that moving one threshold over a set of scores can make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver.evaluation.counts import ConfusionCounts
from solver.typing import BoolArray, FloatArray

# relative step to the outermost thresholds, which have a score on one side only
_MARGIN: Final = 1e-6
# of a midpoint between a score and its opposite, relative to their distance
_ROUNDING: Final = 1e-12
# parts of the resolution within which scores are looked at for ties
_FINER: Final = 10.0 ** -np.arange(5)
_BEYOND_CHANCE: Final = 2.0
"""Standard errors by which left-out scores must rank better than chance to be believed: the scores of one fold hang
together, so that 1.64 are reached by 15 % of labels that are drawn at random."""


@dataclass(frozen=True)
class OperatingCurve:
    """Candidate thresholds and what each of them decides, for the rule `score > threshold`.

    Thresholds fall strictly from "nothing is positive" (above the largest score) to "everything is positive" (below
    the smallest). Between them stand the midpoints of neighbouring distinct scores, so tied scores move together and no
    threshold stands on a score that it could confuse. Scores that lie together within their resolution are tied too.

    Attributes
    ----------
    thresholds : float64 array of shape (m,), strictly decreasing
    true_positives, false_positives : int64 arrays of shape (m,), non-decreasing
    positives, negatives : int
        Rows of each class.
    """

    thresholds: FloatArray
    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]
    positives: int
    negatives: int

    def typical_distance(self, threshold: float) -> float:
        """Return the median distance of the rows from a threshold, as far as the candidates tell; 0 if there is none.

        Parameters
        ----------
        threshold : float
        """
        rows = np.diff(self.true_positives + self.false_positives)
        if not rows.sum():
            return 0.0
        distances = np.abs((self.thresholds[:-1] + self.thresholds[1:]) / 2 - threshold)
        order = np.argsort(distances)
        return float(distances[order][np.searchsorted(np.cumsum(rows[order]), rows.sum() / 2)])

    @classmethod
    def from_scores(cls, scores: ArrayLike, y: ArrayLike, resolution: float = 0.0) -> OperatingCurve:
        """Build the curve of scored rows.

        Parameters
        ----------
        scores : float array of shape (n,), n >= 1, finite
        y : array of shape (n,)
            Positive where > 0.
        resolution : float, default 0
            How accurate the scores are, such as the tolerance of the solver that gave them: equal rows that different
            models of a cross-fit have scored may differ by so much. A group of scores that no gap wider than this
            divides is a tie if all of it fits into so much; so are narrower groups in a denser neighbourhood, by a
            tenth of it, and so on. What fills more than that is a continuum, and may be parted anywhere.
        """
        values = np.asarray(scores, dtype=np.float64)
        truth = np.asarray(y) > 0
        if values.ndim != 1 or values.shape != truth.shape or len(values) == 0:
            raise ValueError(
                f"scores and y must be 1-d, equally long and not empty, got {values.shape} and {truth.shape}"
            )
        if not np.all(np.isfinite(values)):
            raise ValueError("scores must be finite")
        order = np.argsort(-values, kind="stable")
        ordered = values[order]
        last_of_tie = np.flatnonzero(np.append(_is_parted(ordered, resolution), True))
        above = ordered[0] + max(resolution, _MARGIN * max(1.0, abs(ordered[0])))
        below = ordered[-1] - max(resolution, _MARGIN * max(1.0, abs(ordered[-1])))
        hits = np.cumsum(truth[order], dtype=np.int64)[last_of_tie]
        return cls(
            thresholds=np.concatenate(
                [[above], _midpoints(ordered[last_of_tie[:-1]], ordered[last_of_tie[:-1] + 1]), [below]]
            ),
            true_positives=np.concatenate([[0], hits]).astype(np.int64),
            false_positives=np.concatenate([[0], last_of_tie + 1 - hits]).astype(np.int64),
            positives=int(np.count_nonzero(truth)),
            negatives=int(np.count_nonzero(~truth)),
        )

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def predicted_positives(self) -> NDArray[np.int64]:
        """Rows predicted positive at each threshold."""
        return self.true_positives + self.false_positives

    @property
    def precision(self) -> FloatArray:
        """Precision at each threshold, 0 where nothing is predicted positive."""
        return self.true_positives / np.maximum(self.predicted_positives, 1)

    @property
    def recall(self) -> FloatArray:
        """Recall at each threshold, 0 when no row is positive."""
        return self.true_positives / max(self.positives, 1)

    @property
    def specificity(self) -> FloatArray:
        """Share of the negative rows that are not predicted positive, 0 when no row is negative."""
        return (self.negatives - self.false_positives) / max(self.negatives, 1)

    def proportion(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Successes and trials of precision, recall or specificity at each threshold."""
        if name == "precision":
            return self.true_positives, self.predicted_positives
        if name == "recall":
            return self.true_positives, np.full_like(self.true_positives, self.positives)
        return self.negatives - self.false_positives, np.full_like(self.true_positives, self.negatives)

    @property
    def is_better_than_chance(self) -> bool:
        """Whether positive rows have higher scores than negative ones, beyond noise (Mann and Whitney's test)."""
        n, m = self.positives, self.negatives
        if n == 0 or m == 0:
            return False
        area = np.trapezoid(self.true_positives, self.false_positives) / (n * m)
        return bool(area - 0.5 > _BEYOND_CHANCE * np.sqrt((n + m + 1) / (12 * n * m)))

    def f_beta(self, beta: float = 1.0) -> FloatArray:
        """F_β at each threshold, 0 where undefined."""
        weight = beta * beta
        hits = (1 + weight) * self.true_positives
        denominator = hits + weight * (self.positives - self.true_positives) + self.false_positives
        values: FloatArray = np.divide(hits, denominator, out=np.zeros(len(self)), where=denominator > 0)
        return values

    def cost(self, false_negative: float, false_positive: float) -> FloatArray:
        """Total cost of the errors at each threshold."""
        return false_negative * (self.positives - self.true_positives) + false_positive * self.false_positives

    def counts(self, position: int) -> ConfusionCounts:
        """The confusion matrix at one candidate."""
        hits = int(self.true_positives[position])
        alarms = int(self.false_positives[position])
        return ConfusionCounts(hits, alarms, self.negatives - alarms, self.positives - hits)

    def with_threshold(self, threshold: float, scores: ArrayLike) -> OperatingCurve:
        """The same curve with one more candidate, which decides by `scores > threshold`.

        `scores` are the scores that the curve was built from.
        """
        if threshold in self.thresholds:
            return self
        admitted = int(np.count_nonzero(np.asarray(scores) > threshold))
        like = int(np.searchsorted(self.predicted_positives, admitted))
        position = int(np.searchsorted(-self.thresholds, -threshold))
        return OperatingCurve(
            thresholds=np.insert(self.thresholds, position, threshold),
            true_positives=np.insert(self.true_positives, position, self.true_positives[like]),
            false_positives=np.insert(self.false_positives, position, self.false_positives[like]),
            positives=self.positives,
            negatives=self.negatives,
        )

    def mirrored(self) -> OperatingCurve:
        """The same with the names of the classes exchanged: of the scores with the other sign."""
        return OperatingCurve(
            thresholds=-self.thresholds[::-1],
            true_positives=self.negatives - self.false_positives[::-1],
            false_positives=self.positives - self.true_positives[::-1],
            positives=self.negatives,
            negatives=self.positives,
        )

    def at(self, positions: NDArray[Any]) -> OperatingCurve:
        """Some of its candidates, in the order of these positions."""
        return OperatingCurve(
            self.thresholds[positions],
            self.true_positives[positions],
            self.false_positives[positions],
            self.positives,
            self.negatives,
        )

    def thinned(self, points: int) -> OperatingCurve:
        """At most `points` candidates, evenly spaced by rank, both ends kept."""
        if points < 2:
            raise ValueError(f"points must be at least 2, got {points}")
        if len(self) <= points:
            return self
        return self.at(np.unique(np.linspace(0, len(self) - 1, points).round().astype(np.int64)))

    def to_dict(self) -> dict[str, Any]:
        """JSON form, as it stands in reports."""
        return {
            "thresholds": self.thresholds.tolist(),
            "true_positives": self.true_positives.tolist(),
            "false_positives": self.false_positives.tolist(),
            "positives": self.positives,
            "negatives": self.negatives,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> OperatingCurve:
        """Read the JSON form back.

        Raises
        ------
        ValueError
            If the arrays disagree in length, are empty or are not monotone.
        """
        curve = cls(
            thresholds=np.asarray(value["thresholds"], dtype=np.float64),
            true_positives=np.asarray(value["true_positives"], dtype=np.int64),
            false_positives=np.asarray(value["false_positives"], dtype=np.int64),
            positives=int(value["positives"]),
            negatives=int(value["negatives"]),
        )
        lengths = {curve.thresholds.shape, curve.true_positives.shape, curve.false_positives.shape}
        if len(lengths) != 1 or curve.thresholds.ndim != 1 or len(curve) == 0:
            raise ValueError("thresholds, true_positives and false_positives must be lists of one length, not empty")
        monotone = (
            np.all(np.isfinite(curve.thresholds))
            and np.all(np.diff(curve.thresholds) < 0)
            and np.all(np.diff(curve.true_positives) >= 0)
            and np.all(np.diff(curve.false_positives) >= 0)
            and curve.true_positives[0] >= 0
            and curve.false_positives[0] >= 0
            and curve.true_positives[-1] <= curve.positives
            and curve.false_positives[-1] <= curve.negatives
        )
        if not monotone:
            raise ValueError("thresholds must fall while both counts rise, up to the number of rows of each class")
        return curve


def _is_parted(ordered: FloatArray, resolution: float) -> BoolArray:
    """Whether a threshold may stand between neighbours of falling scores, shape (n - 1,)."""
    with np.errstate(over="ignore"):  # between scores of 1e308 and more, which no resolution brings together
        gaps = ordered[:-1] - ordered[1:]
    parted = gaps > 0
    for width in resolution * _FINER:
        # groups without a gap wider than this; those that are no wider as a whole are one score
        ends = np.flatnonzero(np.append(gaps > width, True))
        starts = np.append(0, ends[:-1] + 1)
        with np.errstate(over="ignore"):
            tied = ordered[starts] - ordered[ends] <= width
        group = np.repeat(np.arange(len(ends)), ends - starts + 1)
        parted &= ~(tied[group[:-1]] & (group[:-1] == group[1:]))
    return parted


def _midpoints(upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Midpoints of scores; the lower score itself where the midpoint rounds onto a score."""
    middle = upper / 2 + lower / 2  # halves first: the sum of two large scores overflows
    middle = np.where(np.abs(middle) < _ROUNDING * (upper / 2 - lower / 2), 0.0, middle)
    return np.where((lower <= middle) & (middle < upper), middle, lower)
