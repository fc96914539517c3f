"""All pages, below ``/ui``."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response

from service.api.access import Reader
from service.api.problem import NoSuchRoute
from service.pages.audits import add_audits
from service.pages.class_rules import add_class_rules
from service.pages.datasets import add_datasets
from service.pages.explaining import add_explaining
from service.pages.home import add_home
from service.pages.keys import add_keys
from service.pages.labelling import add_labelling
from service.pages.models import add_models
from service.pages.room import PageRoute, Room
from service.pages.services import Services
from service.pages.settings import add_settings
from service.pages.sign_in import SIGN_IN, add_sign_in
from service.pages.static_files import add_static, static_files, static_path
from service.pages.training import add_training
from service.pages.trying import add_trying


@dataclass(frozen=True)
class Pages:
    """The pages, as an application takes them."""

    room: Room
    router: APIRouter
    open_paths: tuple[str, ...]
    """Those that nobody has to sign in for: where one does, and how pages look."""


def make_pages(services: Services, *, has_docs: bool, secure: bool) -> Pages:
    """Return the pages; the parameters are those of `Room`."""
    files = {file.name: file for file in static_files()}
    keys_required = services.sessions is not None
    room = Room(files, keys_required=keys_required, has_docs=has_docs, secure=secure)
    sign_in = [SIGN_IN] if keys_required else []
    return Pages(room, pages_router(room, services), (*sign_in, *map(static_path, files.values())))


def pages_router(room: Room, services: Services) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    for file in static_files():
        add_static(router, file)
    if services.sessions is not None:
        add_sign_in(router, room, services.sessions)
    add_home(router, room, services)
    add_datasets(router, room, services)
    add_training(router, room, services)
    add_class_rules(router, room, services)
    add_models(router, room, services)
    add_explaining(router, room, services)
    add_trying(router, room, services)
    add_labelling(router, room, services)
    add_audits(router, room, services)
    add_settings(router, room, services)
    add_keys(router, room, services)

    @router.get("/ui/{path:path}")
    def nothing(_: Reader) -> Response:
        raise NoSuchRoute("There is no page at this address.")

    return router
