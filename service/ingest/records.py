"""The rules by which a delimited text falls into records, for the reader of uploads and for the command line.

It loads nothing but the standard library. Most rows of uploads never come here: Arrow reads them by the same rules,
while `service.ingest.quoting` looks whether they keep to them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

QUOTE = '"'
"""What quotes values unless something else was said."""


@dataclass(frozen=True)
class Record:
    """One row of the text.

    Attributes
    ----------
    line : int
        Line that it begins on, 1-based.
    lines : int
        How many lines it takes.
    values : list of str
    """

    line: int
    lines: int
    values: list[str]


class ImproperQuoteError(Exception):
    """A value that a quote opens does not end as such values do.

    Attributes
    ----------
    line : int
        Line on which the quote opens the value.
    end_line : int
        Line on which its end went wrong.
    reason : {"text", "backslash", "open"}
        Text follows the quote that closes it; the same, and a backslash stands before that quote; nothing closes it.
    """

    def __init__(self, line: int, end_line: int, reason: Literal["text", "backslash", "open"]) -> None:
        super().__init__(line, reason)
        self.line = line
        self.end_line = end_line
        self.reason = reason

    @property
    def message(self) -> str:
        """What is wrong and what helps, in one sentence."""
        if self.reason == "open":
            return (
                "the quote that opens a value of this row is never closed; if quotes are part of the texts, say null "
                "for option quote"
            )
        where = "" if self.end_line == self.line else f" on line {self.end_line}"
        if self.reason == "backslash":
            return (
                f"a backslash stands before a quote inside of a quoted value{where}; if backslashes escape quotes, say "
                '"\\\\" for option escape; if quotes are part of the texts, say null for option quote'
            )
        return (
            f"a quote opens a value of this row, and text follows the one that closes it{where}; if quotes are part of "
            "the texts, say null for option quote; else double those inside of quoted values"
        )


class RecordTooLongError(Exception):
    """A record has more characters than allowed."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def split_records(
    lines: Iterable[str],
    delimiter: str,
    quote: str | None,
    *,
    max_characters: int,
    skipped_lines: int = 0,
    hidden_breaks: Sequence[str] = (),
) -> Iterator[Record]:
    """Yield the records of a text, but for empty lines.

    A quote opens a value only where it is the first character of it; within such a value two quotes stand for one, and
    delimiters and line breaks are part of it. Nothing but blanks may follow the quote that closes it, and these count.
    A quote anywhere else is a character like others.

    Parameters
    ----------
    lines : iterable of str
        Each with its line break, as of a file that was opened with ``newline=""``.
    delimiter : str
    quote : str or None
        None: no value is quoted.
    max_characters : int
        Of one record.
    skipped_lines : int, default 0
        Lines before the first one, for those that errors and records name.
    hidden_breaks : sequence of str, default ()
        Characters that stand for line breaks of the file, and end no line here. They count in the lines that are named.

    Raises
    ------
    ImproperQuoteError
    RecordTooLongError
    """
    last = skipped_lines
    if quote is None:
        for line in lines:
            number, last = last + 1, last + 1 + _count(hidden_breaks, line)
            if len(line) > max_characters:
                raise RecordTooLongError(number)
            if text := line.rstrip("\r\n"):
                yield Record(number, last - number + 1, text.split(delimiter))
        return
    q = re.escape(quote)
    closing = re.compile(f"[^{q}]*(?:{q}{q}[^{q}]*)*{q}(?!{q})")
    blanks = re.compile("[ ]*" if delimiter == "\t" else "[\t]*" if delimiter == " " else "[ \t]*")
    begin = skipped_lines + 1
    opened = 0  # the line on which the value began that is open; 0: none is
    values: list[str] = []
    parts = io.StringIO()  # and not a list: of a value of very many short lines each would take 60 bytes
    size = 0
    for line in lines:
        number, last = last + 1, last + 1 + _count(hidden_breaks, line)
        size += len(line)
        if size > max_characters:
            raise RecordTooLongError(number)
        if not opened and quote not in line:
            if text := line.rstrip("\r\n"):
                yield Record(number, last - number + 1, text.split(delimiter))
            begin, size = last + 1, 0
            continue
        text = line.rstrip("\r\n")
        position = 0
        while True:
            if not opened and text.startswith(quote, position):
                opened, parts = number + _count(hidden_breaks, line, position), io.StringIO()
                position += 1
            if opened:
                found = closing.match(line, position)
                if found is None:
                    parts.write(line[position:])
                    break
                end = blanks.match(text, found.end())
                position = found.end() if end is None else end.end()
                if position < len(text) and text[position] != delimiter:
                    escaped = line[found.end() - 2 : found.end() - 1] == "\\"
                    number += _count(hidden_breaks, line, position)
                    raise ImproperQuoteError(opened, number, "backslash" if escaped else "text")
                parts.write(line[found.start() : found.end() - 1])
                values.append(parts.getvalue().replace(quote * 2, quote) + text[found.end() : position])
                opened = 0
            else:
                end_of_value = text.find(delimiter, position)
                end_of_value = len(text) if end_of_value < 0 else end_of_value
                values.append(text[position:end_of_value])
                position = end_of_value
            if position >= len(text):
                yield Record(begin, last - begin + 1, values)
                values, begin, size = [], last + 1, 0
                break
            position += 1
    if opened:
        raise ImproperQuoteError(opened, last, "open")


def _count(characters: Sequence[str], line: str, end: int | None = None) -> int:
    """Return how many of these characters a line has, before a position."""
    return sum(line.count(each, 0, end) for each in characters) if characters else 0
