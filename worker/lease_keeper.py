"""Keeps the lease of one job alive and is the only one to talk to the database while the job runs.

It has a thread of its own, so that a database that is slow, away or frozen never keeps the supervisor from its
deadlines.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from service.db.session import TROUBLE, Database
from service.faults import fault
from service.jobs.claims import Claim, Event, Signals
from worker.transitions import Transitions

log = logging.getLogger("prefsvm.worker")

POLL_SECONDS = 0.5
"""Pause between two looks whether somebody wants the job cancelled."""
WRITE_SECONDS = 0.5
"""Time between two writes of progress."""
MOST_EVENTS = 1000
"""Events of one attempt at most; the last ones of a job that reports without end are not written."""
EVENT_STEP = 0.05
"""Progress within one phase that is worth an event."""


class LeaseKeeper:
    """Renews a claim every third of the lease, reads what others want of the job, and writes its progress.

    Parameters
    ----------
    database : Database
    jobs : Transitions
    claim : Claim
    claimed_at : float
        ``time.monotonic()`` just before the claim was sent: the lease runs at least until then plus `lease_seconds`.
    """

    def __init__(self, database: Database, jobs: Transitions, claim: Claim, claimed_at: float) -> None:
        self._database = database
        self._jobs = jobs
        self._claim = claim
        self._held_until = claimed_at + jobs.lease_seconds
        self._next_heartbeat = claimed_at + jobs.lease_seconds / 3
        self._lost = False
        self._signals = Signals(cancel=False, keep_best=False)
        self._lock = threading.Lock()
        self._progress: tuple[str, float] | None = None
        self._events: list[Event] = []
        self._events_left = MOST_EVENTS
        self._phase = ""
        self._next_event = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    @property
    def held(self) -> bool:
        """Whether the job is still ours, as far as can be known without asking."""
        return not self._lost and time.monotonic() < self._held_until

    @property
    def signals(self) -> Signals:
        """What others want of the job, at most about a second old."""
        return self._signals

    def progress(self, phase: str, fraction: float, details: dict[str, Any]) -> None:
        """Note how far the job is; it is written at most twice a second, a new phase soonest."""
        with self._lock:
            self._progress = (phase, fraction)
            if phase != self._phase:
                self._phase = phase
                self._next_event = 0.0
                self._wake.set()
            kind = "round" if "round" in details else "progress"
            if self._events_left > 0 and (kind == "round" or fraction >= self._next_event):
                self._events_left -= 1
                self._next_event = fraction + EVENT_STEP
                self._events.append(Event(kind, {**details, "phase": phase, "progress": fraction}))

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Write an event along with the next progress."""
        with self._lock:
            if self._events_left > 0:
                self._events_left -= 1
                self._events.append(Event(kind, data))

    def stop(self) -> None:
        """Write what is left to be written and end; gives up waiting for the database after a few seconds."""
        self._stop.set()
        self._wake.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        poll = min(POLL_SECONDS, self._jobs.lease_seconds / 3)
        failing = False
        while True:
            self._wake.wait(poll)
            self._wake.clear()
            last = self._stop.is_set()
            if last and self._progress is None and time.monotonic() < self._next_heartbeat:
                return
            try:
                self._talk()
            except TROUBLE as error:
                if not failing:
                    log.warning("%s: the database does not answer (%s)", self._claim.job_id, type(error).__name__)
                failing = True
            else:
                failing = False
            if last or self._lost:
                return
            self._stop.wait(WRITE_SECONDS)

    def _talk(self) -> None:
        """One transaction: renew the lease if that is due, write progress if there is any, read what others want."""
        with self._lock:
            progress, events = self._progress, []
            if progress is not None:
                events, self._events = self._events, []
        sent = time.monotonic()
        try:
            with self._database.transaction() as session:
                renewed = sent >= self._next_heartbeat
                if renewed:
                    fault("before_heartbeat")
                    signals = self._jobs.heartbeat(session, self._claim)
                    if signals is not None and progress is not None:
                        self._jobs.record_progress(session, self._claim, *progress, events)
                elif progress is not None:
                    signals = self._jobs.record_progress(session, self._claim, *progress, events)
                else:
                    signals = self._jobs.signals(session, self._claim)
        except BaseException:
            with self._lock:
                self._events = events + self._events
            raise
        if signals is None:
            self._lost = True
            return
        self._signals = signals
        if renewed:
            self._held_until = sent + self._jobs.lease_seconds
            self._next_heartbeat = sent + self._jobs.lease_seconds / 3
        with self._lock:
            if self._progress is progress:
                self._progress = None
