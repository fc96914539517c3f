"""How often each of several classes is said of the rows of late, beside how often it was of the training's."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from service.models.drift import nothing_counted, share_of, unseen_columns
from service.models.repository import DayStatistics, ModelStatistics
from service.models.schemas import ClassesDrift, ClassesDriftDay, ClassShare
from solver.classes_report import MulticlassReport
from solver.evaluation.intervals import wilson

OF_TRAINING = 1.0
"""Number of the rule that a training has chosen. Versions that did not count classes wrote 0 for every rule."""


def rule_number(rule: Mapping[str, Any] | None) -> float:
    """Return what rows are counted under that a rule decides; None is that of the training.

    Shares of different rules must not be mixed, as those of different thresholds must not.
    """
    if rule is None:
        return OF_TRAINING
    digest = hashlib.sha256(json.dumps(rule, sort_keys=True).encode()).digest()
    return float(2 + int.from_bytes(digest[:6]))  # of 48 bits, which a float64 holds


def class_drift_of(
    model_id: str, report: MulticlassReport, rule: float, days: int, counted: Sequence[DayStatistics]
) -> ClassesDrift:
    """Return the figures of a model of several classes.

    Parameters
    ----------
    model_id : str
    report : MulticlassReport
        As of the point in use.
    rule : float
        Number of the rule in use.
    days : int
    counted : sequence of DayStatistics
        The days in order.
    """
    total, decided = ModelStatistics(), ModelStatistics()
    by_day: dict[date, tuple[ModelStatistics, ModelStatistics]] = {}
    for part in counted:
        of_day, of_day_decided = by_day.setdefault(part.day, (ModelStatistics(), ModelStatistics()))
        sums = [total, of_day]
        if part.threshold == rule:
            sums += [decided, of_day_decided]
        for into in sums:
            into.add_all(part.counts)
    figures = report.calibration
    return ClassesDrift(
        model_id=model_id,
        days=days,
        rows=total.rows,
        outside_range_share=share_of(total.outside_range, total.rows),
        rows_by_rule=decided.rows,
        undecided_share=share_of(decided.undecided, decided.rows),
        undecided_calibration=None if figures is None else share_of(figures.undecided, figures.n),
        classes=list(_shares(report, decided)),
        unseen=unseen_columns(total),
        by_day=[
            ClassesDriftDay(
                day=day,
                rows=met.rows,
                outside_range=met.outside_range,
                rows_by_rule=by_rule.rows,
                undecided=by_rule.undecided,
                said=dict(Counter(by_rule.said).most_common()),
            )
            for day, (met, by_rule) in by_day.items()
        ],
        unknown=list(_unknown(total.rows, decided.rows)),
    )


def _shares(report: MulticlassReport, decided: ModelStatistics) -> Iterator[ClassShare]:
    """Yield the classes in the order of the report."""
    figures = report.calibration
    for place, label in enumerate(report.classes):
        rows = decided.said.get(label, 0)
        low, high = wilson(rows, decided.rows) if decided.rows else (None, None)
        yield ClassShare(
            label=label,
            rows=rows,
            share=share_of(rows, decided.rows),
            low=low,
            high=high,
            calibration=None if figures is None else share_of(figures.classes[place].said, figures.n),
            training=share_of(report.rows.by_class[place], report.rows.labelled),
        )


def _unknown(rows: int, decided: int) -> Iterator[str]:
    """Say why figures are missing."""
    if not rows:
        yield nothing_counted()
    elif not decided:
        yield (
            f"none of the {rows:,} rows was decided by the rule in use: how often others say a class would say nothing "
            "of it; ask again when more was predicted"
        )
