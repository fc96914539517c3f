"""``/audits``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.audits.schemas import MOST_ROWS, Audit, AuditAnswers, AuditItems, AuditRequest, AuditSeal
from service.audits.service import AuditService
from service.schemas import Page

HowMany = Annotated[int, Query(ge=1, le=100, description="Rows, at most.")]
After = Annotated[int, Query(ge=0, le=MOST_ROWS, description="Only rows behind this position: who skips some goes on.")]


def audits_router(audits: AuditService) -> APIRouter:
    """Return the routes of audits."""
    router = APIRouter(prefix="/audits", tags=["audits"], route_class=JsonRoute)

    @router.post("", operation_id="createAudit", status_code=202, responses=problems(409))
    def create(caller: Writer, body: AuditRequest, response: Response, key: IdempotencyKey = None) -> Audit:
        """Begin to prove a target of a model on the unlabelled rows of a data set.

        A worker scores them and draws those that somebody is to look at, with known probabilities.
        """
        audit = audits.create(caller.project_id, body, key)
        response.headers["Location"] = f"/audits/{audit.id}"
        return audit

    @router.get("", operation_id="listAudits")
    def list_(caller: Reader, limit: Limit = 20, cursor: CursorText = None) -> Page[Audit]:
        """List audits, newest first."""
        return audits.list(caller.project_id, cursor, limit)

    @router.get("/{audit_id}", operation_id="getAudit", responses=problems(404))
    def get(caller: Reader, audit_id: str) -> Audit:
        """Show an audit and what is proved so far."""
        return audits.get(caller.project_id, audit_id)

    @router.delete("/{audit_id}", operation_id="deleteAudit", status_code=204, responses=problems(404))
    def delete(caller: Writer, audit_id: str) -> None:
        """Delete an audit with its rows and answers."""
        audits.delete(caller.project_id, audit_id)

    @router.get("/{audit_id}/next", operation_id="getAuditRows", responses=problems(404, 409))
    def next_(caller: Reader, audit_id: str, n: HowMany = 10, after: After = 0) -> AuditItems:
        """Give the rows to look at next, with what the model says of them."""
        return audits.next(caller.project_id, audit_id, after, n)

    @router.post("/{audit_id}/labels", operation_id="answerAudit", responses=problems(404, 409))
    def answer(caller: Writer, audit_id: str, body: AuditAnswers) -> Audit:
        """Say what rows are, and hear at once what all answers prove.

        The verdict is valid at every moment: stop as soon as it is there, or go on. A row that was drawn before one
        that has an answer, and has none itself, counts against the verdict.
        """
        return audits.answer(caller.project_id, audit_id, body)

    @router.post("/{audit_id}/seal", operation_id="sealAudit", responses=problems(403, 404, 409))
    def seal(caller: Writer, audit_id: str, body: AuditSeal | None = None) -> Audit:
        """End an audit: its verdict stays as it is, and an alias may learn the answers as feedback."""
        return audits.seal(caller.project_id, audit_id, body or AuditSeal())

    return router
