"""Thresholds of F and of costs that do not follow the noise of few calibration rows.

The threshold that is best on 40 or 100 rows is so for a large part by chance: against the best one on new rows it costs
.04 of F1 at 40 labels. These rules get a fifth to a third of that back, and of the costs a fifth and more where the two
errors cost 1 and 10 (22 sets, chosen on 10 of them; `benchmarks/thresholds.py`).

Tried on the same sets without gain beyond chance: the quantile of left-out and unlabelled scores at the labelled share
of positives, or at one that EM finds among the unlabelled scores; left-out scores ranked among those; curves smoothed
by a kernel or as Gaussians; gaps in the density of the unlabelled scores; half of the best expected F1 by the sigmoid
(much worse); for costs a sigmoid of smaller slope. The quantile of the unlabelled scores at the mean of their
probabilities gains a little with 20 and 40 labels, and at the true share, where somebody knows it, as much again as
this rule (`benchmarks/results/thresholds.md`).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from solver.evaluation.curves import OperatingCurve
from solver.evaluation.probability import Sigmoid
from solver.typing import FloatArray

_DRAWS: Final = 100
"""Samples of the calibration rows that each have a best threshold of their own."""
_PRIOR_POSITIVES: Final = 3.0
"""Weight, in positive calibration rows, of the threshold that calls as many rows positive as there are."""
_MOST_ROWS: Final = 20_000
"""With more the best threshold is steady by itself."""
_LEAST_SLOPE: Final = 1e-9


def steady_position(curve: OperatingCurve, beta: float = 1.0) -> int:
    """Candidate for the best F_β on new rows.

    The mean of the best thresholds of samples drawn from the calibration rows with replacement, and, the fewer positive
    rows there are the more, of the threshold that calls as many rows positive as there are.

    Parameters
    ----------
    curve : OperatingCurve
        Of calibration rows, at least one of them positive.
    beta : float, default 1

    Returns
    -------
    int
        Position on the curve. The draws have a fixed seed: a curve has one answer.
    """
    rows = curve.positives + curve.negatives
    if rows > _MOST_ROWS or curve.positives == 0:
        return int(np.argmax(curve.f_beta(beta)))
    best = np.mean(best_of_samples(curve, beta, rows))
    as_many = curve.thresholds[int(np.searchsorted(curve.predicted_positives, curve.positives))]
    weight = _PRIOR_POSITIVES / (_PRIOR_POSITIVES + curve.positives)
    return int(np.argmin(np.abs(curve.thresholds - ((1 - weight) * best + weight * as_many))))


def best_of_samples(curve: OperatingCurve, beta: float, rows: int) -> FloatArray:
    """Best threshold of each sample that holds a positive row, shape (samples,)."""
    of_classes = np.concatenate([np.diff(curve.true_positives), np.diff(curve.false_positives)])
    steps, weight = len(curve) - 1, beta * beta
    drawn = np.random.default_rng(0).multinomial(rows, of_classes / rows, size=_DRAWS)
    hits, alarms = (np.cumsum(np.pad(part, ((0, 0), (1, 0))), axis=1) for part in (drawn[:, :steps], drawn[:, steps:]))
    some = hits[:, -1] > 0
    if not some.any():
        return np.array([curve.thresholds[int(np.argmax(curve.f_beta(beta)))]])
    # F_β = (1 + β²) hits / (β² positives + called positive)
    values = hits[some] / (weight * hits[some, -1:] + hits[some] + alarms[some])
    first = np.argmax(values, axis=1)
    # rows that were not drawn lie between candidates that are equally good: their middle
    worse = (values < np.take_along_axis(values, first[:, None], axis=1)) & (np.arange(steps + 1) > first[:, None])
    last = np.where(worse.any(axis=1), np.argmax(worse, axis=1) - 1, steps)
    middles: FloatArray = (curve.thresholds[first] + curve.thresholds[last]) / 2
    return middles


def cheapest(
    curve: OperatingCurve, false_negative: float, false_positive: float, probability: Sigmoid
) -> tuple[float, int]:
    """Threshold above which the expected cost of calling a row positive is the lower one.

    That is where the probability of a positive is false_positive / (false_positive + false_negative) [1]_. It has to
    save something on the calibration rows, the geometric mean of the two costs, beside calling all rows positive, or
    none, whichever their shares make the cheaper one: else that is done, as the scores cannot be trusted so far.

    Parameters
    ----------
    curve : OperatingCurve
        Of calibration rows.
    false_negative, false_positive : float
        Costs.
    probability : Sigmoid
        Fitted on the same rows.

    Returns
    -------
    threshold : float
    position : int
        Of the candidate that decides on the calibration rows as it does.

    References
    ----------
    .. [1] Elkan, "The foundations of cost-sensitive learning", IJCAI 2001, equation 2.
    """
    log_odds = math.log(false_positive) - math.log(false_negative)
    if probability.slope > _LEAST_SLOPE:
        wanted = (log_odds - probability.offset) / probability.slope
    else:  # scores that tell nothing: the same decision for all
        wanted = -math.inf if probability.offset > log_odds else math.inf
    top, bottom = float(curve.thresholds[0]), float(curve.thresholds[-1])
    none, every = 0, len(curve) - 1
    position = int(np.argmin(np.abs(curve.thresholds - np.clip(wanted, bottom, top))))
    costs = curve.cost(false_negative, false_positive)
    # by the shares of the classes after one more row of either
    calls_none = false_negative * (curve.positives + 1) <= false_positive * (curve.negatives + 1)
    constant = none if calls_none else every
    if costs[constant] - costs[position] < math.sqrt(false_negative * false_positive):
        position = constant
    if none < position < every:
        return float(curve.thresholds[position]), position
    # far beyond all calibration rows, so that new rows are decided alike too; further still where the sigmoid says so
    reach = max(top - bottom, 1.0)
    far = top + reach if position == none else bottom - reach
    if math.isfinite(wanted):
        far = max(far, wanted) if position == none else min(far, wanted)
    return float(np.nan_to_num(far)), position
