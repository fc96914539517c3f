"""Rows that somebody looks at: one by one in the terminal, or by a CSV file out and in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import typer

from service.cli.support import fail

LONGEST_TEXT = 2000
"""Characters of a value that are shown."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
KEYS = "s: later, q: enough for now"


def somebody_is_there() -> bool:
    """Tell whether keys can be asked for."""
    return sys.stdin.isatty()


def ask_key(question: str, keys: str = "yn") -> str:
    """Ask for one key: s, q, or one of `keys`."""
    print(question, end="", flush=True)
    while True:
        key = typer.getchar().lower()
        if key in ("\x03", "\x04", ""):
            raise KeyboardInterrupt
        if key in f"{keys}sq":
            print(key)
            return key


def print_row(item: Mapping[str, Any], said: str) -> None:
    """Show a row, what is said of it, and what it holds."""
    named = f" {item['key']}" if item["key"] is not None else ""
    sure = "" if item["probability"] is None else f", probability {item['probability']:.2f}"
    print(f"\n--- row {item['row']}{named}: {said}, score {item['score']:.4g}{sure}")
    for name, value in item["content"].items():
        text = "" if value is None else str(value)
        cut = f"… ({len(text):,} characters)" if len(text) > LONGEST_TEXT else ""
        # what strangers wrote must not steer the terminal
        shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text[:LONGEST_TEXT])
        print(f"{name}: {shown}{cut}")


def write_rows(items: Iterable[Mapping[str, Any]], own: Iterable[str], sink: IO[str]) -> int:
    """Write rows with an empty column `answer`, their `own` fields, and what they hold; return how many."""
    import csv

    own = tuple(own)
    written, names = 0, None
    writer = csv.writer(sink, lineterminator="\n")
    for item in items:
        if names is None:
            names = list(item["content"])
            keyed = ("key",) if item["key"] is not None else ()
            header = ["row", "answer", *own, *keyed]
            for name in map(_harmless, names):
                while name in header:  # what comes back is read by the names of ours
                    name += "_"
                header.append(name)
            writer.writerow(header)
        # a matrix has other columns in each row
        held = [item["content"].get(name) for name in names]
        writer.writerow([item["row"], "", *map(_harmless, (*(item[name] for name in (*own, *keyed)), *held))])
        written += 1
    return written


def _harmless(value: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula: the file is for people to look at."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


@dataclass(frozen=True)
class Answered:
    """What a line of a file says of a row."""

    row: int
    label: str
    more: tuple[str, ...]
    line: int


def errors_by_line(given: Iterable[Answered]) -> AbstractContextManager[None]:
    """Let an error of a request with these rows name them by their lines."""
    from service.cli.csv_rows import Piece

    return Piece([], [each.line for each in given]).errors_by_line()


def answers(file: Path, classes: Sequence[str], writes_it: str, more: tuple[str, ...] = ()) -> Iterator[list[Answered]]:
    """Yield what a file answers, piece by piece, with what stands in the columns `more`.

    Rows without an answer are left out; of two classes y and n are the second and the first.

    Parameters
    ----------
    file : Path
    classes : sequence of str
        Negative and positive, or all of several.
    writes_it : str
        The command that writes such a file.
    more : tuple of str
    """
    from service.cli.csv_rows import CsvRows, CsvStyle, encoding_of

    meant = {"n": classes[0], "y": classes[1]} if len(classes) == 2 else {}
    if not meant.keys().isdisjoint(classes):
        meant = {}  # they are labels themselves
    with file.open(encoding=encoding_of(file), newline="") as source:
        rows = CsvRows(source, CsvStyle(), {})
        for name in ("row", "answer", *more):
            if name not in rows.header:
                fail(f"{file} has no column {name!r}; {writes_it} writes one that has")
        places = [rows.header.index(name) for name in ("row", "answer", *more)]
        for piece in rows.pieces():
            given: list[Answered] = []
            for row, line in zip(piece.rows, piece.lines, strict=True):
                number, answer, *others = (row[place].strip() for place in places)
                if not answer:
                    continue
                if not (number.isascii() and number.isdigit()):
                    fail(f"line {line} of {file}: {number!r} is no number of a row; leave column 'row' as it was")
                given.append(Answered(int(number), meant.get(answer.lower(), answer), tuple(others), line))
            if given:
                yield given
