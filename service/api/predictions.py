"""``/predict``."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from service.api.access import Reader, RequiresScope
from service.api.headers import header
from service.api.json_body import parse_body, read_limited, until_gone
from service.api.parameters import problems
from service.errors import InvalidRequest
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.predictions.deciding import Decisions
from service.predictions.schemas import MAX_NAME, MOST_EXPLAINED, PredictAnswer, PredictRequest, model_and_rows
from service.predictions.service import PredictionService

RAW_MAIL = {
    "parameters": [
        {
            "name": "model",
            "in": "query",
            "required": False,
            "description": "Id of a model, or an alias: of a message/rfc822 body.",
            "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
        },
        {
            "name": "explain",
            "in": "query",
            "required": False,
            "description": "As `explain` of a JSON body: of a message/rfc822 body.",
            "schema": {"type": "integer", "minimum": 1, "maximum": MOST_EXPLAINED},
        },
    ],
    "requestBody": {
        "content": {
            "message/rfc822": {
                "schema": {"type": "string", "format": "binary"},
                "example": "From: shop@example.com\r\nSubject: Last chance\r\n\r\nOnly today!\r\n",
            }
        }
    },
}
"""What the OpenAPI document says of a mail as the body."""


def predictions_router(predictions: PredictionService, max_body_bytes: int) -> APIRouter:
    """Return the route of predictions, which needs nothing of FastAPI: see `service.api.predict_shortcut`."""
    may_read = RequiresScope("read")

    class PredictRoute(APIRoute):
        """Documented as any other route, but caller and body are read here: FastAPI's way costs more than deciding."""

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Serve a request whose path is this route's."""
            if scope["method"] not in (self.methods or ()):
                await super().handle(scope, receive, send)
                return
            request = Request(scope, receive)
            caller = may_read.admit(scope)
            content_type = header(scope, b"content-type")
            of_mail = is_mail(content_type)
            with predictions.memory(of_mail=of_mail) as memory:
                limit = min(max_body_bytes, MAX_MESSAGE_BYTES) if of_mail else max_body_bytes
                raw = await read_limited(request, limit, memory.grow)
                if of_mail:
                    name = _named_model(request)
                    explain = _explain(request)
                    made, _ = await predictions.predict_mail(
                        caller.project_id, name, raw, until_gone(request), explain=explain
                    )
                    response = _answer(made)
                else:
                    value = parse_body(raw, content_type)
                    plain = model_and_rows(value)
                    if plain is not None:
                        made = await predictions.predict_rows(caller.project_id, *plain, until_gone(request))
                        response = _answer(made)
                    else:
                        response = await self.endpoint(caller, _checked(value), request)
            await response(scope, receive, send)

    router = APIRouter(tags=["predictions"], route_class=PredictRoute)

    @router.post(
        "/predict",
        operation_id="predict",
        response_model=PredictAnswer,
        responses=problems(404, 409),
        openapi_extra=RAW_MAIL,
    )
    async def predict(caller: Reader, body: PredictRequest, request: Request) -> Response:
        """Decide on rows. Columns go by name: a missing one is an error, an extra one is ignored with a warning.

        A model of one column of text also takes `texts`; one of mails also takes `messages`, or one message as it is:
        as a body of the type message/rfc822, with the model in the query.

        A moved alias, another operating point or a deleted model takes effect at once in the process that did it, and
        within half a second in every other one.

        With `explain` each decision says what weighed most in it, and which labelled rows are like it.

        A model that encodes texts needs the encoder that it was trained with: 503 while that is away, 409 where it is
        another one by now.
        """
        return _answer(await predictions.predict(caller.project_id, body, until_gone(request)))

    return router


def is_mail(content_type: str) -> bool:
    """Tell whether a Content-Type is that of a mail message."""
    return content_type.partition(";")[0].strip().lower() == "message/rfc822"


def _answer(made: Decisions) -> Response:
    return Response(orjson.dumps(made), media_type="application/json")


def _named_model(request: Request) -> str:
    name = request.query_params.get("model", "")
    if not 0 < len(name) <= MAX_NAME:
        raise InvalidRequest.of(
            "query.model", f"should name the model for a message/rfc822 body, in 1 to {MAX_NAME} characters"
        )
    return name


def _explain(request: Request) -> int | None:
    all_given = request.query_params.getlist("explain")
    if not all_given:
        return None
    if len(all_given) > 1:
        raise InvalidRequest.of("query.explain", "should be given once")
    given = all_given[0]
    if not (given.isascii() and given.isdigit() and len(given) <= 3 and 1 <= int(given) <= MOST_EXPLAINED):
        raise InvalidRequest.of("query.explain", f"should be a whole number from 1 to {MOST_EXPLAINED}")
    return int(given)


def _checked(value: Any) -> PredictRequest:
    try:
        return PredictRequest.model_validate(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**item, "loc": ("body", *item["loc"])} for item in errors]) from None
