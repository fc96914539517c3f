"""The block of measures that reports show for one set of rows."""

from __future__ import annotations

from typing import Any

from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import cost_interval, f1_interval, wilson


def measures(
    counts: ConfusionCounts, confidence: float = 0.95, seed: int = 0, costs: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Precision, recall, F1 and cost with intervals, ready for JSON.

    Parameters
    ----------
    counts : ConfusionCounts
        The decision's confusion matrix.
    confidence : float, default 0.95
        Nominal coverage of the intervals: Wilson for precision and recall, `f1_interval` for F1, MOVER for the cost.
    seed : int, default 0
        Seed of the bootstrap.
    costs : (false_negative, false_positive), optional
        Adds `cost`: the mean cost of a row.

    Returns
    -------
    dict
        `n`, the four counts, `precision`, `recall`, `f1` (each `{"value", "low", "high"}`, or None where undefined),
        `confidence`, and `cost` if asked. Never holds NaN.
    """
    block: dict[str, Any] = {
        "n": counts.total,
        "true_positives": counts.true_positives,
        "false_positives": counts.false_positives,
        "true_negatives": counts.true_negatives,
        "false_negatives": counts.false_negatives,
        "precision": _proportion(counts.true_positives, counts.predicted_positives, confidence),
        "recall": _proportion(counts.true_positives, counts.positives, confidence),
        "f1": None,
        "confidence": confidence,
    }
    if counts.predicted_positives + counts.false_negatives > 0:
        low, high = f1_interval(counts, confidence, seed)
        block["f1"] = {"value": counts.f1, "low": low, "high": high}
    if costs is not None and counts.total > 0:
        low, high = cost_interval(counts, costs, confidence)
        block["cost"] = {"value": counts.cost(*costs) / counts.total, "low": low, "high": high}
    return block


def _proportion(successes: int, trials: int, confidence: float) -> dict[str, float] | None:
    if trials == 0:
        return None
    low, high = wilson(successes, trials, confidence)
    return {"value": successes / trials, "low": low, "high": high}
