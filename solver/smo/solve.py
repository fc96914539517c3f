"""Solving one program: the engine that suits it, and today's way to state it by arguments."""

from __future__ import annotations

import ctypes
from typing import Any, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from solver.kernels.kernel import FeatureKernel, Kernel, PrecomputedKernel
from solver.kernels.row_cache import arena
from solver.smo import engines, gpu
from solver.smo.backend import device_for, use_cpu_instead
from solver.smo.gpu_device import DeviceMemoryError
from solver.smo.problem import Solution, Task
from solver.smo.program import Program, Start
from solver.smo.stopping import Callback, Limits


@overload
def solve(program: Program, /) -> Solution: ...


@overload
def solve(
    kernel: Kernel,
    /,
    idx: ArrayLike,
    y: ArrayLike,
    p: ArrayLike,
    lo: ArrayLike,
    hi: ArrayLike,
    delta: float = 0.0,
    *,
    alpha0: ArrayLike | None = None,
    grad0: ArrayLike | None = None,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    cache_bytes: int | None = None,
    backend: str = "auto",
) -> Solution: ...


def solve(program: Program | Kernel, /, *terms: Any, **options: Any) -> Solution:
    """Solve one quadratic program.

    Parameters
    ----------
    program : Program
        Or its parts one by one: `kernel, idx, y, p, lo, hi, delta` and by keyword `tol`, `cache_bytes`, `backend`, as
        in `Program`; `alpha0`, `grad0`, as in `Start`; `max_iter`, `max_seconds`, `callback`, as in `Limits`.

    Returns
    -------
    Solution
        Also when a limit was met: look at `status`.

    Raises
    ------
    ValueError
        If a part of the program is malformed; names it.
    InfeasibleError
        If no alpha meets the constraints.
    UnboundedError
        If the objective has no minimum.
    BackendUnavailableError
        If `cuda` was asked for and there is no GPU to use, or its memory does not suffice.

    Notes
    -----
    Deterministic: the same sequence of calls on the same machine gives the same bits, whatever the number of threads.
    The solver follows [1]_ with batches of kernel rows; ties are broken by the lowest index.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen and C.-J. Lin, "Working set selection using second order information for training
       support vector machines", JMLR 6, 2005.
    """
    if not isinstance(program, Program):
        program = _stated(program, *terms, **options)
    task = Task.of(program)
    device = device_for([program])
    if device is not None:
        try:
            return gpu.solve_batch(device, [task])[0]
        except DeviceMemoryError as error:
            use_cpu_instead(program.backend, error)
    return engines.solve_on_cpu(task)


def _stated(
    kernel: Kernel,
    idx: ArrayLike,
    y: ArrayLike,
    p: ArrayLike,
    lo: ArrayLike,
    hi: ArrayLike,
    delta: float = 0.0,
    *,
    alpha0: ArrayLike | None = None,
    grad0: ArrayLike | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> Program:
    # a gradient belongs to a point: without one it says nothing
    start = None if alpha0 is None else Start(alpha0, grad0)
    limits = Limits(max_iter, max_seconds, callback)
    return Program(kernel, idx, y, p, lo, hi, delta, start, limits=limits, **options)


def warm_up(arena_bytes: int = 256 << 20) -> None:
    """Compile or load everything the solver needs and touch its memory, so that the next solve runs at full speed.

    Parameters
    ----------
    arena_bytes : int, default 256 MiB
        Memory for kernel rows that is touched now.
    """
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4))
    y = np.where(X[:, 0] + random.normal(size=600) > 0, 1.0, -1.0)
    binary = (X > 0).astype(np.float64)
    kernels: list[Kernel] = [
        FeatureKernel(X, gamma=0.5),
        FeatureKernel(sp.csr_array(X), gamma=0.5),
        FeatureKernel(binary, gamma=0.5),
        FeatureKernel(random.normal(size=(600, 300)), gamma=0.01),
        FeatureKernel(random.normal(size=(600, 64)) * (random.random((600, 64)) < 0.2), gamma=0.1),
        FeatureKernel(X, "linear"),
        FeatureKernel(X, "poly", gamma=0.5, degree=2),
    ]
    kernels.append(PrecomputedKernel(kernels[0].matrix(np.arange(600), np.arange(600))))
    for kernel in kernels:
        first = solve(Program(kernel, np.arange(600), y, -1.0, 0.0, 1.0, tol=1e-2))
        start = Start(first.alpha, first.gradient)
        solve(Program(kernel, np.arange(600), y, -1.0, 0.0, 2.0, tol=1e-2, start=start))
    solve(Program(kernels[0], np.arange(50), y[:50], -1.0, 0.0, 1.0))  # the engine for small problems
    for dtype in (np.float32, np.float64):
        for writeable in (True, False):  # compiled code is another for features that may not be written to
            features = X.astype(dtype)
            features.flags.writeable = writeable
            FeatureKernel(features, gamma=0.5).pool(np.arange(600), 0)
    # the arena is lent to a kernel until that is gone
    del kernel, kernels
    _trim()
    arena.touch(arena_bytes)


def _trim() -> None:
    """Give memory that loading code took and freed back to the system, where the C library can do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
