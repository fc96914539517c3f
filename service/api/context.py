"""What surrounds every request: its id, its line in the log, headers of safety, and a net for defects."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from os import urandom

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.gate import CALLER
from service.api.headers import header
from service.api.logs import RequestRecord, request_id
from service.api.problem import InternalError, as_called, problem_response, without_descriptors
from service.telemetry import Telemetry

logger = logging.getLogger(RequestRecord.LOGGER)

_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestContext:
    """ASGI middleware around the whole application.

    Sets ``X-Request-ID`` (the caller's, if it has a safe form), logs one line a request with the route and never with
    the path, query or body, and turns any exception that nothing else has handled into a 500 problem.

    Parameters
    ----------
    app : ASGI application
    observe : callable
        Called after each request with its method, route (None if there is none), status and seconds.
    spans : Telemetry or None
        Where traces go.
    """

    def __init__(
        self, app: ASGIApp, observe: Callable[[str, str | None, int, float], None], spans: Telemetry | None
    ) -> None:
        self.app = app
        self._observe = observe
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self._spans is None:
            await self._serve(scope, receive, send)
        else:
            with self._spans.span("request", Headers(scope=scope)) as span:
                status = await self._serve(scope, receive, send)
                route = getattr(scope.get("route"), "path", "")
                span.update_name(f"{scope['method']} {route}".strip())
                span.set_attribute("http.request.method", scope["method"])
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Serve one request; returns the status of the answer."""
        given = header(scope, b"x-request-id")
        identifier = given if _GIVEN_ID.fullmatch(given) else urandom(16).hex()
        token = request_id.set(identifier)
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                headers += (b"x-request-id", identifier.encode()), (b"x-content-type-options", b"nosniff")
                if b"cache-control" not in [name for name, _ in headers]:
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            response = without_descriptors(error)
            if response is None:
                logger.exception("unexpected error")
                problem = InternalError("the service failed; the log has the details under this request id")
                response = problem_response(problem)
            if status == 0:
                await as_called(scope, response)(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", None)
            seconds = time.perf_counter() - started
            fields = {
                "method": scope["method"] if scope["method"].isalpha() else "?",
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
            }
            caller = scope.get(CALLER)
            if caller is not None:
                fields["project"], fields["key"] = caller.project_id, caller.key_id
            if logger.isEnabledFor(logging.INFO):
                logger.handle(RequestRecord(fields))
            self._observe(scope["method"], route, status, seconds)
            request_id.reset(token)
        return status
