"""Small pictures, as SVG made here. They hold numbers only: what comes from outside stands beside them, as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from service.shown_text import number, percent
from solver.report import Estimate

WIDTH, HEIGHT = 120, 34
GAP = 1


@dataclass(frozen=True)
class Axis:
    """From where to where a picture goes, and what stands beside it."""

    name: str
    least: float
    greatest: float
    ticks: Sequence[tuple[float, str]]

    def place(self, value: float) -> float:
        """Return where a value lies, as a share of the axis."""
        width = self.greatest - self.least
        return 0.5 if width <= 0 else max(0.0, min(1.0, (value - self.least) / width))


@dataclass(frozen=True)
class Point:
    """A value, with its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """Points in order. `kind` says how it is drawn: a class of the style sheet (``bar``, ``other``, ``guide``)."""

    points: Sequence[Point]
    kind: str = "bar"
    dots: bool = False
    """Whether each point is drawn, with its interval; otherwise the intervals are a band."""
    joined: bool = True


def shares(name: str) -> Axis:
    """Return an axis of shares, from 0 to 100 %."""
    return Axis(name, 0.0, 1.0, [(part / 4, percent(part / 4)) for part in range(5)])


def numbers(name: str, values: Sequence[float], *, whole: bool = False, zero: bool = False) -> Axis:
    """Return an axis on which these values lie; `zero`: it begins there."""
    known = [value for value in values if math.isfinite(value)]
    least, greatest = min(known, default=0.0), max(known, default=1.0)
    least = min(0.0, least) if zero else least
    if greatest <= least:
        least, greatest = least - 0.5 * (not zero), greatest + (1.0 if zero else 0.5)
    rough = (greatest - least) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough)
    step = max(1.0, round(step)) if whole else step
    first = math.ceil(least / step - 1e-9)
    ticks = [first * step + place * step for place in range(8) if first * step + place * step <= greatest + 1e-9 * step]
    return Axis(name, least, greatest, [(tick, number(round(tick, 10))) for tick in ticks])


def plot(lines: Sequence[Line], x: Axis, y: Axis, label: str) -> Markup:
    """Return lines and points over two axes; `label` says in words what is to be seen."""
    width, height, left, right, top, bottom = 380, 260, 72, 24, 10, 42

    def at(point_x: float, point_y: float) -> tuple[float, float]:
        across, up = x.place(point_x), y.place(point_y)
        return left + across * (width - left - right), height - bottom - up * (height - bottom - top)

    parts = []

    def word(said: str, across: float, down: float, anchor: str = "middle", turn: str = "") -> str:
        place = f'transform="translate({across:.1f} {down:.1f}){turn}"'
        return f'<text {place} text-anchor="{anchor}">{escape(said)}</text>'

    for tick, said in y.ticks:
        level = at(x.least, tick)[1]
        parts.append(f'<path class="axis" d="M{left} {level:.1f}H{width - right}"/>')
        parts.append(word(said, left - 6, level + 4, "end"))
    for tick, said in x.ticks:
        across = at(tick, y.least)[0]
        parts.append(f'<path class="axis" d="M{across:.1f} {top}V{height - bottom}"/>')
        parts.append(word(said, across, height - bottom + 15))
    parts.append(word(x.name, left + (width - left - right) / 2, height - 6))
    parts.append(word(y.name, 12, (height - bottom) / 2, turn=" rotate(-90)"))
    for line in lines:
        parts += _drawn(line, at)
    head = f'<svg class="plot" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704 (numbers, and words that are escaped)


def _drawn(line: Line, at: Callable[[float, float], tuple[float, float]]) -> Iterator[str]:
    places = [at(point.x, point.y) for point in line.points]
    ends = [
        (point.x, point.low, point.high) for point in line.points if point.low is not None and point.high is not None
    ]
    if ends and not line.dots:
        edge = [at(across, high) for across, _, high in ends] + [at(across, low) for across, low, _ in reversed(ends)]
        yield f'<path class="band" d="{_path(edge)}Z"/>'
    if line.joined and len(places) > 1:
        yield f'<path class="line {line.kind}" d="{_path(places)}"/>'
    if not line.dots:
        return
    for across, low, high in ends:
        (left, bottom), (_, top) = at(across, low), at(across, high)
        yield f'<path class="whisker" d="M{left:.1f} {bottom:.1f}V{top:.1f}"/>'
    for left, top in places:
        yield f'<circle class="dot {line.kind}" cx="{left:.1f}" cy="{top:.1f}" r="4"/>'


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{left:.1f} {top:.1f}" for left, top in places)


def histogram(counts: Sequence[int]) -> Markup:
    """Return bars, one a part, on one line."""
    most = max(counts, default=0) or 1
    step = WIDTH / max(1, len(counts))
    bars = []
    for place, count in enumerate(counts):
        height = max(1.0, (HEIGHT - 2) * count / most) if count else 0.0
        bars.append(
            f'<rect class="bar" x="{place * step:.1f}" y="{HEIGHT - 1 - height:.1f}" '
            f'width="{max(1.0, step - GAP):.1f}" height="{height:.1f}"/>'
        )
    axis = f'<path class="axis" d="M0 {HEIGHT - 0.5}H{WIDTH}"/>'
    return _svg(WIDTH, HEIGHT, "".join(bars) + axis)


