"""Solving one program: the engine that suits it, and today's way to state it by arguments."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike

from solver.kernels.kernel import Kernel
from solver.smo import engines, gpu
from solver.smo.backend import device_for, use_cpu_instead
from solver.smo.gpu_device import DeviceMemoryError
from solver.smo.problem import Solution, Task
from solver.smo.program import Program, Start
from solver.smo.stopping import Callback, StoppingLimits


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
        in `Program`; `alpha0`, `grad0`, as in `Start`; `max_iter`, `max_seconds`, `callback`, as in `StoppingLimits`.

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
    limits = StoppingLimits(max_iter, max_seconds, callback)
    return Program(kernel, idx, y, p, lo, hi, delta, start, limits=limits, **options)
