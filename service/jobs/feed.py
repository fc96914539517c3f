"""The events of jobs as they come, for any number of listeners in one API process.

One task looks into the database for all of them: a listener costs neither a connection nor a thread while it waits.
Nothing is lost between two looks, because everyone who writes an event of a job holds the lock of its row; so events of
one job become visible in the order of their ids.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from anyio import CapacityLimiter, to_thread

from service.db.session import AWAY, Database, trouble_of
from service.jobs.errors import TooManyFollowers
from service.jobs.repository import events_after
from service.jobs.schemas import JobEvent

log = logging.getLogger("prefsvm.events")

POLL_SECONDS = 0.5
MOST_EVENTS = 1000
"""Events that one look takes in; it is followed by another one at once if there were as many."""
MOST_FOLLOWERS = 128
"""Of one API process: they must leave room for calls that are answered at once."""
LONGEST_SECONDS = 900.0
"""After so long a follower has to come again, and to show a key that is good still."""
LAST_KIND = "finished"
"""No event comes after one of this kind."""


@dataclass(eq=False)
class _Follower:
    job_id: str
    after: int
    events: list[JobEvent] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class EventFeed:
    """Hands out events of jobs. Make one a process, and let `run` run as long as there may be listeners."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers: set[_Follower] = set()
        self._somebody = asyncio.Event()
        self._thread = CapacityLimiter(1)
        self._closed = False

    def close(self) -> None:
        """End all that is followed: the process is about to stop."""
        self._closed = True
        for follower in self._followers:
            follower.news.set()

    @contextmanager
    def follow(self, job_id: str, after: int, idle_seconds: float) -> Iterator[AsyncIterator[Sequence[JobEvent]]]:
        """Give the events of a job with a larger id than `after` as they come, until it has ended.

        Ends before that when the process is about to stop, and after `LONGEST_SECONDS`. Gives nothing at all (an empty
        sequence) each time that nothing came for `idle_seconds`. Enter it on the event loop: followers are counted
        there and nowhere else, so there are never more than may be.

        Raises
        ------
        TooManyFollowers
            When it is entered, if this process has enough of them.
        """
        if len(self._followers) >= MOST_FOLLOWERS:
            raise TooManyFollowers(f"{MOST_FOLLOWERS} clients follow jobs here already; ask for the events as JSON")
        follower = _Follower(job_id, after)
        self._followers.add(follower)
        self._somebody.set()
        try:
            yield self._coming(follower, idle_seconds)
        finally:
            self._followers.discard(follower)

    async def _coming(self, follower: _Follower, idle_seconds: float) -> AsyncIterator[Sequence[JobEvent]]:
        end = time.monotonic() + LONGEST_SECONDS
        while not self._closed and time.monotonic() < end:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(idle_seconds, max(0.0, end - time.monotonic()))):
                    await follower.news.wait()
            follower.news.clear()
            events, follower.events = follower.events, []
            yield events
            if events and events[-1].kind == LAST_KIND:
                return

    async def run(self) -> None:
        """Look into the database as long as there is anybody to tell."""
        away = False
        while True:
            if not self._followers:
                self._somebody.clear()
                await self._somebody.wait()
            after: dict[str, int] = {}
            for follower in self._followers:
                after[follower.job_id] = min(follower.after, after.get(follower.job_id, follower.after))
            try:
                found = await to_thread.run_sync(self._look, after, limiter=self._thread)
            except AWAY as error:
                if not away:
                    log.warning(trouble_of(error))
                away, found = True, []
            except Exception:
                log.exception("no events were read")  # a defect here must not end the API
                found = []
            else:
                away = False
            self._hand_out(found)
            if len(found) < MOST_EVENTS:
                self._somebody.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._somebody.wait()

    def _look(self, after: dict[str, int]) -> list[tuple[str, JobEvent]]:
        with self._database.transaction() as session:
            rows = events_after(session, after, MOST_EVENTS)
        return [(row.job_id, JobEvent.model_validate(row, extra="ignore")) for row in rows]

    def _hand_out(self, found: Sequence[tuple[str, JobEvent]]) -> None:
        by_job: dict[str, list[JobEvent]] = {}
        for job_id, event in found:
            by_job.setdefault(job_id, []).append(event)
        for follower in self._followers:
            news = [event for event in by_job.get(follower.job_id, ()) if event.id > follower.after]
            if news:
                follower.events += news
                follower.after = news[-1].id
                follower.news.set()
