"""Looks whether the quotes of a delimited text are what the reader takes them for, at the speed of the reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.ingest.records import ImproperQuoteError

QUOTED_SHARE = 0.1
"""Where more lines than this have a value in quotes, whoever wrote the file meant them as quotes."""
_LF, _CR = b"\n\r"


@dataclass(frozen=True)
class Lines:
    """What became of the lines of a text.

    Attributes
    ----------
    total : int
        Lines of the whole text.
    header : int
        Those of the column names, and one before that names the delimiter.
    blank : int
        Empty ones, which are skipped.
    continued : int
        Those that go on with a value of the line before.
    """

    total: int
    header: int
    blank: int
    continued: int

    @property
    def rows(self) -> int:
        """All others: each is a row."""
        return self.total - self.header - self.blank - self.continued


class QuoteScan:
    """Counts the lines of a text that passes by, and stops it where a quoted value does not end as one.

    Its rules are those of `service.ingest.records.split_records`.

    Parameters
    ----------
    delimiter : str
    quote : str or None
    skipped_lines : int
        Lines before the text, for those that errors name.
    hidden_breaks : sequence of str, default ()
        Characters that stand for line breaks of the file, and end no line of the text.

    Attributes
    ----------
    lines, blank, continued : int
        See `Lines`; of the text that has passed.
    hidden : int
        Line breaks that are hidden in it.
    first_continued : int or None
        Line on which the first value opens that goes on on another line.
    skipped : int
        As it was given.
    """

    def __init__(
        self, delimiter: str, quote: str | None, skipped_lines: int, hidden_breaks: Sequence[str] = ()
    ) -> None:
        self.lines = self.blank = self.continued = self.hidden = 0
        self.first_continued: int | None = None
        self.skipped = skipped_lines
        self._delimiter = delimiter.encode()
        self._quote = None if quote is None else quote.encode()
        self._hidden_breaks = [each.encode() for each in hidden_breaks]
        self._opened: int | None = None  # line of the value that is open
        if quote is None:
            return
        d, q = re.escape(self._delimiter), re.escape(quote.encode())
        self._opening = re.compile(b"(?<![^%b\r\n])%b" % (d, q))
        self._closing = re.compile(b"[^%b]*(?:%b%b[^%b]*)*%b(?!%b)" % (q, q, q, q, q, q))
        self._blanks = re.compile(b"[%b]*" % b" \t".replace(self._delimiter, b""))
        self._may_stand_before = np.zeros(256, dtype=bool)
        self._may_stand_before[[*self._delimiter, _LF, _CR, *quote.encode()]] = True

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text in pieces of whole lines; its last line has to end with a line break.

        Raises
        ------
        ImproperQuoteError
        """
        for piece in whole_lines(chunks):
            self.look_at(piece)
            yield piece
        if self._opened is not None:
            raise ImproperQuoteError(self._opened, self.skipped + self.lines + self.hidden, "open")

    @property
    def is_open(self) -> bool:
        """Whether what has passed ends within a quoted value."""
        return self._opened is not None

    def look_at(self, piece: bytes) -> NDArray[np.intp]:
        """Take a piece of whole lines into account; return where in it values open and close in turn.

        Raises
        ------
        ImproperQuoteError
        """
        array = np.frombuffer(piece, dtype=np.uint8)
        # NumPy looks for one character several times as fast as Python counts it.
        ends = line_ends(array) if b"\r" in piece else np.flatnonzero(array == _LF)
        was_open = self._opened is not None
        if self._quote is None or (not was_open and self._quote not in piece):
            self.blank += int(blank_lines(array, ends).sum())
            self._pass(piece, ends)
            return np.zeros(0, np.intp)
        quotes = self._structural_quotes(piece, array, ends)
        inside = np.searchsorted(quotes, ends) % 2 != was_open
        self.continued += int(inside.sum())
        is_open = len(quotes) % 2 != was_open
        if is_open or (self.first_continued is None and inside.any()):
            opening = quotes[int(was_open) :: 2]
            opening = opening[array[opening - 1] != self._quote[0]]  # the others are second halves of doubled ones
            if self.first_continued is None:
                before = opening[opening < ends[np.argmax(inside)]]
                self.first_continued = self._line_of(int(before[-1]), piece, ends)
            if is_open and len(opening):
                self._opened = self._line_of(int(opening[-1]), piece, ends)
        if not is_open:
            self._opened = None
        self.blank += int((blank_lines(array, ends) & ~inside & ~np.r_[was_open, inside[:-1]]).sum())
        self._pass(piece, ends)
        return quotes

    def _pass(self, piece: bytes, ends: NDArray[np.intp]) -> None:
        self.lines += len(ends)
        self.hidden += self.hidden_in(piece)

    def _structural_quotes(self, piece: bytes, array: NDArray[np.uint8], ends: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where values open and close in turn; two quotes that stand for one may count as both."""
        assert self._quote is not None  # noqa: S101 (the caller has looked)
        quotes = np.flatnonzero(array == self._quote[0])
        is_open = int(self._opened is not None)
        opening, closing = quotes[is_open::2], quotes[1 - is_open :: 2]
        # A piece begins with a line, as if a line break stood before it, and ends with a line break.
        before = array[opening - 1]
        after = array[closing + 1]
        if self._may_stand_before.take(before).all() and self._may_stand_before.take(after).all():
            return quotes
        return self._searched_quotes(piece, ends)

    def _searched_quotes(self, piece: bytes, ends: NDArray[np.intp]) -> NDArray[np.intp]:
        """Do the same value by value, where quotes stand also inside of values that are not quoted."""
        found: list[int] = []
        position = 0
        opened = self._opened
        while True:
            if opened is None:
                begin = self._opening.search(piece, position)
                if begin is None:
                    break
                found.append(begin.start())
                opened = -1  # where it opens is known by `found`
                position = begin.end()
            end = self._closing.match(piece, position)
            if end is None:
                break
            blanks = self._blanks.match(piece, end.end())
            position = end.end() if blanks is None else blanks.end()
            if piece[position : position + 1] not in (self._delimiter, b"\n", b"\r"):
                line = self._line_of(found[-1], piece, ends) if opened == -1 else opened
                escaped = end.end() >= 2 and piece[end.end() - 2] == ord("\\")
                end_line = self._line_of(end.end(), piece, ends)
                raise ImproperQuoteError(line, end_line, "backslash" if escaped else "text")
            found.append(end.end() - 1)
            opened = None
        return np.array(found, dtype=np.intp)

    def hidden_in(self, piece: bytes, begin: int = 0, end: int | None = None) -> int:
        """Return how many line breaks are hidden in a part of a piece."""
        return sum(piece.count(each, begin, end) for each in self._hidden_breaks)

    def _line_of(self, position: int, piece: bytes, ends: NDArray[np.intp]) -> int:
        hidden = self.hidden + self.hidden_in(piece, 0, position)
        return self.skipped + self.lines + hidden + int(np.searchsorted(ends, position)) + 1


def reads_evenly(chunks: Iterable[bytes], delimiter: str, quote: str, width: int) -> bool:
    """Tell whether a text makes sense with its quotes as characters like others.

    It does where each line that is not empty has the same number of values, and nothing shows that somebody meant the
    quotes: neither doubled ones inside of a quoted value, nor many values in quotes.

    Parameters
    ----------
    chunks : iterable of bytes
        The text, without the line of the column names.
    delimiter, quote : str
    width : int
        Values of each line.
    """
    d, q = re.escape(delimiter.encode()), re.escape(quote.encode())
    quoted = re.compile(
        b"(?<![^%b\r\n])%b[^%b%b\r\n]*(?:%b%b[^%b%b\r\n]*)*%b(?=[%b\r\n])" % (d, q, q, d, q, q, q, d, q, d)
    )
    doubled = quote.encode() * 2
    lines = in_quotes = 0
    for piece in whole_lines(chunks):
        array = np.frombuffer(piece, dtype=np.uint8)
        ends = line_ends(array)
        delimiters = np.flatnonzero(array == ord(delimiter))
        widths = np.diff(np.searchsorted(delimiters, ends), prepend=0) + 1
        if not (widths == width)[~blank_lines(array, ends)].all():
            return False
        for found in quoted.finditer(piece):
            if doubled in found[0][1:-1]:
                return False
            in_quotes += 1
        lines += len(ends)
    return in_quotes <= QUOTED_SHARE * lines


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a text that ends with a line break into pieces that do, too; of lines that are not too long."""
    rest = b""
    for each in chunks:
        if cut := each.rfind(b"\n") + 1:
            yield b"".join((rest, memoryview(each)[:cut]))
            rest = each[cut:]
            continue
        chunk = rest + each
        # A carriage return at the end may be the first half of a line break.
        cut = chunk.rfind(b"\r", 0, len(chunk) - 1) + 1
        rest = chunk[cut:]
        if cut:
            yield chunk[:cut]
    if rest:
        yield rest


def line_ends(array: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return where the line breaks of a piece are: the line feed, or a carriage return before none."""
    ends = array == _LF
    returns = np.flatnonzero(array == _CR)
    if len(returns):
        alone = returns[~ends[np.minimum(returns + 1, len(array) - 1)]]
        ends[alone] = True
    return np.flatnonzero(ends)


def blank_lines(array: NDArray[np.uint8], ends: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell for each line of a piece whether nothing stands in it."""
    with_return = (array[ends] == _LF) & (array[ends - 1] == _CR) & (ends > 0)
    lengths = np.diff(ends, prepend=-1) - 1 - with_return
    blank: NDArray[np.bool_] = lengths == 0
    return blank