def scores(
    positive: Sequence[int],
    negative: Sequence[int],
    mark: float | None,
    bounds: Sequence[float] = (),
    here: float | None = None,
    others: Sequence[tuple[float, float]] = (),
) -> Markup:
    """Return two histograms over each other, upwards and downwards.

    At `mark`, a share of the width, stands a line; at each of `bounds` a dashed one; at `here` one with a head.
    `others` are steps of a line over them: how far each goes, and how high, both as shares.
    """
    width, half = 640, 90
    most = max((*positive, *negative), default=0) or 1
    step = width / max(1, len(positive))
    bars = []
    for place, (up, down) in enumerate(zip(positive, negative, strict=True)):
        left, wide = place * step, max(1.0, step - 2)
        for kind, top, height in (
            ("other", half - (half - 8) * up / most, (half - 8) * up / most),
            ("bar", half, (half - 8) * down / most),
        ):
            if height:
                bars.append(
                    f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}"/>'
                )
    line = "" if mark is None else f'<path class="mark" d="M{mark * width:.1f} 0V{2 * half}"/>'
    line += "".join(f'<path class="mark bound" d="M{at * width:.1f} 0V{2 * half}"/>' for at in bounds)
    if here is not None:
        at = max(6.0, min(width - 6.0, here * width))
        line += f'<path class="here" d="M{at:.1f} 12V{2 * half}"/><path class="head" d="M{at - 6:.1f} 0h12l-6 13z"/>'
    axis = f'<path class="axis" d="M0 {half}H{width}"/>'
    if others:
        steps = "".join(f"V{half - (half - 8) * high:.1f}H{to * width:.1f}" for to, high in others[1:])
        axis += f'<path class="line guide" d="M{others[0][0] * width:.1f} {half}{steps}V{half}"/>'
    return _svg(width, 2 * half, "".join(bars) + axis + line, fluid=True)


def interval(estimate: Estimate, *, other: bool = False, most: float = 1.0, as_share: bool = True) -> Markup:
    """Return a bar from 0 to a measure, with its interval; `most` fills the width."""
    width, height = 260, 22
    kind = "other" if other else "bar"
    low, at, high = (
        max(0.0, min(1.0, each / most if most > 0 else 0.0)) * (width - 2) + 1
        for each in (estimate.low, estimate.value, estimate.high)
    )
    said = percent if as_share else number
    return _svg(
        width,
        height,
        f'<rect class="{kind}" x="0" y="4" width="{at:.1f}" height="14"/>'
        f'<path class="whisker" d="M{low:.1f} 11H{high:.1f}M{low:.1f} 6V16M{high:.1f} 6V16"/>',
        label=f"{said(estimate.value)}, between {said(estimate.low)} and {said(estimate.high)}",
        fluid=True,
    )


def signed(value: float, most: float) -> Markup:
    """Return a bar from the middle, to the right for what is above 0; `most` reaches the edge."""
    width, height = 260, 22
    share = max(-1.0, min(1.0, value / most)) if most > 0 else 0.0
    length = abs(share) * (width / 2 - 1)
    left = width / 2 - (length if share < 0 else 0.0)
    bar = f'<rect class="{"other" if share > 0 else "bar"}" x="{left:.1f}" y="4" width="{length:.1f}" height="14"/>'
    return _svg(width, height, f'{bar}<path class="axis" d="M{width / 2} 0V{height}"/>', fluid=True)


def bar_of(value: float, most: float) -> Markup:
    """Return a bar from the left; `most` reaches the edge."""
    width, height = 260, 22
    long = max(0.0, min(1.0, value / most)) * (width - 2) if most > 0 else 0.0
    return _svg(width, height, f'<rect class="bar" x="0" y="4" width="{long:.1f}" height="14"/>', fluid=True)


def progress(proved: float, target: float) -> Markup:
    """Return a bar from 0 to what is proved, and a mark where it has to get; both are shares of the width."""
    width, height = 640, 26
    done, at = (max(0.0, min(1.0, each)) * width for each in (proved, target))
    bar = f'<rect class="bar" x="0" y="5" width="{done:.1f}" height="16"/>'
    track = f'<path class="axis" d="M0 21.5H{width}"/>'
    return _svg(width, height, f'{bar}{track}<path class="mark" d="M{at:.1f} 0V{height}"/>', fluid=True)


def _svg(width: float, height: float, inside: str, label: str | None = None, *, fluid: bool = False) -> Markup:
    told = 'aria-hidden="true"' if label is None else f'role="img" aria-label="{label}"'
    size = 'width="100%"' if fluid else f'width="{width:g}" height="{height:g}"'
    ratio = ' preserveAspectRatio="none"' if fluid else ""
    return Markup(f'<svg viewBox="0 0 {width:g} {height:g}" {size}{ratio} {told}>{inside}</svg>')  # noqa: S704 (numbers)
