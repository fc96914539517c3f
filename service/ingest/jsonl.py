"""Reads JSON Lines: one flat object a line."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from service.ingest.batches import rows_of_values
from service.ingest.errors import IngestError
from service.ingest.limits import CELL_BYTES, MAX_EXACT_INTEGER, ReadingLimits, check_laid_out
from service.ingest.mixed import mixed_array
from service.ingest.options import TableOptions
from service.ingest.profile import NESTED, Columnar, checked_names, left_out_warnings
from service.ingest.stream import ChunkReader, check_beginning, recoded, unpacked, with_bounded_lines
from service.ingest.table import Storage, TableReader, check_columns, check_size
from service.ingest.vectors import HOLDS_VECTORS, NOT_ALIKE, NUMBER_BYTES, VectorReader, stored
from service.json_names import has_repeated_names
from solver.labels import is_missing_word

MAX_DOUBLE_INTEGER = 2**63
"""From here on the parser gives floats for integers; such lines are parsed again, slowly."""
Row = dict[str, Any]


def read_jsonl(path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of a JSON Lines file, maybe gzipped.

    Each line is an object whose values are texts, numbers, booleans, null or vectors: lists of as many numbers in each
    row. Columns that hold another list or an object anywhere are left out, and said; so are those of lists of whole
    numbers only, if not all rows have one of the same length. A column is there if any line has it; lines without it,
    null and the empty text are missing values. A column whose values are all numbers is a number column, and so is one
    whose texts are numbers in one way of writing, see `service.ingest.writings`. In any other, numbers are written in
    their shortest form and booleans as ``true`` and ``false``. Empty lines are skipped.

    Raises
    ------
    IngestError
    """
    return _Reader(path, options, limits, warnings).store(output)


@dataclass
class _Lists:
    """What the lists of a column are, as far as they have been seen."""

    length: int = 0
    """Of the first one."""
    alike: int = 0
    """Rows with a list of so many numbers."""
    others: bool = False
    """Whether there is something that no vector can hold: texts, booleans, lists or objects."""
    whole: bool = True
    """Whether all numbers are whole."""

    def add(self, value: list[Any]) -> None:
        kinds = {*map(type, value)}
        self.others = self.others or not kinds <= {int, float, type(None)}
        self.length = self.length or len(value)
        self.alike += 0 < len(value) == self.length and kinds <= {int, float}
        if self.whole and float in kinds:
            self.whole = all(number.is_integer() for number in value if isinstance(number, float))

    def are_vectors(self, rows: int) -> bool | None:
        """Whether they are vectors, in all of so many rows; None if they are meant to be, and some are not."""
        if self.others or not self.alike:
            return False
        if self.alike == rows:
            return True
        return False if self.whole else None


class _Reader(TableReader):
    def __init__(self, path: Path, options: TableOptions, limits: ReadingLimits, warnings: list[str]) -> None:
        super().__init__(path, options, limits, warnings)
        check_beginning(path, limits)
        found, self._nested, mixed = self._survey()
        names = checked_names(list(found), warnings)
        self._left_out = {
            name: self._nested[key] for name, key in zip(names, found, strict=True) if key in self._nested
        }
        self._vectors = {
            key: VectorReader(name, self._lengths[key])
            for name, key in zip(names, found, strict=True)
            if key in self._lengths
        }
        if len(self._left_out) == len(names):
            raise IngestError(
                "unsupported",
                f"column {names[0]!r} cannot be used, nor can any other: {self._left_out[names[0]]}",
                column=names[0],
            )
        warnings += left_out_warnings(self._left_out)
        self._keys = [key for key in found if key not in self._nested]
        self._mixed = mixed
        names = [name for name in names if name not in self._left_out]
        of_vectors = {each.name: HOLDS_VECTORS for each in self._vectors.values()}
        self._know(names, [found[key] for key in self._keys], self._left_out | of_vectors)

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

    def _survey(self) -> tuple[dict[str, Storage], dict[str, str], set[str]]:
        """Return how all columns have to be kept, in the order of their first lines; those that are left out, or mixed.

        In a mixed one numbers stand beside texts.
        """
        storage: dict[str, Storage] = {}
        lists: dict[str, _Lists] = {}
        with_words: set[str] = set()
        with_numbers: set[str] = set()
        packed = self._path.stat().st_size
        for rows, (number, row) in enumerate(self._rows(), start=1):
            for name, value in row.items():
                kept = storage.get(name)
                if kept is None:
                    check_columns(len(storage) + 1, self._limits, line=number)
                    storage[name] = kept = "number"
                if isinstance(value, dict | list):
                    held = lists.get(name)
                    if held is None:
                        held = lists[name] = _Lists()
                    if isinstance(value, list):
                        held.add(value)
                    else:
                        held.others = True
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
            check_laid_out(CELL_BYTES * rows * len(storage), packed, line=number)
        if not storage:
            raise IngestError("empty", "no rows; expected one object a line")
        storage |= dict.fromkeys(with_words - with_numbers, "text")
        nested = {}
        self._lengths: dict[str, int] = {}
        for name, held in lists.items():
            are_vectors = held.are_vectors(rows)
            if are_vectors is None:
                raise self._no_vector(name, held.length)
            if are_vectors:
                storage[name] = "vector"
                self._lengths[name] = VectorReader(name).checked_length(held.length, 0)
            else:
                nested[name] = NESTED if held.others or not held.length else NOT_ALIKE
        return storage, nested, {name for name in with_numbers if storage[name] == "text"}

    def _no_vector(self, key: str, length: int) -> IngestError:
        """Return the error about the first line whose value is no vector like that of the others."""
        reader = VectorReader(key, length)
        for number, row in self._rows():
            value = row.get(key)
            if not isinstance(value, list):
                return reader.error(
                    number, "holds no vector" if value is None else "holds something else than a vector"
                )
            if len(value) != length:
                return reader.error(number, f"holds a vector of {len(value)} numbers")
            if None in value:
                return reader.error(number, "holds a vector with a null")
        raise AssertionError("one of the lines was found not to have a vector")

    def _batches(self) -> Iterator[list[pa.Array]]:
        """Yield columns of Python values as arrays of text or numbers."""
        rows: list[tuple[int, Row]] = []
        most = rows_of_values(len(self._keys))
        size = 0
        for number, row in self._rows():
            for key in self._nested.keys() & row.keys():  # however large they are, no batch holds them
                del row[key]
            for key, reader in self._vectors.items():  # each as its numbers, a fourth of what a list takes
                row[key] = _vector(reader, row[key], number)
                size += NUMBER_BYTES * len(row[key])
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
            if kept == "vector":
                columns.append(stored(np.stack([row[key] for _, row in rows])))
            elif kept == "number":
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


def _vector(reader: VectorReader, value: list[float], line: int) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # found below
        numbers = np.array(value, dtype=np.float32)
    if not np.isfinite(numbers).all():
        raise reader.error(line, "holds a vector with a number beyond float32")
    return numbers


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
