"""Which rows to label next, and which labels look wrong, where several classes are told apart.

As `solver.labelling_queue` has it for two: a row is unsure where its two most probable classes are close.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.classes_report import ClassesQueue, ClassRowsToLabel, DoubtedClasses
from solver.labelling_queue import BY_CHANCE, CANDIDATES, MOST, UNCOVERED, UNSURE, chance_order, most_telling
from solver.multiclass.file import ClassesModel
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_ERRORS_ABOVE_CHANCE: Final = 2.0
"""Standard deviations by which labels have to be the most probable class more often than by chance."""


@dataclass(frozen=True)
class ClassQueueInput:
    """What a training knows of its rows.

    Attributes
    ----------
    model : ClassesModel
    X : matrix of shape (n, d)
        Features of the rows.
    codes : int array of shape (n,)
        Classes of those with a label, -1 for the others.
    numbers : int array of shape (n,)
        Of the rows in their data set.
    some : int array
        Unlabelled rows to choose from.
    left_out : int array
        Labelled rows that models have left out.
    probabilities : float64 array of shape (left_out, classes)
        What these say of them.
    is_original : bool array of shape (n,)
        Labelled rows of which somebody may ask whether their label is right.
    """

    model: ClassesModel
    X: Matrix
    codes: NDArray[Any]
    numbers: IndexArray
    some: IndexArray
    left_out: IndexArray
    probabilities: FloatArray
    is_original: BoolArray


def class_queue_of(given: ClassQueueInput) -> ClassesQueue | None:
    """Which rows to label next, and which labels look wrong; None of a model without probabilities."""
    if given.model.decision.calibration is None:
        return None
    unlabelled = np.flatnonzero(given.codes < 0)
    order, reserved = chance_order(given.numbers[unlabelled])
    drawn = unlabelled[order[reserved[order]][: MOST // 2]]
    candidates = given.some[~chance_order(given.numbers[given.some])[1]]
    first, second = _two_best(_probabilities(given.model, given.X[candidates]))[2:]
    # any of the expansions says how like rows are: those of one training have one kernel
    kernel = given.model.scores.expansions[0]
    chosen = most_telling(kernel, given.X[candidates], first - second, given.X[given.codes >= 0])
    by_chance = [(row, BY_CHANCE, 0, 0.0) for row in drawn.tolist()]
    by_choice = [
        (int(candidates[each.place]), UNSURE if each.is_near else UNCOVERED, each.covers, each.nearest)
        for each in chosen
    ]
    rows = [each for turn in zip_longest(by_chance, by_choice) for each in turn if each is not None]
    asked = given.is_original[given.left_out]
    judged = given.left_out[asked]
    return ClassesQueue(
        improve=_told(given, rows, len(candidates)),
        suspicious=doubted_classes(given.numbers[judged], given.codes[judged], given.probabilities[asked]),
    )


def _told(given: ClassQueueInput, rows: list[tuple[int, str, int, float]], candidates: int) -> ClassRowsToLabel:
    """What the model says of these rows, and why they are listed."""
    numbers = [row for row, *_ in rows]
    probabilities = _probabilities(given.model, given.X[numbers])
    rule = given.model.decision.rule
    best, following, first, second = _two_best(probabilities)
    said = best if rule is None else rule.says(probabilities)
    return ClassRowsToLabel(
        rows=given.numbers[numbers].tolist(),
        said=said.tolist(),
        best=best.tolist(),
        following=following.tolist(),
        probabilities=first.round(6).tolist(),
        following_probabilities=second.round(6).tolist(),
        reasons=[reason for _, reason, _, _ in rows],
        covers=[covers for _, _, covers, _ in rows],
        compared=min(CANDIDATES, candidates),
        nearest=[round(nearest, 4) for *_, nearest in rows],
    )


def _probabilities(model: ClassesModel, X: Matrix) -> FloatArray:
    calibration = model.decision.calibration
    if calibration is None or not X.shape[0]:
        return np.zeros((X.shape[0], len(model.classes)))
    return model.scores.mapped(X, calibration)


def _two_best(probabilities: FloatArray) -> tuple[IndexArray, IndexArray, FloatArray, FloatArray]:
    """The most probable class of each row, the next one, and the probabilities of both."""
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
    both = np.take_along_axis(probabilities, order, axis=1)
    return order[:, 0], order[:, 1], both[:, 0], both[:, 1]


def doubted_classes(numbers: IndexArray, codes: NDArray[Any], probabilities: FloatArray) -> DoubtedClasses:
    """Labelled rows of which another class is more probable, by models that have not seen the label.

    Those of the least probable label come first. Models that agree with the labels no more often than chance explains
    contradict none.

    Parameters
    ----------
    numbers : int array
        In the data set.
    codes : int array
        Their labels.
    probabilities : float64 array of shape (n, classes)
    """
    n = len(codes)
    own = probabilities[np.arange(n), codes]
    best = np.argmax(probabilities, axis=1) if n else np.empty(0, dtype=np.intp)
    knows = _agrees_more_than_chance(best, codes)
    order = np.argsort(own, kind="stable")
    order = order[best[order] != codes[order]][: MOST if knows else 0]
    return DoubtedClasses(
        rows=numbers[order].tolist(),
        labels=codes[order].tolist(),
        probabilities=own[order].round(6).tolist(),
        instead=best[order].tolist(),
        instead_probabilities=probabilities[order, best[order]].round(6).tolist(),
        judged=n,
        better_than_chance=knows,
    )


def _agrees_more_than_chance(best: IndexArray, codes: NDArray[Any]) -> bool:
    """Whether labels are the most probable class more often than if each class were said of as many rows by lot."""
    n = len(codes)
    if n < 2:
        return False
    said = np.bincount(best, minlength=int(codes.max()) + 1)
    shares = np.bincount(codes, minlength=len(said)) / n
    expected, variance = float(said @ shares), float(said @ (shares * (1 - shares)))
    return int(np.count_nonzero(best == codes)) - expected > _ERRORS_ABOVE_CHANCE * math.sqrt(variance)
