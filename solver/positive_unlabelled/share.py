"""The share of positive rows among unlabelled ones, from left-out scores: an estimate, and how far it can be off.

It assumes that the labelled positive rows are drawn at random from all positive ones (selected completely at random).
Then the share is at most called / found at every line, for whatever is above it: the least of these ratios is what most
estimators from the literature go for. That it is not only a bound, but the share, takes rows that only positives look
like (irreducibility), which no data without negative rows can show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import betaincinv

from solver.evaluation.intervals import WORTH_FOR_INTERVALS
from solver.positive_unlabelled.left_out import FoundCurve, LeftOutScores

_LEAST_FOUND: Final = 0.3
"""Fewer of the left-out positive rows above a line say too little of it."""
_PRIOR: Final = 0.5
_CAUTION: Final = 3
"""Power of the part of the classes that the scores tell apart, by which the lower end falls short of the value: with 1
the interval missed shares of .05 and .15 of normal classes that overlap, with 3 it held for most of them."""
FEWEST_POSITIVES: Final = 10
"""Of fewer left-out positive rows no share is estimated that anything could rest on."""
_NARROW: Final = 0.5
"""An interval that is longer than this says next to nothing."""


@dataclass(frozen=True)
class ShareEstimate:
    """Share of positives among the unlabelled rows.

    Attributes
    ----------
    value, low, high : float
        With an interval of 95 %; all three are equal where the share was given.
    is_given : bool
    """

    value: float
    low: float
    high: float
    is_given: bool = False

    @classmethod
    def given(cls, share: float) -> ShareEstimate:
        """A share that is known."""
        return cls(share, share, share, is_given=True)

    @property
    def is_useful(self) -> bool:
        """Whether the interval says anything."""
        return self.high - self.low <= _NARROW


def estimate_share(scores: LeftOutScores, confidence: float = 0.95) -> ShareEstimate:
    """Estimate the share of positives among the unlabelled rows.

    The value is the least called / found over all lines above which 30 % or more of the positive rows lie, where the
    found share is put down by its standard error, as the least of many ratios would else be that of a lucky line.
    `high` is the ratio of bounds at that line, with rows that count less for having chosen it. The lower end takes into
    account that no line may have only positives above it: it is the lower the less the scores tell positive from
    unlabelled rows.

    Parameters
    ----------
    scores : LeftOutScores
        At least one of each.
    confidence : float, default 0.95

    Returns
    -------
    ShareEstimate

    References
    ----------
    Blanchard, Lee and Scott, "Semi-supervised novelty detection", JMLR 11, 2010 (the ratio as a bound); Garg, Wu,
    Smola, Balakrishnan and Lipton, "Mixture proportion estimation and PU learning: a modern approach", NeurIPS 2021
    (its least value over lines of a classifier's left-out scores).
    """
    curve = FoundCurve.of(scores)
    n, m = curve.positives, curve.unlabelled
    if n < FEWEST_POSITIVES:
        return ShareEstimate(1.0, 0.0, 1.0)
    found, called = curve.found / n, curve.called / m
    careful = found - np.sqrt(found * (1 - found) / n)
    usable = (found >= _LEAST_FOUND) & (careful > 0)
    ratio = np.where(usable, called / np.where(usable, careful, 1.0), np.inf)
    best = int(np.argmin(ratio))
    value = min(1.0, float(ratio[best]))
    tail = (1 - confidence) / 2
    k, c = float(curve.found[best]), float(curve.called[best])
    found_low, found_high = (_bound(k, n, part) for part in (tail, 1 - tail))
    called_low, called_high = (_bound(c, m, part) for part in (tail, 1 - tail))
    high = min(1.0, called_high / found_low)
    apart = max(0.0, 2 * scores.auc - 1 - 2 * _auc_error(scores))
    told = min(1.0, apart / max(1 - value, 1e-12)) if value < 1 else 0.0
    low = min(value, called_low / found_high) * told**_CAUTION
    return ShareEstimate(value, min(low, value), max(high, value))


def _bound(hits: float, rows: int, level: float) -> float:
    """Quantile of a proportion, of rows that have chosen the line."""
    worth = WORTH_FOR_INTERVALS
    return float(betaincinv(worth * hits + _PRIOR, worth * (rows - hits) + _PRIOR, level))


def _auc_error(scores: LeftOutScores) -> float:
    """Standard error of the area under the curve where it is one half (Mann and Whitney)."""
    n, m = len(scores.positive), len(scores.unlabelled)
    return float(np.sqrt((n + m + 1) / (12 * n * m)))
