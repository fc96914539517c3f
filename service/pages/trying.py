"""Trying a model: a row that somebody types, pastes or picks is decided on as `POST /predict` does, and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
from anyio import to_thread
from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from service.api.access import Reader
from service.api.json_body import parse_json
from service.errors import InvalidRequest, Problem
from service.feedback.stored_rows import shown
from service.models.figures import scores_picture
from service.models.schemas import Model, MulticlassModel, ThresholdPoint, Thresholds
from service.pages.fitting import fitting
from service.pages.forms import Form, Written, parsed, whole
from service.pages.models import thresholds_of
from service.pages.room import Room
from service.pages.services import Services
from service.predictions.deciding import Decisions
from service.predictions.inputs import InputKind, of_mails, rows_of
from service.predictions.schemas import PredictRequest

MOST_FIELDS = 60
"""Columns that get a field each; of more a row is pasted as JSON."""
EXPLAINED = 8
"""Words or columns that weighed most, and labelled rows like the one that is tried."""
MOST_PREFILLED = 50_000
"""Characters of a row that is put into fields to be changed there."""
AnyModel = Model | MulticlassModel
INPUTS: Mapping[str, InputKind] = {"text": "texts", "mail": "messages"}


@dataclass(frozen=True)
class Given:
    """What was given to decide on, and how; empty where nothing was."""

    way: str = ""
    """``fields``, ``json``, ``text``, ``mail`` or ``row``; what stands in the form of that name."""
    text: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    """By the place of the column."""
    dataset: str = ""
    row: int = 0


@dataclass(frozen=True)
class Tried:
    """What the model says of it."""

    decisions: Decisions
    content: Mapping[str, Any]
    """What the model saw."""
    picture: Markup | None = None
    """The scores of the labelled rows with that of this one."""
    above: int | None = None
    """Of 1,000 rows like the labelled ones, those that score higher."""
    point: ThresholdPoint | None = None
    """The threshold that parts the labelled rows that score higher from the others; None where none does."""
    beyond: bool = False
    """Whether no labelled row has a score like it."""


def add_trying(router: APIRouter, room: Room, services: Services) -> None:
    """Add the page on which a model is tried."""

    @router.get("/ui/models/{name}/try")
    async def show(request: Request, caller: Reader, name: str) -> Response:
        given = parsed(request.scope["query_string"])
        model = await to_thread.run_sync(services.models.get_any, caller.project_id, name)
        asked, tried, problem = Given(dataset=model.dataset_id or ""), None, None
        if given.text("row"):
            try:
                dataset = given.text("dataset") or model.dataset_id or ""
                asked = Given("row", dataset=dataset, row=whole(given, "row", 2**53 - 1))
                asked, tried = await _of_dataset(services, caller.project_id, name, model, asked)
            except Problem as error:
                problem = error
        return await to_thread.run_sync(
            partial(_page, room, request, services, caller.project_id, name, model, asked, tried, problem)
        )

    @router.post("/ui/models/{name}/try")
    async def try_(request: Request, caller: Reader, name: str, form: Written) -> Response:
        model = await to_thread.run_sync(services.models.get_any, caller.project_id, name)
        asked, tried, problem = _given(form, model), None, None
        try:
            tried = await _tried(services, caller.project_id, name, model, asked)
        except Problem as error:
            problem = error
        return await to_thread.run_sync(
            partial(_page, room, request, services, caller.project_id, name, model, asked, tried, problem)
        )


def _page(
    room: Room,
    request: Request,
    services: Services,
    project: str,
    name: str,
    model: AnyModel,
    given: Given,
    tried: Tried | None,
    problem: Problem | None,
) -> Response:
    in_use = (model.operating_point or model.report) if isinstance(model, Model) else model.report
    query = parsed(request.scope["query_string"])
    return room.page(
        request.scope,
        "try.html",
        200 if problem is None else problem.status,
        title=f"Try {name if name in model.aliases else 'a model'}",
        model=model,
        name=name,
        report=model.report,
        in_use=in_use,
        ways=_ways(model),
        given=given,
        tried=tried,
        problem=problem,
        columns=_columns(services, project, model) if "fields" in _ways(model) else (),
        fitting=fitting(services, project, model, query, given.dataset),
        example=_example(model),
    )


def _ways(model: AnyModel) -> tuple[str, ...]:
    """Return the forms that a model has, the first of them open."""
    if not model.columns:
        return ("json",)
    takes_mails = of_mails(_as_read(model))
    takes_texts = len(model.columns) == 1 and model.columns[0].kind == "text"
    takes_fields = not (takes_mails or takes_texts) and len(model.columns) <= MOST_FIELDS
    ways = {"mail": takes_mails, "text": takes_texts, "fields": takes_fields, "json": True}
    return tuple(way for way, is_taken in ways.items() if is_taken)


def _as_read(model: AnyModel) -> list[dict[str, Any]]:
    return [{"name": column.name, "kind": column.kind} for column in model.columns]


def _columns(services: Services, project: str, model: AnyModel) -> list[tuple[Any, list[str]]]:
    """Return the columns that get a field, each with the values that the data set of the training has of it."""
    known: dict[str, list[str]] = {}
    if model.dataset_id is not None:
        names = [column.name for column in model.columns]
        found = services.datasets.columns_named(project, model.dataset_id, names)  # none where it was deleted
        known = {column.name: list(column.values or ()) for column in found if column.kind == "category"}
    return [(column, known.get(column.name, [])) for column in model.columns]


def _example(model: AnyModel) -> str:
    """Return what stands in the field for JSON before anybody has written there."""
    row: dict[str, Any] = {column.name: None for column in model.columns[:MOST_FIELDS]}
    return orjson.dumps(row or {"1": 0.5}, option=orjson.OPT_INDENT_2).decode()


def _given(form: Form, model: AnyModel) -> Given:
    way = form.text("way")
    if way not in _ways(model):
        raise InvalidRequest.of("form.way", f"should be one of {', '.join(_ways(model))}")
    return Given(way, form.exact("text"), form.named("value-"), model.dataset_id or "")


async def _tried(services: Services, project: str, name: str, model: AnyModel, given: Given) -> Tried:
    """Decide on what was given; raises what a prediction does."""
    kind = INPUTS.get(given.way)
    if kind is not None:
        if not given.text.strip():
            raise InvalidRequest.of(f"form.{given.way}", "is empty")
        body = PredictRequest.model_validate({"model": name, kind: [given.text], "explain": EXPLAINED})
        decisions = await services.predictions.predict(project, body)
        (content,) = await to_thread.run_sync(rows_of, _as_read(model), kind, [given.text])
    else:
        content = _of_json(given.text) if given.way == "json" else _of_fields(model, given.fields)
        decisions = await services.predictions.predict_rows(project, name, [content], explain=EXPLAINED)
    return await to_thread.run_sync(_placed, services, project, name, model, decisions, content)


async def _of_dataset(
    services: Services, project: str, name: str, model: AnyModel, given: Given
) -> tuple[Given, Tried]:
    """Decide on a row of a data set, and put it into the fields, where somebody may change it."""
    row = await to_thread.run_sync(services.queue.row, project, name, given.dataset, given.row)
    decisions = await services.predictions.predict_rows(project, name, [row], explain=EXPLAINED)
    tried = await to_thread.run_sync(_placed, services, project, name, model, decisions, row)
    if sum(len(value) for value in row.values() if isinstance(value, str)) > MOST_PREFILLED:
        return given, tried
    fields = {str(place): _written(row.get(column.name)) for place, column in enumerate(model.columns)}
    text = fields.get("0", "") if "text" in _ways(model) else ""
    return Given("row", text, fields, given.dataset, given.row), tried


def _placed(
    services: Services, project: str, name: str, model: AnyModel, decisions: Decisions, content: Mapping[str, Any]
) -> Tried:
    """Say where a row lies among the labelled ones."""
    score = decisions.predictions[0]["score"]
    seen = shown({column.name: content.get(column.name) for column in model.columns} if model.columns else content)
    thresholds = thresholds_of(services, project, name) if isinstance(model, Model) else None
    if thresholds is None or not isinstance(model, Model) or not isinstance(score, float):
        return Tried(decisions, seen)
    above, point = _place(thresholds, score)
    abstain = (model.operating_point or model.report).abstain
    is_beyond = not thresholds.scores.least <= score <= thresholds.scores.greatest
    return Tried(decisions, seen, scores_picture(thresholds, abstain, score), above, point, is_beyond)


def _place(thresholds: Thresholds, score: float) -> tuple[int, ThresholdPoint | None]:
    """Return how many of 1,000 labelled rows score higher, and the threshold that parts these from the others."""
    rows = max(1, thresholds.positives + thresholds.negatives)
    higher = [point for point in thresholds.points if point.threshold >= score]
    last = higher[-1] if higher else None
    counted = 0 if last is None else last.true_positives + last.false_positives
    return round(1000 * counted / rows), last


def _of_json(text: str) -> dict[str, Any]:
    value = parse_json(text.encode(), "form.json")
    if not isinstance(value, dict):
        raise InvalidRequest.of("form.json", 'should be one row: an object such as {"age": 39, "job": "clerk"}')
    return value


def _of_fields(model: AnyModel, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the row that stands in fields; an empty one is a missing value."""
    row: dict[str, Any] = {}
    for place, column in enumerate(model.columns):
        said = fields.get(str(place), "")
        row[column.name] = _meant(column.kind, said, f"form.{column.name[:100]}") if said.strip() else None
    return row


def _meant(kind: str, said: str, where: str) -> Any:
    if kind == "vector":
        value = parse_json(said.encode(), where)
        if not isinstance(value, list):
            raise InvalidRequest.of(where, "should be a list of numbers: [0.5, 1, …]")
        return value
    if kind == "number":
        # As a browser sends what stands in a field for numbers, in whatever manner it was typed.
        try:
            return float(said)
        except ValueError:
            return said  # such as a number with a unit: the model may know how to read it, or says what is wrong
    return said


def _written(value: Any) -> str:
    """Return a value as a field holds it."""
    if value is None:
        return ""
    if isinstance(value, list):
        return orjson.dumps(value).decode()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
