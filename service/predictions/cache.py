"""Decision functions that are kept ready, the least recently used thrown out first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Something that knows how much memory it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes."""


Value = TypeVar("Value", bound=Sized)


class ByteCache(Generic[Value]):
    """A cache with a budget in bytes, for use on one event loop.

    Requests for a key that is being loaded wait for that one load. A value that is larger than the whole budget is
    handed out but not kept.

    Parameters
    ----------
    capacity : int
        Bytes that the values may take together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._loading: dict[Hashable, asyncio.Task[Value]] = {}
        self.nbytes = 0
        self.hits = 0
        """Look-ups that found their value ready."""
        self.misses = 0
        """Look-ups that loaded it, or waited for a load."""
        self.dropped_bytes = 0
        """What the values took together that had to go."""

    def __len__(self) -> int:
        return len(self._values)

    def recall(self, key: Hashable) -> Value | None:
        """Return the value of `key` if it is ready."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            self.hits += 1
        return value

    async def get(self, key: Hashable, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return the value of `key`, loading it if need be. An error of `load` goes to all who wait; it is not kept."""
        value = self.recall(key)
        if value is not None:
            return value
        self.misses += 1
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.create_task(self._load(key, load))
            task.add_done_callback(_retrieve_error)
        # Shielded: a client that hangs up must not take the model away from the others.
        return await asyncio.shield(task)

    async def _load(self, key: Hashable, load: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await load()
        finally:
            del self._loading[key]
        if value.nbytes <= self._capacity:
            self._values[key] = value
            self.nbytes += value.nbytes
            while self.nbytes > self._capacity:
                _, dropped = self._values.popitem(last=False)
                self.nbytes -= dropped.nbytes
                self.dropped_bytes += dropped.nbytes
        return value


def _retrieve_error(task: asyncio.Task[Value]) -> None:
    """Keep asyncio from complaining when everybody who waited for a failed load has gone."""
    if not task.cancelled():
        task.exception()
