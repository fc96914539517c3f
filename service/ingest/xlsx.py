"""Reads the first sheet of an Excel workbook (.xlsx)."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from service.ingest.batches import rows_of_values
from service.ingest.errors import IngestError
from service.ingest.header import look_at_first_line
from service.ingest.identifiers import IndexKind
from service.ingest.limits import MAX_EXACT_INTEGER, ReadingLimits
from service.ingest.mixed import mixed_array
from service.ingest.numbers import PLAIN_NUMBER
from service.ingest.options import Kind, SheetOptions
from service.ingest.profile import Columnar, checked_names
from service.ingest.statistics import number_text
from service.ingest.table import Storage, TableReader, check_columns, check_size
from service.ingest.workbook import open_first_sheet
from solver.labels import is_missing_word

HEAD_ROWS = 1000
"""So many rows are looked at to tell what the first one is."""
MOST_TITLES = 20
"""Rows above the names of the columns in which a single cell is filled."""
_PLAIN_NUMBER = re.compile(PLAIN_NUMBER)


class Percent(float):
    """A number of a cell that shows it as percent: 0.01, shown as 1%."""

    @property
    def shown(self) -> float:
        """As it is shown, but with all digits."""
        return float(Decimal(float.__repr__(self)).scaleb(2))


_NUMBERS = frozenset((float, int, datetime.timedelta, Percent))
_PLAIN_TYPES = frozenset((float, int, type(None)))
_DATES = frozenset((datetime.date, datetime.datetime))
Row = list[Any]


def read_xlsx(path: Path, options: SheetOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of the first sheet that is shown.

    Formulas are what was calculated when the workbook was saved; cells with an error are missing. A column whose cells
    are all numbers, or numbers and texts of which each is a number, is a number column; durations are numbers of days.
    Where all numbers of a column are shown as percent, they are what is shown: 1 for 0.01, as in a csv file. Dates are
    written as ISO 8601 and, where a column has nothing else, make it one of dates. In any other column numbers are
    written in their shortest form, booleans as ``true`` and ``false``. Empty rows are skipped, also empty columns
    without a name, and rows of a single cell above the names of columns.

    Raises
    ------
    IngestError
    """
    return _Reader(path, options, limits, warnings).store(output)


@dataclass
class _Survey:
    """What the cells of a column are."""

    types: set[type] = field(default_factory=set)
    numbers: int = 0
    percents: int = 0
    """Those of them that are shown as percent."""
    numbers_as_text: int = 0
    words: int = 0
    """Texts that may mean missing."""
    texts: int = 0
    """All others."""
    first_text: int = 0
    """Row of the first of these, 1-based."""

    def add(self, values: tuple[Any, ...], rows: list[int]) -> None:
        found = set(map(type, values))
        self.types |= found
        if found <= _PLAIN_TYPES:
            self.numbers += len(values) - values.count(None)
            return
        self.numbers += sum(type(value) in _NUMBERS for value in values)
        self.percents += sum(type(value) is Percent for value in values)
        if str not in found:
            return
        for value, row in zip(values, rows, strict=True):
            if type(value) is not str:
                continue
            if _is_number(value):
                self.numbers_as_text += 1
            elif is_missing_word(value):
                self.words += 1
            else:
                if not self.texts:
                    self.first_text = row
                self.texts += 1

    @property
    def storage(self) -> Storage:
        others = self.types - _NUMBERS - {str, type(None)}
        is_number = not self.texts and not others and self.numbers and not (self.percents and self.numbers_as_text)
        return "number" if is_number or self.types <= {type(None)} else "text"

    @property
    def unit(self) -> str:
        """In what the numbers are that are no texts."""
        return "%" if self.percents and self.percents == self.numbers else ""

    @property
    def is_dates(self) -> bool:
        return not _DATES.isdisjoint(self.types) and self.types <= {*_DATES, type(None)}


