"""Who may read an upload now: few do at once, and no project keeps the others waiting for long files of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Readers:
    """A number of slots, of which no project has the last one too, for one of another may come.

    A free slot goes to the project that has the fewest, and of equal ones to whoever waits longest.

    Parameters
    ----------
    slots : int
        How many read at once. One alone is shared in turn.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._most = max(1, slots - 1)
        self._reading: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, project_id: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((project_id, turn))
        self._hand_out()
        try:
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it had come just before
                    self._give_back(project_id)
                raise
            try:
                yield
            finally:
                self._give_back(project_id)
        finally:
            self._waiting = [each for each in self._waiting if each[1] is not turn]

    def _give_back(self, project_id: str) -> None:
        self._free += 1
        self._reading[project_id] -= 1
        if not self._reading[project_id]:
            del self._reading[project_id]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free:
            allowed = [each for each in self._waiting if not each[1].done() and self._reading[each[0]] < self._most]
            if not allowed:
                return
            chosen = min(allowed, key=lambda each: self._reading[each[0]])
            self._waiting.remove(chosen)
            self._free -= 1
            self._reading[chosen[0]] += 1
            chosen[1].set_result(None)
