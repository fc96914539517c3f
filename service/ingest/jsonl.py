"""Reads JSON Lines: one flat object a line."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_EXACT_INTEGER, ReadingLimits
from service.ingest.mixed import mixed_array
from service.ingest.options import TableOptions
from service.ingest.profile import NESTED, Columnar, checked_names, left_out_warnings
from service.ingest.stream import ChunkReader, recoded, unpacked, with_bounded_lines
from service.ingest.table import Storage, TableReader, check_columns, check_size
from service.json_names import has_repeated_names
from solver.labels import is_missing_word

BATCH_ROWS = 8192
BATCH_CELLS = 1 << 18
MAX_DOUBLE_INTEGER = 2**63
"""From here on the parser gives floats for integers; such lines are parsed again, slowly."""
Row = dict[str, Any]


def read_jsonl(path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of a JSON Lines file, maybe gzipped.

    Each line is an object whose values are texts, numbers, booleans or null. Columns that hold a list or an object
    anywhere are left out, and said. A column is there if any line has it; lines without it, null and the empty text are
    missing values. A column whose values are all numbers is a number column, and so is one whose texts are numbers in
    one way of writing, see `service.ingest.writings`. In any other, numbers are written in their shortest form and
    booleans as ``true`` and ``false``. Empty lines are skipped.

    Raises
    ------
    IngestError
    """
    return _Reader(path, options, limits, warnings).store(output)


class _Reader(TableReader):
    def __init__(self, path: Path, options: TableOptions, limits: ReadingLimits, warnings: list[str]) -> None:
        super().__init__(path, options, limits, warnings)
        found, self._nested, mixed = self._survey()
        names = checked_names(list(found), warnings)
        self._left_out = {name: NESTED for name, key in zip(names, found, strict=True) if key in self._nested}
        if len(self._left_out) == len(names):
            raise IngestError(
                "unsupported", f"column {names[0]!r} cannot be used, nor can any other: {NESTED}", column=names[0]
            )
        warnings += left_out_warnings(self._left_out)
        self._keys = [key for key in found if key not in self._nested]
        self._mixed = mixed
        names = [name for name in names if name not in self._left_out]
        self._know(names, [found[key] for key in self._keys], self._left_out)

    def store(self, output: Path) -> Columnar:
        return dataclasses.replace(self._store(output, {}), left_out=self._left_out)

    def _rows(self) -> Iterator[tuple[int, Row]]:
        """Yield each object with the number of its line."""
        chunks = with_bounded_lines(recoded(unpacked(self._path, self._limits), None), self._limits.max_line_bytes)
        for number, line in enumerate(io.BufferedReader(ChunkReader(chunks), 1 << 20), start=1):
            if line.isspace():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                # Its messages name what was expected, never what was read; the line in them is that of this one line.
                place = f"at character {error.pos + 1} of the line"
                raise IngestError(
                    "malformed", f"not JSON: {error.msg}, {place}; expected one object a line", line=number
                ) from None
            if not isinstance(row, dict):
                raise IngestError("malformed", "not an object; expected one object a line", line=number)
            try:
                if has_repeated_names(line, row):
                    raise IngestError("malformed", "an object has the same name twice", line=number)
                if any(isinstance(value, float) and abs(value) >= MAX_DOUBLE_INTEGER for value in row.values()):
                    row = _parse_slowly(line, number)
            except RecursionError:
                raise IngestError("malformed", "a value is nested too deeply to be read", line=number) from None
            if self._missing:
                row = {
                    name: None if isinstance(value, str) and value in self._missing else value
                    for name, value in row.items()
                }
            yield number, row

    def _survey(self) -> tuple[dict[str, Storage], set[str], set[str]]:
        """Return how all columns have to be kept, in the order of their first lines; those that are nested, or mixed.

        In a mixed one numbers stand beside texts.
        """
        storage: dict[str, Storage] = {}
        nested: set[str] = set()
        with_words: set[str] = set()
        with_numbers: set[str] = set()
        for rows, (number, row) in enumerate(self._rows(), start=1):
            for name, value in row.items():
                kept = storage.get(name)
                if kept is None:
                    check_columns(len(storage) + 1, self._limits, line=number)
                    storage[name] = kept = "number"
                if isinstance(value, dict | list):
                    nested.add(name)
                if value is None:
                    continue
                if _is_number(value):
                    with_numbers.add(name)
                elif kept != "number":
                    continue
                elif isinstance(value, str) and (not value or is_missing_word(value)):
                    with_words.add(name)  # as long as all other values are numbers
                else:
                    storage[name] = "text"
            check_size(rows, len(storage), self._limits)
        if not storage:
            raise IngestError("empty", "no rows; expected one object a line")
        storage |= dict.fromkeys(with_words - with_numbers, "text")
        return storage, nested, {name for name in with_numbers if storage[name] == "text"}

    def _batches(self) -> Iterator[list[pa.Array]]:
        """Yield columns of Python values as arrays of text or numbers."""
        rows: list[tuple[int, Row]] = []
        most = max(1, min(BATCH_ROWS, BATCH_CELLS // len(self._keys)))
        size = 0
        for number, row in self._rows():
            for key in self._nested & row.keys():  # however large they are, no batch holds them
                del row[key]
            rows.append((number, row))
            size += sum(len(value) for value in row.values() if isinstance(value, str))
            if len(rows) == most or size > 16 << 20:
                yield self._columns(rows)
                rows, size = [], 0
        if rows:
            yield self._columns(rows)

    def _columns(self, rows: list[tuple[int, Row]]) -> list[pa.Array]:
        columns = []
        for position, (key, kept) in enumerate(zip(self._keys, self._storage, strict=True)):
            values = [row.get(key) for _, row in rows]
            if kept == "number":
                values = [
                    None if isinstance(value, str) and (not value or self._words.is_one(position, value)) else value
                    for value in values
                ]
                columns.append(pa.array(values, pa.float64()))
            elif key in self._mixed:
                columns.append(
                    mixed_array(
                        value if _is_number(value) else self._as_text(value, row)
                        for value, row in zip(values, rows, strict=True)
                    )
                )
            else:
                columns.append(pa.array(list(map(self._as_text, values, rows)), pa.string()))
        return columns

    def _as_text(self, value: Any, row: tuple[int, Row]) -> str | None:
        """Return a value as text that is no number, or too long a one."""
        if isinstance(value, str):
            if "\0" in value:
                raise IngestError("bad_value", "a text holds a NUL character", line=row[0])
            return value or None
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)


def _is_number(value: Any) -> bool:
    """Tell whether a value is a number that float64 can hold; a longer integer is an identifier."""
    if isinstance(value, float):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_EXACT_INTEGER


def _parse_slowly(line: bytes, number: int) -> Row:
    """Parse an object with integers of any length."""
    try:
        row: Row = json.loads(line)
    except ValueError:
        raise IngestError("bad_value", "a number of too many digits", line=number) from None
    return row
