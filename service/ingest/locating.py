"""Finds where a row of a delimited text begins, at the speed of the reader: errors name the line of one late in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.ingest.quoting import QuoteScan, blank_lines, line_ends, whole_lines
from service.ingest.records import ImproperQuoteError


@dataclass(frozen=True)
class Before:
    """What stands before a row: so many bytes, lines, and rows."""

    bytes: int
    lines: int
    rows: int


@dataclass(frozen=True)
class SomeRows:
    """The rows that end in one piece of a text.

    Attributes
    ----------
    before : Before
        What stands before the first of them.
    widths : ndarray of int or None
        How many values each has. None: a quoted value does not end as one, so the rules of
        `service.ingest.records.split_records` have to tell what is a row.
    lengths : ndarray of int
        Bytes of each, and at last those so far of the one that goes on behind the piece.
    """

    before: Before
    widths: NDArray[np.intp] | None
    lengths: NDArray[np.intp]


def rows_by_pieces(
    chunks: Iterable[bytes],
    delimiter: str,
    quote: str | None,
    before: Before,
    hidden_breaks: Sequence[str] = (),
) -> Iterator[SomeRows]:
    """Yield what the rows of a text are like, some at a time, in order; its last line has to end with a line break.

    Parameters
    ----------
    chunks : iterable of bytes
    delimiter : str
    quote : str or None
    before : Before
        What stands before the text.
    hidden_breaks : sequence of str, default ()
        See `QuoteScan`.
    """
    scan = QuoteScan(delimiter, quote, before.lines, hidden_breaks)
    open_bytes = open_delimiters = 0  # of the row that the last piece left open
    for piece in whole_lines(chunks):
        array = np.frombuffer(piece, dtype=np.uint8)
        was_open = scan.is_open
        try:
            quotes = scan.look_at(piece)
        except ImproperQuoteError:
            yield SomeRows(before, None, np.zeros(1, np.intp))
            return
        ends = line_ends(array)
        delimiters = np.flatnonzero(array == ord(delimiter))
        if was_open or len(quotes):
            is_end = np.searchsorted(quotes, ends) % 2 == was_open
            delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == was_open]
        else:
            is_end = np.ones(len(ends), dtype=bool)
        row_ends = ends[is_end]
        goes_on = np.r_[was_open, ~is_end[:-1]]
        is_row = ~(blank_lines(array, ends) & ~goes_on)[is_end]
        widths = np.diff(np.searchsorted(delimiters, row_ends), prepend=0) + 1
        lengths = np.diff(row_ends, prepend=-1)
        last = int(row_ends[-1]) + 1 if len(row_ends) else 0
        if len(row_ends):
            widths[0] += open_delimiters
            lengths[0] += open_bytes
            open_bytes = open_delimiters = 0
        rest = len(piece) - last
        open_bytes += rest
        open_delimiters += int(np.count_nonzero(delimiters >= last))
        yield SomeRows(before, widths[is_row], np.r_[lengths[is_row], open_bytes])
        if len(row_ends):
            begun = before.bytes + int(lengths.sum())
            lines = scan.lines - int(np.count_nonzero(ends >= last))
            hidden = scan.hidden - scan.hidden_in(piece, last)
            before = Before(begun, scan.skipped + lines + hidden, before.rows + int(is_row.sum()))
