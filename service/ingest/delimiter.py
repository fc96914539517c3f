"""Tells by the beginning of a text what separates its values, for the reader of uploads and for the command line.

It loads nothing but the standard library.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from service.ingest.escaping import ESCAPE, Escapes
from service.ingest.records import QUOTE, ImproperQuoteError, Record, RecordTooLongError, split_records

OTHER_DELIMITERS = ";\t|"
"""Looked for in the first line besides a comma, where no delimiter was said."""
START_LENGTH = 1 << 16
"""So much of a text is enough to look at."""
_SAID_BY_EXCEL = re.compile(r'"?sep=([ -~\t])"?(?:\r\n|\n|\r)', re.IGNORECASE)


@dataclass(frozen=True)
class FoundDelimiter:
    """What separates the values of a text.

    Attributes
    ----------
    character : str
    skipped : str
        A first line that says no more than the delimiter.
    guessed : bool
        Whether there were several to choose from.
    warning : str
        What to tell the sender: that it is not a comma, and why. Empty where there is nothing to tell.
    """

    character: str
    skipped: str = ""
    guessed: bool = False
    warning: str = ""


def find_delimiter(
    start: str, *, is_cut: bool, given: str | None = None, quote: str | None = QUOTE, escape: str | None = None
) -> FoundDelimiter:
    """Find out what separates the values of a text.

    It is what a first line ``sep=;`` says, as Excel writes it; else whichever of comma, semicolon, tab and bar the
    first line has. Of several it is the one by which the first rows all have the same number of columns, and most of
    them; else the comma, or without one what the first line has most of.

    Parameters
    ----------
    start : str
        Beginning of the text.
    is_cut : bool
        Whether the text may go on after it.
    given : str, optional
        What the sender says that it is. A first line that says the same is skipped.
    quote, escape : str or None
        See `service.ingest.options.DelimitedOptions`.
    """
    said = _SAID_BY_EXCEL.match(start)
    if said is not None and given in (None, said[1]):
        return FoundDelimiter(said[1], skipped=said[0])
    if given is not None:
        return FoundDelimiter(given)
    first_line = next(iter(start.lstrip("\r\n").splitlines()), "")
    if quote is not None:
        q = re.escape(quote)
        first_line = re.sub(f"{q}[^{q}]*{q}", "", first_line)
    found = {each: first_line.count(each) for each in f",{OTHER_DELIMITERS}" if each in first_line}
    if set(found) <= {","}:
        return FoundDelimiter(",")
    widths = {each: _common_width(start, each, is_cut, quote, escape) if len(found) > 1 else 0 for each in found}
    chosen = max(found, key=lambda each: (widths[each], each == ",", found[each]))
    if chosen == ",":
        return FoundDelimiter(",", guessed=True)
    why = "rows have more columns by it than by a comma" if "," in found else "line has some and no comma"
    warning = f"read with {shown(chosen)} as delimiter, because the first {why}; option delimiter says otherwise"
    return FoundDelimiter(chosen, guessed=True, warning=warning)


def shown(delimiter: str) -> str:
    """Return a delimiter for people."""
    return "a tab" if delimiter == "\t" else repr(delimiter)


def _common_width(start: str, delimiter: str, is_cut: bool, quote: str | None, escape: str | None) -> int:
    """Return how many columns all rows at the start of a file have by a delimiter; 0 if they differ.

    Delimiters at the ends of lines, after which nothing comes, may be in the first line only or in all others.
    """
    lines: Iterable[str] = io.StringIO(start if start.endswith(("\n", "\r")) else f"{start}\n", newline="")
    rows: list[Record] = []
    try:
        if escape == ESCAPE:
            lines = Escapes(delimiter, quote).hidden_lines(lines)
        rows.extend(split_records(lines, delimiter, quote, max_characters=len(start) + 1))
    except ImproperQuoteError as error:
        if quote is not None and not (is_cut and error.reason == "open"):
            return _common_width(start, delimiter, is_cut, None, escape)  # quotes may be part of the texts
    except (RecordTooLongError, ValueError):
        return 0
    if is_cut and len(rows) > 1:
        del rows[-1]  # which may go on
    if not rows:
        return 0
    first, *others = (row.values for row in rows)
    widths = {len(row) for row in others or [first]}
    if len(widths) != 1:
        return 0
    (width,) = widths
    longest = max([first, *others], key=len)
    if len(first) != width and any(map(str.strip, longest[min(width, len(first)) :])):
        return 0
    return width
