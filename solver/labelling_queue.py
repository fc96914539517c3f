"""Which rows to label next, and which labels look wrong.

To improve a model, half of the rows are drawn by chance: thresholds, probabilities and all figures may rest on these
alone. The other half is chosen [1]_, one after the other: the row that is like the most rows of which the model is
unsure and which are like no labelled or chosen row. So rows near the threshold, crowds of rows without any label, and
rows unlike each other come first, and any beginning of the list is a good one.

The two halves never meet. Which rows chance may draw follows from their numbers in the data set, whatever they hold and
any model says of them: who labels those that a model is unsure of does not take them out of the sample.

References
----------
.. [1] Wei, Iyer and Bilmes, "Submodularity in data subset selection and active learning", ICML 2015.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.decision import DecisionState
from solver.evaluation import OperatingCurve
from solver.nearest import DecisionKernel, Likeness
from solver.report import DoubtedLabels, LabellingQueue, RowsToLabel
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

MOST: Final = 200
"""Rows of a list."""
BY_CHANCE: Final = "random"
UNSURE: Final = "unsure"
UNCOVERED: Final = "uncovered"
"""Why a row is to be labelled."""

_RESERVED: Final = 0.25
"""Share of the rows that only chance may draw."""
CANDIDATES: Final = 1024
"""Unlabelled rows, at most, that are compared with each other."""
_KNOWN: Final = 2048
"""Labelled rows, at most, that candidates are compared with."""
_FADING: Final = 0.2
"""Candidates count less the farther they are from the threshold: after this share of them 1 / e of the nearest."""
_NEAR: Final = 0.1
"""Share of the candidates, nearest first, that are said to be near the threshold."""


@dataclass(frozen=True)
class QueueInput:
    """What a training knows of its rows.

    Attributes
    ----------
    decision : DecisionState
        The model.
    X : matrix of shape (n, d)
        Features of the rows.
    codes : int array of shape (n,)
        1 and 0 for the labels, -1 for none.
    numbers : int array of shape (n,)
        Of the rows in their data set.
    some, scores : int array, float64 array
        Unlabelled rows to choose from, and what the model says of them.
    left_out : float64 array
        Of each labelled row, a score of a model that has not seen its label; NaN where there is none.
    is_original : bool array of shape (n,)
        Labelled rows of which somebody may ask whether their label is right.
    """

    decision: DecisionState
    X: Matrix
    codes: NDArray[np.int8]
    numbers: IndexArray
    some: IndexArray
    scores: FloatArray
    left_out: FloatArray
    is_original: BoolArray


def queue_of(given: QueueInput) -> LabellingQueue:
    """Which rows to label next, and which labels look wrong."""
    labelled = np.flatnonzero(given.codes >= 0)
    unlabelled = np.flatnonzero(given.codes < 0)
    order, reserved = chance_order(given.numbers[unlabelled])
    drawn = unlabelled[order[reserved[order]][: MOST // 2]]
    free = ~chance_order(given.numbers[given.some])[1]
    chosen = rows_to_label(given.decision, given.X[given.some[free]], given.scores[free], given.X[labelled])
    judged = np.isfinite(given.left_out) & given.is_original[labelled]
    rows = labelled[judged]
    return LabellingQueue(
        improve=_by_turns(given, given.some[free], chosen, drawn),
        suspicious=doubted_labels(
            given.numbers[rows], given.codes[rows] > 0, given.left_out[judged], given.decision.probability
        ),
    )


@dataclass(frozen=True)
class ChosenRow:
    """A row from whose label a model would learn much."""

    place: int
    """Among the unlabelled rows to choose from."""
    is_near: bool
    """Whether it is one of those that lie nearest to the threshold."""
    covers: int
    """How many of the rows that were compared are more like it than like any labelled one or one chosen before."""
    nearest: float = 0.0
    """How like it is the one of these that is most like it, from 0 to 1."""


def _by_turns(given: QueueInput, some: IndexArray, chosen: Sequence[ChosenRow], drawn: IndexArray) -> RowsToLabel:
    """Rows that chance draws and rows that were chosen, by turns, as long as there are any."""
    scores = dict(zip(given.some.tolist(), given.scores.tolist(), strict=True))
    unscored = [row for row in drawn.tolist() if row not in scores]
    scores |= zip(unscored, given.decision.decision_function(given.X[unscored]).tolist(), strict=True)
    by_chance = [(row, BY_CHANCE, 0, 0.0) for row in drawn.tolist()]
    by_choice = [
        (int(some[each.place]), UNSURE if each.is_near else UNCOVERED, each.covers, each.nearest) for each in chosen
    ]
    rows = [each for turn in zip_longest(by_chance, by_choice) for each in turn if each is not None]
    return RowsToLabel(
        rows=[int(given.numbers[row]) for row, *_ in rows],
        scores=[scores[row] for row, *_ in rows],
        reasons=[reason for _, reason, _, _ in rows],
        covers=[covers for _, _, covers, _ in rows],
        compared=min(CANDIDATES, len(some)),
        nearest=[round(nearest, 4) for *_, nearest in rows],
    )


def chance_order(numbers: IndexArray) -> tuple[IndexArray, BoolArray]:
    """In which order chance draws rows, and which ones it alone may draw.

    Parameters
    ----------
    numbers : int array
        Of rows in their data set.

    Returns
    -------
    order : int array
        Places in `numbers`.
    reserved : bool array
        By place.
    """
    with np.errstate(over="ignore"):
        mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.argsort(mixed, kind="stable"), mixed < np.uint64(int(_RESERVED * 2**64))


def rows_to_label(decision: DecisionState, X: Matrix, scores: FloatArray, labelled: Matrix) -> list[ChosenRow]:
    """Rows from whose labels a model would learn most.

    Parameters
    ----------
    decision : DecisionState
    X : matrix
        Features of unlabelled rows.
    scores : float64 array
        What the model says of them.
    labelled : matrix
        Features of the labelled rows.
    """
    return most_telling(decision, X, _beyond(scores, decision.threshold), labelled)


def most_telling(kernel: DecisionKernel, X: Matrix, sureness: FloatArray, labelled: Matrix) -> list[ChosenRow]:
    """Rows from whose labels a model would learn most.

    Parameters
    ----------
    kernel : DecisionKernel
        By which the model compares rows.
    X : matrix
        Features of unlabelled rows.
    sureness : float64 array
        How sure the model is of each, in any unit; 0 is the least.
    labelled : matrix
        Features of the labelled rows.
    """
    nearest = np.argsort(sureness, kind="stable")[:CANDIDATES]
    candidates = X[nearest]
    step = max(1, -(-labelled.shape[0] // _KNOWN))
    known = Likeness(kernel, labelled[::step])(candidates).max(axis=1, initial=0.0)
    weights = np.exp(-np.arange(len(nearest)) / max(1.0, _FADING * len(nearest)))
    picks = _telling(Likeness(kernel, candidates)(candidates), known, weights, MOST // 2)
    n_near = round(_NEAR * len(nearest))
    return [ChosenRow(int(nearest[place]), place < n_near, covers, alike) for place, covers, alike in picks]


def _beyond(scores: FloatArray, threshold: float) -> FloatArray:
    """How far scores lie outside of the interval between 0, where the classes part, and the threshold."""
    low, high = min(0.0, threshold), max(0.0, threshold)
    beyond: FloatArray = np.maximum(0.0, np.maximum(low - scores, scores - high))
    return beyond


def _telling(likeness: FloatArray, known: FloatArray, weights: FloatArray, most: int) -> list[tuple[int, int, float]]:
    """Choose rows, each of which adds most to how like all rows, by their weights, are the known or chosen ones.

    Returns
    -------
    list of (int, int, float)
        Place of a row, how many rows are more like it than like any known or chosen one, and how like it is the one of
        these that is most like it.
    """
    best = known.copy()
    gains = np.maximum(likeness - best, 0.0) @ weights
    # What a row adds only falls as others are chosen. So if the row with the largest old value still has the largest
    # after it was computed anew, it is the best, and the others need not be looked at.
    waiting = [(-gain, place) for place, gain in enumerate(gains.tolist()) if gain > 0]
    heapq.heapify(waiting)
    picks: list[tuple[int, int, float]] = []
    while waiting and len(picks) < most:
        _, place = heapq.heappop(waiting)
        more = np.maximum(likeness[place] - best, 0.0)
        gain = float(more @ weights)
        if gain <= 0:
            continue
        if waiting and gain < -waiting[0][0]:
            heapq.heappush(waiting, (-gain, place))
            continue
        picks.append((place, int(np.count_nonzero(more)), float(best[place])))
        best += more
    return picks


def doubted_labels(
    numbers: IndexArray, positive: BoolArray, scores: FloatArray, probability: Callable[[FloatArray], FloatArray] | None
) -> DoubtedLabels:
    """Labelled rows whose label is the less likely one, by models that have not seen it; the least likely first.

    Models that tell the labels apart no better than chance does contradict none.

    Parameters
    ----------
    numbers : int array
        In the data set.
    positive : bool array
        Their labels.
    scores : float64 array
        Of models that left the row out.
    probability : callable or None
        Probabilities of the positive class from scores; without any no label is doubted.
    """
    of_positive = np.full(len(scores), 0.5) if probability is None else probability(scores)
    of_label = np.where(positive, of_positive, 1.0 - of_positive)
    knows = len(scores) > 0 and OperatingCurve.from_scores(scores, positive).is_better_than_chance
    order = np.argsort(of_label, kind="stable")
    order = order[of_label[order] < 0.5][: MOST if knows else 0]
    return DoubtedLabels(
        rows=numbers[order].tolist(),
        scores=scores[order].tolist(),
        positive=positive[order].tolist(),
        judged=len(numbers),
        better_than_chance=knows,
    )
