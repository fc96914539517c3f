"""Writes the ``table`` layout: a Parquet file with a float64 or string column each, and its profile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_DISTINCT, Limits
from service.ingest.numbers import has_leading_zeros, has_outer_blanks
from service.ingest.options import Kind
from service.ingest.profile import Columnar, ColumnProfile

ARROW_TYPES: dict[Kind, pa.DataType] = {"number": pa.float64(), "text": pa.string()}
Batches = Callable[[], Iterator[list[pa.Array]]]
Convert = Callable[[int, pa.Array, int], pa.Array | None]


def check_columns(count: int, limits: Limits, *, line: int | None = None) -> None:
    """Refuse more columns than allowed."""
    if count > limits.max_columns:
        raise IngestError("too_many_columns", f"{count} columns; at most {limits.max_columns} are allowed", line=line)


def check_size(rows: int, columns: int, limits: Limits) -> None:
    """Refuse more rows, or more rows × columns, than allowed."""
    if rows > limits.max_rows:
        raise IngestError("too_many_rows", f"more than {limits.max_rows} rows")
    if rows * columns > limits.max_cells:
        raise IngestError("too_many_cells", f"more than {limits.max_cells} cells (rows × columns)")


def forced_kinds(columns: Mapping[str, Kind], names: Sequence[str]) -> dict[int, Kind]:
    """Return the kinds that the caller has set, by position; refuses names that are not there."""
    positions = {name: position for position, name in enumerate(names)}
    for name in columns:
        if name not in positions:
            raise IngestError("unknown_column", "option columns names a column that the file does not have")
    return {positions[name]: kind for name, kind in columns.items()}


def store_table(
    output: Path,
    names: list[str],
    kinds: list[Kind],
    batches: Batches,
    to_number: Convert,
    to_text: Convert,
    limits: Limits,
    warnings: list[str],
) -> Columnar:
    """Write a table whose columns' kinds only show while it is read.

    A column begins as what `kinds` says; where a number column turns out to hold something else, it becomes text. What
    was written until then is void, so the rest is only looked at and the batches are read once more: two passes at
    most.

    Parameters
    ----------
    output : Path
    names, kinds : list
        Of the columns. `kinds` is changed in place.
    batches : callable
        Starts to read from the beginning each time.
    to_number, to_text : callable
        Get position, array and number of its first row; return float64 or string with null for missing.
        `to_number` may return None: not a number column.
    limits : Limits
    warnings : list of str
        Gets what the person who sent the file should know.
    """
    while True:
        writer = _TableWriter(output, names)
        rows = 0
        valid = True
        for batch in batches():
            check_size(rows + len(batch[0]), len(names), limits)
            columns = []
            for position, array in enumerate(batch):
                column = None
                if kinds[position] == "number":
                    column = to_number(position, array, rows)
                    if column is None:
                        kinds[position] = "text"
                        valid = valid and rows == 0
                if column is None and valid:
                    column = to_text(position, array, rows)
                columns.append(column)
            if valid:
                writer.write(kinds, columns)
            rows += len(batch[0])
        if rows == 0:
            raise IngestError("empty", "no rows; expected at least one")
        profiles = writer.close(warnings if valid else [])
        if valid:
            return Columnar("table", rows, profiles)


class _TableWriter:
    """The Parquet file and the profile of one pass."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self._path = path
        self._file: pq.ParquetWriter | None = None
        self._columns = [ColumnStatistics(name) for name in names]

    def write(self, kinds: list[Kind], columns: list[pa.Array]) -> None:
        """Append a batch as one row group."""
        for column, kind, array in zip(self._columns, kinds, columns, strict=True):
            column.add(kind, array)
        schema = pa.schema(
            [(column.name, ARROW_TYPES[kind]) for column, kind in zip(self._columns, kinds, strict=True)]
        )
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._path,
                schema,
                compression="lz4",
                # Numbers rarely repeat enough to pay for a dictionary, which costs twice their encoding.
                use_dictionary=[field.name for field in schema if pa.types.is_string(field.type)],
                write_statistics=False,
                store_schema=False,
            )
        # Not write_batch, which would hold row groups of a million rows in memory.
        self._file.write_table(pa.table(columns, schema=schema), row_group_size=len(columns[0]))

    def close(self, warnings: list[str]) -> list[ColumnProfile]:
        """Finish the file; `warnings` gets what is odd about the columns."""
        if self._file is not None:
            self._file.close()
        warnings += [
            f"column {column.name!r}: texts begin or end with blanks, which count as part of them"
            for column in self._columns
            if column.outer_blanks
        ]
        return [column.profile() for column in self._columns]


class ColumnStatistics:
    """Profile of a column while its batches pass by."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: Kind = "number"
        self.outer_blanks = False
        self._missing = 0
        self._distinct = 0
        self._values: pa.Array | None = None  # those counted, until there are enough
        self._min = math.inf
        self._max = -math.inf
        self._leading_zeros = False

    def add(self, kind: Kind, array: pa.Array) -> None:
        """Take a batch into account."""
        self.kind = kind
        self._missing += array.null_count
        # A slice first: most columns with many values show it at once.
        for part in (array[: 2 * MAX_DISTINCT], array[2 * MAX_DISTINCT :]):
            if self._distinct < MAX_DISTINCT:
                self._count_distinct(part)
        if kind == "text":
            self._leading_zeros = self._leading_zeros or has_leading_zeros(array)
            self.outer_blanks = self.outer_blanks or has_outer_blanks(array)
        elif array.null_count < len(array):
            bounds = pc.min_max(array).as_py()
            self._min = min(self._min, bounds["min"])
            self._max = max(self._max, bounds["max"])

    def _count_distinct(self, array: pa.Array) -> None:
        values = pc.unique(array.drop_null())
        if self._values is not None:
            values = pc.unique(pa.concat_arrays([self._values, values]))
        self._distinct = min(len(values), MAX_DISTINCT)
        self._values = values if self._distinct < MAX_DISTINCT else None

    def profile(self) -> ColumnProfile:
        """Return what was seen."""
        has_bounds = self._min <= self._max
        return ColumnProfile(
            name=self.name,
            kind=self.kind,
            missing=self._missing,
            distinct=self._distinct,
            min=self._min if has_bounds else None,
            max=self._max if has_bounds else None,
            constant=self._distinct + (self._missing > 0) <= 1,
            leading_zeros=self._leading_zeros if self.kind == "text" else None,
            plus_minus_one=True if self._is_plus_minus_one() else None,
        )

    def _is_plus_minus_one(self) -> bool:
        return self.kind == "text" and self._values is not None and set(self._values.to_pylist()) == {"-1", "+1"}
