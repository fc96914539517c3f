"""A model: what it promises, what another threshold would give, and where it may go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError

from service.api.access import Reader, Writer
from service.api.parameters import CursorText
from service.errors import InvalidRequest, Problem
from service.models.errors import AliasNotFound, NoCurve
from service.models.objectives import FALSE_POSITIVE_KINDS, ObjectiveBody
from service.models.schemas import ChooseOperatingPoint, Model, OperatingPoint, PutAlias, Thresholds
from service.pages import pictures
from service.pages.forms import BUTTON, Form, Written, parsed
from service.pages.room import Room
from service.pages.services import Services
from service.pages.showing import MOST_OF_A_NAME
from service.schemas import AliasName
from solver.report import Abstention, Estimate, Measures

ON_A_LIST = 30
OBJECTIVES: TypeAdapter[ObjectiveBody] = TypeAdapter(ObjectiveBody)
NAMES: TypeAdapter[str] = TypeAdapter(AliasName)
ON_THE_FORM = ("precision", "recall", *FALSE_POSITIVE_KINDS, "cost", "f1")
"""Objectives that a threshold can be chosen for."""
OF_THOUSAND = 1000
MOST_REFUSED = 3
"""Columns that are named where they keep a model from a form."""


@dataclass(frozen=True)
class Compared:
    """A measure of the model beside simpler methods, each with a bar."""

    measure: str
    rows: str
    bars: list[tuple[str, Estimate, Markup]]


@dataclass(frozen=True)
class Thousand:
    """What becomes of 1,000 rows like the calibration rows."""

    flagged: int
    wrong: int
    missed: int
    said: SaidOfThousand | None
    """None: each row gets a label."""


@dataclass(frozen=True)
class SaidOfThousand:
    """Of 1,000 rows, those that get a label where some are left undecided."""

    positive: int
    positive_wrong: int
    negative: int
    negative_wrong: int
    undecided: int


@dataclass(frozen=True)
class Preview:
    """Another threshold that somebody thinks about."""

    fields: Mapping[str, str]
    abstain: str
    """As the form sends it: the precision of the abstaining that the model has now; empty where it has none."""
    point: OperatingPoint | None = None
    problem: Problem | None = None
    thousand: Thousand | None = None


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
        model = services.models.get(project, name)
        thresholds = thresholds_of(services, project, name)
        given = parsed(request.scope["query_string"])
        alias = _alias(services, project, name)
        in_use = model.operating_point or model.report
        return room.page(
            request.scope,
            "model.html",
            title=alias.name if alias else f"Model {model.id[:12]}",
            model=model,
            report=model.report,
            in_use=in_use,
            thousand=_of_thousand(in_use.calibration, in_use.abstain),
            alias=alias,
            thresholds=thresholds,
            scores=None if thresholds is None else scores_picture(thresholds, in_use.abstain),
            preview=_preview(services, project, name, model, given),
            compared=list(_compared(model)),
            no_onnx=_no_onnx(model),
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
        again = ChooseOperatingPoint(objective=before, threshold=points[1].threshold if before else None, apply=True)
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
        except ValidationError:
            raise InvalidRequest.of("form.alias", "should be small letters, digits and . _ -, 63 at most") from None
        model = services.models.get(caller.project_id, name)
        services.aliases.put(caller.project_id, alias, PutAlias(model=model.id))
        return room.redirect(request.scope, f"/ui/models/{alias}")

    @router.post("/ui/models/{name}/rollback", dependencies=[BUTTON])
    def roll_back(request: Request, caller: Writer, name: str) -> Response:
        services.aliases.roll_back(caller.project_id, name)
        return room.redirect(request.scope, f"/ui/models/{name}")


def thresholds_of(services: Services, project: str, name: str) -> Thresholds | None:
    """Return what each threshold of a model would give; None where that was not kept."""
    try:
        return services.models.thresholds(project, name)
    except NoCurve:
        return None


def _alias(services: Services, project: str, name: str) -> Any:
    try:
        return services.aliases.get(project, name, 10)
    except AliasNotFound:
        return None


def _objective(form: Form, abstain: str) -> ObjectiveBody:
    """Return what a form asks a threshold for, with the precision of abstaining; raises `InvalidRequest`."""
    kind = form.text("kind")
    wanted: dict[str, Any] = {"kind": kind}
    try:
        if kind == "cost":
            wanted |= {"false_negative": float(form.text("missed")), "false_positive": float(form.text("alarm"))}
        elif kind in FALSE_POSITIVE_KINDS:
            wanted["at_most"] = round(float(form.text("lost").replace(",", ".")) / 100, 9)
        elif kind != "f1":
            wanted["target"] = round(float(form.text("target").replace(",", ".")) / 100, 6)
        if abstain:
            wanted["abstain"] = {"precision": float(abstain)}
        return OBJECTIVES.validate_python(wanted)
    except (ValueError, ValidationError):
        raise InvalidRequest.of(
            "form.target",
            "should be a share above 0 % and up to 100 %, or one below 100 % to be lost, or costs above 0",
        ) from None


def _chosen(form: Form, abstain: str, *, apply: bool) -> ChooseOperatingPoint:
    """Return what a form asks for: a threshold for an objective, or the very one under the handle."""
    try:
        at = float(form.text("at")) if form.text("at") else None
        return ChooseOperatingPoint(objective=_objective(form, abstain), threshold=at, apply=apply)
    except ValueError:
        raise InvalidRequest.of("form.at", "should be a threshold of the curve") from None


def _preview(services: Services, project: str, name: str, model: Model, given: Form) -> Preview:
    asked = (model.operating_point or model.report).objective
    kind = given.text("kind")
    usual = {
        "kind": kind or (asked["kind"] if asked.get("kind") in ON_THE_FORM else "precision"),
        "target": f"{100 * asked['target']:g}" if "target" in asked else "95",
        "lost": f"{100 * asked.get('at_most', 0.001):g}",
        "missed": f"{asked.get('false_negative', 5):g}",
        "alarm": f"{asked.get('false_positive', 1):g}",
        "at": "",
    }
    fields = {key: given.text(key) or value for key, value in usual.items()}
    # Not from the address: looking keeps what the model has now, and so does the form that is made of the look.
    abstain = f"{asked['abstain']['precision']!r}" if asked.get("abstain") else ""
    if not kind:
        return Preview(fields, abstain)
    try:
        point = services.models.choose(project, name, _chosen(given, abstain, apply=False))
    except Problem as problem:
        return Preview(fields, abstain, problem=problem)
    return Preview(fields, abstain, point, thousand=_of_thousand(point.calibration, point.abstain))


def _of_thousand(measured: Measures | None, abstain: Abstention | None) -> Thousand | None:
    if measured is None:
        return None
    scale = OF_THOUSAND / max(1, measured.n)
    flagged = measured.true_positives + measured.false_positives
    said = None
    if abstain is not None:
        each = OF_THOUSAND / max(1, abstain.rows)
        positive, negative = abstain.positive, abstain.negative
        said = SaidOfThousand(
            positive=round(positive.rows * each),
            positive_wrong=round((positive.rows - positive.right) * each),
            negative=round(negative.rows * each),
            negative_wrong=round((negative.rows - negative.right) * each),
            undecided=round(abstain.undecided * each),
        )
    return Thousand(
        flagged=round(flagged * scale),
        wrong=round(measured.false_positives * scale),
        missed=round(measured.false_negatives * scale),
        said=said,
    )


def scores_picture(thresholds: Thresholds, abstain: Abstention | None, here: float | None = None) -> Markup:
    """Return the scores of the labelled rows, with what decides, and with the score of one row if that is given."""
    spread = thresholds.scores
    room = spread.greatest - spread.least

    def place(score: float) -> float:
        return max(0.0, min(1.0, (score - spread.least) / room))

    if room <= 0:
        return pictures.scores(spread.positive, spread.negative, None)
    ends = () if abstain is None else (abstain.lower, abstain.upper)
    bounds = [place(end) for end in ends if end is not None]
    at = None if here is None else place(here)
    return pictures.scores(spread.positive, spread.negative, place(thresholds.threshold), bounds, at)


def _no_onnx(model: Model) -> str | None:
    """Say which columns keep a model from the form of ONNX; None where none does."""
    refused = [column.name for column in model.columns if column.kind in ("text", "date")]
    if not refused:
        return None
    names = ", ".join(f"“{name[:MOST_OF_A_NAME]}”" for name in refused[:MOST_REFUSED])
    return names + (", …" if len(refused) > MOST_REFUSED else "")


def _compared(model: Model) -> Iterator[Compared]:
    """Yield what the model as it was trained reached, beside its controls, on the test rows or the calibration rows."""
    report = model.report
    for place, told in (("test", "rows that were held out"), ("calibration", "calibration rows")):
        ours: Measures | None = getattr(report, place)
        controls = [(_control(name), getattr(control, place)) for name, control in report.controls.items()]
        for measure in ("precision", "recall", "f1"):
            known = [
                (name, getattr(measured, measure))
                for name, measured in (("This model", ours), *controls)
                if measured is not None and getattr(measured, measure) is not None
            ]
            bars = [(name, value, pictures.interval(value, other=bool(at))) for at, (name, value) in enumerate(known)]
            if len(bars) > 1 and ours is not None:
                yield Compared({"f1": "F1"}.get(measure, measure), f"{ours.n:,} {told}", bars)
        if report.test is not None:
            return


def _control(name: str) -> str:
    return {
        "no_unlabelled": "Without the unlabelled rows",
        "plain_svm": "The same at threshold 0",
        "all_positive": "Every row flagged",
        "all_negative": "No row flagged",
    }.get(name, name)
