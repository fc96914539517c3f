"""CSV files of the command line: their rows as the API takes them, and what it predicts of them."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from service.cli.client import ClientError, Connection
from service.cli.reasons import nearest, why
from service.cli.threshold_note import ThresholdNote
from service.ingest.delimiter import START_LENGTH, find_delimiter
from service.ingest.errors import IngestError
from service.ingest.escaping import HIDDEN_BREAKS, Escapes
from service.ingest.header import look_at_first_line
from service.ingest.profile import checked_names
from service.ingest.records import QUOTE, ImproperQuoteError, Record, RecordTooLongError, split_records
from service.ingest.stream import CHUNK_BYTES, with_last_line_ended

PLAIN_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""`service.ingest.numbers.PLAIN_NUMBER`, which a test compares; importing it would take PyArrow along."""
LONGEST_CELL = 1 << 24
"""Characters; Python's own limit is too short for texts."""
PREDICT_ROWS = 1000
"""Rows of one request to ``POST /predict``, of columns that are not too many:"""
PREDICT_CELLS = 500_000
MOST_NAMED = 10
PLACE = re.compile(r"(?:(?<=: )|(?<=\n  ))(?:rows|labels|keys|numbers)\.([0-9]+)\b")
"""How an error names a row of a request, from 0, where it says where the service looked."""


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written.

    Attributes
    ----------
    delimiter : str or None, default None
        Between the values; None: what the first lines tell, as of an upload.
    quote : str or None, default "auto"
        What may quote values; None: nothing does; ``auto``: ``"``.
    escape : str or None, default None
        A backslash, if it escapes the character behind it.
    header : bool or "auto", default "auto"
        Whether the first line names the columns, which are else ``f0``, ``f1``, …
    missing : collection of str, default ()
        Values that mean "missing", such as ``NA``. The empty one always does.
    decimal : {".", ","}, default "."
        Decimal sign of the numbers.
    """

    delimiter: str | None = None
    quote: str | None = "auto"
    escape: str | None = None
    header: bool | Literal["auto"] = "auto"
    missing: Collection[str] = ()
    decimal: str = "."


@dataclass(frozen=True)
class Piece:
    """Rows of a file, as many as one request takes, and the line on which each of them begins."""

    rows: list[list[str]]
    lines: list[int]

    @contextmanager
    def errors_by_line(self) -> Iterator[None]:
        """Let an error of the request with these rows name lines of the file where the service names rows."""
        try:
            yield
        except ClientError as error:
            error.args = (PLACE.sub(self._by_line, str(error)),)
            raise

    def _by_line(self, place: re.Match[str]) -> str:
        row = int(place[1])
        return f"line {self.lines[row]}" if row < len(self.lines) else place[0]


class CsvRows:
    """The rows of a CSV file, by the rules of uploads; a quoted value that does not end as one is refused.

    Memory stays flat: the file is read in pieces of `PREDICT_ROWS` rows.

    Parameters
    ----------
    source : text file
        Opened with ``newline=""``.
    style : CsvStyle
    kinds : mapping of str to str
        Kind of each column of a model, as ``GET /models/{id}`` gives them; texts of all kinds but ``number`` stay as
        they are. Columns that are not there are guessed by each cell.

    Attributes
    ----------
    header : list of str
    delimiter : str
    warnings : list of str
        What is to be told of how the file was read.

    Raises
    ------
    ClientError
        If the file cannot be read, here or later; it names the line.
    """

    def __init__(self, source: IO[str], style: CsvStyle, kinds: Mapping[str, str]) -> None:
        self._style = style
        self._kinds = kinds
        quote = QUOTE if style.quote == "auto" else style.quote
        self._escapes: Escapes | None = None
        with self._errors_told():
            start = source.read(START_LENGTH)
            found = find_delimiter(
                start, is_cut=len(start) == START_LENGTH, given=style.delimiter, quote=quote, escape=style.escape
            )
            self.delimiter = found.character
            self.warnings = [found.warning] if found.warning else []
            lines: Iterator[str] = itertools.chain(io.StringIO(start + source.readline(), newline=""), source)
            if found.skipped:
                next(lines)
            if style.escape is not None:
                self._escapes = Escapes(self.delimiter, quote)
                lines = self._escapes.hidden_lines(lines)
            self._records = split_records(
                lines,
                self.delimiter,
                quote,
                max_characters=LONGEST_CELL,
                skipped_lines=int(bool(found.skipped)),
                hidden_breaks=HIDDEN_BREAKS if style.escape is not None else (),
            )
            first = next(self._records, None)
            if first is None:
                raise ClientError("the file is empty: the first line must name the columns")
            self.header = self._names(first)

    def _names(self, first: Record) -> list[str]:
        """Return the names of the columns: those of the first line, or made-up ones if it is a row."""
        has_names = self._style.header
        try:
            names = checked_names([self._restored(each) or "" for each in first.values], [], line=first.line)
        except IngestError as error:
            names, fault = (
                [],
                ClientError(f"line {first.line}: {error.message}; if it is a row, say --no-header"),
            )
        if has_names == "auto" and self._kinds.keys().isdisjoint(names):
            begin = list(itertools.islice(self._records, PREDICT_ROWS))
            self._records = itertools.chain(begin, self._records)
            has_names = not look_at_first_line(first.values, [row.values for row in begin]).holds_values
            if not has_names:
                self.warnings.append("the first line was read as a row; if it names the columns, say --header")
        if not has_names:
            self._records = itertools.chain([first], self._records)
            return [f"f{position}" for position in range(len(_without_end(first.values)))]
        if not names:
            raise fault
        return names[: len(_without_end(first.values))]

    def _restored(self, value: str) -> str | None:
        return value if self._escapes is None else self._escapes.restored(value)

    def pieces(self, most: int = PREDICT_ROWS) -> Iterator[Piece]:
        """Yield the rows, as many at a time as one request takes, and `most` at most."""
        rows = self._rows()
        columns = max(1, len(self.header), len(self._kinds))
        most = max(1, min(most, PREDICT_CELLS // columns))
        while some := list(itertools.islice(rows, most)):
            yield Piece(*map(list, zip(*some, strict=True)))

    def refuse_without_rows(self) -> None:
        """Refuse a file without a row if its first line is no header for the model, which the service has not seen."""
        missing = [name for name in self._kinds if name not in self.header]
        if missing:
            named = ", ".join(map(repr, missing[:MOST_NAMED])) + (", …" if len(missing) > MOST_NAMED else "")
            raise ClientError(
                f"the file has one line, which is no header of rows for this model: missing columns: {named}"
            )

    def _rows(self) -> Iterator[tuple[list[str], int]]:
        width = len(self.header)
        with self._errors_told():
            for record in self._records:
                row = record.values
                if len(row) > width and not any(row[width:]):
                    row = row[:width]  # delimiters that end the lines
                if len(row) != width:
                    hint = "; is the delimiter another one?" if width == 1 else ""
                    raise ClientError(f"line {record.line} has {len(row)} cells, the header has {width}{hint}")
                yield [self._restored(value) or "" for value in row], record.line

    def as_sent(self, row: Sequence[str], without: str | None = None) -> dict[str, Any]:
        """Return a row as the API takes it, maybe without one of its columns."""
        return {
            name: None if text in self._style.missing else cell(text, self._kinds.get(name), self._style.decimal)
            for name, text in zip(self.header, row, strict=True)
            if name != without
        }

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        try:
            yield
        except ImproperQuoteError as error:
            cure = error.message.replace("null for option quote", "--quote none")
            raise ClientError(f"line {error.line}: {cure.replace('option escape', '--escape')}") from None
        except RecordTooLongError as error:
            raise ClientError(f"line {error.line}: a row of more than {LONGEST_CELL} characters") from None
        except UnicodeError as error:
            raise ClientError(f"the file is in another encoding; say which by --encoding: {error}") from None
        except ValueError as error:
            raise ClientError(str(error)) from None


def predict_csv(client: Connection, model: str, rows: CsvRows, sink: IO[str], explain: int | None = None) -> list[str]:
    """Predict the rows of a CSV file and write them with the columns ``prefsvm_label`` and ``prefsvm_score``.

    Where the model gives probabilities there is a third one, ``prefsvm_probability``; where each is to be explained
    there are ``prefsvm_why`` and ``prefsvm_nearest``. Nothing is written before the service has answered for the first
    rows.

    Parameters
    ----------
    client : Connection
    model : str
        Id or alias.
    rows : CsvRows
    sink : text file
        Opened with ``newline=""``; gets the delimiter of the source.
    explain : int, optional
        How many words or columns, and labelled rows, are told of each row.

    Returns
    -------
    list of str
        Warnings, each once.
    """
    writer = csv.writer(sink, lineterminator="\n", delimiter=rows.delimiter)
    added: list[str] = []
    warnings = dict.fromkeys(rows.warnings)
    threshold = ThresholdNote()
    asked = {} if explain is None else {"explain": explain}
    # How many rows of a model are explained at once depends on its size; one always is.
    for piece in rows.pieces(PREDICT_ROWS if explain is None else 1):
        with piece.errors_by_line():
            sent = {"model": model, "rows": [rows.as_sent(row) for row in piece.rows], **asked}
            answer = client.post("/predict", sent)
        warnings |= dict.fromkeys(map(str, answer["warnings"]))
        threshold.count(answer)
        if not added:
            # A model gives probabilities for all rows or for none.
            added = ["label", "score"]
            added += ["probability"] if answer["predictions"][0].get("probability") is not None else []
            added += [] if explain is None else ["why", "nearest"]
            writer.writerow([*rows.header, *(f"prefsvm_{name}" for name in added)])
        for row, predicted in zip(piece.rows, answer["predictions"], strict=True):
            if explain is not None:
                predicted |= {"why": why(predicted["explanation"]), "nearest": nearest(predicted["explanation"])}
            writer.writerow([*row, *(predicted[name] for name in added)])
    if not added:
        rows.refuse_without_rows()
        writer.writerow([*rows.header, "prefsvm_label", "prefsvm_score"])
        warnings["the file has no row below its first line, which names the columns"] = None
    return [*warnings, *threshold.said(client)]


def encoding_of(file: Path) -> str:
    """Return what the byte order mark of a file says; else, and of a pipe, UTF-8."""
    if not file.is_file():
        return "utf-8-sig"  # what was read of it would be gone
    with file.open("rb") as source:
        return "utf-16" if source.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def lone_quote(file: Path, encoding: str, style: CsvStyle) -> int | None:
    """Return the line of a quote that opens a value and does not close it, if the file makes sense without quotes.

    The rule is that of uploads, see `service.ingest.quoting`. None for what can be read only once.
    """
    if style.quote != "auto" or style.escape is not None or not file.is_file():
        return None

    def text() -> Iterator[bytes]:
        with file.open(encoding=encoding, newline="") as source:
            yield from with_last_line_ended(part.encode() for part in iter(lambda: source.read(CHUNK_BYTES), ""))

    try:
        if not any(QUOTE.encode() in part for part in text()):
            return None
        with file.open(encoding=encoding, newline="") as source:
            start = source.read(START_LENGTH)
    except UnicodeError:
        return None  # whoever reads the rows says so
    from service.ingest.quoting import QuoteScan, reads_evenly  # takes NumPy along

    found = find_delimiter(start, is_cut=len(start) == START_LENGTH, given=style.delimiter)
    scan = QuoteScan(found.character, QUOTE, 0)
    try:
        for _ in scan.passing(text()):
            pass
    except ImproperQuoteError as error:
        first = start.removeprefix(found.skipped).lstrip("\r\n").splitlines()[0].split(found.character)
        if error.reason == "backslash" or found.skipped or any(name.startswith(QUOTE) for name in first):
            return None
        return error.line if reads_evenly(text(), found.character, QUOTE, len(first)) else None
    return None


def _without_end(values: Sequence[str]) -> Sequence[str]:
    """Return values without empty ones at the end; all of them if they are all empty."""
    filled = max((place for place, value in enumerate(values, start=1) if value.strip()), default=len(values))
    return values[:filled]


def cell(text: str, kind: str | None = None, decimal: str = ".") -> int | float | str | None:
    """Return what a CSV cell is to a model: nothing, a number, or text.

    Where the kind of its column is not known, it is guessed by the rules of uploads: ``01234`` is text, and so is
    ``1.5``, which the model reads as its numbers were written.
    """
    if text == "":
        return None
    if decimal == "," and kind in (None, "number"):
        pointed = text.replace(",", ".") if "." not in text else ""
        if not PLAIN_NUMBER.fullmatch(pointed):
            return text
        if not pointed.lstrip("-").isdigit():
            return float(pointed) if math.isfinite(float(pointed)) else text
        return int(pointed)
    # Whole numbers stay whole: a model takes them for a number or for a category, whichever its column is. What has a
    # point goes as it is written: to a model that was trained on 1.234,50 it separates thousands.
    whole = kind in (None, "number") and PLAIN_NUMBER.fullmatch(text) and text.lstrip("-").isdigit()
    return int(text) if whole and math.isfinite(float(text)) else text
