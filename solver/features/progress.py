"""How far the passes over the values of columns are: what takes long of fitting and applying features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

# values between two reports of progress
EVERY: Final = 512


class Passes:
    """Counts the values that have been looked at, of all that will be.

    Parameters
    ----------
    total : int
        Values of all passes together; a value that is looked at twice counts twice.
    tell : callable
        Called now and then with the share that is done, 0 to 1.
    """

    def __init__(self, total: int = 0, tell: Callable[[float], object] = lambda _: None) -> None:
        self._total, self._tell, self._done = max(1, total), tell, 0

    def over(self, values: Sequence[str | None]) -> Iterator[str | None]:
        """Yield the values of one pass."""
        for begin in range(0, len(values), EVERY):
            piece = values[begin : begin + EVERY]
            yield from piece
            self._done += len(piece)
            self._tell(min(1.0, self._done / self._total))
