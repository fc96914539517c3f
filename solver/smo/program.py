"""A quadratic program as whoever wants it solved states it."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from solver.kernels.kernel import Kernel
from solver.smo.stopping import NO_LIMITS, StoppingLimits


@dataclass(frozen=True, eq=False)
class Start:
    """Where a solve starts from.

    Attributes
    ----------
    alpha : (n,) array_like
        Made feasible by `repair` if it is not.
    gradient : (n,) array_like, optional
        `Solution.gradient` that belongs to `alpha` (same p); saves recomputing it. NaN where it is not known, as for
        variables that are new since: only those entries are computed. Where `alpha` has to be repaired, the change is
        folded in.
    """

    alpha: ArrayLike
    gradient: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """min ½ aᵀQa + pᵀa subject to yᵀa = delta, lo <= a <= hi, with Q_ij = y_i y_j K(idx_i, idx_j).

    What it holds is looked at when it is solved, see `solve`; all engines take the same program.

    Attributes
    ----------
    kernel : Kernel
        Over a pool of samples. Programs on the same object share its kernel rows.
    idx : (n,) array_like of int
        Sample of each variable; several variables may share a sample.
    y : (n,) array_like
        Sign of each variable, -1 or +1.
    p : (n,) array_like or float
        Linear term; -1 for a C-SVC.
    lo, hi : (n,) array_like or float
        Bounds; may be negative or infinite.
    delta : float, default 0
        Value of `yᵀa`.
    start : Start, optional
        Default 0.
    tol : float, default 1e-3
        Largest gap of a solution that counts as optimal, in units of the decision function.
    limits : StoppingLimits
        By default `max(10_000_000, 100 n)` two-variable steps. The low-rank engine counts visits of a variable, by
        default 10,000 for each.
    cache_bytes : int, optional
        Memory for kernel rows, default a third of what is available and at most 2 GiB. The first solve with a kernel
        fixes it.
    backend : {"auto", "cpu", "cuda"}, default "auto"
        `auto` takes the GPU, where there is one, for programs whose kernel matrix would cost more than
        `backend.GPU_LEAST_WORK`; the CPU if the GPU's memory does not suffice. `Solution.engine` tells which it was.
    """

    kernel: Kernel
    idx: ArrayLike
    y: ArrayLike
    p: ArrayLike
    lo: ArrayLike
    hi: ArrayLike
    delta: float = 0.0
    start: Start | None = None
    tol: float = 1e-3
    limits: StoppingLimits = NO_LIMITS
    cache_bytes: int | None = None
    backend: str = "auto"
