"""Keys: the texts by which a column names the rows, which are never altered."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.limits import MAX_EXACT_INTEGER
from service.ingest.options import kind_option
from solver.features import Column
from solver.reading import Reading

_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,15}")
"""As `key_texts` writes one: 01 is another key than 1."""


class InexactKeyError(ValueError):
    """A column cannot be the key, because its values were not kept as they were written."""


def inexact_key(name: str) -> str:
    """Say that a column cannot be the key of the rows."""
    return (
        f"column {name!r} holds numbers that cannot be given back as they were written, so it cannot be the key; "
        f"upload the file again with the options {kind_option(name, 'category')}"
    )


def key_texts(column: Column) -> NDArray[np.object_]:
    """Return the keys of rows that a column holds, None where it has none: texts as they are, numbers without a point.

    Raises
    ------
    InexactKeyError
        If it holds numbers that are not whole, or were written with signs that are gone.
    """
    if column.kind != "number":
        return column.values
    values = _exact(column.name, column.values, column.reading)
    return np.array([None if math.isnan(value) else str(int(value)) for value in values.tolist()], dtype=object)


class KeyLookup:
    """Finds rows by their keys in a column that is read piece by piece, at little more than the cost of reading it.

    Parameters
    ----------
    name : str
        Of the column.
    reading : Reading or None
    keys : collection of str
        Those that are wanted, as `key_texts` gives them.
    """

    def __init__(self, name: str, reading: Reading | None, keys: Collection[str]) -> None:
        self._name = name
        self._reading = reading
        self._texts = pa.array(keys, pa.string())
        whole = (int(key) for key in keys if _WHOLE_NUMBER.fullmatch(key))
        self._numbers = np.array([float(number) for number in whole if abs(number) <= MAX_EXACT_INTEGER])

    def rows(self, values: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
        """Yield the place in this piece of each row that has one of the keys, with that key.

        Raises
        ------
        InexactKeyError
            As `key_texts`.
        """
        if pa.types.is_floating(values.type):
            numbers = _exact(self._name, np.asarray(values.to_numpy(), dtype=np.float64), self._reading)
            places = np.flatnonzero(np.isin(numbers, self._numbers))
            yield from zip(places.tolist(), (str(int(number)) for number in numbers[places].tolist()), strict=True)
            return
        places = np.flatnonzero(pc.is_in(values, value_set=self._texts).to_numpy())
        yield from zip(places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True)


def _exact(name: str, values: NDArray[np.float64], reading: Reading | None) -> NDArray[np.float64]:
    """Return the values of a column of numbers if its keys can be given back; raises `InexactKeyError`."""
    plain = reading is None or not (reading.thousands or reading.unit)
    if (
        not plain
        or not (np.isnan(values) | ((values == np.rint(values)) & (np.abs(values) <= MAX_EXACT_INTEGER))).all()
    ):
        raise InexactKeyError(inexact_key(name))
    return values
