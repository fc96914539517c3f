"""Curves as SVG pictures, with the point in use marked. No library draws them: they are a few lines and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from service.models.curves import AnyCurve
from service.models.schemas import CostCurve, Estimate, Measures, PrecisionRecallCurve, RocCurve

WIDTH, HEIGHT = 640, 520
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 104, 64
STYLE = (
    "text{font:14px system-ui,'DejaVu Sans',sans-serif;fill:#222}"
    ".title{font-size:18px;font-weight:600}.quiet{fill:#555}"
    ".grid{stroke:#e4e4e4}.axis{stroke:#888}.help{stroke:#888;stroke-dasharray:5 4}"
    ".curve{fill:none;stroke:#1f5fa8;stroke-width:2.5;stroke-linejoin:round}"
    ".interval{stroke:#c2410c;stroke-width:2}.chosen{fill:#c2410c;stroke:#fff;stroke-width:2}"
)
Point = tuple[float, float]


@dataclass(frozen=True)
class Chosen:
    """The point in use, with the intervals of its two coordinates where there are any."""

    at: Point
    x: Estimate | None
    y: Estimate | None
    text: str
    level: float
    """Of the intervals."""


@dataclass(frozen=True)
class Plot:
    """What is drawn, in the units of the data."""

    title: str
    x_name: str
    y_name: str
    y_end: float
    points: list[Point]
    chosen: Chosen | None
    helpers: list[tuple[Point, Point]]
    """Dashed lines: a target, or what guessing gives."""


def draw(curve: AnyCurve) -> str:
    """Return the picture of a curve as a whole SVG document."""
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
    return "".join(_document(plot, "; ".join(about)))


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
        text = f"precision {precision.value:.3f}, recall {recall.value:.3f}"
        chosen = Chosen((recall.value, precision.value), recall, precision, text, measured.confidence)
    return Plot("Precision and recall", "recall", "precision", 1.0, points, chosen, list(_targets(curve)))


def _targets(curve: PrecisionRecallCurve) -> Iterator[tuple[Point, Point]]:
    wanted = {name: curve.objective.get(name) for name in ("precision", "recall")}
    wanted[str(curve.objective.get("kind"))] = curve.objective.get("target")
    if wanted["precision"]:
        yield (0.0, wanted["precision"]), (1.0, wanted["precision"])
    if wanted["recall"]:
        yield (wanted["recall"], 0.0), (wanted["recall"], 1.0)


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
        text = f"true positives {measured.recall.value:.3f}, false positives {rate:.3f}"
        chosen = Chosen((rate, measured.recall.value), None, measured.recall, text, measured.confidence)
    guessing = [((0.0, 0.0), (1.0, 1.0))]
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
        chosen = Chosen((share, mean), None, None, f"mean cost {mean:.4g}", measured.confidence)
    highest = max((point.cost for point in curve.points), default=1.0) or 1.0
    return Plot(
        "Mean cost of a row",
        "share of rows predicted positive",
        f"mean cost (miss {curve.false_negative:g}, false alarm {curve.false_positive:g})",
        highest * 1.05,
        [(point.positive_share, point.cost) for point in curve.points],
        chosen,
        [],
    )


# -- drawing ----------------------------------------------------------------------------------------------------------


def _document(plot: Plot, subtitle: str) -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
    yield f'role="img" aria-label="{escape(plot.title)}"><style>{STYLE}</style>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    yield _text(LEFT, 34, plot.title, "title") + _text(LEFT, 58, subtitle, "quiet")
    yield from _axes(plot)
    for start, end in plot.helpers:
        yield _line(_place(plot, start), _place(plot, end), "help")
    yield f'<polyline class="curve" points="{" ".join(_path(_place(plot, point) for point in plot.points))}"/>'
    if plot.chosen is not None:
        yield from _mark(plot, plot.chosen)
    yield "</svg>"


def _axes(plot: Plot) -> Iterator[str]:
    for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        x, y = _place(plot, (value, 0))
        yield _line((x, TOP), (x, y), "grid") + _text(x, y + 22, f"{value:g}", anchor="middle")
    for value in _ticks(plot.y_end):
        x, y = _place(plot, (0, value))
        yield _line((x, y), (WIDTH - RIGHT, y), "grid") + _text(x - 10, y + 5, f"{value:g}", anchor="end")
    yield _line((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "axis")
    yield _line((LEFT, TOP), (LEFT, HEIGHT - BOTTOM), "axis")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, plot.x_name, anchor="middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<text x="20" y="{middle:g}" text-anchor="middle" transform="rotate(-90 20 {middle:g})">{plot.y_name}</text>'


def _ticks(end: float) -> Iterator[float]:
    """Round values from 0 up to `end`, about five."""
    size = 1.0
    while size * 10 <= end:
        size *= 10
    while size > end:
        size /= 10
    step = next(part * size for part in (0.2, 0.5, 1, 2) if end / (part * size) <= 6)
    for number in range(int(end / step + 1e-9) + 1):
        yield round(number * step, 12)


def _mark(plot: Plot, chosen: Chosen) -> Iterator[str]:
    x, y = _place(plot, chosen.at)
    if chosen.x is not None:
        yield _line(_place(plot, (chosen.x.low, chosen.at[1])), _place(plot, (chosen.x.high, chosen.at[1])), "interval")
    if chosen.y is not None:
        yield _line(_place(plot, (chosen.at[0], chosen.y.low)), _place(plot, (chosen.at[0], chosen.y.high)), "interval")
    yield f'<circle class="chosen" cx="{x:.1f}" cy="{y:.1f}" r="7"><title>{escape(chosen.text)}</title></circle>'
    yield f'<circle class="chosen" cx="{LEFT + 7}" cy="75" r="7"/>'
    drawn = (chosen.x is not None) + (chosen.y is not None)
    lines = ("", f" (line: {chosen.level:.0%} interval)", f" (lines: {chosen.level:.0%} intervals)")[drawn]
    yield _text(LEFT + 22, 80, f"in use: {chosen.text}{lines}")


def _place(plot: Plot, point: Point) -> Point:
    """Pixels of a point of the data."""
    x = LEFT + point[0] * (WIDTH - LEFT - RIGHT)
    return x, HEIGHT - BOTTOM - point[1] / plot.y_end * (HEIGHT - TOP - BOTTOM)


def _path(pixels: Iterable[Point]) -> Iterator[str]:
    """Coordinates without those that fall on the pixel before."""
    last = ""
    for x, y in pixels:
        now = f"{x:.1f},{y:.1f}"
        if now != last:
            yield now
        last = now


def _line(start: Point, end: Point, kind: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named} text-anchor="{anchor}">{escape(text)}</text>'


def _short(text: str, most: int = 40) -> str:
    """A name that fits, without characters that XML cannot hold."""
    printable = "".join(character if character.isprintable() else "�" for character in text)
    return printable if len(printable) <= most else printable[: most - 1] + "…"
