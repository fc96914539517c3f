"""Keys: the texts by which a column names the rows, which are never altered."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from service.ingest.limits import MAX_EXACT_INTEGER
from service.ingest.options import kind_option
from solver.features import Column
from solver.reading import Reading


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
    values = exact_keys(column.name, column.values, column.reading)
    return np.array([None if math.isnan(value) else str(int(value)) for value in values.tolist()], dtype=object)


def exact_keys(name: str, values: NDArray[np.float64], reading: Reading | None) -> NDArray[np.float64]:
    """Return the values of a column of numbers if its keys can be given back; raises `InexactKeyError`."""
    plain = reading is None or not (reading.thousands or reading.unit)
    if (
        not plain
        or not (np.isnan(values) | ((values == np.rint(values)) & (np.abs(values) <= MAX_EXACT_INTEGER))).all()
    ):
        raise InexactKeyError(inexact_key(name))
    return values
