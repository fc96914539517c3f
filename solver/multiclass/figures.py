"""What a decision between several classes reached, with intervals; and the report of a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import wilson
from solver.evaluation.measures import measures
from solver.multiclass.objective import ClassObjective
from solver.multiclass.rule import holds, macro_f1
from solver.report import Estimate, JsonObject
from solver.typing import FloatArray, IndexArray


@dataclass(frozen=True, kw_only=True)
class ClassFigures(JsonObject):
    """One class: its rows, those that are said to be of it, and those that are both."""

    label: str
    rows: int
    said: int
    right: int
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None


@dataclass(frozen=True, kw_only=True)
class ClassesFigures(JsonObject):
    """Rows whose class is known, as a decision saw them.

    Attributes
    ----------
    n, undecided : int
    accuracy : Estimate or None
        Share of rows that are given their class; an undecided one is not.
    macro_f1 : Estimate or None
    cost : float or None
        Mean cost of a decided row, where the objective is a cost.
    confusion : list of list of int
        Rows by true class and, in each, by the class that is said; the last number is of undecided rows.
    classes : list of ClassFigures
    confidence : float
        Level of the intervals.
    """

    n: int
    undecided: int
    accuracy: Estimate | None
    macro_f1: Estimate | None
    cost: float | None = None
    confusion: list[list[int]]
    classes: list[ClassFigures]
    confidence: float


@dataclass(frozen=True, kw_only=True)
class FloorOutcome(JsonObject):
    """Whether a class reaches what is asked of it, on rows that had no say in the rule."""

    label: str
    measure: str
    target: float
    met: bool


@dataclass(frozen=True, kw_only=True)
class ClassesReport(JsonObject):
    """What a fit of several classes tells.

    Attributes
    ----------
    algorithm, scheme : str
    objective : dict or None
        None where the class of the highest score is said.
    classes : list of str
    rows : list of int
        Labelled rows by class.
    unlabelled : int
    status, status_reason : str
        `met`, `preference_unmet` where a floor is not reached, or `unmeasured`.
    figures : ClassesFigures or None
        By cross-fitting: each row is decided by models, probabilities and a rule that it had no say in.
    controls : dict of ClassesFigures
        On the same rows: `majority`, and `linear` where it was asked for.
    floors : list of FloorOutcome
    log_loss : float or None
        Of the probabilities, on the same rows; `share_log_loss` is that of the classes' shares.
    share_log_loss : float or None
    warnings : list of str
    """

    algorithm: str
    scheme: str
    objective: dict[str, Any] | None
    classes: list[str]
    rows: list[int]
    unlabelled: int
    status: str
    status_reason: str
    figures: ClassesFigures | None
    controls: dict[str, ClassesFigures] = field(default_factory=dict)
    floors: list[FloorOutcome] = field(default_factory=list)
    log_loss: float | None = None
    share_log_loss: float | None = None
    warnings: list[str] = field(default_factory=list)


def figures_of(
    codes: IndexArray,
    said: IndexArray,
    classes: list[Any],
    costs: FloatArray | None = None,
    confidence: float = 0.95,
) -> ClassesFigures:
    """Count and measure.

    Parameters
    ----------
    codes, said : int arrays of shape (n,)
        True class, and the one that is said; -1 for none.
    classes : list
        Labels in the order of the codes.
    costs : float64 array, optional
        By true class and class that is said.
    confidence : float, default 0.95
    """
    k, n = len(classes), len(codes)
    table = np.zeros((k, k + 1), dtype=np.int64)
    np.add.at(table, (codes, np.where(said < 0, k, said)), 1)
    each = [_class_figures(table, place, str(label), confidence) for place, label in enumerate(classes)]
    right = int(np.trace(table[:, :k]))
    decided = said >= 0
    cost = None
    if costs is not None and decided.any():
        cost = float(costs[codes[decided], said[decided]].mean())
    return ClassesFigures(
        n=n,
        undecided=int(np.count_nonzero(~decided)),
        accuracy=Estimate(right / n, *wilson(right, n, confidence)) if n else None,
        macro_f1=_macro(each, macro_f1(codes, said, k)) if n else None,
        cost=cost,
        confusion=table.tolist(),
        classes=each,
        confidence=confidence,
    )


def _class_figures(table: FloatArray | Any, place: int, label: str, confidence: float) -> ClassFigures:
    right, rows, said = int(table[place, place]), int(table[place].sum()), int(table[:, place].sum())
    total = int(table.sum())
    made = measures(ConfusionCounts(right, said - right, total - rows - said + right, rows - right), confidence)
    return ClassFigures(
        label=label, rows=rows, said=said, right=right, precision=made.precision, recall=made.recall, f1=made.f1
    )


def _macro(each: list[ClassFigures], value: float) -> Estimate:
    """The mean of the classes' F1, with the distances of their intervals added as squares (MOVER).

    An error is one of two classes, so their F1 fall together: in the worst case the variance is twice that of
    classes that have nothing to do with each other.
    """
    known = [figures.f1 for figures in each if figures.f1 is not None]
    below = math.sqrt(2 * sum((f1.value - f1.low) ** 2 for f1 in known)) / len(known)
    above = math.sqrt(2 * sum((f1.high - f1.value) ** 2 for f1 in known)) / len(known)
    return Estimate(value, max(0.0, value - below), min(1.0, value + above))


def floor_outcomes(figures: ClassesFigures, objective: ClassObjective) -> list[FloorOutcome]:
    """Whether each floor of an objective is reached."""
    by_label = {each.label: each for each in figures.classes}
    outcomes = []
    for label, floor in objective.floors.items():
        each = by_label[str(label)]
        for measure, target in floor.items():
            met = holds(each.right, each.said if measure == "precision" else each.rows, target, objective)
            outcomes.append(FloorOutcome(label=str(label), measure=measure, target=float(target), met=met))
    return outcomes
