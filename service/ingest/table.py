"""Writes the ``table`` layout: a Parquet file with a float64, string or vector column each, and its profile."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from service.ingest.batches import joined
from service.ingest.errors import IngestError
from service.ingest.identifiers import IndexKind
from service.ingest.limits import COLUMN_BYTES, ReadingLimits
from service.ingest.missing_words import MissingWords, NamedMissing
from service.ingest.mixed import is_mixed, spelt, spelt_numbers, texts_of
from service.ingest.mixed import numbers_of as typed_numbers_of
from service.ingest.numbers import any_numbers
from service.ingest.options import Kind, TableOptions, correction
from service.ingest.profile import Columnar, ColumnProfile
from service.ingest.side_by_side import SideBySide, grouped
from service.ingest.statistics import ColumnStatistics, RowComparison
from service.ingest.vectors import VectorStatistics, is_stored_vector, vector_length
from service.ingest.writings import (
    GROUPED_BY_POINT,
    NumberWriting,
    PointsOfNumbers,
    WrittenLabels,
    numbers_of,
    said_of,
)
from solver.kinds import identifier_warning
from solver.labels import is_missing_word
from solver.reading import Reading

Storage = Literal["number", "text", "vector"]
"""How the values of a column are kept: all kinds but numbers and vectors are texts."""
ARROW_TYPES: dict[Storage, pa.DataType] = {"number": pa.float64(), "text": pa.string()}
"""Of vectors it depends on their length, see `service.ingest.vectors.stored`."""
KINDS_KEY = "prefsvm.kinds"
"""Metadata of the Parquet file: kinds that are known, not guessed, as a JSON object."""
GUESSES_KEY = "prefsvm.guesses"
"""Likewise, what the other columns of text were taken for."""
IDENTIFIERS_KEY = "prefsvm.identifiers"
"""The same: columns that number or name the rows, each with what shows it, as a JSON object."""
WRITTEN_KEY = "prefsvm.written"
"""The same: how the numbers of a column stand in the file, see `service.ingest.profile.ColumnProfile.written`."""
READINGS_KEY = "prefsvm.readings"
"""Metadata of the Parquet file: how the values of each column are written (`Reading`), as a JSON object."""
AS_TYPED = Reading()
MOST_WORDS = 10
"""Words for missing values that a warning names."""
Batches = Callable[[], Iterator[list[pa.Array]]]
Convert = Callable[[int, pa.Array, int], pa.Array | None]
ConvertTogether = Callable[[Sequence[int], Sequence[pa.Array]], list[pa.DoubleArray | None]]


def check_columns(count: int, limits: ReadingLimits, *, line: int | None = None) -> None:
    """Refuse more columns than there is memory for, before a row is read."""
    if count > limits.max_columns:
        raise IngestError(
            "too_many_columns",
            f"{count} columns; at most {limits.max_columns} fit into the memory that a reader has "
            f"(PREFSVM_INGEST_MEMORY_BYTES), as each takes {COLUMN_BYTES >> 10} KiB of it however few its rows are",
            line=line,
        )


def cells_of(batch: Sequence[pa.Array]) -> int:
    """Return how many values a row of a batch has, those of vectors counted one by one."""
    return sum(vector_length(array.type) if is_stored_vector(array.type) else 1 for array in batch)


def check_size(rows: int, columns: int, limits: ReadingLimits) -> None:
    """Refuse more rows, or more rows × columns, than allowed."""
    if rows > limits.max_rows:
        raise IngestError("too_many_rows", f"more than {limits.max_rows} rows")
    if rows * columns > limits.max_cells:
        raise IngestError("too_many_cells", f"more than {limits.max_cells} cells (rows × columns)")


def forced_kinds(
    columns: Mapping[str, Kind], names: Sequence[str], left_out: Mapping[str, str] | None = None
) -> dict[int, Kind]:
    """Return the kinds that the caller has set, by position; refuses names that are not there or `left_out`."""
    positions = {name: position for position, name in enumerate(names)}
    for name in columns:
        if left_out and name in left_out:
            raise IngestError(
                "unsupported",
                f"column {name!r} has no kind that option columns could say: {left_out[name]}",
                column=name,
            )
        if name not in positions:
            raise IngestError("unknown_column", "option columns names a column that the file does not have")
    return {positions[name]: kind for name, kind in columns.items()}


def verbatim_kinds(verbatim: Collection[str], names: Sequence[str], storage: Sequence[Storage]) -> dict[int, Kind]:
    """Return the kinds of columns whose texts are wanted as they are written; numbers that are no texts stay so."""
    return {
        position: "category"
        for position, (name, kept) in enumerate(zip(names, storage, strict=True))
        if name in verbatim and kept == "text"
    }


def stored_as(kind: Kind) -> Storage:
    """Return how values of a kind are kept."""
    return "number" if kind == "number" else "text"


def store_table(
    output: Path,
    names: list[str],
    storage: list[Storage],
    batches: Batches,
    to_number: Convert,
    to_text: Convert,
    limits: ReadingLimits,
    warnings: list[str],
    kinds: Mapping[int, Kind],
    indexes: Mapping[int, IndexKind] | None = None,
    reading: Reading = AS_TYPED,
    words: MissingWords | None = None,
    *,
    uncompared: Collection[str] = (),
    units: Mapping[int, str] | None = None,
    verbatim: Collection[str] = (),
    respelt: Collection[int] = (),
    to_numbers: ConvertTogether | None = None,
) -> Columnar:
    """Write a table of which only reading shows what its columns are.

    A column begins as what `storage` says; where a number column turns out to hold something else, it becomes text.
    What was written until then is void, so the rest is only looked at and the batches are read once more. One more pass
    is made where a column spells booleans in several ways: ``TRUE`` and ``true`` are the same; and one where all
    texts of a column turn out to be numbers in one way of writing, see `service.ingest.writings`. That pass also takes
    a column of which the caller has said that it holds numbers, where `to_number` refuses one of them, and a column of
    plain numbers with points of which another column shows that they separate thousands. Numbers that are no texts
    (`service.ingest.mixed`) keep their values.

    Parameters
    ----------
    output : Path
    names, storage : list
        Of the columns. `storage` is changed in place.
    batches : callable
        Starts to read from the beginning each time.
    to_number, to_text : callable
        Get position, array and number of its first row; return float64 or string with null for missing.
        `to_number` may return None: not a number column. Neither is asked about vectors, which come as they are stored.
    limits : ReadingLimits
    warnings : list of str
        Gets what the person who sent the file should know.
    kinds : mapping of int to str
        Kinds that are known, by position. The others are guessed.
    indexes : mapping of int to {"pandas", "unnamed"}, optional
        Columns that are or seem to be an index, by position, see `service.ingest.identifiers`.
    reading : Reading, optional
        How the options of the upload say that values are written.
    uncompared : collection of str, optional
        Columns that do not matter for whether two rows are equal.
    words : MissingWords, optional
        Where the reader counts words that it took for missing values in columns of numbers.
    units : mapping of int to str, optional
        In what the numbers of a column are that are no texts, by position.
    verbatim : collection of str, optional
        Columns whose texts stay as they are written, whatever they look like, see `TableOptions.verbatim`.
    respelt : collection of int, optional
        Columns whose numbers become texts, where they do, by which whoever wants them finds these numbers again.
    to_numbers : callable, optional
        Gets positions and arrays of several columns, and returns for each what `to_number` would, or None: that is to
        be asked. It is called by several threads.
    """
    convert = to_number, to_text, to_numbers
    passes = _Passes(names, storage, *convert, warnings, kinds, reading, words or MissingWords())
    columns = indexes or {}, uncompared, units or {}, verbatim, respelt
    with SideBySide() as threads:
        return _store(output, passes, threads, batches, limits, *columns)


def _store(
    output: Path,
    passes: _Passes,
    threads: SideBySide,
    batches: Batches,
    limits: ReadingLimits,
    indexes: Mapping[int, IndexKind],
    uncompared: Collection[str],
    units: Mapping[int, str],
    verbatim: Collection[str],
    respelt: Collection[int],
) -> Columnar:
    names, storage, kinds, reading = passes.names, passes.storage, passes.kinds, passes.reading
    while True:
        passes.begin()
        columns_of_vectors = frozenset(position for position, kept in enumerate(storage) if kept == "vector")
        writer = _TableWriter(
            output, names, kinds, indexes, reading, passes.written, uncompared, units, columns_of_vectors, threads
        )
        rows = 0
        for batch in batches():
            check_size(rows + len(batch[0]), cells_of(batch), limits)
            writer.settle()
            columns = passes.columns(writer, batch, rows, threads)
            rows += len(batch[0])
            if passes.valid:
                writer.write(storage, columns, {j: array for j, array in enumerate(batch) if is_mixed(array)})
            del batch, columns  # while the next one is read
        if rows == 0:
            raise IngestError("empty", "no rows; expected at least one")
        if passes.ends_with(writer, verbatim):
            return writer.close(rows, passes.warnings, passes.words, passes.lowered, passes.typed(respelt))
        writer.discard()


@dataclass
class _Passes:
    """What the passes over a table have found out so far. The first fields are those of `store_table`."""

    names: list[str]
    storage: list[Storage]
    to_number: Convert
    to_text: Convert
    to_numbers: ConvertTogether | None
    warnings: list[str]
    kinds: Mapping[int, Kind]
    reading: Reading
    words: MissingWords
    valid: bool = True
    """Whether the file that the running pass writes can be kept."""
    lowered: set[int] = field(default_factory=set)
    written: dict[int, Reading] = field(default_factory=dict)
    refused: dict[int, IngestError] = field(default_factory=dict)
    numbers_by_format: set[int] = field(default_factory=set)
    texts_by_format: set[int] = field(default_factory=set)
    looked_at: set[int] = field(default_factory=set)
    """Columns that are read one by one from now on, as one of their values was no plain number."""

    def begin(self) -> None:
        """Begin a pass."""
        self.words.begin()
        self.numbers_by_format.clear()
        self.texts_by_format.clear()
        self.valid = True

    def columns(
        self, writer: _TableWriter, batch: Sequence[pa.Array], rows: int, threads: SideBySide
    ) -> list[pa.Array | None]:
        """Return what is stored of a batch, before which there were some rows; None of columns where that is void."""
        plain = self._plain_columns(writer, batch, threads)
        return [
            plain[position] if position in plain else self._column(writer, position, array, rows)
            for position, array in enumerate(batch)
        ]

    def _plain_columns(
        self, writer: _TableWriter, batch: Sequence[pa.Array], threads: SideBySide
    ) -> dict[int, pa.DoubleArray]:
        """Return the numbers of columns that are told to hold them together; of the others each is looked at."""
        to_numbers = self.to_numbers
        if to_numbers is None or self.reading.decimal == ",":
            return {}
        alike = [
            position
            for position, kept in enumerate(self.storage)
            if kept == "number" and position not in self.written and position not in self.looked_at
        ]

        def told(positions: Sequence[int]) -> list[tuple[int, pa.DoubleArray | None]]:
            columns = [batch[position] for position in positions]
            found = dict(zip(positions, to_numbers(positions, columns), strict=True))
            writer.note_plain([position for position in positions if found[position] is not None], batch)
            return list(found.items())

        groups = threads.of_each(told, grouped(alike, len(batch[0])))
        plain: dict[int, pa.DoubleArray] = {}
        for position, numbers in chain.from_iterable(groups):
            if numbers is None:
                self.looked_at.add(position)
                continue
            plain[position] = numbers
            if position not in self.texts_by_format and numbers.null_count < len(numbers):
                self.texts_by_format.add(position)
        return plain

    def _column(self, writer: _TableWriter, position: int, array: pa.Array, rows: int) -> pa.Array | None:
        """Return what is stored of a column of a batch, before which there were some rows; None once that is void."""
        if self.storage[position] == "vector":
            return array
        if position not in self.numbers_by_format and _holds_numbers(array):
            self.numbers_by_format.add(position)
        if position not in self.texts_by_format and (texts := texts_of(array)) is not None:
            self.texts_by_format |= {position} if texts.null_count < len(texts) else set()
        column = None
        if position in self.written:
            column = self._otherwise_written(writer, position, array, rows)
        elif self.storage[position] == "number":
            try:
                column = self.to_number(position, array, rows)
            except IngestError as error:
                if self.kinds.get(position) != "number" or error.code != "bad_value":
                    raise
                self.refused[position] = error
            if column is None:
                self.storage[position] = "text"
                self.valid = self.valid and rows == 0
            else:
                writer.note_numbers(position, array)
                if self.reading.decimal == "," and pa.types.is_string(array.type):
                    writer.note_written(position, self.to_text(position, array, rows))
        if column is None and self.valid:
            column = composed_texts(self.to_text(position, array, rows))
            if position in self.lowered:
                column = pc.ascii_lower(column)
        return column

    def _otherwise_written(self, writer: _TableWriter, position: int, array: pa.Array, rows: int) -> pa.DoubleArray:
        texts = array.field("text") if is_mixed(array) else self.to_text(position, array, rows)
        try:
            column = _written_numbers(position, texts, self.written[position], self.words)
        except ValueError as error:
            raise _no_number(self.names[position], texts, self.written[position], rows, str(error)) from None
        writer.note_written(position, texts)
        return pc.coalesce(typed_numbers_of(array), column) if is_mixed(array) else column

    def ends_with(self, writer: _TableWriter, verbatim: Collection[str]) -> bool:
        """Tell whether what a whole pass has written stays; else note what the next one is to do otherwise."""
        if self.valid and not self.lowered and (mixed := writer.mixed_booleans(verbatim)):
            self.lowered.update(mixed)
            self.warnings += [
                f"column {self.names[j]!r} spells {words[1]} and {words[0]} in several ways; they are the same"
                for j, words in mixed.items()
            ]
            self.valid = False
        if self.valid and not self.written and (found := writer.numbers_written_otherwise()):
            self._refuse_all_but(found.keys(), writer)
            self.written |= {j: how for j, (how, _) in found.items()}
            for j, (how, proof) in found.items():
                self.storage[j] = "number"
                # what was said of it as a text is no longer so
                gone = f"column {self.names[j]!r} is text"
                self.warnings[:] = [each for each in self.warnings if not each.startswith(gone)]
                self.warnings.append(said_of(self.names[j], how, proof))
            self.valid = False
        if self.valid and (empty := [position for position in writer.without_numbers() if self.words.of(position)]):
            for position in empty:  # two words of which none is missing beside the other
                self.storage[position] = stored_as(self.kinds.get(position, "category"))
            self.valid = all(self.storage[position] == "number" for position in empty)
        if self.valid:
            self._refuse_all_but(self.written.keys(), writer)
        return self.valid

    def _refuse_all_but(self, found: Collection[int], writer: _TableWriter) -> None:
        for j in self.refused.keys() - found:
            raise _with_cure(self.refused[j], self.names[j], writer.doubt(j))

    def typed(self, respelt: Collection[int]) -> set[int]:
        """Return the columns whose numbers are such by the format of the file, and that hold no texts that are numbers.

        Of `respelt` ones, see `store_table`, those that stayed numbers.
        """
        return {
            j
            for j in self.numbers_by_format
            if (j not in respelt if self.storage[j] == "text" else j not in self.texts_by_format)
        }


def _with_cure(error: IngestError, name: str, doubt: str | None) -> IngestError:
    """Return the error about a column that is said to hold numbers, with what to do."""
    cure = doubt and f"column {name!r} {doubt}"
    if cure is None:
        cure = (
            f"{error.message}; they may have decimal commas (option decimal), separators of thousands (option "
            "thousands) and one unit, such as %, the same in all rows"
        )
    return IngestError(error.code, cure, line=error.line, column=error.column)


def store_arrays(
    output: Path,
    names: list[str],
    storage: list[Storage],
    batches: Batches,
    limits: ReadingLimits,
    warnings: list[str],
    kinds: Mapping[int, Kind],
    words: MissingWords | None = None,
    *,
    indexes: Mapping[int, IndexKind] | None = None,
    reading: Reading = AS_TYPED,
    uncompared: Collection[str] = (),
    units: Mapping[int, str] | None = None,
    verbatim: Mapping[str, Reading] | None = None,
) -> Columnar:
    """Write a table whose batches are float64, string or both; one that has to be something else is converted."""
    words = words or MissingWords()
    named = NamedMissing(reading)
    wanted = {position: verbatim[name] for position, name in enumerate(names) if verbatim and name in verbatim}
    decimals = {position: each.decimal for position, each in wanted.items() if each.kind == "number"}

    def to_number(position: int, array: pa.Array, first_row: int) -> pa.DoubleArray:
        texts = texts_of(array)
        if texts is None:
            return array

        def convert(rest: pa.StringArray) -> pa.DoubleArray:
            return forced_numbers(names[position], rest, first_row)

        numbers = words.numbers(position, texts, convert)
        if numbers is None:
            numbers = convert(texts)
        return pc.coalesce(typed_numbers_of(array), numbers) if is_mixed(array) else numbers

    def to_text(position: int, array: pa.Array, first_row: int) -> pa.StringArray:  # noqa: ARG001 (`Convert`)
        if pa.types.is_string(array.type):
            return array
        unit = (units or {}).get(position, "")
        return (spelt if is_mixed(array) else spelt_numbers)(array, unit, decimals.get(position, "."))

    return store_table(
        output,
        names,
        storage,
        lambda: ([named.out_of(array) for array in batch] for batch in joined(batches())),
        to_number,
        to_text,
        limits,
        warnings,
        kinds,
        indexes,
        reading,
        words,
        uncompared=uncompared,
        units=units,
        verbatim=verbatim or {},
        respelt=decimals,
    )


class TableReader:
    """What readers share of tables of which they make arrays of numbers and of texts.

    Parameters
    ----------
    path : Path
    options : TableOptions
    limits : ReadingLimits
    warnings : list of str
        Gets what the person who sent the file should know.
    """

    def __init__(self, path: Path, options: TableOptions, limits: ReadingLimits, warnings: list[str]) -> None:
        self._path, self._options, self._limits, self._warnings = path, options, limits, warnings
        self._missing = frozenset(options.missing)
        self._words = MissingWords()

    def _know(
        self,
        names: list[str],
        storage: Sequence[Storage],
        left_out: Mapping[str, str] | None = None,
        with_texts: Sequence[Storage] | None = None,
    ) -> None:
        """Keep what columns are called and how they are kept (`with_texts`: numbers stored as text are texts)."""
        self._names, self._storage = names, storage
        self._forced = forced_kinds(self._options.columns, names, left_out)
        self._forced |= verbatim_kinds(self._options.verbatim, names, with_texts or storage)

    def _store(self, output: Path, known: Mapping[int, Kind], **more: Any) -> Columnar:
        """Write the table; `known` are the kinds that the format says, `more` what `store_arrays` takes besides."""
        storage = [stored_as(self._forced[j]) if j in self._forced else each for j, each in enumerate(self._storage)]
        read = self._batches, self._limits, self._warnings, {**known, **self._forced}, self._words
        more |= {"reading": self._options.reading, "verbatim": self._options.verbatim}
        return store_arrays(output, self._names, storage, *read, **more)

    def _batches(self) -> Iterator[list[pa.Array]]:
        """Read from the beginning, and yield the columns of some rows each."""
        raise NotImplementedError


def _written_numbers(position: int, texts: pa.StringArray, reading: Reading, words: MissingWords) -> pa.DoubleArray:
    """Return the numbers that texts are by the reading of their column, and count words for missing ones."""
    numbers = words.numbers(position, texts, lambda rest: numbers_of(rest, reading))
    return numbers_of(texts, reading) if numbers is None else numbers


def _holds_numbers(array: pa.Array) -> bool:
    """Tell whether there are numbers in an array that are some by the format of the file."""
    if is_mixed(array):
        array = typed_numbers_of(array)
    type_ = array.type
    is_number = pa.types.is_floating(type_) or pa.types.is_integer(type_) or pa.types.is_decimal(type_)
    return bool(is_number and array.null_count < len(array))


def composed_texts(texts: pa.StringArray) -> pa.StringArray:
    """Return texts in the form in which they are compared (NFC): é is one character, however it was written."""
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:  # nearly all are
        return texts
    return pc.utf8_normalize(texts, form="NFC")


def forced_numbers(name: str, texts: pa.StringArray, first_row: int) -> pa.DoubleArray:
    """Return the numbers of a column of which the caller has said that it holds some.

    Raises
    ------
    IngestError
        ``bad_value`` with the row of the first text that is none.
    """
    numbers = any_numbers(texts)
    bad = pc.index(pc.and_(numbers.is_null(), texts.is_valid()), True).as_py()
    if bad >= 0:
        row = first_row + bad + 1
        raise IngestError(
            "bad_value",
            f"column {name!r} holds something that is no number, in row {row}; expected numbers as option columns says",
            line=row,
            column=name,
        )
    return numbers


def _no_number(name: str, texts: pa.StringArray, reading: Reading, first_row: int, why: str) -> IngestError:
    """Return what is wrong with a column of which the caller has said that it holds numbers, and where."""
    for row, text in enumerate(texts.to_pylist(), start=first_row + 1):
        try:
            if text is not None and not is_missing_word(text):
                reading.number(text)
        except ValueError:
            return IngestError(
                "bad_value", f"column {name!r} holds something else in row {row}; expected {why}", line=row, column=name
            )
    raise AssertionError("one of the texts was refused")


class _TableWriter:
    """The Parquet file and the profile of one pass."""

    def __init__(
        self,
        path: Path,
        names: list[str],
        kinds: Mapping[int, Kind],
        indexes: Mapping[int, IndexKind],
        reading: Reading,
        written: Mapping[int, Reading],
        uncompared: Collection[str],
        units: Mapping[int, str],
        vectors: Collection[int],
        threads: SideBySide,
    ) -> None:
        self._path = path
        self._threads = threads
        self._writing: Future[None] | None = None
        self._names = names
        self._vectors = vectors
        self._reading = reading
        self._written = written
        self._units = units
        self._writings = {
            j: NumberWriting(reading, expected=j in kinds, unit=units.get(j, ""))
            for j in range(len(names))
            if kinds.get(j, "number") == "number" and j not in written and j not in vectors
        }
        self._points: dict[int, PointsOfNumbers] = {}
        self._labels: dict[int, WrittenLabels] = {}
        self._storage: list[Storage] = []
        self._kinds = kinds
        self._file: pq.ParquetWriter | None = None
        self._columns = [
            VectorStatistics(name) if position in vectors else ColumnStatistics(name, indexes.get(position))
            for position, name in enumerate(names)
        ]
        self._comparison = RowComparison()
        self._compared = [name not in uncompared for name in names]

    def write(self, storage: list[Storage], columns: list[pa.Array], mixed: Mapping[int, pa.StructArray]) -> None:
        """Append a batch as one row group; `mixed` are those columns, by position, as they stand in the file."""
        self._storage = storage
        self._begin_to_write(storage, columns)
        looked_at = [
            self._threads.begin(_look_at, group)
            for group in grouped(list(zip(self._columns, columns, strict=True)), len(columns[0]))
        ]
        for position, writing in self._writings.items():
            if storage[position] == "text" and position in mixed:
                writing.add(mixed[position].field("text"))
                writing.add_typed(typed_numbers_of(mixed[position]))
            elif storage[position] == "text":
                writing.add(columns[position])
        self._comparison.add(list(compress(columns, self._compared)))
        for each in looked_at:
            each.result()

    def _begin_to_write(self, storage: list[Storage], columns: list[pa.Array]) -> None:
        """Have a row group packed and written, while others look at its values."""
        if self._file is None:
            schema = pa.schema(
                [
                    (column.name, array.type if kept == "vector" else ARROW_TYPES[kept])
                    for column, kept, array in zip(self._columns, storage, columns, strict=True)
                ]
            )
            self._file = pq.ParquetWriter(
                self._path,
                schema,
                # Numbers of vectors are as good as random: packing them would save nothing.
                compression={field.name: "none" if is_stored_vector(field.type) else "lz4" for field in schema}
                if self._vectors
                else "lz4",
                # Numbers rarely repeat enough to pay for a dictionary, which costs twice their encoding.
                use_dictionary=[field.name for field in schema if pa.types.is_string(field.type)],
                write_statistics=False,
                write_page_checksum=True,
                store_schema=False,
            )
        # Not write_batch, which would hold row groups of a million rows in memory.
        table = pa.table(columns, schema=self._file.schema)
        self._writing = self._threads.begin(self._file.write_table, table, row_group_size=len(columns[0]))

    def settle(self) -> None:
        """Wait until what was to be written is; raises what went wrong there."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def note_plain(self, positions: Sequence[int], batch: Sequence[pa.Array]) -> None:
        """Do what `note_numbers` does for several columns, which are not in units, of plain numbers."""
        if not self._reading.thousands and positions:
            points = [self._points.setdefault(position, PointsOfNumbers()) for position in positions]
            PointsOfNumbers.add_together(points, [batch[position] for position in positions])

    def note_written(self, position: int, texts: pa.StringArray) -> None:
        """Take into account how the numbers of a column stand in the file."""
        if position not in self._labels:
            self._labels[position] = WrittenLabels(self._reading_of(position))
        self._labels[position].add(texts)

    def note_numbers(self, position: int, array: pa.Array) -> None:
        """Take into account, as it stands in the file, what was read as plain numbers."""
        texts = texts_of(array)
        if texts is not None and self._reading.decimal == "." and not self._reading.thousands:
            self._points.setdefault(position, PointsOfNumbers()).add(texts)
        if position in self._units:
            self.note_written(position, spelt_numbers(pc.unique(array), self._units[position]))

    def doubt(self, position: int) -> str | None:
        """Say why a column of texts is not read as numbers although it may hold some."""
        return self._writings[position].doubt() if position in self._writings else None

    def numbers_written_otherwise(self) -> dict[int, tuple[Reading, str | None]]:
        """Return the columns whose texts are numbers that are not written plainly, where it is sure how they are.

        Each has with it the name of another column if that one tells.
        """
        proven = self._proven_decimals()
        decimal, proof = next(iter(proven.items())) if len(proven) == 1 else (None, "")
        found: dict[int, tuple[Reading, str | None]] = {}
        for position, writing in self._writings.items():
            if self._storage[position] != "text":
                continue
            if (reading := writing.found()) is not None:
                found[position] = reading, None
            elif decimal is not None and (reading := writing.found(decimal)) is not None:
                found[position] = reading, proof
        if decimal == ",":
            grouped = dataclasses.replace(GROUPED_BY_POINT, missing=self._reading.missing, trim=self._reading.trim)
            found |= {position: (grouped, proof) for position in self._maybe_grouped() if position not in self._kinds}
        return found

    def _proven_decimals(self) -> dict[str, str]:
        """Return the decimal signs that numbers of the file can be told to have, each with a column that tells."""
        if self._reading.decimal != "." or self._reading.thousands:
            return {}
        proven: dict[str, str] = {}
        for position, writing in self._writings.items():
            sign = writing.proven_decimal() if self._storage[position] == "text" else None
            if position in self._points and self._points[position].are_decimal and self._storage[position] == "number":
                sign = "."
            if sign is not None:
                proven.setdefault(sign, self._names[position])
        for position, reading in self._written.items():
            if reading.decimal == "," and reading != GROUPED_BY_POINT:
                proven.setdefault(",", self._names[position])
        return proven

    def _maybe_grouped(self) -> list[int]:
        """Return the columns of plain numbers whose points may all separate thousands."""
        return [
            position
            for position, points in sorted(self._points.items(), key=itemgetter(0))
            if points.may_group and not points.are_decimal and self._storage[position] == "number"
        ]

    def _reading_of(self, position: int) -> Reading:
        reading = self._written.get(position, self._reading)
        return dataclasses.replace(reading, unit=self._units[position]) if position in self._units else reading

    def mixed_booleans(self, verbatim: Collection[str]) -> dict[int, tuple[str, str]]:
        """Return the columns of two words for no and yes, one of them spelt in several ways, and the words."""
        found = {
            position: column.mixed_booleans()
            for position, column in enumerate(self._columns)
            if column.name not in verbatim
        }
        return {position: words for position, words in found.items() if words is not None}

    def without_numbers(self) -> list[int]:
        """Return the columns of numbers that hold none."""
        return [
            position
            for position, column in enumerate(self._columns)
            if self._storage[position] == "number" and column.is_empty
        ]

    def close(
        self, rows: int, warnings: list[str], words: MissingWords, lowered: Collection[int], typed: Collection[int]
    ) -> Columnar:
        """Finish the file; `warnings` gets what is odd about the columns."""
        assert self._file is not None  # noqa: S101 (there are rows)
        known = {self._columns[position].name: kind for position, kind in self._kinds.items()}
        found = [words.of(position) if kept == "number" else {} for position, kept in enumerate(self._storage)]
        readings = self._readings(found, lowered, typed)
        profiles = [column.profile(self._kinds.get(position)) for position, column in enumerate(self._columns)]
        for profile, spelt_missing in zip(profiles, found, strict=True):
            profile.missing_words = spelt_missing or None
        for position, labels in self._labels.items():
            if profiles[position].kind == "number":
                profiles[position].written = labels.found()
        written = {profile.name: profile.written for profile in profiles if profile.written is not None}
        guesses = {
            profile.name: profile.kind
            for profile, kept in zip(profiles, self._storage, strict=True)
            if kept == "text" and profile.name not in known
        }
        identifiers = {profile.name: profile.identifier for profile in profiles if profile.identifier is not None}
        self.settle()  # only here: all of this is made while the last row group is written
        self._file.add_key_value_metadata(
            {
                KINDS_KEY: json.dumps(known),
                GUESSES_KEY: json.dumps(guesses),
                IDENTIFIERS_KEY: json.dumps(identifiers),
                READINGS_KEY: json.dumps(readings),
                WRITTEN_KEY: json.dumps(written),
            }
        )
        self._file.close()
        self._say_of_values(profiles, warnings)
        self._say_of_kinds(profiles, warnings)
        return Columnar("table", rows, profiles, duplicate_rows=self._comparison.duplicates())

    def _readings(
        self, found: Sequence[Mapping[str, int]], lowered: Collection[int], typed: Collection[int]
    ) -> dict[str, dict[str, Any]]:
        """Return how the values of each column are written, for later rows; `found` are its words for missing ones."""
        made: dict[Any, dict[str, Any]] = {}  # of many columns most are alike

        def to_json(position: int, kept: Literal["number", "text"]) -> dict[str, Any]:
            base = self._reading_of(position)
            missing = (*base.missing, *found[position])
            # Where a number means missing, it does so in each row that comes later.
            is_typed = position in typed and not base.missing_numbers
            how = base, kept, missing, position in lowered, is_typed
            if how not in made:
                reading = dataclasses.replace(base, kind=kept, missing=missing, lower=how[3], typed=is_typed)
                made[how] = reading.to_json()
            return made[how]

        return {
            self._names[position]: to_json(position, kept)
            for position, kept in enumerate(self._storage)
            if kept != "vector"
        }

    def _say_of_values(self, profiles: Sequence[ColumnProfile], warnings: list[str]) -> None:
        """Say what is odd about how values are written."""
        several = {j: labels.several() for j, labels in self._labels.items() if profiles[j].kind == "number"}
        warnings += [
            f"column {profiles[position].name!r} writes the same number in several ways, {first!r} and {other!r}; if "
            "these are labels, they are called as the first one, also in feedback"
            for position, (first, other) in ((j, pairs[0]) for j, pairs in several.items() if pairs)
        ]
        warnings += [
            f"column {profile.name!r}: {_counted(profile.missing_words)} count as missing in a column of numbers"
            for profile in profiles
            if profile.missing_words
        ]
        warnings += [
            f"column {profile.name!r}: {_counted(held)} are values of their own; if they mean missing, name them in "
            "option missing or, where these are the labels of a training, in its `unlabeled`"
            for profile in profiles
            if profile.kind == "category" and (held := _missing_values(profile.values))
        ]
        proof = self._proven_decimals().get(",")
        warnings += [
            f"column {self._names[position]!r} is read as numbers with a decimal point, although column {proof!r} has "
            'decimal commas; if its point separates thousands, upload again with options decimal "," and thousands "."'
            for position in self._maybe_grouped()
            if proof is not None
        ]
        warnings += [
            f"column {column.name!r}: texts begin or end with blanks, which count as part of them; csv and tsv have an "
            "option trim"
            for column, profile in zip(self._columns, profiles, strict=True)
            if column.outer_blanks and profile.kind == "category"  # elsewhere they do not matter
        ]
        warnings += [
            f"column {profile.name!r}: some of its values differ only in capitals, and are different values"
            for profile in profiles
            if profile.kind == "category" and profile.values and _differ_in_case_only(profile.values)
        ]
        warnings += [
            identifier_warning(profile.name, profile.identifier)
            for profile in profiles
            if profile.identifier is not None
        ]

    def _say_of_kinds(self, profiles: Sequence[ColumnProfile], warnings: list[str]) -> None:
        """Say of which columns the kind may be another one."""
        told = {each.partition(" is text, but")[0] for each in warnings}
        warnings += [
            f"column {column.name!r} is text, but {doubt}"
            for position, column in enumerate(self._columns)
            if self._storage[position] == "text" and (doubt := self.doubt(position)) is not None
            if f"column {column.name!r}" not in told
        ]
        warnings += [
            f"column {column.name!r} may count {unit} since 1970 ({first} to {last}); if these are times: "
            f"{correction(column.name, 'date')}"
            for position, (column, profile) in enumerate(zip(self._columns, profiles, strict=True))
            if position not in self._kinds
            and profile.identifier is None
            and (seen := column.seen_as_times()) is not None
            for unit, first, last in [seen]
        ]
        warnings += [
            f"column {column.name!r} is text, and all of its texts are numbers; if it measures something: "
            f"{correction(column.name, 'number')}"
            for position, column in enumerate(self._columns)
            if position not in self._kinds and column.holds_quoted_numbers
        ]
        warnings += [
            f"column {column.name!r}: nearly all of its short texts differ, so a training leaves it out as an "
            f"identifier; if its words matter, make it a text: {correction(column.name, 'text')}"
            for position, (column, profile) in enumerate(zip(self._columns, profiles, strict=True))
            if position not in self._kinds and profile.kind == "category" and column.looks_left_out()
        ]
        warnings += [
            f"column {column.name!r} holds numbers with units that are not read ({', '.join(units)}), so a training "
            "leaves it out; to use them, write the numbers without"
            for position, (column, profile) in enumerate(zip(self._columns, profiles, strict=True))
            if position not in self._kinds and profile.kind == "category" and profile.identifier is None
            if (units := column.units_not_read())
        ]
        warnings += [
            f"column {column.name!r} holds dates of which no row tells whether the day or the month comes first, so a "
            "training takes them for categories; write them as 2026-02-01 or 1 Feb 2026"
            for column, profile in zip(self._columns, profiles, strict=True)
            if column.may_be_day_or_month()
        ]
        warnings += [
            f"column {column.name!r} seems to hold dates whose years have two digits"
            + ("; " if profile.kind == "date" else f"; if so, {correction(column.name, 'date')}: ")
            + said
            for column, profile in zip(self._columns, profiles, strict=True)
            if (said := column.short_years()) is not None
        ]

    def discard(self) -> None:
        """Close a file that will be written anew."""
        self.settle()
        if self._file is not None:
            self._file.close()


def _look_at(group: Sequence[tuple[ColumnStatistics, pa.Array]]) -> None:
    """Have the profiles of some columns take a batch into account."""
    columns, arrays = zip(*group, strict=True)
    ColumnStatistics.add_together(columns, arrays)


def _missing_values(values: Mapping[str, int] | None) -> dict[str, int]:
    return {value: count for value, count in (values or {}).items() if is_missing_word(value)}


def _counted(words: Mapping[str, int]) -> str:
    return ", ".join(f"{count} times {word!r}" for word, count in list(words.items())[:MOST_WORDS])


def _differ_in_case_only(values: Mapping[str, int]) -> bool:
    return len({value.casefold() for value in values}) < len(values)
