"""The block of measures that reports show for one set of rows."""

from __future__ import annotations

from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import cost_interval, f1_interval, wilson
from solver.report import Estimate, Measures


def measures(
    counts: ConfusionCounts,
    confidence: float = 0.95,
    *,
    costs: tuple[float, float] | None = None,
    worth: float = 1.0,
) -> Measures:
    """Precision, recall, false positive rate, F1 and cost with intervals.

    Parameters
    ----------
    counts : ConfusionCounts
        The decision's confusion matrix.
    confidence : float, default 0.95
        Nominal coverage of the intervals: Wilson for all but the cost, MOVER for the cost.
    costs : (false_negative, false_positive), optional
        Adds `cost`: the mean cost of a row.
    worth : float, default 1
        What a row counts in the intervals: `WORTH_FOR_INTERVALS` for rows that the decision was chosen on.

    Returns
    -------
    Measures
        A measure is None where it is undefined. Never holds NaN.
    """
    f1 = cost = None
    if counts.predicted_positives + counts.false_negatives > 0:
        f1 = Estimate(counts.f1, *f1_interval(counts, confidence, worth))
    if costs is not None and counts.total > 0:
        cost = Estimate(counts.cost(*costs) / counts.total, *cost_interval(counts, costs, confidence, worth))
    return Measures(
        n=counts.total,
        true_positives=counts.true_positives,
        false_positives=counts.false_positives,
        true_negatives=counts.true_negatives,
        false_negatives=counts.false_negatives,
        precision=_proportion(counts.true_positives, counts.predicted_positives, confidence, worth),
        recall=_proportion(counts.true_positives, counts.positives, confidence, worth),
        false_positive_rate=_proportion(counts.false_positives, counts.negatives, confidence, worth),
        f1=f1,
        cost=cost,
        confidence=confidence,
    )


def _proportion(successes: int, trials: int, confidence: float, worth: float) -> Estimate | None:
    return None if trials == 0 else Estimate(successes / trials, *wilson(successes, trials, confidence, worth))
