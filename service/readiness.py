"""Is everything there that a request may need? Asked by ``GET /readyz``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import redis
from anyio import CapacityLimiter, sleep, to_thread
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import text

from service.db import revision
from service.db.session import AWAY, Database, trouble_of
from service.db.tables import DEFAULT_PROJECT

log = logging.getLogger("prefsvm.readiness")

CHECK_SECONDS = 2.0
MIGRATION_LOOK_SECONDS = 0.5
LISTENING = "brpop"
"""The broker command by which a worker waits for doorbells, and the last one of a worker that is busy."""

PATIENCE_SECONDS = 60.0
"""A job that waits for longer than this while a worker is idle is a sign of trouble."""
DEFAULT_IS_SEEN = text("SELECT count(*) = 1 FROM projects WHERE id = :id")
HAS_JOBS = text("SELECT to_regclass('jobs')")
WAITING = text(
    """
    SELECT max(extract(epoch FROM now() - created_at))
             FILTER (WHERE status = 'queued' AND dispatched_at IS NOT NULL
                       AND created_at < now() - make_interval(secs => :patience)),
           count(*) FILTER (WHERE status = 'running')
      FROM jobs WHERE status IN ('queued', 'running')
    """
)


@dataclass(frozen=True)
class Check:
    """One part that was looked at.

    Parameters
    ----------
    ok : bool
    decides : bool
        Whether the service counts as not ready without it.
    detail : str
        One sentence; empty if all is well.
    """

    ok: bool
    decides: bool
    detail: str


@dataclass(frozen=True)
class ReadinessReport:
    """What was found.

    Parameters
    ----------
    checks : dict of str to Check
    workers : int or None
        How many listen for jobs, busy ones among them; None if the broker did not say.
    """

    checks: dict[str, Check]
    workers: int | None

    @property
    def ready(self) -> bool:
        """Whether requests can be served. Without a worker they can: jobs wait for one."""
        return all(check.ok for check in self.checks.values() if check.decides)


class Readiness:
    """Looks at Postgres, the migrations, the broker, the workers and the queue, each for two seconds at most.

    Parameters
    ----------
    database : Database
        For callers; it is only asked to answer.
    system : Database
        Shows all projects.
    broker_url : str or None
    """

    def __init__(self, database: Database, system: Database, broker_url: str | None) -> None:
        self._database = database
        self._system = system
        self._broker_url = broker_url
        self._head = revision.head()
        # A frozen server holds its thread until it thaws: these threads are few, and no other call uses them.
        self._threads = CapacityLimiter(8)

    async def report(self) -> ReadinessReport:
        """Look at each part."""
        workers: list[int] = []

        def worker_problem() -> str:
            if self._broker_url is None:
                return "PREFSVM_BROKER_URL is not set"
            workers.append(self._listening(self._broker_url))
            return "" if workers[0] else "no worker listens; jobs wait"

        looks: dict[str, tuple[Callable[[], str], bool]] = {
            "database": (self._database_problem, True),
            "migrations": (self._migrations_problem, True),
            "broker": (self._broker_problem, True),
            "worker": (worker_problem, False),
            "queue": (self._queue_problem, False),
        }
        checks = await asyncio.gather(*(self._look(look, decides) for look, decides in looks.values()))
        return ReadinessReport(dict(zip(looks, checks, strict=True)), workers[0] if workers else None)

    async def _look(self, look: Callable[[], str], decides: bool) -> Check:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                problem = await to_thread.run_sync(look, limiter=self._threads, abandon_on_cancel=True)
        except TimeoutError:
            problem = f"no answer within {CHECK_SECONDS:g} s"
        except Exception as error:  # whatever it is, the part cannot be used
            problem = f"does not answer ({type(error).__name__})"
        return Check(ok=not problem, decides=decides, detail=problem)

    def _database_problem(self) -> str:
        self._database.ping()
        return ""

    def _migrations_problem(self) -> str:
        with self._system.engine.connect() as connection:
            found = revision.current(connection)
            if found != self._head:
                return f"at revision {found}, expected {self._head}; run `prefsvm migrate`"
            if not connection.scalar(DEFAULT_IS_SEEN, {"id": DEFAULT_PROJECT}):
                return "the role of PREFSVM_SYSTEM_DATABASE_URL must be one that sees all projects: docs/production.md"
        return ""

    def _broker_problem(self) -> str:
        if self._broker_url is None:
            return "PREFSVM_BROKER_URL is not set"
        with broker_client(self._broker_url) as client:
            client.ping()
        return ""

    def _queue_problem(self) -> str:
        with self._system.transaction() as session:
            if session.scalar(HAS_JOBS) is None:  # Postgres would log an error each time that somebody looks
                return "there is no table of jobs yet"
            waited, running = session.execute(WAITING, {"patience": PATIENCE_SECONDS}).one()
        if waited is None or self._broker_url is None or self._listening(self._broker_url) <= running:
            return ""
        return f"a job has waited for {waited:.0f} s although a worker is idle"

    def _listening(self, broker_url: str) -> int:
        """Return how many workers hear doorbells, busy ones among them."""
        with broker_client(broker_url) as client:
            ours = str(client.get_connection_kwargs().get("db") or 0)  # others may use other databases of the server
            return sum((entry["cmd"], entry["db"]) == (LISTENING, ours) for entry in client.client_list())


async def until_migrated(database: Database) -> None:
    """Wait until the tables are there: on the first start the API runs before the migration has made them."""

    def is_migrated() -> bool:
        with database.engine.connect() as connection:
            return revision.is_new_enough(connection)

    said = ""
    while True:
        try:
            if await to_thread.run_sync(is_migrated, abandon_on_cancel=True):
                return
            level, trouble = logging.INFO, "the database is not migrated yet"
        except AWAY as error:
            level, trouble = logging.WARNING, trouble_of(error)
        except Exception:
            log.exception("whether the database is migrated cannot be told")  # a defect here must not end the API
            return
        if trouble != said:
            log.log(level, "old data and uploads wait: %s", trouble)
            said = trouble
        await sleep(MIGRATION_LOOK_SECONDS)


def broker_client(url: str) -> redis.Redis:
    """Return a client that gives up fast, for the addresses that Celery takes."""
    if url.startswith("redis+socket://"):
        url = "unix://" + url.removeprefix("redis+socket://")
    return redis.Redis.from_url(
        url, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0), single_connection_client=True
    )
