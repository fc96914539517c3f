"""Pools of the linear kernel, which needs no kernel rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from solver.kernels import tile_loops
from solver.kernels.parallel import for_ranges
from solver.kernels.pools.pool import Pool
from solver.kernels.pools.sparse import SparsePool
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix


class LinearPool(Pool):
    """The linear kernel without kernel rows: a change of alpha changes w, and F changes by X · (change of w)."""

    largest_set = 512
    seconds_an_element = 0.0

    def __init__(self, X: Matrix) -> None:
        super().__init__(X.shape[0])
        self._X = X
        self._columns: Matrix = X

    def _append(self, new: IndexArray) -> None:
        in_order = self.samples.size == self.n_samples and np.array_equal(self.samples, np.arange(self.n_samples))
        self._columns = self._X if in_order else self._X[self.samples]

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float64."""
        rows = np.asarray(self._columns[columns], dtype=np.float64)
        return np.asarray(rows @ rows.T)

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """`F[begin:] += X (Xᵀ coefficients)`."""
        part = self._columns[begin:] if begin else self._columns
        F[begin:] += part @ np.asarray(self._columns[columns].T @ coefficients)


class SparseLinearPool(LinearPool):
    """As `LinearPool` for CSR features, by the same loops in float32 that make the blocks."""

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self._blocks = SparsePool(X, np.empty(0), "linear", 1.0, 1, 0.0)
        self._change = np.zeros(X.shape[1])  # of w; kept, as fresh memory is dear

    def _append(self, new: IndexArray) -> None:
        self._blocks.samples = self.samples

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float32."""
        return self._blocks.compute_block(columns)

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """`F[begin:] += X (Xᵀ coefficients)`."""
        features, w, m = self._blocks.features, self._change, self.samples.size
        w[:] = 0.0
        tile_loops.add_sparse_rows(*features, self.samples[columns], coefficients, w)
        for_ranges(
            lambda s, e: tile_loops.add_sparse_scores(*features, self.samples, w, F, begin + s, begin + e),
            m - begin, 1024, work=1.5e-9 * features[0][-1] * (m - begin) / max(1, self.n_samples),
        )  # fmt: skip
