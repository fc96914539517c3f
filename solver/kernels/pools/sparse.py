"""A pool of kernel rows over sparse features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.kernels import tile_loops
from solver.kernels.parallel import for_ranges, scratch
from solver.kernels.pools.pool import FORMS, LOG2_E, CachedPool, RowDestination, tile_width
from solver.typing import FloatArray, IndexArray


class SparsePool(CachedPool):
    """Rows of CSR features: a batch of rows is laid out densely by feature, every column stays sparse."""

    def __init__(self, X: Any, squares: FloatArray, kind: str, gamma: float, degree: int, coef0: float) -> None:
        super().__init__(X.shape[0])
        self._X, self._squares = X, squares
        self._data = X.data.astype(np.float32, copy=False)
        index_type = np.int32 if X.nnz < 2**31 else np.int64  # one compiled loop for the common case
        self._indices = X.indices.astype(index_type, copy=False)
        self._indptr = X.indptr.astype(index_type, copy=False)
        self._rbf = kind == "rbf"
        self._form = FORMS[kind]
        self._degree = degree
        self._scale = gamma * LOG2_E if self._rbf else gamma
        self._coef0 = coef0
        per_row = X.nnz / max(1, X.shape[0])
        self.costly = per_row > 64
        self.seconds_an_element = 2e-10 * per_row + 5e-10
        self._batch = 64

    def _left(self, columns: IndexArray) -> tuple[FloatArray, NDArray[np.int32], FloatArray]:
        """Lay rows out by feature: flat (features that occur, k), their lookup, what is added to a row's products."""
        samples = self.samples[columns]
        part = self._X[samples].tocoo()
        lookup = np.zeros(self._X.shape[1], np.int32)
        lookup[part.col] = 1
        present = np.flatnonzero(lookup)
        lookup[present] = np.arange(1, present.size + 1)
        Wt = np.zeros((present.size + 1, len(columns)), np.float32)
        Wt[lookup[part.col], part.row] = (2.0 if self._rbf else 1.0) * self._scale * part.data
        terms = -self._scale * self._squares[samples] if self._rbf else np.full(len(columns), self._coef0)
        return Wt.reshape(-1), lookup, terms.astype(np.float32)

    @property
    def features(self) -> tuple[NDArray[Any], NDArray[Any], FloatArray]:
        """Row ends, indices and float32 values of all samples."""
        return self._indptr, self._indices, self._data

    def _column_terms(self) -> FloatArray:
        if self._rbf:
            return (-self._scale * self._squares[self.samples]).astype(np.float32)
        return np.zeros(self.samples.size, np.float32)

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        rows = self.samples[columns]
        q = rows.size
        entries = int((self._indptr[rows + 1] - self._indptr[rows]).sum())
        begins = np.zeros(self._X.shape[1] + 1, np.int64)
        lists = begins, np.empty(entries, np.int32), np.empty(entries, np.float32)
        tile_loops.list_by_feature(self._indptr, self._indices, self._data, rows, *lists)
        terms = self._column_terms()[columns]
        own = terms if self._rbf else np.full(q, self._coef0, np.float32)
        factor = np.float32((2.0 if self._rbf else 1.0) * self._scale)
        # each entry meets its list, on average half of it
        work = 5e-10 * float((np.diff(begins).astype(np.float64) ** 2).sum())
        for_ranges(
            lambda s, e: tile_loops.sparse_block(
                self._indptr, self._indices, self._data, rows, *lists, factor, own, terms, out, s, e, self._form,
                self._degree,
            ),
            q, 32, work=work,
        )  # fmt: skip
        if self._rbf:
            np.fill_diagonal(out, 1.0)

    def _rows(self, columns: IndexArray, coef: FloatArray, to: RowDestination) -> None:
        m = self.samples.size
        column_terms = self._column_terms()
        for r in range(0, len(columns), self._batch):
            Wt, lookup, row_terms = self._left(columns[r : r + self._batch])
            k = row_terms.size
            width = tile_width(k)
            kept = max(0, min(k, to.stored - r))

            def fill(
                s: int, e: int, r: int = r, k: int = k, Wt: Any = Wt, lookup: Any = lookup, own: Any = row_terms,
                kept: int = kept, width: int = width,
            ) -> None:  # fmt: skip
                if r == 0:
                    to.before(to.begin + s, to.begin + e)
                tile_loops.sparse_rows(
                    Wt, lookup, k, self._indptr, self._indices, self._data, self.samples, own, column_terms,
                    coef[r : r + k], to.F, to.begin + s, to.begin + e, self._form, self._degree, kept,
                    to.starts[r : r + k], to.cache, width, scratch(k * width),
                )  # fmt: skip

            work = self.seconds_an_element * k * (m - to.begin) + (0.0 if r else to.work_before)
            for_ranges(fill, m - to.begin, width, work=work)
