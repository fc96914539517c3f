"""The two numbers of `solver/cautious_threshold.py`: chosen on some draws, and looked at on others.

    python -P benchmarks/mail_cautious.py --runs FILE [--choose 6] [--out benchmarks/results/mail_cautious.md]

FILE is that of `benchmarks/mail.py`, with the parts ``claims`` and ``bogofilter``. The first draws of the random split
choose: of a grid the pair that catches the most spam among those that lose no more good mail than half of what
bogofilter loses at its own cutoff, .99 (half, because the best of many looks better than it is). Draws with other seeds
and all those in time confirm, and have no say in the choice. The bar: more spam caught, and no more good mail lost.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.mail import kept_runs
from benchmarks.mail_tables import interval
from solver.cautious_threshold import USUAL_DISTANCES, Distances, cautious_position, is_beyond
from solver.evaluation import OperatingCurve

AT_MOST: Final = 0.001
GRID: Final = [
    Distances(round(mean, 2), round(highest, 2))
    for mean, highest in itertools.product(np.arange(0, 0.21, 0.02), np.arange(0, 0.31, 0.03))
]
SHARE_OF_THEIRS: Final = 0.5
CHOOSING: Final = "choosing: random"


@dataclass(frozen=True)
class Unproven:
    """One draw whose labelled mails are too few to show so small a loss."""

    group: str
    curve: OperatingCurve
    good: NDArray[np.float64]
    spam: NDArray[np.float64]
    theirs: tuple[float, float]
    """Spam caught and good mail lost by bogofilter, as shares."""

    def ours(self, distances: Distances) -> tuple[float, float]:
        """Spam caught and good mail lost, as shares."""
        threshold = self.curve.thresholds[cautious_position(self.curve, AT_MOST, distances)]
        return float((self.spam > threshold).mean()), float((self.good > threshold).mean())


def unproven(path: Path, choosing: int) -> list[Unproven]:
    """Draws of both parts, each in the group that chooses or in one that confirms."""
    runs = kept_runs(path)
    found = []
    for (kind, labels, draw, part), run in sorted(runs.items()):
        beside = runs.get((kind, labels, draw, "bogofilter"))
        if part != "claims" or beside is None or run["curve"] is None:
            continue
        curve = OperatingCurve.from_dict(run["curve"])
        if not is_beyond(curve, AT_MOST):
            continue
        theirs = beside["methods"]["bogofilter"]
        chooses = kind == "random" and draw < choosing
        group = CHOOSING if chooses else f"confirming: {kind}"
        scores = (np.array(run["scores"][name]) for name in ("good", "spam"))
        found.append(Unproven(group, curve, *scores, (theirs["recall"], theirs["lost"])))
    return found


def chosen(draws: Sequence[Unproven]) -> Distances | None:
    """The pair of the grid that catches the most of those that lose little; None if none does."""
    most_lost = SHARE_OF_THEIRS * float(np.mean([draw.theirs[1] for draw in draws]))
    figures = {each: np.mean([draw.ours(each) for draw in draws], axis=0) for each in GRID}
    careful = [each for each in GRID if figures[each][1] <= most_lost]
    return max(careful, key=lambda each: float(figures[each][0]), default=None)


def table(draws: Sequence[Unproven], distances: Distances) -> Iterator[str]:
    """What a pair does in each group of draws, in percent."""
    yield "| | draws | spam caught | by bogofilter | good mail lost | by bogofilter | difference | bar |"
    yield "|---|---|---|---|---|---|---|---|"
    for group, members in itertools.groupby(sorted(draws, key=lambda draw: draw.group), lambda draw: draw.group):
        pairs: list[tuple[Any, Any]] = [(draw.ours(distances), draw.theirs) for draw in members]
        ours, theirs = (100 * np.array(each) for each in zip(*pairs, strict=True))
        mean, reach = interval((ours[:, 1] - theirs[:, 1]).tolist())
        more, fewer = ours[:, 0].mean() > theirs[:, 0].mean(), mean <= 0
        said = "met" if more and fewer else "**missed**"
        yield (
            f"| {group} | {len(pairs)} | {ours[:, 0].mean():.1f} | {theirs[:, 0].mean():.1f} | {ours[:, 1].mean():.3f} "
            f"| {theirs[:, 1].mean():.3f} | {mean:+.3f} ± {reach:.3f} | {said} |"
        )


def report(draws: Sequence[Unproven]) -> Iterator[str]:
    """All that is written."""
    yield "# The cautious threshold beside bogofilter's own\n"
    yield "Written by `benchmarks/mail_cautious.py`, which replaces all of this file. Shares in percent; behind ± is"
    yield "the 95 % interval of the mean over draws. The distances are those of `solver/cautious_threshold.py`.\n"
    yield f"## As it is: {USUAL_DISTANCES.mean:g} and {USUAL_DISTANCES.highest:g}\n"
    yield from table(draws, USUAL_DISTANCES)
    pair = chosen([draw for draw in draws if draw.group == CHOOSING])
    if pair is None:
        yield "\nNo pair of the grid loses as little as half of what bogofilter does on the draws that choose."
        return
    yield f"\n## As the draws that choose have it: {pair.mean:g} and {pair.highest:g}\n"
    yield from table(draws, pair)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="JSON lines of `benchmarks/mail.py`.")
    parser.add_argument("--choose", type=int, default=6, help="So many draws of the random split choose.")
    parser.add_argument("--out", type=Path, help="Write it there, besides printing it.")
    given = parser.parse_args()
    text = "\n".join(report(unproven(given.runs, given.choose)))
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
