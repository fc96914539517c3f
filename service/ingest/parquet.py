"""Reads Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar
from service.ingest.table import check_columns, check_size
from service.ingest.typed import TypedColumns


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
        columns = TypedColumns(schema, options, limits, warnings, path.stat().st_size)

        def batches() -> Iterator[list[pa.Array]]:
            with pq.ParquetFile(path, read_dictionary=columns.text_names, pre_buffer=False) as file:
                yield from columns.bounded(file.iter_batches(batch_size=columns.batch_rows, use_threads=False))

        return columns.store(batches, output)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk, not the file
        raise IngestError("malformed", "not a whole Parquet file, or one with features that cannot be read") from None
