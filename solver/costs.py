"""What an algorithm costs, as a part of its declaration: how many solves and passes, and what it does beside an SVM.

Nothing here imports a third-party module. Seconds are of a processor, fitted to the measurements that
benchmarks/estimate.py repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from solver.method_limits import (
    CLUSTERED_ROWS,
    FEWEST_UNLABELLED,
    JUDGED_LABELLED,
    JUDGED_UNLABELLED,
    MOST_GAUSSIAN_FEATURES,
    PROJECTED_ROWS,
    numbers_of_clusters,
)

SECONDS_A_PRODUCT: Final = 1e-9
_SECONDS_A_BLAS_PRODUCT: Final = 1e-10
_CG_STEPS: Final = 50
_CLUSTERING_STEPS: Final = 50
_EM_ROUNDS: Final = 20
_SECONDS_OF_JUDGING: Final = 0.5
_SECONDS_A_JUDGED_PAIR: Final = 7e-7
_BYTES_A_JUDGED_PAIR: Final = 24


@dataclass(frozen=True)
class Size:
    """How large the data of a training are.

    Attributes
    ----------
    rows, labelled, features : int
        All rows, those with a label, columns of the feature matrix.
    matrix_bytes : int
        Of the feature matrix: 8 a value of a dense one, 12 an entry of a sparse one.
    """

    rows: int
    labelled: int
    features: int
    matrix_bytes: int

    @property
    def width(self) -> float:
        """Values of a row that are not known to be 0."""
        return max(1.0, min(float(self.features), self.matrix_bytes / (8 * self.rows)))


@dataclass(frozen=True)
class Beside:
    """What a method does before or without an SVM.

    Attributes
    ----------
    seconds : float
    bytes : int
        Copies of the rows and the like.
    pair_bytes : int
        Values of pairs of rows.
    words : str
        Of both, for the estimate's sentence.
    """

    seconds: float = 0.0
    bytes: int = 0
    pair_bytes: int = 0
    words: str = ""


def nothing(size: Size, params: Mapping[str, Any]) -> Beside:
    """Of a method that is all SVM."""
    del size, params
    return Beside()


@dataclass(frozen=True)
class Cost:
    """What a whole training costs: folds, rounds, controls, label switching.

    Attributes
    ----------
    solves : float
        As a multiple of one solve.
    on_all_rows : bool
        Whether its SVMs are on all rows, or on the labelled ones alone.
    passes : float
        Over the features of all rows.
    beside : callable
        What else it does, from the size of the data and all its parameters.
    """

    solves: float
    on_all_rows: bool = True
    passes: float = 0.0
    beside: Callable[[Size, Mapping[str, Any]], Beside] = nothing


def judged(size: Size, params: Mapping[str, Any]) -> Beside:
    """The methods that `auto` tries beside the SVM, on some of the unlabelled rows."""
    unlabelled = size.rows - size.labelled
    if size.labelled > JUDGED_LABELLED or unlabelled < FEWEST_UNLABELLED:
        return Beside()
    rows = size.labelled + min(unlabelled, JUDGED_UNLABELLED)
    pairs = 0 if params["kernel"] == "linear" else _BYTES_A_JUDGED_PAIR * rows * rows
    seconds = _SECONDS_OF_JUDGING + _SECONDS_A_JUDGED_PAIR * rows * rows * (1 + size.width / 200)
    return Beside(seconds, pair_bytes=pairs, words=f" + values for pairs of {rows:,} rows, to judge other methods by")


def clusterings(size: Size, params: Mapping[str, Any]) -> Beside:
    """Clusterings of a scaled copy of the rows."""
    some = min(size.rows, CLUSTERED_ROWS)
    numbers = numbers_of_clusters(size.labelled, size.rows, size.features)
    # a copy, the part that is clustered twice, three times the centres
    copies = size.matrix_bytes + 2 * size.matrix_bytes * some // size.rows + 24 * numbers[-1] * size.features
    if params["space"] == "kernel-pca":
        copies += 6 * 8 * min(size.rows, PROJECTED_ROWS) ** 2 + 160 * size.rows
    values = max(1.0, size.matrix_bytes / (8 * size.rows))
    seconds = SECONDS_A_PRODUCT * _CLUSTERING_STEPS * 2 * sum(numbers) * some * values
    return Beside(seconds, copies, words=f" + {copies / 2**20:,.0f} MiB of copies for k-means")


def gaussians(size: Size, params: Mapping[str, Any]) -> Beside:
    """Covariances of a scaled copy of the rows, and expectation maximisation."""
    d = min(size.features, MOST_GAUSSIAN_FEATURES)
    copies = 3 * max(size.matrix_bytes, 8 * size.rows * d) + 64 * d * d
    squares = float(size.rows) * d * (d if params["covariance"] == "tied" else 4 * _EM_ROUNDS * d)
    seconds = _SECONDS_A_BLAS_PRODUCT * 6 * (squares + _EM_ROUNDS * float(d) ** 3)
    return Beside(seconds, copies, words=f" + {copies / 2**20:,.0f} MiB of copies and covariances")


def deformation(size: Size, params: Mapping[str, Any]) -> Beside:
    """Neighbours of all rows, and conjugate gradients for a right side of each labelled row."""
    rows, labelled = size.rows, size.labelled
    neighbours = SECONDS_A_PRODUCT * rows * rows * size.width
    if params["kernel"] == "linear":
        return Beside(neighbours + SECONDS_A_PRODUCT * _CG_STEPS * labelled * (2 * rows * size.width))
    pairs = 8 * (rows + labelled) * labelled
    words = f" + a value for each pair of {labelled:,} labelled and {rows:,} rows"
    seconds = neighbours + SECONDS_A_PRODUCT * _CG_STEPS * labelled * (0.02 * float(rows) ** 2)
    return Beside(seconds, pair_bytes=pairs, words=words)
