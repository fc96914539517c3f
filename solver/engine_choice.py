"""Exact or low-rank: which engine a problem goes to, by what the exact one would need.

Outside of both, because the service asks without training: it starts without Numba.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from solver.choices import EngineName
from solver.typing import Matrix

# landmarks where memory and time allow them
DEFAULT_RANK: Final = 1024

# kernel values, and those of a factor, are in single precision
KERNEL_VALUE_BYTES: Final = 4

# rather than with fewer landmarks than this, the factor goes into a file
_LEAST_IN_MEMORY: Final = 256

# noisy data make about this share of the rows support vectors, whose kernel rows the exact solver computes
_SUPPORT_SHARE: Final = 1 / 3

# kernel rows may take so many times the memory there is for them: the ones dropped are computed again
_OVERCOMMIT: Final = 8

# measured, one thread: seconds for a kernel value with all that is done with it, and more for each feature
_SECONDS_A_VALUE: Final = 4e-9
_SECONDS_A_FEATURE: Final = 2e-11

# of the time that is left a single training may take this share: folds and controls are trained too
_SHARE_OF_TIME: Final = 0.2

# below this the exact solver is the faster one
_SMALLEST: Final = 5000


@dataclass(frozen=True)
class Choice:
    """An engine and why it was chosen, in a sentence."""

    low_rank: bool
    reason: str


def values_a_row(X: Matrix) -> float:
    """Numbers that stand in a row on average; those of a sparse one that are not 0."""
    return float(X.nnz / max(1, X.shape[0]) if hasattr(X, "nnz") else X.shape[1])


def exact_seconds(n: int, width: float) -> float:
    """About how many processor seconds the exact solver takes for n variables with `width` values a row."""
    return _SUPPORT_SHARE * float(n) ** 2 * (_SECONDS_A_VALUE + _SECONDS_A_FEATURE * width)


def exact_limit(width: float, cache_bytes: int, seconds_left: float | None) -> int:
    """Largest number of rows, with `width` values in each, that the exact solver is trusted with."""
    by_memory = math.sqrt(_OVERCOMMIT * cache_bytes / (KERNEL_VALUE_BYTES * _SUPPORT_SHARE))
    by_time = math.inf
    if seconds_left is not None:
        by_time = math.sqrt(_SHARE_OF_TIME * max(0.0, seconds_left) / exact_seconds(1, width))
    return int(max(_SMALLEST, min(by_memory, by_time)))


def landmarks_that_fit(n: int, most: int, max_bytes: float) -> tuple[int, int]:
    """Return how many landmarks the factor of n rows has, and how many fit into memory: with more it is in a file."""
    affordable = most if math.isinf(max_bytes) else int(max_bytes) // (KERNEL_VALUE_BYTES * max(1, n))
    return max(1, min(most, n, max(affordable, _LEAST_IN_MEMORY))), affordable


def choose_engine(
    engine: EngineName, n: int, width: float, kind: str, cache_bytes: int, seconds_left: float | None
) -> Choice:
    """Choose the engine for a problem.

    Parameters
    ----------
    engine : {"auto", "exact", "lowrank"}
    n : int
        Variables.
    width : float
        Values a row, see `values_a_row`.
    kind : str
        Of the kernel. With the linear one the exact solver keeps no kernel rows.
    cache_bytes : int
        Memory for kernel rows.
    seconds_left : float, optional
        For all trainings together.
    """
    if engine != "auto":
        return Choice(engine == "lowrank", "solver was set to " + engine)
    if kind == "linear":
        return Choice(False, "the linear kernel needs no kernel rows")
    limit = exact_limit(width, cache_bytes, seconds_left)
    if n <= limit:
        return Choice(False, f"the exact solver can do {n} rows with this memory and time")
    rows_mb = 4 * n * n * _SUPPORT_SHARE / 1e6
    return Choice(
        True,
        f"{n} rows are more than the {limit} that the exact solver is trusted with: their kernel rows would take about "
        f"{rows_mb:,.0f} MB, and there are {cache_bytes / 1e6:,.0f} MB for them"
        + ("" if seconds_left is None else f" and {seconds_left:,.0f} s left"),
    )
