"""Values so far from all others of their column that by themselves they would decide how the column is scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.features.columns import MOST_NAMED
from solver.typing import BoolArray, FloatArray

# a value this many times farther from the median than those that are nearer are on average
TIMES: Final = 100.0
# as many values may be wild, and one in any case; more are a part of the column
_SHARE: Final = 0.02
# together they must make the deviation so many times as large
_WIDENING: Final = 2.0
# So many times as far as the farthest of the others is said to the user.
_ABSURD: Final = 10.0
# What of the sum of squares the wild ones must have then is 1 - 1 / _WIDENING², less what the mean moves by.
_LEAST_SHARE_OF_SQUARES: Final = 0.6


@dataclass(frozen=True, slots=True)
class WildValues:
    """The wild values of a column, in its own units.

    Attributes
    ----------
    count : int
    furthest : float
        The one farthest from the others.
    low, high : float
        Least and greatest of the others.
    is_absurd : bool
        Whether the furthest one is more than `_ABSURD` times as far from the median as any of the others.
    """

    count: int
    furthest: float
    low: float
    high: float
    is_absurd: bool


def may_be_wild(n: int, furthest: FloatArray | float, deviation: FloatArray | float) -> BoolArray | bool:
    """Whether columns of `n` values could have wild ones, by their largest distance from the mean and their deviation.

    No others need to be looked at one by one. What follows from `_SHARE` and `_WIDENING`: few values that have most of
    the sum of squares are many deviations away.
    """
    if n < 2:
        return np.zeros(np.shape(furthest), dtype=bool)
    return np.greater(furthest, deviation * math.sqrt(_LEAST_SHARE_OF_SQUARES * n / _most(n)))


def find_wild(values: FloatArray, gaps: int = 0) -> tuple[WildValues, BoolArray] | None:
    """Return the wild values of a column, and which of `values` are none of them; None where none is wild.

    A value is wild that is `TIMES` times farther from the median than all nearer ones are on average (those that equal
    the median not counted), and so are those beyond it, if they are one in fifty at most and make the standard
    deviation more than twice as large. Nothing overflows, whatever finite values there are.

    Parameters
    ----------
    values : float64 array
        Finite.
    gaps : int, default 0
        How many zeros there are besides; more than half of the values, or none.
    """
    n = len(values) + gaps
    half = values / 2  # so that no difference can overflow
    distance = np.abs(half - (0.0 if gaps else np.median(half)))
    away = np.sort(distance[distance > 0])
    first = max(len(away) - _most(n), (len(away) + 1) // 2)
    if first >= len(away):
        return None
    with np.errstate(over="ignore"):
        nearer = np.cumsum(away / len(away))[first - 1 : -1] * (len(away) / np.arange(first, len(away))) * TIMES
    beyond = np.flatnonzero((away[first:] > nearer) & (away[first:] > away[first - 1 : -1]))
    if not len(beyond):
        return None
    ordinary = distance < away[first + beyond[0]]
    if not moments(values, gaps)[1] > _WIDENING * moments(values[ordinary], gaps)[1] > 0:
        return None
    others = values[ordinary] if not gaps else np.append(values[ordinary], 0.0)
    furthest = float(values[np.argmax(distance)])
    count = len(values) - int(np.count_nonzero(ordinary))
    is_absurd = bool(away[-1] / _ABSURD > away[first + beyond[0] - 1])
    return WildValues(count, furthest, float(others.min()), float(others.max()), is_absurd), ordinary


def moments(values: FloatArray, gaps: int = 0) -> tuple[float, float]:
    """Mean and standard deviation of finite values and of so many zeros; no square overflows."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return 0.0, 0.0
    scaled = values / largest
    if not gaps:
        return float(scaled.mean()) * largest, float(scaled.std()) * largest
    n = len(values) + gaps
    mean = float(scaled.sum()) / n
    squares = float(((scaled - mean) ** 2).sum()) + gaps * mean**2
    return mean * largest, math.sqrt(squares / n) * largest


def wild_warnings(found: Sequence[tuple[str, WildValues, float]], advice: str = "") -> list[str]:
    """Sentences on columns: name, wild values, and what the furthest of them counts as; each with that advice.

    Where the tail of a column only goes far, nothing is said.
    """
    said = []
    found = [each for each in found if each[1].is_absurd]
    for name, wild, counts_as in found[:MOST_NAMED]:
        values = "1 value is" if wild.count == 1 else f"{wild.count} values are"
        where = f"{wild.furthest:.6g}, where they lie between {wild.low:.6g} and {wild.high:.6g}"
        said.append(
            f"column {name!r}: {values} far from all others ({where}) and would have hidden what these differ by; it "
            f"counts as {counts_as:.6g}{advice}"
        )
    if len(found) > MOST_NAMED:
        said.append(f"{len(found) - MOST_NAMED} more columns: values that are far from all others")
    return said


def _most(n: int) -> int:
    """How many of so many values may be wild."""
    return max(1, int(_SHARE * n))
