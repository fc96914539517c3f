"""A model: what it promises, what another threshold would give, and where it may go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError

from service.access.caller import Caller
from service.api.access import Reader, Writer
from service.api.parameters import CursorText
from service.errors import InvalidRequest, Problem
from service.models.class_figures import confusion
from service.models.class_points import report_in_use
from service.models.errors import AliasNotFound, DamagedModel, ModelNotFound, NoCurve, NoShadow
from service.models.figures import (
    CalledUnlabelled,
    Point,
    Thousand,
    calibration_picture,
    called_unlabelled,
    class_curve_picture,
    compared,
    drift_pictures,
    of_thousand,
    scores_picture,
    succeeded,
)
from service.models.objectives import FALSE_POSITIVE_KINDS, ObjectiveBody
from service.models.schemas import (
    AliasWithHistory,
    ChooseOperatingPoint,
    ClassesDrift,
    Drift,
    Model,
    MulticlassModel,
    OperatingPoint,
    PutAlias,
    Shadow,
    Thresholds,
)
from service.pages.class_figures import MOST_IN_A_MATRIX, drifted, measured
from service.pages.class_rules import OBJECTIVES, rule_preview
from service.pages.fitting import name_of_dataset
from service.pages.forms import BUTTON, Form, Written, number, parsed
from service.pages.objectives import TARGETS, objective_fields, objective_in
from service.pages.room import Room
from service.pages.services import Services
from service.pages.training import pair_name
from service.schemas import AliasName
from service.shown_text import MOST_OF_A_NAME

ON_A_LIST = 30
NAMES: TypeAdapter[str] = TypeAdapter(AliasName)
ON_THE_FORM = ("precision", "recall", *FALSE_POSITIVE_KINDS, "cost", "f1")
"""Objectives that a threshold can be chosen for."""
SURE = "95"
"""Percent of confidence with which a proof is offered."""
DRIFT_DAYS = 30
MOST_REFUSED = 3
"""Columns that are named where they keep a model from a form."""


@dataclass(frozen=True)
class Drifted:
    """What became of the rows of the last days, in figures and by day."""

    figures: Drift
    called: float | None
    """Share of the calibration rows that is flagged."""
    pictures: list[Markup]


@dataclass(frozen=True)
class Preview:
    """Another threshold that somebody thinks about."""

    fields: Mapping[str, str]
    abstain: str
    """As the form sends it: the precision of the abstaining that the model has now; empty where it has none."""
    point: OperatingPoint | None = None
    problem: Problem | None = None
    thousand: Thousand | None = None
    unlabelled: CalledUnlabelled | None = None
    proof: Mapping[str, str] | None = None
    """What asks for the same with a confidence, where the labels may prove it."""


@dataclass(frozen=True)
class FormerThreshold:
    """What decided before the last change of the threshold, and will again when that is undone."""

    threshold: float
    objective: Mapping[str, Any]
    is_trained: bool
    """Whether it is that of the training."""


def add_models(router: APIRouter, room: Room, services: Services) -> None:
    """Add the pages of models."""
    _add_shown(router, room, services)
    _add_changes(router, room, services)


def _add_shown(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/models")
    def list_(request: Request, caller: Reader, cursor: CursorText = None) -> Response:
        page = services.models.list(caller.project_id, cursor, ON_A_LIST)
        return room.page(
            request.scope,
            "models.html",
            title="Models",
            models=page.items,
            cursor=cursor,
            next_cursor=page.next_cursor,
        )

    @router.get("/ui/models/{name}")
    def show(request: Request, caller: Reader, name: str) -> Response:
        project = caller.project_id
        model = services.models.get_any(project, name)
        if isinstance(model, MulticlassModel):
            return _of_classes(request, room, services, caller, name, model)
        thresholds = thresholds_of(services, project, name)
        given = parsed(request.scope["query_string"])
        alias = _alias(services, project, name) or _alias(services, project, next(iter(model.aliases), name))
        in_use = model.operating_point or model.report
        unlabelled = None if model.report.unlabelled is None else model.report.unlabelled.scores
        return room.page(
            request.scope,
            "model.html",
            title=alias.name if alias else ", ".join(model.aliases) or f"Model {model.id[:12]}",
            model=model,
            report=model.report,
            in_use=in_use,
            thousand=of_thousand(in_use.calibration, in_use.abstain),
            called=called_unlabelled(model.report, in_use),
            before=_before(services, project, name, model),
            proof=_proof(in_use),
            alias=alias,
            shadow=None if alias is None else _shadow(services, project, alias),
            thresholds=thresholds,
            unlabelled=unlabelled,
            scores=None if thresholds is None else scores_picture(thresholds, in_use.abstain, unlabelled=unlabelled),
            preview=_preview(services, project, name, model, given),
            compared=list(compared(model)),
            succeeded=succeeded(model.report),
            calibration=calibration_picture(model.report),
            drift=_drift(services, project, model),
            **_made_of(services, project, model, alias),
        )


def _add_changes(router: APIRouter, room: Room, services: Services) -> None:
    @router.post("/ui/models/{name}/use")
    def use(request: Request, caller: Writer, name: str, form: Written) -> Response:
        services.models.choose(caller.project_id, name, _chosen(form, form.text("abstain"), apply=True))
        return room.redirect(request.scope, f"/ui/models/{name}")

    @router.post("/ui/models/{name}/undo", dependencies=[BUTTON])
    def undo(request: Request, caller: Writer, name: str) -> Response:
        """Let the point before the last one decide again; before the first one it was that of the training."""
        points = services.models.applied_points(caller.project_id, name, None, 2).items
        before = OBJECTIVES.validate_python(points[1].objective) if len(points) > 1 else None
        threshold = points[1].threshold if len(points) > 1 and isinstance(points[1], OperatingPoint) else None
        again = ChooseOperatingPoint(objective=before, threshold=threshold, apply=True)
        try:
            services.models.choose(caller.project_id, name, again)
        except InvalidRequest:
            # It was chosen for a confidence, or a cost, by what is no threshold of the curve: it will be so again.
            services.models.choose(caller.project_id, name, again.model_copy(update={"threshold": None}))
        return room.redirect(request.scope, f"/ui/models/{name}")

    @router.post("/ui/models/{name}/alias")
    def put_alias(request: Request, caller: Writer, name: str, form: Written) -> Response:
        try:
            alias = NAMES.validate_python(form.text("alias"))
        except ValidationError as error:
            raise InvalidRequest.of("form.alias", error.errors()[0]["msg"]) from None
        model = services.models.get_any(caller.project_id, name)
        services.aliases.put(caller.project_id, alias, PutAlias(model=model.id))
        return room.redirect(request.scope, f"/ui/models/{alias}")

    @router.post("/ui/models/{name}/rollback", dependencies=[BUTTON])
    def roll_back(request: Request, caller: Writer, name: str) -> Response:
        services.aliases.roll_back(caller.project_id, name)
        return room.redirect(request.scope, f"/ui/models/{name}")


def _of_classes(
    request: Request, room: Room, services: Services, caller: Caller, name: str, model: MulticlassModel
) -> Response:
    """Return the page of a model of several classes, which has a rule, and no threshold to move."""
    project = caller.project_id
    alias = _alias(services, project, name) or _alias(services, project, next(iter(model.aliases), name))
    given = parsed(request.scope["query_string"])
    asked = given.exact("class")
    shown = asked if asked in model.report.classes else model.report.classes[0]
    in_use = report_in_use(model)
    curve = services.models.class_curve(project, name, shown)
    return room.page(
        request.scope,
        "classes.html",
        title=alias.name if alias else f"Model {model.id[:12]}",
        model=model,
        report=in_use,
        alias=alias,
        measured=list(measured(in_use)),
        confusion=confusion(in_use, MOST_IN_A_MATRIX),
        # who may not apply a rule does not see the form either, and has none chosen, which takes time
        preview=rule_preview(services, project, model, in_use, given if "write" in caller.scopes else parsed(b"")),
        pair_name=pair_name,
        shown=shown,
        curve=None if curve is None else class_curve_picture(curve),
        drift=drifted(cast("ClassesDrift", services.models.drift(project, model.id, DRIFT_DAYS)), shown),
        **_made_of(services, project, model, alias),
    )


def _made_of(
    services: Services, project: str, model: Model | MulticlassModel, alias: AliasWithHistory | None
) -> dict[str, Any]:
    """Return what pages of all models say at their end: the data, the model before, and what keeps it from ONNX."""
    before = None
    if alias is not None and alias.before is not None:
        with suppress(ModelNotFound, DamagedModel):  # then nothing but its id is told
            before = services.models.get_any(project, alias.before)
    named = None if model.dataset_id is None else name_of_dataset(services, project, model.dataset_id)
    return {"dataset_name": named, "model_before": before, "no_onnx": _no_onnx(model)}


def thresholds_of(services: Services, project: str, name: str) -> Thresholds | None:
    """Return what each threshold of a model would give; None where that was not kept."""
    try:
        return services.models.thresholds(project, name)
    except NoCurve:
        return None


def _drift(services: Services, project: str, model: Model) -> Drifted:
    figures = cast("Drift", services.models.drift(project, model.id, DRIFT_DAYS))  # as it is of two classes
    measured = (model.operating_point or model.report).calibration
    called = None if measured is None or not measured.n else measured.predicted_positives / measured.n
    return Drifted(figures, called, drift_pictures(figures, called) if figures.rows else [])


def _alias(services: Services, project: str, name: str) -> AliasWithHistory | None:
    try:
        return services.aliases.get(project, name, 10)
    except AliasNotFound:
        return None


def _shadow(services: Services, project: str, alias: AliasWithHistory) -> Shadow | None:
    """Return how the shadow of a name compares; None where it has none."""
    if alias.shadow_id is None:
        return None
    try:
        return services.aliases.shadow(project, alias.name, 1)
    except NoShadow:  # taken away just now
        return None


def _objective(form: Form, abstain: str) -> ObjectiveBody:
    """Return what a form asks a threshold for, with the precision of abstaining; raises `InvalidRequest`."""
    wanted = objective_in(form)
    if form.text("confidence") and wanted["kind"] in (*TARGETS, *FALSE_POSITIVE_KINDS):
        wanted["confidence"] = number(form, "confidence", 0.01)
    try:
        if abstain:
            wanted["abstain"] = {"precision": float(abstain)}
        return OBJECTIVES.validate_python(wanted)
    except (ValueError, ValidationError):
        raise InvalidRequest.of(
            "form.target",
            "should be a share above 0% and up to 100%, or one below 100% to be lost, or costs above 0; a confidence "
            "from 50% to below 100%",
        ) from None


def _chosen(form: Form, abstain: str, *, apply: bool) -> ChooseOperatingPoint:
    """Return what a form asks for: a threshold for an objective, or the very one under the handle.

    To move the handle asks for nothing else of the model than before.
    """
    if not form.text("at"):
        return ChooseOperatingPoint(objective=_objective(form, abstain), apply=apply)
    try:
        return ChooseOperatingPoint(threshold=float(form.text("at")), apply=apply)
    except ValueError:
        raise InvalidRequest.of("form.at", "should be a threshold of the curve") from None


def _preview(services: Services, project: str, name: str, model: Model, given: Form) -> Preview:
    asked = (model.operating_point or model.report).objective
    kind = given.text("kind")
    usual = objective_fields(asked, ON_THE_FORM) | {"at": ""}
    fields = {key: given.text(key) or value for key, value in usual.items()}
    if kind in TARGETS and not given.text(kind) and given.text("target"):
        fields[kind] = given.text("target")
    if kind:
        fields["confidence"] = given.text("confidence")  # empty asks for none
    is_asked = bool(kind or fields["at"])
    # Not from the address: looking keeps what the model has now, and so does the form that is made of the look.
    abstain = f"{asked['abstain']['precision']!r}" if asked.get("abstain") else ""
    if not is_asked:
        return Preview(fields, abstain)
    try:
        point = services.models.choose_threshold(project, name, _chosen(given, abstain, apply=False))
    except Problem as problem:
        return Preview(fields, abstain, problem=problem)
    return Preview(
        fields,
        abstain,
        point,
        thousand=of_thousand(point.calibration, point.abstain),
        unlabelled=called_unlabelled(model.report, point),
        proof=_proof(point),
    )


def _before(services: Services, project: str, name: str, model: Model) -> FormerThreshold | None:
    """Return what a change of the threshold is undone to; None where nothing was changed."""
    if model.operating_point is None:
        return None
    points = services.models.applied_points(project, name, None, 2).items
    before = points[1] if len(points) > 1 and isinstance(points[1], OperatingPoint) else model.report
    return FormerThreshold(before.threshold, before.objective, is_trained=len(points) < 2)


def _proof(point: Point) -> Mapping[str, str] | None:
    """Return what asks for a target with a confidence, as the form of thresholds does, where labels may prove it."""
    needs = None if point.promise is None else point.promise.needs
    fields = objective_fields(point.objective, ON_THE_FORM)
    is_on_form = fields["kind"] == point.objective["kind"] and not fields["confidence"]
    if needs is None or needs.random_labels > 0 or not is_on_form:
        return None
    return {each: value for each, value in fields.items() if each != "confidence"} | {"confidence": SURE}


def _no_onnx(model: Model | MulticlassModel) -> str | None:
    """Say which columns keep a model from the form of ONNX; None where none does."""
    refused = [column.name for column in model.columns if column.kind in ("text", "date")]
    if not refused:
        return None
    names = ", ".join(f"“{name[:MOST_OF_A_NAME]}”" for name in refused[:MOST_REFUSED])
    return names + (", …" if len(refused) > MOST_REFUSED else "")
