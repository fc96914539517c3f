"""What every page has: its frame, its addresses, the headers that keep it safe, and a form for what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service import charts, shown_text
from service.access.caller import Caller
from service.access.sessions import COOKIE, VISIT_COOKIE, form_token, new_token
from service.api.cookies import cookie
from service.api.gate import CALLER, PAGES, SAFE_METHODS, plain_refusal
from service.api.problem import error_response
from service.db.session import AWAY
from service.errors import Problem
from service.html_templates import html_templates
from service.locales import locale_in_use, locale_of, localized, localized_day, read_in
from service.models.words import alone_words, objective_words, promise_level, proven_words
from service.pages import showing, words
from service.pages.static_files import StaticFile, static_path

TEMPLATES = Path(__file__).parent / "templates"
VISIT_SECONDS = 365 * 24 * 3600
SECTIONS = (
    *(("read", "/ui", "Home"), ("read", "/ui/datasets", "Data"), ("read", "/ui/jobs", "Jobs")),
    *(("read", "/ui/models", "Models"), ("read", "/ui/settings", "Settings"), ("admin", "/ui/keys", "Keys")),
)
"""Of the navigation: the scope that a key needs for it, the page, and what it is called."""
POLICY = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer: browsers then say Origin: null with forms, which the gate takes for another site.
    "Referrer-Policy": "same-origin",
    "Vary": "Accept-Language",
    "X-Frame-Options": "DENY",
}


class Room:
    """Makes pages of templates.

    Parameters
    ----------
    files : mapping of str to StaticFile
        By name.
    keys_required : bool
        Whether people sign in.
    has_docs : bool
        Whether there is a list of calls to link to.
    secure : bool
        Whether browsers may send our cookies over TLS only, also where the request came without.
    """

    def __init__(self, files: Mapping[str, StaticFile], *, keys_required: bool, has_docs: bool, secure: bool) -> None:
        self.keys_required = keys_required
        self._secure = secure
        self._files = files
        self._is_warm = False
        self._environment = html_templates(
            TEMPLATES,
            (
                *(showing.exact, showing.hint, showing.sentence, showing.cell, showing.long, shown_text.size),
                *(
                    showing.after,
                    showing.ago,
                    showing.moment,
                    alone_words,
                    objective_words,
                    promise_level,
                    words.job_words,
                ),
                *(
                    charts.signed,
                    charts.bar_of,
                    shown_text.least_percent,
                    shown_text.most_percent,
                    shown_text.asked_percent,
                    words.event_words,
                    words.told,
                    proven_words,
                    localized,
                    localized_day,
                ),
            ),
        )
        self._environment.globals |= {"has_docs": has_docs, "keys_required": keys_required}

    def page(self, scope: Scope, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Return a page for a request."""
        caller: Caller | None = scope.get(CALLER)
        may: Collection[str] = () if caller is None else caller.scopes
        visit = cookie(scope, VISIT_COOKIE)
        held = visit or new_token()
        up = upwards(scope["path"])
        html = self._environment.get_template(template).render(
            {
                "to": lambda path, **query: address(up, path, query),
                "static": lambda name: f"{up}{static_path(self._files[name])[1:]}?v={self._files[name].version}",
                "here": scope["path"],
                "numbers": locale_in_use().tag,
                "form_token": form_token(held),
                "signed_in": caller is not None and caller.key_id is not None,
                "can_write": "write" in may,
                "sections": [(path, word) for needed, path, word in SECTIONS if needed in may],
                **context,
            }
        )
        response = HTMLResponse(html, status_code=status, headers=dict(HEADERS))
        if not self._is_warm:
            self._is_warm = True
            response.background = BackgroundTask(self._warm_up)
        if visit is None:
            self.set_cookie(scope, response, VISIT_COOKIE, held, VISIT_SECONDS)
        return response

    def _warm_up(self) -> None:
        """Load what the next pages need, once somebody has opened one: rows of data sets came a second late."""
        # Not before: it takes 45 MB, which a process without visitors never needs.
        from service.ingest import columnar  # noqa: F401

        for template in self._environment.list_templates():
            self._environment.get_template(template)

    def set_cookie(self, scope: Scope, response: Response, name: str, token: str, seconds: float) -> None:
        """Give the browser a cookie that no script and no other site can use."""
        secure = self._secure or scope["scheme"] == "https"
        response.set_cookie(name, token, max_age=int(seconds), httponly=True, samesite="strict", secure=secure)

    def forget_session(self, response: Response) -> None:
        """Let the browser forget its session."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=self._secure)

    def redirect(self, scope: Scope, path: str, **query: str) -> Response:
        """Send the browser to another page; after a form, so that going back does not send it again."""
        return Response(
            status_code=HTTPStatus.SEE_OTHER,
            headers={"Location": address(upwards(scope["path"]), path, query), **HEADERS},
        )

    def trouble(self, scope: Scope, error: Exception) -> Response:
        """Return the page of what went wrong."""
        made = error_response(error)
        assert made is not None  # noqa: S101 (it is of the kinds that are caught)
        if made.media_type is None:
            return made  # the client is gone
        problem = orjson.loads(made.body)
        page = self.page(scope, "problem.html", made.status_code, problem=problem, title=problem["title"])
        for name in ("retry-after", "www-authenticate"):
            if name in made.headers:
                page.headers[name] = made.headers[name]
        return page

    def refuse(self, scope: Scope, error: Exception) -> Response:
        """Answer for the gate: whoever looks at a page and is not signed in is asked to."""
        path = scope["path"]
        if not (path == PAGES or path.startswith(f"{PAGES}/")):
            return plain_refusal(scope, error)
        is_unknown = isinstance(error, Problem) and error.status == HTTPStatus.UNAUTHORIZED
        if not is_unknown:
            return self.trouble(scope, error)
        if scope["method"] in SAFE_METHODS:
            asked = f"{path}?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else path
            response = self.redirect(scope, "/ui/sign-in", **({} if asked == PAGES else {"next": asked}))
        else:
            response = self.page(scope, "ended.html", HTTPStatus.UNAUTHORIZED, title="Your session has ended")
        self.forget_session(response)
        return response


TROUBLE: tuple[type[Exception], ...] = (Problem, RequestValidationError, HTTPException, ClientDisconnect, *AWAY)
"""What `Room.trouble` has a page for."""


class PageRoute(APIRoute):
    """A route that answers people: what goes wrong is a page, too. Who asks for the head of a page gets it."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        methods = set(given.pop("methods", None) or ("GET",))
        super().__init__(path, endpoint, methods=methods | {"HEAD"} if "GET" in methods else methods, **given)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, with pages for errors."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            with read_in(locale_of(request.headers.get("accept-language", ""))):
                try:
                    return await handle(request)
                except TROUBLE as error:
                    room: Room = request.app.state.pages
                    return room.trouble(request.scope, error)

        return answer


def upwards(path: str) -> str:
    """Return the way from a page to the root of the service, which a proxy may have put below a path of its own."""
    return "../" * (path.count("/") - 1)


def address(up: str, path: str, query: Mapping[str, Any]) -> str:
    """Return a relative address; `path` begins with a slash."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return up + quote(path[1:], safe="/") + (f"?{urlencode(given, doseq=True)}" if given else "") or "./"