class _Reader(TableReader):
    def __init__(self, path: Path, options: SheetOptions, limits: ReadingLimits, warnings: list[str]) -> None:
        super().__init__(path, options, limits, warnings)
        self._sheet = open_first_sheet(path, limits, warnings)
        self._first_row, given = self._names_of(options)
        self._survey = [_Survey() for _ in given]
        self._look_at_columns()
        self._kept = [j for j, each in enumerate(self._survey) if given[j] or each.types - {type(None)}]
        dropped = len(given) - len(self._kept)
        if dropped:
            what = "1 column has" if dropped == 1 else f"{dropped} columns have"
            warnings.append(f"{what} neither a name nor values and {'was' if dropped == 1 else 'were'} left out")
        if not self._kept:
            raise IngestError("empty", "the first sheet has no columns with values")
        self._survey = [self._survey[j] for j in self._kept]
        names = checked_names([given[j] for j in self._kept], warnings, line=max(1, self._first_row))
        self._indexes: dict[int, IndexKind] = {} if given[self._kept[0]] else {0: "unnamed"}
        with_texts: list[Storage] = ["text" if each.numbers_as_text else each.storage for each in self._survey]
        self._know(names, [each.storage for each in self._survey], with_texts=with_texts)
        self._say_what_is_odd()

    def store(self, output: Path) -> Columnar:
        dates: dict[int, Kind] = {j: "date" for j, each in enumerate(self._survey) if each.is_dates}
        units = {j: each.unit for j, each in enumerate(self._survey) if each.unit}
        return self._store(output, dates, indexes=self._indexes, units=units)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows that are not empty, with their numbers in the sheet; an empty cell is None."""
        missing = self._missing | {""}
        for number, row in enumerate(self._sheet.cells.iter_rows(), start=1):
            values = [None if type(value) is str and value in missing else value for value in row]
            for column, rows in self._sheet.percents.items():
                value = values[column]
                if (
                    number < len(rows)
                    and rows[number]
                    and isinstance(value, float | int)
                    and not isinstance(value, bool)
                ):
                    values[column] = Percent(value)
            if values.count(None) < len(values):
                yield number, values

    def _names_of(self, options: SheetOptions) -> tuple[int, list[str]]:
        """Return the row of the column names, 0 if there is none, and the names; empty where a column has none."""
        head = list(itertools.islice(self._rows(), HEAD_ROWS + MOST_TITLES))
        if not head:
            raise IngestError("empty", "the first sheet is empty; expected column names and rows")
        width = len(head[0][1])
        check_columns(width, self._limits)
        if options.header is False:
            return 0, [f"f{j}" for j in range(width)]
        filled = [width - row.count(None) for _, row in head]
        titles = 0
        if width > 2:
            titles = next((i for i, each in enumerate(filled[:MOST_TITLES]) if each > 1), 0)
            if not all(isinstance(value, str | None) for value in head[titles][1]):
                titles = 0  # nobody names columns by numbers below a title
        head = head[titles:]
        number, first = head[0]
        texts = [[_as_text(value) or "" for value in row] for _, row in head]
        if options.header == "auto":
            look = look_at_first_line(texts[0], texts[1:])
            if look.holds_values and not titles:
                self._warnings.append(
                    f"the first row was read as values, and the columns are called f0, f1, …: {look.why}; if it names "
                    "the columns, upload again with option header true"
                )
                return 0, [f"f{j}" for j in range(width)]
            if look.why:
                self._warnings.append(
                    f"the first row may hold values: {look.why}; if it names no columns, upload again with option "
                    "header false"
                )
        if len(head) == 1:
            raise IngestError("empty", "no rows below the column names; expected at least one")
        if titles:
            self._warnings.append(
                f"the names of the columns stand in row {number}; of {titles} row{'s' * (titles > 1)} above it a "
                "single cell is filled, which was left out"
            )
        return number, [" ".join((_as_text(value) or "").split()) for value in first]

    def _body(self) -> Iterator[list[tuple[int, Row]]]:
        most = rows_of_values(self._sheet.cells.width)
        rows = itertools.dropwhile(lambda each: each[0] <= self._first_row, self._rows())
        while batch := list(itertools.islice(rows, most)):
            yield batch

    def _look_at_columns(self) -> None:
        last, count, empty = self._first_row, 0, 0
        for batch in self._body():
            numbers = [number for number, _ in batch]
            if last:
                empty += numbers[-1] - last - len(numbers)
            else:
                empty += numbers[-1] - numbers[0] + 1 - len(numbers)
            last = numbers[-1]
            count += len(batch)
            check_size(count, len(self._survey), self._limits)
            for survey, values in zip(self._survey, zip(*(row for _, row in batch), strict=True), strict=True):
                survey.add(values, numbers)
        if empty:
            self._warnings.append(f"{empty} empty row{'s were' if empty > 1 else ' was'} skipped")

    def _say_what_is_odd(self) -> None:
        errors = Counter(self._sheet.errors)
        for name, j in zip(self._names, self._kept, strict=True):
            count = errors.pop(self._sheet.first_column + j, 0)
            if count:
                self._warnings.append(
                    f"column {name!r}: {count} cell{'s' * (count > 1)} with an error (#DIV/0!, …) count as missing"
                )
        if rest := errors.total():
            self._warnings.append(f"{rest} cells with an error (#DIV/0!, …) count as missing")
        if count := self._sheet.unplaced_percents:
            self._warnings.append(f"{count} cells are shown as percent, and read as they hold it: 1% is 0.01")
        if count := self._sheet.without_value:
            self._warnings.append(
                f"{count} formula{'s have' if count > 1 else ' has'} no stored value and count{'s' * (count == 1)} as "
                "missing, because the workbook was never calculated: open it in a spreadsheet program, save it and "
                "upload it again"
            )
        for name, survey in zip(self._names, self._survey, strict=True):
            if survey.unit:
                self._warnings.append(
                    f"column {name!r} is shown as percent, and read as it is shown: 1% is 1, although the cell holds "
                    "0.01"
                )
            elif survey.percents and survey.storage == "number":
                self._warnings.append(
                    f"column {name!r}: {survey.percents} of its {survey.numbers} numbers are shown as percent; all are "
                    "read as the cells hold them: 1% is 0.01"
                )
            if survey.storage == "number":
                if survey.numbers_as_text:
                    self._warnings.append(
                        f"column {name!r}: {survey.numbers_as_text} numbers stored as text are read as numbers"
                    )
                if datetime.timedelta in survey.types:
                    self._warnings.append(f"column {name!r} holds durations, which are read as numbers of days")
            elif survey.texts and survey.numbers > survey.texts:
                self._warnings.append(
                    f"column {name!r} is text: beside {survey.numbers} numbers it holds {survey.texts} cells that are "
                    f"none, the first in row {survey.first_text}; if they mean missing values, name them in option "
                    "missing"
                )

    def _batches(self) -> Iterator[list[pa.Array]]:
        for batch in self._body():
            columns = list(zip(*(row for _, row in batch), strict=True))
            numbers = [number for number, _ in batch]
            yield [self._array(place, columns[j], numbers) for place, j in enumerate(self._kept)]

    def _array(self, position: int, values: tuple[Any, ...], rows: list[int]) -> pa.Array:
        survey = self._survey[position]
        if survey.types <= _PLAIN_TYPES:
            return pa.array(values, pa.float64())
        wanted = self._forced.get(position)
        is_number = wanted == "number" or (survey.storage == "number" and wanted is None)
        allowed = {*_NUMBERS, bool, type(None)} if wanted == "number" else {*_NUMBERS, type(None)}
        if is_number and survey.types <= allowed:
            return pa.array([_as_number(value, survey.unit) for value in values], pa.float64())
        for value, row in zip(values, rows, strict=True):
            if type(value) is str and "\0" in value:
                raise IngestError("bad_value", "a text holds a NUL character", line=row)
        if survey.types.isdisjoint(_NUMBERS):
            return pa.array(map(_as_text, values), pa.string())
        return mixed_array(
            _as_number(value, survey.unit)
            if type(value) in _NUMBERS and (survey.unit or is_number or type(value) is not Percent)
            else _as_text(value)
            for value in values
        )


def _is_number(text: str) -> bool:
    """Tell whether a text is a number as csv files have them, and no long identifier."""
    text = text.strip()
    if _PLAIN_NUMBER.fullmatch(text) is None or not math.isfinite(number := float(text)):
        return False
    return abs(number) < MAX_EXACT_INTEGER or not text.removeprefix("-").isdigit()


def _as_number(value: Any, unit: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, Percent):
        return value.shown if unit else float(value)
    return value / datetime.timedelta(days=1) if isinstance(value, datetime.timedelta) else float(value)


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Percent):
        return f"{number_text(value.shown)}%"
    if isinstance(value, datetime.timedelta):
        value = value / datetime.timedelta(days=1)
    return str(value) if isinstance(value, int) else number_text(float(value))
