"""uvicorn's reader of HTTP/1.1, with a limit on what is not a body, and with problems for what is no HTTP.

uvicorn and httptools read headers without end, and put a long one together in time that grows with its square:
200 MiB of one header held up the whole process for 150 s. All of that happens before anybody asks for a key. Nor does
uvicorn ask the application what to say where there are more connections than it may have. And it loses the body of
whoever offers to go on in HTTP/2, as Java's own client does with each first request (uvicorn's issue 2722).
"""

from __future__ import annotations

import asyncio
import socket
import sys
from os import urandom
from typing import Any

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from service.api.logs import request_id
from service.api.problem import HeadTooLong, MalformedRequest, Unavailable, as_called, problem_response
from service.errors import Problem

MOST_HEAD_BYTES = 128 << 10
"""Of request line and headers, the lines between the chunks of a body, and what may follow the last chunk: so much may
come that completes nothing. nginx takes half of it."""
KEEP_ALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
"""A client that is gone without a word is noticed within two minutes; until then it has one of the connections."""
FIRST_BYTE_SECONDS = 10.0
"""So long a new connection may be silent. What has sent nothing gets no answer, and holds a descriptor."""
REFUSED_PLACES = 16
"""So many connections beyond the last one are heard, to be told so; any more are ended as they come."""
OFFERING = (b"upgrade", b"http2-settings")
"""Headers by which a client offers another protocol."""


class HttpProtocol(HttpToolsProtocol):
    """Refuses a request whose head, or whatever else is no body, has no end."""

    _completed = False
    """Whether what is being read has completed a head, or had a part of a body in it."""
    _incomplete_bytes = 0
    _is_declining = False
    """Whether the head that is being read offers another protocol than HTTP/1.1, in which nobody is answered here."""
    _again: bytes | None = None
    """Such a request without the offer, as far as it has come."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to serve a connection, and have the kernel ask after it: who is cut off does not say so."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + REFUSED_PLACES:
            self.transport.abort()
            return
        # The timer between two requests of a connection, which the first byte of a request ends.
        self.timeout_keep_alive_task = self.loop.call_later(FIRST_BYTE_SECONDS, self.timeout_keep_alive_handler)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEP_ALIVE.items():
                connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._completed = False
        self._read(data)
        while self._again is not None:
            again, self._again = self._again, None
            self.parser = httptools.HttpRequestParser(self)
            self._read(again)
        if self._completed:
            self._incomplete_bytes = 0
            return
        self._incomplete_bytes += len(data)
        if self._incomplete_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.logger.warning("The head of a request has no end.")
            self._refuse(HeadTooLong(f"the head of a request may have at most {MOST_HEAD_BYTES} bytes"))

    def _read(self, data: bytes) -> None:
        self._block = data
        super().data_received(data)
        self._block = b""

    def on_headers_complete(self) -> None:
        """Begin to serve a request."""
        self._completed = True
        is_offer = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        self._is_declining = is_offer and not self._should_upgrade()
        if not self._is_declining:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the body of a request."""
        if not self._is_declining:
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Have the request read again without its offer: httptools takes what follows the head for the other protocol.

        uvicorn calls this while it handles httptools' exception, which says where the head ends.
        """
        offer = sys.exception()
        if not self._is_declining or not isinstance(offer, httptools.HttpParserUpgrade):
            return
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token for token in value.split(b",") if token.strip().lower() not in OFFERING]
                lines.append(b"connection: " + b",".join(tokens or [b"keep-alive"]))
            elif name not in OFFERING:
                lines.append(b"%s: %s" % (name, value))
        self._again = b"\r\n".join(lines) + b"\r\n\r\n" + self._block[offer.args[0] :]

    def on_body(self, body: bytes) -> None:
        """Hand on a part of a body."""
        self._completed = True
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if app is service_unavailable:  # what uvicorn puts there
            app = too_many_connections
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read; uvicorn calls this."""
        self._refuse(MalformedRequest(msg))

    def _refuse(self, problem: Problem) -> None:
        token = request_id.set(urandom(16).hex())
        response = problem_response(problem)
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            (b"x-request-id", request_id.get().encode()),
            (b"connection", b"close"),
        ]
        request_id.reset(token)
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[problem.status] + head + b"\r\n" + bytes(response.body))
        self.transport.close()


async def too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the place of the application, and end the connection: others wait for its place."""
    token = request_id.set(urandom(16).hex())
    problem = Unavailable("as many are connected as this service takes; try again", headers={"Retry-After": "1"})
    response = as_called(scope, problem_response(problem))
    response.headers["x-request-id"] = request_id.get()
    response.headers["connection"] = "close"
    request_id.reset(token)
    await response(scope, receive, send)
