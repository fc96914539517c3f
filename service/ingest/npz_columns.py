"""NPZ files that are tables: `X` is a column of vectors, and other arrays with as many rows are columns beside it."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_NAME_CHARACTERS, ReadingLimits
from service.ingest.npz_arrays import DAMAGED, NpzArray, read_header
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar, has_control_characters
from service.ingest.table import check_size
from service.ingest.typed import TypedColumns

VECTORS: Final = "X"
BLOCK_BYTES: Final = 64 << 20
"""Of the arrays as they lie in the file, read at once: a text takes the width of the longest."""
TIMES: Final = ("D", "s", "ms", "us", "ns")
"""Units of NumPy's dates that Arrow knows."""
MOST_NAMED: Final = 10


def named_columns(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], label: str) -> list[str]:
    """Return the arrays beside `X` and the labels that have a value, or a vector, for each of its rows.

    An array whose header cannot be read, that holds objects, or that has another number of rows is none of them.
    """
    of_vectors = _header_of(archive, members[VECTORS], VECTORS) if VECTORS in members else None
    if of_vectors is None or len(of_vectors[0]) != 2 or min(of_vectors[0]) < 1:
        return []
    rows = of_vectors[0][0]
    found = []
    for name, info in members.items():
        if name in (VECTORS, label) or len(name) > MAX_NAME_CHARACTERS or has_control_characters(name):
            continue
        header = _header_of(archive, info, name)
        if header is not None and len(header[0]) in (1, 2) and header[0][0] == rows and _is_usable(*header):
            found.append(name)
    return found


def store_columns(
    arrays: Mapping[str, NpzArray],
    file_bytes: int,
    options: TableOptions,
    limits: ReadingLimits,
    output: Path,
    warnings: list[str],
) -> Columnar:
    """Write the ``table`` layout; numbers, texts and dates are read as those of Parquet are, see `TypedColumns`.

    Parameters
    ----------
    arrays : mapping of str to NpzArray
        All of as many rows.
    file_bytes : int
    options : TableOptions
    limits : ReadingLimits
    output : Path
    warnings : list of str

    Raises
    ------
    IngestError
    """
    if 0 in arrays[VECTORS].shape:
        raise IngestError("empty", f"array {VECTORS} holds nothing")
    rows = arrays[VECTORS].shape[0]
    widths = {name: array.shape[1] for name, array in arrays.items() if _is_vector(array)}
    check_size(rows, len(arrays) - len(widths) + sum(widths.values()), limits)
    schema = pa.schema([(name, _arrow_type(array)) for name, array in arrays.items()])
    columns = TypedColumns(schema, options, limits, warnings, file_bytes, lambda _: iter(()), widths)
    row_bytes = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays.values())
    step = max(1, min(columns.batch_rows, BLOCK_BYTES // max(1, row_bytes)))

    def batches() -> Iterator[list[pa.Array]]:
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            block = [_arrow(array, start, stop) for array in arrays.values()]
            yield from columns.bounded(iter([pa.record_batch(block, schema=schema)]), start)

    return columns.store(batches, output)


def _header_of(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str
) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return shape and type; None where they cannot be read, which says nothing of other arrays."""
    if info.flag_bits & 1:  # encrypted
        return None
    try:
        with archive.open(info) as member:
            shape, _, dtype = read_header(member, name)
    except (IngestError, OSError, *DAMAGED):
        return None
    return shape, dtype


def _is_usable(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    if dtype.itemsize == 0 or 0 in shape:
        return False
    if len(shape) == 2 and shape[1] > 1:
        return dtype.kind in "biuf" and dtype.itemsize <= 8
    if dtype.kind == "M":
        return np.datetime_data(dtype)[0] in TIMES
    return dtype.kind in "US" or (dtype.kind in "biuf" and dtype.itemsize <= 8)


def _is_vector(array: NpzArray) -> bool:
    return array.name == VECTORS or math.prod(array.shape[1:]) > 1


def _arrow_type(array: NpzArray) -> pa.DataType:
    values: pa.DataType = pa.string() if array.dtype.kind in "US" else pa.from_numpy_dtype(_plain_type(array))
    return pa.list_(values, array.shape[1]) if _is_vector(array) else values


def _plain_type(array: NpzArray) -> np.dtype[Any]:
    """Return the type in which numbers are handed to Arrow, which knows those of this machine's byte order alone."""
    if array.dtype.kind == "f" and array.dtype.itemsize == 2:
        return np.dtype(np.float32)  # few of Arrow's functions know halves
    if array.dtype.kind == "b" and _is_vector(array):
        return np.dtype(np.uint8)
    return array.dtype.newbyteorder("=")


def _arrow(array: NpzArray, start: int, stop: int) -> pa.Array:
    if _is_vector(array):
        block = array.rows(start, stop).astype(_plain_type(array), copy=False)
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(block).ravel()), array.shape[1])
    values = array.items(start, stop)
    if array.dtype.kind in "US":
        return _texts(array.name, values)
    return pa.array(values.astype(_plain_type(array), copy=False))


def _texts(name: str, values: NDArray[Any]) -> pa.StringArray:
    try:
        return pa.array([each.decode() if isinstance(each, bytes) else each for each in values.tolist()], pa.string())
    except (UnicodeError, ValueError):
        raise IngestError("bad_encoding", f"array {name} holds a value that is no text") from None
