"""How the columns of a matrix are scaled and cut, and which values are far outside those of the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features.columns import CUT, LARGEST_SCORE, FeatureCounts
from solver.features.errors import StateError
from solver.features.wild_values import TIMES, WildValues, find_wild, may_be_wild, moments
from solver.typing import BoolArray, FloatArray, IndexArray

MATRIX_ARRAYS: Final = ("factor", "limit_low", "limit_high", "low", "high")
"""Arrays of the state; older files have the first one only."""
# what is looked at together: 8 MB of float64
_BLOCK_ELEMENTS: Final = 1 << 20
# a column that differs by less, as a part of its largest value, is not scaled by that: it would be rounding
_LEAST_DEVIATION: Final = 1e-9
# Of a column that is zero in all but this share of the rows, such as a rare word, no value is called far outside.
_RARE: Final = 0.05

_Indices = NDArray[np.integer[Any]]
_Places = _Indices | slice
"""Which columns values are of: of each value in a sparse block; all of them in a dense one."""


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """What the fitted rows hold in each column, gaps being zeros.

    Wild values (`find_wild`) have a part in `low` and `high` alone.

    Attributes
    ----------
    low, high, largest : float64 arrays
        Least and greatest value, and the largest size.
    varied : bool array
        Whether there are more than two different values.
    mean, deviation : float64 arrays
        In units of `largest`, so that no square overflows; 0 where the column is zero.
    rare : bool array
        Whether too few values are not zero for `low` and `high` to say what is usual.
    wild : dict of int to WildValues
        By column.
    """

    low: FloatArray
    high: FloatArray
    largest: FloatArray
    varied: BoolArray
    mean: FloatArray
    deviation: FloatArray
    rare: BoolArray
    wild: dict[int, WildValues]


def see_columns(X: sparse.csr_array | NDArray[Any]) -> SeenColumns:
    """What the rows of a finite matrix hold in each column."""
    n, width = X.shape
    gaps = np.zeros(width, dtype=np.int64)
    if isinstance(X, np.ndarray):
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    else:
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        gaps += n - np.bincount(X.indices, minlength=width)
        low, high = np.where(gaps > 0, 0.0, np.inf), np.where(gaps > 0, 0.0, -np.inf)
        np.minimum.at(low, X.indices, X.data.astype(np.float64))
        np.maximum.at(high, X.indices, X.data.astype(np.float64))
    largest = np.maximum(high, -low)
    with np.errstate(over="ignore"):
        unit = 1.0 / np.where(largest > 0, largest, 1.0)
    unit[~np.isfinite(unit)] = 0.0  # of a subnormal number
    varied = _have_values_between(X, low, high) | ((gaps > 0) & (low < 0) & (high > 0))
    mean = _column_sums(X, lambda values, at: values * unit[at]) / n
    squares = _column_sums(X, lambda values, at: (values * unit[at] - mean[at]) ** 2)
    rare = _column_sums(X, lambda values, _: values != 0) < _RARE * n
    deviation = np.sqrt((squares + gaps * mean**2) / n)
    with np.errstate(over="ignore"):
        furthest = np.maximum(high * unit - mean, mean - low * unit)
    wild: dict[int, WildValues] = {}
    for at, values, zeros in _columns(X, np.flatnonzero(varied & may_be_wild(n, furthest, deviation))):
        found = find_wild(values, zeros)
        if found is not None:
            wild[at], ordinary = found
            values = values[ordinary]
            centre, size = moments(values, zeros)
            largest[at] = np.abs(values).max()
            mean[at], deviation[at] = centre / largest[at], size / largest[at]
            between = (values > wild[at].low) & (values < wild[at].high)
            varied[at] = between.any() or (zeros > 0 and wild[at].low < 0 < wild[at].high)
    return SeenColumns(low, high, largest, varied, mean, deviation, rare, wild)


def _columns(X: sparse.csr_array | NDArray[Any], chosen: IndexArray) -> Iterator[tuple[int, FloatArray, int]]:
    """Those columns: place, values, and how many zeros there are besides. Of a sparse matrix, not all of them.

    Where most are zero, as of rare words, only those that have values of very different sizes.
    """
    if isinstance(X, np.ndarray):
        yield from ((at, X[:, at].astype(np.float64), 0) for at in chosen.tolist())
        return
    columns = sparse.csc_array(X[:, chosen].astype(np.float64))
    columns.eliminate_zeros()
    if not columns.nnz:
        return
    sizes = np.abs(columns.data)
    filled = np.flatnonzero(np.diff(columns.indptr))
    starts = columns.indptr[filled]
    uneven = np.maximum.reduceat(sizes, starts) / TIMES > np.minimum.reduceat(sizes, starts)
    zeros = X.shape[0] - np.diff(columns.indptr)[filled]
    looked_at = uneven | (2 * zeros <= X.shape[0])
    for j, n in zip(filled[looked_at].tolist(), zeros[looked_at].tolist(), strict=True):
        values = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        if 2 * n > X.shape[0]:
            yield int(chosen[j]), values, n
        else:
            yield int(chosen[j]), np.append(values, np.zeros(n)), 0


def _column_sums(X: sparse.csr_array | NDArray[Any], of: Callable[[FloatArray, _Places], NDArray[Any]]) -> FloatArray:
    """Sum over each column of what is made of its values (of a sparse matrix: of those that it holds)."""
    total = np.zeros(X.shape[1])
    if isinstance(X, np.ndarray):
        for block in _row_blocks(X):
            total += of(block.astype(np.float64, copy=False), slice(None)).sum(axis=0)
        return total
    for start in range(0, X.nnz, _BLOCK_ELEMENTS):
        at = X.indices[start : start + _BLOCK_ELEMENTS]
        made = of(X.data[start : start + _BLOCK_ELEMENTS].astype(np.float64, copy=False), at)
        total += np.bincount(at, weights=made, minlength=len(total))
    return total


def _have_values_between(X: sparse.csr_array | NDArray[Any], low: FloatArray, high: FloatArray) -> BoolArray:
    """Which columns hold, gaps aside, a value that is neither their least nor their greatest one."""
    found = np.zeros(X.shape[1], dtype=bool)
    sought = np.flatnonzero(high > low)
    if isinstance(X, np.ndarray):
        for block in _row_blocks(X):
            if not len(sought):
                break
            values = block[:, sought]
            has_some = ((values > low[sought]) & (values < high[sought])).any(axis=0)
            found[sought[has_some]] = True
            sought = sought[~has_some]
        return found
    for start in range(0, X.nnz, _BLOCK_ELEMENTS):
        values, at = X.data[start : start + _BLOCK_ELEMENTS], X.indices[start : start + _BLOCK_ELEMENTS]
        found[at[(values > low[at]) & (values < high[at])]] = True
    return found


def _row_blocks(X: NDArray[Any]) -> Iterator[NDArray[Any]]:
    step = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    return (X[start : start + step] for start in range(0, len(X), step))


class MatrixScales:
    """Multiplies each column, cuts it, and takes off what is left of a zero.

    Parameters
    ----------
    factor, limit_low, limit_high : float64 arrays
        What a column is multiplied by (0: it is no feature) and where it is cut then.
    low, high : float64 arrays, optional
        The range of the fitted rows; older models have none.
    """

    def __init__(
        self,
        factor: FloatArray,
        limit_low: FloatArray,
        limit_high: FloatArray,
        low: FloatArray | None = None,
        high: FloatArray | None = None,
    ) -> None:
        self.factor, self.limit_low, self.limit_high = factor, limit_low, limit_high
        self.low, self.high = low, high
        self.offset = np.minimum(np.maximum(0.0, limit_low), limit_high)
        self._far_low, self._far_high = np.full(len(factor), -np.inf), np.full(len(factor), np.inf)
        self._range = np.ones(len(factor))
        if low is not None and high is not None:
            with np.errstate(over="ignore"):
                self._range = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
                self._far_low = np.where(factor > 0, low - self._range, -np.inf)
                self._far_high = np.where(factor > 0, high + self._range, np.inf)
        self._zero_is_far = (self._far_low > 0) | (self._far_high < 0)

    @classmethod
    def of(cls, seen: SeenColumns, used: BoolArray) -> Self:
        """Scales of columns of which some are used."""
        with np.errstate(over="ignore"):
            factor = 1.0 / np.where(used, seen.largest, 1.0)
            scaled = seen.varied & (seen.deviation > _LEAST_DEVIATION)
            deviation = np.where(scaled, seen.deviation, 1.0)
            scaled &= np.isfinite(factor / deviation)
        # 1 / a subnormal number is infinite
        factor = np.where(used & np.isfinite(factor), factor, 0.0)
        centre = np.where(scaled, seen.mean / deviation, 0.0)
        factor = np.where(scaled, factor / deviation, factor)
        most = np.finfo(np.float64).max
        low, high = np.where(seen.rare, -most, seen.low), np.where(seen.rare, most, seen.high)
        return cls(factor, centre - CUT, centre + CUT, low, high)

    def limit_of(self, column: int, value: float) -> float:
        """Where a column is cut on the side of a value that is beyond, in the column's own units."""
        factor = float(self.factor[column])
        is_above = value * factor > self.limit_high[column]  # an overflow is infinite, and beyond as well
        return float((self.limit_high if is_above else self.limit_low)[column]) / factor

    @property
    def has_limits(self) -> bool:
        """Whether the state has more than factors."""
        return self.low is not None

    def scale_dense(self, X: FloatArray, first_index: int, counts: FeatureCounts) -> None:
        """Scale rows in place, and count values that are far outside."""
        start = 0
        for block in _row_blocks(X):
            far = (block < self._far_low) | (block > self._far_high)
            if far.any():
                rows, columns = np.nonzero(far)
                self._count_far(block[rows, columns], columns, first_index, counts)
                counts.far_rows += (start + np.flatnonzero(far.any(axis=1))).tolist()
            self._scale(block, slice(None))
            start += len(block)

    def scale_sparse(self, X: sparse.csr_array, first_index: int, counts: FeatureCounts) -> None:
        """Scale the entries of rows in place, and count values, gaps among them, that are far outside."""
        far_rows: set[int] = set()
        for start in range(0, X.nnz, _BLOCK_ELEMENTS):
            values, at = X.data[start : start + _BLOCK_ELEMENTS], X.indices[start : start + _BLOCK_ELEMENTS]
            places = np.flatnonzero((values < self._far_low[at]) | (values > self._far_high[at]))
            if len(places):
                self._count_far(values[places], at[places], first_index, counts)
                far_rows.update((np.searchsorted(X.indptr, start + places, side="right") - 1).tolist())
            self._scale(values, at)
        if self._zero_is_far.any():
            expected = int(np.count_nonzero(self._zero_is_far))
            held = self._zero_is_far[X.indices]
            absent = X.shape[0] - np.bincount(X.indices, minlength=X.shape[1])
            columns = np.flatnonzero(self._zero_is_far & (absent > 0))
            self._count_far(np.zeros(len(columns)), columns, first_index, counts, absent[columns])
            sums = np.concatenate([[0], np.cumsum(held)])
            far_rows.update(np.flatnonzero(np.diff(sums[X.indptr]) < expected).tolist())
        counts.far_rows = sorted(far_rows)

    def _scale(self, values: FloatArray, at: _Places) -> None:
        with np.errstate(over="ignore"):
            values *= self.factor[at]
        np.maximum(values, self.limit_low[at], out=values)
        np.minimum(values, self.limit_high[at], out=values)
        values -= self.offset[at]

    def _count_far(
        self,
        values: FloatArray,
        columns: _Indices,
        first_index: int,
        counts: FeatureCounts,
        rows: IndexArray | None = None,
    ) -> None:
        """Count values of columns that are far outside, each in as many rows as are said or in one."""
        with np.errstate(over="ignore"):
            beyond = np.maximum(self._far_low[columns] - values, values - self._far_high[columns])
            beyond = beyond / self._range[columns] + 1
        found = np.bincount(columns, weights=rows, minlength=len(self.factor))
        furthest = np.zeros(len(self.factor))
        np.maximum.at(furthest, columns, beyond)
        for column in np.flatnonzero(found).tolist():
            counts.count_far(str(first_index + column), int(found[column]), furthest[column])

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        if self.low is None or self.high is None:
            return {"factor": self.factor}
        parts = self.factor, self.limit_low, self.limit_high, self.low, self.high
        return dict(zip(MATRIX_ARRAYS, parts, strict=True))

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `state`, believing nothing.

        Raises
        ------
        StateError
            If a part is not possible.
        """
        factor = arrays["factor"]
        if len(factor) == 0 or (factor < 0).any():
            raise StateError("matrix features: there must be at least one scale factor, and none below 0")
        if "limit_low" not in arrays:
            limit = np.full(len(factor), LARGEST_SCORE)
            return cls(factor, -limit, limit)
        others = [arrays[name] for name in MATRIX_ARRAYS[1:]]
        if any(len(each) != len(factor) for each in others):
            raise StateError("matrix features: columns need one factor, two limits and one range each")
        limit_low, limit_high, low, high = others
        if (limit_low > limit_high).any() or (low > high).any():
            raise StateError("matrix features: a range ends before it begins")
        return cls(factor, limit_low, limit_high, low, high)
