"""What a model reached, as figures and pictures: for its page, and for the report to send."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from markupsafe import Markup

from service import charts
from service.locales import localized_day
from service.models.objectives import FALSE_POSITIVE_KINDS
from service.models.schemas import (
    ClassesDrift,
    ClassShare,
    Drift,
    Model,
    OperatingPoint,
    PrecisionRecallCurve,
    ThresholdPoint,
    Thresholds,
)
from service.shown_text import number
from solver.evaluation.intervals import wilson
from solver.report import Abstention, Estimate, Measures, Report, SpreadScores

OF_THOUSAND = 1000
WORDS = {
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "false_positive_rate": "False positive rate",
    "cost": "Cost of a row",
}
CONTROLS = {
    "no_unlabelled": "Without the unlabelled rows",
    "plain_svm": "The same at threshold 0",
    "all_positive": "Every row flagged",
    "all_negative": "No row flagged",
}


@dataclass(frozen=True)
class Bar:
    """One of several that stand beside each other."""

    name: str
    value: Estimate
    picture: Markup


@dataclass(frozen=True)
class Compared:
    """A measure of the model beside others, each with a bar."""

    measure: str
    rows: str
    bars: list[Bar]


@dataclass(frozen=True)
class SaidOfThousand:
    """Of 1,000 rows, those that get a label where some are left undecided."""

    positive: int
    positive_wrong: int
    negative: int
    negative_wrong: int
    undecided: int


@dataclass(frozen=True)
class Thousand:
    """What becomes of 1,000 rows like the calibration rows."""

    flagged: int
    wrong: int
    missed: int
    said: SaidOfThousand | None
    """None: each row gets a label."""


def of_thousand(measured: Measures | None, abstain: Abstention | None) -> Thousand | None:
    """Return what becomes of 1,000 rows like those that were measured; None where none were."""
    if measured is None:
        return None
    scale = OF_THOUSAND / max(1, measured.n)
    flagged = measured.true_positives + measured.false_positives
    said = None
    if abstain is not None:
        each = OF_THOUSAND / max(1, abstain.rows)
        positive, negative = abstain.positive, abstain.negative
        said = SaidOfThousand(
            positive=round(positive.rows * each),
            positive_wrong=round((positive.rows - positive.right) * each),
            negative=round(negative.rows * each),
            negative_wrong=round((negative.rows - negative.right) * each),
            undecided=round(abstain.undecided * each),
        )
    return Thousand(
        flagged=round(flagged * scale),
        wrong=round(measured.false_positives * scale),
        missed=round(measured.false_negatives * scale),
        said=said,
    )


Point = Report | OperatingPoint
"""What decides: the threshold of the training, or one that was chosen since."""


@dataclass(frozen=True)
class CalledUnlabelled:
    """What becomes of the unlabelled rows of the training."""

    rows: int
    positive: int
    is_about: bool
    """Whether that is a good guess: not all rows were decided on, or only how their scores are spread is known."""


def called_unlabelled(report: Report, point: Point) -> CalledUnlabelled | None:
    """Return how many unlabelled rows are called positive at a point; None where that is not known."""
    told = report.unlabelled
    if told is None:
        return None
    if point.threshold == report.threshold and point.abstain == report.abstain:
        return CalledUnlabelled(told.rows, told.called, is_about=told.measured < told.rows)
    cut = point.threshold if point.abstain is None else point.abstain.upper
    if cut is None:
        return CalledUnlabelled(told.rows, 0, is_about=False)
    if told.scores is None:
        return None
    return CalledUnlabelled(told.rows, round(told.rows * _share_above(told.scores, cut)), is_about=True)


def _share_above(spread: SpreadScores, cut: float) -> float:
    """Return the share of scores above a threshold, those of one part taken to lie evenly in it."""
    width = (spread.greatest - spread.least) / len(spread.counts)
    place = (cut - spread.least) / width
    above = sum(count * min(1.0, max(0.0, at + 1 - place)) for at, count in enumerate(spread.counts))
    return above / sum(spread.counts)


def compared(model: Model) -> Iterator[Compared]:
    """Yield what the model as it was trained reached, beside its controls, on the test rows or the calibration rows.

    Not on test rows that have measured another method, which `auto` took before it had learned them.
    """
    report = model.report
    is_of_another = report.refit is not None and report.refit.method is not None
    before = "This model" if report.refit is None else "This model, before it learned them"
    places = [("test", "rows that were held out", before), ("calibration", "calibration rows", "This model")]
    for place, told, mine in places[is_of_another:]:
        ours: Measures | None = getattr(report, place)
        if ours is None:
            continue
        controls = [(CONTROLS.get(name, name), getattr(each, place)) for name, each in report.controls.items()]
        for measure in _shown(report):
            bars = _bars(measure, [(mine, ours), *controls])
            if len(bars) > 1:
                yield Compared(WORDS[measure], f"{number(ours.n)} {told}", bars)
        return


def succeeded(report: Report) -> list[Compared]:
    """Return the model before beside this one on the same rows; empty where there are none such."""
    told = report.succession
    if told is None or told.rows is None:
        return []
    pairs = [("The model before", told.rows.before), ("This training", told.rows.now)]
    rows = f"{number(told.rows.n)} rows that neither had learned"
    found = [Compared(WORDS[measure], rows, _bars(measure, pairs)) for measure in _shown(report)]
    return [each for each in found if len(each.bars) > 1]


def _shown(report: Report) -> tuple[str, ...]:
    """Return the measures of models beside each other: those first that the objective speaks of."""
    if report.objective.get("kind") in FALSE_POSITIVE_KINDS:
        return ("false_positive_rate", "recall", "f1")
    return (
        ("cost", "precision", "recall", "f1")
        if report.objective.get("kind") == "cost"
        else ("precision", "recall", "f1")
    )


def _bars(measure: str, measured: Sequence[tuple[str, Measures | None]]) -> list[Bar]:
    """Return one bar for each that has the measure. Of costs, which have no end, the largest fills its picture."""
    known = [(name, found) for name, each in measured if each is not None and (found := getattr(each, measure))]
    most = max((value.high for _, value in known), default=1.0) if measure == "cost" else 1.0
    return [
        Bar(name, value, charts.interval(value, other=bool(at), most=most, as_share=measure != "cost"))
        for at, (name, value) in enumerate(known)
    ]


def scores_picture(
    thresholds: Thresholds,
    abstain: Abstention | None,
    here: float | None = None,
    unlabelled: SpreadScores | None = None,
) -> Markup:
    """Return the scores of the labelled rows, with what decides, and with the score of one row if that is given.

    Those of `unlabelled` rows are a line over them, as high as the picture whatever their number.
    """
    spread = thresholds.scores
    room = spread.greatest - spread.least

    def place(score: float) -> float:
        return max(0.0, min(1.0, (score - spread.least) / room))

    if room <= 0:
        return charts.scores(spread.positive, spread.negative, None)
    ends = () if abstain is None else (abstain.lower, abstain.upper)
    bounds = [place(end) for end in ends if end is not None]
    at = None if here is None else place(here)
    others = [] if unlabelled is None else list(_steps(unlabelled, place))
    return charts.scores(spread.positive, spread.negative, place(thresholds.threshold), bounds, at, others)


def _steps(spread: SpreadScores, place: Callable[[float], float]) -> Iterator[tuple[float, float]]:
    """Yield how far each part goes, and how high, after where the first one begins."""
    width, most = (spread.greatest - spread.least) / len(spread.counts), max(spread.counts)
    yield place(spread.least), 0.0
    for at, count in enumerate(spread.counts):
        yield place(spread.least + (at + 1) * width), count / most


def calibration_picture(report: Report) -> Markup | None:
    """Return how often rows of each probability are what it says; None where there are no probabilities."""
    told = report.probability
    if told is None or not told.reliability:
        return None
    points = []
    for part in told.reliability:
        low, high = wilson(round(part.observed * part.n), part.n)
        points.append(charts.Point(part.predicted, part.observed, low, high))
    guide = charts.Line([charts.Point(0, 0), charts.Point(1, 1)], "guide")
    return charts.plot(
        [guide, charts.Line(points, dots=True)],
        charts.shares("Probability that is said"),
        charts.shares("Share that is so"),
        "Of rows of each probability, how many are what it says: on the diagonal where the probabilities are right",
    )


def curve_picture(thresholds: Thresholds) -> Markup:
    """Return precision against recall for every threshold, with the one in use."""
    known = [point for point in thresholds.points if point.precision is not None and point.recall is not None]
    near = min(known, key=lambda point: abs(point.threshold - thresholds.threshold), default=None)
    in_use = None if near is None else _on_curve(near)
    return _precision_recall([_on_curve(point) for point in known], in_use, "flagged", "threshold, and the one in use")


def class_curve_picture(curve: PrecisionRecallCurve) -> Markup:
    """Return precision against recall of one of several classes, with what the model gives of it."""
    points = [
        charts.Point(point.recall, point.precision)
        for point in curve.points
        if point.precision is not None and point.recall is not None
    ]
    measured = curve.calibration
    in_use = None
    if measured is not None and measured.precision is not None and measured.recall is not None:
        precision = measured.precision
        in_use = charts.Point(measured.recall.value, precision.value, precision.low, precision.high)
    return _precision_recall(points, in_use, "said", "probability of the class, and what the model gives")


def _precision_recall(points: Sequence[charts.Point], in_use: charts.Point | None, called: str, every: str) -> Markup:
    lines = [charts.Line(points)]
    if in_use is not None:
        lines.append(charts.Line([in_use], "mark", dots=True))
    axes = charts.shares("Recall: found, of what is there"), charts.shares(f"Precision: right, of what is {called}")
    return charts.plot(lines, *axes, f"Precision against recall for every {every}")


def _on_curve(point: ThresholdPoint) -> charts.Point:
    precision: Any = point.precision
    recall: Any = point.recall
    return charts.Point(recall.value, precision.value, precision.low, precision.high)


def drift_pictures(drift: Drift, called: float | None) -> list[Markup]:
    """Return what was flagged of the rows of each day, and how many were unlike those of the training.

    Parameters
    ----------
    drift : Drift
        With a row at least.
    called : float or None
        Share of the calibration rows that is flagged, to compare with.
    """
    named = [("Flagged", "positive", called)]
    if drift.outside_range_share is not None:  # else nothing tells of a row whether it is
        named.append(("Unlike the training", "outside_range", None))
    return [
        _picture_of_days(drift.days, [(day.day, getattr(day, part), day.rows) for day in drift.by_day], name, guide)
        for name, part, guide in named
    ]


def class_drift_picture(drift: ClassesDrift, shown: ClassShare) -> Markup | None:
    """Return of how many rows of each day a class was said; None where the rule in use has decided on none.

    Parameters
    ----------
    drift : ClassesDrift
    shown : ClassShare
        One of its classes.
    """
    days = [(day.day, day.said.get(shown.label, 0), day.rows_by_rule) for day in drift.by_day if day.rows_by_rule]
    return _picture_of_days(drift.days, days, "Said", shown.calibration) if days else None


def _picture_of_days(days: int, counted: Sequence[tuple[date, int, int]], name: str, guide: float | None) -> Markup:
    """Return shares by day, from rows and how many there were, and a share to compare with."""
    first = datetime.now(UTC).date() - timedelta(days=days - 1)
    axis = _days(first, days)
    points = [charts.Point((day - first).days, part / max(1, rows), *wilson(part, rows)) for day, part, rows in counted]
    lines = [charts.Line(points, dots=True, joined=False)]
    if guide is not None:
        lines.insert(0, charts.Line([charts.Point(axis.least, guide), charts.Point(axis.greatest, guide)], "guide"))
    return charts.plot(lines, axis, charts.shares(name), f"{name}, of the rows of each day")


def _days(first: date, days: int) -> charts.Axis:
    last = max(1, days - 1)
    ticks = [
        (at, localized_day(first + timedelta(days=at))) for at in (round(last * 0.1), last // 2, round(last * 0.9))
    ]
    return charts.Axis("Day", -0.5, last + 0.5, ticks)
