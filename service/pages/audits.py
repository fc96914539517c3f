"""Audits: a target of a model is proved by looking at rows that chance draws, one at a time."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service import charts
from service.api.access import Reader, Writer
from service.audits.schemas import (
    MOST_ROWS,
    Audit,
    AuditAnswers,
    AuditItems,
    AuditPrecision,
    AuditRecall,
    AuditRequest,
    AuditSeal,
)
from service.models.errors import ModelNotFound
from service.models.schemas import Model
from service.pages.forms import BUTTON, Form, Written, as_invalid, number, parsed, whole
from service.pages.objectives import objective_in
from service.pages.room import Room
from service.pages.services import Services
from service.pages.truth import truth_in

MANY_ANSWERS = 100
"""More than one sitting; a shorter audit is then offered before the first answer."""


def add_audits(router: APIRouter, room: Room, services: Services) -> None:
    """Add the page of an audit, and what begins and ends one."""
    _add_begin(router, room, services)
    _add_shown(router, room, services)
    _add_end(router, room, services)


def _add_begin(router: APIRouter, room: Room, services: Services) -> None:
    @router.post("/ui/models/{name}/audits")
    def begin(request: Request, caller: Writer, name: str, form: Written) -> Response:
        audit = services.audits.create(caller.project_id, _request(name, form), form.text("once") or None)
        return room.redirect(request.scope, f"/ui/audits/{audit.id}")


def _add_shown(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/audits/{audit_id}")
    def show(request: Request, caller: Reader, audit_id: str) -> Response:
        project = caller.project_id
        given = parsed(request.scope["query_string"])
        after = whole(given, "after", MOST_ROWS, 0)
        audit = services.audits.get(project, audit_id)
        rows = None if audit.pool is None or audit.sealed_at else services.audits.next(project, audit_id, after, 1)
        model = _model(services, project, audit)
        aliases = model.aliases if model else []
        return room.page(
            request.scope,
            "audit.html",
            title=f"Audit of {aliases[0] if aliases else 'a model'}",
            audit=audit,
            rows=rows,
            after=after,
            model=model,
            aliases=aliases,
            threshold=_threshold(audit),
            picture=_picture(audit),
            last=_last(given),
            skipped=_skipped(rows, after),
            truth=None if audit.dataset is None else truth_in(services, project, audit.dataset),
            is_long=_is_long(audit),
        )

    @router.post("/ui/audits/{audit_id}/answer")
    def answer(request: Request, caller: Writer, audit_id: str, form: Written) -> Response:
        row, label = whole(form, "row", 2**53 - 1), form.exact("label")
        try:
            body = AuditAnswers(rows=[row], labels=[label])
        except ValidationError as error:
            raise as_invalid(error) from None
        services.audits.answer(caller.project_id, audit_id, body)
        query = {"after": form.text("after"), "row": str(row), "said": label}
        return room.redirect(request.scope, f"/ui/audits/{audit_id}", **query)


def _add_end(router: APIRouter, room: Room, services: Services) -> None:
    @router.post("/ui/audits/{audit_id}/seal")
    def seal(request: Request, caller: Writer, audit_id: str, form: Written) -> Response:
        try:
            body = AuditSeal(alias=form.text("alias") or None)
        except ValidationError as error:
            raise as_invalid(error) from None
        services.audits.seal(caller.project_id, audit_id, body)
        return room.redirect(request.scope, f"/ui/audits/{audit_id}")

    @router.post("/ui/audits/{audit_id}/delete", dependencies=[BUTTON])
    def delete(request: Request, caller: Writer, audit_id: str) -> Response:
        services.audits.delete(caller.project_id, audit_id)
        return room.redirect(request.scope, "/ui")


def _request(name: str, form: Form) -> AuditRequest:
    objective = objective_in(form)
    if objective["kind"] == "cost":
        objective["at_most"] = number(form, "at_most")
    body = {
        "model": name,
        "dataset": form.text("dataset"),
        "objective": objective,
        "confidence": number(form, "confidence", 0.01),
        **({"rows": whole(form, "rows", MOST_ROWS)} if form.text("rows") else {}),
        "thresholds": "curve" if form.text("several") else None,
    }
    try:
        return AuditRequest.model_validate(body)
    except ValidationError as error:
        raise as_invalid(error) from None


def _model(services: Services, project: str, audit: Audit) -> Model | None:
    try:
        return services.models.get(project, audit.model)
    except ModelNotFound:
        return None


def _threshold(audit: Audit) -> float | None:
    """Return the threshold that the verdict is about; of several that are tried, before there is one, the first."""
    said = None if audit.verdict is None else audit.verdict.threshold
    return said if said is not None or audit.pool is None else audit.pool.threshold


def _is_long(audit: Audit) -> bool:
    """Tell whether an audit that has no answer yet is likely to take very many, or nobody can say how many."""
    if audit.pool is None or audit.answered or audit.pool.drawn <= MANY_ANSWERS:
        return False
    return audit.pool.expected_answers is None or audit.pool.expected_answers > MANY_ANSWERS


def _picture(audit: Audit) -> Any:
    """Return how far the proof is, against what is to be proved."""
    if audit.verdict is None:
        return None
    if not isinstance(audit.objective, AuditPrecision | AuditRecall):
        target = audit.objective.at_most
        most = max(2 * target, audit.verdict.bound)
    else:
        target, most = audit.objective.target, 1.0
    return charts.progress(audit.verdict.bound / most, target / most)


def _last(given: Form) -> tuple[int, str] | None:
    """Return the row that got an answer just now, and that answer, which may be changed."""
    return (whole(given, "row", 2**53 - 1), given.exact("said")) if given.text("row") and given.exact("said") else None


def _skipped(rows: AuditItems | None, after: int) -> bool:
    """Tell whether nothing is left but what was put off."""
    return rows is not None and not rows.items and rows.left > 0 and after > 0
