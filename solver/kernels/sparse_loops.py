# mypy: ignore-errors
# Numba gives this function its types; the checker does not see them.
"""The compiled loop of products with sparse rows, which several threads may run at once: SciPy's holds the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, fastmath={"contract", "nsz"}, nogil=True)
def multiply_rows(indptr: Any, indices: Any, data: Any, V: Any, out: Any, start: int, stop: int) -> None:
    """`out[start:stop] = X[start:stop] V` for X in CSR form."""
    for i in range(start, stop):
        total = out[i]
        total[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            value, row = data[k], V[indices[k]]
            for c in range(total.size):
                total[c] += value * row[c]


def warm_up() -> None:
    """Compile or load the loop for the types of rows in single and double precision."""
    pointers, one = np.array([0, 1], dtype=np.int32), np.ones((1, 1))
    for dtype in (np.float32, np.float64):
        multiply_rows(pointers, pointers[:1], np.ones(1, dtype), one, np.empty((1, 1)), 0, 1)
