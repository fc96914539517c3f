"""Curves of the calibration rows, from a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from service.models.schemas import (
    CostCurve,
    CostPoint,
    OperatingPoint,
    PrecisionRecallCurve,
    PrecisionRecallPoint,
    RocCurve,
    RocPoint,
)
from solver.report import CurvePoints, Report

CurveName = Literal["pr", "roc", "cost"]
AnyCurve = PrecisionRecallCurve | RocCurve | CostCurve


@dataclass(frozen=True)
class Costs:
    """Costs for the cost curve; None: that of the objective in use, else that of the training, else 1."""

    false_negative: float | None = None
    false_positive: float | None = None


def curve_of(report: Report, counted: CurvePoints, kind: CurveName, point: OperatingPoint, costs: Costs) -> AnyCurve:
    """Return a curve; `counted` is that of the report. `point` is the one that decides now."""
    positives, negatives = counted.positives, counted.negatives
    about: dict[str, Any] = {
        "positive": report.classes.positive,
        "objective": point.objective,
        "threshold": point.threshold,
        "abstain": point.abstain,
        "calibration": point.calibration,
        "promise": point.promise,
    }
    if kind == "pr":
        pr = [
            PrecisionRecallPoint(threshold=at, precision=_ratio(hits, hits + alarms), recall=_ratio(hits, positives))
            for at, hits, alarms in _points(counted)
        ]
        return PrecisionRecallCurve(**about, points=pr)
    if kind == "roc":
        roc = [
            RocPoint(
                threshold=at, false_positive_rate=_ratio(alarms, negatives), true_positive_rate=_ratio(hits, positives)
            )
            for at, hits, alarms in _points(counted)
        ]
        return RocCurve(**about, points=roc)
    asked = report.objective | point.objective
    said_missed = costs.false_negative or asked.get("false_negative")
    said_alarmed = costs.false_positive or asked.get("false_positive")
    missed, alarmed = said_missed or 1.0, said_alarmed or 1.0
    rows = positives + negatives
    cost = [
        CostPoint(
            threshold=at,
            positive_share=(hits + alarms) / rows,
            cost=(missed * (positives - hits) + alarmed * alarms) / rows,
        )
        for at, hits, alarms in _points(counted)
    ]
    is_assumed = said_missed is None and said_alarmed is None
    return CostCurve(**about, false_negative=missed, false_positive=alarmed, assumed=is_assumed, points=cost)


def _points(curve: CurvePoints) -> Iterator[tuple[float, int, int]]:
    return zip(curve.thresholds, curve.true_positives, curve.false_positives, strict=True)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
