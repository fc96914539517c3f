"""Ring for queued jobs, and look after those whose worker was lost: outbox and reconciler in one.

Beside that, and apart from it, its process sends the messages of webhooks.

Run as ``python -m service.dispatcher``. It is the only publisher of Celery messages. It may be killed at any moment and
any number of them may run: a doorbell that is lost is rung again, one that is doubled wakes a worker for nothing.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Any, LiteralString

import psycopg
from celery import Celery, group
from kombu.exceptions import KombuError
from kombu.messaging import Producer
from redis.exceptions import RedisError, ResponseError

from service.db.session import TROUBLE, Database, trouble_of
from service.faults import fault
from service.isolation import hide_secrets
from service.jobs.dispatching import OPEN_WORK, JobDispatching
from service.jobs.doorbell import CHANNEL, PART_QUEUE, PART_TASK, QUEUE, TASK, celery_settings
from service.jobs.part_dispatching import PartDispatching
from service.memory import keep_one_heap, settle
from service.settings import Settings
from service.webhooks.outbox import DUE_MESSAGES
from service.webhooks.sender import WebhookSender

log = logging.getLogger("prefsvm.dispatcher")

DATABASE_ERRORS: tuple[type[Exception], ...] = (*TROUBLE, psycopg.Error)
WAITING: LiteralString = f"SELECT ({OPEN_WORK}), ({DUE_MESSAGES})"
"""Its parameter ``lease``, an interval, is the longest that a worker takes: if one ends later, the clock went back."""
SENDER_SECONDS = 10.0
"""How often the sender looks for messages by itself; it is woken when there are any."""


class BrokerError(Exception):
    """The broker cannot be reached, or refused a command. The message never holds its address."""


@contextmanager
def _broker_errors() -> Iterator[None]:
    """Turn what redis-py, kombu and sockets raise into `BrokerError`."""
    try:
        yield
    except (RedisError, KombuError, OSError) as error:
        raise BrokerError(type(error).__name__) from error


class Doorbells:
    """The broker, as far as the dispatcher knows it: it can ring, and count what nobody has heard yet."""

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("prefsvm", set_as_current=False)
        self._app.conf.update(celery_settings(broker_url))
        self._producer: Producer | None = None

    def _connected(self) -> Producer:
        if self._producer is None:
            # One connection of our own and not Celery's pool: that can be closed for good but not emptied.
            self._producer = self._app.amqp.Producer(self._app.connection_for_write(), auto_declare=False)
            self._warn_if_it_evicts(self._producer.channel.client)
        return self._producer

    @staticmethod
    def _warn_if_it_evicts(client: Any) -> None:
        """Warn of a broker that throws doorbells away instead of refusing them: publishing goes on to look well."""
        try:
            policy = client.info("memory").get("maxmemory_policy", "unknown")
        except ResponseError:
            policy = "unknown"  # we may not ask
        if policy != "noeviction":
            log.warning(
                "the broker's maxmemory-policy should be noeviction and is %s: jobs may start late when it is full",
                policy,
            )

    def connect(self) -> None:
        """Load and open what the first doorbell needs, which takes most of a second; raises `BrokerError`."""
        with _broker_errors():
            self._app.finalize()
            self._connected().channel.client.ping()

    def outstanding(self) -> int:
        """Return the number of messages that wait in the broker.

        Raises
        ------
        BrokerError
            If the broker cannot be reached or answers with an error.
        """
        with _broker_errors():
            return int(self._connected().channel.client.llen(QUEUE))

    def ring(self, job_id: str, *, first: bool = False) -> None:
        """Send one doorbell; with `first` it is heard before those that wait already.

        Raises
        ------
        BrokerError
            If the broker did not take it within the socket timeouts (5 s; 2 s to connect).
        """
        with _broker_errors():
            self._app.send_task(
                TASK, args=[job_id], queue=QUEUE, ignore_result=True, retry=False, producer=self._connected()
            )
            if first:
                # New messages are put in at the left and taken out at the right. Should a worker have been quicker,
                # another bell moves up: that changes who comes first, and nothing else.
                self._connected().channel.client.lmove(QUEUE, QUEUE, "LEFT", "RIGHT")

    def ring_for_parts(self, part_ids: Sequence[str]) -> None:
        """Send a doorbell for each of these parts, as one canvas.

        Raises
        ------
        BrokerError
            As `ring` does; some may have been sent.
        """
        bells = group(
            self._app.signature(PART_TASK, args=[part_id], immutable=True, ignore_result=True) for part_id in part_ids
        )
        with _broker_errors():
            bells.apply_async(queue=PART_QUEUE, retry=False, producer=self._connected())

    def reset(self) -> None:
        """Drop the connection; the next call opens a new one."""
        if self._producer is not None:
            self._producer.connection.collect()
            self._producer = None


class NotificationListener:
    """A connection of its own that hears notifications, opened again whenever it is lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection | None = None

    def wait(self, seconds: float) -> None:
        """Return as soon as somebody notifies, or after `seconds`.

        Raises
        ------
        psycopg.Error or sqlalchemy.exc.DBAPIError
            If the connection is lost or cannot be opened.
        """
        try:
            if self._connection is None:
                self._connection = self._open()
                return  # What was notified before is not heard: look at the rows first.
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                pass
        except DATABASE_ERRORS:
            self.close()
            raise

    def ask(self, query: LiteralString, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the row that answers a question; asked here it costs one round trip and no transaction.

        Raises
        ------
        psycopg.Error
            If the connection is lost.
        """
        assert self._connection is not None  # noqa: S101 (`wait` has opened it)
        try:
            row = self._connection.execute(query, parameters).fetchone()
        except psycopg.Error:
            self.close()
            raise
        assert row is not None  # noqa: S101 (for the type checker)
        return row

    def _open(self) -> psycopg.Connection:
        # Through the engine, so that it has the same address and timeouts as every other connection.
        pooled = self._database.engine.raw_connection()
        connection = pooled.driver_connection
        pooled.detach()
        assert isinstance(connection, psycopg.Connection)  # noqa: S101 (for the type checker)
        connection.autocommit = True
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def close(self) -> None:
        """Close the connection; the next `wait` opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Dispatcher:
    """One pass after another: expired leases, then doorbells.

    Parameters
    ----------
    settings : Settings
        `dispatch_seconds`, `redispatch_seconds`, `lease_seconds` and `worker_slots` are used.
    database : Database
    doorbells : Doorbells
    wake_sender : callable, optional
        Called when messages for webhooks are due.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        doorbells: Doorbells,
        wake_sender: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._doorbells = doorbells
        self._wake_sender = wake_sender
        self._jobs = JobDispatching(settings.lease_seconds, settings.redispatch_seconds)
        self._parts = PartDispatching(settings.lease_seconds, settings.redispatch_seconds)
        self._listener = NotificationListener(database)
        self._lease = timedelta(seconds=settings.lease_seconds)
        self._stopping = threading.Event()
        self._next_reconcile = 0.0
        self._next_sweep = 0.0
        self._most_outstanding = max(8, 2 * settings.worker_slots)
        """Doorbells in the broker at most: the order of the jobs is decided here and not there."""

    def stop(self) -> None:
        """Make `run` return after the pass it is in."""
        self._stopping.set()

    def run(self) -> None:
        """Work until `stop`, through restarts of Postgres and of the broker."""
        failing = ""
        while not self._stopping.is_set():
            trouble = ""
            try:
                self._listener.wait(self._settings.dispatch_seconds)
                work, messages = self._listener.ask(WAITING, {"lease": self._lease})
                if messages:
                    self._wake_sender()
                if work:
                    # Notifications may come by the hundred; lost workers are not in such a hurry.
                    if time.monotonic() >= self._next_reconcile:
                        self.reconcile()
                        self._next_reconcile = time.monotonic() + self._settings.dispatch_seconds
                    self.dispatch()
            except DATABASE_ERRORS as error:
                trouble = trouble_of(error)
                # While the database was away nobody could renew a lease or write a result: let them, before judging.
                self._next_reconcile = time.monotonic() + self._settings.lease_seconds / 3
            except BrokerError as error:
                trouble = f"the broker does not answer ({error})"
                self._doorbells.reset()
            if trouble != failing:
                log.warning("%s", trouble or "all is well again")
                failing = trouble
            if trouble:
                self._stopping.wait(self._settings.dispatch_seconds)
        self._listener.close()

    def reconcile(self) -> None:
        """Requeue or fail the jobs of lost workers, and end cancelled jobs that nobody runs."""
        with self._database.transaction() as session:
            changed = self._jobs.requeue_expired(session)
            if time.monotonic() >= self._next_sweep:
                self._parts.sweep(session)
                self._next_sweep = time.monotonic() + self._settings.lease_seconds / 3
        for what, job_ids in vars(changed).items():
            for job_id in job_ids:
                log.warning("%s: %s after its worker was lost or it was cancelled", job_id, what)

    def dispatch(self) -> int:
        """Ring for jobs that are due, as many as there is room for in the broker. Returns how often it rang.

        If there are none, for parts of running jobs, as many as workers are idle.
        """
        outstanding = self._doorbells.outstanding()
        room = self._most_outstanding - outstanding
        if room <= 0:
            return 0  # Jobs wait, so that there is nobody to help with parts, either.
        with self._database.transaction() as session:
            due = self._jobs.due_for_dispatch(session, self._most_outstanding)
            parts = [] if due else self._parts.due_for_dispatch(session)
        if parts:
            self._dispatch_parts(parts)
        # What was rung for and not heard is still in the broker, unless that is empty.
        due = [bell for bell in due if outstanding == 0 or not bell.unheard][:room]
        if not due:
            return 0
        rung = 0
        try:
            for bell in due:
                fault("before_ring")
                self._doorbells.ring(bell.job_id, first=bell.first)
                rung += 1
                fault("after_ring")
        finally:
            # Rung first, noted afterwards: a kill in between doubles a doorbell instead of losing it.
            with self._database.transaction() as session:
                self._jobs.mark_dispatched(session, due[:rung])
            fault("after_mark_dispatched")
        return rung

    def _dispatch_parts(self, part_ids: Sequence[str]) -> None:
        fault("before_ring_for_parts")
        self._doorbells.ring_for_parts(part_ids)
        with self._database.transaction() as session:
            self._parts.mark_dispatched(session, part_ids)


def main() -> None:
    """Run a dispatcher with the settings of the environment until SIGTERM or SIGINT."""
    hide_secrets()
    keep_one_heap()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = Settings()
    if settings.database_url is None or settings.broker_url is None:
        raise SystemExit("PREFSVM_DATABASE_URL and PREFSVM_BROKER_URL must be set")
    database = Database(settings.database_url, pool_size=2, application_name="prefsvm-dispatcher")
    doorbells = Doorbells(settings.broker_url)
    # Connections of its own: however slow the receivers are, no job waits for them.
    outbox = Database(settings.database_url, pool_size=2, application_name="prefsvm-webhooks")
    sender = WebhookSender(outbox, allow_private=settings.webhook_private, poll_seconds=SENDER_SECONDS)
    dispatcher = Dispatcher(settings, database, doorbells, sender.wake)
    sending = threading.Thread(target=sender.run, name="webhooks")

    def stop(_number: int, _frame: FrameType | None) -> None:
        dispatcher.stop()
        sender.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with suppress(BrokerError):
        doorbells.connect()
    settle()
    sending.start()
    log.info("ready")
    try:
        dispatcher.run()
    finally:
        sender.stop()
        sending.join()
    doorbells.reset()
    database.close()
    outbox.close()


if __name__ == "__main__":
    main()
