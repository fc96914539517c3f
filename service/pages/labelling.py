"""Labelling: what a training has left to look at, one row at a time; the answers are feedback for the alias."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.api.access import Writer
from service.audits.schemas import MOST_ROWS, AuditRequest
from service.errors import IdempotencyConflict, InvalidRequest, Problem
from service.feedback.errors import FeedbackNotFound
from service.feedback.schemas import Feedback, FeedbackRequest
from service.identifiers import new_id
from service.jobs.errors import JobNotFound
from service.jobs.schemas import Retrain
from service.labelling.errors import NoQueue
from service.labelling.schemas import LabellingQueue, QueuedRow, QueuePurpose
from service.models.objectives import FALSE_POSITIVE_KINDS
from service.models.schemas import Model, MulticlassModel
from service.pages.bought import bought
from service.pages.fitting import fitting
from service.pages.forms import Form, Written, as_invalid, parsed, whole
from service.pages.objectives import objective_fields
from service.pages.room import Room
from service.pages.services import Services
from service.pages.truth import truth_in
from service.shown_text import MOST_CHARACTERS

MOST_SKIPPED = 99
"""Rows that are put off; the next one is among the 100 that one answer of the service holds."""
MOST_ANSWERS = 1000
"""That are looked through to count those since the training."""
ENOUGH = 20
"""Answers after which a retraining is worth its time: docs/improving.md, which rows to label next."""
ON_A_LIST = 50
AT_ONCE = 10
"""Rows on one page: one is shown, the next ones wait behind it for browsers that run scripts."""
MOST_SHOWN = 300_000
"""Characters of them, about; there is always one."""
AUDITED = ("precision", "recall", "cost", *FALSE_POSITIVE_KINDS)
"""What an audit can prove."""


AnyModel = Model | MulticlassModel


@dataclass(frozen=True)
class Asked:
    """What somebody is to say."""

    queue: LabellingQueue | None
    rows: list[tuple[QueuedRow, str]]
    """Each with an `Idempotency-Key` for its answer. Empty: nothing is left, or nothing but what was skipped."""
    problem: Problem | None
    """Why there is no queue."""


def add_labelling(router: APIRouter, room: Room, services: Services) -> None:
    """Add the page on which rows get their labels."""

    @router.get("/ui/models/{name}/label")
    def show(request: Request, caller: Writer, name: str) -> Response:
        project = caller.project_id
        given = parsed(request.scope["query_string"])
        model = services.models.get_any(project, name)
        purpose, skip = _purpose(given), whole(given, "skip", MOST_SKIPPED, 0)
        alias = _alias(model, name)
        asked = _asked(services, project, model, purpose, skip)
        rows: dict[str, Any] = {
            **{"model": model, "name": name, "alias": alias, "classes": model.report.classes},
            **{"purpose": purpose, "skip": skip, "most_skipped": MOST_SKIPPED},
            "asked": asked,
            "truth": truth_in(services, project, asked.queue.dataset) if asked.queue and asked.queue.dataset else None,
            "several": isinstance(model, MulticlassModel),
            "last": _last(services, project, given),
            "again": bool(given.text("again")),
            "given": _given(services, project, model, name),
        }
        if given.text("part") == "rows":  # a page that has answered all of its rows; the rest of it is there
            return room.page(request.scope, "asked.html", **rows)
        data = fitting(services, project, model, given)
        return room.page(
            request.scope,
            "label.html",
            title=f"Label rows for {name if name in model.aliases else 'a model'}",
            **rows,
            data=None if asked.queue is None else dict(data.named).get(asked.queue.dataset),
            enough=ENOUGH,
            once=new_id("blob"),
            **_to_prove(services, project, model, given.text("prove")),
            fitting=data,
            **{"most_rows": MOST_ROWS, "usual_rows": AuditRequest.model_fields["rows"].default},
            bought=None if alias is None else bought(services, project, alias),
        )

    @router.post("/ui/models/{name}/label")
    def answer(request: Request, caller: Writer, name: str, form: Written) -> Response:
        once = form.text("once")
        try:
            made = services.feedback.add(caller.project_id, _feedback(name, form), once or None)
        except IdempotencyConflict:  # somebody went back to a page that is answered, and presses another button
            there = services.feedback.made_with(caller.project_id, once)
            return _back(room, request, name, form, **({"last": there.id, "again": "1"} if there else {}))
        return _back(room, request, name, form, last=made.id)

    @router.post("/ui/models/{name}/unlabel")
    def undo(request: Request, caller: Writer, name: str, form: Written) -> Response:
        services.feedback.delete(caller.project_id, form.text("feedback"))
        return _back(room, request, name, form)

    @router.post("/ui/models/{name}/retrain")
    def retrain(request: Request, caller: Writer, name: str, form: Written) -> Response:
        job = services.jobs.retrain(caller.project_id, name, form.text("once") or None, Retrain())
        return room.redirect(request.scope, f"/ui/jobs/{job.id}")


def _to_prove(services: Services, project: str, model: AnyModel, kind: str) -> dict[str, Any]:
    """Return what the form for an audit begins with, and the audits that there are; nothing of several classes.

    An address may name another kind than what was asked of the model: one that takes fewer rows.
    """
    if isinstance(model, MulticlassModel):
        return {}
    audits = services.audits.list(project, None, ON_A_LIST).items
    wish = objective_fields((model.operating_point or model.report).objective, AUDITED)
    return {
        "wish": wish | {"kind": kind} if kind in AUDITED else wish,
        "is_named": kind in AUDITED,
        "at_most": _counted_on(model),
        "audits": [audit for audit in audits if audit.model == model.id],
    }


def _back(room: Room, request: Request, name: str, form: Form, **query: str) -> Response:
    where = {"purpose": _purpose(form), "skip": form.text("skip"), **query}
    return room.redirect(request.scope, f"/ui/models/{name}/label", **where)


def _counted_on(model: Model) -> str:
    """Return the mean cost of a row that can be counted on, which an audit may prove; empty where no cost was asked."""
    bounds = {} if model.promise is None else model.promise.bounds
    return f"{bounds['cost']:.3g}" if "cost" in bounds else ""


def _alias(model: AnyModel, name: str) -> str | None:
    """Return the alias that the answers are for; None where the model has no name."""
    return name if name in model.aliases else next(iter(model.aliases), None)


def _purpose(form: Form) -> QueuePurpose:
    return "suspicious" if form.text("purpose") == "suspicious" else "improve"


def _asked(services: Services, project: str, model: AnyModel, purpose: QueuePurpose, skip: int) -> Asked:
    try:
        queue = services.queue.next(project, model.id, purpose, skip + AT_ONCE, None)
    except NoQueue as problem:
        return Asked(None, [], problem)
    return Asked(queue, [(row, new_id("blob")) for row in _as_many(queue.items[skip:])], None)


def _as_many(rows: list[QueuedRow]) -> Iterator[QueuedRow]:
    """Yield the first row, and the next ones as long as the page does not become too long of them."""
    shown = 0
    for row in rows:
        shown += sum(min(len(str(value)), MOST_CHARACTERS) + len(name) for name, value in row.content.items())
        if shown > MOST_SHOWN and row is not rows[0]:
            return
        yield row


def _last(services: Services, project: str, given: Form) -> Feedback | None:
    """Return the answer that was given just now, which may be taken back."""
    try:
        return services.feedback.get(project, given.text("last")) if given.text("last") else None
    except FeedbackNotFound:
        return None


def _given(services: Services, project: str, model: AnyModel, name: str) -> int:
    """Return how many rows the next training of the alias learns that the model has not."""
    alias = _alias(model, name)
    if alias is None:
        return 0
    since = model.created_at
    if model.job_id is not None:
        with suppress(JobNotFound):  # then those are counted that came after the model itself
            since = services.jobs.get(project, model.job_id).created_at
    sent = services.feedback.list(project, alias, None, MOST_ANSWERS).items
    return sum(each.rows for each in sent if each.created_at > since)


def _feedback(alias: str, form: Form) -> FeedbackRequest:
    body: dict[str, Any] = {
        "alias": alias,
        "dataset": form.text("dataset"),
        "numbers": [whole(form, "row", 2**53 - 1)],
        "labels": [form.exact("label")],
        "drawn": form.text("drawn"),
    }
    if not form.exact("label"):
        raise InvalidRequest.of("form.label", "should be one of the labels of the model")
    try:
        return FeedbackRequest.model_validate(body)
    except ValidationError as error:
        raise as_invalid(error) from None
