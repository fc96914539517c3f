"""``/predict``."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Response

from service.api.access import Reader
from service.api.json_body import JsonRoute
from service.api.parameters import problems
from service.predictions.schemas import PredictAnswer, PredictRequest
from service.predictions.service import PredictionService


def predictions_router(predictions: PredictionService) -> APIRouter:
    """Return the route of predictions."""
    router = APIRouter(tags=["predictions"], route_class=JsonRoute)

    @router.post(
        "/predict", operation_id="predict", response_model=PredictAnswer, responses=problems(404, 413, 415, 422)
    )
    async def predict(caller: Reader, body: PredictRequest) -> Response:
        """Decide on rows. Columns go by name: a missing one is an error, an extra one is ignored with a warning."""
        return Response(orjson.dumps(await predictions.predict(caller.project_id, body)), media_type="application/json")

    return router
