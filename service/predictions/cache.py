"""Decision functions that are kept ready, the least recently used thrown out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, Protocol, TypeVar

from service.single_flight import SingleFlight


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
        self._loading: SingleFlight[Hashable, Value] = SingleFlight()
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

    async def get(self, key: Hashable, load: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Return the value of `key`, loading it if need be. An error of `load` goes to all who wait; it is not kept."""
        value = self.recall(key)
        if value is not None:
            return value
        self.misses += 1
        return await self._loading.do(key, lambda: self._load(key, load))

    async def _load(self, key: Hashable, load: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        value = await load()
        if value.nbytes <= self._capacity:
            self._values[key] = value
            self.nbytes += value.nbytes
            while self.nbytes > self._capacity:
                _, dropped = self._values.popitem(last=False)
                self.nbytes -= dropped.nbytes
                self.dropped_bytes += dropped.nbytes
        return value
