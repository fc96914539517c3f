"""Reads JSON Lines: one flat object a line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_EXACT_INTEGER, Limits
from service.ingest.missing_words import MissingWords
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar, checked_names
from service.ingest.statistics import number_text
from service.ingest.stream import ChunkReader, recoded, unpacked, with_bounded_lines
from service.ingest.table import Storage, check_columns, check_size, forced_kinds, store_arrays, stored_as
from service.json_names import has_repeated_names
from solver.labels import is_missing_word

BATCH_ROWS = 8192
BATCH_CELLS = 1 << 18
MAX_DOUBLE_INTEGER = 2**63
"""From here on the parser gives floats for integers; such lines are parsed again, slowly."""
Row = dict[str, Any]


def read_jsonl(path: Path, options: TableOptions, limits: Limits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of a JSON Lines file, maybe gzipped.

    Each line is an object whose values are texts, numbers, booleans or null. A column is there if any line has it;
    lines without it, null and the empty text are missing values. A column whose values are all numbers is a number
    column; in any other, numbers are written in their shortest form and booleans as ``true`` and ``false``. Empty lines
    are skipped.

    Raises
    ------
    IngestError
    """
    return _Reader(path, options, limits, warnings).store(output)


class _Reader:
    def __init__(self, path: Path, options: TableOptions, limits: Limits, warnings: list[str]) -> None:
        self._path = path
        self._limits = limits
        self._warnings = warnings
        self._words = MissingWords()
        self._keys, self._storage = self._survey()
        self._names = checked_names(self._keys, warnings)
        self._forced = forced_kinds(options.columns, self._names)

    def store(self, output: Path) -> Columnar:
        storage = [stored_as(self._forced[j]) if j in self._forced else each for j, each in enumerate(self._storage)]
        return store_arrays(
            output, self._names, storage, self._batches, self._limits, self._warnings, self._forced, self._words
        )

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
            if _has_repeated_names(line, row):
                raise IngestError("malformed", "an object has the same name twice", line=number)
            if any(isinstance(value, float) and abs(value) >= MAX_DOUBLE_INTEGER for value in row.values()):
                row = _parse_slowly(line, number)
            yield number, row

    def _survey(self) -> tuple[list[str], list[Storage]]:
        """Return the names of all columns in the order of their first lines, and how they have to be kept."""
        storage: dict[str, Storage] = {}
        with_words: set[str] = set()
        with_numbers: set[str] = set()
        for rows, (number, row) in enumerate(self._rows(), start=1):
            for name, value in row.items():
                kept = storage.get(name)
                if kept is None:
                    check_columns(len(storage) + 1, self._limits, line=number)
                    storage[name] = kept = "number"
                if kept != "number" or value is None:
                    continue
                if _is_number(value):
                    with_numbers.add(name)
                elif isinstance(value, str) and (not value or is_missing_word(value)):
                    with_words.add(name)  # as long as all other values are numbers
                else:
                    if isinstance(value, dict | list):
                        raise self._nested(number, name)
                    storage[name] = "text"
            check_size(rows, len(storage), self._limits)
        if not storage:
            raise IngestError("empty", "no rows; expected one object a line")
        storage |= dict.fromkeys(with_words - with_numbers, "text")
        return list(storage), list(storage.values())

    def _nested(self, line: int, name: str) -> IngestError:
        shown = name if name.isprintable() and len(name) <= 256 else "…"
        return IngestError(
            "unsupported",
            f"column {shown!r} holds an object or a list; expected texts, numbers, booleans or null",
            line=line,
            column=shown or None,
        )

    def _batches(self) -> Iterator[list[pa.Array]]:
        """Yield columns of Python values as arrays of text or numbers."""
        rows: list[tuple[int, Row]] = []
        most = max(1, min(BATCH_ROWS, BATCH_CELLS // len(self._keys)))
        size = 0
        for number, row in self._rows():
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
            else:
                columns.append(pa.array(list(map(self._as_text, values, rows, [key] * len(rows))), pa.string()))
        return columns

    def _as_text(self, value: Any, row: tuple[int, Row], key: str) -> str | None:
        if isinstance(value, str):
            if "\0" in value:
                raise IngestError("bad_value", "a text holds a NUL character", line=row[0])
            return value or None
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return number_text(value)
        if isinstance(value, dict | list):
            raise self._nested(row[0], key)
        return str(value)


def _is_number(value: Any) -> bool:
    """Tell whether a value is a number that float64 can hold; a longer integer is an identifier."""
    if isinstance(value, float):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_EXACT_INTEGER


def _has_repeated_names(line: bytes, row: Row) -> bool:
    try:
        return has_repeated_names(line, row)
    except RecursionError:
        return False  # what is nested so deeply is refused anyway


def _parse_slowly(line: bytes, number: int) -> Row:
    """Parse an object with integers of any length."""
    try:
        row: Row = json.loads(line)
    except ValueError:
        raise IngestError("bad_value", "a number of too many digits", line=number) from None
    return row
