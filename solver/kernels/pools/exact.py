"""Pools of kernel rows that are given, or computed in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solver.kernels import tile_loops
from solver.kernels.parallel import for_ranges, single_threaded_blas
from solver.kernels.pools.pool import CachedPool, Pool, RowDestination, gather
from solver.typing import BoolArray, FloatArray, IndexArray


class ExactPool(CachedPool):
    """Rows computed in float64 and rounded once: for any kernel, and where float32 products would cancel.

    Parameters
    ----------
    n_samples : int
    matrix : callable
        `matrix(rows, columns)`: float64 kernel values between samples.
    """

    def __init__(self, n_samples: int, matrix: Callable[[IndexArray, IndexArray], FloatArray]) -> None:
        super().__init__(n_samples)
        self._matrix = matrix
        self.costly = True
        self.seconds_an_element = 2e-8

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        samples = self.samples[columns]
        for s in range(0, samples.size, 512):
            out[s : s + 512] = self._matrix(samples[s : s + 512], samples)

    def _rows(self, columns: IndexArray, coef: FloatArray, to: RowDestination) -> None:
        samples = self.samples[columns]
        to.before(to.begin, self.samples.size)
        for s in range(to.begin, self.samples.size, 1024):
            part = self._matrix(samples, self.samples[s : s + 1024])
            to.F[s : s + 1024] += coef.astype(np.float64) @ part
            for r in range(to.stored):
                start = int(to.starts[r]) + s
                to.cache[start : start + part.shape[1]] = part[r]


class MatrixPool(Pool):
    """Rows of a kernel matrix that is given. It is only read, so that pools in several threads may share it.

    Parameters
    ----------
    n_samples : int
    samples : (m,) int64
        The samples that the matrix is about; all of them are columns from the start.
    K : (m, m) float32 or float64, C-contiguous
    compute_block : callable, optional
        Computes the kernel values among some columns for less than it costs to collect them from the matrix.
    """

    def __init__(
        self,
        n_samples: int,
        samples: IndexArray,
        K: FloatArray,
        compute_block: Callable[[IndexArray], FloatArray] | None = None,
    ) -> None:
        super().__init__(n_samples)
        self._compute_block = compute_block
        self.samples = samples
        self._column_of[samples] = np.arange(samples.size)
        self._type = K.dtype
        self._flat: FloatArray = np.asarray(K).reshape(-1)

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q)."""
        if self._compute_block is not None:
            return self._compute_block(columns)
        q = len(columns)
        out = np.empty((q, q), self._type)
        gather(self._flat, (columns * self.samples.size).astype(np.uint64), columns, np.arange(q), out)
        return out

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """`F[begin:] += Σ_j coefficients_j K(columns_j, begin:)`."""
        self.rows_computed += len(columns)
        m = self.samples.size
        starts, coef = (columns * m).astype(np.uint64), coefficients.astype(self._type)
        for_ranges(
            lambda s, e: tile_loops.accumulate_cached(starts, coef, self._flat, F, begin + s, begin + e),
            m - begin, 4096, work=4e-10 * (m - begin) * len(columns),
        )  # fmt: skip


class AugmentedPool(Pool):
    """A pool with more columns at its end, whose rows are given.

    Parameters
    ----------
    base : Pool
    rows : (m, n + m) float64
        Kernel values of the m further samples with all of the n that the base knows and with each other.
    """

    def __init__(self, base: Pool, rows: FloatArray) -> None:
        n = base.n_samples
        super().__init__(n + len(rows))
        self.largest_set, self.seconds_an_element = base.largest_set, base.seconds_an_element
        self._base, self._size = base, base.samples.size
        self.samples = np.concatenate([base.samples, np.arange(n, n + len(rows))])
        self._column_of[self.samples] = np.arange(self.samples.size)
        self._rows: FloatArray = rows[:, self.samples]

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float64."""
        own = columns < self._size
        out = np.empty((len(columns), len(columns)))
        out[np.ix_(own, own)] = self._base.block(columns[own])
        new = self._rows[columns[~own] - self._size][:, columns]
        out[~own] = new
        out[:, ~own] = new.T
        return out

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """`F[begin:] += Σ_j coefficients_j K(columns_j, begin:)`; `keep` marks rows worth caching."""
        own = columns < self._size
        old, new = columns[own], columns[~own] - self._size
        if old.size:
            if begin < self._size:
                before = self._base.rows_computed
                self._base.update(old, coefficients[own], F[: self._size], keep[own], begin)
                self.rows_computed += self._base.rows_computed - before
            late = max(begin, self._size)
            with single_threaded_blas():  # on several it sums in another order, here and below
                F[late:] += self._rows[late - self._size :, old] @ coefficients[own]
        if new.size:
            with single_threaded_blas():
                F[begin:] += coefficients[~own] @ self._rows[new, begin:]
