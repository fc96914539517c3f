"""Hashes of rows as they were read: equal rows have the same, and few others.

They hold within one process, as Python's hashes of texts do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features import Column, MatrixData, Table
from solver.features.columns import chosen_names
from solver.typing import BoolArray

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def hashes_of_rows(
    data: Table | MatrixData, include: Collection[str] | None = None, exclude: Collection[str] = ()
) -> NDArray[np.uint64]:
    """A number for each row.

    Parameters
    ----------
    data : Table or MatrixData
    include, exclude : collections of str
        The columns that count, as `chosen_names` takes them; those of a matrix are named by their numbers.

    Returns
    -------
    uint64 array of shape (rows,)
    """
    if isinstance(data, Table):
        columns = [data.columns[name] for name in chosen_names(data.columns, include, exclude)]
        return hashes_of_columns(columns) if columns else np.zeros(data.n_rows, dtype=np.uint64)
    names = [str(data.first_index + j) for j in range(int(data.X.shape[1]))]
    used = np.isin(names, chosen_names(names, include, exclude))
    return hashes_of_entries(sparse.csr_array(data.X), used)


def hashes_of_columns(columns: Sequence[Column]) -> NDArray[np.uint64]:
    """A number for each row of columns, of which there is at least one; missing numbers are the same."""
    total = np.zeros(len(columns[0].values), dtype=np.uint64)
    for column in columns:
        total = _mixed(total ^ _hash_of_column(column))
    return total


def hashes_of_entries(X: sparse.csr_array, used: BoolArray) -> NDArray[np.uint64]:
    """A number for each sparse row, of its entries in the columns that are used; zeros do not count."""
    values = X.data.astype(np.float64)
    counted = used[X.indices] & (values != 0) & np.isfinite(values)
    mixed = _mixed(values.view(np.uint64) ^ _mixed(X.indices.astype(np.uint64) + np.uint64(1)))
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(np.where(counted, mixed, np.uint64(0)))])
    sums_of_rows: NDArray[np.uint64] = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    return sums_of_rows


def bytes_of_vectors(vectors: NDArray[np.float32]) -> list[bytes]:
    """Each vector as the bytes of its float32 numbers, with one zero: equal vectors are equal bytes."""
    plain = vectors + np.float32(0.0)
    return [row.tobytes() for row in plain]


def _hash_of_column(column: Column) -> NDArray[np.uint64]:
    if column.kind == "number":
        values = np.where(np.isfinite(column.values), column.values + 0.0, np.nan)
        return np.where(np.isnan(values), np.uint64(1), values.view(np.uint64))
    plain = bytes_of_vectors(column.values) if column.kind == "vector" else column.values.tolist()
    hashes = np.fromiter(map(hash, plain), np.int64, len(plain))
    return hashes.view(np.uint64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = (values ^ (values >> np.uint64(32))) * _ODD
    return mixed ^ (mixed >> np.uint64(29))
