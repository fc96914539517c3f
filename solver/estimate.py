"""What a training will need, from what is known before it starts: rows, features, kernel.

Memory: the rows as float64 (or sparse entries) several times over, what the algorithm keeps for pairs of rows, and a
cache of kernel rows that takes what is left. Time: very rough, as it depends on how hard the classes are to tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from solver.algorithms import ALGORITHMS

__all__ = ["Estimate", "estimate_training"]

BASE_BYTES: Final = 600 << 20
"""A warm process without any rows (measured: 567 MiB, 256 of them for kernel rows)."""
COPIES: Final = 4
"""Peak memory of the rows as a multiple of their features' size: as read, as features, as part (measured: 3.8)."""
CACHE_BYTES: Final = 2 << 30
"""The most that the cache of kernel rows takes when `cache_size` does not say."""
KERNEL_VALUE_BYTES: Final = 4
FEWEST_KERNEL_ROWS: Final = 64
"""With a cache of fewer the solver makes no headway worth the name."""
SECONDS_A_UNIT: Final = 1e-9
"""Of a labelled row pair and feature, with two cores (measured: 0.35e-9 with 10,000 rows, 1e-9 with 32,000)."""
_RELATIVE_SECONDS: Final[dict[str, float]] = {"svm": 1.0, "psvm": 3.0, "tsvm": 30.0, "lapsvm": 30.0}
_OTHER_SECONDS: Final = 10.0
_GRID_CELLS: Final = {"none": 0, "C": 6, "C-gamma": 30}


@dataclass(frozen=True)
class Estimate:
    """What a training is thought to need.

    Attributes
    ----------
    bytes : int
        Peak memory.
    least_bytes : int
        The same with the smallest cache of kernel rows: below that it cannot work.
    seconds : float
        Right to an order of magnitude at best.
    how : str
        One sentence with the numbers behind it.
    largest : str
        What is to blame for most of `least_bytes`: ``features`` or ``params``.
    advice : str
        What would make it need less memory.
    """

    bytes: int
    least_bytes: int
    seconds: float
    how: str
    largest: str
    advice: str


def estimate_training(
    *, rows: int, labelled: int, features: int, matrix_bytes: int, algorithm: str, params: Mapping[str, Any]
) -> Estimate:
    """Estimate memory and time of a training.

    Parameters
    ----------
    rows, labelled : int
        All rows, and those with a label.
    features : int
        Columns of the feature matrix.
    matrix_bytes : int
        Size of the feature matrix: 8 a value of a dense one, 12 an entry of a sparse one.
    algorithm : str
        A key of `ALGORITHMS`.
    params : mapping
        All its parameters, as `validate_params` returns them.
    """
    n = rows if ALGORITHMS[algorithm].uses_unlabelled else labelled
    data = COPIES * matrix_bytes
    pairs, pair_words = 0, ""
    if algorithm == "lapsvm" and params["kernel"] != "linear":
        pairs = 8 * (rows + labelled) * labelled
        pair_words = f" + a value for each pair of {labelled:,} labelled and {rows:,} rows"
    asked = params["cache_size"]
    wanted = KERNEL_VALUE_BYTES * n * n
    cache = min(wanted, CACHE_BYTES if asked is None else int(asked * 2**20))
    if params["kernel"] == "linear":
        cache = 0
    least = min(cache, KERNEL_VALUE_BYTES * n * FEWEST_KERNEL_ROWS) if asked is None else cache
    cells = 1 + _GRID_CELLS.get(params.get("tune", "none"), 0)
    rows_a_row = n if params["kernel"] != "linear" else min(n, 1000)
    values_a_row = max(1, min(features, matrix_bytes // (8 * rows) + 1))
    effort = n * rows_a_row * values_a_row * cells
    seconds = 1.0 + SECONDS_A_UNIT * effort * _RELATIVE_SECONDS.get(algorithm, _OTHER_SECONDS)
    how = (
        f"{BASE_BYTES >> 20} MiB + {COPIES} × {rows:,} rows × {features:,} features ({matrix_bytes / 2**20:,.0f} MiB)"
        f"{pair_words} + {cache / 2**20:,.0f} MiB of kernel values; seconds from {n:,}² row pairs × features, right to "
        "an order of magnitude at best"
    )
    return Estimate(
        bytes=BASE_BYTES + data + pairs + cache,
        least_bytes=BASE_BYTES + data + pairs + least,
        seconds=seconds,
        how=how,
        largest="features" if data >= max(pairs, least) else "params",
        advice=_advice(data, pairs, least, algorithm, asked is not None),
    )


def _advice(data: int, pairs: int, cache: int, algorithm: str, cache_was_asked: bool) -> str:
    """Name what helps against the largest part."""
    largest = max(data, pairs, cache)
    if largest == data:
        return "fewer rows, or fewer columns in features.include"
    if largest == pairs:
        return "kernel = 'linear', fewer labelled rows, or another algorithm than lapsvm"
    if cache_was_asked:
        return "a smaller cache_size"
    takes = {parameter.name: parameter.choices for parameter in ALGORITHMS[algorithm].parameters}
    if "lowrank" in takes.get("solver", ()):
        return "solver = 'lowrank', kernel = 'linear', or fewer rows"
    return "kernel = 'linear', or fewer rows"
