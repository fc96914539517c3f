"""Reads NPZ: a zip of NumPy arrays. Only array headers are parsed; pickles are refused."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.batches import batch_rows
from service.ingest.errors import IngestError, is_of_the_disk
from service.ingest.limits import MAX_NAME_CHARACTERS, ReadingLimits, UnpackingBudget
from service.ingest.matrix import MatrixWriter
from service.ingest.npz_arrays import DAMAGED, NpzArray
from service.ingest.npz_columns import MOST_NAMED, named_columns, store_columns
from service.ingest.options import NpzOptions, TableOptions
from service.ingest.profile import Columnar, has_control_characters
from service.ingest.table import Storage, check_columns, check_size, forced_kinds, store_arrays, stored_as

LABEL = "y"
DENSE = ("X",)
SPARSE = ("data", "indices", "indptr", "shape")
MAX_MEMBERS = 1000
BATCH_ITEMS = 1 << 20
_FLOAT32_HOLDS = ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32")


def read_npz(path: Path, options: NpzOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the columnar form of an NPZ file, made by ``numpy.savez`` or ``numpy.savez_compressed``.

    Either a dense ``X`` (rows × columns; NaN is missing) and ``y``, which gives a ``table`` of ``f0``, ``f1``, … and
    ``y``; or ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix and ``y``, which gives a ``matrix``.
    ``y`` holds numbers (NaN is missing), booleans (``true``, ``false``) or texts (empty is missing). Without ``y`` a
    table has no such column, and each row of a matrix misses its label.

    With the option ``vectors``, ``X`` is one column of vectors, and arrays with a value or a vector for each of its
    rows are columns beside it, by their names, see `service.ingest.npz_columns`. Others are ignored with a warning.

    Raises
    ------
    IngestError
    """
    try:
        with (
            zipfile.ZipFile(path) as archive,
            tempfile.TemporaryDirectory(prefix="npz-", dir=output.parent) as folder,
        ):
            members = _members(archive)
            beside = named_columns(archive, members, LABEL)
            if options.vectors and "X" not in members:
                raise IngestError("bad_option", "option vectors: the file has no array X that could hold them")
            used = _used(members, beside if options.vectors else [], warnings)
            if beside and not options.vectors:
                warnings.append(
                    f"{', '.join(map(repr, beside[:MOST_NAMED]))}: with option vectors true, these are columns beside "
                    "X, which is one column of vectors then"
                )
            budget = UnpackingBudget(path.stat().st_size, limits)
            arrays = {}
            for number, name in enumerate(used):
                # a file of its own number: the name is whatever the sender has written
                unpacked = Path(folder) / str(number)
                arrays[name] = NpzArray.unpack(archive, members[name], name, unpacked, budget)
            if options.vectors:
                _check_dense(arrays["X"])
                if LABEL in arrays:
                    _check_labels(arrays[LABEL], arrays["X"].shape[0])
                return store_columns(arrays, path.stat().st_size, options, limits, output, warnings)
            if "X" in arrays:
                return _store_dense(arrays["X"], arrays.get(LABEL), options, limits, output, warnings)
            if options.columns:
                raise IngestError("bad_option", "option columns: a sparse matrix has no columns whose kind can be set")
            if options.missing:
                raise IngestError(
                    "bad_option", "option missing: what a sparse matrix leaves out is 0, nothing is missing"
                )
            return _store_sparse(arrays, limits, output, warnings)
    except (*DAMAGED, OSError) as error:
        if is_of_the_disk(error):
            raise
        raise IngestError("malformed", "not a whole NPZ file: the zip archive is damaged or cut off") from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise IngestError("malformed", f"more than {MAX_MEMBERS} members in the zip archive")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise IngestError("malformed", "two arrays of the same name in the zip archive")
        members[name] = info
    return members


