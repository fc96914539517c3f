"""When to stop: the limits of a solve, what is used up of them, and whether it still gets anywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

Callback = Callable[[int, float], bool | None]

# working sets without a measurable decrease of the objective before float32 is blamed
PATIENCE: Final = 30
_MEASURABLE: Final = 1e-10

# float64 recomputations of the sums before everything is done in float64
REFINEMENTS: Final = 3


@dataclass(frozen=True)
class StoppingLimits:
    """Limits of one solve.

    Attributes
    ----------
    max_iter : int, optional
        Largest number of steps; what a step is, and the default, is the engine's.
    max_seconds : float, optional
        Largest wall time.
    callback : callable, optional
        `callback(iterations, gap)`, called several times a second; a true answer cancels.
    """

    max_iter: int | None = None
    max_seconds: float | None = None
    callback: Callback | None = None


NO_LIMITS: Final = StoppingLimits()


@dataclass
class Budget:
    """How much of its limits a solve has used up; its clock runs from the start.

    Attributes
    ----------
    limits : StoppingLimits
    default_steps : int
        Steps where the limits name none.
    iterations : int
        Steps so far.
    """

    limits: StoppingLimits
    default_steps: int = int(np.iinfo(np.int64).max)
    iterations: int = 0
    started: float = field(default_factory=time.perf_counter)

    @property
    def steps_left(self) -> int:
        """Steps that may still be made."""
        most = self.limits.max_iter
        return max(0, (self.default_steps if most is None else most) - self.iterations)

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Wall time that is left; None where there is no limit."""
        limit = self.limits.max_seconds
        return None if limit is None else max(0.0, limit - self.seconds)

    def reason_to_stop(self, gap: float) -> str | None:
        """Ask the callback and look at the limits: the status to stop with, or None to go on."""
        limits = self.limits
        if limits.callback is not None and limits.callback(self.iterations, gap):
            return "cancelled"
        if limits.max_seconds is not None and self.seconds >= limits.max_seconds:
            return "time"
        return None if self.steps_left else "max_iter"


class Stall:
    """Whether working sets still lower the objective, and how often their sums were computed afresh for it."""

    def __init__(self) -> None:
        self._refinements = 0
        self._best, self._since_best = np.inf, 0

    def note(self, objective: float) -> None:
        """Take in the objective after one more working set."""
        fell = objective < self._best - _MEASURABLE * abs(self._best)
        self._since_best = 0 if fell else self._since_best + 1
        self._best = min(self._best, objective)

    @property
    def is_reached(self) -> bool:
        """Whether so many working sets in a row gained nothing that rounding is to blame."""
        return self._since_best >= PATIENCE

    @property
    def may_refine(self) -> bool:
        """Whether sums computed afresh in float64 may still be of use to working sets in float32."""
        return self._refinements < REFINEMENTS

    def refine(self) -> None:
        """Count one computation afresh, after which the objective is another."""
        self._refinements += 1
        self._best, self._since_best = np.inf, 0
