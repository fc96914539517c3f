"""Applications whose routes are built when they are first asked for.

FastAPI reads the signature of each of 150 routes and has pydantic compile a validator for each of their parameters: two
thirds of what it takes to make an application, of which nearly every integration test makes one and asks for a few
routes. The first application of a kind in a process is built whole and checked, as in production; what is asked of
later ones is built by the same code, later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import compile_path, get_name

from service import app as service_app
from service.settings import Settings

_build = APIRoute.__init__
_building = threading.RLock()
_whole: set[tuple[bool, ...]] = set()


def _put_off(route: APIRoute, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
    """Keep what a route is made of, and what a request is compared with to find it."""
    route.path, route.endpoint = path, endpoint
    route.name = given.get("name") or get_name(endpoint)
    route.path_regex, route.path_format, route.param_convertors = compile_path(path)
    route.methods = {method.upper() for method in given.get("methods") or ["GET"]}
    route.__dict__["put_off"] = given


def _build_now(route: APIRoute, name: str) -> Any:
    """Build a route when something else of it is asked for; Python calls this for attributes that are not there."""
    with _building:
        given = route.__dict__.pop("put_off", None)
        if given is not None:
            _build(route, route.path, route.endpoint, **given)
        if name in route.__dict__:
            return route.__dict__[name]
    raise AttributeError(name)


def create_lazy_app(settings: Settings) -> FastAPI:
    """Return what `service.app.create_app` returns."""
    kind = (settings.ui, settings.docs, settings.keys_are_required)
    if kind not in _whole:
        made = service_app.create_app(settings)
        _whole.add(kind)
        return made
    with _building, pytest.MonkeyPatch.context() as patch:
        patch.setattr(APIRoute, "__init__", _put_off)
        patch.setattr(service_app, "check_routes", lambda *_: None)  # it looks at each, and did so the first time
        return service_app.create_app(settings)


APIRoute.__getattr__ = _build_now  # type: ignore[attr-defined]
