"""What is found out about columns and rows while their batches pass by."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest import lean_arrow  # noqa: F401  # before any array
from service.ingest.identifiers import FEWEST_ROWS, IdentifierSample, IndexKind, units_of
from service.ingest.labels import BOOLEANS
from service.ingest.limits import MAX_COMPARED_ROWS, MAX_DISTINCT, MAX_EXACT_INTEGER, MAX_LISTED_VALUES
from service.ingest.limits import MAX_NAME_CHARACTERS as MAX_LISTED_CHARACTERS
from service.ingest.numbers import array_values, has_leading_zeros, has_outer_blanks, plain_numbers
from service.ingest.options import Kind
from service.ingest.profile import ColumnProfile
from solver.kinds import LIKE_A_DATE, consists_of_words, is_free_text, looks_like_an_identifier
from solver.labels import is_missing_word

TIMES = (946_684_800, 2_208_988_800)
"""2000 to 2040, in seconds since 1970."""
EPOCHS = {"seconds": 1, "milliseconds": 1000}
MOST_CLASSES = 2
"""Texts that are so many different numbers are labels."""
_YEAR_FIRST = re.compile(r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}")
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_NAN = pa.scalar(np.nan, pa.float64())
_MINUS_ONE = pa.scalar(-1, pa.int32())
_WORDS = np.frombuffer(os.urandom(8 << 12), np.uint64) | np.uint64(1)  # NumPy's own generators take a while to load
"""By which the parts of vectors are mixed; drawn anew in each process, so that nobody can make two vectors meet."""
_MISSING: np.uint64 = (np.array([np.nan]) + 0.0).view(np.uint64)[0]
"""What stands for a missing value where rows are compared."""


class ColumnStatistics:
    """Profile of a column while its batches pass by.

    Parameters
    ----------
    name : str
    index : {"pandas", "unnamed"}, optional
        Whether the file says, or shows, that it is an index of the rows.
    """

    def __init__(self, name: str, index: IndexKind | None = None) -> None:
        self.name = name
        self.outer_blanks = False
        self._is_number = True
        self._rows = 0
        self._missing = 0
        self._distinct = 0
        self._values: pa.Array | None = None  # those counted, until there are enough
        self._sample: list[Any] = []
        self._counts: dict[Any, int] | None = {}
        self._min = math.inf
        self._max = -math.inf
        self._may_be_times = True
        self._leading_zeros = False
        self._text_bounds: list[str] | None = None
        """First and last text in the order of the alphabet, which is that of ISO dates; empty where they are none."""
        self._identifier = IdentifierSample(name, index)

    def add(self, array: pa.Array) -> None:
        """Take a batch of float64 or string into account."""
        self._is_number = not pa.types.is_string(array.type)
        self._rows += len(array)
        self._missing += array.null_count
        if array.null_count == len(array):
            self._identifier.add(array, self._distinct)
            return
        # A slice first: most columns with many values show it at once.
        for part in (array[: 2 * MAX_DISTINCT], array[2 * MAX_DISTINCT :]):
            if self._counts is not None:
                self._count_values(part)
            elif self._distinct < MAX_DISTINCT:
                self._count_distinct(pc.unique(part.drop_null()))
        if not self._is_number:
            self._leading_zeros = self._leading_zeros or has_leading_zeros(array)
            self.outer_blanks = self.outer_blanks or has_outer_blanks(array)
            self._note_bounds_of_texts(array)
        else:
            least, greatest = _bounds(array)
            self._min = min(self._min, least)
            self._max = max(self._max, greatest)
            if self._may_be_times:
                in_range = _may_be_times(self._min, self._max)
                self._may_be_times = in_range and pc.all(pc.equal(array, pc.floor(array))).as_py()
        self._identifier.add(array, self._distinct)

    @classmethod
    def add_together(cls, each: Sequence[ColumnStatistics], columns: Sequence[pa.Array]) -> None:
        """Take a batch of several columns into account, which have as many rows: as `add` of each, at less cost.

        That is so for numbers of which none is missing and most differ, as measurements do.
        """
        numbers = [not array.null_count and pa.types.is_floating(array.type) for array in columns]
        several = [(column, array) for column, array, is_one in zip(each, columns, numbers, strict=True) if is_one]
        measured = [False] * len(several)
        if len(several) > 1 and len(columns[0]) >= MAX_DISTINCT:
            values = np.stack([array_values(array, np.float64) for _, array in several])
            first = np.sort(values[:, : 2 * MAX_DISTINCT].view(np.int64))
            many = (first[:, 1:] != first[:, :-1]).sum(axis=1) + 1 >= MAX_DISTINCT
            fractions = (values[:, :FEWEST_ROWS] != np.floor(values[:, :FEWEST_ROWS])).any(axis=1)
            bounds = zip(values.min(axis=1).tolist(), values.max(axis=1).tolist(), strict=True)
            measured = [
                bool(shown) and column._add_measured(array, *bounds_of_column)
                for (column, array), shown, bounds_of_column in zip(several, many & fractions, bounds, strict=True)
            ]
        done = {id(column) for (column, _), is_done in zip(several, measured, strict=True) if is_done}
        for column, array in zip(each, columns, strict=True):
            if id(column) not in done:
                column.add(array)

    def _add_measured(self, array: pa.DoubleArray, least: float, greatest: float) -> bool:
        """Take numbers into account of which the first ones differ, and are not whole; not where that is not enough."""
        if least == 0 or greatest == 0:  # which has a sign
            least, greatest = _bounds(array)
        lower, upper = min(self._min, least), max(self._max, greatest)
        if not lower <= upper or (self._may_be_times and _may_be_times(lower, upper)):
            return False
        self._is_number = True
        self._rows += len(array)
        self._distinct, self._counts, self._values, self._sample = MAX_DISTINCT, None, None, []
        self._min, self._max, self._may_be_times = lower, upper, False
        self._identifier.add_fractions(len(array))
        return True

    @property
    def is_empty(self) -> bool:
        """Whether it has no value."""
        return self._missing == self._rows

    @property
    def holds_quoted_numbers(self) -> bool:
        """Whether it is a column of texts which all are numbers, but for words for missing values.

        Of too many different ones that is not known.
        """
        sample = self._counts if self._counts is not None else self._sample
        if self._is_number or not MOST_CLASSES < len(sample) < MAX_DISTINCT:
            return False
        others = [text for text in sample if not is_missing_word(text)]
        return len(others) > MOST_CLASSES and plain_numbers(pa.array(others, pa.string())) is not None

    def mixed_booleans(self) -> tuple[str, str] | None:
        """Return the two words, for no and yes, that all texts are, if one of them is spelt in several ways."""
        if self._is_number or not self._counts:
            return None
        lowered = {text.lower() for text in self._counts}
        if len(lowered) == len(self._counts):
            return None
        return next((words for words in BOOLEANS if lowered <= {*words}), None)

    def seen_as_times(self) -> tuple[str, str, str] | None:
        """Return the unit, and the first and last day, if all numbers may be seconds or milliseconds since 1970."""
        if not self._is_number or not self._may_be_times or self._distinct <= MOST_CLASSES:
            return None
        unit, factor = next((unit, k) for unit, k in EPOCHS.items() if self._max <= TIMES[1] * k)
        first, last = (datetime.fromtimestamp(each / factor, UTC).date().isoformat() for each in (self._min, self._max))
        return unit, first, last

    def _note_bounds_of_texts(self, array: pa.Array) -> None:
        if self._text_bounds == []:
            return
        bounds = [*(self._text_bounds or ()), *pc.min_max(array).as_py().values()]
        self._text_bounds = [min(bounds), max(bounds)] if _YEAR_FIRST.match(min(bounds)) else []

    def _count_values(self, array: pa.Array) -> None:
        assert self._counts is not None  # noqa: S101 (the caller has looked)
        present = array.drop_null()
        if len(pc.unique(present[: 4 * MAX_LISTED_VALUES])) > MAX_LISTED_VALUES:
            self._counts = None
            self._count_distinct(pc.unique(present))
            return
        found = pc.value_counts(present)
        known = len(self._counts)
        if len(found) <= MAX_LISTED_VALUES:
            for value, count in zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True):
                self._counts[value] = self._counts.get(value, 0) + count
            if len(self._counts) == known:
                return
        self._count_distinct(found.field(0))
        if self._distinct > MAX_LISTED_VALUES:
            self._counts = None

    def _count_distinct(self, values: pa.Array) -> None:
        if self._values is not None:
            values = pc.unique(pa.concat_arrays([self._values, values]))
        self._distinct = min(len(values), MAX_DISTINCT)
        if self._distinct < MAX_DISTINCT:
            self._values = values
        else:
            self._sample = [] if self._is_number else values[:MAX_DISTINCT].to_pylist()
            self._values = None

    def profile(self, kind: Kind | None = None) -> ColumnProfile:
        """Return what was seen.

        Parameters
        ----------
        kind : str, optional
            What the column is, if it is known. Default: a guess. A column of which somebody has said what it is, is no
            identifier.
        """
        is_known = kind is not None
        if self._counts is not None:
            self._sample = list(self._counts)
        elif self._values is not None:
            self._sample = [] if self._is_number else self._values.to_pylist()
        has_bounds = self._min <= self._max
        kind = "number" if self._is_number else kind or self._guessed_kind()
        earliest, latest = (self._date_range() if kind == "date" else None) or (None, None)
        return ColumnProfile(
            name=self.name,
            kind=kind,
            missing=self._missing,
            distinct=self._distinct,
            distinct_capped=True if self._distinct == MAX_DISTINCT else None,
            values=self._listed_values(),
            min=self._min if has_bounds else None,
            max=self._max if has_bounds else None,
            earliest=earliest,
            latest=latest,
            constant=self._distinct + (self._missing > 0) <= 1,
            leading_zeros=None if self._is_number else self._leading_zeros,
            identifier=None if is_known or kind == "date" else self._identifier.reason(),
            plus_minus_one=True if not self._is_number and set(self._sample) == {"-1", "+1"} else None,
        )

    def _date_range(self) -> tuple[str, str] | None:
        from solver.features.dates import date_range  # as in `_guessed_kind`

        known = self._sample if self._distinct < MAX_DISTINCT else self._text_bounds
        found = date_range(known) if known else None
        # Fractions of a second may have any number of digits.
        return found if found and len(max(found, key=len)) <= MAX_LISTED_CHARACTERS else None

    def short_years(self) -> str | None:
        """Say how years of two digits are read, if all texts may be dates with such; known after `profile`.

        Of more than a thousand different texts a thousand are looked at.
        """
        sample: list[str] = self._sample
        if self._is_number or not sample or not LIKE_A_DATE.match(sample[0]):
            return None
        from solver.features.dates import SHORT_YEARS, may_have_short_years  # as in `_guessed_kind`

        return SHORT_YEARS if may_have_short_years(sample) else None

    def may_be_day_or_month(self) -> bool:
        """Whether all texts are dates of which nothing tells the day from the month; known after `profile`.

        Of more than a thousand different texts a thousand are looked at.
        """
        sample: list[str] = self._sample
        if self._is_number or not sample or not LIKE_A_DATE.match(sample[0]):
            return False
        from solver.features.dates import may_be_day_or_month  # as in `_guessed_kind`

        return may_be_day_or_month(sample)

    def looks_left_out(self) -> bool:
        """Whether these are texts that a training leaves out as an identifier, although most have words in them.

        Known after `profile`, for a column of categories.
        """
        return self._nearly_all_differ() and consists_of_words(self._sample)

    def units_not_read(self) -> list[str]:
        """Return the units of texts that are numbers with such, where a training leaves the column out for it.

        Known after `profile`, for a column of categories.
        """
        return units_of(pa.array(self._sample, pa.string())) if self._nearly_all_differ() else []

    def _nearly_all_differ(self) -> bool:
        return not self._is_number and looks_like_an_identifier(self._distinct, self._rows)

    def _guessed_kind(self) -> Kind:
        sample: list[str] = self._sample
        if not sample:
            return "category"
        if LIKE_A_DATE.match(sample[0]):
            from solver.features.dates import guess_format  # only where it is likely: it takes a while to load

            if guess_format(sample) is not None:
                return "date"
        return "text" if is_free_text(sample, self._distinct, self._rows) else "category"

    def _listed_values(self) -> dict[str, int] | None:
        if self._counts is None:
            return None
        listed = {number_text(value) if self._is_number else value: count for value, count in self._counts.items()}
        if any(len(value) > MAX_LISTED_CHARACTERS for value in listed):
            return None
        return dict(sorted(listed.items(), key=lambda each: (-each[1], each[0])))


class RowComparison:
    """Counts rows that are equal to an earlier one, by a 64-bit hash of each."""

    def __init__(self) -> None:
        # The system gives a page of it only where something is written, so it costs no more than the rows there are,
        # and they are never copied, as parts would be that are put together at the end.
        self._hashes: NDArray[np.uint64] | None = np.empty(MAX_COMPARED_ROWS, np.uint64)
        self._rows = 0

    def add(self, columns: list[pa.Array]) -> None:
        """Take a batch of rows into account."""
        before, self._rows = self._rows, self._rows + len(columns[0])
        if self._hashes is None or self._rows > MAX_COMPARED_ROWS:
            self._hashes = None
            return
        mixed = self._hashes[before : self._rows]
        mixed[:] = 0
        for array in columns:
            mixed ^= _bits(array)
            mixed *= _MIX
            mixed ^= mixed >> _HALF

    def duplicates(self) -> int | None:
        """Return how many rows are equal to an earlier one; None if there were too many rows to tell."""
        if self._hashes is None:
            return None
        hashes = self._hashes[: self._rows]
        hashes.sort()
        return int(np.count_nonzero(hashes[1:] == hashes[:-1]))


def _may_be_times(least: float, greatest: float) -> bool:
    return any(TIMES[0] * factor <= least and greatest <= TIMES[1] * factor for factor in EPOCHS.values())


def _bounds(numbers: pa.DoubleArray) -> tuple[float, float]:
    """Return the least and the greatest number of an array that holds some."""
    if numbers.null_count:
        bounds = pc.min_max(numbers).as_py()
        return bounds["min"], bounds["max"]
    values = array_values(numbers, np.float64)  # for a few thousand this takes a third of the time
    return float(values.min()), float(values.max())


def number_text(value: float) -> str:
    """Return a number in its shortest form: ``1`` for 1.0, ``0.5``."""
    return str(int(value)) if value.is_integer() and abs(value) <= MAX_EXACT_INTEGER else repr(value)


def _bits(array: pa.Array) -> NDArray[np.uint64] | np.uint64:
    """Return 64 bits for each value, or for all of them, that are equal for equal values."""
    if array.null_count == len(array):
        return _MISSING
    if pa.types.is_fixed_size_binary(array.type):
        return _bits_of_vectors(array)
    if not pa.types.is_string(array.type):
        present = pc.fill_null(array, _NAN) if array.null_count else array
        values = array_values(present, np.float64) + 0.0  # -0.0 becomes 0.0
        bits: NDArray[np.uint64] = values.view(np.uint64)
        return bits
    coded = array.dictionary_encode()
    # Python's hash of a text is seeded afresh in each process, so nobody can make two texts meet.
    hashes = np.fromiter((*map(hash, coded.dictionary.to_pylist()), 0), np.int64, len(coded.dictionary) + 1)
    hashes.view(np.uint64)[-1] = _MISSING
    codes = array_values(pc.fill_null(coded.indices, _MINUS_ONE), np.int32)  # the last one
    hashes_of_rows: NDArray[np.uint64] = hashes.view(np.uint64)[codes]
    return hashes_of_rows


def _bits_of_vectors(array: pa.FixedSizeBinaryArray) -> NDArray[np.uint64]:
    """Return 64 bits for each vector that are equal for equal ones: a sum of its numbers, each times one at random."""
    width = array.type.byte_width
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    numbers = raw.view(np.uint32).reshape(len(array), width // 4)
    bits = np.zeros(len(array), np.uint64)
    for start in range(0, numbers.shape[1], len(_WORDS)):
        part = numbers[:, start : start + len(_WORDS)]
        bits = bits * _MIX + np.einsum("ij,j->i", part, _WORDS[: part.shape[1]], dtype=np.uint64, casting="unsafe")
    return bits ^ (bits >> _HALF)
