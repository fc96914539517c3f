"""``/keys``, ``/projects`` and ``/limits``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service.access.schemas import ChangeProject, CreateKey, CreateProject, Key, LimitsAnswer, NewKey, Project
from service.access.service import KeyService, ProjectService
from service.api.access import Admin, Reader
from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.errors import InvalidRequest
from service.schemas import Page

Grace = Annotated[
    float, Query(ge=0, le=30 * 86400, description="For how many seconds more the old key works; a day if not said.")
]


def keys_router(keys: KeyService) -> APIRouter:
    """Return the routes of keys."""
    router = APIRouter(prefix="/keys", tags=["keys"], route_class=JsonRoute)

    @router.post("", operation_id="createKey", status_code=201, responses=problems(404, 409))
    def create(caller: Admin, body: CreateKey, key: IdempotencyKey = None) -> NewKey:
        """Make an API key. Its text is in this answer only.

        As nothing can show it again, an `Idempotency-Key` that came before is refused with the id of what it has made.

        An admin may make keys with any scopes, for the own project; those of the default project for every project.
        """
        return keys.create(caller, body, key)

    @router.get("", operation_id="listKeys")
    def list_(caller: Admin, limit: Limit = 20, cursor: CursorText = None) -> Page[Key]:
        """List the keys of the project, newest first, also those that have ended."""
        return keys.list(caller.project_id, cursor, limit)

    @router.post("/{key_id}/rotate", operation_id="rotateKey", status_code=201, responses=problems(404, 409))
    def rotate(
        caller: Admin, request: Request, key_id: str, grace_seconds: Grace = 86400, key: IdempotencyKey = None
    ) -> NewKey:
        """Make a new key with the name, the scopes and the length of life of this one, which ends after a while.

        A body, or a parameter that there is not, is refused: a leaked key must not live on because of a slip.
        """
        for name in request.query_params:
            if name != "grace_seconds":
                raise InvalidRequest("query: the only parameter is grace_seconds")
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            raise InvalidRequest("body: expected none; say ?grace_seconds=… in the query")
        return keys.rotate(caller.project_id, key_id, grace_seconds, key)

    @router.delete("/{key_id}", operation_id="revokeKey", status_code=204, responses=problems(404))
    def revoke(caller: Admin, key_id: str) -> Response:
        """Revoke a key: within 5 seconds it is refused. It stays in the list."""
        keys.revoke(caller.project_id, key_id)
        return Response(status_code=204)

    return router


def projects_router(projects: ProjectService) -> APIRouter:
    """Return the routes of projects and limits."""
    router = APIRouter(tags=["projects"], route_class=JsonRoute)

    @router.post("/projects", operation_id="createProject", status_code=201, responses=problems(403, 409))
    def create(caller: Admin, body: CreateProject, response: Response, key: IdempotencyKey = None) -> Project:
        """Make a project; for admins of the default project. Its first key comes from `POST /keys` with `project`."""
        project = projects.create(caller, body, key)
        response.headers["Location"] = f"/projects/{project.id}"
        return project

    @router.get("/projects", operation_id="listProjects")
    def list_(caller: Admin, limit: Limit = 20, cursor: CursorText = None) -> Page[Project]:
        """List projects, newest first: all of them for admins of the default project, else the own one."""
        return projects.list(caller, cursor, limit)

    @router.get("/projects/{project_id}", operation_id="getProject", responses=problems(404))
    def get(caller: Admin, project_id: str) -> Project:
        """Show a project."""
        return projects.get(caller, project_id)

    @router.patch("/projects/{project_id}", operation_id="changeProject", responses=problems(403, 404))
    def change(caller: Admin, project_id: str, body: ChangeProject) -> Project:
        """Replace the limits of a project; for admins of the default project."""
        return projects.change(caller, project_id, body.limits)

    @router.get("/limits", operation_id="getLimits", responses=problems(404))
    def limits(caller: Reader) -> LimitsAnswer:
        """Show what the project may use, and what it uses."""
        return projects.limits(caller.project_id)

    return router
