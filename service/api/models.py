"""``/models`` and ``/aliases``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.negotiation import choose_form
from service.api.parameters import CursorText, Limit, problems
from service.labelling.schemas import LabellingQueue, QueuePurpose
from service.labelling.service import QueueService
from service.models.curves import AnyCurve, Costs, CurveName
from service.models.exports import ExportFormat, ExportService
from service.models.html_report import POLICY
from service.models.pictures import draw
from service.models.schemas import (
    Alias,
    AliasPage,
    AliasWithHistory,
    ChooseOperatingPoint,
    ClassesDrift,
    ClassesOperatingPoint,
    Curve,
    Drift,
    Model,
    ModelSummary,
    MulticlassModel,
    OperatingPoint,
    PutAlias,
    Shadow,
    Thresholds,
)
from service.models.service import AliasService, ModelService
from service.schemas import AliasName, Page

ModelName = Annotated[str, Path(description="Id of a model, or an alias: of what it points at now.")]
CurveKind = Annotated[
    CurveName,
    Path(description="`pr`: precision and recall; `roc`: the two rates; `cost`: the mean cost of a row."),
]
CostParameter = Annotated[
    float | None,
    Query(gt=0, le=1e12, description="Cost; that of the objective, else 1, where it is not given."),
]
OfClass = Annotated[
    str | None, Query(alias="class", max_length=256, description="Which class: needed where there are several.")
]
Days = Annotated[int, Query(ge=1, le=366)]
Purpose = Annotated[
    QueuePurpose,
    Query(
        description="`improve`: unlabelled rows, half of them drawn at random, half those that teach the model most. "
        "`suspicious`: labelled rows whose label models that have not seen it think unlikely. `mistakes`: those of "
        "them that the threshold in use calls otherwise (of two classes)."
    ),
]
HowMany = Annotated[int, Query(ge=1, le=100, description="Rows, at most.")]
OfDataset = Annotated[
    str | None, Query(alias="dataset", max_length=100, description="The one that the model was trained on, if given.")
]
FormatParameter = Annotated[ExportFormat, Query(alias="format")]
Accept = Annotated[str, Header(max_length=1000, include_in_schema=False)]
PICTURES: dict[str, Any] = {
    "image/svg+xml": {"schema": {"type": "string"}},
    "image/png": {"schema": {"type": "string", "contentMediaType": "image/png"}},
}
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
REPORT_POLICY = f"{POLICY}; frame-ancestors 'none'; sandbox"

EXPORT_CONTENT = {
    kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("application/octet-stream", "text/plain")
}


class MarkdownResponse(PlainTextResponse):
    """Text in Markdown."""

    media_type = "text/markdown"


def models_router(models: ModelService, exports: ExportService, queues: QueueService) -> APIRouter:
    """Return the routes of models."""
    router = APIRouter(prefix="/models", tags=["models"], route_class=JsonRoute)

    @router.get("", operation_id="listModels")
    def list_(caller: Reader, limit: Limit = 20, cursor: CursorText = None) -> Page[ModelSummary]:
        """List models, newest first."""
        return models.list(caller.project_id, cursor, limit)

    @router.get("/{model_id}", operation_id="getModel", responses=problems(404))
    def get(caller: Reader, model_id: ModelName) -> Model | MulticlassModel:
        """Show a model: what was asked, what it reached (with intervals), how, and what it cost.

        One of several classes has their confusion matrix and the figures of each in its report, and no threshold.
        """
        return models.get_any(caller.project_id, model_id)

    @router.get(
        "/{model_id}/curves/{kind}",
        operation_id="getModelCurve",
        response_model=Curve,
        responses={200: {"content": PICTURES}, **problems(404, 406)},
    )
    def curve(
        caller: Reader,
        model_id: ModelName,
        kind: CurveKind,
        response: Response,
        accept: Accept = "*/*",
        false_negative: CostParameter = None,
        false_positive: CostParameter = None,
        label: OfClass = None,
    ) -> AnyCurve | Response:
        """Show what other thresholds would have given on the calibration rows: as numbers, or by `Accept` as a picture.

        The point in use is marked, with its intervals. Of several classes each has its own, against all others.
        """
        form = choose_form(accept, ("application/json", *PICTURES))
        response.headers["Vary"] = "Accept"
        found = models.curve(caller.project_id, model_id, kind, Costs(false_negative, false_positive), label)
        if form == "application/json":
            return found
        return Response(
            draw(found, "svg" if form == "image/svg+xml" else "png"),
            media_type=form,
            headers={"Content-Security-Policy": PICTURE_POLICY, "Vary": "Accept"},
        )

    @router.get("/{model_id}/thresholds", operation_id="getModelThresholds", responses=problems(404))
    def thresholds(
        caller: Reader,
        model_id: ModelName,
        false_negative: CostParameter = None,
        false_positive: CostParameter = None,
    ) -> Thresholds:
        """Show what each threshold would give, with intervals, and how the scores of both classes are spread."""
        return models.thresholds(caller.project_id, model_id, Costs(false_negative, false_positive))

    @router.post("/{model_id}/operating-points", operation_id="chooseOperatingPoint", responses=problems(404))
    def choose(
        caller: Writer, model_id: ModelName, body: ChooseOperatingPoint
    ) -> OperatingPoint | ClassesOperatingPoint:
        """Choose the threshold for another objective without training. With `apply` the model decides by it at once.

        Of several classes a rule is chosen, on the left-out rows of the training, as a training with that objective
        would.

        What a `confidence` promises holds for an objective that was not chosen by looking at the model's curves, and
        only models that were trained with a confidence can promise anything (or `svm` with `labeled_split: part`);
        `"certificate": "strict"` only those whose own certificate is strict.
        """
        return models.choose(caller.project_id, model_id, body)

    @router.get("/{model_id}/operating-points", operation_id="listOperatingPoints", responses=problems(404))
    def applied_points(
        caller: Reader, model_id: ModelName, limit: Limit = 20, cursor: CursorText = None
    ) -> Page[OperatingPoint | ClassesOperatingPoint]:
        """List the operating points that were applied to a model, newest first. Without any the trained one decides."""
        return models.applied_points(caller.project_id, model_id, cursor, limit)

    @router.get("/{model_id}/drift", operation_id="getModelDrift", responses=problems(404))
    def drift(caller: Reader, model_id: ModelName, days: Days = 7) -> Drift | ClassesDrift:
        """Show how the rows of the last days of UTC, today among them, differ from those of the training.

        Of several classes each has its share.
        """
        return models.drift(caller.project_id, model_id, days)

    @router.get("/{model_id}/queue", operation_id="getModelQueue", responses=problems(404, 409))
    def queue(
        caller: Reader, model_id: ModelName, purpose: Purpose = "improve", n: HowMany = 20, dataset: OfDataset = None
    ) -> LabellingQueue:
        """Show which rows of its data set to label next, and why; or which labels to look at again.

        The lists are those of the training; labels come in as feedback.
        """
        return queues.next(caller.project_id, model_id, purpose, n, dataset)

    @router.get(
        "/{model_id}/export",
        operation_id="exportModel",
        response_class=StreamingResponse,
        responses={200: {"content": EXPORT_CONTENT}, **problems(404)},
    )
    def export(caller: Reader, model_id: ModelName, form: FormatParameter = "safetensors") -> StreamingResponse:
        """Download a model with the threshold in use.

        `safetensors`: the model file, which `solver.model_file` reads. `onnx`: raw columns in, label and score out, for
        onnxruntime and whatever else runs ONNX; a model of free text or dates has no such form. `libsvm`: a model for
        LIBSVM's `svm-predict`, whose label 1 is the positive class; it takes the model's features (scaled and encoded),
        not raw columns.
        """
        found = exports.export(caller.project_id, model_id, form)
        headers = {"Content-Disposition": f'attachment; filename="{found.file_name}"', **found.headers}
        return StreamingResponse(found.pieces, media_type=found.media_type, headers=headers)

    @router.get(
        "/{model_id}/card", operation_id="getModelCard", response_class=MarkdownResponse, responses=problems(404)
    )
    def card(caller: Reader, model_id: ModelName) -> str:
        """Show the model card: what was asked, what was reached, controls, data, warnings; Markdown for people."""
        return exports.card(caller.project_id, model_id)

    @router.get(
        "/{model_id}/report.html",
        operation_id="getModelReport",
        response_class=HTMLResponse,
        responses=problems(404),
    )
    def report(caller: Reader, model_id: ModelName) -> HTMLResponse:
        """Show a report for people as one HTML file to send: no scripts, nothing is loaded, two pages in print."""
        headers = {"Content-Security-Policy": REPORT_POLICY, "Referrer-Policy": "no-referrer"}
        return HTMLResponse(exports.report(caller.project_id, model_id), headers=headers)

    @router.delete("/{model_id}", operation_id="deleteModel", status_code=204, responses=problems(404, 409))
    def delete(caller: Writer, model_id: ModelName) -> None:
        """Delete a model that no alias points at."""
        models.delete(caller.project_id, model_id)

    return router


def aliases_router(aliases: AliasService) -> APIRouter:
    """Return the routes of aliases."""
    router = APIRouter(prefix="/aliases", tags=["aliases"], route_class=JsonRoute)

    @router.get("", operation_id="listAliases")
    def list_(caller: Reader, limit: Limit = 20, cursor: CursorText = None) -> AliasPage:
        """List aliases by name."""
        return aliases.list(caller.project_id, cursor, limit)

    @router.get("/{name}", operation_id="getAlias", responses=problems(404))
    def get(caller: Reader, name: str, limit: Limit = 20) -> AliasWithHistory:
        """Show which model a name points at, and the last ones that it pointed at before."""
        return aliases.get(caller.project_id, name, limit)

    @router.put("/{name}", operation_id="putAlias")
    def put(caller: Writer, name: AliasName, body: PutAlias) -> Alias:
        """Point a name at a model. The history is kept.

        A `shadow` is a model that decides on the same rows of `POST /predict` and of batches later, without a say in
        the answers: see `GET /aliases/{name}/shadow`. To let it take over, name it as the model.
        """
        return aliases.put(caller.project_id, name, body)

    @router.delete("/{name}", operation_id="deleteAlias", status_code=204, responses=problems(404, 409))
    def delete(caller: Writer, name: str) -> None:
        """Delete a name with its history, its feedback and the figures of its shadow. The models stay."""
        aliases.delete(caller.project_id, name)

    @router.get("/{name}/shadow", operation_id="getAliasShadow", responses=problems(404))
    def shadow(caller: Reader, name: str, limit: Limit = 20) -> Shadow:
        """Show how often the shadow of an alias decided otherwise than the model that answers, and on what last."""
        return aliases.shadow(caller.project_id, name, limit)

    @router.delete("/{name}/shadow", operation_id="deleteAliasShadow", status_code=204, responses=problems(404))
    def delete_shadow(caller: Writer, name: str) -> None:
        """Take the shadow of an alias away, as `PUT` with `"shadow": null` does: for clients that cannot send null."""
        aliases.delete_shadow(caller.project_id, name)

    @router.post("/{name}/rollback", operation_id="rollbackAlias", responses=problems(404, 409))
    def roll_back(caller: Writer, name: str) -> Alias:
        """Point a name at the model that it pointed at before; doing it again goes further back."""
        return aliases.roll_back(caller.project_id, name)

    return router
