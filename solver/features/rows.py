"""JSON rows → the columns that a model needs."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.features.columns import Column, Table
from solver.features.errors import BadValue, MissingColumns

_NUMBER_TYPES = frozenset({int, float, bool, type(None)})


def table_from_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, str]]) -> tuple[Table, list[str]]:
    """Take the columns that a model needs out of JSON rows.

    Parameters
    ----------
    rows : sequence of mappings
        Column name to value. ``None`` is a missing value. A number column takes finite numbers and booleans; the
        others take text, booleans (``"true"``, ``"false"``) and finite numbers (`number_text`).
    columns : sequence of mappings
        ``{"name", "kind"}`` each, as ``TableFeatures.columns`` or ``Model.columns``.

    Returns
    -------
    table : Table
    extra : list of str
        Names in the rows that are not needed, sorted.

    Raises
    ------
    MissingColumns
        If any row lacks one of the columns; it lists all that are lacking somewhere.
    BadValue
        For the first value of a wrong type.
    """
    reader = RowReader(columns)
    numbers, texts, extra = reader.read(rows)
    made = {name: Column(name, "number", numbers[:, j]) for j, name in enumerate(reader.numbers)}
    for name, values in zip(reader.texts, texts, strict=True):
        made[name] = Column(name, "text", np.array([*values, None], dtype=object)[:-1])
    return Table(made), extra


class RowReader:
    """Takes the columns that a model needs out of JSON rows; made once a model, so that one row is quick.

    Parameters
    ----------
    columns : sequence of mappings
        ``{"name", "kind"}`` each.
    """

    def __init__(self, columns: Sequence[Mapping[str, str]]) -> None:
        self.numbers = [column["name"] for column in columns if column["kind"] == "number"]
        self.texts = [column["name"] for column in columns if column["kind"] != "number"]
        self._known = {*self.numbers, *self.texts}
        self._pick: Callable[[Mapping[str, Any]], Sequence[Any]] = _picker(self.numbers)

    def read(self, rows: Sequence[Mapping[str, Any]]) -> tuple[NDArray[np.float64], list[list[str | None]], list[str]]:
        """Return the number columns as one array, each other column as a list, and the names not needed.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows`.
        """
        try:
            numbers = self._number_block(list(map(self._pick, rows)))
            texts = [_texts(name, [row[name] for row in rows]) for name in self.texts]
        except KeyError:
            names = [*self.numbers, *self.texts]
            raise MissingColumns([name for name in names if any(name not in row for row in rows)]) from None
        extra: set[str] = set()
        for row in rows:
            if len(row) > len(self._known):  # it has all of them, so only then can there be others
                extra.update(row.keys() - self._known)
        return numbers, texts, sorted(extra)

    def _number_block(self, rows: list[Sequence[Any]]) -> NDArray[np.float64]:
        """Values of the number columns, shape (rows, columns), NaN for None."""
        values = rows[0] if len(rows) == 1 else list(chain.from_iterable(rows))
        try:
            # All at once, into memory that may be written; this takes no text, which NumPy would read as a number.
            try:
                block = np.frombuffer(bytearray(struct.pack(f"{len(values)}d", *values)))
                missing = 0
            except struct.error:
                filled = [math.nan if value is None else value for value in values]
                block = np.frombuffer(bytearray(struct.pack(f"{len(values)}d", *filled)))
                missing = values.count(None)
        except (struct.error, OverflowError):
            pass
        else:
            # For one row, a finite sum is quicker to find than each value's kind.
            few_are_finite = len(rows) == 1 and not missing and math.isfinite(sum(values, 0.0))
            if few_are_finite or np.count_nonzero(np.isfinite(block)) == len(values) - missing:
                return block.reshape(len(rows), len(self.numbers))
        for i, row in enumerate(rows):
            for name, value in zip(self.numbers, row, strict=True):
                if type(value) not in _NUMBER_TYPES or (value is not None and not _is_finite(value)):
                    raise BadValue(i, name, "a finite number or null")
        raise AssertionError("unreachable: one of the values was refused")


def _picker(names: list[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return what gives the values of these columns of a row, raising `KeyError` if it has not all of them."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda row: [row[name] for name in names]


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _texts(name: str, values: list[Any]) -> list[str | None]:
    texts = []
    for row, value in enumerate(values):
        if value is None or type(value) is str:
            texts.append(value)
        elif value is True or value is False:
            texts.append("true" if value else "false")
        elif type(value) is int and abs(value) < 10**40:  # turning a huge int into digits is slow
            texts.append(str(value))
        elif type(value) is float and math.isfinite(value):
            texts.append(number_text(value))
        else:
            raise BadValue(row, name, "text, a number, true, false or null")
    return texts


def number_text(value: float) -> str:
    """Return a number as text in its shortest form: ``1`` for 1.0, ``0.5``."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
