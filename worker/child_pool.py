"""Child processes for jobs, one of which is always kept ready.

Each child runs one job and ends, which gives back all its memory whatever the job did.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from worker.children import Child, ChildFactory, ChildGoneError

log = logging.getLogger("prefsvm.worker")

WARM_UP_SECONDS = 300.0
"""A child that is not ready by then is given up. The first one on a machine compiles the solver."""
STUCK_SECONDS = 10.0
"""A fork takes milliseconds: what makes none in this time, and has made some before, hangs and is replaced."""
MOST_SPARES = 2
BUSY_SECONDS = 10.0
"""For so long after somebody waited for a child, two are kept warm instead of one: there are many short jobs."""
UNDISTURBED_SECONDS = 3.0
"""For so long a job has the processors to itself, unless somebody waits for a child: where each one makes itself ready,
because of a GPU, that takes seconds of processor time."""
RETRY_SECONDS = 2.0
"""Pause after a child that could not be made ready."""
MOST_FAILED_STARTS = 3
"""After so many children that could not be made ready, one after the other, who waits for one is told so."""


class NoChildError(Exception):
    """Raised when children end, again and again, before they are ready for a job."""


class ChildPool:
    """Keeps one child warm, and for a while two of them after somebody had to wait for one.

    The next one is made ready when the job of the last one has ended or has run for `UNDISTURBED_SECONDS`, or as soon
    as somebody waits for it.

    Parameters
    ----------
    runner : str
        Name of the module that does the work in the child.
    slots : int
        Jobs that run side by side in this worker.
    online : bool, default=False
        Whether the children need the network to read their rows.
    writable : Path, optional
        As for `ChildFactory`.
    """

    def __init__(self, runner: str, slots: int, online: bool = False, writable: Path | None = None) -> None:
        self._factory = ChildFactory(runner, slots, online, writable)
        self._changed = threading.Condition()
        self._spares: list[Child] = []
        self._starting = 0
        self._two_until = 0.0
        self._undisturbed_until = 0.0
        self._failed_starts = 0
        """Since the worker began; who waits for a child compares it with what it was when the wait began."""
        self.numerics = ""
        """Where this is the same, the same computation gives the same bits; empty until a child was warm."""
        self._closed = False
        # Threads that live as long as the worker, because processes die with the thread that started them.
        self._threads = [
            threading.Thread(target=self._keep_warm, name=f"spare-{number}", daemon=True)
            for number in range(MOST_SPARES)
        ]
        for thread in self._threads:
            thread.start()

    def take(self, give_up: Callable[[], bool]) -> Child | None:
        """Return a warm child, waiting for one if need be; None once `give_up` returns True.

        Raises
        ------
        NoChildError
            If `MOST_FAILED_STARTS` children could not be made ready while this waited.
        """
        failed_before = self._failed_starts
        while not give_up():
            with self._changed:
                if not self._spares:
                    if self._failed_starts - failed_before >= MOST_FAILED_STARTS:
                        raise NoChildError
                    self._two_until = time.monotonic() + BUSY_SECONDS
                    self._changed.notify_all()
                    self._changed.wait(0.2)
                    continue
                child = self._spares.pop(0)
                self._undisturbed_until = time.monotonic() + UNDISTURBED_SECONDS
                self._changed.notify_all()
            if child.exit_status(0.0) is None:
                return child
            child.end()
        return None

    def job_ended(self) -> None:
        """Tell that the processors are free to make the next child ready."""
        with self._changed:
            self._undisturbed_until = 0.0
            self._changed.notify_all()

    def close(self) -> None:
        """Kill the spare children and start no other."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(15)
        for child in self._spares:
            child.end()
        self._factory.end()

    def compiled(self) -> float:
        """Return how much of what has to be compiled before the first child is, from 0 to 1; 0 once there was one."""
        return 0.0 if self.numerics else self._factory.compiled()

    @property
    def is_warm(self) -> bool:
        """Whether a child waits for a job."""
        return bool(self._spares)

    def _is_wanted(self) -> bool:
        now = time.monotonic()
        if now < self._two_until:
            return len(self._spares) + self._starting < MOST_SPARES
        return now >= self._undisturbed_until and not self._spares and not self._starting

    def _keep_warm(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_wanted():
                    undisturbed = self._undisturbed_until - time.monotonic()
                    self._changed.wait(undisturbed if undisturbed > 0 else None)
                if self._closed:
                    return
                self._starting += 1
            child = self._start()
            with self._changed:
                if child is None:
                    self._failed_starts += 1
                    self._changed.wait_for(lambda: self._closed, RETRY_SECONDS)
                else:
                    self._spares.append(child)
                self._starting -= 1
                self._changed.notify_all()

    def _start(self) -> Child | None:
        """Start a child and wait until it is warm; None if that failed."""
        try:
            child = self._factory.make()
        except OSError as error:
            log.error("no child process can be started: %s", error)
            return None
        started = time.monotonic()
        try:
            while not self._closed and time.monotonic() < started + WARM_UP_SECONDS:
                # Read first: if this process was stopped for a while, what was said meanwhile lies there.
                message = child.read(0.2)
                if message is not None and message["type"] == "ready":
                    self.numerics = str(message.get("numerics", ""))
                    return child
                if child.of_warm_server and not child.has_started and time.monotonic() > started + STUCK_SECONDS:
                    log.error("the process that children are forked from hangs; it is started anew")
                    break
        except ChildGoneError:
            log.error("a child process ended before it was ready (status %s)", child.exit_status(5.0))
        child.end()
        if not child.has_started:  # What it would have been forked from is stuck, or has ended.
            self._factory.replace_server_of(child)
        return None
