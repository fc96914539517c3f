"""``/models`` and ``/aliases``."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path

from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, Limit, problems
from service.models.schemas import (
    Alias,
    AliasPage,
    Curve,
    Model,
    ModelSummary,
    PrecisionRecallCurve,
    PutAlias,
    RocCurve,
)
from service.models.service import AliasService, ModelService
from service.schemas import AliasName, Page

CurveKind = Annotated[Literal["pr", "roc"], Path(description="`pr`: precision and recall; `roc`: the two rates.")]


def models_router(models: ModelService) -> APIRouter:
    """Return the routes of models."""
    router = APIRouter(prefix="/models", tags=["models"], route_class=JsonRoute)

    @router.get("", operation_id="listModels", responses=problems(422))
    def list_(limit: Limit = 20, cursor: CursorText = None) -> Page[ModelSummary]:
        """List models, newest first."""
        return models.list(cursor, limit)

    @router.get("/{model_id}", operation_id="getModel", responses=problems(404, 422))
    def get(model_id: str) -> Model:
        """Show a model: what was asked, what it reached (with intervals), how, and what it cost."""
        return models.get(model_id)

    @router.get(
        "/{model_id}/curves/{kind}", operation_id="getModelCurve", response_model=Curve, responses=problems(404, 422)
    )
    def curve(model_id: str, kind: CurveKind) -> PrecisionRecallCurve | RocCurve:
        """Show what other thresholds would have given on the calibration rows."""
        return models.curve(model_id, kind)

    @router.delete("/{model_id}", operation_id="deleteModel", status_code=204, responses=problems(404, 409, 422))
    def delete(model_id: str) -> None:
        """Delete a model that no alias points at."""
        models.delete(model_id)

    return router


def aliases_router(aliases: AliasService) -> APIRouter:
    """Return the routes of aliases."""
    router = APIRouter(prefix="/aliases", tags=["aliases"], route_class=JsonRoute)

    @router.get("", operation_id="listAliases", responses=problems(422))
    def list_(limit: Limit = 20, cursor: CursorText = None) -> AliasPage:
        """List aliases by name."""
        return aliases.list(cursor, limit)

    @router.put("/{name}", operation_id="putAlias", responses=problems(413, 415, 422))
    def put(name: AliasName, body: PutAlias) -> Alias:
        """Point a name at a model. The history is kept."""
        return aliases.put(name, body.model)

    @router.post("/{name}/rollback", operation_id="rollbackAlias", responses=problems(404, 409, 422))
    def roll_back(name: str) -> Alias:
        """Point a name at the model that it pointed at before; doing it again goes further back."""
        return aliases.roll_back(name)

    return router
