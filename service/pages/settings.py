"""Settings of a project: what it may use and uses, how long things are kept, and who is told when a job ends."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.access.caller import Caller
from service.api.access import Reader, Writer
from service.api.parameters import CursorText
from service.errors import Problem
from service.identifiers import new_id
from service.pages.forms import BUTTON, Written, as_invalid
from service.pages.room import Room
from service.pages.services import Services
from service.webhooks.schemas import CreateWebhook, NewWebhook

ON_A_LIST = 30
LIMITS: Mapping[str, str] = {
    "queued_jobs": "Jobs that wait",
    "running_jobs": "Jobs that run at the same time",
    "stored_bytes": "Stored: uploads, models, results, feedback, audits",
}
KEPT: Mapping[str, str] = {
    "datasets_days": "A data set that no job uses",
    "models_days": "A model without a name",
    "jobs_days": "A job that has ended",
    "events_days": "The log of such a job",
    "feedback_days": "Feedback",
}


def add_settings(router: APIRouter, room: Room, services: Services) -> None:
    """Add the pages of settings, but for keys and projects."""

    def show(
        request: Request, caller: Caller, made: NewWebhook | None = None, wrong: Problem | None = None, url: str = ""
    ) -> Response:
        return room.page(
            request.scope,
            "settings.html",
            200 if wrong is None else wrong.status,
            title="Settings",
            limits=services.projects.limits(caller.project_id),
            limit_words=LIMITS,
            kept_words=KEPT,
            webhooks=services.webhooks.list(caller.project_id, None, ON_A_LIST).items,
            made=made,
            wrong=wrong,
            url=url,
            once=new_id("blob"),
            key_id=caller.key_id,
        )

    @router.get("/ui/settings")
    def settings(request: Request, caller: Reader) -> Response:
        return show(request, caller)

    @router.post("/ui/settings/webhooks")
    def create(request: Request, caller: Writer, form: Written) -> Response:
        """Show what was made at once: its secret is in no other page."""
        url = form.text("url")
        try:
            body = CreateWebhook(url=url)
            made = services.webhooks.create(caller.project_id, body, form.text("once") or None)
        except ValidationError as error:
            return show(request, caller, wrong=as_invalid(error), url=url)
        except Problem as problem:
            return show(request, caller, wrong=problem, url=url)
        return show(request, caller, made)

    @router.get("/ui/settings/webhooks/{webhook_id}")
    def deliveries(request: Request, caller: Reader, webhook_id: str, cursor: CursorText = None) -> Response:
        page = services.webhooks.deliveries(caller.project_id, webhook_id, cursor, ON_A_LIST)
        known = {each.id: each for each in services.webhooks.list(caller.project_id, None, ON_A_LIST).items}
        return room.page(
            request.scope,
            "webhook.html",
            title="Webhook",
            webhook_id=webhook_id,
            webhook=known.get(webhook_id),
            deliveries=page.items,
            cursor=cursor,
            next_cursor=page.next_cursor,
        )

    @router.post("/ui/settings/webhooks/{webhook_id}/delete", dependencies=[BUTTON])
    def delete(request: Request, caller: Writer, webhook_id: str) -> Response:
        services.webhooks.delete(caller.project_id, webhook_id)
        return room.redirect(request.scope, "/ui/settings")
