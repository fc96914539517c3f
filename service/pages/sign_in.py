"""Signing in with an API key, and out again."""

from __future__ import annotations

import re
from http import HTTPStatus

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from service.access.errors import TooManyRequests, Unauthorized
from service.access.sessions import COOKIE, Sessions
from service.api.access import Reader
from service.api.cookies import cookie
from service.api.gate import PAGES
from service.pages.forms import Written
from service.pages.room import Room

SIGN_IN = "/ui/sign-in"
_OURS = re.compile(r"(?!.*\.\.)/ui(?:/[\w./~%:@!$&'()*+,;=-]*)?(?:\?[\w./~%:@!$&'()*+,;=?-]*)?", re.ASCII)
"""Where somebody may be sent after signing in: nowhere else than to a page."""


def add_sign_in(router: APIRouter, room: Room, sessions: Sessions) -> None:
    """Add the routes of sessions."""

    @router.get(SIGN_IN)
    def ask(request: Request) -> Response:
        return _form(room, request, request.query_params.get("next", ""), None)

    @router.post(SIGN_IN)
    async def sign_in(request: Request, form: Written) -> Response:
        asked = form.text("next")
        try:
            token = await sessions.begin(form.text("key"), request.client.host if request.client else "local")
        except Unauthorized:
            wrong = "This is no key that works: it is mistyped, or was revoked, or has expired."
            return _form(room, request, asked, wrong, HTTPStatus.UNAUTHORIZED)
        except TooManyRequests as problem:
            response = _form(room, request, asked, f"Try again in a minute: {problem.detail}.", problem.status)
            response.headers["Retry-After"] = problem.headers["Retry-After"]
            return response
        path, _, query = (asked if _OURS.fullmatch(asked) else PAGES).partition("?")
        response = room.redirect(request.scope, path)
        if query:
            response.headers["Location"] += f"?{query}"
        room.set_cookie(request.scope, response, COOKIE, token, sessions.seconds)
        return response

    @router.post("/ui/sign-out")
    async def sign_out(request: Request, caller: Reader, form: Written) -> Response:
        if form.text("everywhere"):
            await to_thread.run_sync(sessions.end_all, caller)
        token = cookie(request.scope, COOKIE)
        if token is not None:
            await to_thread.run_sync(sessions.end, token)
        response = room.redirect(request.scope, SIGN_IN)
        room.forget_session(response)
        return response


def _form(room: Room, request: Request, asked: str, wrong: str | None, status: int = HTTPStatus.OK) -> Response:
    host = request.url.hostname or ""
    keeps_cookies = request.url.scheme == "https" or host in ("localhost", "127.0.0.1", "::1")
    shown = {"next": asked if _OURS.fullmatch(asked) else "", "wrong": wrong, "keeps_cookies": keeps_cookies}
    return room.page(request.scope, "sign_in.html", status, title="Sign in", **shown)
