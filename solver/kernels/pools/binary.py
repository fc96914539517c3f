"""A pool of kernel rows over features that are 0 or 1."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from solver.kernels import tile_loops
from solver.kernels.parallel import for_ranges, scratch
from solver.kernels.pools.pool import LOG2_E, CachedPool, Growing, RowDestination, tile_width
from solver.typing import FloatArray, IndexArray, Matrix


class BinaryPool(CachedPool):
    """Rows of the RBF kernel for features that are 0 or 1, packed into words: distances are counts of bits, exactly."""

    def __init__(self, X: Matrix, gamma: float) -> None:
        super().__init__(X.shape[0])
        self._X = X
        self._scale = gamma * LOG2_E
        self._words = Growing(X.shape[0], -(-X.shape[1] // 64), np.uint64)
        self.seconds_an_element = 3e-10 * -(-X.shape[1] // 64)
        self._by_word: NDArray[np.uint64] = np.empty((0, 0), np.uint64)

    def _append(self, new: IndexArray) -> None:
        rows = self._words.extend(new.size)
        width = rows.shape[1] * 64
        step = max(1, (1 << 20) // width)
        for s in range(0, new.size, step):
            part = self._X[new[s : s + step]]
            bits = np.zeros((part.shape[0], width), np.uint8)
            bits[:, : part.shape[1]] = part.toarray() if sp.issparse(part) else part
            rows[s : s + step] = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
        self._by_word = np.ascontiguousarray(self._words.view.T)
        self._column_ones = np.bitwise_count(self._words.view).sum(axis=1).astype(np.float32)

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        q = len(columns)
        W = self._words.view[columns]
        Wt = np.ascontiguousarray(W.T)
        ones = self._column_ones[columns]
        for_ranges(
            lambda s, e: tile_loops.binary_block(W, Wt, ones, self._scale, out, s, e),
            q, 16, work=self.seconds_an_element * q * q,
        )  # fmt: skip

    def _rows(self, columns: IndexArray, coef: FloatArray, to: RowDestination) -> None:
        W, ones = self._words.view[columns], self._column_ones[columns]
        k, m = len(columns), self.samples.size
        width = tile_width(k)

        def fill(s: int, e: int) -> None:
            to.before(to.begin + s, to.begin + e)
            tile_loops.binary_rows(
                W, ones, self._by_word, self._column_ones, self._scale, coef, to.F, to.begin + s, to.begin + e,
                to.stored, to.starts, to.cache, width, scratch(k * width),
            )  # fmt: skip

        work = self.seconds_an_element * k * (m - to.begin) + to.work_before
        for_ranges(fill, m - to.begin, width, work=work)
