"""How far what a model meets is from what it was trained on, from counts of predicted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from service.models.repository import DayStatistics, ModelStatistics
from service.models.schemas import Drift, DriftDay, Measures, OperatingPoint, Prior, UnseenColumn


def drift_of(
    model_id: str, report: dict[str, Any], point: OperatingPoint, days: int, counted: Sequence[DayStatistics]
) -> Drift:
    """Return the figures of a model; `point` is the operating point in use, `counted` has the days in order."""
    total, decided = ModelStatistics(), ModelStatistics()
    by_day: dict[Any, ModelStatistics] = {}
    for part in counted:
        counts = part.counts
        sums = [total, by_day.setdefault(part.day, ModelStatistics())]
        if part.threshold == point.threshold:
            sums.append(decided)
        for into in sums:
            into.add(counts.rows, counts.outside_range, counts.positive, counts.unseen)
    labelled = report["rows"]["positive"] + report["rows"]["negative"]
    positive_share = _share(decided.positive, decided.rows)
    estimate = adjusted_count(positive_share, point.calibration)
    return Drift(
        model_id=model_id,
        days=days,
        rows=total.rows,
        outside_range_share=_share(total.outside_range, total.rows) if report.get("curve") else None,
        threshold=point.threshold,
        rows_at_threshold=decided.rows,
        positive_share=positive_share,
        prior=Prior(
            training=_share(report["rows"]["positive"], labelled),
            estimate=estimate,
        ),
        unseen=[
            UnseenColumn(column=column, rows=rows, share=rows / total.rows)
            for column, rows in sorted(total.unseen.items(), key=lambda item: (-item[1], item[0]))
        ],
        by_day=[
            DriftDay(day=day, rows=sums.rows, outside_range=sums.outside_range, positive=sums.positive)
            for day, sums in by_day.items()
        ],
        unknown=list(_unknown(total.rows, decided.rows, bool(report.get("curve")), point, estimate)),
    )


def _unknown(rows: int, decided: int, has_scores: bool, point: OperatingPoint, estimate: float | None) -> Iterator[str]:
    """Say why figures are missing."""
    if not rows:
        yield "no row was counted in these days; batches are not, and what is predicted now counts within seconds"
        return
    if not has_scores:
        yield "the model was stored without the scores of its calibration rows, so none can be beyond them"
    if not decided:
        since = "" if point.created_at is None else f", which was applied at {_minute(point.created_at)}"
        yield (
            f"none of the {rows:,} rows was decided by the threshold in use, {point.threshold:.6g}{since}: shares of "
            "positives by other thresholds would say nothing of it; ask again when more was predicted"
        )
    elif estimate is None:
        yield (
            "the share of positives cannot be estimated: on the calibration rows the threshold in use does not tell "
            "the classes apart, or there were none of one class"
        )


def _minute(moment: datetime) -> str:
    """Name a minute in UTC; Postgres gives the time of wherever it was told to be."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def adjusted_count(positive_share: float | None, measured: Measures | None) -> float | None:
    """Return the share of positives that explains how many rows are predicted positive.

    Forman, "Quantifying counts and costs via classification", Data Mining and Knowledge Discovery 17 (2008).

    Parameters
    ----------
    positive_share : float or None
        Share of rows predicted positive.
    measured : Measures or None
        What the same threshold gave on rows whose class is known.

    Returns
    -------
    float or None
        None where a rate is unknown, or the true positive rate is not above the false one.
    """
    if positive_share is None or measured is None:
        return None
    hits = _share(measured.true_positives, measured.true_positives + measured.false_negatives)
    alarms = _share(measured.false_positives, measured.false_positives + measured.true_negatives)
    if hits is None or alarms is None or hits <= alarms:
        return None
    return min(1.0, max(0.0, (positive_share - alarms) / (hits - alarms)))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
