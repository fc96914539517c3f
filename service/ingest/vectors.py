"""Columns of vectors: lists of numbers, as many in each row. They are kept as float32, a value of fixed width a row."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.errors import IngestError
from service.ingest.numbers import array_values
from service.ingest.options import Kind
from service.ingest.profile import ColumnProfile
from service.ingest.statistics import ColumnStatistics

NUMBER_BYTES: Final = 4
MOST_NUMBERS: Final = 1 << 20
"""Of a vector; what is longer is data that somebody has put into one cell."""
HOLDS_VECTORS = "it holds vectors, which can be nothing else"
"""Why no option may say the kind of such a column."""
NOT_ALIKE = (
    "it holds lists of whole numbers, but not as many in each row, so they are no vectors; send a column for each of "
    "their values"
)
"""Why a column of such lists is left out."""

VectorArray = NDArray[np.float32]


def may_hold_vectors(type_: pa.DataType) -> bool:
    """Tell whether the values of a column are lists of numbers."""
    if pa.types.is_fixed_size_list(type_):
        return bool(type_.list_size > 0 and _is_number(type_.value_type))
    return bool((pa.types.is_list(type_) or pa.types.is_large_list(type_)) and _is_number(type_.value_type))


def may_be_other_lists(type_: pa.DataType) -> bool:
    """Tell whether such lists need not be vectors: whole numbers of any length may be the ids of what is in a basket.

    Numbers with decimals are measurements, and a length that the file fixes is meant.
    """
    return not pa.types.is_fixed_size_list(type_) and pa.types.is_integer(type_.value_type)


def are_alike(lists: pa.Array, length: int | None) -> tuple[bool, int | None]:
    """Tell whether lists have `length` numbers each, None for as many as the first of them, and how many these have."""
    if len(lists) == 0:
        return True, length
    lengths = pc.min_max(pc.list_value_length(lists)).as_py()
    length = lengths["min"] if length is None else length
    alike = not lists.null_count and bool(length) and lengths["min"] == lengths["max"] == length
    return alike and not lists.flatten().null_count, length


def is_stored_vector(type_: pa.DataType) -> bool:
    """Tell whether a column, as it is stored, holds vectors."""
    return bool(pa.types.is_fixed_size_binary(type_))


def vector_length(type_: pa.DataType) -> int:
    """Return how many numbers each vector of a stored column has."""
    return int(type_.byte_width) // NUMBER_BYTES


def vectors_of(array: pa.FixedSizeBinaryArray) -> VectorArray:
    """Return stored vectors as the rows of a view."""
    length = vector_length(array.type)
    numbers = np.frombuffer(array.buffers()[1], dtype=np.float32)
    return numbers[array.offset * length : (array.offset + len(array)) * length].reshape(len(array), length)


def stored(vectors: VectorArray) -> pa.FixedSizeBinaryArray:
    """Return the rows of an array in the form in which they are stored, without a copy where that is possible."""
    whole = np.ascontiguousarray(vectors)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(NUMBER_BYTES * vectors.shape[1]), len(vectors), [None, pa.py_buffer(whole)]
    )


class VectorReader:
    """Makes vectors of the lists of one column; all of them have the length of the first.

    Parameters
    ----------
    name : str
        Of the column, for errors.
    length : int, optional
        Of its vectors, where that is known.
    """

    def __init__(self, name: str, length: int | None = None) -> None:
        self.name, self.length = name, length

    def of_lists(self, lists: pa.Array, first_row: int) -> pa.FixedSizeBinaryArray:
        """Return the vectors of an array of lists, the first of which is row `first_row`, counted from 0.

        Raises
        ------
        IngestError
            ``bad_value`` with the first row that has no vector, or one of another length, or one that holds something
            else than finite numbers.
        """
        if lists.null_count:
            self._fail(first_row, int(pc.index(lists.is_null(), True).as_py()), "no vector")
        lengths = pc.list_value_length(lists)
        if self.length is None:
            self.length = self.checked_length(lengths[0].as_py(), first_row)
        other = int(pc.index(pc.not_equal(lengths, self.length), True).as_py())
        if other >= 0:
            self._fail(first_row, other, f"a vector of {lengths[other].as_py()} numbers")
        values = lists.flatten()
        if values.null_count:
            self._fail(first_row, int(pc.index(values.is_null(), True).as_py()) // self.length, "a vector with a null")
        numbers = array_values(values, values.type.to_pandas_dtype())
        return self.of_array(numbers.reshape(len(lists), self.length), first_row)

    def of_array(self, vectors: NDArray[Any], first_row: int) -> pa.FixedSizeBinaryArray:
        """Return the rows of an array of numbers; raises as `of_lists`."""
        with np.errstate(over="ignore"):  # found below
            numbers = vectors.astype(np.float32, copy=False)
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
            self._fail(first_row, row, "a vector with a number that is infinite or none, or beyond float32")
        return stored(numbers)

    def checked_length(self, length: int, first_row: int) -> int:
        """Return the length of the first vector, if one may have it."""
        if length == 0:
            self._fail(first_row, 0, "a vector of no numbers")
        if length > MOST_NUMBERS:
            raise IngestError(
                "too_long",
                f"column {self.name!r} holds a vector of {length} numbers; at most {MOST_NUMBERS} are allowed",
                line=first_row + 1,
                column=self.name,
            )
        return length

    def _fail(self, first_row: int, row: int, what: str) -> None:
        raise self.error(first_row + row + 1, f"holds {what}, in row {first_row + row + 1}")

    def error(self, line: int, what: str) -> IngestError:
        """Return what is wrong with the vector of a row or line."""
        many = "as many finite numbers" if self.length is None else f"{self.length} finite numbers"
        return IngestError(
            "bad_value",
            f"column {self.name!r} {what}; expected a vector of {many} in each row (leave out the rows that have none, "
            "or the column)",
            line=line,
            column=self.name,
        )


class VectorStatistics(ColumnStatistics):
    """Profile of a column of vectors while its batches pass by."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._is_number = False
        self._length = 0
        self._norms = (math.inf, 0.0, 0.0)
        """The least and the greatest, and the sum of all."""
        self._zeros = 0
        self._first: VectorArray | None = None
        self._differ = False

    def add(self, array: pa.Array) -> None:
        """Take a batch of stored vectors into account."""
        vectors = vectors_of(array)
        self._rows += len(vectors)
        self._length = vectors.shape[1]
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        least, greatest, total = self._norms
        self._norms = min(least, float(norms.min())), max(greatest, float(norms.max())), total + float(norms.sum())
        self._zeros += int(np.count_nonzero(norms == 0))
        if self._first is None:
            self._first = vectors[0].copy()
        self._differ = self._differ or not (vectors == self._first).all()

    def profile(self, kind: Kind | None = None) -> ColumnProfile:  # noqa: ARG002  # a vector is nothing else
        """Return what was seen."""
        least, greatest, total = self._norms
        return ColumnProfile(
            name=self.name,
            kind="vector",
            constant=not self._differ,
            length=self._length,
            norm_min=least,
            norm_mean=total / self._rows,
            norm_max=greatest,
            zero_rows=self._zeros,
        )


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))
