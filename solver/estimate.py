"""What a training will need, from what is known before it starts: rows, features, kernel.

Memory: the rows as float64 (or sparse entries) several times over, what the algorithm keeps for pairs of rows, and a
cache of kernel rows that takes what is left, or the factor of the low-rank engine. Time: very rough, as it depends on
how hard the classes are to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from solver.algorithms import ALGORITHMS, AUTO, AlgorithmSpec, validate_params
from solver.choices import Scheme
from solver.costs import SECONDS_A_PRODUCT, Size
from solver.engine_choice import DEFAULT_RANK, KERNEL_VALUE_BYTES, choose_engine, exact_seconds, landmarks_that_fit
from solver.method_limits import auto_is_svm

BASE_BYTES: Final = 480 << 20
"""What a process takes for a job of a few hundred rows, with a margin for what the rest leaves out (most for lapsvm:
210 MiB at 4,000 rows). Measured as peak over all algorithms, numbers and texts: 203 to 224 MiB; 333 to 353 where it has
compiled the solver or was forked from a process that has, as after an installation."""
COPIES: Final = 4
"""Peak memory of the rows as a multiple of their features' size: as read, as features, as part (measured: 3.8)."""
CACHE_BYTES: Final = 2 << 30
"""The most that the cache of kernel rows takes when `cache_size` does not say."""
FEWEST_KERNEL_ROWS: Final = 64
"""With a cache of fewer the solver makes no headway worth the name."""
VARIABLE_BYTES: Final = 200
"""What the low-rank engine and its caller keep for a row beside its part of the factor (measured: 170)."""

_MODELS_OF_A_PROBLEM: Final = 6
"""Of several classes: that of all rows, and those that leave a fold out."""
_SECONDS_A_PROBLEM: Final = 0.002
"""Of several classes: what a problem of two takes beside its quadratic programs."""

# The figures below are processor seconds, fitted to the measurements that benchmarks/estimate.py repeats.
_SECONDS_A_ROW_AT_FULL_RANK: Final = 6e-5
_SECONDS_A_LANDMARK_VALUE: Final = 1e-10
_SECONDS_AN_ASCENT_ROW: Final = 2e-5
_SECONDS_A_LINEAR_VALUE: Final = 5e-7
# a grid's cells share kernel rows; those of large C take longest
_SOLVES_OF_A_GRID: Final = {"none": 0.0, "C": 60.0, "C-gamma": 300.0}


@dataclass(frozen=True)
class Demand:
    """What a training is thought to need.

    Attributes
    ----------
    bytes : int
        Peak memory.
    least_bytes : int
        The same with the smallest cache of kernel rows: below that it cannot work.
    seconds : float
        Processor seconds, of one core; right to an order of magnitude at best.
    how : str
        One sentence with the numbers behind it.
    largest : str
        What is to blame for most of `least_bytes`: `features` or `params`.
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
    *,
    rows: int,
    labelled: int,
    features: int,
    matrix_bytes: int,
    algorithm: str,
    params: Mapping[str, Any],
    fits: int = 1,
    memory_bytes: int | None = None,
    max_seconds: float | None = None,
) -> Demand:
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
    fits : int, default 1
        How often all of it is trained: twice where the model learns from the test rows after they have measured it.
    memory_bytes, max_seconds : optional
        What the training may take: `solver="auto"` chooses by them.
    """
    spec = ALGORITHMS[algorithm]
    cost, size = spec.cost, Size(rows, labelled, features, matrix_bytes)
    n = rows if cost.on_all_rows else labelled
    beside = cost.beside(size, params)
    data, pairs = COPIES * matrix_bytes + beside.bytes, beside.pair_bytes
    room = math.inf if memory_bytes is None else max(0, memory_bytes - BASE_BYTES - data)
    width = size.width
    linear = params["kernel"] == "linear"
    asked = None if params["cache_size"] is None else int(params["cache_size"] * 2**20)
    cache_limit = int(min(CACHE_BYTES, room / 3)) if asked is None else asked
    choice = choose_engine(params.get("solver", "exact"), n, width, params["kernel"], cache_limit, max_seconds)
    kept: _Kept
    if choice.low_rank:
        data += VARIABLE_BYTES * n
        kept = _low_rank(n, room)
        solve = kept.solve_seconds(width)
    else:
        kept = _kernel_rows(n, linear, cache_limit, asked is not None)
        solve = _SECONDS_A_LINEAR_VALUE * n * width if linear else exact_seconds(n, width)
    solves = cost.solves + _SOLVES_OF_A_GRID[params.get("tune", "none")]
    fit = solves * solve + kept.seconds_once(width) + cost.passes * SECONDS_A_PRODUCT * rows * width + beside.seconds
    how = (
        f"{BASE_BYTES >> 20} MiB + {COPIES} × {rows:,} rows × {features:,} features ({matrix_bytes / 2**20:,.0f} MiB)"
        f"{beside.words} + {kept.words}; seconds from {kept.basis} × features, right to an order of "
        "magnitude at best"
    )
    return Demand(
        bytes=BASE_BYTES + data + pairs + kept.bytes,
        least_bytes=BASE_BYTES + data + pairs + kept.least_bytes,
        seconds=1.0 + fits * fit,
        how=how,
        largest="features" if data >= max(pairs, kept.least_bytes) else "params",
        advice=_advice(data, pairs, kept.least_bytes, spec, params, asked is not None),
    )


