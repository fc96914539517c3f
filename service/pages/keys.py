"""Keys and projects, for those who may manage them. The text of a key is on the page that made it, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.access.caller import SCOPES, Caller
from service.access.schemas import CreateKey, CreateProject, Key, LimitsBody, NewKey
from service.api.access import Admin
from service.api.parameters import CursorText
from service.errors import Problem
from service.identifiers import new_id
from service.pages.forms import BUTTON, Form, Written, as_invalid, number
from service.pages.room import Room
from service.pages.services import Services

ON_A_LIST = 50
GRACE_SECONDS = 86400.0
"""That the old one of two keys works on, as with the call."""
LIMITS = ("requests_per_second", "queued_jobs", "running_jobs", "stored_bytes")


def add_keys(router: APIRouter, room: Room, services: Services) -> None:
    """Add the page of keys and projects."""
    _add_keys(router, room, services)
    _add_projects(router, room, services)


def _page(
    room: Room,
    services: Services,
    request: Request,
    caller: Caller,
    cursor: str | None = None,
    made: NewKey | None = None,
    wrong: Problem | None = None,
) -> Response:
    keys = services.keys.list(caller.project_id, cursor, ON_A_LIST)
    return room.page(
        request.scope,
        "keys.html",
        200 if wrong is None else wrong.status,
        title="Keys",
        keys=[(key, _ended(key)) for key in keys.items],
        cursor=cursor,
        next_cursor=keys.next_cursor,
        projects=services.projects.list(caller, None, ON_A_LIST).items,
        runs_installation=caller.runs_installation,
        own=caller.project_id,
        own_key=caller.key_id,
        scopes=SCOPES,
        limits=LIMITS,
        made=made,
        wrong=wrong,
        once=new_id("blob"),
    )


def _add_keys(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/keys")
    def show(request: Request, caller: Admin, cursor: CursorText = None) -> Response:
        return _page(room, services, request, caller, cursor)

    @router.post("/ui/keys")
    def create(request: Request, caller: Admin, form: Written) -> Response:
        try:
            made = services.keys.create(caller, _new_key(form), form.text("once") or None)
        except Problem as problem:
            return _page(room, services, request, caller, wrong=problem)
        return _page(room, services, request, caller, made=made)

    @router.post("/ui/keys/{key_id}/rotate")
    def rotate(request: Request, caller: Admin, key_id: str, form: Written) -> Response:
        try:
            made = services.keys.rotate(caller.project_id, key_id, GRACE_SECONDS, form.text("once") or None)
        except Problem as problem:
            return _page(room, services, request, caller, wrong=problem)
        return _page(room, services, request, caller, made=made)

    @router.post("/ui/keys/{key_id}/revoke", dependencies=[BUTTON])
    def revoke(request: Request, caller: Admin, key_id: str) -> Response:
        services.keys.revoke(caller.project_id, key_id)
        return room.redirect(request.scope, "/ui/keys")


def _add_projects(router: APIRouter, room: Room, services: Services) -> None:
    @router.post("/ui/projects")
    def create(request: Request, caller: Admin, form: Written) -> Response:
        try:
            services.projects.create(caller, CreateProject(name=form.text("name")), form.text("once") or None)
        except ValidationError as error:
            return _page(room, services, request, caller, wrong=as_invalid(error))
        except Problem as problem:
            return _page(room, services, request, caller, wrong=problem)
        return room.redirect(request.scope, "/ui/keys")

    @router.post("/ui/projects/{project_id}/limits")
    def limit(request: Request, caller: Admin, project_id: str, form: Written) -> Response:
        try:
            services.projects.change(caller, project_id, _limits(form))
        except Problem as problem:
            return _page(room, services, request, caller, wrong=problem)
        return room.redirect(request.scope, "/ui/keys")


def _new_key(form: Form) -> CreateKey:
    body: dict[str, Any] = {"name": form.text("name"), "scopes": form.all("scope")}
    if form.text("project"):
        body["project"] = form.text("project")
    if form.text("days"):
        body["expires_in_days"] = number(form, "days")
    try:
        return CreateKey.model_validate(body)
    except ValidationError as error:
        raise as_invalid(error) from None


def _limits(form: Form) -> LimitsBody:
    """Return new limits; an empty field is no limit."""
    given: dict[str, Any] = dict.fromkeys(LIMITS)
    for name in LIMITS:
        if form.text(name):
            value = number(form, name)
            given[name] = int(value) if name != "requests_per_second" and value == int(value) else value
    try:
        return LimitsBody.model_validate(given)
    except ValidationError as error:
        raise as_invalid(error) from None


def _ended(key: Key) -> str | None:
    """Say that a key works no more, and why."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= datetime.now(UTC) else None
