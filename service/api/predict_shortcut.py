"""``POST /predict`` on a way of its own: FastAPI's middleware and routing cost as much as deciding on a row.

The call stays a route of the application, which documents it, names it in logs and figures, and answers it; here is
only the shorter way to it, through the same gate and with the same answers to errors.
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.problem import error_response


class ShortcutRoute:
    """ASGI application of one route that needs nothing of FastAPI's middleware.

    Parameters
    ----------
    route : BaseRoute
        Its `handle` is called with requests of its path and method.
    """

    def __init__(self, route: BaseRoute) -> None:
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope["route"] = self._route
        try:
            await self._route.handle(scope, receive, send)
        except Exception as error:
            response = error_response(error)
            if response is None:
                raise
            await response(scope, receive, send)


class Application(FastAPI):
    """FastAPI, with one call taken out before it.

    Attributes
    ----------
    shortcut : ASGI application or None
        Serves ``POST /predict``, with all that FastAPI's middleware does for every other call.
    """

    shortcut: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the lifespan."""
        if (
            self.shortcut is not None
            and scope["type"] == "http"
            and scope["path"] == "/predict"
            and scope["method"] == "POST"
        ):
            await self.shortcut(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
