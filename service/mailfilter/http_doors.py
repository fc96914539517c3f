"""The doors that speak HTTP: which path leads to which, and what is none of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import h11

from service.mailfilter.figures import Figures
from service.mailfilter.http_exchange import Exchange, HttpAnswer, HttpRequest, Paths, TooManyChunks, problem
from service.mailfilter.inbound import Inbound, IncomingMail
from service.predictions.budget import HeldMemory

ADDONS = "moz-extension://"
"""Begins the origin that an add-on of Thunderbird names. A page of the web cannot."""


class HttpDoor(Protocol):
    """What answers at some paths."""

    paths: Paths
    """Methods of each; a path that ends with a slash stands for all that begin with it."""
    most_bytes: int
    """Of a body that are kept."""
    is_for_addons: bool
    """Whether add-ons of mail clients may call it."""

    async def answer(self, request: HttpRequest, mail: IncomingMail) -> HttpAnswer:
        """Answer a request with its body."""


class Basics:
    """What stands beside all doors: whether anybody is there, and figures."""

    most_bytes = 0
    is_for_addons = False

    def __init__(self, figures: Figures) -> None:
        self.paths: Paths = {"/ping": ("GET", "HEAD"), "/metrics": ("GET", "HEAD")}
        self._figures = figures

    async def answer(self, request: HttpRequest, mail: IncomingMail) -> HttpAnswer:  # noqa: ARG002 (there is none)
        """Answer."""
        if request.path == "/ping":
            return HttpAnswer(200, b"pong\r\n", "text/plain")
        return HttpAnswer(200, self._figures.render(), "text/plain; version=0.0.4; charset=utf-8")


class HttpDoors:
    """Serves requests, one a connection.

    Parameters
    ----------
    doors : sequence of HttpDoor
    """

    def __init__(self, doors: Sequence[HttpDoor]) -> None:
        self._doors = {path: door for door in doors for path in door.paths}

    async def serve(self, inbound: Inbound, first: bytes, writer: asyncio.StreamWriter, memory: HeldMemory) -> None:
        """Answer the request that begins with a line; raises `HungUp`."""
        exchange = Exchange(inbound, first, writer)
        try:
            answer = await self._answer(exchange, memory)
        except h11.RemoteProtocolError as error:
            answer = problem(error.error_status_hint, "this is no request of HTTP/1.1")
        except TooManyChunks:
            answer = problem(413, "the body comes in too many small chunks; send it in larger ones, or with its length")
        exchange.send(answer)

    async def _answer(self, exchange: Exchange, memory: HeldMemory) -> HttpAnswer:
        request = await exchange.request()
        path, door = self._door(request.path)
        if request.all(b"origin") and not (
            door is not None and door.is_for_addons and all(each.startswith(ADDONS) for each in request.all(b"origin"))
        ):
            return problem(403, "pages of browsers may not call this service")
        if door is None:
            return problem(404, f"there are {', '.join(self._doors)}")
        methods = door.paths[path]
        if request.method not in methods:
            error = f"{request.path} takes {' and '.join(methods)}"
            return problem(405, error, [("Allow", ", ".join(methods))])
        mail = IncomingMail(memory, door.most_bytes)
        await exchange.body(mail)
        return await door.answer(request, mail)

    def _door(self, path: str) -> tuple[str, HttpDoor | None]:
        if path not in self._doors:
            path = next((each for each in self._doors if each.endswith("/") and path.startswith(each)), path)
        return path, self._doors.get(path)
