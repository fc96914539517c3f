"""Reads CSV and TSV."""

from __future__ import annotations

import codecs
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from service.ingest.batches import joined_record_batches
from service.ingest.delimiter import OTHER_DELIMITERS, START_LENGTH, FoundDelimiter, find_delimiter, shown
from service.ingest.errors import IngestError
from service.ingest.escaping import HIDDEN_BREAKS, Escapes
from service.ingest.escaping import MISSING as ESCAPED_MISSING
from service.ingest.header import look_at_first_line
from service.ingest.identifiers import IndexKind
from service.ingest.limits import ReadingLimits
from service.ingest.locating import Before, SomeRows, rows_by_pieces
from service.ingest.missing_words import MissingWords, begins_with_another_word
from service.ingest.numbers import (
    PLAIN_NUMBER,
    any_numbers,
    are_plain,
    plain_columns,
    plain_numbers,
    share_of_letters,
    written_otherwise,
)
from service.ingest.options import DelimitedOptions
from service.ingest.profile import Columnar, checked_names
from service.ingest.quoting import Lines, QuoteScan, reads_evenly
from service.ingest.read_ahead import BoundedReadAhead
from service.ingest.records import QUOTE, ImproperQuoteError, Record, RecordTooLongError, split_records
from service.ingest.stream import (
    ChunkReader,
    behind,
    check_beginning,
    recoded,
    unpacked,
    with_bounded_lines,
    with_last_line_ended,
)
from service.ingest.table import check_columns, forced_kinds, store_table, stored_as, verbatim_kinds

BLOCK_BYTES = 4 << 20
"""Text that Arrow parses at once; a row must fit into it."""
BLOCK_BYTES_A_COLUMN = 2 << 10
BLOCKS_AHEAD = 2
"""That are read, beside those that are parsed at once."""
HEAD_ROWS = 1000
HEAD_CHARACTERS = 1 << 20
"""Of the beginning, which is looked at to tell what the first line is."""
HEAD_LINES = 300_000
"""So many lines of the beginning, empty ones too, have to hold the names of the columns and a row."""
_HEADER_ADVICE = "if the first line is no header, upload again with option header false"
_PLAIN_NUMBER = re.compile(PLAIN_NUMBER)
MIXED_SHARE = 0.5
"""A text column is worth a word when at least this share of its first rows would have been numbers."""


def read_delimited(
    path: Path, options: DelimitedOptions, limits: ReadingLimits, output: Path, warnings: list[str]
) -> Columnar:
    """Write the ``table`` layout of a CSV or TSV file, maybe gzipped.

    Values are read as text first. A column is a number column if and only if all values that are there are plain
    numbers (`service.ingest.numbers.PLAIN_NUMBER`), so ``01234`` stays text. Quoted values may hold delimiters, line
    breaks and doubled quotes; empty ones are missing, quoted or not. Empty lines are skipped. A quoted value that does
    not end as one is refused, unless the file makes sense with quotes as characters like others: then it is read so.

    What the options leave open `service.ingest.delimiter` and `service.ingest.header` tell.

    Raises
    ------
    IngestError
    """
    said = len(warnings)
    try:
        return _Reader(path, options, limits, warnings).store(output)
    except ImproperQuoteError as error:
        del warnings[said:]
        unquoted = None
        if options.quote == "auto" and error.reason != "backslash":
            with suppress(IngestError):
                unquoted = _Reader(path, replace(options, quote=None), limits, warnings)
        if unquoted is None or not unquoted.reads_evenly():
            raise IngestError("malformed", error.message, line=error.line) from None
        warnings.append(
            "quotes were read as characters like others (option quote null), because the one that opens a value on "
            f"line {error.line} does not close it, and each line by itself makes a row"
        )
        return unquoted.store(output)


