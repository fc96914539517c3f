"""The dual quadratic program of every algorithm of the product, solved exactly.

min ½ aᵀQa + pᵀa   subject to   yᵀa = delta,  lo <= a <= hi,   Q_ij = y_i y_j K(idx_i, idx_j)
"""

import ctypes
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from solver.arrays import BackendUnavailableError, resolve_backend
from solver.kernels.kernel import FeatureKernel, Kernel, PrecomputedKernel
from solver.kernels.row_cache import arena, default_cache_bytes
from solver.smo import engines, gpu, many
from solver.smo.gpu_device import Device, cuda_device
from solver.smo.inner import BIG, extremes
from solver.smo.limits import Limits, Task
from solver.smo.problem import Callback, InfeasibleError, Problem, Solution, UnboundedError, make_problem, repair
from solver.smo.verification import Outcome

__all__ = [
    "Callback",
    "InfeasibleError",
    "Solution",
    "UnboundedError",
    "kernel_of_its_own",
    "make_solution",
    "repair",
    "solve",
    "solve_many",
    "warm_up",
]

# multiplications of a kernel matrix, n² (features + 30), from which on `auto` takes the GPU: about a second of the CPU
# engine, which is what starting CUDA costs a new process (an estimate: no GPU was at hand to measure it)
GPU_LEAST_WORK = 5e10


def solve(
    kernel: Kernel,
    idx: npt.ArrayLike,
    y: npt.ArrayLike,
    p: npt.ArrayLike,
    lo: npt.ArrayLike,
    hi: npt.ArrayLike,
    delta: float = 0.0,
    *,
    alpha0: npt.ArrayLike | None = None,
    grad0: npt.ArrayLike | None = None,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    cache_bytes: int | None = None,
    shrinking: bool = True,  # noqa: ARG001
    backend: str = "auto",
    callback: Callback | None = None,
) -> Solution:
    """Solve one quadratic program.

    Parameters
    ----------
    kernel : FeatureKernel or PrecomputedKernel
        Kernel over a pool of samples. Successive calls with the same object share its kernel rows.
    idx : (n,) array_like of int
        Sample of each variable; several variables may share a sample.
    y : (n,) array_like
        Sign of each variable, -1 or +1.
    p : (n,) array_like or float
        Linear term; -1 for a C-SVC.
    lo, hi : (n,) array_like or float
        Bounds; may be negative or infinite.
    delta : float, default 0
        Value of ``yᵀa``.
    alpha0 : (n,) array_like, optional
        Start, default 0. Made feasible by ``repair`` if it is not.
    grad0 : (n,) array_like, optional
        ``Solution.gradient`` that belongs to ``alpha0`` (same p); saves recomputing it. NaN where it is not known, as
        for variables that are new since: only those entries are computed. Where ``alpha0`` has to be repaired, the
        change is folded in.
    tol : float, default 1e-3
        Largest gap of a solution that counts as optimal, in units of the decision function.
    max_iter : int, optional
        Largest number of two-variable steps, default ``max(10_000_000, 100 n)``.
    max_seconds : float, optional
        Largest wall time.
    cache_bytes : int, optional
        Memory for kernel rows, default a third of what is available and at most 2 GiB. The first solve with a kernel
        fixes it.
    shrinking : bool, default True
        Accepted as other solvers' is, and without effect: working sets look at kernel rows of variables that moved
        only, so there is little left to shrink (docs/solver.md has the measurement).
    backend : {"auto", "cpu", "cuda"}, default "auto"
        ``auto`` takes the GPU, where there is one, for problems whose kernel matrix would cost more than
        `GPU_LEAST_WORK`; the CPU if the GPU's memory does not suffice. ``Solution.engine`` tells which it was.
    callback : callable, optional
        ``callback(iterations, gap)``, called several times a second; a true answer cancels.

    Returns
    -------
    Solution
        Also when a limit was met: look at ``status``.

    Raises
    ------
    ValueError
        If a part of the problem is malformed; names it.
    InfeasibleError
        If no alpha meets the constraints.
    UnboundedError
        If the objective has no minimum.
    BackendUnavailableError
        If ``cuda`` was asked for and there is no GPU to use, or its memory does not suffice.

    Notes
    -----
    Deterministic: the same sequence of calls on the same machine gives the same bits, whatever the number of threads.
    The solver follows [1]_ with batches of kernel rows; ties are broken by the lowest index.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen and C.-J. Lin, "Working set selection using second order information for training
       support vector machines", JMLR 6, 2005.
    """
    task = _task(kernel, idx, y, p, lo, hi, delta, alpha0, grad0, tol, max_iter, max_seconds, callback)
    problem, limits = task.problem, task.limits
    name = _engine_name(kernel, problem)
    device = _device(backend, _work(kernel, problem.idx.size))
    if device is not None:
        try:
            outcome = gpu.solve_batch(device, kernel, [task], cache_bytes)[0]
            return make_solution(problem, outcome, limits, f"cuda-{name}")
        except gpu.DeviceMemoryError as error:
            _use_cpu_instead(backend, error)
    if name == "direct":
        outcome = engines.solve_direct(kernel, problem, tol, limits)
    else:
        memory = default_cache_bytes() if cache_bytes is None else cache_bytes
        outcome = engines.solve_working_set(kernel, problem, tol, limits, memory)
    return make_solution(problem, outcome, limits, name)


