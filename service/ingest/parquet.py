"""Reads Parquet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from service.ingest.batches import batch_rows
from service.ingest.errors import IngestError, is_of_the_disk
from service.ingest.limits import ReadingLimits
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar
from service.ingest.table import check_columns, check_size
from service.ingest.typed import TypedColumns
from service.ingest.vectors import may_hold_vectors


def read_parquet(
    path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]
) -> Columnar:
    """Write the ``table`` layout of a Parquet file; see `TypedColumns` for what its types mean.

    Rows × columns are checked against what the footer says before anything is unpacked, because a file of a megabyte
    can honestly hold hundreds of millions of equal rows; its "uncompressed size" does not tell.

    Raises
    ------
    IngestError
    """
    try:
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
            check_columns(metadata.num_columns, limits)
            check_size(metadata.num_rows, max(metadata.num_columns, 1), limits)
            schema = file.schema_arrow
            widths = _widths(file)
            check_size(metadata.num_rows, max(metadata.num_columns - len(widths) + sum(widths.values()), 1), limits)

        def read(names: list[str]) -> Iterator[pa.RecordBatch]:
            rows = batch_rows(sum(widths.get(name, 1) for name in names))
            with pq.ParquetFile(path, pre_buffer=False) as file:
                yield from file.iter_batches(batch_size=rows, columns=names, use_threads=False)

        columns = TypedColumns(schema, options, limits, warnings, path.stat().st_size, read, widths)

        def batches() -> Iterator[list[pa.Array]]:
            with pq.ParquetFile(path, read_dictionary=columns.text_names, pre_buffer=False) as file:
                yield from columns.bounded(file.iter_batches(batch_size=columns.batch_rows, use_threads=False))

        return columns.store(batches, output)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        if is_of_the_disk(error):
            raise
        raise IngestError("malformed", "not a whole Parquet file, or one with features that cannot be read") from None


def _widths(file: pq.ParquetFile) -> dict[str, int]:
    """Return how many numbers the lists of each column hold, the fullest group of rows on average, by the footer."""
    metadata, schema = file.metadata, file.schema_arrow
    lists = {field.name for field in schema if may_hold_vectors(field.type)}
    widths = dict.fromkeys(lists, 1)
    if not lists:
        return widths
    # A list of numbers is one column of the file, whose path is its name and what the writer calls the parts of a list.
    places: dict[int, str] = {}
    for j in range(metadata.num_columns):
        name = metadata.schema.column(j).path
        while name not in lists and "." in name:
            name = name.rpartition(".")[0]
        if name in lists:
            places[j] = name
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for j, name in places.items():
            widths[name] = max(widths[name], math.ceil(group.column(j).num_values / max(1, group.num_rows)))
    return widths
