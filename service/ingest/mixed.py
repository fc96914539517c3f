"""Columns in which numbers stand among texts, in formats that tell the two apart: JSON Lines, Excel.

Such a number keeps its value whatever the texts beside it turn out to be: 1.234 among ``2.345,6`` is no thousand.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from service.ingest.statistics import number_text

MIXED = pa.struct([("text", pa.string()), ("number", pa.float64())])
"""A value is at most one of the two."""


def mixed_array(values: Iterable[str | float | None]) -> pa.StructArray:
    """Return a column of `MIXED`."""
    held = list(values)
    texts = [value if isinstance(value, str) else None for value in held]
    numbers = [None if isinstance(value, str) else value for value in held]
    return pa.StructArray.from_arrays([pa.array(texts, pa.string()), pa.array(numbers, pa.float64())], fields=[*MIXED])


def is_mixed(array: pa.Array) -> bool:
    """Tell whether an array is of `MIXED`."""
    return bool(pa.types.is_struct(array.type))


def texts_of(array: pa.Array) -> pa.StringArray | None:
    """Return the values of an array that are texts, the others null; None if there can be none."""
    if is_mixed(array):
        return array.field("text")
    return array if pa.types.is_string(array.type) else None


def numbers_of(array: pa.StructArray) -> pa.DoubleArray:
    """Return the values that are numbers, the others null."""
    return array.field("number")


def spelt(array: pa.StructArray, unit: str, decimal: str = ".") -> pa.StringArray:
    """Return all values as texts, numbers in their shortest form and with the unit that they are in."""
    return pc.coalesce(array.field("text"), spelt_numbers(array.field("number"), unit, decimal))


def spelt_numbers(numbers: pa.DoubleArray, unit: str, decimal: str = ".") -> pa.StringArray:
    """Return numbers as texts in their shortest form, and with the unit that they are in."""
    texts = [
        None if value is None else number_text(value).replace(".", decimal) + unit for value in numbers.to_pylist()
    ]
    return pa.array(texts, pa.string())
