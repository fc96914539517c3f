"""``/datasets``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute, until_gone
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.api.uploads import open_upload
from service.datasets.looking import LookingService
from service.datasets.schemas import MOST_TOLD, Correction, Dataset, DatasetRows, DatasetSummary, Histograms
from service.datasets.service import DatasetService
from service.ingest.options import FORMATS, described_options
from service.schemas import Page

FirstRow = Annotated[int, Query(ge=0, lt=2**63, description="Number of the first row, from 0.")]
MostCharacters = Annotated[int, Query(ge=1, le=100_000, description="Of a text; the rest is cut off.")]
Columns = Annotated[
    list[Annotated[str, Query(max_length=256)]],
    Query(
        alias="column",
        max_length=MOST_TOLD,
        description=f"Columns of a table; may be given several times. Default: the first {MOST_TOLD:,}.",
    ),
]
FirstColumn = Annotated[
    int,
    Query(
        alias="columns_from",
        ge=0,
        le=1_000_000_000,
        description=f"Number of the first column to tell of, from 0; at most {MOST_TOLD:,} are told.",
    ),
]
Fits = Annotated[
    str | None,
    Query(
        max_length=100,
        description="Only those with the columns that this model needs: its id, or an alias. A page may then hold "
        "fewer than `limit`, or none, and go on.",
    ),
]
_OPTIONS = [
    '{"delimiter": ";", "decimal": ",", "missing": ["NA", "?"], "encoding": "cp1252"}',
    '{"columns": {"zip": "category", "note": "text", "ordered": "date"}}',
    '{"zero_based": true}',
]
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD: dict[str, Any] = {
    "parameters": [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": schema,
            "description": f"{text} With multipart it may be a part of the form instead.",
        }
        for name, schema, text in (
            ("name", {"type": "string", "maxLength": 255}, "What to call the data set."),
            (
                "format",
                {"type": "string", "enum": list(FORMATS)},
                "The format, where the Content-Type or the name of the file does not say it.",
            ),
            (
                "options",
                {"type": "string", "examples": _OPTIONS},
                f"Options of the format as a JSON object. {described_options()}",
            ),
        )
    ],
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
            "text/csv": {**_BINARY, "example": "age,job,label\n39,clerk,stays\n25,cook,\n"},
            "text/tab-separated-values": {**_BINARY, "example": "age\tjob\tlabel\n39\tclerk\tstays\n25\tcook\t\n"},
            "application/octet-stream": _BINARY,
        },
    },
}


def datasets_router(datasets: DatasetService, looking: LookingService) -> APIRouter:
    """Return the routes of data sets."""
    router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=JsonRoute)

    @router.post(
        "",
        operation_id="createDataset",
        status_code=201,
        responses=problems(400, 409, 413, 415),
        openapi_extra=_UPLOAD,
    )
    async def create(request: Request, response: Response, caller: Writer, key: IdempotencyKey = None) -> Dataset:
        """Upload a file. It streams into the store and is read at once: what the answer names can be trained on."""
        dataset = await datasets.create(caller.project_id, open_upload(request), key, until_gone(request))
        response.headers["Location"] = f"/datasets/{dataset.id}"
        return dataset

    @router.get("", operation_id="listDatasets")
    def list_(caller: Reader, limit: Limit = 20, cursor: CursorText = None, fits: Fits = None) -> Page[DatasetSummary]:
        """List data sets, newest first, without their columns."""
        return datasets.list(caller.project_id, cursor, limit, fits)

    @router.get("/{dataset_id}", operation_id="getDataset", responses=problems(404))
    def get(caller: Reader, dataset_id: str, first_column: FirstColumn = 0) -> Dataset:
        """Show a data set with what is known of its columns."""
        return datasets.get(caller.project_id, dataset_id, first_column)

    @router.get("/{dataset_id}/rows", operation_id="getDatasetRows", responses=problems(404))
    def rows(
        caller: Reader,
        dataset_id: str,
        first: FirstRow = 0,
        limit: Limit = 20,
        characters: MostCharacters = 1000,
        columns: Columns = [],  # noqa: B006 (FastAPI copies it)
    ) -> DatasetRows:
        """Show rows of a data set as they were read."""
        return looking.rows(caller.project_id, dataset_id, first, limit, characters, columns)

    @router.get("/{dataset_id}/histograms", operation_id="getDatasetHistograms", responses=problems(404))
    def histograms(
        caller: Reader,
        dataset_id: str,
        columns: Columns = [],  # noqa: B006 (FastAPI copies it)
    ) -> Histograms:
        """Show how the numbers of each column are spread, by the first 10,000 rows."""
        return looking.histograms(caller.project_id, dataset_id, columns)

    @router.patch("/{dataset_id}", operation_id="correctDataset", responses=problems(404, 409))
    async def correct(caller: Writer, dataset_id: str, correction: Correction) -> Dataset:
        """Say what columns are, where the guess was wrong. Possible until a job has used the data set."""
        return await datasets.correct(caller.project_id, dataset_id, correction.columns)

    @router.delete("/{dataset_id}", operation_id="deleteDataset", status_code=204, responses=problems(404, 409))
    def delete(caller: Writer, dataset_id: str) -> None:
        """Delete a data set. Models that were trained on it stay."""
        datasets.delete(caller.project_id, dataset_id)

    return router
