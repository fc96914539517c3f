"""Reads the columnar form back, for training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import safe_open
from scipy import sparse

from service.ingest import lean_arrow  # noqa: F401  # before any array
from service.ingest.errors import IngestError
from service.ingest.identifiers import identifier
from service.ingest.key_lookup import KeyLookup
from service.ingest.labels import composed, fault
from service.ingest.matrix import FORMAT
from service.ingest.matrix_identifiers import MatrixIdentifiers
from service.ingest.options import Kind
from service.ingest.statistics import number_text
from service.ingest.table import GUESSES_KEY, IDENTIFIERS_KEY, KINDS_KEY, READINGS_KEY, WRITTEN_KEY
from service.ingest.vectors import VectorArray, is_stored_vector, vector_length, vectors_of
from solver.features import Column, MatrixData, Table
from solver.reading import Reading

Layout = Literal["table", "matrix"]
COLUMNS_BYTES = 16 << 20
"""Of columns of numbers that are read at once, of a whole file or where only a few of their rows are wanted."""
TEXT_BYTES = 64
"""That a text takes, about, as far as can be known before it is read."""


class TooManyBytesError(ValueError):
    """Rows that are wanted take more memory than they may."""


def read_columnar(path: Path, layout: Layout) -> Table | MatrixData:
    """Return all rows of a data set.

    Parameters
    ----------
    path : Path
        What `service.ingest.run.ingest` wrote.
    layout : {"table", "matrix"}
        As `IngestResult.layout` says.

    Returns
    -------
    Table or MatrixData
        A table holds every column, that of the labels too: number columns as float64 with NaN where missing, text
        columns as categories, those of vectors as float32. A matrix holds the features only, as CSR.
    """
    return _read_table(path) if layout == "table" else _read_matrix(path)


def read_column(path: Path, name: str) -> Column:
    """Return one column of a table; raises `KeyError` if it has none of that name."""
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        return _whole_column(file, name, _readings(file).get(name))


def count_rows(path: Path, layout: Layout) -> int:
    """Return how many rows a data set has, without reading them."""
    if layout == "table":
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
            return int(file.metadata.num_rows)
    with safe_open(path, framework="numpy") as file:
        return int(file.get_slice("indptr").get_shape()[0]) - 1


def column_names(path: Path, layout: Layout) -> list[str]:
    """Return the names of the columns of a table; none of a matrix, whose columns have numbers."""
    if layout == "matrix":
        return []
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        names: list[str] = file.schema_arrow.names
    return names


def column_readings(path: Path, layout: Layout) -> dict[str, Reading]:
    """Return how the values of the columns of a table were read; nothing of what was stored before that was kept."""
    if layout == "matrix":
        return {}
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        return _readings(file)


def read_blocks(path: Path, layout: Layout, columns: Collection[str], rows: int) -> Iterator[Table | MatrixData]:
    """Yield a data set block by block, in order; of a table only one block is in memory at a time.

    Parameters
    ----------
    path, layout
        As for `read_columnar`.
    columns : collection of str
        The columns of a table that are wanted; those that it lacks are left out.
    rows : int
        Rows of a block, at most.
    """
    if layout == "matrix":
        whole = _read_matrix(path)
        for start in range(0, whole.n_rows, rows):
            yield MatrixData(whole.X[start : start + rows], whole.first_index)
        return
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        readings = _readings(file)
        wanted = frozenset(columns)
        names = [name for name in file.schema_arrow.names if name in wanted]
        # By name again, because asking Parquet for a column "a" also gives one that is called "a.b".
        for batch in file.iter_batches(batch_size=rows, columns=names):
            yield Table(
                {name: _column(name, pa.chunked_array([batch.column(name)]), readings.get(name)) for name in names}
            )


def find_rows(
    path: Path, key: str, keys: Collection[str], columns: Collection[str], max_bytes: int
) -> tuple[dict[str, list[int]], Table]:
    """Return the rows of a table that have one of some keys; only so much of it as they need is in memory.

    Parameters
    ----------
    path : Path
        As for `read_columnar`, of the layout ``table``.
    key : str
        The column that names the rows.
    keys : collection of str
        As `service.ingest.keys.key_texts` gives them.
    columns : collection of str
        Those that are wanted.
    max_bytes : int
        What the values of these rows may take.

    Returns
    -------
    found : dict of str to list of int
        By key, the places of its rows in `table`; no more than two.
    table : Table
        Empty unless each key has one row.

    Raises
    ------
    InexactKeyError
        If the column cannot be the key.
    TooManyBytesError
        If the rows take more than `max_bytes`.
    """
    found: dict[str, list[int]] = {}
    rows_of_groups: dict[int, list[int]] = {}
    taken = 0
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        lookup = KeyLookup(key, _readings(file).get(key), keys)
        for group in range(file.num_row_groups):
            for row, text in lookup.rows(file.read_row_group(group, [key]).column(key)):
                if len(places := found.setdefault(text, [])) < 2:
                    places.append(taken)
                    rows_of_groups.setdefault(group, []).append(row)
                    taken += 1
        if len(found) < len(keys) or taken > len(found):
            return found, Table({})
        return found, _taken(file, rows_of_groups, columns, max_bytes)


def rows_at(
    path: Path, layout: Layout, rows: Sequence[int], columns: Collection[str], max_bytes: int
) -> Table | MatrixData:
    """Return some rows of a data set, in this order; only so much of it as they need is in memory.

    Parameters
    ----------
    path, layout
        As for `read_columnar`.
    rows : sequence of int
        Their numbers, each from 0 to below that of the rows, and none of them twice.
    columns : collection of str
        Those of a table that are wanted.
    max_bytes : int
        What the values of these rows may take.

    Raises
    ------
    TooManyBytesError
        If the rows take more than `max_bytes`.
    """
    if layout == "matrix":
        return _matrix_rows_at(path, rows, max_bytes)
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
        ascending = np.sort(np.asarray(rows, dtype=np.int64))
        rows_of_groups: dict[int, list[int]] = {}
        for row, group in zip(ascending.tolist(), np.searchsorted(ends, ascending, side="right").tolist(), strict=True):
            rows_of_groups.setdefault(group, []).append(row - (int(ends[group - 1]) if group else 0))
        return _taken(file, rows_of_groups, columns, max_bytes).take(np.searchsorted(ascending, rows))


def _matrix_rows_at(path: Path, rows: Sequence[int], max_bytes: int) -> MatrixData:
    with safe_open(path, framework="numpy") as file:
        metadata = _matrix_metadata(file)
        indptr, indices, data = file.get_tensor("indptr"), file.get_slice("indices"), file.get_slice("data")
        parts = [slice(int(indptr[row]), int(indptr[row + 1])) for row in rows]
        ends = np.cumsum([0, *(part.stop - part.start for part in parts)])
        if 12 * int(ends[-1]) > max_bytes:
            raise TooManyBytesError
        some = [part for part in parts if part.start < part.stop]  # an empty one at the end is no slice to safetensors
        columns = np.concatenate([np.zeros(0, dtype=np.int32), *(indices[part] for part in some)])
        values = np.concatenate([np.zeros(0, dtype=np.float32), *(data[part] for part in some)])
    shape = (len(rows), int(metadata["columns"]))
    X = sparse.csr_array((values, columns, ends), shape=shape)
    return MatrixData(X, first_index=int(metadata["first_index"]))


def _taken(
    file: pq.ParquetFile, rows_of_groups: Mapping[int, Sequence[int]], columns: Collection[str], max_bytes: int
) -> Table:
    """Return rows of some groups, by their places in these, in the order of the mapping."""
    readings = _readings(file)
    wanted = frozenset(columns)
    names = [name for name in file.schema_arrow.names if name in wanted]
    parts: dict[str, list[pa.Array]] = {name: [] for name in names}
    size = 0
    for group, rows in rows_of_groups.items():
        places_in_group = pa.array(rows, pa.int64())
        # A few columns at a time: a group of a wide table holds hundreds of megabytes.
        most = max(1, COLUMNS_BYTES // (8 * file.metadata.row_group(group).num_rows))
        for first in range(0, len(names), most):
            some = names[first : first + most]
            read = file.read_row_group(group, some)
            for name in some:
                values = read.column(name).take(places_in_group)
                size += values.nbytes
                parts[name] += values.chunks
            if size > max_bytes:
                raise TooManyBytesError
    return Table({name: _column(name, pa.chunked_array(parts[name]), readings.get(name)) for name in names})


def read_labels(path: Path, layout: Layout, target: str) -> NDArray[np.object_]:
    """Return the label of each row as text, None where it is missing.

    Parameters
    ----------
    path, layout
        As for `read_columnar`.
    target : str
        Name of the label column: any column of a table; of a matrix, the one its profile names (``label`` or ``y``).

    Returns
    -------
    ndarray of object, shape (rows,)
        Texts as they were written, but for their Unicode, which is normalised (NFC). Numbers in their shortest form:
        ``1``, ``-1``, ``0.5``, never ``1.0``; where they are few and have units, separators of thousands or decimal
        commas, as they stand in the file: ``10%``.

    Raises
    ------
    IngestError
        ``unknown_column``; ``bad_label`` for a label over 256 characters or with control characters.
    """
    return _table_labels(path, target) if layout == "table" else _matrix_labels(path, target)


def read_kinds(path: Path, layout: Layout) -> dict[str, Kind]:
    """Return the kinds of columns that the caller or the format has said; of the others there are only guesses."""
    return _stored_kinds(path, layout, KINDS_KEY)


def read_guesses(path: Path, layout: Layout) -> dict[str, Kind]:
    """Return what the other columns of text were taken for."""
    return _stored_kinds(path, layout, GUESSES_KEY)


def _stored_kinds(path: Path, layout: Layout, key: str) -> dict[str, Kind]:
    if layout == "matrix":
        return {}
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        return _noted(file, key)


def _noted(file: pq.ParquetFile, key: str) -> dict[str, Any]:
    """Return what is noted of the columns of a table; nothing in what was stored before that was noted."""
    noted: dict[str, Any] = json.loads((file.metadata.metadata or {}).get(key.encode(), b"{}"))
    return noted


def read_identifiers(path: Path, layout: Layout) -> dict[str, str]:
    """Return the columns that number or name the rows, each with what shows it, see `service.ingest.identifiers`."""
    if layout == "matrix":
        with safe_open(path, framework="numpy") as file:
            known_of_matrix = _matrix_metadata(file).get("identifiers")
        if known_of_matrix is None:  # as below
            return _identifiers_of(_read_matrix(path))
        of_matrix: dict[str, str] = json.loads(known_of_matrix)
        return of_matrix
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        stored = (file.metadata.metadata or {}).get(IDENTIFIERS_KEY.encode())
        if stored is None:  # read before such columns were looked for
            known = read_kinds(path, layout)
            found = {
                name: identifier(name, pa.concat_arrays(_read_column(file, name).chunks))
                for name in file.schema_arrow.names
                if name not in known
            }
            return {name: reason for name, reason in found.items() if reason is not None}
    identifiers: dict[str, str] = json.loads(stored)
    return identifiers


def _identifiers_of(matrix: MatrixData) -> dict[str, str]:
    X = cast("sparse.csr_array", matrix.X)
    entries = np.diff(X.indptr).astype(np.int64), X.indices, X.data
    looked = MatrixIdentifiers()
    looked.add(*entries)
    return {str(column + matrix.first_index): reason for column, reason in looked.reasons([entries]).items()}


def _readings(file: pq.ParquetFile) -> dict[str, Reading]:
    """Return how the values of each column are written."""
    return {name: Reading.from_json(reading) for name, reading in _noted(file, READINGS_KEY).items()}


def _read_table(path: Path) -> Table:
    columns = {}
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        schema, readings = file.schema_arrow, _readings(file)
        for names in _read_at_once(file, schema):
            if is_stored_vector(schema.field(names[0]).type):
                columns[names[0]] = _whole_vectors(file, schema.field(names[0]))
                continue
            read = file.read(names)
            for name in names:
                columns[name] = _column(name, read.column(name), readings.get(name))
    return Table(columns)


def _read_at_once(file: pq.ParquetFile, schema: pa.Schema) -> Iterator[list[str]]:
    """Yield the names of columns, in order, in parts of which Arrow's copy is small beside the result.

    Not one by one: whatever is asked of a file costs by all of its columns. One of vectors stands alone.
    """
    held: list[str] = []
    size = 0
    for field in schema:
        of_field = file.metadata.num_rows * (8 if pa.types.is_floating(field.type) else TEXT_BYTES)
        is_vector = is_stored_vector(field.type)
        if held and (is_vector or size + of_field > COLUMNS_BYTES):
            yield held
            held, size = [], 0
        if is_vector:
            yield [field.name]
            continue
        held.append(field.name)
        size += of_field
    if held:
        yield held


def _whole_column(file: pq.ParquetFile, name: str, reading: Reading | None) -> Column:
    field = file.schema_arrow.field(name)
    if is_stored_vector(field.type):
        return _whole_vectors(file, field)
    return _column(name, _read_column(file, name), reading)


def _whole_vectors(file: pq.ParquetFile, field: pa.Field) -> Column:
    name, type_ = field.name, field.type
    # Group by group: vectors may be most of a file, which is not to be there twice.
    vectors = np.empty((file.metadata.num_rows, vector_length(type_)), dtype=np.float32)
    start = 0
    for group in range(file.num_row_groups):
        for chunk in file.read_row_group(group, [name]).column(name).chunks:
            vectors[start : start + len(chunk)] = vectors_of(chunk)
            start += len(chunk)
    return Column(name, "vector", vectors)


def _column(name: str, values: pa.ChunkedArray, reading: Reading | None) -> Column:
    if is_stored_vector(values.type):
        return Column(name, "vector", _joined_vectors(values))
    return Column(name, "number" if pa.types.is_floating(values.type) else "text", _to_numpy(values), reading)


def _joined_vectors(values: pa.ChunkedArray) -> VectorArray:
    parts = [vectors_of(chunk) for chunk in values.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, vector_length(values.type)), "f4"), *parts])


def _read_column(file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    # By name again, because asking Parquet for a column "a" also gives one that is called "a.b".
    return file.read([name]).column(name)


def _to_numpy(values: pa.ChunkedArray, spell: Callable[[str], str] = str) -> NDArray[Any]:
    if pa.types.is_floating(values.type):
        return np.asarray(values.to_numpy(), dtype=np.float64)
    # By way of a dictionary, so that equal texts are one object: categories repeat.
    coded = pa.concat_arrays(values.dictionary_encode().unify_dictionaries().chunks)
    levels = np.array([*map(spell, coded.dictionary.to_pylist()), None], dtype=object)
    values_of_rows: NDArray[Any] = levels[coded.indices.fill_null(len(levels) - 1).to_numpy()]
    return values_of_rows


def _read_matrix(path: Path) -> MatrixData:
    with safe_open(path, framework="numpy") as file:
        metadata = _matrix_metadata(file)
        data, indices, indptr = (file.get_tensor(name) for name in ("data", "indices", "indptr"))
    if len(data) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # the width of indices, else SciPy widens those
    X = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, int(metadata["columns"])))
    return MatrixData(X, first_index=int(metadata["first_index"]))


def _matrix_metadata(file: Any) -> dict[str, str]:
    metadata: dict[str, str] = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise ValueError(f"not a matrix file of the format {FORMAT}")
    return metadata


def _table_labels(path: Path, target: str) -> NDArray[np.object_]:
    with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
        if target not in file.schema_arrow.names:
            raise _unknown_target()
        values = _to_numpy(_read_column(file, target), _label)
        written = _noted(file, WRITTEN_KEY).get(target, {})
    return _number_labels(values, written) if values.dtype == np.float64 else values


def _matrix_labels(path: Path, target: str) -> NDArray[np.object_]:
    with safe_open(path, framework="numpy") as file:
        if target != _matrix_metadata(file)["label"]:
            raise _unknown_target()
        if "labels" in file.keys():  # noqa: SIM118 (not a mapping)
            return _number_labels(file.get_tensor("labels"))
        offsets, packed = file.get_tensor("label_offsets"), file.get_tensor("label_bytes")
    texts = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(packed))
    return _to_numpy(pa.chunked_array([pc.if_else(pc.equal(texts, ""), None, texts)]), _label)


def _unknown_target() -> IngestError:
    return IngestError("unknown_column", "the data set has no column of the name that target gives")


def _number_labels(values: NDArray[np.float64], written: Mapping[str, str] | None = None) -> NDArray[np.object_]:
    """Return numbers as labels: as they stand in the file, if that is known, else in their shortest form."""
    known = written or {}
    unique, inverse = np.unique(values, return_inverse=True)
    shortest = [None if math.isnan(value) else number_text(float(value)) for value in unique]
    texts: NDArray[np.object_] = np.array(
        [_label(known[form]) if form is not None and form in known else form for form in shortest], dtype=object
    )
    return texts[inverse]


def _label(text: str) -> str:
    label = composed(text)
    wrong = fault(label)
    if wrong is not None:
        raise IngestError("bad_label", f"a label {wrong}; is target the right column?")
    return label
