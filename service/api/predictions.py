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
from service.api.json_body import read_json
from service.api.parameters import problems
from service.predictions.schemas import PredictAnswer, PredictRequest
from service.predictions.service import PredictionService


def predictions_router(predictions: PredictionService) -> APIRouter:
    """Return the route of predictions. `service.app` does not include it but takes its route as it is."""
    may_read = RequiresScope("read")

    class PredictRoute(APIRoute):
        """Documented as any other route, but caller and body are read here: FastAPI's way costs more than deciding."""

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Serve a request whose path is this route's."""
            if scope["method"] not in (self.methods or ()):
                await super().handle(scope, receive, send)
                return
            request = Request(scope, receive)
            caller = await may_read(request)
            with predictions.room() as room:
                body = _checked(await read_json(request, room.grow))
                response: Response = await self.endpoint(caller, body)
            await response(scope, receive, send)

    router = APIRouter(tags=["predictions"], route_class=PredictRoute)

    @router.post(
        "/predict", operation_id="predict", response_model=PredictAnswer, responses=problems(404, 413, 415, 422)
    )
    async def predict(caller: Reader, body: PredictRequest) -> Response:
        """Decide on rows. Columns go by name: a missing one is an error, an extra one is ignored with a warning.

        A moved alias, another operating point or a deleted model takes effect at once in the process that did it, and
        within half a second in every other one.
        """
        return Response(orjson.dumps(await predictions.predict(caller.project_id, body)), media_type="application/json")

    return router


def _checked(value: Any) -> PredictRequest:
    try:
        return PredictRequest.of(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**item, "loc": ("body", *item["loc"])} for item in errors]) from None
