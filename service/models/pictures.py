"""Curves as pictures, SVG or PNG, with the point in use marked."""

from __future__ import annotations

import io
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from service.models.curves import AnyCurve
from service.models.schemas import CostCurve, PrecisionRecallCurve, RocCurve
from solver import percents
from solver.report import Estimate, Measures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PictureForm = Literal["svg", "png"]
WIDTH, HEIGHT = 6.4, 5.2
"""Inches."""
DPI = 100
PROMISE_CHARACTERS = 105
"""Of a line of its sentence."""
_DRAWING = threading.Lock()
"""Matplotlib is not made for threads."""

Point = tuple[float, float]


@dataclass(frozen=True)
class PointInUse:
    """The point in use, with the intervals of its two coordinates where there are any."""

    at: Point
    x: Estimate | None
    y: Estimate | None
    text: str
    level: float
    """Of the intervals."""


@dataclass(frozen=True)
class Helper:
    """A broken line: a target, or what guessing gives."""

    start: Point
    end: Point
    name: str


@dataclass(frozen=True)
class Plot:
    """What is drawn, in the units of the data."""

    title: str
    x_name: str
    y_name: str
    y_end: float
    points: list[Point]
    chosen: PointInUse | None
    helpers: list[Helper]
    y_is_share: bool = True


def draw(curve: AnyCurve, form: PictureForm) -> bytes:
    """Return the picture of a curve as a whole file: an SVG document, or a PNG of 1280 × 1040 pixels."""
    # Loaded with the first picture: it takes a third of a second and 40 MB, which most processes never need.
    from matplotlib import rc_context

    match curve:
        case PrecisionRecallCurve():
            plot = _precision_recall(curve)
        case RocCurve():
            plot = _roc(curve)
        case CostCurve():
            plot = _cost(curve)
    about = [f"positive: {_short(curve.positive)}"]
    if curve.calibration is not None:
        about.append(f"{curve.calibration.n:,} calibration rows")
    # Text stays text in SVG; equal curves give equal files.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "prefsvm", "font.family": "DejaVu Sans", "font.size": 10}
    file = io.BytesIO()
    with _DRAWING, rc_context(style):
        promise = "" if curve.promise is None else curve.promise.sentence
        figure = _figure(plot, "; ".join(about), textwrap.fill(_drawable(promise), PROMISE_CHARACTERS))
        metadata = {"Title": plot.title, "Date": None} if form == "svg" else {"Title": plot.title}
        figure.savefig(file, format=form, dpi=2 * DPI, metadata=metadata)
    return file.getvalue()


def _precision_recall(curve: PrecisionRecallCurve) -> Plot:
    points = [
        (point.recall, point.precision)
        for point in curve.points
        if point.recall is not None and point.precision is not None
    ]
    chosen = None
    measured = curve.calibration
    if measured is not None and measured.precision is not None and measured.recall is not None:
        precision, recall = measured.precision, measured.recall
        text = f"precision {percents.measured(precision.value)}, recall {percents.measured(recall.value)}"
        chosen = PointInUse((recall.value, precision.value), recall, precision, text, measured.confidence)
    return Plot("Precision and recall", "recall", "precision", 1.0, points, chosen, list(_targets(curve)))


def _targets(curve: PrecisionRecallCurve) -> Iterator[Helper]:
    wanted = {name: curve.objective.get(name) for name in ("precision", "recall")}
    wanted[str(curve.objective.get("kind"))] = curve.objective.get("target")
    if wanted["precision"]:
        yield Helper(
            (0.0, wanted["precision"]),
            (1.0, wanted["precision"]),
            f"target: precision {percents.asked(wanted['precision'])}",
        )
    if wanted["recall"]:
        yield Helper(
            (wanted["recall"], 0.0), (wanted["recall"], 1.0), f"target: recall {percents.asked(wanted['recall'])}"
        )


