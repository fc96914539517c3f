"""Reads CSV and TSV."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from service.ingest.delimiter import OTHER_DELIMITERS, START_LENGTH, FoundDelimiter, find_delimiter, shown
from service.ingest.errors import IngestError
from service.ingest.identifiers import IndexKind
from service.ingest.limits import Limits
from service.ingest.numbers import PLAIN_NUMBER, any_numbers, are_plain, plain_numbers, written_otherwise
from service.ingest.options import DelimitedOptions
from service.ingest.profile import Columnar, checked_names
from service.ingest.stream import ChunkReader, recoded, unpacked, with_bounded_lines, with_last_line_ended
from service.ingest.table import check_columns, forced_kinds, store_table, stored_as
from solver.reading import Reading

BLOCK_BYTES = 4 << 20
"""Text that Arrow parses at once; a row must fit into it."""
BLOCK_BYTES_A_COLUMN = 2 << 10
_PLAIN_NUMBER = re.compile(PLAIN_NUMBER)
MIXED_SHARE = 0.5
"""A text column is worth a word when at least this share of its first rows would have been numbers."""


def read_delimited(
    path: Path, options: DelimitedOptions, limits: Limits, output: Path, warnings: list[str]
) -> Columnar:
    """Write the ``table`` layout of a CSV or TSV file, maybe gzipped.

    Values are read as text first. A column is a number column if and only if all values that are there are plain
    numbers (`service.ingest.numbers.PLAIN_NUMBER`), so ``01234`` stays text. Quoted values may hold delimiters, line
    breaks and doubled quotes; empty ones are missing, quoted or not. Empty lines are skipped.

    Where the options name no delimiter, `service.ingest.delimiter.find_delimiter` tells.

    Raises
    ------
    IngestError
    """
    return _Reader(path, options, limits, warnings).store(output)


class _Reader:
    def __init__(self, path: Path, options: DelimitedOptions, limits: Limits, warnings: list[str]) -> None:
        self._path = path
        self._options = options
        self._limits = limits
        self._warnings = warnings
        self._block_bytes = max(BLOCK_BYTES, 2 * limits.max_line_bytes)
        self._skipped = b""  # a first line that says no more than the delimiter
        found = self._find_delimiter()
        self._delimiter, self._guessed = found.character, found.guessed
        self._skipped = found.skipped.encode()
        self._indexes: dict[int, IndexKind] = {}
        self._names = self._read_names()
        # The cost of a block grows with the number of its columns, so that of many columns is worth more rows.
        self._block_bytes = max(self._block_bytes, BLOCK_BYTES_A_COLUMN * len(self._names))
        self._forced = forced_kinds(options.columns, self._names)

    def store(self, output: Path) -> Columnar:
        storage = [stored_as(self._forced.get(position, "number")) for position in range(len(self._names))]
        return store_table(
            output,
            self._names,
            storage,
            self._batches,
            self._number,
            self._text,
            self._limits,
            self._warnings,
            self._forced,
            self._indexes,
            Reading(missing=self._options.missing, trim=self._options.trim, decimal=self._options.decimal),
        )

    # -- bytes and records --------------------------------------------------------------------------------------------

    def _file(self) -> io.BufferedReader:
        """Open the checked text as UTF-8."""
        chunks = recoded(unpacked(self._path, self._limits), self._options.encoding)
        lines = with_last_line_ended(with_bounded_lines(chunks, self._limits.max_line_bytes))
        file: io.BufferedReader = io.BufferedReader(ChunkReader(lines), 1 << 20)
        file.read(len(self._skipped))
        return file

    def _find_delimiter(self) -> FoundDelimiter:
        start = self._file().read(START_LENGTH)
        text = start.decode(errors="replace")
        found = find_delimiter(text, is_cut=len(start) == START_LENGTH, given=self._options.delimiter)
        if found.warning:
            self._warnings.append(found.warning)
        return found

    def _records(self) -> Iterator[_Record]:
        """Yield the records that are not empty, from the beginning; slow, so for the header and for errors only."""
        skipped = int(bool(self._skipped))
        text = io.TextIOWrapper(self._file(), encoding="utf-8", newline="")
        lines = _BoundedLines(text, self._block_bytes, skipped)
        # csv has one limit for the whole process; this process reads one file.
        csv.field_size_limit(self._block_bytes)
        reader = csv.reader(lines, delimiter=self._delimiter)
        line = 1 + skipped
        while True:
            lines.begin_record()
            try:
                values = next(reader, None)
            except csv.Error:
                raise lines.too_long() from None
            if values is None:
                return
            if values:
                yield _Record(line, values, closed=not lines.ended)
            line = reader.line_num + 1 + skipped

    def _read_names(self) -> list[str]:
        for record in self._records():
            check_columns(len(record.values), self._limits, line=record.line)
            if self._options.header:
                return self._checked_names(record)
            return [f"f{position}" for position in range(len(record.values))]
        raise IngestError("empty", "the file is empty; expected column names and rows")

    def _checked_names(self, header: _Record) -> list[str]:
        """Return the names of the columns; says so where the first line looks as if it were no header."""
        found = [each for each in f"{OTHER_DELIMITERS}," if each in header.values[0]] if len(header.values) == 1 else []
        if found:
            self._warnings.append(
                f"the header is a single column whose name holds {shown(found[0])}; if that separates columns, upload "
                "again with option delimiter"
            )
        if not header.values[0].strip():
            self._indexes[0] = "unnamed"
        with_numbers = any(_PLAIN_NUMBER.match(name.strip()) for name in header.values)
        advice = "if the first line is no header, upload again with option header false"
        try:
            names = checked_names(header.values, self._warnings, line=header.line)
        except IngestError as error:
            message = f"{error.message}; {advice}" if with_numbers else error.message
            raise IngestError(error.code, message, line=error.line, column=error.column) from None
        if with_numbers:
            self._warnings.append(f"names of columns are numbers; {advice}")
        return names

    def _batches(self) -> Iterator[list[pa.Array]]:
        count = len(self._names)
        last = None
        try:
            reader = pa_csv.open_csv(
                self._file(),
                # Made-up names, so that Arrow counts the header as a row and compares the others with it.
                read_options=pa_csv.ReadOptions(autogenerate_column_names=True, block_size=self._block_bytes),
                parse_options=pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types={f"f{position}": pa.string() for position in range(count)},
                    null_values=["", *self._options.missing],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                    check_utf8=False,  # checked by `recoded`
                ),
            )
            skip = int(self._options.header)
            for batch in reader:
                columns = [column[skip:] for column in batch.columns]
                skip = 0
                if len(columns[0]):
                    last = columns
                    yield columns
        except pa.ArrowInvalid:
            raise self._explained() from None
        if last is not None and (last[-1][-1].as_py() or "").endswith("\n"):
            self._check_end()

    def _explained(self) -> IngestError:
        """Return what is wrong with the rows. Arrow knows, but does not know the line, and quotes the file."""
        expected = len(self._names)
        for record in self._records():  # raises for a row that is too long
            if len(record.values) != expected:
                source = "as in the header" if self._options.header else "as in the first row"
                if self._guessed:
                    source += f", by the delimiter {shown(self._delimiter)}; option delimiter says otherwise"
                elif expected == 1:
                    source += "; is there a line before the names of the columns?"
                return IngestError(
                    "ragged", f"a row of {len(record.values)} values; expected {expected} {source}", line=record.line
                )
        return IngestError("malformed", "the rows cannot be told apart; are quotes doubled inside quoted values?")

    def _check_end(self) -> None:
        """Refuse a file that ends inside a quoted value, which Arrow takes for the end of the value."""
        for record in self._records():
            if not record.closed:
                raise IngestError(
                    "malformed", "the quote that opens a value of this row is never closed", line=record.line
                )

    def _line_of_row(self, row: int) -> int | None:
        """Return the line on which a row begins; rows count from 0."""
        record = next(itertools.islice(self._records(), row + self._options.header, None), None)
        return None if record is None else record.line

    # -- values -------------------------------------------------------------------------------------------------------

    def _text(self, position: int, texts: pa.StringArray, first_row: int) -> pa.StringArray:  # noqa: ARG002 (`Convert`)
        if not self._options.trim:
            return texts
        trimmed = pc.utf8_trim(texts, " \t")
        missing = pa.array(["", *self._options.missing], pa.string())
        return pc.if_else(pc.is_in(trimmed, value_set=missing), None, trimmed)

    def _number(self, position: int, texts: pa.StringArray, first_row: int) -> pa.DoubleArray | None:
        raw = self._text(position, texts, first_row)
        texts = self._with_points(raw)
        if position not in self._forced:
            numbers = plain_numbers(texts)
            if numbers is None:
                other = written_otherwise(raw, self._options.decimal) if first_row == 0 else None
                if other is not None:
                    self._warnings.append(f"column {self._names[position]!r} is text, but {other}")
                else:
                    self._remark_on_mixed(position, texts, first_row)
            return numbers
        numbers = any_numbers(texts)
        bad = pc.index(pc.and_(numbers.is_null(), texts.is_valid()), True).as_py()
        if bad >= 0:
            name = self._names[position]
            raise IngestError(
                "bad_value",
                f"column {name!r} holds something that is no number; expected numbers as option columns says",
                line=self._line_of_row(first_row + bad),
                column=name,
            )
        return numbers

    def _with_points(self, texts: pa.StringArray) -> pa.StringArray:
        """Write numbers with a point before their decimals; what has a point already is then no number."""
        if self._options.decimal == ".":
            return texts
        return pc.replace_substring(pc.replace_substring(texts, ".", "_"), ",", ".")

    def _remark_on_mixed(self, position: int, texts: pa.StringArray, first_row: int) -> None:
        """Say why a column is text if it looks as if numbers were meant."""
        plain = are_plain(texts.drop_null())
        if first_row == 0 and (pc.mean(plain).as_py() or 0) < MIXED_SHARE:
            return
        name = self._names[position]
        bad = pc.index(are_plain(texts), False).as_py()
        infinite = pc.index(pc.is_inf(pc.cast(texts, pa.float64())), True).as_py() if bad < 0 else -1
        if bad >= 0:
            why = f"row {first_row + bad + 1} holds none; if it means a missing value, name it in option missing"
        elif infinite >= 0:
            why = f"row {first_row + infinite + 1} holds one beyond 1.8e308, the largest that can be computed with"
        else:
            why = "it holds whole numbers beyond 2**53, which are taken for identifiers"
        self._warnings.append(f"column {name!r} is text although most of it looks like numbers: {why}")


@dataclass(frozen=True)
class _Record:
    line: int
    """The line that it begins on."""
    values: list[str]
    closed: bool
    """Whether it ended before the file did."""


class _BoundedLines:
    """Lines for `csv.reader`, as long as they do not add up to a record that is too long.

    The text ends with a line break, so a record that only the end of the file ends has a quote open.
    """

    def __init__(self, lines: Iterator[str], max_characters: int, skipped: int) -> None:
        self._lines = lines
        self._max = max_characters
        self._open = 0
        self._line = skipped
        self.ended = False

    def begin_record(self) -> None:
        self._open = 0

    def __iter__(self) -> _BoundedLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            self.ended = True
            raise StopIteration
        self._line += 1
        self._open += len(line)
        if self._open > self._max:
            raise self.too_long()
        return line

    def too_long(self) -> IngestError:
        return IngestError(
            "too_long",
            f"a row of more than {self._max} characters; maybe a quote that opens a value is never closed",
            line=self._line,
        )