def _used(members: dict[str, zipfile.ZipInfo], named: list[str], warnings: list[str]) -> list[str]:
    if "X" in members:
        features: tuple[str, ...] = DENSE
    elif all(name in members for name in SPARSE):
        features = SPARSE
    else:
        raise IngestError("malformed", f"expected an array X, or the arrays {', '.join(SPARSE)} of a CSR matrix")
    used = [name for name in (*features, *named, LABEL) if name in members]
    if LABEL not in members and not named:
        warnings.append(f"there is no array {LABEL}: the rows have no labels")
    ignored = sorted(_shown(name) for name in members if name not in used and name != "format")
    if ignored:
        listed = ", ".join(ignored[:10]) + (", …" if len(ignored) > 10 else "")
        warnings.append(f"arrays that are not used: {listed}")
    return used


def _shown(name: str) -> str:
    if len(name) > MAX_NAME_CHARACTERS or has_control_characters(name):
        return "(one with an unprintable name)"
    return name


def _store_dense(
    X: NpzArray, y: NpzArray | None, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]
) -> Columnar:
    _check_dense(X)
    n, d = X.shape
    if d == 0:
        raise IngestError("empty", "array X has no column")
    labels = [] if y is None else [y]
    width = d + len(labels)
    check_columns(width, limits)
    check_size(n, width, limits)
    as_they_are: list[Storage] = ["number" for _ in range(d)]
    as_they_are += [_check_labels(each, n) for each in labels]
    names = [*(f"f{j}" for j in range(d)), *(LABEL for _ in labels)]
    kinds = forced_kinds(options.columns, names)
    storage = [stored_as(kinds[j]) if j in kinds else as_they_are[j] for j in range(width)]
    step = batch_rows(d)

    def batches() -> Iterator[list[pa.Array]]:
        for start in range(0, n, step):
            stop = min(start + step, n)
            block = X.rows(start, stop).astype(np.float64, order="F")
            if np.isinf(block).any():
                row, column = np.argwhere(np.isinf(block))[0]
                raise _bad_value(
                    f"X is infinite in row {start + row + 1}, column {column + 1}; expected finite numbers, or NaN "
                    "where one is missing"
                )
            # from_pandas: NaN becomes null
            columns = [pa.array(block[:, j], from_pandas=True) for j in range(d)]
            yield [*columns, *(_labels(each, start, stop) for each in labels)]

    return store_arrays(output, names, storage, batches, limits, warnings, kinds, reading=options.reading)


