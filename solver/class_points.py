"""What a model of several classes promises, and how another rule is chosen for it without data and without training.

`solver.promise` and `solver.retuning` do the same for two classes and their threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from solver import percents
from solver.choices import PROMISE_CONFIDENCE
from solver.classes_report import ClassesFigures, FloorOutcome, MulticlassReport
from solver.multiclass.choosing import LeftOutProbabilities
from solver.multiclass.figures import figures_of, floor_outcomes, status_of
from solver.multiclass.objective import ClassObjective
from solver.report import Estimate, JsonObject, Promise


@dataclass(frozen=True, kw_only=True)
class ClassesPoint(JsonObject):
    """A rule of a trained model of several classes, chosen for an objective.

    Attributes
    ----------
    objective : dict
    status, status_reason : str
        `met`, or `preference_unmet` where a floor is not reached.
    calibration : ClassesFigures
        By cross-fitting, as in a training.
    rule : dict
        See `solver.multiclass.ClassRule.to_json`.
    """

    objective: dict[str, Any]
    status: str
    status_reason: str
    calibration: ClassesFigures
    rule: dict[str, Any]


def chosen_point_of_classes(
    left_out: LeftOutProbabilities, objective: ClassObjective, classes: list[str]
) -> ClassesPoint:
    """Choose the rule for an objective, as a training with it would on the same left-out rows.

    Parameters
    ----------
    left_out : LeftOutProbabilities
        What the training kept.
    objective : ClassObjective
        Of these classes.
    classes : list of str
        As the report has them.
    """
    said, rule = left_out.decided(objective, classes)
    costs = objective.cost_matrix(classes) if objective.kind == "cost" else None
    figures = figures_of(left_out.codes, said, classes, costs)
    status, reason = status_of(floor_outcomes(figures, objective))
    return ClassesPoint(
        objective=objective.to_dict(), status=status, status_reason=reason, calibration=figures, rule=rule.to_json()
    )


def with_point(report: MulticlassReport, point: Mapping[str, Any] | None) -> MulticlassReport:
    """The report as if its training had chosen the rule of a point that was applied since; as it is for None.

    Figures of test rows and controls stay those of the training.

    Raises
    ------
    ValueError
        If the point is not whole.
    """
    if point is None:
        return report
    figures, floors, promise = _told(point)
    return replace(
        report,
        objective=point["objective"],
        status=point["status"],
        status_reason=point["status_reason"],
        calibration=figures,
        floors=floors,
        promise=promise,
    )


def promise_of_point(point: Mapping[str, Any]) -> Promise | None:
    """What a stored point promises; raises ValueError where it is not whole."""
    return _told(point)[2]


def _told(point: Mapping[str, Any]) -> tuple[ClassesFigures | None, list[FloorOutcome], Promise | None]:
    objective = ClassObjective.parse(point["objective"])
    figures = None if point["calibration"] is None else ClassesFigures.from_dict(point["calibration"])
    floors = [] if figures is None else floor_outcomes(figures, objective)
    return figures, floors, promise_of_classes(figures, floors, objective)


def promise_of_classes(
    figures: ClassesFigures | None, floors: list[FloorOutcome], objective: ClassObjective
) -> Promise | None:
    """What can be relied on of a model of several classes, and what cannot.

    The bounds are the lower ends of the intervals of left-out rows. Nothing is computed that would be the chance of a
    floor, so that none is called likely or proven.

    Parameters
    ----------
    figures : ClassesFigures or None
        By cross-fitting; None promises nothing.
    floors : list of FloorOutcome
    objective : ClassObjective
    """
    if figures is None:
        return None
    level = None
    if floors:
        level = "open" if all(each.met for each in floors) else "missed"
    bounds = {
        name: estimate.low
        for name, estimate in (("macro_f1", figures.macro_f1), ("accuracy", figures.accuracy))
        if estimate is not None
    }
    sentence = (
        f"Of {figures.n:,} labelled rows, each left out of what decided it, "
        f"{_range('accuracy', figures.accuracy)} and {_range('macro-F1', figures.macro_f1)} were reached"
        f"{_undecided(figures)}; what you can count on is the lower end of each interval. "
        f"{_of_floors(floors, objective)}For several classes no chance of a target is computed, and nothing is proven."
    )
    return Promise(level=level, chance=None, confidence=PROMISE_CONFIDENCE, bounds=bounds, sentence=sentence)


def _range(name: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return f"no {name}"
    return f"{name} {percents.with_range(estimate.value, estimate.low, estimate.high)}"


def _undecided(figures: ClassesFigures) -> str:
    if not figures.undecided:
        return ""
    return f", {figures.undecided:,} of them without a label, which counts as wrong"


def _of_floors(floors: list[FloorOutcome], objective: ClassObjective) -> str:
    if not floors:
        return ""
    by = (
        ""
        if objective.confidence is None
        else f", with confidence {percents.asked(objective.confidence)} for all together"
    )
    missed = [f"{each.measure} {percents.asked(each.target)} of {each.label!r}" for each in floors if not each.met]
    if not missed:
        return f"These rows reach what was asked of each class{by}. "
    more = "" if len(missed) <= 5 else f" and {len(missed) - 5} more"
    return f"These rows do not reach {', '.join(missed[:5])}{more}{by}. "
