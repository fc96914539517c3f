"""Reads NPZ: a zip of NumPy arrays. Only array headers are parsed; pickles are refused."""

from __future__ import annotations

import errno
import math
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.batches import batch_rows
from service.ingest.errors import IngestError
from service.ingest.limits import EXPANSION_FREE_BYTES, MAX_EXPANSION, MAX_NAME_CHARACTERS, ReadingLimits
from service.ingest.matrix import MatrixWriter
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar, has_control_characters
from service.ingest.table import Storage, check_columns, check_size, forced_kinds, store_arrays, stored_as

LABEL = "y"
DENSE = ("X",)
SPARSE = ("data", "indices", "indptr", "shape")
MAX_MEMBERS = 1000
MAX_HEADER_BYTES = 10_000
BATCH_ITEMS = 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError, struct.error)
"""What zipfile raises for archives that are not in order."""
_FLOAT32_HOLDS = ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32")


def read_npz(path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the columnar form of an NPZ file, made by ``numpy.savez`` or ``numpy.savez_compressed``.

    Either a dense ``X`` (rows × columns; NaN is missing) and ``y``, which gives a ``table`` of ``f0``, ``f1``, … and
    ``y``; or ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix and ``y``, which gives a ``matrix``.
    ``y`` holds numbers (NaN is missing), booleans (``true``, ``false``) or texts (empty is missing). Without ``y`` a
    table has no such column, and each row of a matrix misses its label. Other arrays are ignored with a warning.

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
            used = _used(members, warnings)
            room = max(EXPANSION_FREE_BYTES, MAX_EXPANSION * path.stat().st_size)
            arrays = {}
            for name in used:
                arrays[name] = _Array.unpack(archive, members[name], name, Path(folder), limits, room)
                room -= arrays[name].bytes
            if "X" in arrays:
                return _store_dense(arrays["X"], arrays.get(LABEL), options, limits, output, warnings)
            if options.columns:
                raise IngestError("bad_option", "option columns: a sparse matrix has no columns whose kind can be set")
            if options.missing:
                raise IngestError(
                    "bad_option", "option missing: what a sparse matrix leaves out is 0, nothing is missing"
                )
            return _store_sparse(arrays, limits, output, warnings)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a seek to before the start
            raise  # the disk, not the file
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


def _used(members: dict[str, zipfile.ZipInfo], warnings: list[str]) -> list[str]:
    if "X" in members:
        features: tuple[str, ...] = DENSE
    elif all(name in members for name in SPARSE):
        features = SPARSE
    else:
        raise IngestError("malformed", f"expected an array X, or the arrays {', '.join(SPARSE)} of a CSR matrix")
    used = [name for name in (*features, LABEL) if name in members]
    if LABEL not in members:
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


@dataclass(frozen=True)
class _Array:
    """An array whose items lie in a file, packed no more."""

    name: str
    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @classmethod
    def unpack(
        cls, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, folder: Path, limits: ReadingLimits, room: int
    ) -> _Array:
        """Check what the header says, then unpack no more than that; `room` is what the file may still unpack to."""
        if info.flag_bits & 1:
            raise IngestError("unsupported", "the zip archive is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise IngestError("unsupported", "the zip archive is packed in a way that NumPy does not use")
        with archive.open(info) as member:
            shape, fortran, dtype = _read_header(member, name)
            size = dtype.itemsize
            for length in shape:
                size *= length
            if size > limits.max_bytes:
                raise IngestError(
                    "expands_too_much", f"array {name} has {size} bytes; at most {limits.max_bytes} are allowed"
                )
            if size > room:
                raise IngestError(
                    "expands_too_much", f"the file unpacks to more than {MAX_EXPANSION} times its own size"
                )
            path = folder / name
            with path.open("wb") as out:
                shutil.copyfileobj(_Bounded(member, size, name), out, 1 << 20)
        return cls(name, path, dtype, shape, fortran)

    @property
    def bytes(self) -> int:
        """Size of all items."""
        return self.dtype.itemsize * math.prod(self.shape)

    def items(self, start: int, stop: int) -> NDArray[Any]:
        """Read items of a 1-D array."""
        return np.fromfile(self.path, self.dtype, stop - start, offset=start * self.dtype.itemsize)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Read rows of a 2-D array."""
        n, d = self.shape
        if not self.fortran:
            return self.items(start * d, stop * d).reshape(stop - start, d)
        return np.column_stack([self.items(j * n + start, j * n + stop) for j in range(d)])


class _Bounded:
    """A file of exactly so many bytes."""

    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self._file = file
        self._left = size
        self._name = name

    def read(self, size: int = 1 << 20, /) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        if not data and self._left:
            raise IngestError("truncated", f"array {self._name} has fewer items than its header says")
        if not data and self._file.read(1):
            raise IngestError("malformed", f"array {self._name} has more items than its header says")
        return data


def _read_header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(member)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(member, max_header_size=MAX_HEADER_BYTES)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise IngestError("malformed", f"array {name} has no readable NumPy header") from None
    if dtype.hasobject:
        raise IngestError("unsupported", f"array {name} holds Python objects; expected numbers or fixed-width text")
    if any(length < 0 for length in shape):
        raise IngestError("malformed", f"array {name} has a negative length")
    return shape, fortran, dtype


def _store_dense(
    X: _Array, y: _Array | None, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]
) -> Columnar:
    _check_numeric(X)
    if len(X.shape) != 2:
        raise IngestError("malformed", f"array X has {len(X.shape)} dimensions; expected 2, rows × columns")
    n, d = X.shape
    labels = [] if y is None else [y]
    width = d + len(labels)
    if width == 0:
        raise IngestError("empty", "array X has no column")
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


def _store_sparse(arrays: dict[str, _Array], limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
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


def _row_blocks(indptr: _Array, n: int, nonzeros: int) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
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


def _check_numeric(array: _Array) -> None:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise IngestError(
            "unsupported",
            f"array {array.name} is of type {array.dtype.name[:32]}; expected booleans, integers or floats",
        )


def _check_labels(y: _Array, n: int) -> Storage:
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


def _labels(y: _Array, start: int, stop: int) -> pa.Array:
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
