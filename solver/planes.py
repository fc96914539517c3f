"""Scores that are linear in the features, and what it takes to move columns to [0, 1] without touching the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.kernels.parallel import single_threaded_blas
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_BLOCK_ELEMENTS: Final = 1 << 20
# a column whose values differ by less than the rounding of their size is constant
_LEAST_SPAN: Final = 1e-12


@dataclass(frozen=True)
class Plane:
    """f(x) = x · weights + intercept.

    Attributes
    ----------
    weights : float64 array of shape (d,)
    intercept : float
    """

    weights: FloatArray
    intercept: float

    def scores(self, X: Matrix, rows: IndexArray | None = None) -> FloatArray:
        """Scores of all rows or of some."""
        return products(X, self.weights, rows) + self.intercept


@dataclass(frozen=True)
class FeatureStatistics:
    """What the values of each column over some rows are like.

    Attributes
    ----------
    low, span : float64 arrays of shape (d,)
        Least value and range; the scaled value is (x - low) / span.
    varies : bool array of shape (d,)
        Whether the column is more than one value.
    sums : float64 array of shape (d,)
    nonzero : int array of shape (d,)
        How many values are not 0.
    whole : bool array of shape (d,)
        Whether all values are whole numbers.
    """

    low: FloatArray
    span: FloatArray
    varies: BoolArray
    sums: FloatArray
    nonzero: IndexArray
    whole: BoolArray


def feature_statistics(X: Matrix, rows: IndexArray) -> FeatureStatistics:
    """What the columns are like over these rows."""
    d = int(X.shape[1])
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    sums, nonzero, whole = np.zeros(d), np.zeros(d, dtype=np.intp), np.ones(d, dtype=bool)
    if sparse.issparse(X):
        part = sparse.csr_array(X[rows])
        part.sum_duplicates()
        part.eliminate_zeros()
        np.minimum.at(low, part.indices, part.data)
        np.maximum.at(high, part.indices, part.data)
        nonzero += np.bincount(part.indices, minlength=d)
        sums += np.bincount(part.indices, weights=part.data, minlength=d)
        whole[part.indices[part.data != np.floor(part.data)]] = False
        has_zeros = nonzero < len(rows)
        low[has_zeros] = np.minimum(low[has_zeros], 0.0)
        high[has_zeros] = np.maximum(high[has_zeros], 0.0)
    else:
        step = max(1, _BLOCK_ELEMENTS // max(1, d))
        for start in range(0, len(rows), step):
            block = X[rows[start : start + step]]
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            sums += block.sum(axis=0, dtype=np.float64)
            nonzero += np.count_nonzero(block, axis=0)
            whole &= (block == np.floor(block)).all(axis=0)
    span = high - low
    varies = span > _LEAST_SPAN * np.maximum(np.abs(low), np.abs(high)) + np.finfo(np.float64).tiny
    return FeatureStatistics(low, np.where(varies, span, 1.0), varies, sums, nonzero, whole)


def products(X: Matrix, weights: FloatArray, rows: IndexArray | None = None) -> FloatArray:
    """X · weights in float64, of all rows or of some."""
    if sparse.issparse(X):
        return np.asarray((X if rows is None else X[rows]) @ weights, dtype=np.float64)
    result = np.empty(X.shape[0] if rows is None else len(rows))
    step = max(1, _BLOCK_ELEMENTS // max(1, int(X.shape[1])))
    with single_threaded_blas():  # on several threads it sums in another order, here and below
        for start in range(0, len(result), step):
            part = slice(start, start + step)
            result[part] = X[part if rows is None else rows[part]] @ weights
    return result


def weighted_sums(X: Matrix, weights: FloatArray) -> FloatArray:
    """Sum of the rows, each times its weight."""
    if sparse.issparse(X):
        return np.asarray(X.T @ weights, dtype=np.float64)
    result = np.zeros(int(X.shape[1]))
    step = max(1, _BLOCK_ELEMENTS // max(1, int(X.shape[1])))
    with single_threaded_blas():
        for start in range(0, len(weights), step):
            part = weights[start : start + step]
            if part.any():
                result += part @ X[start : start + step]
    return result


def row_lengths(X: Matrix) -> FloatArray:
    """Euclidean lengths; 1 for a row of zeros."""
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    lengths: FloatArray = np.sqrt(np.where(squares > 0, squares, 1.0))
    return lengths


def indicator(n: int, rows: NDArray[Any]) -> FloatArray:
    """1 at these rows of n, 0 elsewhere."""
    marks = np.zeros(n)
    marks[rows] = 1.0
    return marks
