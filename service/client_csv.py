"""CSV files of the command line: their rows as the API takes them, and what it predicts of them."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from service.client import Client, ClientError
from service.ingest.delimiter import START_LENGTH, find_delimiter

PLAIN_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""`service.ingest.numbers.PLAIN_NUMBER`, which a test compares; importing it would take PyArrow along."""
LONGEST_CELL = 1 << 24
"""Characters; Python's own limit is too short for texts."""
PREDICT_ROWS = 1000
"""Rows of one request to ``POST /predict``."""


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written.

    Attributes
    ----------
    delimiter : str or None, default None
        Between the values; None: what the first lines tell, as of an upload.
    missing : collection of str, default ()
        Values that mean "missing", such as ``NA``. The empty one always does.
    decimal : {".", ","}, default "."
        Decimal sign of the numbers.
    """

    delimiter: str | None = None
    missing: Collection[str] = ()
    decimal: str = "."


class CsvRows:
    """The rows of a CSV file that names its columns in the first line.

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
        csv.field_size_limit(LONGEST_CELL)
        with self._errors_told():
            start = source.read(START_LENGTH)
            found = find_delimiter(start, is_cut=len(start) == START_LENGTH, given=style.delimiter)
            self.delimiter = found.character
            self.warnings = [found.warning] if found.warning else []
            lines = itertools.chain(io.StringIO(start + source.readline(), newline=""), source)
            self._reader = csv.reader(lines, strict=True, delimiter=self.delimiter)
            if found.skipped:
                next(self._reader)
            header = next(filter(None, self._reader), None)
        if not header:
            raise ClientError("the file is empty: the first line must name the columns")
        check_names(header)
        self.header = header

    def pieces(self) -> Iterator[list[list[str]]]:
        """Yield the rows, as many at a time as one request takes."""
        rows = self._rows()
        while piece := list(itertools.islice(rows, PREDICT_ROWS)):
            yield piece

    def _rows(self) -> Iterator[list[str]]:
        width = len(self.header)
        with self._errors_told():
            for row in self._reader:
                if row and len(row) != width:
                    hint = "; is the delimiter another one?" if width == 1 else ""
                    raise ClientError(
                        f"line {self._reader.line_num} has {len(row)} cells, the header has {width}{hint}"
                    )
                if row:
                    yield row

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
        except csv.Error as error:
            raise ClientError(f"line {self._reader.line_num}: {error}") from None
        except UnicodeDecodeError as error:
            raise ClientError(f"the file is not UTF-8: {error.reason}") from None


def predict_csv(client: Client, model: str, rows: CsvRows, sink: IO[str]) -> list[str]:
    """Predict the rows of a CSV file and write them with the columns ``prefsvm_label`` and ``prefsvm_score``.

    Where the model gives probabilities there is a third one, ``prefsvm_probability``. Nothing is written before the
    service has answered for the first rows.

    Parameters
    ----------
    client : Client
    model : str
        Id or alias.
    rows : CsvRows
    sink : text file
        Opened with ``newline=""``; gets the delimiter of the source.

    Returns
    -------
    list of str
        Warnings, each once.
    """
    writer = csv.writer(sink, lineterminator="\n", delimiter=rows.delimiter)
    added: list[str] = []
    warnings = dict.fromkeys(rows.warnings)
    for piece in rows.pieces():
        answer = client.post("/predict", {"model": model, "rows": [rows.as_sent(row) for row in piece]})
        warnings |= dict.fromkeys(map(str, answer["warnings"]))
        if not added:
            # A model gives probabilities for all rows or for none.
            added = ["label", "score"]
            added += ["probability"] if answer["predictions"][0].get("probability") is not None else []
            writer.writerow([*rows.header, *(f"prefsvm_{name}" for name in added)])
        for row, predicted in zip(piece, answer["predictions"], strict=True):
            writer.writerow([*row, *(predicted[name] for name in added)])
    if not added:
        writer.writerow([*rows.header, "prefsvm_label", "prefsvm_score"])
    return list(warnings)


def check_names(header: Sequence[str]) -> None:
    """Refuse a header that names two columns alike: a row by name would have the values of one of them only."""
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise ClientError(f"two columns have the same name {twice!r}; expected each name once")


def cell(text: str, kind: str | None = None, decimal: str = ".") -> int | float | str | None:
    """Return what a CSV cell is to a model: nothing, a number, or text.

    Where the kind of its column is not known, it is guessed by the rules of uploads: ``01234`` is text, and so is
    ``1.5`` where numbers are written with a comma.
    """
    if text == "":
        return None
    if decimal == "," and kind in (None, "number"):
        pointed = text.replace(",", ".") if "." not in text else ""
        return cell(pointed, kind) if PLAIN_NUMBER.fullmatch(pointed) else text
    if kind not in (None, "number") or not PLAIN_NUMBER.fullmatch(text):
        return text
    number = float(text)
    if not math.isfinite(number):
        return text
    # Whole numbers stay whole: a model takes them for a number or for a category, whichever its column is.
    return int(text) if text.lstrip("-").isdigit() else number
