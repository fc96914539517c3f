"""Work of threads that takes a processor for long: one piece at a time, so that what is quick is not kept waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Busy

MOST_WAITING = 8
"""Each who waits holds one of the 40 threads that all requests share."""


class Turns:
    """Lets one thread work at a time, and a few wait for it.

    Threads that compute side by side take the interpreter from each other and from the event loop, so that all of them
    together are no sooner done, and every other request waits for each of them.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._turn = threading.Lock()
        self._places = threading.BoundedSemaphore(1 + most_waiting)

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait until it is one's turn; raises `Busy` where enough wait already."""
        if not self._places.acquire(blocking=False):
            raise Busy("as many rules as may wait to be chosen are being chosen; try again")
        try:
            with self._turn:
                yield
        finally:
            self._places.release()
