"""A quadratic program and its solution in one line, as tests of the solver state them."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from solver import smo
from solver.kernels.kernel import Kernel
from solver.smo import Callback, Program, Solution, Start, StoppingLimits


def stated(
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


def solve(program: Program | Kernel, *terms: Any, **options: Any) -> Solution:
    """Solve a program, or the one that is stated by these terms."""
    return smo.solve(program if isinstance(program, Program) else stated(program, *terms, **options))
