"""A worker that hears no doorbell although jobs are rung for is deaf, and of no use: it ends, and is started again.

kombu and Celery have had several defects after which a consumer that lost its broker for a moment stayed connected and
never took a message again. A ping does not show that; only work does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from service.db.session import TROUBLE, Database
from service.jobs.dispatching import JobDispatching

log = logging.getLogger("prefsvm.worker")

LOOKS_A_RING = 2
"""Looks in the time after which a job is rung for again."""
DEAF_AFTER_RINGS = 3
"""The worker is deaf when a job was rung for so often, and nothing was heard while the worker was idle."""


class BrokerWatchdog:
    """Notes each doorbell, and looks now and then whether there should have been one.

    Parameters
    ----------
    database : Database
    jobs : JobDispatching
    on_deaf : callable
        Called once, from another thread.
    """

    def __init__(self, database: Database, jobs: JobDispatching, on_deaf: Callable[[], None]) -> None:
        self._database = database
        self._jobs = jobs
        self._on_deaf = on_deaf
        self._lock = threading.Lock()
        self._busy = 0
        self._missed: dict[str, int] = {}
        """Jobs that were rung for and not heard of, and how many looks in a row found them so."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="broker-watchdog", daemon=True)
        self._thread.start()

    def around(self, run: Callable[[str], object]) -> Callable[[str], object]:
        """Return `run`, with each of its calls taken for a doorbell that was heard."""

        def heard(job_id: str) -> object:
            with self._lock:
                self._busy += 1
                self._missed.clear()
            try:
                return run(job_id)
            finally:
                with self._lock:
                    self._busy -= 1
                    self._missed.clear()

        return heard

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._closed.wait(self._jobs.redispatch_seconds / LOOKS_A_RING):
            try:
                with self._database.transaction() as session:
                    rung = self._jobs.rung_and_waiting(session)
            except TROUBLE:
                continue  # Those who have work to do with the database say so.
            with self._lock:
                if self._busy:
                    continue  # A busy worker takes no doorbell.
                # Looks are counted and not seconds: a machine that slept has not made anybody deaf.
                self._missed = {job_id: self._missed.get(job_id, -1) + 1 for job_id in rung}
                most = max(self._missed.values(), default=0)
            if most >= DEAF_AFTER_RINGS * LOOKS_A_RING:
                log.critical(
                    "a job was rung for %d times and nothing was heard here: the worker ends", DEAF_AFTER_RINGS
                )
                self._on_deaf()
                return
