"""What ``/datasets`` takes and gives."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from service.schemas import Answer

EXAMPLE_DATASET: JsonDict = {
    "id": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
    "name": "mails.csv",
    "format": "csv",
    "layout": "table",
    "bytes": 48211,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "rows": 1000,
    "columns": [
        {"name": "length", "kind": "number", "missing": 0, "distinct": 412, "min": 3, "max": 9100},
        {"name": "label", "kind": "text", "missing": 900, "distinct": 2},
    ],
    "warnings": [],
    "created_at": "2026-11-01T11:59:00Z",
}


class Column(Answer):
    """One column and what is in it."""

    model_config = ConfigDict(extra="allow")

    name: str
    kind: str = Field(description="`number`, `text`, or `features` for all columns of a sparse matrix.")
    missing: int = Field(default=0, description="Rows without a value.")


class Dataset(Answer):
    """An upload that can be trained on."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_DATASET]})

    id: str
    name: str
    format: str
    layout: str = Field(description="`table` (columns with names) or `matrix` (sparse rows).")
    bytes: int
    sha256: str = Field(description="Of the bytes that were sent.")
    rows: int
    columns: list[Column]
    warnings: list[str]
    created_at: datetime
