"""Operating points of models of several classes: these have rules where two classes have thresholds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from service.errors import InvalidRequest
from service.ingest.labels import number_label
from service.models.errors import DamagedModel, NoCurve
from service.models.schemas import ChooseOperatingPoint, ClassesOperatingPoint, MulticlassModel
from solver.choices import is_of_classes
from solver.class_points import chosen_point_of_classes, with_point
from solver.classes_report import MulticlassReport
from solver.multiclass import (
    ClassObjective,
    ClassObjectiveError,
    LeftOutError,
    LeftOutProbabilities,
    with_classes_called,
)

MOST_NAMED = 10
"""Classes that an error lists."""
LONGEST_NAME = 100
"""Characters of a class in an error."""
TRAIN_AGAIN = (
    "this model was stored without its left-out rows, which another rule is chosen on: train it again (POST /train)"
)

_OF_A_POINT = ("objective", "status", "status_reason", "calibration", "floors", "promise")

log = logging.getLogger("prefsvm.models")


def point_in_use(report: MulticlassReport, created_at: Any = None) -> ClassesOperatingPoint:
    """Return the point that a report tells; `with_point` makes it that of one that was applied."""
    return ClassesOperatingPoint(**{name: getattr(report, name) for name in _OF_A_POINT}, created_at=created_at)


def report_in_use(model: MulticlassModel) -> MulticlassReport:
    """Return the report of a model as of the point that decides now."""
    point = model.operating_point
    if point is None:
        return model.report
    return replace(model.report, **{name: getattr(point, name) for name in _OF_A_POINT})


def applied_point(report: MulticlassReport, applied: dict[str, Any] | None) -> ClassesOperatingPoint | None:
    """Return the point that was applied last, with what it promises; raises ValueError where it is not whole."""
    return None if applied is None else point_in_use(with_point(report, applied), applied["created_at"])


def wanted_objective(report: MulticlassReport, body: ChooseOperatingPoint) -> ClassObjective | None:
    """Return what a request asks of several classes; None where that is what they were trained for.

    Raises
    ------
    InvalidRequest
        If it is not of these classes.
    """
    if body.threshold is not None:
        raise InvalidRequest.of(
            "body.threshold", "is of two classes: a model of several is decided by a rule, which an `objective` chooses"
        )
    if body.objective is None:
        return None
    wanted = body.objective.model_dump()
    if not is_of_classes(wanted):
        raise InvalidRequest.of(
            "body.objective.kind",
            f"{wanted['kind']} speaks of one class, and this model tells several apart: should be macro_f1, accuracy, "
            "or cost with `costs`",
        )
    try:
        objective = ClassObjective.parse(with_classes_called(wanted, _caller(report.classes)))
        _check_named(objective, report.classes)
        objective.check_classes(report.classes)
    except ClassObjectiveError as error:
        raise InvalidRequest.of("body.objective", str(error)) from None
    return None if objective == ClassObjective.parse(report.objective) else objective


def chosen_by(
    report: MulticlassReport, objective: ClassObjective, stored: bytes | None, model_id: str
) -> dict[str, Any]:
    """Choose the rule for an objective, as it is stored.

    Parameters
    ----------
    report : MulticlassReport
    objective : ClassObjective
    stored : bytes or None
        What the training kept to choose by.
    model_id : str

    Raises
    ------
    NoCurve
        If it kept nothing.
    DamagedModel
    """
    if stored is None:
        raise NoCurve(TRAIN_AGAIN)
    try:
        left_out = LeftOutProbabilities.read(stored)
        if len(left_out.counts) != len(report.classes):
            raise LeftOutError("they are of other classes")
    except LeftOutError:
        log.exception("left-out rows unreadable", extra={"fields": {"model": model_id}})
        raise DamagedModel("the left-out rows that were kept with this model cannot be read") from None
    return chosen_point_of_classes(left_out, objective, report.classes).to_dict()


def _caller(classes: list[str]) -> Callable[[str], str]:
    """What spells a class as the model does: 1 for 1.0 where they are numbers."""
    known = {number_label(label): label for label in classes}
    return lambda label: label if label in classes else known.get(number_label(label), label)


def _check_named(objective: ClassObjective, classes: list[str]) -> None:
    """Say where an objective names what is no class; raises `InvalidRequest`."""
    named = [(f"body.objective.floors.{label}", label) for label in objective.floors]
    for true, each in objective.costs.items():
        named += [(f"body.objective.costs.{true}", true)]
        named += [(f"body.objective.costs.{true}.{said}", said) for said in each]
    for place, label in named:
        if label not in classes:
            told = ", ".join(repr(each[:LONGEST_NAME]) for each in classes[:MOST_NAMED])
            more = ", …" if len(classes) > MOST_NAMED else ""
            raise InvalidRequest.of(place, f"should be one of the classes: {told}{more}")
