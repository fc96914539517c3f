"""What ``/batches`` takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from service.jobs.schemas import JobError, JobStatus
from service.predictions.schemas import AbstainBand
from service.schemas import Answer, Body

BatchFormat = Literal["csv", "parquet", "jsonl"]
MEDIA_TYPES: dict[BatchFormat, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/jsonl",
}


class BatchRequest(Body):
    """Which data set is to be predicted, and by which model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "spam-filter", "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60", "format": "csv"},
            ]
        }
    )

    model: str = Field(
        description="Id of a model, or an alias: of what it points at now, with the threshold that decides now.",
        min_length=1,
        max_length=100,
    )
    dataset: str = Field(description="Id of the data set.", max_length=100)
    format: BatchFormat = Field(default="csv", description="Of the file that is made.")

    @model_validator(mode="before")
    @classmethod
    def _is_not_explained(cls, value: Any) -> Any:
        """Say where explanations are: they cost far more than decisions, and nobody reads those of a whole data set."""
        if isinstance(value, dict) and "explain" in value:
            raise PydanticCustomError(
                "explain",
                "explain is not for batches: ask for the rows in question by POST /predict, up to 100 at a time",
            )
        return value


class BatchResult(Answer):
    """The file that a batch has made: `row` (from 0), `label`, `score`, `probability`, in the order of the data set.

    Behind `row` stands the column that the training called its `key`, where the data set has it. The label of a row
    that is left undecided is empty in CSV, else null.
    """

    bytes: int
    sha256: str
    rows: int
    labels: dict[str, int] = Field(description="Rows that were given each label.")
    undecided: int = Field(default=0, description="Rows that were given none.")
    threshold: float | None = Field(
        default=None, description="The decision is score > threshold. Null for batches of before."
    )
    threshold_probability: float | None = Field(
        default=None, description="The same as a probability, as in POST /predict; null where the model gives none."
    )
    abstain: AbstainBand | None = Field(
        default=None, description="The scores that get no label, as in POST /predict; null: each row gets one."
    )
    warnings: list[str]


EXAMPLE_BATCH: JsonDict = {
    "id": "job_0192f0c1d5a67b3e8f0a1b2c3d4e5f63",
    "status": "succeeded",
    "phase": "storing",
    "progress": 1.0,
    "attempt": 1,
    "model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
    "format": "csv",
    "threshold": 0.31,
    "created_at": "2026-11-01T12:00:00Z",
    "started_at": "2026-11-01T12:00:00.2Z",
    "finished_at": "2026-11-01T12:00:02.2Z",
    "cancel_requested_at": None,
    "error": None,
    "result": {
        "bytes": 27000,
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "rows": 1000,
        "labels": {"ham": 900, "spam": 100},
        "undecided": 0,
        "threshold": 0.31,
        "threshold_probability": 0.12,
        "abstain": None,
        "warnings": [],
    },
}


class Batch(Answer):
    """A batch and what became of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_BATCH]})

    id: str
    status: JobStatus
    phase: str | None = Field(
        description="`preparing`, `reading`, `predicting`, `waiting_for_encoder` (which does not answer), `storing`; "
        "null in a queue, or `waiting_for_disk`."
    )
    progress: float = Field(ge=0, le=1, description="Share of the running attempt that is done.")
    attempt: int = Field(description="How often a worker has started on it.")
    model: str = Field(description="Id of the model that decides, also when it was named by an alias.")
    dataset: str
    format: BatchFormat
    threshold: float | None = Field(description="An operating point that was applied; null: the trained one decides.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    error: JobError | None
    result: BatchResult | None = Field(description="Null until it succeeded; `GET /batches/{id}/result` has the file.")