def _task(
    kernel: Kernel,
    idx: npt.ArrayLike,
    y: npt.ArrayLike,
    p: npt.ArrayLike,
    lo: npt.ArrayLike,
    hi: npt.ArrayLike,
    delta: float = 0.0,
    alpha0: npt.ArrayLike | None = None,
    grad0: npt.ArrayLike | None = None,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callback | None = None,
) -> Task:
    if not tol > 0:
        raise ValueError(f"tol must be positive; got {tol}")
    problem = make_problem(kernel.n_samples, idx, y, p, lo, hi, delta, alpha0, grad0)
    most = max(10_000_000, 100 * problem.idx.size) if max_iter is None else max_iter
    return Task(problem, tol, Limits(most, max_seconds, callback))


def _engine_name(kernel: Kernel, problem: Problem) -> str:
    if problem.idx.size <= engines.DIRECT_LIMIT:
        return "direct"
    return "linear" if getattr(kernel, "kind", None) == "linear" else "working-set"


def _work(kernel: Kernel, n: int) -> float:
    """What the kernel matrix of n variables costs, in multiplications; 0 where the CPU needs no matrix or holds it."""
    if not isinstance(kernel, FeatureKernel) or kernel.kind == "linear":
        return 0.0
    features = kernel.X.nnz / max(1, kernel.n_samples) if sp.issparse(kernel.X) else kernel.X.shape[1]
    return float(n) ** 2 * (float(features) + 30)


def _device(backend: str, work: float) -> Device | None:
    """The GPU, or None for the CPU."""
    if resolve_backend(backend, large=work >= GPU_LEAST_WORK) == "cpu":
        return None
    try:
        return cuda_device()
    except BackendUnavailableError as error:
        _use_cpu_instead(backend, error)
        return None


def _use_cpu_instead(backend: str, error: BackendUnavailableError) -> None:
    """Say that ``auto`` falls back to the CPU; whoever asked for the GPU by name is told that it failed."""
    if backend == "cuda":
        raise error
    warnings.warn(f"solving on the CPU: {error}", RuntimeWarning, stacklevel=3)


