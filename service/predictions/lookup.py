"""Which model stands behind a name: asked of Postgres seldom, and never long out of date."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from anyio import to_thread

from service.models.repository import ModelFile

FRESH_SECONDS = 0.5
"""How long an answer of Postgres is used: what another process changes takes effect here within this time."""
MAX_NAMES = 10_000

Find = Callable[[str, str], ModelFile]
Key = tuple[str, str]


class ModelLookup:
    """Remembers which file and threshold a model id or alias of a project means, for use on one event loop.

    Requests for a name that is being looked up wait for that one answer. What is not there is not remembered.

    Parameters
    ----------
    find : callable
        Asks Postgres, in a thread: project and name to file; raises for an unknown name.
    fresh_seconds : float
        See `FRESH_SECONDS`.
    """

    def __init__(self, find: Find, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._find = find
        self._fresh_seconds = fresh_seconds
        self.forget()

    def forget(self) -> None:
        """Ask anew from now on, whatever is being asked. May be called from any thread."""
        # New dictionaries: an answer that is under way was asked before the change, and goes into the old ones.
        self._known: dict[Key, tuple[float, ModelFile]] = {}
        self._asking: dict[Key, asyncio.Task[ModelFile]] = {}

    def recall(self, project_id: str, name: str) -> ModelFile | None:
        """Return the file if Postgres named it just now."""
        found = self._known.get((project_id, name))
        return found[1] if found is not None and found[0] > time.monotonic() else None

    async def find(self, project_id: str, name: str) -> ModelFile:
        """Return the file, asking Postgres if need be; raises what `find` raises."""
        key = (project_id, name)
        asking = self._asking
        task = asking.get(key)
        if task is None:
            task = asking[key] = asyncio.create_task(self._ask(key, self._known))
            task.add_done_callback(lambda done: _finish(done, asking, key))
        # Shielded: a client that hangs up must not take the answer away from the others.
        return await asyncio.shield(task)

    async def _ask(self, key: Key, known: dict[Key, tuple[float, ModelFile]]) -> ModelFile:
        # Counted from before the question, so that an answer is never older than promised.
        until = time.monotonic() + self._fresh_seconds
        file = await to_thread.run_sync(self._find, *key)
        if len(known) >= MAX_NAMES:
            known.clear()
        known[key] = (until, file)
        return file


def _finish(task: asyncio.Task[ModelFile], asking: dict[Key, asyncio.Task[ModelFile]], key: Key) -> None:
    del asking[key]
    if not task.cancelled():
        task.exception()  # or asyncio complains of it when everybody who waited has gone
