"""Rows that are left undecided: a threshold on each side of the objective's own, beyond which labels are sure enough.

The threshold of the objective parts the rows as ever. Above it, no row is called positive below the lowest threshold by
which such rows are likely to be as precise as was asked; below it, the same of the negative class. What lies between
gets no label. So abstaining only takes labels away: no row gets another one than the threshold alone would give it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver import percents
from solver.chances import LIKELY, WORTH_FOR_CHANCES, Share
from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.curves import OperatingCurve
from solver.operating_point import FEWEST_NEGATIVES, Abstain, Objective, passed_in_order
from solver.report import Abstention, CalledRows
from solver.typing import BoolArray, FloatArray

FEWEST_ROWS: Final = 60
"""Calibration rows below which the rarer class is not said without a certificate.

With 40 labels it was said in 3 of 52 trainings, and in none of them was it as precise on new rows as asked; with 100
it was in nine of ten."""


@dataclass(frozen=True)
class _Side:
    """What the thresholds beyond the objective's own call one class, the nearest first.

    Attributes
    ----------
    label : str
    thresholds : float array
    right, wrong : int arrays
        Calibration rows that are called so.
    certified : bool array
        Which thresholds are proven; looked at only where a confidence was asked for.
    own, others : int
        Calibration rows of this class, and of the other one.
    """

    label: str
    thresholds: FloatArray
    right: NDArray[np.int64]
    wrong: NDArray[np.int64]
    certified: BoolArray
    own: int
    others: int

    @property
    def is_too_rare(self) -> bool:
        """Whether rows are too few for a class that is no more frequent than the other."""
        return self.own + self.others < FEWEST_ROWS and self.own <= self.others


@dataclass(frozen=True)
class Certifying:
    """What a certificate of each side needs.

    Attributes
    ----------
    confidence : float
    positive_share : float or None
        Known from other rows; None: these rows cannot certify anything.
    """

    confidence: float
    positive_share: float | None


def abstention(
    curve: OperatingCurve,
    threshold: float,
    counts: ConfusionCounts,
    wanted: Abstain,
    classes: tuple[str, str],
    certifying: Certifying | None = None,
) -> Abstention:
    """Choose which rows are left undecided.

    Parameters
    ----------
    curve : OperatingCurve
        Of the calibration rows.
    threshold : float
        The objective's own.
    counts : ConfusionCounts
        What it decides on these rows.
    wanted : Abstain
    classes : (negative, positive)
    certifying : Certifying, optional
        With it a class is said only where its precision is proven, for each class by itself. Without it, where it is
        likely by the measure of `solver.chances`.
    """
    is_better = curve.is_better_than_chance
    positive = _beyond(curve, threshold, counts, wanted, classes[1], certifying)
    negative = _beyond(curve.mirrored(), -threshold, counts.mirrored(), wanted, classes[0], certifying)
    upper, called_positive = _chosen(positive, wanted, certifying is not None, is_better)
    lower, called_negative = _chosen(negative, wanted, certifying is not None, is_better)
    return Abstention(
        precision=wanted.precision,
        lower=None if lower is None else -lower,
        upper=upper,
        rows=counts.total,
        positive=called_positive,
        negative=called_negative,
    )


def nothing_said(wanted: Abstain, classes: tuple[str, str], reason: str) -> Abstention:
    """The decision of a model whose labelled rows say nothing of new ones: every row is left undecided."""
    negative, positive = (CalledRows(label=name, rows=0, right=0, reason=reason) for name in classes)
    return Abstention(precision=wanted.precision, lower=None, upper=None, rows=0, positive=positive, negative=negative)


def abstained_on(chosen: Abstention, scores: FloatArray, truth: BoolArray) -> Abstention:
    """The same with other rows, counted by what is said of them."""
    positive = scores > (math.inf if chosen.upper is None else chosen.upper)
    negative = scores <= (-math.inf if chosen.lower is None else chosen.lower)

    def of(label: str, called: BoolArray, right: BoolArray) -> CalledRows:
        return CalledRows(label=label, rows=int(called.sum()), right=int((called & right).sum()))

    return Abstention(
        precision=chosen.precision,
        lower=chosen.lower,
        upper=chosen.upper,
        rows=len(scores),
        positive=of(chosen.positive.label, positive, truth),
        negative=of(chosen.negative.label, negative, ~truth),
    )


def missing(chosen: Abstention | None) -> list[CalledRows]:
    """The classes that are said of no row."""
    if chosen is None:
        return []
    return [side for side, at in ((chosen.positive, chosen.upper), (chosen.negative, chosen.lower)) if at is None]


def missing_words(sides: Iterable[CalledRows]) -> str:
    """Say which classes are said of no row, and why."""
    return "; ".join(f"no row is called {side.label!r}: {side.reason}" for side in sides)


def _beyond(
    curve: OperatingCurve,
    threshold: float,
    counts: ConfusionCounts,
    wanted: Abstain,
    label: str,
    certifying: Certifying | None,
) -> _Side:
    """The thresholds of the positive class from the objective's own upwards."""
    higher = np.flatnonzero(curve.thresholds > threshold)[::-1]
    certified = np.zeros(len(higher) + 1, dtype=bool)
    if certifying is not None and certifying.positive_share is not None:
        objective = Objective("precision", target=wanted.precision, confidence=certifying.confidence)
        passed = passed_in_order(curve, objective, certifying.positive_share)
        certified[1:] = np.isin(higher, passed)
    return _Side(
        label=label,
        thresholds=np.append(threshold, curve.thresholds[higher]),
        right=np.append(counts.true_positives, curve.true_positives[higher]),
        wrong=np.append(counts.false_positives, curve.false_positives[higher]),
        certified=certified,
        own=curve.positives,
        others=curve.negatives,
    )


