"""Which scope a call needs. A handler takes one of these, and has the caller's project from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from service.access.caller import Caller, Scope
from service.access.errors import Forbidden
from service.api.docs import DOCS_PATHS
from service.api.gate import CALLER

OPEN_PATHS = (*DOCS_PATHS, "/openapi.json", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")
"""What anybody may ask: whether the service is there, and how it is called. Every other route has a scope."""


class RequiresScope:
    """Dependency of a call that needs a scope.

    Parameters
    ----------
    scope : Scope
    default_project_only : bool, default=False
        Whether it shows something of the whole installation.
    """

    def __init__(self, scope: Scope, *, default_project_only: bool = False) -> None:
        self.scope = scope
        self.default_project_only = default_project_only

    async def __call__(self, request: Request) -> Caller:
        """Return the caller; raises `Forbidden`."""
        return self.admit(request.scope)

    def admit(self, scope: Mapping[str, Any]) -> Caller:
        """Return the caller that the gate has put into an ASGI scope; raises `Forbidden`."""
        caller: Caller = scope[CALLER]
        if self.scope not in caller.scopes:
            raise Forbidden(f"this call needs a key with the scope {self.scope}")
        if self.default_project_only and not caller.in_default_project:
            raise Forbidden("this call needs a key of the default project")
        return caller


Reader = Annotated[Caller, Depends(RequiresScope("read"))]
Writer = Annotated[Caller, Depends(RequiresScope("write"))]
Admin = Annotated[Caller, Depends(RequiresScope("admin"))]
Watcher = Annotated[Caller, Depends(RequiresScope("read", default_project_only=True))]


@dataclass(frozen=True)
class RouteAccess:
    """Who may call a route; `required` is None where anybody may."""

    path: str
    methods: frozenset[str]
    required: RequiresScope | None


def route_access(app: FastAPI) -> Iterator[RouteAccess]:
    """Yield what each route says about its callers."""
    for route in iter_route_contexts(app.routes):
        dependant = getattr(route, "dependant", None)
        required = None if dependant is None else next(_requirements(dependant), None)
        yield RouteAccess(route.path or "", frozenset(route.methods or ()), required)


def check_routes(app: FastAPI, also_open: Collection[str] = ()) -> None:
    """Raise `RuntimeError` if a route has no scope and is not meant to be open: a defect of the program."""
    for route in route_access(app):
        if route.required is None and route.path not in (*OPEN_PATHS, *also_open):
            raise RuntimeError(f"the route {route.path} says nothing about who may call it")


def _requirements(dependant: Dependant) -> Iterator[RequiresScope]:
    for below in dependant.dependencies:
        if isinstance(below.call, RequiresScope):
            yield below.call
        yield from _requirements(below)
