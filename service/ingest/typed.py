"""Columns of formats that say their types: what of them is a number, a text or a date, and how it is read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.ingest.batches import batch_bytes, batch_rows
from service.ingest.errors import IngestError
from service.ingest.identifiers import IndexKind
from service.ingest.limits import MAX_EXACT_INTEGER, MAX_EXPANSION, MAX_NAME_CHARACTERS, ReadingLimits
from service.ingest.missing_words import NamedMissing
from service.ingest.numbers import array_values
from service.ingest.options import Kind, TableOptions
from service.ingest.profile import NESTED, Columnar, checked_names, left_out_warnings
from service.ingest.table import (
    Batches,
    Storage,
    check_columns,
    forced_kinds,
    forced_numbers,
    store_table,
    stored_as,
    verbatim_kinds,
)
from service.ingest.vectors import (
    HOLDS_VECTORS,
    NOT_ALIKE,
    VectorReader,
    are_alike,
    may_be_other_lists,
    may_hold_vectors,
)

FREE_TEXT_BYTES = 128 << 20
"""Text that any file may unpack to, however small it is: a constant column takes next to no space."""


class TypedColumns:
    """The columns of a file of a format that says their types.

    Integers, floats and decimals are numbers; NaN is missing. Strings, dictionaries of them, booleans, dates and times
    are text, and an empty text is missing. An integer column with values beyond 2**53 becomes text, digit by digit.
    Dictionaries of numbers and booleans are what they hold. Lists of numbers are vectors, unless they are whole numbers
    and not as many in each row. Columns of other lists, of objects, bytes and durations are left out, and said.

    Parameters
    ----------
    schema : pyarrow.Schema
    options : TableOptions
    limits : ReadingLimits
    warnings : list of str
        Gets what the person who sent the file should know.
    file_bytes : int
        Size of the file, which bounds what its texts may unpack to.
    read : callable
        Reads the file from the beginning: some columns of it, by their names.
    widths : mapping of str to int
        How many numbers the vectors of a column have, about, as far as the file says so beforehand.

    Attributes
    ----------
    text_names : list of str
        Columns of text, by their names in the file.
    batch_rows : int
        Rows that are best read at once.
    """

    def __init__(
        self,
        schema: pa.Schema,
        options: TableOptions,
        limits: ReadingLimits,
        warnings: list[str],
        file_bytes: int,
        read: Callable[[list[str]], Iterator[pa.RecordBatch]],
        widths: Mapping[str, int],
    ) -> None:
        if not schema.names:
            raise IngestError("empty", "the file has no columns")
        check_columns(len(schema.names), limits)
        self._limits = limits
        self._warnings = warnings
        names = checked_names(schema.names, warnings)
        storage = [_storage(field.type) for field in schema]
        self._kept = [j for j, kept in enumerate(storage) if kept is not None]
        self._left_out = {
            name: _why_left_out(schema.field(j).type) for j, name in enumerate(names) if storage[j] is None
        }
        for j in _other_lists(schema, read):
            self._kept.remove(j)
            storage[j] = None
            self._left_out[names[j]] = NOT_ALIKE
        if not self._kept:
            raise IngestError(
                "unsupported",
                f"column {names[0]!r} cannot be used, nor can any other: {self._left_out[names[0]]}",
                column=names[0],
            )
        warnings += left_out_warnings(self._left_out)
        schema = pa.schema([schema.field(j) for j in self._kept], metadata=schema.metadata)
        self._names = [names[j] for j in self._kept]
        self._storage = [kept for kept in storage if kept is not None]
        self._vectors = {j: VectorReader(name) for j, name in enumerate(self._names) if self._storage[j] == "vector"}
        self._forced = forced_kinds(
            options.columns, self._names, self._left_out | {each.name: HOLDS_VECTORS for each in self._vectors.values()}
        )
        self._verbatim = options.verbatim
        self._reading = options.reading
        self._missing = NamedMissing(options.reading)
        self._dates: dict[int, Kind] = {j: "date" for j, field in enumerate(schema) if _is_date(field.type)}
        self._indexes = _pandas_indexes(schema)
        self._max_text_bytes = min(limits.max_bytes, max(FREE_TEXT_BYTES, MAX_EXPANSION * file_bytes))
        self.text_names = [field.name for field in schema if _is_text(field.type)]
        cells = len(self._names) + sum(widths.get(schema.field(j).name, 0) for j in self._vectors)
        self.batch_rows = batch_rows(cells)
        self._batch_bytes = batch_bytes(cells)

    def store(self, batches: Batches, output: Path) -> Columnar:
        """Write the ``table`` layout of all batches."""
        self._forced |= verbatim_kinds(self._verbatim, self._names, self._storage)
        kinds = self._dates | self._forced
        storage = [stored_as(self._forced[j]) if j in self._forced else each for j, each in enumerate(self._storage)]
        columnar = store_table(
            output,
            self._names,
            storage,
            batches,
            self._number,
            self._text,
            self._limits,
            self._warnings,
            kinds,
            self._indexes,
            self._reading,
            verbatim=self._verbatim,
        )
        return dataclasses.replace(columnar, left_out=self._left_out)

    def bounded(self, batches: Iterator[pa.RecordBatch], first_row: int = 0) -> Iterator[list[pa.Array]]:
        """Yield the columns of batches, before which there were some rows, in slices of which none unpacks to too much.

        Texts should be dictionaries until then: one long value times many rows is cheap to write down.
        """
        text_bytes, rows = 0, first_row
        for batch in batches:
            columns = [_decoded(batch.column(j)) for j in self._kept]
            text_bytes += self._unpacked_bytes(columns)
            if text_bytes > self._max_text_bytes:
                raise IngestError(
                    "expands_too_much",
                    f"the texts unpack to more than {self._max_text_bytes} bytes, too much for a file of this size",
                )
            for part in self._slices(columns):
                for j, reader in self._vectors.items():
                    part[j] = reader.of_lists(part[j], rows)
                rows += len(part[0])
                yield part

    def _slices(self, columns: list[pa.Array]) -> Iterator[list[pa.Array]]:
        """Cut a batch so that no slice unpacks to too much text."""
        count = len(columns[0])
        if count == 0:
            return
        of_vectors = sum(columns[j].nbytes for j in self._vectors)
        if count == 1 or self._unpacked_bytes(columns) + of_vectors <= self._batch_bytes:
            yield columns
            return
        half = count // 2
        yield from self._slices([array[:half] for array in columns])
        yield from self._slices([array[half:] for array in columns])

    def _unpacked_bytes(self, columns: list[pa.Array]) -> int:
        """Return how much text a batch unpacks to; refuses a single value that is too long."""
        total = 0
        for name, array in zip(self._names, columns, strict=True):
            if not _is_text(array.type):
                continue
            if pa.types.is_dictionary(array.type):
                lengths = pc.binary_length(array.dictionary)
                lengths_of_rows = lengths.take(array.indices)
            else:
                lengths = lengths_of_rows = pc.binary_length(array)
            if (pc.max(lengths).as_py() or 0) > self._limits.max_line_bytes:
                raise IngestError(
                    "too_long",
                    f"column {name!r} holds a value of more than {self._limits.max_line_bytes} bytes",
                    column=name,
                )
            total += pc.sum(lengths_of_rows).as_py() or 0
        return total

    def _number(self, position: int, array: pa.Array, first_row: int) -> pa.DoubleArray | None:
        type_ = array.type
        if array.null_count == len(array):
            return pa.nulls(len(array), pa.float64())
        forced = position in self._forced
        if self._storage[position] == "text":
            return self._forced_number(position, array, first_row)
        if not forced and not pa.types.is_floating(type_) and _beyond_exact(array):
            self._warnings.append(
                f"column {self._names[position]!r} is text: it holds whole numbers beyond 2**53, which are taken for "
                "identifiers"
            )
            return None
        numbers = self._missing.out_of_numbers(pc.cast(array, pa.float64(), safe=False))
        if not numbers.null_count and np.isfinite(array_values(numbers, np.float64)).all():
            return numbers
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
        bad = pc.index(pc.is_inf(numbers), True).as_py()
        if bad >= 0:
            raise self._bad_value(position, first_row + bad, "an infinite value; expected finite or missing ones")
        return numbers

    def _forced_number(self, position: int, array: pa.Array, first_row: int) -> pa.DoubleArray:
        if pa.types.is_boolean(array.type):
            return pc.cast(array, pa.float64())
        return forced_numbers(self._names[position], self._text(position, array, first_row), first_row)

    def _bad_value(self, position: int, row: int, what: str) -> IngestError:
        name = self._names[position]
        return IngestError("bad_value", f"column {name!r} holds {what}, in row {row + 1}", line=row + 1, column=name)

    def _text(self, position: int, array: pa.Array, first_row: int) -> pa.StringArray:
        return self._missing.out_of_texts(self._any_text(position, array, first_row))

    def _any_text(self, position: int, array: pa.Array, first_row: int) -> pa.StringArray:
        if pa.types.is_dictionary(array.type):
            if _is_text(array.type) and len(array.dictionary) <= len(array):
                values = pc.cast(array.dictionary, pa.string())
                # Each value is looked at once, however many rows have it. If one is bad, the rows tell where, if any.
                if _is_utf8(values) and _index_of_nul(values) < 0:
                    return _without_empty(values).take(array.indices)
            array = array.dictionary_decode()
        texts = pc.cast(array, pa.string())
        if not _is_text(array.type):
            return texts
        name = self._names[position]
        if not _is_utf8(texts):
            raise IngestError("bad_encoding", f"column {name!r} holds text that is not UTF-8", column=name)
        nul = _index_of_nul(texts)
        if nul >= 0:
            raise self._bad_value(position, first_row + nul, "a NUL character")
        return _without_empty(texts)


def _pandas_indexes(schema: pa.Schema) -> dict[int, IndexKind]:
    """Return which columns pandas wrote as the index of its table, as the metadata of the file say."""
    try:
        indexes = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    # An index that only counts is no column: an object says where it begins and ends.
    names = {name for name in indexes if isinstance(name, str)} if isinstance(indexes, list) else set()
    return {j: "pandas" for j, name in enumerate(schema.names) if name in names}


def _is_utf8(texts: pa.StringArray) -> bool:
    """Tell whether texts are what they say; Arrow does not check those of a file."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _index_of_nul(texts: pa.StringArray) -> int:
    """Return where the first text with a NUL character is; -1 if there is none."""
    index: int = pc.index(pc.match_substring(texts, "\0"), True).as_py()
    return index


