"""What the solvers compile, in pieces that several processes may take on beside each other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np
import scipy.sparse as sp

from solver import lowrank
from solver.kernels import sparse_loops
from solver.kernels.kernel import FeatureKernel, Kernel, PrecomputedKernel
from solver.kernels.row_cache import arena
from solver.multiclass import OwnRows, calibrate_own, sigmoid_loops
from solver.smo import Program, Start, solve, solve_on_matrix
from solver.typing import FloatArray

_ROWS: Final = 600

_IMPORTED_EARLY: Final = (sigmoid_loops,)
"""Modules of compiled code that others import only where they call it, here before any job: Numba looks for a place to
keep code when a module is imported, and raises where there is none, as in a job, which may not write there."""


def _data() -> tuple[np.random.Generator, FloatArray, FloatArray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(_ROWS, 4))
    return random, X, np.where(X[:, 0] + random.normal(size=_ROWS) > 0, 1.0, -1.0)


def _solve_on(kernel: Kernel) -> None:
    _, _, y = _data()
    idx = np.arange(_ROWS)
    first = solve(Program(kernel, idx, y, -1.0, 0.0, 1.0, tol=1e-2))
    solve(Program(kernel, idx, y, -1.0, 0.0, 2.0, tol=1e-2, start=Start(first.alpha, first.gradient)))


def _dense() -> None:
    _solve_on(FeatureKernel(_data()[1], gamma=0.5))


def _rows() -> None:
    """Compute rows of dense features, without a solve."""
    pool = FeatureKernel(_data()[1], gamma=0.5).pool(np.arange(_ROWS), 1 << 20)
    pool.update(np.arange(8), np.ones(8), np.zeros(_ROWS), np.ones(8, bool))


def _wide() -> None:
    _solve_on(FeatureKernel(_data()[0].normal(size=(_ROWS, 300)), gamma=0.01))


def _polynomial() -> None:
    _solve_on(FeatureKernel(_data()[1], "poly", gamma=0.5, degree=2))


def _sparse() -> None:
    _solve_on(FeatureKernel(sp.csr_array(_data()[1]), gamma=0.5))


def _binary() -> None:
    _solve_on(FeatureKernel((_data()[1] > 0).astype(np.float64), gamma=0.5))


def _mostly_zero() -> None:
    random = _data()[0]
    _solve_on(FeatureKernel(random.normal(size=(_ROWS, 64)) * (random.random((_ROWS, 64)) < 0.2), gamma=0.1))


def _linear() -> None:
    _solve_on(FeatureKernel(_data()[1], "linear"))


def _precomputed() -> None:
    idx = np.arange(_ROWS)
    _solve_on(PrecomputedKernel(FeatureKernel(_data()[1], gamma=0.5).matrix(idx, idx)))


def _small() -> None:
    """Solve by the engine for small problems."""
    _, X, y = _data()
    solve(Program(FeatureKernel(X, gamma=0.5), np.arange(50), y[:50], -1.0, 0.0, 1.0))


def _single_precision() -> None:
    FeatureKernel(_data()[1].astype(np.float32), gamma=0.5).pool(np.arange(_ROWS), 0)


def _several_classes() -> None:
    _, X, y = _data()
    own = OwnRows(np.array([0, 50]), np.arange(50), y[:50] > 0)
    K = FeatureKernel(X[:50], gamma=0.5).whole_matrix()
    solved = solve_on_matrix(K, own.starts, own.rows, y[:50], np.ones(50), np.arange(50) % 2, tol=1e-2)
    calibrate_own(solved.left_out, own, "one_vs_one", 3)


FIRST: Final[tuple[Callable[[], None], ...]] = (_rows, _linear, _small, _dense, _precomputed, _single_precision)
"""What trainings on dense features need. The first two, beside each other, compile most of what `_dense` needs.

Measured in processor time: 12 s for these, 6 in each of two processes (9 in one of them when `_dense` came first), 9 s
for the later ones. Features that may be written to and others had code of their own before: 1.6 s more. Without
Numba's wrappers for callers in C it would be 0.8 s less of 22.
"""
LATER: Final[tuple[Callable[[], None], ...]] = (
    _mostly_zero,
    _sparse,
    _binary,
    lowrank.warm_up,
    sparse_loops.warm_up,
    _wide,
    _polynomial,
    _several_classes,
)
"""What the others need: text, identifiers, very many rows, several classes."""


def warm_up(arena_bytes: int = 256 << 20) -> None:
    """Compile or load everything the solvers need and touch their memory, so that the next solve runs at full speed.

    Parameters
    ----------
    arena_bytes : int, default 256 MiB
        Memory for kernel rows that is touched now.
    """
    for piece in (*FIRST, *LATER):
        piece()
    give_back()
    arena.touch(arena_bytes)


def give_back() -> None:
    """Give memory that loading code took and freed back to the system, where the C library can do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