class _Reader:
    def __init__(self, path: Path, options: DelimitedOptions, limits: ReadingLimits, warnings: list[str]) -> None:
        self._path = path
        self._options = options
        self._limits = limits
        self._warnings = warnings
        self._block_bytes = max(BLOCK_BYTES, 2 * limits.max_line_bytes)
        self._quote = QUOTE if options.quote == "auto" else options.quote
        self._escapes: Escapes | None = None
        self._hidden_breaks = HIDDEN_BREAKS if options.escape is not None else ()
        self._skipped = b""  # a first line that says no more than the delimiter
        found = self._find_delimiter()
        self._delimiter, self._guessed = found.character, found.guessed
        self._skipped = found.skipped.encode()
        check_beginning(path, limits)
        self._words = MissingWords()
        self._indexes: dict[int, IndexKind] = {}
        self._lines: Lines | None = None  # of the first pass, once it is through
        self._read_head()
        # Each block costs something for every column, so with many columns blocks have more rows.
        self._block_bytes = max(self._block_bytes, BLOCK_BYTES_A_COLUMN * self._width)
        self._forced = forced_kinds(options.columns, self._names) | verbatim_kinds(
            options.verbatim, self._names, ["text"] * len(self._names)
        )

    def store(self, output: Path) -> Columnar:
        said = len(self._warnings)
        reading = self._options.reading
        if self._escapes is not None:
            reading = replace(reading, missing=(*reading.missing, ESCAPED_MISSING))
        while True:
            storage = [stored_as(self._forced.get(position, "number")) for position in range(len(self._names))]
            try:
                columnar = store_table(
                    output,
                    self._names,
                    storage,
                    lambda: joined_record_batches(self._batches()),
                    self._number,
                    self._text,
                    self._limits,
                    self._warnings,
                    self._forced,
                    self._indexes,
                    reading,
                    self._words,
                    verbatim=self._options.verbatim,
                    to_numbers=None if self._escapes is not None or self._options.trim else self._plain_numbers,
                )
                break
            except _LastColumnHasValuesError as error:
                del self._warnings[said:]
                self._take_columns(error.count)
        if self._escapes is not None and self._escapes.missing:
            self._warnings.append(f"{ESCAPED_MISSING} was read as missing, as MySQL writes it")
        return replace(columnar, lines=self._lines)

    def reads_evenly(self) -> bool:
        """Tell whether the lines make sense without quotes."""
        return reads_evenly(self._body(), self._delimiter, QUOTE, self._width) and not any(
            name.startswith(QUOTE) for name in self._names
        )

    # -- bytes and records --------------------------------------------------------------------------------------------

    def _file(self, begin: int | None = None) -> io.BufferedReader:
        """Open the checked text as UTF-8, from a byte on; by default behind the line that says the delimiter."""
        return io.BufferedReader(ChunkReader(self._bytes(begin)), 1 << 20)

    def _bytes(self, begin: int | None = None) -> Iterator[bytes]:
        """Yield what `_file` opens."""
        return behind(self._text_chunks(), len(self._skipped) if begin is None else begin)

    def _text_chunks(self) -> Iterator[bytes]:
        chunks = recoded(unpacked(self._path, self._limits), self._options.encoding)
        chunks = with_bounded_lines(chunks, self._limits.max_line_bytes)
        if self._options.escape is None:
            yield from with_last_line_ended(chunks)
            return
        self._escapes = Escapes(self._delimiter, self._quote)
        try:
            yield from with_last_line_ended(self._escapes.hidden(chunks))
        except ValueError as error:
            raise IngestError("bad_encoding", str(error)) from None

    def _body(self) -> Iterator[bytes]:
        """Yield the text behind the column names."""
        yield from self._bytes(self._head_bytes)

    def _find_delimiter(self) -> FoundDelimiter:
        chunks = recoded(unpacked(self._path, self._limits), self._options.encoding)
        start = b""
        while len(start) < START_LENGTH and (chunk := next(chunks, b"")):
            start += chunk
        text = start[:START_LENGTH].decode(errors="replace")
        found = find_delimiter(
            text,
            is_cut=len(start) > START_LENGTH,
            given=self._options.delimiter,
            quote=self._quote,
            escape=self._options.escape,
        )
        if found.warning:
            self._warnings.append(found.warning)
        return found

    def _records(self, before: Before) -> Iterator[Record]:
        """Yield the records from one on; slow, so for a few of them and for errors only."""
        text = io.TextIOWrapper(self._file(before.bytes), encoding="utf-8", newline="")
        return self._split(text, before.lines)

    def _pieces(self) -> Iterator[SomeRows]:
        """Yield what the rows are like, at the speed of the reader."""
        before = Before(self._head_bytes, self._head_lines + self._blank_lines_before, 0)
        return rows_by_pieces(self._body(), self._delimiter, self._quote, before, self._hidden_breaks)

    def _split(self, lines: Iterable[str], lines_before: int) -> Iterator[Record]:
        try:
            yield from split_records(
                lines,
                self._delimiter,
                self._quote,
                max_characters=self._block_bytes,
                skipped_lines=lines_before,
                hidden_breaks=self._hidden_breaks,
            )
        except RecordTooLongError as error:
            self._check_quotes()
            raise self._too_long(error.line) from None

    def _check_quotes(self) -> None:
        """Raise `ImproperQuoteError` if there is reason to, of the whole text: other errors may come from that."""
        scan = QuoteScan(self._delimiter, self._quote, int(bool(self._skipped)), self._hidden_breaks)
        for _ in scan.passing(self._bytes()):
            pass

    def _read_head(self) -> None:
        """Find out the names of the columns, and where the rows begin."""
        sizes: list[int] = []

        def lines() -> Iterator[str]:
            for line in io.TextIOWrapper(self._file(), encoding="utf-8", newline=""):
                sizes.append(len(line.encode()))
                if len(sizes) > HEAD_LINES:
                    raise _HeadEndsError(is_blank=not line.strip("\r\n"))
                yield line

        head: list[Record] = []
        characters = 0
        try:
            for record in self._split(lines(), int(bool(self._skipped))):
                if not head:
                    first_bytes = sum(sizes)
                    check_columns(len(record.values), self._limits, line=record.line)
                head.append(record)
                characters += sum(map(len, record.values)) + len(record.values)
                if len(head) > HEAD_ROWS or characters > HEAD_CHARACTERS:
                    break
        except _HeadEndsError as error:
            self._check_quotes()
            if len(head) < 2 and not error.is_blank:
                raise IngestError(
                    "too_long",
                    f"a row of more than {HEAD_LINES} lines; maybe a quote that opens a value is never closed",
                ) from None
            if len(head) < 2:
                raise IngestError(
                    "empty", f"no rows within the first {HEAD_LINES} lines; expected column names and rows"
                ) from None
        if not head:
            raise IngestError("empty", "the file is empty; expected column names and rows")
        first, rows = head[0], head[1:]
        self._first = first
        self._has_names, why = self._options.header, ""
        if self._has_names == "auto":
            look = look_at_first_line(first.values, [record.values for record in rows])
            self._has_names, why = not look.holds_values, look.why
        if self._has_names and not rows:
            raise IngestError(
                "empty",
                "no rows below the column names; expected at least one",
            )
        self._blank_lines_before = self._head_lines = self._head_bytes = 0
        if self._has_names:
            self._head_bytes = first_bytes
            self._head_lines = first.lines
            self._blank_lines_before = first.line - 1 - bool(self._skipped)
        self._head_bytes += len(self._skipped)
        self._head_lines += bool(self._skipped)
        self._width, count = self._columns_of([record.values for record in (rows if self._has_names else head)])
        self._take_columns(count)
        # Arrow would take its columns from the first row.
        begin = rows[0] if self._has_names else first
        if len(begin.values) != self._width:
            self._check_quotes()
            raise self._ragged(len(begin.values), begin.line, begin)
        self._remark_on_first_line(why)

    def _columns_of(self, rows: list[list[str]]) -> tuple[int, int]:
        """Return how many values each row has, and how many of them are columns: not empty ends of the lines."""
        names = self._first.values if self._has_names else []
        width = Counter(map(len, rows)).most_common(1)[0][0]
        named = len("".join("x" if name.strip() else " " for name in names).rstrip())
        used = max((len(row) - next((i for i, v in enumerate(reversed(row)) if v), len(row))) for row in rows)
        if not names:
            return width, used or width
        fits = width == len(names) or (width > len(names) >= used) or (named <= width < len(names))
        if not fits:
            return len(names), len(names)
        return width, max(named, min(used, width)) or len(names)

    def _take_columns(self, count: int) -> None:
        """Take the first columns; those behind them have neither names nor values, it seems."""
        if self._has_names:
            self._names = self._checked_names(self._first.values[:count])
        else:
            self._names = [f"f{position}" for position in range(count)]
        names = len(self._first.values)
        if self._width > count:
            what = "the last column has" if self._width == count + 1 else f"the last {self._width - count} columns have"
            self._warnings.append(f"{what} neither a name nor values and was left out: delimiters end the lines")
        elif self._has_names and names > self._width:
            self._warnings.append("delimiters end the line of the column names, below which there are no values")

    def _checked_names(self, given: list[str]) -> list[str]:
        """Return the names of the columns; says so where the first line looks as if it were no header."""
        found = [each for each in f"{OTHER_DELIMITERS}," if each in given[0]] if len(given) == 1 else []
        if found:
            self._warnings.append(
                f"the header is a single column whose name holds {shown(found[0])}; if that separates columns, upload "
                "again with option delimiter"
            )
        if not given[0].strip():
            self._indexes[0] = "unnamed"
        try:
            return checked_names([self._restored(name) for name in given], self._warnings, line=self._first.line)
        except IngestError as error:
            maybe_values = self._options.header == "auto" and any(map(_PLAIN_NUMBER.match, map(str.strip, given)))
            message = f"{error.message}; {_HEADER_ADVICE}" if maybe_values else error.message
            raise IngestError(error.code, message, line=error.line, column=error.column) from None

    def _remark_on_first_line(self, why: str) -> None:
        if self._options.header != "auto":
            return
        if not self._has_names:
            self._warnings.append(
                f"the first line was read as a row, and the columns are called f0, f1, …: {why}; if it names the "
                "columns, upload again with option header true"
            )
        elif any(_PLAIN_NUMBER.match(name) for name in self._names):
            self._warnings.append(f"names of columns are numbers; {_HEADER_ADVICE}")
        elif why:
            self._warnings.append(f"the first line may hold values: {why}; {_HEADER_ADVICE}")

    def _restored(self, text: str) -> str:
        return text if self._escapes is None else self._escapes.restored(text) or ""

    def _batches(self) -> Iterator[pa.RecordBatch]:
        body = self._body()
        scan = None
        if self._lines is None:
            lines = self._head_lines + self._blank_lines_before
            scan = QuoteScan(self._delimiter, self._quote, lines, self._hidden_breaks)
            body = scan.passing(body)
        body = _with_mark(body)
        missing = ["", *self._options.missing]
        missing += [ESCAPED_MISSING] if self._options.escape else []
        rows = 0
        ahead = BoundedReadAhead(self._block_bytes, pa.cpu_count() + BLOCKS_AHEAD)
        try:
            with ahead:
                reader = pa_csv.open_csv(
                    io.BufferedReader(ChunkReader(ahead.chunks(body)), 1 << 20),
                    # Names are made up here, so columns are told apart by position.
                    read_options=pa_csv.ReadOptions(autogenerate_column_names=True, block_size=self._block_bytes),
                    parse_options=pa_csv.ParseOptions(
                        delimiter=self._delimiter,
                        quote_char=self._quote or False,
                        newlines_in_values=self._quote is not None,
                    ),
                    convert_options=pa_csv.ConvertOptions(
                        column_types={f"f{position}": pa.string() for position in range(self._width)},
                        null_values=missing,
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=True,
                        check_utf8=False,  # checked by `recoded`
                    ),
                )
                for batch in ahead.batches(reader):
                    if batch.num_rows:
                        yield self._taken(batch, rows)
                        rows += batch.num_rows
        except pa.ArrowInvalid:
            self._check_quotes()
            raise self._explained() from None
        if scan is not None:
            self._account_for(scan, rows)

    def _taken(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        count = len(self._names)
        if batch.num_columns == count:
            return batch
        for position in range(batch.num_columns - 1, count - 1, -1):
            array = batch.column(position)
            if array.null_count == len(array):
                continue
            if not self._has_names or position < len(self._first.values):
                raise _LastColumnHasValuesError(position + 1)
            row = pc.index(array.is_valid(), True).as_py()
            raise self._ragged(position + 1, self._line_of_row(first_row + row))
        return batch.select(list(range(count)))

    def _account_for(self, scan: QuoteScan, rows: int) -> None:
        """Compare the rows that were read with the lines that were seen; notes what became of them."""
        self._lines = Lines(
            total=self._head_lines + self._blank_lines_before + scan.lines + scan.hidden,
            header=self._head_lines,
            blank=self._blank_lines_before + scan.blank,
            continued=scan.continued + scan.hidden,
        )
        if self._lines.rows != rows:
            raise IngestError(
                "malformed",
                f"{rows} rows were read where the lines of the file make {self._lines.rows}; are quotes doubled inside "
                "quoted values? If they are part of the texts, say null for option quote",
            )
        if scan.first_continued is None or self._options.quote != "auto":
            return
        if self._width == 1:
            self._warnings.append(
                f"{scan.continued} lines go on with a quoted value of the line before (the first below line "
                f"{scan.first_continued}); if quotes are part of the texts, upload again with option quote null"
            )
        elif reads_evenly(self._body(), self._delimiter, QUOTE, self._width):
            raise IngestError(
                "malformed",
                "a quoted value that begins on this line has line breaks in it, but each line makes a row by itself; "
                'say null for option quote if quotes are part of the texts, or "\\"" for option quote if they quote',
                line=scan.first_continued,
            )

    def _explained(self) -> IngestError:
        """Return what is wrong with the rows. Arrow knows, but does not know the line, and quotes the file."""
        for some in self._pieces():
            if (row := self._first_bad(some)) is None:
                continue
            record = next(itertools.islice(self._records(some.before), row, None), None)  # may raise by itself
            if record is not None and len(record.values) != self._width:
                return self._ragged(len(record.values), record.line, record)
            if some.lengths[row] > self._block_bytes:
                return self._too_long(None if record is None else record.line)
            break
        return IngestError("malformed", "the rows cannot be told apart; are quotes doubled inside quoted values?")

    def _first_bad(self, some: SomeRows) -> int | None:
        """Return which of some rows is the first that has not as many values as there are columns, or is too long."""
        if some.widths is None:
            return 0
        is_bad = some.lengths > self._block_bytes
        is_bad[:-1] |= some.widths != self._width
        return int(np.argmax(is_bad)) if is_bad.any() else None

    def _too_long(self, line: int | None) -> IngestError:
        return IngestError(
            "too_long",
            f"a row of more than {self._block_bytes} bytes; maybe a quote that opens a value is never closed",
            line=line,
        )

    def _ragged(self, count: int, line: int | None, record: Record | None = None) -> IngestError:
        expected = len(self._names) if self._width > len(self._names) else self._width
        source = "as in the header" if self._has_names else "as in the first row"
        if record is not None and self._options.escape is None and any("\\" in value for value in record.values):
            source += '; if a backslash escapes the character behind it, say "\\\\" for option escape'
        elif self._guessed:
            source += f", by the delimiter {shown(self._delimiter)}; option delimiter says otherwise"
        elif expected == 1:
            source += "; is there a line before the names of the columns?"
        return IngestError("ragged", f"a row of {count} values; expected {expected} {source}", line=line)

    def _line_of_row(self, row: int) -> int | None:
        """Return the line on which a row begins; rows count from 0."""
        for some in self._pieces():
            before = some.before
            if some.widths is None or row < before.rows + len(some.widths):
                record = next(itertools.islice(self._records(before), row - before.rows, None), None)
                return None if record is None else record.line
        return None

    # -- values -------------------------------------------------------------------------------------------------------

    def _text(self, position: int, texts: pa.StringArray, first_row: int) -> pa.StringArray:  # noqa: ARG002 (`Convert`)
        if self._escapes is not None:
            texts = pc.replace_substring(texts, ESCAPED_MISSING, "N")
            for placeholder, character in self._escapes.placeholders.items():
                texts = pc.replace_substring(texts, placeholder, character)
        if not self._options.trim:
            return texts
        trimmed = pc.utf8_trim(texts, " \t")
        missing = pa.array(["", *self._options.missing], pa.string())
        return pc.if_else(pc.is_in(trimmed, value_set=missing), None, trimmed)

    def _plain_numbers(
        self, positions: Sequence[int], columns: Sequence[pa.StringArray]
    ) -> list[pa.DoubleArray | None]:
        """Return what `_number` does of columns of plain numbers, as they stand in the file; None of others."""
        if self._forced and not self._forced.keys().isdisjoint(positions):
            return [
                None if position in self._forced else plain_columns([column])[0]
                for position, column in zip(positions, columns, strict=True)
            ]
        return plain_columns(columns)

    def _number(self, position: int, texts: pa.StringArray, first_row: int) -> pa.DoubleArray | None:
        raw = self._text(position, texts, first_row)
        texts = self._with_points(raw)
        if position not in self._forced:
            numbers = plain_numbers(texts)
            if numbers is None and not begins_with_another_word(raw):
                numbers = self._words.numbers(position, raw, lambda rest: plain_numbers(self._with_points(rest)))
            if numbers is None:
                other = written_otherwise(raw, self._options.decimal) if first_row == 0 else None
                if other is not None:
                    self._warnings.append(f"column {self._names[position]!r} is text, but {other}")
                else:
                    self._remark_on_mixed(position, texts, first_row)
            return numbers
        numbers = any_numbers(texts)
        without = self._words.numbers(position, raw, lambda rest: _or_none(rest, any_numbers(self._with_points(rest))))
        if without is not None:
            return without
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
        if first_row == 0:
            present = texts.drop_null()
            if 1 - share_of_letters(present) < MIXED_SHARE or (pc.mean(are_plain(present)).as_py() or 0) < MIXED_SHARE:
                return
        name = self._names[position]
        bad = pc.index(are_plain(texts), False).as_py()
        infinite = (
            pc.index(pc.is_inf(pc.cast(pc.utf8_trim(texts, " \t"), pa.float64())), True).as_py() if bad < 0 else -1
        )
        if bad >= 0:
            why = f"row {first_row + bad + 1} holds none; if it means a missing value, name it in option missing"
        elif infinite >= 0:
            why = f"row {first_row + infinite + 1} holds one beyond 1.8e308, the largest that can be computed with"
        else:
            why = "it holds whole numbers beyond 2**53, which are taken for identifiers"
        self._warnings.append(f"column {name!r} is text although most of it looks like numbers: {why}")


def _with_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Put a byte order mark before text that begins with its character, which Arrow would take for one and drop."""
    first = next(chunks, b"")
    while len(first) < len(codecs.BOM_UTF8) and (more := next(chunks, b"")):
        first += more
    yield codecs.BOM_UTF8 + first if first.startswith(codecs.BOM_UTF8) else first
    yield from chunks


def _or_none(texts: pa.StringArray, numbers: pa.DoubleArray) -> pa.DoubleArray | None:
    """Return numbers, or None where a text is none."""
    return numbers if numbers.null_count == texts.null_count else None


class _HeadEndsError(Exception):
    """More lines of the beginning are not looked at."""

    def __init__(self, *, is_blank: bool) -> None:
        super().__init__(is_blank)
        self.is_blank = is_blank


class _LastColumnHasValuesError(Exception):
    """A column that seemed to be nothing but delimiters at the ends of lines has values; so many are to be taken."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count
