"""Another rule for a model of several classes: what it would give, in a form of its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter, ValidationError

from service.api.access import Writer
from service.errors import InvalidRequest, Problem
from service.models.objectives import ObjectiveBody
from service.models.schemas import ChooseOperatingPoint, ClassesOperatingPoint, MulticlassModel, MulticlassReport
from service.pages.forms import Form, Written, as_invalid
from service.pages.room import Room
from service.pages.services import Services
from service.pages.training import COST, FLOOR, OF_SEVERAL, Choices, objective_of_classes, pair_name

OBJECTIVES: TypeAdapter[ObjectiveBody] = TypeAdapter(ObjectiveBody)
FIELDS = ("objective", "confidence")
CALLED = {said: called for called, said in OF_SEVERAL.items()}


@dataclass(frozen=True)
class RulePreview:
    """A form for what must hold, and what would come of it."""

    choices: Choices
    is_asked: bool
    body: str = ""
    """The objective, as JSON."""
    point: ClassesOperatingPoint | None = None
    problem: Problem | None = None


def add_class_rules(router: APIRouter, room: Room, services: Services) -> None:
    """Add what the form on the page of a model of several classes sends."""

    @router.post("/ui/models/{name}/rule")
    def use(request: Request, caller: Writer, name: str, form: Written) -> Response:
        try:
            objective = OBJECTIVES.validate_json(form.exact("body"))
        except ValidationError as error:
            raise InvalidRequest.of("form.body", error.errors()[0]["msg"]) from None
        services.models.choose(caller.project_id, name, ChooseOperatingPoint(objective=objective, apply=True))
        return room.redirect(request.scope, f"/ui/models/{name}")


def rule_preview(
    services: Services, project: str, model: MulticlassModel, in_use: MulticlassReport, given: Form
) -> RulePreview:
    """Return the form as it was sent, else with what is asked of the model now, and what the rule would give."""
    is_asked = bool(given.text("objective"))
    choices = _choices(in_use, given, is_asked=is_asked)
    if not is_asked:
        return RulePreview(choices, is_asked)
    wanted = objective_of_classes(choices)
    try:
        body = ChooseOperatingPoint.model_validate({"objective": wanted})
        point = services.models.choose(project, model.id, body)
    except ValidationError as error:
        return RulePreview(choices, is_asked, problem=as_invalid(error))
    except Problem as problem:
        return RulePreview(choices, is_asked, problem=problem)
    if not isinstance(point, ClassesOperatingPoint):
        return RulePreview(choices, is_asked)
    return RulePreview(choices, is_asked, orjson.dumps(wanted).decode(), point)


def _choices(report: MulticlassReport, given: Form, *, is_asked: bool) -> Choices:
    labels = dict(zip(report.classes, report.rows.by_class, strict=True))
    asked = _asked_now(report.objective)
    fields = {name: given.text(name) if is_asked else asked[name] for name in FIELDS}
    if fields["objective"] not in OF_SEVERAL:
        fields["objective"] = "macro_f1"
    floors, costs = (given.named(FLOOR), given.named(COST)) if is_asked else (asked["floors"], asked["costs"])
    return Choices(
        target=None,
        labels=labels,
        positive="",
        unlabeled=(),
        several=True,
        can_be_several=True,
        floors={name: said for name, said in floors.items() if said.strip()},
        costs={pair: said for pair, said in costs.items() if said.strip()},
        fields=fields,
    )


def _asked_now(objective: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked of a model, as the form says it."""
    confidence = objective.get("confidence")
    return {
        "objective": CALLED.get(objective["kind"], "macro_f1"),
        "confidence": "" if confidence is None else f"{100 * confidence:g}",
        "floors": {
            f"{measure}-{label}": f"{100 * target:g}"
            for label, each in (objective.get("floors") or {}).items()
            for measure, target in each.items()
            if target is not None
        },
        "costs": {
            pair_name(true, said): f"{cost:g}"
            for true, each in (objective.get("costs") or {}).items()
            for said, cost in each.items()
            if true != said
        },
    }
