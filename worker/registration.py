"""Says in the database that this worker lives, so that others share the work of their jobs with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from service.db.session import AWAY, TROUBLE, Database
from service.jobs.workers import Worker, WorkerRegistry


class WorkerRegistration:
    """Writes the worker's row every third of a lease, from the moment that it is known what it computes.

    Parameters
    ----------
    database : Database
    registry : WorkerRegistry
    worker : callable
        Returns who this is; None as long as no child has said what its numerics are.
    """

    def __init__(self, database: Database, registry: WorkerRegistry, worker: Callable[[], Worker | None]) -> None:
        self._database = database
        self._registry = registry
        self._worker = worker
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._say, name="registration", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Say that the worker goes."""
        self._closed.set()
        self._thread.join(10)
        worker = self._worker()
        if worker is not None:
            try:
                with self._database.transaction() as session:
                    self._registry.say_gone(session, worker.id)
            except AWAY:
                return  # Its row says when it was last seen.

    def _say(self) -> None:
        pause = 0.5
        while not self._closed.wait(pause):
            worker = self._worker()
            if worker is None:
                continue
            try:
                with self._database.transaction() as session:
                    self._registry.say_alive(session, worker)
            except TROUBLE:
                continue  # Those who have work to do with the database say so.
            pause = self._registry.lease_seconds / 3
