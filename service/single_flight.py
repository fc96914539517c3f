"""One piece of work for all who want the same thing at the same time, for use on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SingleFlight(Generic[Key, Value]):
    """Work that is under way, by what it is for. Nothing is remembered of work that has ended."""

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[Value]] = {}

    async def do(self, key: Key, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Return the result of `work`, or of that which was begun for the same key; its error goes to all who wait."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        # Shielded: a client that hangs up must not take the result away from the others.
        return await asyncio.shield(task)

    def _end(self, key: Key, task: asyncio.Task[Value]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # or asyncio complains of it when everybody who waited has gone
