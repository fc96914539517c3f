"""Small pictures, as SVG made here. They hold numbers only: what comes from outside stands beside them, as text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from service.pages.showing import percent
from solver.report import Estimate

WIDTH, HEIGHT = 120, 34
GAP = 1


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
) -> Markup:
    """Return two histograms over each other, upwards and downwards.

    At `mark`, a share of the width, stands a line; at each of `bounds` a dashed one; at `here` one with a head.
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
    return _svg(width, 2 * half, "".join(bars) + axis + line, fluid=True)


def interval(estimate: Estimate, *, other: bool = False) -> Markup:
    """Return a bar from 0 to a measure, with its interval."""
    width, height = 260, 22
    kind = "other" if other else "bar"
    low, at, high = (
        max(0.0, min(1.0, each)) * (width - 2) + 1 for each in (estimate.low, estimate.value, estimate.high)
    )
    return _svg(
        width,
        height,
        f'<rect class="{kind}" x="0" y="4" width="{at:.1f}" height="14"/>'
        f'<path class="whisker" d="M{low:.1f} 11H{high:.1f}M{low:.1f} 6V16M{high:.1f} 6V16"/>',
        label=f"{percent(estimate.value)}, between {percent(estimate.low)} and {percent(estimate.high)}",
        fluid=True,
    )


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
