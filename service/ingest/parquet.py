"""Reads Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_EXACT_INTEGER, MAX_EXPANSION, Limits
from service.ingest.numbers import any_numbers
from service.ingest.options import Kind, TableOptions
from service.ingest.profile import Columnar, checked_names
from service.ingest.table import check_columns, check_size, forced_kinds, store_table

BATCH_ROWS = 65_536
BATCH_CELLS = 1 << 21
FREE_TEXT_BYTES = 1 << 30
"""Text that any file may unpack to, however small it is: a constant column takes next to no space."""
BATCH_TEXT_BYTES = 32 << 20
"""Text that is unpacked from its dictionary at once."""


def read_parquet(path: Path, options: TableOptions, limits: Limits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of a Parquet file.

    Integers, floats and decimals are numbers; NaN is missing. Strings, dictionaries of them, booleans, dates and times
    are text, and an empty text is missing. An integer column with values beyond 2**53 becomes text, digit by digit.
    Nested and binary columns are refused.

    Rows × columns are checked against what the footer says before anything is unpacked, because a file of a megabyte
    can honestly hold hundreds of millions of equal rows; its "uncompressed size" does not tell.

    Raises
    ------
    IngestError
    """
    try:
        return _Reader(path, options, limits, warnings).store(output)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk, not the file
        raise IngestError("malformed", "not a whole Parquet file, or one with features that cannot be read") from None


class _Reader:
    def __init__(self, path: Path, options: TableOptions, limits: Limits, warnings: list[str]) -> None:
        self._path = path
        self._limits = limits
        self._warnings = warnings
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
            check_columns(metadata.num_columns, limits)
            check_size(metadata.num_rows, max(metadata.num_columns, 1), limits)
            schema = file.schema_arrow
        if not schema.names:
            raise IngestError("empty", "the file has no columns")
        self._names = checked_names(schema.names, warnings)
        self._types = [_stored_type(field.type, name) for field, name in zip(schema, self._names, strict=True)]
        self._dictionaries = [field.name for field in schema if _is_text(field.type)]
        self._forced = forced_kinds(options.columns, self._names)
        self._max_text_bytes = min(limits.max_bytes, max(FREE_TEXT_BYTES, MAX_EXPANSION * path.stat().st_size))

    def store(self, output: Path) -> Columnar:
        kinds = [self._forced.get(position, kind) for position, kind in enumerate(self._types)]
        return store_table(
            output, self._names, kinds, self._batches, self._number, self._text, self._limits, self._warnings
        )

    def _batches(self) -> Iterator[list[pa.Array]]:
        rows = max(1, min(BATCH_ROWS, BATCH_CELLS // len(self._names)))
        # Kept as dictionaries until their size is known: one long value times many rows is cheap to write down.
        text_bytes = 0
        with pq.ParquetFile(self._path, read_dictionary=self._dictionaries, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=rows, use_threads=False):
                text_bytes += self._unpacked_bytes(batch.columns)
                if text_bytes > self._max_text_bytes:
                    raise IngestError(
                        "expands_too_much",
                        f"the texts unpack to more than {self._max_text_bytes} bytes, too much for a file of this size",
                    )
                yield from self._slices(batch.columns)

    def _slices(self, columns: list[pa.Array]) -> Iterator[list[pa.Array]]:
        """Cut a batch so that no slice unpacks to too much text."""
        count = len(columns[0])
        if count == 0:
            return
        if count == 1 or self._unpacked_bytes(columns) <= BATCH_TEXT_BYTES:
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
        if pa.types.is_null(type_):
            return pa.nulls(len(array), pa.float64())
        forced = position in self._forced
        if self._types[position] == "text":
            return self._forced_number(position, array, first_row)
        if not forced and not pa.types.is_floating(type_) and _beyond_exact(array):
            self._warnings.append(
                f"column {self._names[position]!r} is text: it holds whole numbers beyond 2**53, which are taken for "
                "identifiers"
            )
            return None
        numbers = pc.cast(array, pa.float64(), safe=False)
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
        bad = pc.index(pc.is_inf(numbers), True).as_py()
        if bad >= 0:
            raise self._bad_value(position, first_row + bad, "an infinite value; expected finite or missing ones")
        return numbers

    def _forced_number(self, position: int, array: pa.Array, first_row: int) -> pa.DoubleArray:
        if pa.types.is_boolean(array.type):
            return pc.cast(array, pa.float64())
        texts = self._text(position, array, first_row)
        numbers = any_numbers(texts)
        bad = pc.index(pc.and_(numbers.is_null(), texts.is_valid()), True).as_py()
        if bad >= 0:
            raise self._bad_value(position, first_row + bad, "something that is no number")
        return numbers

    def _bad_value(self, position: int, row: int, what: str) -> IngestError:
        name = self._names[position]
        return IngestError("bad_value", f"column {name!r} holds {what}, in row {row + 1}", line=row + 1, column=name)

    def _text(self, position: int, array: pa.Array, first_row: int) -> pa.StringArray:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        texts = pc.cast(array, pa.string())
        if not _is_text(array.type):
            return texts
        name = self._names[position]
        # Text from a file is not checked by Arrow.
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise IngestError("bad_encoding", f"column {name!r} holds text that is not UTF-8", column=name) from None
        nul = pc.index(pc.match_substring(texts, "\0"), True).as_py()
        if nul >= 0:
            raise self._bad_value(position, first_row + nul, "a NUL character")
        return pc.if_else(pc.equal(texts, ""), None, texts)


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _stored_type(type_: pa.DataType, name: str) -> Kind:
    if (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_null(type_)
    ):
        return "number"
    if _is_text(type_) or pa.types.is_boolean(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "text"
    if pa.types.is_time(type_):
        return "text"
    raise IngestError(
        "unsupported",
        f"column {name!r} is of a type that cannot be used; expected numbers, strings, booleans, dates or times",
        column=name,
    )


def _beyond_exact(array: pa.Array) -> bool:
    if array.null_count == len(array):
        return False
    bounds = pc.min_max(array).as_py()
    return bool(bounds["min"] < -MAX_EXACT_INTEGER or bounds["max"] > MAX_EXACT_INTEGER)