def _store_sparse(arrays: dict[str, NpzArray], limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    data, indices, indptr, y = arrays["data"], arrays["indices"], arrays["indptr"], arrays.get(LABEL)
    _check_numeric(data)
    for array in (indices, indptr, arrays["shape"]):
        if array.dtype.kind not in "iu":
            raise IngestError("malformed", f"array {array.name} is not of an integer type")
    for array in (data, indices, indptr, arrays["shape"]):
        if len(array.shape) != 1:
            raise IngestError("malformed", f"array {array.name} has {len(array.shape)} dimensions; expected 1")
    if arrays["shape"].shape != (2,):
        raise IngestError("malformed", "array shape has to hold two numbers: rows, columns")
    n, d = (int(each) for each in arrays["shape"].items(0, 2))
    nonzeros = data.shape[0]
    if d - 1 > limits.max_feature_index:
        raise IngestError("index_too_large", f"{d} columns; at most {limits.max_feature_index + 1} are allowed")
    if n < 0 or d < 0 or indptr.shape != (n + 1,) or indices.shape != (nonzeros,):
        raise IngestError(
            "malformed", "the lengths of data, indices, indptr (rows + 1) and the numbers in shape do not fit together"
        )
    check_size(n, 1, limits)
    if nonzeros > limits.max_cells:
        raise IngestError("too_many_cells", f"{nonzeros} stored entries; at most {limits.max_cells} are allowed")
    dtype: Literal["float32", "float64"] = "float32" if data.dtype.name in _FLOAT32_HOLDS else "float64"
    text_labels = y is not None and _check_labels(y, n) == "text"
    with MatrixWriter(output, limits, dtype=dtype, label=LABEL, text_labels=text_labels) as writer:
        for start, stop, ends in _row_blocks(indptr, n, nonzeros):
            block_indices = indices.items(int(ends[0]), int(ends[-1]))
            values = data.items(int(ends[0]), int(ends[-1])).astype(dtype)
            labels = pa.nulls(stop - start, pa.float64()) if y is None else _labels(y, start, stop)
            _write_sparse_block(writer, start, np.diff(ends), block_indices, values, d, labels)
        return writer.close(d, warnings, first_index=0)


def _row_blocks(indptr: NpzArray, n: int, nonzeros: int) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield first row, last row + 1 and checked row pointers of blocks with a bounded number of entries."""
    start = 0
    while start < n:
        ends = indptr.items(start, min(start + BATCH_ITEMS, n) + 1)
        if ends.max() > nonzeros or ends.min() < 0 or (start == 0 and ends[0] != 0):
            raise IngestError("malformed", "array indptr has to begin with 0 and stay within data")
        ends = ends.astype(np.int64)
        if (np.diff(ends) < 0).any():
            raise IngestError("malformed", "array indptr has to ascend")
        fits = int(np.searchsorted(ends, ends[0] + BATCH_ITEMS, side="right")) - 1
        stop = start + max(1, min(fits, len(ends) - 1))
        if stop == n and ends[stop - start] != nonzeros:
            raise IngestError("malformed", "array indptr has to end with the length of data")
        yield start, stop, ends[: stop - start + 1]
        start = stop


def _write_sparse_block(
    writer: MatrixWriter,
    first_row: int,
    counts: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[Any],
    columns: int,
    labels: pa.Array,
) -> None:
    if len(indices):
        if indices.min() < 0 or indices.max() >= columns:
            raise IngestError("malformed", "array indices points outside of the columns that shape gives")
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            row = first_row + int(np.searchsorted(np.cumsum(counts), at, side="right")) + 1
            raise _bad_value(f"row {row} of the matrix holds a value that is not finite")
        rows = np.repeat(np.arange(len(counts)), counts)
        ascending = (np.diff(indices.astype(np.int64)) > 0) | (np.diff(rows) > 0)
        if not ascending.all():  # valid CSR still, unless an index is there twice
            order = np.lexsort((indices, rows))
            indices, values = indices[order], values[order]
            if ((np.diff(indices.astype(np.int64)) == 0) & (np.diff(rows) == 0)).any():
                raise IngestError("malformed", "a row has the same index twice in array indices")
    writer.write(counts, indices, values, labels)


def _check_dense(X: NpzArray) -> None:
    _check_numeric(X)
    if len(X.shape) != 2:
        raise IngestError("malformed", f"array X has {len(X.shape)} dimensions; expected 2, rows × columns")


def _check_numeric(array: NpzArray) -> None:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise IngestError(
            "unsupported",
            f"array {array.name} is of type {array.dtype.name[:32]}; expected booleans, integers or floats",
        )


def _check_labels(y: NpzArray, n: int) -> Storage:
    if y.shape not in ((n,), (n, 1)):
        raise IngestError("malformed", f"array {y.name} has to hold one label for each of the {n} rows of the matrix")
    if y.dtype.kind in "US":
        if y.dtype.itemsize == 0 or y.dtype.itemsize > 4 * MAX_NAME_CHARACTERS:
            raise IngestError(
                "bad_label", f"labels of array {y.name} have to be texts of at most {MAX_NAME_CHARACTERS} characters"
            )
        return "text"
    _check_numeric(y)
    return "text" if y.dtype.kind == "b" else "number"


def _labels(y: NpzArray, start: int, stop: int) -> pa.Array:
    block = y.items(start, stop)
    if y.dtype.kind in "US":
        try:
            texts = [each.decode() if isinstance(each, bytes) else each for each in block.tolist()]
            return pa.array([text or None for text in texts], pa.string())
        except (UnicodeError, ValueError):
            raise IngestError("bad_encoding", f"array {y.name} holds a label that is no text") from None
    if y.dtype.kind == "b":
        return pc.cast(pa.array(block), pa.string())  # true and false, as in JSON
    numbers = block.astype(np.float64)
    if np.isinf(numbers).any():
        raise _bad_value(f"array {y.name} holds an infinite label")
    return pa.array(numbers, from_pandas=True)


def _bad_value(message: str) -> IngestError:
    return IngestError("bad_value", message)
