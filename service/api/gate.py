"""The gate in front of every call: nothing behind it runs, and no body is read, before the caller is known."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.authenticator import Authenticator
from service.access.caller import Caller
from service.access.errors import FormTokenNeeded, HostNotAllowed, OriginNotAllowed
from service.access.sessions import COOKIE, VISIT_COOKIE, Sessions, is_form_token
from service.api.cookies import cookie
from service.api.headers import header
from service.api.problem import MalformedRequest, as_called, error_response
from service.db.session import AWAY, acting_for
from service.errors import Problem

CALLER = "prefsvm.caller"
"""Where the ASGI scope holds the `Caller`."""
PAGES = "/ui"
"""Where the pages are. What they send is looked at by themselves: it is forms, and not only headers."""
REFUSED: tuple[type[Exception], ...] = (Problem, *AWAY)
"""What may come up while it is found out who calls."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
FORM_TOKEN_HEADER = b"x-csrf-token"
Refusal = Callable[[Scope, Exception], Response]
"""Makes the answer to a request that is not let in, of a `Problem` or of what is raised while Postgres is away."""


def plain_refusal(scope: Scope, error: Exception) -> Response:
    """Answer with a problem."""
    response = error_response(error)
    assert response is not None  # noqa: S101 (it is of the kinds that the gate catches)
    return as_called(scope, response)


class Gate:
    """ASGI middleware that puts the `Caller` into the scope and acts for its project, or answers with a problem.

    Parameters
    ----------
    app : ASGI application
    authenticator : Authenticator
    open_paths : collection of str
        Paths that need no key. All others do, also those that do not exist.
    allowed_hosts : collection of str or None
        Names that the Host header may have, without port; None: any. A service that asks for no key must not answer
        to a name that somebody else can point at this machine (DNS rebinding), nor to pages of other sites.
    sessions : Sessions, optional
        Of people who look at the pages, where keys are required.
    refusal : callable, optional
        Makes the answer to what is not let in; a problem by default.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        open_paths: Collection[str],
        allowed_hosts: Collection[str] | None,
        sessions: Sessions | None = None,
        refusal: Refusal = plain_refusal,
    ) -> None:
        self.app = app
        self._sessions = sessions
        self._refusal = refusal
        self._authenticator = authenticator
        self._open_paths = frozenset(open_paths)
        self._allowed_hosts = None if allowed_hosts is None else frozenset(allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            caller = await self._admit(scope)
        except REFUSED as error:
            await self._refusal(scope, error)(scope, receive, send)
            return
        if caller is None:
            await self.app(scope, receive, send)
            return
        scope[CALLER] = caller
        with acting_for(caller.project_id):
            await self.app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Caller | None:
        authorizations, host, hosts, origin = [], b"", 0, b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorizations.append(value)
            elif name == b"host":
                host = value
                hosts += 1
            elif name == b"origin":
                origin = value
        # What stands before this service may have gone by the other one (RFC 9112, 3.2).
        if hosts != 1 and (hosts or scope["http_version"] == "1.1"):
            raise MalformedRequest("a request has one Host header")
        if self._allowed_hosts is not None:
            if _host_name(f"//{host.decode('latin-1')}") not in self._allowed_hosts:
                raise HostNotAllowed("this service does not answer to that name; PREFSVM_ALLOWED_HOSTS can add it")
            if origin and _host_name(origin.decode("latin-1")) not in self._allowed_hosts:
                raise OriginNotAllowed("pages of other sites may not call this service")
        if scope["path"] in self._open_paths:
            return None
        client = scope.get("client")
        address = client[0] if client else "local"
        if self._sessions is not None and not authorizations:
            caller = await self._in_session(self._sessions, scope, address)
            if caller is not None:
                return caller
        return await self._authenticator.caller_of(authorizations, address)

    async def _in_session(self, sessions: Sessions, scope: Scope, address: str) -> Caller | None:
        """Return who has signed in; a write must show that a page of ours has sent it, and not another site's."""
        token = cookie(scope, COOKIE)
        caller = None if token is None else await sessions.caller_of(token, address)
        if caller is None or scope["method"] in SAFE_METHODS or scope["path"].startswith(f"{PAGES}/"):
            return caller
        if not is_form_token(header(scope, FORM_TOKEN_HEADER), cookie(scope, VISIT_COOKIE)):
            raise FormTokenNeeded("a write in a session needs the token of its pages, as X-CSRF-Token")
        return caller


@lru_cache(maxsize=64)  # nearly all say the same; many others are not worth memory
def _host_name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
