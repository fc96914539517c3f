"""Whether the process of a job still does anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LEAST_SHARE: Final = 1e-3
"""Share of a processor. To look, a few times a second, for something that never comes costs less; work costs more."""
LEAST_SECONDS: Final = 0.03
"""Of processor time; the system counts in hundredths of a second."""
LONGEST_STEP: Final = 2.0
"""Of the seconds between two looks so many count, at most: who was frozen cannot tell what the child did meanwhile."""


class Liveness:
    """Tells that a child is hung: it says nothing, and uses no processor time, for long.

    One that turns in circles looks like one that works, and is ended by the time limit of its job alone.

    Parameters
    ----------
    patience : float
        Seconds.
    used : callable
        Returns the seconds of processor time that the child has used; all its threads count.
    clock : callable, optional
        Monotonic, in seconds.
    """

    def __init__(self, patience: float, used: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._used = used
        self._clock = clock
        self._last = clock()
        self._quiet = 0.0
        self._used_before = used()

    def heard(self) -> None:
        """Note that the child has said something, or waits for somebody else."""
        self._quiet, self._used_before = 0.0, self._used()
        self._last = self._clock()

    def is_hung(self) -> bool:
        """Look; to be called every second or so."""
        now = self._clock()
        self._quiet += min(now - self._last, LONGEST_STEP)
        self._last = now
        if self._used() - self._used_before > LEAST_SECONDS + LEAST_SHARE * self._quiet:
            self.heard()
        return self._quiet > self._patience
