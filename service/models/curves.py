"""Curves of the calibration rows, from a report."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from service.errors import InvalidRequest
from service.models.schemas import (
    CostCurve,
    CostPoint,
    OperatingPoint,
    PrecisionRecallCurve,
    PrecisionRecallPoint,
    ProvenThresholds,
    RocCurve,
    RocPoint,
    ScoreSpread,
    ThresholdPoint,
    Thresholds,
)
from solver.classes_report import ClassFigures, MulticlassReport
from solver.evaluation import WORTH_FOR_INTERVALS, measures
from solver.evaluation.counts import ConfusionCounts
from solver.report import CurvePoints, Measures, Report

MOST_POINTS = 200
"""Of `thresholds_of`."""
BARS = 32
LEVEL = 0.95
"""Of the intervals of `thresholds_of`, and of a class."""
MOST_NAMED = 10
"""Classes that an error lists."""

CurveName = Literal["pr", "roc", "cost"]
AnyCurve = PrecisionRecallCurve | RocCurve | CostCurve


@dataclass(frozen=True)
class Costs:
    """What errors cost; None: that of the objective in use, else that of the training, else 1."""

    false_negative: float | None = None
    false_positive: float | None = None


def curve_of(report: Report, counted: CurvePoints, kind: CurveName, point: OperatingPoint, costs: Costs) -> AnyCurve:
    """Return a curve; `counted` is that of the report. `point` is the one that decides now."""
    about: dict[str, Any] = {
        "positive": report.classes.positive,
        "objective": point.objective,
        "threshold": point.threshold,
        "abstain": point.abstain,
        "calibration": point.calibration,
        "promise": point.promise,
    }
    return _curve(about, counted, kind, _said_costs(report, point, costs))


def curve_of_class(report: MulticlassReport, label: str | None, kind: CurveName, costs: Costs) -> AnyCurve:
    """Return the curve of one class against all others; raises `InvalidRequest` for no class of the model.

    Parameters
    ----------
    report : MulticlassReport
        With curves, and so with figures.
    label : str or None
    kind : CurveName
    costs : Costs
    """
    if label not in report.classes:
        known = ", ".join(map(repr, report.classes[:MOST_NAMED])) + (", …" if len(report.classes) > MOST_NAMED else "")
        raise InvalidRequest.of("query.class", f"should be one of the classes: {known}")
    place = report.classes.index(label)
    figures, counted = report.calibration, report.curves[place]
    about: dict[str, Any] = {
        "positive": label,
        "objective": report.objective,
        "threshold": None,
        "calibration": None if figures is None else _against_others(figures.classes[place], figures.n),
    }
    return _curve(about, counted, kind, (costs.false_negative, costs.false_positive))


def _against_others(figures: ClassFigures, rows: int) -> Measures:
    """Return what the decision between all classes gave of one, as of two."""
    counts = ConfusionCounts(
        figures.right,
        figures.said - figures.right,
        rows - figures.rows - figures.said + figures.right,
        figures.rows - figures.right,
    )
    return measures(counts, LEVEL)


def _curve(
    about: Mapping[str, Any], counted: CurvePoints, kind: CurveName, said: tuple[float | None, float | None]
) -> AnyCurve:
    """Return the curve with what is told beside it; `said` is what a miss and a false alarm cost."""
    positives, negatives = counted.positives, counted.negatives
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
    said_missed, said_alarmed = said
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


def _said_costs(report: Report, point: OperatingPoint, costs: Costs) -> tuple[float | None, float | None]:
    """Return what a miss and a false alarm cost: as asked now, or of the objective; None where nobody has said."""
    asked = report.objective | point.objective
    return (
        costs.false_negative or asked.get("false_negative"),
        costs.false_positive or asked.get("false_positive"),
    )


def thresholds_of(
    model_id: str,
    report: Report,
    counted: CurvePoints,
    point: OperatingPoint,
    costs: Costs,
    proven: Sequence[ProvenThresholds] = (),
) -> Thresholds:
    """Return what each threshold gives, with intervals, and `proven`; `point` is the one that decides now."""
    each_costs = None
    said = _said_costs(report, point, costs)
    if said != (None, None):
        each_costs = (said[0] or 1.0, said[1] or 1.0)
    every = list(_points(counted))
    shown = [every[place] for place in _thinned(len(every), _place_in_use(every, point.threshold))]
    points = []
    for at, hits, alarms in shown:
        counts = ConfusionCounts(hits, alarms, counted.negatives - alarms, counted.positives - hits)
        measured = measures(counts, LEVEL, costs=each_costs, worth=WORTH_FOR_INTERVALS)
        points.append(
            ThresholdPoint(
                threshold=at,
                true_positives=hits,
                false_positives=alarms,
                precision=measured.precision,
                recall=measured.recall,
                false_positive_rate=measured.false_positive_rate,
                cost=measured.cost,
            )
        )
    return Thresholds(
        model_id=model_id,
        positive=report.classes.positive,
        positives=counted.positives,
        negatives=counted.negatives,
        confidence=LEVEL,
        threshold=point.threshold,
        false_negative=each_costs and each_costs[0],
        false_positive=each_costs and each_costs[1],
        points=points,
        scores=_spread(every),
        proven=list(proven),
    )


def _place_in_use(points: Sequence[tuple[float, int, int]], threshold: float) -> int:
    return min(range(len(points)), key=lambda place: abs(points[place][0] - threshold))


def _thinned(count: int, kept: int) -> list[int]:
    """Return places evenly among so many, at most `MOST_POINTS`, and the one that is in use."""
    if count <= MOST_POINTS:
        return list(range(count))
    return sorted({kept, *(round(place * (count - 1) / (MOST_POINTS - 2)) for place in range(MOST_POINTS - 1))})


def _spread(points: Sequence[tuple[float, int, int]]) -> ScoreSpread:
    """Count rows by score: those between two neighbouring thresholds lie in the middle of these."""
    finite = [at for at, _, _ in points if math.isfinite(at)]
    least, greatest = min(finite, default=0.0), max(finite, default=0.0)
    positive, negative = [0] * BARS, [0] * BARS
    width = (greatest - least) / BARS or 1.0
    for (above, hits, alarms), (below, more_hits, more_alarms) in itertools.pairwise(points):
        middle = (min(above, greatest) + max(below, least)) / 2
        bar = max(0, min(BARS - 1, int((middle - least) / width)))
        positive[bar] += more_hits - hits
        negative[bar] += more_alarms - alarms
    return ScoreSpread(least=least, greatest=greatest, positive=positive, negative=negative)


def _points(curve: CurvePoints) -> Iterator[tuple[float, int, int]]:
    return zip(curve.thresholds, curve.true_positives, curve.false_positives, strict=True)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
