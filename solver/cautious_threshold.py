"""A threshold for a rate of false positives that the labelled rows are too few to show.

A thousandth cannot be seen among a hundred negative rows: the threshold right above the highest of them has none of
them above it, and loses one in a hundred new ones. So the threshold goes on into where only positive rows are.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from solver.evaluation.curves import OperatingCurve

# Other rates have the distances by the logarithm, as tails have that fall off exponentially.
_USUAL_RATE: Final = 1e-3


class Distances(NamedTuple):
    """How far the threshold goes on for each factor of e that the negative rows are too few by to show a rate.

    In units of what parts the mean scores of both classes, for a rate of a thousandth.

    Attributes
    ----------
    mean : float
        Beyond the mean of the positive rows, which is one unit above that of the negative ones.
    highest : float
        Beyond the highest of the negative rows.
    """

    mean: float
    highest: float


# looked at on draws of labels of the SpamAssassin corpus: `benchmarks/mail_cautious.py`, `benchmarks/results/mail.md`
USUAL_DISTANCES: Final = Distances(0.08, 0.12)


def is_beyond(curve: OperatingCurve, at_most: float) -> bool:
    """Whether the negative rows are so few that at such a rate not one of them is expected to be called positive."""
    return curve.negatives * at_most < 1


def cautious_position(curve: OperatingCurve, at_most: float, distances: Distances = USUAL_DISTANCES) -> int:
    """Return the lowest candidate that is cautious enough, by where the scores of both classes lie.

    Parameters
    ----------
    curve : OperatingCurve
        Of rows that the scored model was not trained on, of both classes.
    at_most : float
        Rate of false positives, above 0.
    distances : Distances

    Returns
    -------
    int
        Position on the curve. The highest candidate that finds a positive row, where none is as cautious as that.
    """
    scores = (curve.thresholds[:-1] + curve.thresholds[1:]) / 2
    of_negatives, of_positives = np.diff(curve.false_positives), np.diff(curve.true_positives)
    mean = float(scores @ of_negatives) / curve.negatives
    distance = max(0.0, float(scores @ of_positives) / curve.positives - mean)
    distance *= math.log(at_most) / math.log(_USUAL_RATE)
    highest = float(scores[np.flatnonzero(of_negatives)[0]])
    lacking = max(0.0, -math.log(curve.negatives * at_most))
    least = max(mean + (1 + distances.mean * lacking) * distance, highest + distances.highest * lacking * distance)
    finds = curve.true_positives > 0
    enough = np.flatnonzero((curve.thresholds >= least) & finds)
    return int(enough[-1] if len(enough) else np.flatnonzero(finds)[0])
