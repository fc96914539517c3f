"""The rows of data sets, for people who want to see what they have."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from service.blobs.store import BlobNotFoundError, BlobStore
from service.datasets.errors import DamagedDataset, DatasetNotFound
from service.datasets.repository import DatasetRepository
from service.datasets.schemas import MOST_TOLD, DatasetRows, Histogram, Histograms
from service.db.session import Database
from service.errors import InvalidRequest
from service.ingest.errors import is_of_the_disk
from service.shown_vectors import first_numbers

if TYPE_CHECKING:
    from sqlalchemy import Row

    from solver.features import Table

MOST_BYTES = 16 << 20
"""Of the rows that are read for one answer; there is always one row, if any is left."""
SAMPLE_ROWS = 10_000
"""First rows that a histogram is made of."""
BARS = 20


class LookingService:
    """Shows rows of data sets, and how the numbers in them are spread."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def rows(
        self, project_id: str, dataset_id: str, first: int, limit: int, characters: int, columns: Sequence[str]
    ) -> DatasetRows:
        """Return some rows, texts and vectors cut.

        Parameters
        ----------
        project_id, dataset_id : str
        first : int
            Number of the first row, from 0.
        limit : int
            Rows, at most; fewer where they are large.
        characters : int
            Of a text, at most.
        columns : sequence of str
            Of a table; the first `MOST_TOLD` where none is named.

        Raises
        ------
        DatasetNotFound, DamagedDataset
        InvalidRequest
            If it has no such column.
        """
        dataset, told = self._dataset(project_id, dataset_id, columns)
        known = [column["name"] for column in told]
        if dataset.layout == "table" and not set(columns) <= set(known):
            raise InvalidRequest.of("query.column", "the data set has no such column")
        count = max(0, min(limit, dataset.rows - first))
        rows = self._read(dataset, first, count, columns or known) if count else []
        items = [{name: _cut(value, characters) for name, value in row.items()} for row in rows]
        return DatasetRows(dataset=dataset.id, total=dataset.rows, first=first, items=items)

    def histograms(self, project_id: str, dataset_id: str, columns: Sequence[str]) -> Histograms:
        """Return how the numbers of columns are spread between their least and their greatest.

        Raises
        ------
        DatasetNotFound, DamagedDataset
        """
        dataset, told = self._dataset(project_id, dataset_id, columns)
        wanted = [
            column
            for column in told
            if column.get("min") is not None
            and column.get("max") is not None
            and column["min"] < column["max"]
            and dataset.layout == "table"
        ]
        count = min(dataset.rows, SAMPLE_ROWS)
        return Histograms(
            dataset=dataset.id, rows=count, columns=list(self._spread(dataset, wanted, count)) if wanted else []
        )

    def _dataset(
        self, project_id: str, dataset_id: str, columns: Sequence[str]
    ) -> tuple[Row[Any], Sequence[dict[str, Any]]]:
        """Return a data set, and what is known of the columns that are wanted."""
        with self._database.transaction() as session:
            datasets = DatasetRepository(session, project_id)
            dataset = datasets.profile(dataset_id, 0, 1 if columns else MOST_TOLD)
            if dataset is None:
                raise DatasetNotFound
            are_named = columns and dataset.layout == "table"
            return dataset, datasets.columns_named(dataset_id, columns) if are_named else dataset.columns

    def _read(self, dataset: Row[Any], first: int, count: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Read rows, half as many as long as they are too large."""
        from service.ingest.columnar import Layout, TooManyBytesError, rows_at
        from solver.features import MatrixData, matrix_rows

        with self._file_of(dataset) as path:
            while True:
                most = MOST_BYTES if count > 1 else sys.maxsize
                try:
                    found = rows_at(path, cast("Layout", dataset.layout), range(first, first + count), columns, most)
                except TooManyBytesError:
                    count //= 2
                    continue
                break
        if isinstance(found, MatrixData):
            return list(matrix_rows(found))
        kept = [(name, found.columns[name].values.tolist()) for name in columns if name in found.columns]
        return [{name: _value(values[row]) for name, values in kept} for row in range(count)]

    def _spread(self, dataset: Row[Any], columns: Sequence[dict[str, Any]], count: int) -> Iterator[Histogram]:
        import numpy as np

        from service.ingest.columnar import read_blocks

        with self._file_of(dataset) as path:
            blocks = read_blocks(path, "table", [column["name"] for column in columns], count)
            table = cast("Table", next(iter(blocks)))
        for column in columns:
            values = table.columns[column["name"]].values
            if values.dtype.kind == "f":
                counts, _ = np.histogram(values[np.isfinite(values)], BARS, (column["min"], column["max"]))
                yield Histogram(
                    column=column["name"], least=column["min"], greatest=column["max"], counts=counts.tolist()
                )

    @contextmanager
    def _file_of(self, dataset: Row[Any]) -> Iterator[Path]:
        # Loaded where they are used: a tenth of a second and 30 MB.
        import pyarrow as pa
        from safetensors import SafetensorError

        try:
            with self._blobs.local_path(dataset.columnar_key) as path:
                yield path
        except BlobNotFoundError:
            raise DamagedDataset("the stored rows of the data set are gone; upload the file again") from None
        except (pa.ArrowInvalid, SafetensorError, OSError) as error:
            if is_of_the_disk(error):
                raise
            raise DamagedDataset("the stored rows of the data set are damaged; upload the file again") from None


def _value(value: Any) -> Any:
    """Return a value as JSON has it: null where there is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut(value: Any, characters: int) -> Any:
    if isinstance(value, list):  # a vector
        return first_numbers(value)
    return value[:characters] + "…" if isinstance(value, str) and len(value) > characters else value
