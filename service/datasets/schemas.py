"""What ``/datasets`` takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from service.ingest.options import Kind
from service.schemas import Answer, Body

ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=256)]

MOST_TOLD = 1_000
"""Columns of which one answer tells, so that what it costs is bounded: there may be a hundred thousand."""

EXAMPLE_DATASET: JsonDict = {
    "id": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
    "name": "mails.csv",
    "format": "csv",
    "layout": "table",
    "bytes": 48211,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "rows": 1000,
    "columns": [
        {"name": "length", "kind": "number", "missing": 0, "distinct": 412, "min": 3, "max": 9100, "constant": False},
        {"name": "label", "kind": "category", "missing": 900, "distinct": 2, "values": {"spam": 60, "ham": 40}},
    ],
    "column_count": 2,
    "duplicate_rows": 3,
    "dropped_rows": 0,
    "left_out": {},
    "lines": {"total": 1004, "header": 1, "blank": 0, "continued": 3},
    "options": {"delimiter": ";"},
    "warnings": [],
    "created_at": "2026-11-01T11:59:00Z",
}


class Column(Answer):
    """One column and what is in it."""

    model_config = ConfigDict(extra="allow")

    name: str
    kind: str = Field(
        description="`number`, `category`, `text` (free text), `date`, `vector` (lists of as many numbers in each "
        "row), or `features` for all columns of a sparse matrix. A guess, unless it was said."
    )
    missing: int = Field(default=0, description="Rows without a value.")
    distinct: int | None = Field(default=None, description="Different values; 1001 for more than 1000.")
    distinct_capped: bool = Field(default=False, description="Whether there are more than 1000 different values.")
    values: dict[str, int] | None = Field(
        default=None, description="How many rows have each value, if there are at most 20 different ones."
    )
    written: dict[str, str] | None = Field(
        default=None,
        description="How `values` of a column of numbers stand in the file, where that is with decimal commas, "
        'separators of thousands or a unit: `{"10": "10%"}`. As labels they are called so.',
    )
    min: float | None = None
    max: float | None = None
    earliest: str | None = Field(
        default=None,
        description="First of the dates, as it is written; of more than 1000 different ones only where the year comes "
        "first.",
    )
    latest: str | None = Field(default=None, description="Last of the dates.")
    constant: bool = Field(default=False, description="Whether all rows have the same value, or none.")
    leading_zeros: bool = Field(default=False, description="Whether texts such as `01234` occur.")
    missing_words: dict[str, int] | None = Field(
        default=None, description="Words such as `NA` in a column of numbers, which count as missing, and how often."
    )
    identifier: str | None = Field(
        default=None,
        description="Why the column is taken for an index, a counter, an id or a key. A training leaves it out, unless "
        "its `features` name it in `include` or `kinds`.",
    )
    length: int | None = Field(default=None, description="Numbers of each vector.")
    norm_min: float | None = Field(default=None, description="Least length (Euclidean norm) of the vectors.")
    norm_mean: float | None = Field(default=None, description="Their mean length.")
    norm_max: float | None = Field(default=None, description="Their greatest length.")
    zero_rows: int | None = Field(default=None, description="Vectors of zeros only, which tell nothing.")
    identifiers: dict[str, str] | None = Field(
        default=None, description="Columns of a sparse matrix, by their numbers, that have an `identifier`."
    )


class LineCounts(Answer):
    """Lines of a csv or tsv file. Those that are not counted as something else are rows."""

    total: int
    header: int = Field(description="Those of the column names, and one that says the delimiter.")
    blank: int = Field(description="Empty ones, which are skipped.")
    continued: int = Field(description="Those that go on with a quoted value of the line before.")


class DatasetBase(Answer):
    """What any answer says of an upload that can be trained on."""

    id: str
    name: str
    format: str
    layout: str = Field(description="`table` (columns with names) or `matrix` (sparse rows).")
    bytes: int
    sha256: str = Field(description="Of the bytes that were sent.")
    rows: int
    created_at: datetime


class DatasetSummary(DatasetBase):
    """A data set in a list: without its columns, of which there may be thousands."""

    column_count: int = Field(description="Columns, as GET /datasets/{dataset_id} shows them.")
    options: dict[str, Any] = Field(description="How the file was read, without the kinds of `columns`.")


class Dataset(DatasetBase):
    """An upload that can be trained on."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_DATASET]})

    columns: list[Column] = Field(
        description=f"In the order of the file, at most {MOST_TOLD:,}: the first, or those from `columns_from` of GET "
        "/datasets/{dataset_id} on. `column_count` says how many there are."
    )
    column_count: int = Field(description="Columns, told in `columns` or not.")
    duplicate_rows: int | None = Field(
        default=None,
        description="Rows that are equal to an earlier one; null for sparse matrices and beyond ten million rows.",
    )
    dropped_rows: int = Field(description="What stood in the file in the place of a row and was none.")
    left_out: dict[str, str] = Field(
        description="Columns of the file that cannot be used and are not among `columns`, each with the reason."
    )
    lines: LineCounts | None = Field(
        default=None, description="What became of the lines of a csv or tsv file; null for other formats."
    )
    options: dict[str, Any] = Field(description="How the file was read, with corrections since.")
    warnings: list[str]


