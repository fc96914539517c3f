"""What a decision between several classes reached, with intervals; and the report of a fit."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from solver.classes_report import ClassesFigures, ClassFigures, FloorOutcome
from solver.classes_report import ClassesReport as ClassesReport
from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.curves import OperatingCurve
from solver.evaluation.intervals import wilson
from solver.evaluation.measures import measures
from solver.multiclass.objective import ClassObjective
from solver.multiclass.rule import holds, macro_f1
from solver.report import CurvePoints, Estimate
from solver.typing import FloatArray, IndexArray

_CURVE_POINTS: Final = 20_000
"""Of the curves of all classes together, and of one at most a fifth of them."""
_FEWEST_POINTS: Final = 200
"""Of a curve, where there are very many classes."""


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


def curves_of(probabilities: FloatArray, codes: IndexArray) -> list[CurvePoints]:
    """Each class against all others: what it would find, and what wrongly, above every probability.

    Parameters
    ----------
    probabilities : float64 array of shape (n, classes), n >= 1
        Of rows that had no say in them.
    codes : int array of shape (n,)
        Their classes.

    Returns
    -------
    list of CurvePoints
        By class; thresholds are probabilities.
    """
    classes = probabilities.shape[1]
    points = max(_FEWEST_POINTS, _CURVE_POINTS // max(5, classes))
    curves = (OperatingCurve.from_scores(probabilities[:, k], codes == k).thinned(points) for k in range(classes))
    return [CurvePoints(**curve.to_dict()) for curve in curves]


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


def status_of(floors: list[FloorOutcome]) -> tuple[str, str]:
    """Status and reason of an objective with these outcomes."""
    missed = [f"the {each.measure} of {each.label!r}" for each in floors if not each.met]
    if not missed:
        return "met", ""
    return "preference_unmet", f"Not reached on left-out rows: {', '.join(missed)}."
