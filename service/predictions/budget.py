"""How much memory the requests that are being served may take together."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from service.errors import Busy

BYTES_A_BYTE_OF_MAIL = 5
"""Memory that a mail needs per byte while it is read, itself included. Measured: 4 where all of it is text, 5 where it
is parts within parts."""
BYTES_A_BYTE = 26
"""Memory that JSON needs per byte, its text included. Measured: 6 for wide rows of numbers, 26 for objects as small as
they come."""


class RequestBudget:
    """Memory for the bodies of requests, for use on one event loop.

    Parameters
    ----------
    capacity : int
        Bytes. A body that needs more than all of it is taken when it is the only one.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken = 0


class HeldMemory:
    """What one request holds of the budget until its ``with`` block ends, so much for a byte of its body."""

    def __init__(self, budget: RequestBudget, bytes_a_byte: int = BYTES_A_BYTE) -> None:
        self._budget = budget
        self._bytes_a_byte = bytes_a_byte
        self._held = 0

    def grow(self, body_bytes: int) -> None:
        """Hold enough for a body of this many bytes; raises `Busy` if others hold too much."""
        budget, more = self._budget, body_bytes * self._bytes_a_byte - self._held
        if more <= 0:
            return
        others = budget.taken - self._held
        if others and budget.taken + more > budget.capacity:
            raise Busy(
                "the requests that are being served take all the memory that there is for their bodies; try again"
            )
        budget.taken += more
        self._held += more

    def let_go(self) -> None:
        """Hold nothing any more."""
        self._budget.taken -= self._held
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.let_go()