def make_solution(problem: Problem, outcome: Outcome, limits: Limits, engine: str) -> Solution:
    """What an engine's outcome says: intercept, objective, counts of support vectors.

    Parameters
    ----------
    problem : Problem
    outcome : Outcome
    limits : Limits
        Those of the solve: they counted its iterations and seconds.
    engine : str
        Name for ``Solution.engine``.
    """
    alpha, v = outcome.alpha, outcome.v
    highest, lowest, _, _ = extremes(v, problem.y, alpha, problem.lo, problem.hi)
    free = (alpha > problem.lo) & (alpha < problem.hi)
    support = alpha != 0
    if free.any():
        b = float(v[free].mean())
    elif highest > -BIG and lowest < BIG:
        b = 0.5 * (highest + lowest)
    else:
        b = highest if highest > -BIG else lowest if lowest < BIG else 0.0
    return Solution(
        alpha=alpha,
        b=b,
        b_low=highest if highest > -BIG else -np.inf,
        b_high=lowest if lowest < BIG else np.inf,
        # no BLAS here: its threads would spin on for 0.1 s beside the next solve
        objective=0.5 * float((alpha * (problem.p - problem.y * v)).sum()),
        gap=outcome.gap,
        iterations=limits.iterations,
        status=outcome.status,
        gradient=-problem.y * v,
        n_support=int(np.count_nonzero(support)),
        n_bounded=int(np.count_nonzero(support & ~free)),
        n_kernel_rows=outcome.n_kernel_rows,
        seconds=limits.seconds,
        engine=engine,
    )


def solve_many(problems: Iterable[dict[str, Any]]) -> list[Solution]:
    """Solve many problems, on all threads or together on the GPU.

    Parameters
    ----------
    problems : iterable of dict
        Keyword arguments of ``solve``. Problems on the same kernel object share kernel rows. ``alpha0`` may be the
        string ``"previous"``: start from the solution of the problem before (same kernel, variables and p), the way
        along a path of growing C. Give rows that a fold holds out as variables with ``hi=0``: their gradient tells
        their scores, and all folds have the same rows. Callbacks are called from several threads.

    Returns
    -------
    list of Solution
        In the order of the problems; the same bits whatever the number of threads.
    """
    return many.run_problems(list(problems), solve, _solve_together)


def kernel_of_its_own(problems: Sequence[dict[str, Any]]) -> Any:
    """Return a kernel on which some of many problems are solved to the bits that all of them together would give.

    Parameters
    ----------
    problems : sequence of dict
        What ``solve_many`` would be given: on one kernel, in several chains of ``alpha0="previous"``. Any of these
        chains, whole, may then be solved on the kernel that is returned.

    Returns
    -------
    Kernel or None
        None if the chains depend on each other: on the GPU, or on a cache of kernel rows that they share.
    """
    work = sum(_work(problem["kernel"], np.size(problem["idx"])) for problem in problems)
    if _device(str(problems[0].get("backend", "auto")), work) is not None:
        return None
    return many.kernel_of_its_own(problems)


def _solve_together(problems: Sequence[dict[str, Any]]) -> list[Solution] | None:
    """Solve problems on one kernel in one batch on the GPU; None if they are the CPU's."""
    backends = {str(problem.get("backend", "auto")) for problem in problems}
    if len(backends) > 1:
        return None
    backend, kernel = backends.pop(), problems[0]["kernel"]
    device = _device(backend, sum(_work(kernel, np.size(problem["idx"])) for problem in problems))
    if device is None:
        return None
    tasks = [_task(**{k: v for k, v in problem.items() if k not in ("backend", "cache_bytes")}) for problem in problems]
    try:
        outcomes = gpu.solve_batch(device, kernel, tasks, problems[0].get("cache_bytes"))
    except gpu.DeviceMemoryError as error:
        _use_cpu_instead(backend, error)
        return None
    return [
        make_solution(task.problem, outcome, task.limits, f"cuda-{_engine_name(kernel, task.problem)}")
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


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
        solution = solve(kernel, np.arange(600), y, -1.0, 0.0, 1.0, tol=1e-2)
        solve(kernel, np.arange(600), y, -1.0, 0.0, 2.0, tol=1e-2, alpha0=solution.alpha, grad0=solution.gradient)
    solve(kernels[0], np.arange(50), y[:50], -1.0, 0.0, 1.0)  # the engine for small problems
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
