# mypy: ignore-errors
# Numba gives this function its types; the checker does not see them.
"""The compiled loop of products with sparse rows, which several threads may run at once: SciPy's holds the GIL."""

from typing import Any

from numba import njit

__all__ = ["multiply_rows"]


@njit(cache=True, fastmath={"contract", "nsz"}, nogil=True)
def multiply_rows(indptr: Any, indices: Any, data: Any, V: Any, out: Any, start: int, stop: int) -> None:
    """``out[start:stop] = X[start:stop] V`` for X in CSR form."""
    for i in range(start, stop):
        total = out[i]
        total[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            value, row = data[k], V[indices[k]]
            for c in range(total.size):
                total[c] += value * row[c]