def estimate_classes(
    *,
    rows: int,
    labelled: int,
    classes: int,
    scheme: Scheme,
    features: int,
    matrix_bytes: int,
    algorithm: str,
    params: Mapping[str, Any],
    fits: int = 1,
    memory_bytes: int | None = None,
    max_seconds: float | None = None,
) -> Demand:
    """Estimate memory and time of a training of several classes: of its problems of two, one after the other.

    Parameters
    ----------
    classes : int
        At least 3; their labelled rows are taken to be as many.
    scheme : {"one_vs_one", "one_vs_rest"}
    rows, labelled, features, matrix_bytes, algorithm, params, fits, memory_bytes, max_seconds
        As of `estimate_training`, for all rows.
    """
    of_pairs = scheme == "one_vs_one"
    problems = classes * (classes - 1) // 2 if of_pairs else classes
    own = max(4, math.ceil(2 * labelled / classes)) if of_pairs else labelled
    unlabelled = rows - labelled
    seconds_each = None if max_seconds is None else max_seconds / problems
    is_svm = algorithm == "svm" or (algorithm == AUTO and auto_is_svm(own, unlabelled, seconds_each))
    taken = own if is_svm else own + unlabelled
    one = estimate_training(
        rows=taken,
        labelled=own,
        features=features,
        matrix_bytes=math.ceil(matrix_bytes * taken / max(1, rows)),
        algorithm="svm" if is_svm else algorithm,
        params=params if not is_svm or algorithm == "svm" else validate_params("svm", _params_of_svm(params)),
        memory_bytes=memory_bytes,
        max_seconds=seconds_each,
    )
    # coefficients of each problem for its rows, for the model and each left-out fold, and of the control
    in_problems = labelled * (classes - 1 if of_pairs else classes)
    kept = 2 * _MODELS_OF_A_PROBLEM * 8 * in_problems + COPIES * matrix_bytes
    seconds = 1.0 + fits * problems * (one.seconds - 1.0 + _SECONDS_A_PROBLEM)
    return Demand(
        bytes=one.bytes + kept,
        least_bytes=one.least_bytes + kept,
        seconds=seconds,
        how=f"{problems:,} problems of two classes ({scheme}), each {one.how}; and {kept / 2**20:,.0f} MiB for all",
        largest="scheme" if kept > one.least_bytes - BASE_BYTES and of_pairs else one.largest,
        advice=f"{'scheme = one_vs_rest, ' if of_pairs else ''}fewer classes, {one.advice}",
    )


def _params_of_svm(params: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the parameters of `auto` that the SVM has."""
    known = ALGORITHMS["svm"].defaults
    return {name: value for name, value in params.items() if name in known}


@dataclass(frozen=True)
class _Kept:
    """What an engine keeps of the kernel.

    Attributes
    ----------
    bytes, least_bytes : int
        What it takes where there is room, and what it cannot do without.
    words, basis : str
        Of the estimate's sentence.
    rows, rank : int
        Of the low-rank factor; a rank of 0 for the exact engine.
    """

    bytes: int
    least_bytes: int
    words: str
    basis: str
    rows: int = 0
    rank: int = 0

    def seconds_once(self, width: float) -> float:
        """For the factor, which all trainings share."""
        share = self.rank / DEFAULT_RANK
        return self.rows * (_SECONDS_A_ROW_AT_FULL_RANK * share**2 + _SECONDS_A_LANDMARK_VALUE * self.rank * width)

    def solve_seconds(self, width: float) -> float:  # noqa: ARG002  # the factor's columns take the features' place
        """Of one low-rank solve."""
        return _SECONDS_AN_ASCENT_ROW * self.rows * self.rank / DEFAULT_RANK


def _kernel_rows(n: int, linear: bool, limit: int, asked: bool) -> _Kept:
    """Kernel rows of the exact engine: as many as are wanted and allowed."""
    wanted = 0 if linear else KERNEL_VALUE_BYTES * n * n
    least = min(wanted, limit if asked else KERNEL_VALUE_BYTES * n * FEWEST_KERNEL_ROWS)
    cache = max(least, min(wanted, limit))
    basis = f"{n:,} rows" if linear else f"{n:,}² row pairs"
    return _Kept(cache, least, f"{cache / 2**20:,.0f} MiB of kernel values", basis)


def _low_rank(n: int, room: float) -> _Kept:
    """The factor, with as many landmarks as half of the memory lets it have, as `solver.lowrank.Factor` decides."""
    candidates = 8 * min(n, 10 * DEFAULT_RANK) * min(n, DEFAULT_RANK)
    rank, affordable = landmarks_that_fit(n, DEFAULT_RANK, room / 2)
    in_file = rank > affordable
    factor = KERNEL_VALUE_BYTES * n * rank
    words = f"{factor / 2**20:,.0f} MiB of a factor with {rank:,} landmarks" + (" in a file" if in_file else "")
    return _Kept(
        candidates + (0 if in_file else factor), candidates, words, f"{n:,} rows × {rank:,} landmarks", n, rank
    )


def _advice(
    data: int, pairs: int, cache: int, spec: AlgorithmSpec, params: Mapping[str, Any], cache_was_asked: bool
) -> str:
    """Name what helps against the largest part."""
    largest = max(data, pairs, cache)
    if largest == data:
        return "fewer rows, or fewer columns in features.include"
    if largest == pairs:
        return f"kernel = 'linear', fewer labelled rows, or another algorithm than {spec.name}"
    if cache_was_asked:
        return "a smaller cache_size"
    takes = {parameter.name: parameter.choices for parameter in spec.parameters}
    if "lowrank" in takes.get("solver", ()) and params.get("solver") == "exact":
        return "solver = 'lowrank', kernel = 'linear', or fewer rows"
    return "kernel = 'linear', or fewer rows"
