"""No doorbell waits in a busy worker while another worker is idle.

Celery fetches one message ahead. With ``worker_disable_prefetch`` it asks the broker only while a slot is free; but it
would notice that a slot became free up to a second late, because its event loop sleeps meanwhile. So the loop is woken.
"""

from __future__ import annotations

import os
from typing import Any

from celery import bootsteps

LET_GO_SECONDS = (0.003, 0.03)
"""Celery frees the slot of a task about a millisecond after its function has returned; a busy machine takes longer."""


class SlotWakeup:
    """A pipe that wakes the event loop of the worker when a job has ended, or when the worker shall end."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(self) -> None:
        """Say that a slot becomes free; can be called from any thread."""
        try:
            os.write(self._writing, b"\0")
        except BlockingIOError:
            return  # It is full: the loop is to wake anyway.

    def consumer_step(self) -> type[Any]:
        """Return the step of Celery's consumer that listens, again after each reconnect."""
        reading = self._reading

        def hear(hub: Any) -> None:
            try:
                os.read(reading, 4096)
            except BlockingIOError:
                return
            # Each turn of the loop looks whether there is room for a message: it only has to turn.
            for seconds in LET_GO_SECONDS:
                hub.call_later(seconds, lambda: None)

        class Step(bootsteps.StartStopStep):  # type: ignore[misc]
            requires = ("celery.worker.consumer.tasks:Tasks",)

            def start(self, parent: Any) -> None:
                parent.hub.add_reader(reading, hear, parent.hub)

            def stop(self, parent: Any) -> None:
                parent.hub.remove(reading)

        return Step
