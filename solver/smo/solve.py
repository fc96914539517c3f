"""Solving one program by the engine that suits it."""

from __future__ import annotations

from solver.smo import engines, gpu
from solver.smo.backend import device_for, use_cpu_instead
from solver.smo.gpu_device import DeviceMemoryError
from solver.smo.problem import Solution, Task
from solver.smo.program import Program


def solve(program: Program) -> Solution:
    """Solve one quadratic program.

    Parameters
    ----------
    program : Program

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
    task = Task.of(program)
    device = device_for([program])
    if device is not None:
        try:
            return gpu.solve_batch(device, [task])[0]
        except DeviceMemoryError as error:
            use_cpu_instead(program.backend, error)
    return engines.solve_on_cpu(task)