def _roc(curve: RocCurve) -> Plot:
    points = [
        (point.false_positive_rate, point.true_positive_rate)
        for point in curve.points
        if point.false_positive_rate is not None and point.true_positive_rate is not None
    ]
    chosen = None
    measured = curve.calibration
    if measured is not None and measured.recall is not None and _negatives(measured):
        rate = measured.false_positives / _negatives(measured)
        text = f"true positives {percents.measured(measured.recall.value)}, false positives {percents.measured(rate)}"
        chosen = PointInUse((rate, measured.recall.value), None, measured.recall, text, measured.confidence)
    guessing = [Helper((0.0, 0.0), (1.0, 1.0), "guessing")]
    if curve.objective.get("at_most"):
        most = curve.objective["at_most"]
        guessing.append(Helper((most, 0.0), (most, 1.0), f"target: false positive rate {percents.asked(most)}"))
    return Plot(
        "Receiver operating characteristic",
        "false positive rate",
        "true positive rate",
        1.0,
        points,
        chosen,
        guessing,
    )


def _negatives(measured: Measures) -> int:
    return measured.false_positives + measured.true_negatives


def _cost(curve: CostCurve) -> Plot:
    chosen = None
    measured = curve.calibration
    if measured is not None and measured.n:
        share = (measured.true_positives + measured.false_positives) / measured.n
        errors = curve.false_negative * measured.false_negatives + curve.false_positive * measured.false_positives
        mean = errors / measured.n
        chosen = PointInUse((share, mean), None, None, f"mean cost {mean:.4g}", measured.confidence)
    highest = max((point.cost for point in curve.points), default=1.0) or 1.0
    return Plot(
        "Mean cost of a row",
        "share of rows predicted positive",
        "mean cost (prices 1:1 assumed)"
        if curve.assumed
        else f"mean cost (miss {curve.false_negative:g}, false alarm {curve.false_positive:g})",
        highest * 1.05,
        [(point.positive_share, point.cost) for point in curve.points],
        chosen,
        [],
        y_is_share=False,
    )


# -- drawing ----------------------------------------------------------------------------------------------------------


def _figure(plot: Plot, subtitle: str, promise: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    # Names come from outside: no part of them is a formula.
    axes.set_title(f"{plot.title}\n", loc="left", fontsize=13, fontweight="bold", parse_math=False)
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, color="#555555", parse_math=False)
    axes.set(xlabel=plot.x_name, ylabel=plot.y_name, xlim=(-0.01, 1.01), ylim=(-0.01 * plot.y_end, 1.01 * plot.y_end))
    for axis, is_share in ((axes.xaxis, True), (axes.yaxis, plot.y_is_share)):
        if is_share:
            axis.set_major_formatter(lambda at, _: percents.measured(at))
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    # Of two targets, each has its own kind of line.
    for helper, style in zip(plot.helpers, ("--", ":"), strict=False):
        ends = zip(helper.start, helper.end, strict=True)
        axes.plot(*ends, color="#888888", linestyle=style, linewidth=1, label=helper.name)
    if plot.points:
        axes.plot(*zip(*plot.points, strict=True), color="#1f5fa8", linewidth=2)
    if plot.chosen is not None:
        _mark(axes, plot.chosen)
    if plot.chosen is not None or plot.helpers:
        legend = figure.legend(
            loc="outside lower left", frameon=False, title=promise or None, title_fontsize=8, alignment="left"
        )
        legend.get_title().set_parse_math(False)
    return figure


def _mark(axes: Axes, chosen: PointInUse) -> None:
    x, y = chosen.at
    # Rounding may put the end of an interval a hair on the wrong side of its value.
    reach = [
        None if interval is None else ([max(0.0, at - interval.low)], [max(0.0, interval.high - at)])
        for at, interval in ((x, chosen.x), (y, chosen.y))
    ]
    drawn = len([interval for interval in reach if interval is not None])
    lines = (
        "",
        f" (line: {percents.asked(chosen.level)} interval)",
        f" (lines: {percents.asked(chosen.level)} intervals)",
    )[drawn]
    axes.errorbar(
        x, y, xerr=reach[0], yerr=reach[1], fmt="o", color="#c2410c", markersize=8, zorder=3,
        clip_on=False, label=f"in use: {chosen.text}{lines}",
    )  # fmt: skip


def _drawable(text: str) -> str:
    """The text in characters that the font of the pictures has."""
    from matplotlib.font_manager import findfont, get_font

    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    return "".join(character if ord(character) in glyphs else "\N{REPLACEMENT CHARACTER}" for character in text)


def _short(text: str, most: int = 40) -> str:
    """A name that fits."""
    drawable = _drawable(text)
    return drawable if len(drawable) <= most else drawable[: most - 1] + "…"