def _chosen(side: _Side, wanted: Abstain, is_to_be_certified: bool, is_better: bool) -> tuple[float | None, CalledRows]:
    """The nearest threshold that is good enough, and what it calls so; None and why where there is none."""
    called = side.right + side.wrong
    reached = side.right >= wanted.precision * called - 1e-9
    chance = Share(WORTH_FOR_CHANCES * side.right, WORTH_FOR_CHANCES * side.wrong).above(wanted.precision)
    likely = (chance >= LIKELY) & reached & (called > 0) & (not side.is_too_rare)
    good = side.certified if is_to_be_certified else likely
    if good.any() and is_better and side.others >= FEWEST_NEGATIVES:
        at = int(np.argmax(good))
        return float(side.thresholds[at]), CalledRows(label=side.label, rows=int(called[at]), right=int(side.right[at]))
    if side.others < FEWEST_NEGATIVES:
        reason = f"only {side.others} of the labelled rows are of the other class"
    elif not is_better:
        reason = "the scores tell the classes apart no better than chance"
    elif is_to_be_certified:
        reason = f"the labelled rows do not prove that {percents.asked(wanted.precision)} of such rows would be right"
    elif side.is_too_rare:
        reason = (
            f"only {side.own + side.others} rows have a label; with fewer than {FEWEST_ROWS} what was said of the "
            "rarer class did not hold on new rows"
        )
    else:
        reason = _too_few(side, wanted)
    return None, CalledRows(label=side.label, rows=0, right=0, reason=reason)


def _too_few(side: _Side, wanted: Abstain) -> str:
    """Why no threshold is likely to be precise enough."""
    fewest, precision = fewest_rows(wanted.precision), percents.asked(wanted.precision)
    faultless = int(np.max(np.where(side.wrong == 0, side.right, 0)))
    most = int(np.max(side.right + side.wrong))
    if most < fewest:
        return (
            f"it takes {fewest} labelled rows called so without an error to make {precision} likely, and only {most} "
            "would be"
        )
    return (
        f"there are too many errors to make {precision} likely: without one {fewest} labelled rows called so would do, "
        f"and the first comes after {faultless}"
    )


def fewest_rows(precision: float) -> int:
    """Calibration rows, all of them right, that make a precision likely."""
    most = math.ceil(10 / (WORTH_FOR_CHANCES * (1 - precision)))

    def is_enough(rows: int) -> bool:
        return bool(Share(np.array([WORTH_FOR_CHANCES * rows]), np.zeros(1)).above(precision)[0] >= LIKELY)

    # by halves, as the rows of a precision near 1 are too many to be looked at each
    return bisect_left(range(1, most), True, key=is_enough) + 1