def _without_empty(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _other_lists(schema: pa.Schema, read: Callable[[list[str]], Iterator[pa.RecordBatch]]) -> list[int]:
    """Return the columns of lists that are no vectors, although their type lets them be: all rows have to tell."""
    doubtful = [j for j, field in enumerate(schema) if may_hold_vectors(field.type) and may_be_other_lists(field.type)]
    if not doubtful:
        return []
    found: set[int] = set()
    lengths: dict[int, int | None] = dict.fromkeys(doubtful)
    for batch in read([schema.field(j).name for j in doubtful]):
        for j in doubtful:
            alike, lengths[j] = are_alike(batch.column(schema.field(j).name), lengths[j])
            found |= set() if alike else {j}
    return sorted(found)


def _is_date(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def _decoded(array: pa.Array) -> pa.Array:
    """Return an array whose dictionary holds something else than texts without it, and short decimals as long ones."""
    if pa.types.is_dictionary(array.type) and not _is_text(array.type):
        array = array.dictionary_decode()
    if pa.types.is_decimal32(array.type) or pa.types.is_decimal64(array.type):  # for which there are few functions
        array = pc.cast(array, pa.decimal128(array.type.precision, array.type.scale))
    return array


def _storage(type_: pa.DataType) -> Storage | None:
    """Return how a column is kept; None for one of a type that cannot be used."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_null(type_)
    ):
        return "number"
    if may_hold_vectors(type_):
        return "vector"
    if _is_text(type_) or _is_date(type_) or pa.types.is_boolean(type_) or pa.types.is_time(type_):
        return "text"
    return None


def _why_left_out(type_: pa.DataType) -> str:
    if pa.types.is_nested(type_):
        return NESTED
    if pa.types.is_duration(type_):
        return "it holds durations; send them as numbers, such as seconds"
    return f"it is of the type {str(type_)[:MAX_NAME_CHARACTERS]}; send numbers, texts, booleans, dates or times"


def _beyond_exact(array: pa.Array) -> bool:
    if array.null_count == len(array):
        return False
    bounds = pc.min_max(array).as_py()
    return bool(bounds["min"] < -MAX_EXACT_INTEGER or bounds["max"] > MAX_EXACT_INTEGER)
