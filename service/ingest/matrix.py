"""Writes the ``matrix`` layout: a safetensors file with CSR arrays and labels.

Tensors: ``indptr`` int64 (rows + 1), ``indices`` int32, ``data`` float32 or float64; labels as ``labels`` float64 with
NaN for missing, or as UTF-8 texts ``label_bytes`` uint8 cut by ``label_offsets`` int64 (rows + 1), empty for missing.
Metadata: ``format``, ``columns``, ``first_index`` (what the user calls column 0), ``label`` (name of the label column),
``identifiers`` (JSON: columns, as the user calls them, that number or name the rows, each with the reason).
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits
from service.ingest.matrix_identifiers import Entries, MatrixIdentifiers
from service.ingest.profile import Columnar, ColumnProfile
from service.ingest.statistics import ColumnStatistics
from solver.kinds import identifier_warning

FORMAT = "prefsvm-matrix-1"
_SAFETENSORS_NAMES = {"uint8": "U8", "int32": "I32", "int64": "I64", "float32": "F32", "float64": "F64"}
_COPY_ITEMS = 1 << 18
_COPY_ROWS = 1 << 10


class MatrixWriter:
    """Takes rows block by block; memory stays flat, because the arrays wait in files beside the output.

    Parameters
    ----------
    output : Path
    limits : ReadingLimits
    dtype : {"float32", "float64"}
        Of the stored values.
    label : str
        Name of the label column.
    text_labels : bool
        Whether labels are texts.
    """

    def __init__(
        self,
        output: Path,
        limits: ReadingLimits,
        *,
        dtype: Literal["float32", "float64"],
        label: str,
        text_labels: bool,
    ) -> None:
        self._output = output
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="matrix-", dir=output.parent)
        self._tensors = {"indptr": self._spool("indptr", "int64"), "indices": self._spool("indices", "int32")}
        self._tensors["data"] = self._spool("data", dtype)
        if text_labels:
            self._tensors["label_offsets"] = self._spool("label_offsets", "int64")
            self._tensors["label_bytes"] = self._spool("label_bytes", "uint8")
            self._tensors["label_offsets"].append(np.zeros(1, np.int64))
        else:
            self._tensors["labels"] = self._spool("labels", "float64")
        self._tensors["indptr"].append(np.zeros(1, np.int64))
        self._identifiers = MatrixIdentifiers()
        self._label = ColumnStatistics(label)
        self._text_labels = text_labels
        self._min = np.inf
        self._max = -np.inf
        self.rows = 0
        self.nonzeros = 0

    def _spool(self, name: str, dtype: str) -> _Spool:
        return _Spool(Path(self._folder.name) / name, np.dtype(dtype))

    def __enter__(self) -> MatrixWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tensor in self._tensors.values():
            tensor.file.close()
        self._folder.cleanup()

    def write(
        self,
        counts: NDArray[np.int64],
        indices: NDArray[np.integer[Any]],
        values: NDArray[Any],
        labels: pa.DoubleArray | pa.StringArray,
    ) -> None:
        """Append rows.

        Parameters
        ----------
        counts : ndarray of int64, shape (rows,)
            Stored entries of each row.
        indices, values : ndarray, shape (sum of counts,)
            Checked by the caller: in range, ascending within a row, finite.
        labels : arrow array, length rows
            Null where missing.
        """
        self.rows += len(counts)
        if self.rows > self._limits.max_rows:
            raise IngestError("too_many_rows", f"more than {self._limits.max_rows} rows")
        ends = np.cumsum(counts) + self.nonzeros
        self.nonzeros += len(values)
        if self.nonzeros > self._limits.max_cells:
            raise IngestError("too_many_cells", f"more than {self._limits.max_cells} stored entries")
        self._tensors["indptr"].append(ends)
        self._tensors["indices"].append(indices)
        self._tensors["data"].append(values)
        if len(values):
            self._min = min(self._min, float(values.min()))
            self._max = max(self._max, float(values.max()))
        self._identifiers.add(counts, indices, values)
        self._label.add(labels)
        if self._text_labels:
            self._append_texts(labels)
        else:
            self._tensors["labels"].append(labels.to_numpy(zero_copy_only=False))

    def __iter__(self) -> Iterator[Entries]:
        """Yield the rows that were written, block by block, with the indices as they were written."""
        indptr, indices, data = (self._tensors[name] for name in ("indptr", "indices", "data"))
        with indptr.path.open("rb") as ends_file, indices.path.open("rb") as where, data.path.open("rb") as what:
            end = int(np.fromfile(ends_file, indptr.dtype, 1)[0])
            while len(ends := np.fromfile(ends_file, indptr.dtype, _COPY_ROWS)):
                counts = np.diff(ends, prepend=end)
                n, end = int(ends[-1]) - end, int(ends[-1])
                yield counts, np.fromfile(where, indices.dtype, n), np.fromfile(what, data.dtype, n)

    def _append_texts(self, labels: pa.StringArray) -> None:
        packed = [b"" if text is None else text.encode() for text in labels.to_pylist()]
        lengths = np.fromiter(map(len, packed), np.int64, len(packed))
        self._tensors["label_offsets"].append(np.cumsum(lengths) + self._tensors["label_bytes"].items)
        self._tensors["label_bytes"].append(np.frombuffer(b"".join(packed), np.uint8))

    def close(self, columns: int, warnings: list[str], *, first_index: int, index_shift: int = 0) -> Columnar:
        """Write the file.

        Parameters
        ----------
        columns : int
            Width of the matrix.
        warnings : list of str
            Gets one for each column that numbers or names the rows.
        first_index : int
            What the user calls column 0.
        index_shift : int
            What to subtract from the indices as they were written.
        """
        if self.rows == 0:
            raise IngestError("empty", "no rows; expected at least one")
        if columns == 0 or self.nonzeros == 0:
            raise IngestError("empty", "no row has a feature")
        label = self._label.profile("category")
        for tensor in self._tensors.values():
            tensor.file.flush()
        # Indices as they were written are what the user calls the columns.
        identifiers = {str(column): reason for column, reason in self._identifiers.reasons(self).items()}
        warnings += [identifier_warning(name, reason) for name, reason in identifiers.items()]
        header: dict[str, Any] = {
            "__metadata__": {
                "format": FORMAT,
                "columns": str(columns),
                "first_index": str(first_index),
                "label": label.name,
                "identifiers": json.dumps(identifiers),
            }
        }
        # Wider items first, so that every tensor is aligned.
        ordered = sorted(self._tensors.items(), key=lambda each: -each[1].dtype.itemsize)
        position = 0
        for name, tensor in ordered:
            end = position + tensor.items * tensor.dtype.itemsize
            header[name] = {
                "dtype": _SAFETENSORS_NAMES[tensor.dtype.name],
                "shape": [tensor.items],
                "data_offsets": [position, end],
            }
            position = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with self._output.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for name, tensor in ordered:
                with tensor.path.open("rb") as file:
                    if name == "indices" and index_shift:
                        while len(block := np.fromfile(file, tensor.dtype, _COPY_ITEMS)):
                            out.write((block - tensor.dtype.type(index_shift)).tobytes())
                    else:
                        shutil.copyfileobj(file, out, 1 << 20)
        features = ColumnProfile(
            "features",
            "features",
            count=columns,
            nonzeros=self.nonzeros,
            min=self._min,
            max=self._max,
            identifiers=identifiers or None,
        )
        return Columnar("matrix", self.rows, [features, label])


class _Spool:
    """Items of one tensor, waiting in a file."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path = path
        self.dtype = dtype
        self.items = 0
        self.file = path.open("wb")

    def append(self, block: NDArray[Any]) -> None:
        self.file.write(np.ascontiguousarray(block, dtype=self.dtype).tobytes())
        self.items += len(block)