class DatasetRows(Answer):
    """Some rows of a data set, in order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "total": 1000,
                    "first": 0,
                    "items": [{"length": 412, "label": "spam"}, {"length": 96, "label": None}],
                }
            ]
        }
    )

    dataset: str
    total: int = Field(description="Rows of the data set.")
    first: int = Field(description="Number of the first of `items`, from 0.")
    items: list[dict[str, float | str | list[float] | None]] = Field(
        description="Values by column, null where one is missing; of a matrix those that are not 0, by the number of "
        "their column. A text that was cut ends with `…`. Fewer than asked for where rows are large. Of a table, the "
        f"first {MOST_TOLD:,} columns, unless `column` names others."
    )


class Histogram(Answer):
    """How the numbers of a column are spread."""

    column: str
    least: float
    greatest: float
    counts: list[int] = Field(description="Rows in each of equal parts from `least` to `greatest`.")


class Histograms(Answer):
    """How the numbers of a table are spread, by its first rows."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "rows": 1000,
                    "columns": [{"column": "length", "least": 3, "greatest": 9100, "counts": [600, 250, 100, 50]}],
                }
            ]
        }
    )

    dataset: str
    rows: int = Field(description="First rows that were counted.")
    columns: list[Histogram] = Field(
        description="Of columns of numbers that are not all the same; of other columns `values` of GET "
        f"/datasets/{{dataset_id}} tells as much. Of the first {MOST_TOLD:,} columns, unless `column` names others."
    )


class Correction(Body):
    """What columns are, where the guess was wrong."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"columns": {"zip": "category", "note": "text"}}]})

    columns: dict[ColumnName, Kind] = Field(
        min_length=1,
        max_length=10_000,
        description="Kinds by column: `number`, `category`, `text` (free text) or `date`. Other columns stay.",
    )


UploadStatus = Literal["receiving", "received", "ready", "failed"]


class ResumableUpload(Answer):
    """A file that arrives in parts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "up_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "status": "receiving",
                    "bytes": 2147483648,
                    "received": 16777216,
                    "metadata": {"filename": "mails.csv"},
                    "created_at": "2026-11-01T11:59:00Z",
                    "expires_at": "2026-11-02T11:59:00Z",
                }
            ]
        }
    )

    id: str
    status: UploadStatus = Field(
        description="`receiving` parts; `received` all of it, being read; `ready`: `dataset_id` can be trained on; "
        "`failed`: `error` says why no data set could be made of it."
    )
    bytes: int = Field(description="Of the whole file.")
    received: int = Field(description="Bytes that are safe; the next part begins here.")
    metadata: dict[str, str] = Field(default_factory=dict, description="What `Upload-Metadata` said.")
    dataset_id: str | None = Field(default=None, description="Null once more when the data set was deleted.")
    error: dict[str, Any] | None = Field(
        default=None, description="A problem, as `POST /datasets` would have answered."
    )
    created_at: datetime
    expires_at: datetime = Field(description="When what has arrived is thrown away, unless more arrives.")
