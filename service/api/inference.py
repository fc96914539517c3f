"""``/v2``: the Open Inference Protocol, over REST. A model's name is its id or an alias, its version always its id."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.requests import Request as StarletteRequest

from service.api.access import Reader
from service.api.json_body import JsonRoute, until_gone
from service.api.problem import INFERENCE_PATH, invalid_request
from service.errors import InvalidRequest, Problem
from service.models.errors import ModelNotFound
from service.predictions.budget import HeldMemory
from service.predictions.deciding import ReadyModel
from service.predictions.service import PredictionService
from service.predictions.tensors import (
    PLATFORM,
    InferAnswer,
    InferRequest,
    ModelMetadata,
    describe,
    explain_of,
    rows_of,
    tensors_of,
)
from service.readiness import Readiness


class InferenceError(BaseModel):
    """How the protocol says what was wrong."""

    error: str


class Live(BaseModel):
    """The process answers."""

    live: bool = True


class ServerReady(BaseModel):
    """Whether requests can be served."""

    ready: bool


class ModelReady(BaseModel):
    """The model can be asked."""

    name: str
    ready: bool = True


class ServerMetadata(BaseModel):
    """Who serves."""

    name: str = PLATFORM
    version: str
    extensions: list[str] = Field(default=[], description="None.")


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error answers of a call for its documentation."""
    reasons = {
        400: "The request cannot be used",
        404: "There is no such model",
        409: "The encoder of its texts is another one than the model was trained with",
        413: "Too large",
        415: "Not a type that this call takes",
        503: "A part that the call needs is away, or there is too much at once",
    }
    return {status: {"description": reasons[status], "model": InferenceError} for status in (*statuses, 503)}


def inference_router(predictions: PredictionService, readiness: Readiness) -> APIRouter:
    """Return the routes of the protocol."""

    class InferenceRoute(JsonRoute):
        """Takes memory for the body from the same budget as ``/predict``, and words errors as the protocol does."""

        def get_route_handler(self) -> Callable[[StarletteRequest], Coroutine[Any, Any, Response]]:
            """Return the handler of the route."""
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    return await handle(request)
                except Problem as problem:
                    return _error(problem)
                except RequestValidationError as error:
                    return _error(invalid_request(error))

            return guarded

        def memory(self, _: Request) -> HeldMemory:
            """Return where the memory for the body of a request is held."""
            return predictions.memory()

    router = APIRouter(prefix=INFERENCE_PATH, tags=["open inference protocol"], route_class=InferenceRoute)

    @router.get("/health/live", operation_id="getServerLive")
    async def live() -> Live:
        """Answer. Touches nothing."""
        return Live()

    @router.get("/health/ready", operation_id="getServerReady", responses={503: {"model": ServerReady}})
    async def ready(response: Response) -> ServerReady:
        """Tell whether requests can be served; `GET /readyz` says what is away."""
        is_ready = (await readiness.report()).ready
        response.status_code = 200 if is_ready else 503
        return ServerReady(ready=is_ready)

    @router.get("", operation_id="getServerMetadata", responses=errors())
    async def server(_: Reader) -> ServerMetadata:
        """Say who serves."""
        return ServerMetadata(version=importlib.metadata.version("prefsvm"))

    @router.get("/models/{name}", operation_id="getInferenceModel", responses=errors(404))
    async def model(caller: Reader, name: str) -> ModelMetadata:
        """Say what a model takes and gives.

        A model of numbers only takes one tensor of all its columns in order; every model takes one tensor a column.
        """
        found = await predictions.ready(caller.project_id, name)
        return describe(name, found.model_id, found.model)

    @router.get("/models/{name}/versions/{version}", operation_id="getInferenceModelVersion", responses=errors(404))
    async def model_version(caller: Reader, name: str, version: str) -> ModelMetadata:
        """Say what a version of a model takes and gives."""
        found = await of_version(caller.project_id, name, version)
        return describe(name, found.model_id, found.model)

    @router.get("/models/{name}/ready", operation_id="getInferenceModelReady", responses=errors(404, 409))
    async def model_ready(caller: Reader, name: str) -> ModelReady:
        """Make a model ready, and say so."""
        await predictions.check_ready(await predictions.ready(caller.project_id, name))
        return ModelReady(name=name)

    @router.get(
        "/models/{name}/versions/{version}/ready",
        operation_id="getInferenceModelVersionReady",
        responses=errors(404, 409),
    )
    async def version_ready(caller: Reader, name: str, version: str) -> ModelReady:
        """Make a version of a model ready, and say so."""
        await predictions.check_ready(await of_version(caller.project_id, name, version))
        return ModelReady(name=name)

    @router.post(
        "/models/{name}/infer",
        operation_id="infer",
        response_model=InferAnswer,
        response_model_exclude_none=True,
        responses=errors(400, 404, 409, 413, 415),
    )
    async def infer(caller: Reader, name: str, body: InferRequest, request: Request) -> Response:
        """Decide on rows. Outputs are `label`, `score`, `probability` if it has one, `explanation` if asked for.

        Inputs are one tensor a column, by name, or one tensor of all columns in their order. Text is BYTES.
        """
        return await answer(await predictions.ready(caller.project_id, name), name, body, request)

    @router.post(
        "/models/{name}/versions/{version}/infer",
        operation_id="inferVersion",
        response_model=InferAnswer,
        response_model_exclude_none=True,
        responses=errors(400, 404, 409, 413, 415),
    )
    async def infer_version(caller: Reader, name: str, version: str, body: InferRequest, request: Request) -> Response:
        """Decide on rows by the version that is named; it must be the one that the name means now."""
        return await answer(await of_version(caller.project_id, name, version), name, body, request)

    async def of_version(project_id: str, name: str, version: str) -> ReadyModel:
        found = await predictions.ready(project_id, name)
        if found.model_id != version:
            raise ModelNotFound("the name does not mean this version")
        return found

    async def answer(found: ReadyModel, name: str, body: InferRequest, request: Request) -> Response:
        rows = rows_of(found.model, body.inputs)
        predictions.check_rows(len(rows), "inputs")
        explain = explain_of(body)
        made = await predictions.decide(found, rows, "inputs", len(rows), until_gone(request), explain=explain)
        tensors = tensors_of(made, body, name)
        return Response(orjson.dumps(tensors.model_dump(exclude_none=True)), media_type="application/json")

    return router


def _error(problem: Problem) -> Response:
    status = 400 if isinstance(problem, InvalidRequest) else problem.status
    return Response(
        orjson.dumps({"error": problem.detail}),
        status_code=status,
        headers=problem.headers,
        media_type="application/json",
    )
