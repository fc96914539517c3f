"""How far what a model meets is from what it was trained on, from counts of predicted rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from service.models.repository import DayStatistics, ModelStatistics
from service.models.schemas import Drift, DriftDay, OperatingPoint, Prior, UnseenColumn
from solver import percents
from solver.evaluation.intervals import wilson
from solver.report import Measures, Report

WIDEST = 0.8
"""An interval of a share that is wider says nothing."""
Z_95 = 1.96
FEWEST_ROWS, MUCH = 100, 0.05
"""Of `is_unlike`."""


def drift_of(
    model_id: str, report: Report, point: OperatingPoint, days: int, counted: Sequence[DayStatistics]
) -> Drift:
    """Return the figures of a model; `point` is the operating point in use, `counted` has the days in order."""
    total, decided = ModelStatistics(), ModelStatistics()
    said_above = point.threshold if point.abstain is None else point.abstain.band.upper
    by_day: dict[Any, ModelStatistics] = {}
    for part in counted:
        counts = part.counts
        sums = [total, by_day.setdefault(part.day, ModelStatistics())]
        if part.threshold == said_above:
            sums.append(decided)
        for into in sums:
            into.add_all(counts)
    labelled = report.rows.positive + report.rows.negative
    has_scores = report.curve is not None
    estimate = adjusted_count(decided.positive, decided.rows, _called(point))
    known = estimate if estimate is not None and estimate.high - estimate.low <= WIDEST else None
    return Drift(
        model_id=model_id,
        days=days,
        rows=total.rows,
        outside_range_share=share_of(total.outside_range, total.rows) if has_scores else None,
        threshold=point.threshold,
        abstain=point.abstain,
        rows_at_threshold=decided.rows,
        positive_share=share_of(decided.positive, decided.rows),
        undecided_share=share_of(decided.undecided, decided.rows),
        prior=Prior(
            training=share_of(report.rows.positive, labelled),
            estimate=known and known.value,
            low=known and known.low,
            high=known and known.high,
        ),
        unseen=unseen_columns(total),
        by_day=[
            DriftDay(
                day=day,
                rows=sums.rows,
                outside_range=sums.outside_range,
                positive=sums.positive,
                undecided=sums.undecided,
            )
            for day, sums in by_day.items()
        ],
        unknown=list(_unknown(total.rows, decided.rows, has_scores, point, estimate)),
    )


def unseen_columns(total: ModelStatistics) -> list[UnseenColumn]:
    """Return the columns with categories that training never saw, most frequent first."""
    return [
        UnseenColumn(column=column, rows=rows, share=rows / total.rows)
        for column, rows in sorted(total.unseen.items(), key=lambda item: (-item[1], item[0]))
    ]


def nothing_counted() -> str:
    """Say why there are no figures at all."""
    return "no row was counted in these days; batches are not, and what is predicted now counts within seconds"


def share_of(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return part / whole if whole else None


def is_unlike(outside: int, rows: int, labelled: int) -> bool:
    """Tell whether so many of the rows that a model met are unlike its training that somebody should look.

    Of `n` labelled rows and a further one like them, that has the least or the greatest score with a probability of
    `2 / (n + 1)`. More than twice that and `MUCH` of all rows is not chance, and not a few odd rows either.
    """
    if rows < FEWEST_ROWS:
        return False
    return wilson(outside, rows)[0] > MUCH + 4 / (labelled + 1)


def _called(point: OperatingPoint) -> Measures | None:
    """Return the counts of calibration rows that are called positive, and of the others, undecided ones among these."""
    measured, chosen = point.calibration, point.abstain
    if measured is None or chosen is None:
        return measured
    hits, alarms = chosen.positive.right, chosen.positive.rows - chosen.positive.right
    return replace(
        measured,
        true_positives=hits,
        false_positives=alarms,
        true_negatives=measured.true_negatives + measured.false_positives - alarms,
        false_negatives=measured.false_negatives + measured.true_positives - hits,
    )


def _unknown(
    rows: int, decided: int, has_scores: bool, point: OperatingPoint, estimate: AdjustedCount | None
) -> Iterator[str]:
    """Say why figures are missing."""
    if not rows:
        yield nothing_counted()
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
    elif estimate.high - estimate.low > WIDEST:
        low, high, found, taken = map(
            percents.measured, (estimate.low, estimate.high, estimate.recall, estimate.false_positive_rate)
        )
        yield (
            f"the share of positives cannot be estimated: from {decided:,} rows it could be anything from {low} to "
            f"{high}, as on the calibration rows the threshold in use finds {found} of the positives and takes {taken} "
            "of the negatives for such; more predictions, or a threshold that finds more, may help"
        )


def _minute(moment: datetime) -> str:
    """Name a minute in UTC; Postgres gives the time of wherever it was told to be."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


@dataclass(frozen=True)
class AdjustedCount:
    """Share of positives, from a share of rows predicted positive.

    Attributes
    ----------
    value, low, high : float
        With its interval of 95 %, all in [0, 1].
    recall, false_positive_rate : float
        What it rests on.
    """

    value: float
    low: float
    high: float
    recall: float
    false_positive_rate: float


def adjusted_count(positive: int, rows: int, measured: Measures | None) -> AdjustedCount | None:
    """Return the share of positives that explains how many rows are predicted positive.

    Forman, "Quantifying counts and costs via classification", Data Mining and Knowledge Discovery 17 (2008). The
    interval is of the delta method (Rogan and Gladen 1978), with the variances of shares after one more row of either
    kind: those of no hit in few rows would be 0.

    Parameters
    ----------
    positive, rows : int
        Rows predicted positive, of so many.
    measured : Measures or None
        What the same threshold gave on rows whose class is known.

    Returns
    -------
    AdjustedCount or None
        None where a rate is unknown, or the true positive rate is not above the false one.
    """
    if not rows or measured is None:
        return None
    positives = measured.true_positives + measured.false_negatives
    negatives = measured.false_positives + measured.true_negatives
    hits, alarms = share_of(measured.true_positives, positives), share_of(measured.false_positives, negatives)
    if hits is None or alarms is None or hits <= alarms:
        return None
    found = (positive / rows - alarms) / (hits - alarms)
    value = _cut(found)
    variance = (
        _variance(positive, rows)
        + (1 - value) ** 2 * _variance(measured.false_positives, negatives)
        + value**2 * _variance(measured.true_positives, positives)
    )
    half = Z_95 * math.sqrt(variance) / (hits - alarms)
    return AdjustedCount(value, _cut(found - half), _cut(found + half), hits, alarms)


def _cut(share: float) -> float:
    return min(1.0, max(0.0, share))


def _variance(part: int, whole: int) -> float:
    share = (part + 1) / (whole + 2)
    return share * (1 - share) / whole
