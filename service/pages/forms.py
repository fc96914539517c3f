"""What forms send, and that a page of ours has sent it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header

from service.access.errors import FormTokenNeeded
from service.access.sessions import VISIT_COOKIE, is_form_token
from service.api.cookies import cookie
from service.api.json_body import read_limited
from service.api.problem import MalformedRequest, UnsupportedMediaType, invalid_request
from service.api.uploads import FIELDS, MAX_PARTS, MultipartUpload
from service.datasets.service import UploadDetails
from service.errors import InvalidRequest, Problem

TOKEN = "form_token"  # noqa: S105 (the name of a field)
MOST_FORM_BYTES = 1 << 20
MOST_FIELDS = 1000
FORM = "application/x-www-form-urlencoded"
NO_QUOTE = "none"
"""Of the menu of quotes: they are characters like others."""
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("encoding", "delimiter", "decimal", "thousands", "escape"), str),
    "header": lambda said: {"true": True, "false": False}.get(said, said),
    "quote": lambda said: None if said == NO_QUOTE else said,
    "trim": lambda said: {"true": True, "false": False}.get(said, said),
    "missing": lambda said: [word for each in said.split(",") if (word := each.strip())],
}
"""Options of the format that have a field of their own in the form of an upload, and what the call makes of it."""


class Form:
    """The fields of a form, by name."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return a field without blanks around it; empty if it was not sent."""
        return self.exact(name).strip()

    def exact(self, name: str) -> str:
        """Return a field as it was sent."""
        return next((value for each, value in self._fields if each == name), "")

    def all(self, name: str) -> list[str]:
        """Return what all fields of a name hold."""
        return [value for each, value in self._fields if each == name]

    def named(self, prefix: str) -> dict[str, str]:
        """Return the fields whose names begin so, by the rest of the name."""
        return {each.removeprefix(prefix): value for each, value in self._fields if each.startswith(prefix)}


async def _written(request: Request) -> Form:
    """Read a form; raises `FormTokenNeeded` unless a page of ours has sent it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise UnsupportedMediaType("this page takes what its form sends")
    form = parsed(await read_limited(request, MOST_FORM_BYTES))
    check_token(request, form.exact(TOKEN))
    return form


BUTTON = Depends(_written)
"""For the route of a button, whose form holds nothing else."""
Written = Annotated[Form, Depends(_written)]
"""What a page's own form has sent. Every write takes this, or an `UploadForm`; a test goes through the routes."""


def parsed(raw: bytes) -> Form:
    """Return the fields of a query, or of a body like one."""
    try:
        text = raw.decode()
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise MalformedRequest("the form could not be read") from None
    if any("\0" in part for field in fields for part in field):
        raise MalformedRequest("a field holds the character NUL, which cannot be stored")
    return Form(fields)


def whole(form: Form, name: str, most: int, usual: int | None = None) -> int:
    """Return a whole number from 0 to `most`, or what is usual where nothing was sent; raises `InvalidRequest`."""
    said = form.text(name)
    if not said and usual is not None:
        return usual
    if not (said.isascii() and said.isdecimal() and len(said) < 20) or int(said) > most:
        raise InvalidRequest.of(f"form.{name}", f"should be a whole number from 0 to {most:,}")
    return int(said)


def number_of(text: str) -> float | None:
    """Return the number that a field holds, with a point or a comma before what is not whole; None: it is none."""
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def number(form: Form, name: str, scale: float = 1.0) -> float:
    """Return the number that a field holds, times `scale`; raises `InvalidRequest`."""
    value = number_of(form.text(name))
    if value is None:
        raise InvalidRequest.of(f"form.{name}", "should be a number")
    return round(value * scale, 9)


def as_invalid(error: ValidationError) -> Problem:
    """Return what is wrong with what was made of a form."""
    return invalid_request(RequestValidationError([{**each, "loc": ("form", *each["loc"])} for each in error.errors()]))


def check_token(request: Request, said: str) -> None:
    """Raise `FormTokenNeeded` unless a page of ours, in this browser, has sent what `said` is from."""
    if not is_form_token(said, cookie(request.scope, VISIT_COOKIE)):
        raise FormTokenNeeded("the form does not say that a page of this service has sent it: load the page again")


class UploadForm(MultipartUpload):
    """A form with a file. Its token comes before the file, and is looked at before the first byte is kept."""

    fields = (*FIELDS, *OPTIONS, TOKEN)
    most_parts = MAX_PARTS + len(OPTIONS)  # a browser sends a part for each field, empty ones too

    def __init__(self, request: Request) -> None:
        kind, parameters = parse_options_header(request.headers.get("content-type", ""))
        if kind != b"multipart/form-data":
            raise UnsupportedMediaType("this page takes what its form sends")
        super().__init__(request, parameters.get(b"boundary", b""))
        self._request = request

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file; raises `FormTokenNeeded`."""
        async for data in super().chunks():
            self._check()
            yield data
        self._check()

    def details(self) -> UploadDetails:
        """Return what was said about the file; an option whose field was left empty is the reader's to guess."""
        details = super().details()
        said = {name: bytes(self._fields.get(name, b"")).decode("utf-8", "replace") for name in OPTIONS}
        return replace(
            details, options=details.options | {name: OPTIONS[name](value) for name, value in said.items() if value}
        )

    def _check(self) -> None:
        said: Any = self._fields.get(TOKEN, b"")
        check_token(self._request, said.decode("latin-1"))


async def _upload(request: Request) -> UploadForm:
    return UploadForm(request)


WrittenFile = Annotated[UploadForm, Depends(_upload)]
