"""Every error as RFC 9457 ``application/problem+json``. No answer repeats a value that was sent."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service.api.logs import request_id
from service.db.session import AWAY, is_disk_full, trouble_of
from service.errors import FieldError, InvalidRequest, NotFound, Problem, StorageFull
from service.leaving import ClientGone

logger = logging.getLogger("prefsvm.api")

MEDIA_TYPE = "application/problem+json"
INFERENCE_PATH = "/v2"
TYPE_PREFIX = "urn:prefsvm:problem:"
MAX_FIELD_ERRORS = 20
MAX_FIELD_LENGTH = 120


class MalformedRequest(Problem, type="malformed-request", title="Malformed request", status=400):
    """The request breaks the rules of HTTP or of multipart."""


class NoSuchRoute(NotFound, type="no-such-route", title="No such route"):
    """No call has this path."""


class MethodNotAllowed(Problem, type="method-not-allowed", title="Method not allowed", status=405):
    """The path exists, but not with this method."""


class NotAcceptable(Problem, type="not-acceptable", title="Not acceptable", status=406):
    """The answer exists, but in none of the forms that the Accept header asks for."""


class ContentTooLarge(Problem, type="content-too-large", title="Content too large", status=413):
    """The body is larger than this installation takes."""


class BodyStalled(Problem, type="request-timeout", title="Request timeout", status=408):
    """The client stopped sending in the middle of a body."""


class HeadTooLong(Problem, type="head-too-long", title="Head too long", status=431):
    """The request line and the headers together are too long."""


class UnsupportedMediaType(Problem, type="unsupported-media-type", title="Unsupported media type", status=415):
    """The body has a Content-Type that this call does not take."""


class InvalidJson(InvalidRequest, type="invalid-json", title="Invalid JSON"):
    """The body is not JSON: it does not parse, is not UTF-8, is too deep, or holds NaN or an infinite number."""


class InternalError(Problem, type="internal-error"):
    """A defect of the service. The log has the details under the request id."""


class Unavailable(Problem, type="unavailable", title="Temporarily unavailable", status=503, retry_after=2):
    """A part that the call needs is away for now. The same request can be sent again, with its Idempotency-Key."""


class FieldErrorBody(BaseModel):
    """One field at fault."""

    field: str = Field(examples=["body.objective.target"])
    message: str = Field(examples=["Input should be less than or equal to 1"])


class ProblemBody(BaseModel):
    """RFC 9457 problem details. Some types have further members, such as the line of a file."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Stable: programs may compare it.", examples=["urn:prefsvm:problem:invalid-request"])
    title: str = Field(examples=["Invalid request"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["body.objective.target: Input should be less than or equal to 1"])
    request_id: str = Field(description="Also in the X-Request-ID header and in the log.")
    errors: list[FieldErrorBody] = Field(default=[], description="The fields at fault, at most 20 of them.")


def problem_response(problem: Problem) -> Response:
    """Return the HTTP answer for a problem."""
    body = ProblemBody(
        type=TYPE_PREFIX + problem.type,
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        request_id=request_id.get(),
        errors=[FieldErrorBody(field=e.field, message=e.message) for e in problem.errors[:MAX_FIELD_ERRORS]],
        **problem.extensions,
    )
    return Response(
        orjson.dumps(body.model_dump()), status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE
    )


def add_handlers(app: FastAPI) -> None:
    """Make every error of `app` answer with problem+json."""
    for error in (Problem, RequestValidationError, HTTPException, ClientDisconnect, ClientGone, *AWAY):
        app.add_exception_handler(error, _on_error)


def _on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and _is_put_file(request, error):
        message = "a file is sent with POST /datasets: curl does that with `-F file=@FILE`, and not with `-T`"
        return problem_response(MethodNotAllowed(message, headers=error.headers))
    response = error_response(error)
    assert response is not None  # noqa: S101 (registered for these types)
    return as_called(request.scope, response)


def _is_put_file(request: Request, error: HTTPException) -> bool:
    """Tell whether this is what `curl -T` makes of an upload; to `/datasets/` it appends the name of the file."""
    is_method = error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and request.method == "PUT"
    return is_method and request.url.path.startswith("/datasets")


def as_called(scope: Scope, response: Response) -> Response:
    """Return a problem with a member ``error``, too, for callers of the Open Inference Protocol, who look for that."""
    path: str = scope["path"]
    if not (path == INFERENCE_PATH or path.startswith(f"{INFERENCE_PATH}/")) or response.media_type != MEDIA_TYPE:
        return response
    body = orjson.loads(response.body)
    headers = {name: value for name, value in response.headers.items() if not name.startswith("content-")}
    content = orjson.dumps(body | {"error": body["detail"]})
    return Response(content, status_code=response.status_code, headers=headers, media_type=MEDIA_TYPE)


def error_response(error: Exception) -> Response | None:
    """Return the answer to a request that ended with an error; None if it is a defect of the service."""
    match error:
        case Problem():
            return problem_response(error)
        case RequestValidationError():
            return problem_response(invalid_request(error))
        case HTTPException():
            return _http_error(error)
        case ClientDisconnect() | ClientGone():
            # Nobody is there to read it; the status is for the access log.
            return Response(status_code=499)
    return database_away(error) if isinstance(error, AWAY) else None


def invalid_request(error: RequestValidationError) -> InvalidRequest:
    """Return the problem of a request that does not fit its schema."""
    errors = [_field_error(item) for item in error.errors()[:MAX_FIELD_ERRORS]]
    detail = f"{errors[0].field}: {errors[0].message}" if errors else "the request does not fit the schema"
    if len(error.errors()) > 1:
        detail += f" (and {len(error.errors()) - 1} more)"
    return InvalidRequest(detail, errors=errors)


def _http_error(error: HTTPException) -> Response:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem_response(NoSuchRoute("no call has this path"))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return problem_response(MethodNotAllowed("this path does not take this method", headers=error.headers))
    if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem_response(MalformedRequest("the request could not be read"))
    return problem_response(InternalError("the service failed"))


def database_away(error: Exception) -> Response:
    """Return the answer to a request that needed the database while that was away, or had no room."""
    logger.warning(trouble_of(error))
    if is_disk_full(error):
        return problem_response(StorageFull("the disk of the database is full; it has to be given room"))
    return problem_response(Unavailable("the database does not answer; try again"))


def without_descriptors(error: BaseException | None) -> Response | None:
    """Return the answer to a request that failed because the process or the machine has no file descriptor left."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            logger.warning("no file descriptor is left")
            return problem_response(Unavailable("as many files and connections are open as may be; try again"))
        error = error.__cause__ or error.__context__
    return None


_BRANCH = re.compile(r"(?:function-\w+|list|dict|literal|nullable)\[.*\]", re.DOTALL)
"""What pydantic calls one of several forms that a value may have, by the types and functions of its program."""


def _field_error(item: Mapping[str, Any]) -> FieldError:
    return FieldError(field_path(item["loc"]), _message(item))


def field_path(location: Sequence[str | int]) -> str:
    """Join a location to a path, cut to a length that cannot be used to send the request back."""
    named = [part for part in location if not (isinstance(part, str) and _BRANCH.fullmatch(part))]
    path = ".".join(str(part)[:MAX_FIELD_LENGTH] for part in named[:8])
    return path if len(path) <= MAX_FIELD_LENGTH else path[: MAX_FIELD_LENGTH - 1] + "…"


def _message(item: Mapping[str, Any]) -> str:
    """Return pydantic's message, except where that would repeat what was sent."""
    context = item.get("ctx", {})
    match item["type"]:
        case "union_tag_invalid":
            return f"{context.get('discriminator')} should be one of {context.get('expected_tags')}"
        case "value_error":
            return str(context.get("error", "the value cannot be used"))
        case _:
            return str(item["msg"])
