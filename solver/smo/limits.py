"""When to stop before the tolerance is reached."""

import time
from dataclasses import dataclass, field

from solver.smo.problem import Callback, Problem

__all__ = ["Limits", "Task"]


@dataclass
class Limits:
    """Limits of one solve and how much of them is used up.

    Attributes
    ----------
    max_iter : int
        Two-variable steps.
    max_seconds : float or None
    callback : callable or None
        ``callback(iteration, gap)``; a true answer cancels.
    iterations : int
        Steps so far.
    """

    max_iter: int
    max_seconds: float | None
    callback: Callback | None
    iterations: int = 0
    started: float = field(default_factory=time.perf_counter)

    @property
    def steps_left(self) -> int:
        """Steps that may still be made."""
        return max(0, self.max_iter - self.iterations)

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.started

    def reason_to_stop(self, gap: float) -> str | None:
        """Ask the callback and look at the limits: the status to stop with, or None to go on."""
        if self.callback is not None and self.callback(self.iterations, gap):
            return "cancelled"
        if self.max_seconds is not None and self.seconds >= self.max_seconds:
            return "time"
        if self.iterations >= self.max_iter:
            return "max_iter"
        return None


@dataclass
class Task:
    """A problem to be solved, with its tolerance and limits."""

    problem: Problem
    tol: float
    limits: Limits
