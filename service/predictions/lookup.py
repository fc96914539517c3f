"""Which model stands behind a name: asked of Postgres seldom, and never long out of date."""

from __future__ import annotations

import time
from collections.abc import Callable

from anyio import to_thread

from service.models.repository import ModelFile
from service.single_flight import SingleFlight

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
        # New ones: an answer that is under way was asked before the change, and goes into the old ones.
        self._known: dict[Key, tuple[float, ModelFile]] = {}
        self._asking: SingleFlight[Key, ModelFile] = SingleFlight()

    def recall(self, project_id: str, name: str) -> ModelFile | None:
        """Return the file if Postgres named it just now."""
        found = self._known.get((project_id, name))
        return found[1] if found is not None and found[0] > time.monotonic() else None

    async def find(self, project_id: str, name: str) -> ModelFile:
        """Return the file, asking Postgres if need be; raises what `find` raises."""
        key, known = (project_id, name), self._known
        return await self._asking.do(key, lambda: self._ask(key, known))

    async def _ask(self, key: Key, known: dict[Key, tuple[float, ModelFile]]) -> ModelFile:
        # Counted from before the question, so that an answer is never older than promised.
        until = time.monotonic() + self._fresh_seconds
        file = await to_thread.run_sync(self._find, *key)
        if len(known) >= MAX_NAMES:
            known.clear()
        known[key] = (until, file)
        return file
