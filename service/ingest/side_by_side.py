"""Work on the columns of a table, by several threads at once: Arrow and NumPy let go of Python's lock meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, TypeVar

import pyarrow as pa

VALUES_TOGETHER = 65_536
"""Of columns that are looked at together: enough that calls do not weigh, few enough for the cache of a processor."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class SideBySide:
    """As many threads as Arrow has. As a context it ends them.

    They begin when there is work, so small tables have none.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(pa.cpu_count(), "columns")

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
        """Begin some work; raises `MemoryError` where a thread finds no room."""
        try:
            return self._threads.submit(work, *arguments, **named)
        except RuntimeError as error:
            raise MemoryError(str(error)) from None

    def of_each(self, work: Callable[[T], R], parts: Iterable[T]) -> list[R]:
        """Return what the work makes of each part, in order; a single one is done at once."""
        parts = list(parts)
        if len(parts) < 2:
            return list(map(work, parts))
        begun = [self.begin(work, part) for part in parts]
        return [each.result() for each in begun]


def grouped(columns: Sequence[T], rows: int) -> list[Sequence[T]]:
    """Part columns of so many rows into groups of about `VALUES_TOGETHER` values."""
    most = max(1, VALUES_TOGETHER // max(1, rows))
    return [columns[first : first + most] for first in range(0, len(columns), most)]
