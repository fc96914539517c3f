"""The dispatcher against a real Postgres and a real broker, in this process."""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import redis
from server_support import wait_ready
from sqlalchemy import text, update
from worker_bench import JobTable, wait_for

from service.db.session import Database
from service.db.tables import JobRow
from service.dispatcher import WAITING, BrokerError, Dispatcher, Doorbells, NotificationListener
from service.jobs import dispatching
from service.jobs.claims import JobClaims
from service.jobs.doorbell import CHANNEL, QUEUE, TASK
from service.local.servers import RedisServer
from service.settings import Settings
from worker.transport import id_in


def client_of(url: str) -> redis.Redis:
    return redis.Redis(unix_socket_path=url.removeprefix("redis+socket://"))


def bells(broker: redis.Redis) -> list[str | None]:
    """Job ids that wait in the broker, first rung first."""
    return [id_in(json.loads(line)) for line in reversed(broker.lrange(QUEUE, 0, -1))]


@pytest.fixture
def table(database: Database) -> JobTable:
    return JobTable(database)


@pytest.fixture
def broker(broker_url: str) -> Iterator[redis.Redis]:
    with client_of(broker_url) as client:
        yield client


@pytest.fixture
def make(settings: Settings, database: Database) -> Iterator[Callable[..., Dispatcher]]:
    """Make a dispatcher that is not running."""
    doorbells: list[Doorbells] = []

    def run(**changes: object) -> Dispatcher:
        changed = settings.model_copy(update=changes)
        assert changed.broker_url is not None
        doorbells.append(Doorbells(changed.broker_url))
        return Dispatcher(changed, database, doorbells[-1])

    yield run
    for one in doorbells:
        one.reset()


@pytest.fixture
def run(make: Callable[..., Dispatcher], database: Database) -> Iterator[Callable[..., Dispatcher]]:
    """Make a dispatcher that runs until the end of the test."""
    running: list[tuple[Dispatcher, threading.Thread]] = []

    def start(**changes: object) -> Dispatcher:
        dispatcher = make(**changes)
        thread = threading.Thread(target=dispatcher.run)
        thread.start()
        running.append((dispatcher, thread))
        return dispatcher

    yield start
    for dispatcher, thread in running:
        dispatcher.stop()
        with database.transaction() as session:
            session.execute(text(f"NOTIFY {CHANNEL}"))  # it may wait for the next job for minutes
        thread.join(40)
        assert not thread.is_alive()


def test_a_doorbell_carries_the_id_and_nothing_else(
    make: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis
) -> None:
    job_id = table.enqueue("nothing", secret="4711")
    assert make().dispatch() == 1
    (line,) = broker.lrange(QUEUE, 0, -1)
    frame = json.loads(line)
    arguments, keywords, _ = json.loads(base64.b64decode(frame["body"]))
    assert (arguments, keywords) == ([job_id], {})
    assert (frame["headers"]["task"], frame["content-type"]) == (TASK, "application/json")
    assert b"4711" not in base64.b64decode(frame["body"]) + line


def test_jobs_are_rung_for_in_order_few_at_a_time_and_again_when_quiet(
    make: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "UNHEARD_SECONDS", 60.0)  # a busy machine may stand still for the one second
    jobs = [table.enqueue("nothing") for _ in range(11)]
    dispatcher = make(redispatch_seconds=60.0)
    assert dispatcher.dispatch() == 8
    assert bells(broker) == jobs[:8]
    assert dispatcher.dispatch() == 0  # the broker holds enough
    broker.delete(QUEUE)
    assert dispatcher.dispatch() == 3  # what was rung for lately may be on its way
    assert bells(broker) == jobs[8:]
    with table.database.transaction() as session:
        session.execute(update(JobRow).values(dispatched_at=text("now() - interval '60 seconds'")))
    assert dispatcher.dispatch() == 5
    assert bells(broker) == jobs[8:] + jobs[:5]


def test_a_job_that_is_handed_back_comes_before_those_rung_for_meanwhile(
    make: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis
) -> None:
    jobs = [table.enqueue("nothing") for _ in range(4)]
    dispatcher = make()
    lifecycle = JobClaims(30)
    assert dispatcher.dispatch() == 4
    broker.rpop(QUEUE)
    with table.database.transaction() as session:
        claim = lifecycle.claim(session, jobs[0])
        assert claim is not None
        assert lifecycle.release(session, claim, "the worker shuts down")
    assert dispatcher.dispatch() == 1
    assert bells(broker) == jobs


def test_a_doorbell_that_left_the_broker_without_a_claim_is_rung_again(
    make: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "UNHEARD_SECONDS", 60.0)  # a busy machine may stand still for the one second
    lost, waiting, crashed = (table.enqueue("nothing") for _ in range(3))
    dispatcher = make(redispatch_seconds=600.0)
    assert dispatcher.dispatch() == 3
    lifecycle = JobClaims(30)
    with table.database.transaction() as session:
        claim = lifecycle.claim(session, crashed)
        assert claim is not None
        assert lifecycle.attempt_crashed(session, claim, {"code": "process_killed", "message": ""})
    broker.delete(QUEUE)
    assert dispatcher.dispatch() == 0  # a worker has a moment to claim
    with table.database.transaction() as session:
        session.execute(update(JobRow).values(dispatched_at=text("dispatched_at - interval '60 seconds'")))
    assert dispatcher.dispatch() == 2  # and not the one that crashed, whose bell was heard
    assert bells(broker) == [lost, waiting]
    with table.database.transaction() as session:
        session.execute(update(JobRow).values(dispatched_at=text("dispatched_at - interval '60 seconds'")))
    broker.rpop(QUEUE)
    assert dispatcher.dispatch() == 0  # as long as there is one in the broker, all workers may be busy


def test_a_new_job_is_rung_for_at_once(run: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis) -> None:
    run(dispatch_seconds=300.0)  # without being told it would not look before that
    for _ in range(4):
        time.sleep(0.3)
        job_id = table.enqueue("nothing")
        wait_for(lambda job_id=job_id: job_id in bells(broker))  # type: ignore[misc]


def test_a_job_that_nobody_told_of_is_found(
    run: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis
) -> None:
    run(dispatch_seconds=0.2)
    time.sleep(0.5)
    job_id = table.enqueue("nothing")
    broker.delete(QUEUE)
    with table.database.transaction() as session:
        session.execute(update(JobRow).values(dispatched_at=None))
    wait_for(lambda: bells(broker) == [job_id])


def test_lost_workers_are_noticed(run: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis) -> None:
    lost, spent = table.enqueue("nothing"), table.enqueue("nothing", max_attempts=1)
    with table.database.transaction() as session:
        for job_id in (lost, spent):
            assert JobClaims(0.3).claim(session, job_id) is not None
    run(dispatch_seconds=0.2)
    wait_for(lambda: bells(broker) == [lost])
    assert table.row(lost).status == "queued"
    wait_for(lambda: table.row(spent).status == "failed")
    error = table.row(spent).error
    assert error is not None
    assert error["code"] == "worker_lost"


def waits(listener: NotificationListener) -> bool:
    work, messages = listener.ask(WAITING, {"lease": timedelta(seconds=30)})
    assert not messages
    return bool(work)


def test_it_looks_for_work_only_where_there_may_be_some(database: Database, table: JobTable) -> None:
    listener = NotificationListener(database)
    listener.wait(0)
    assert not waits(listener)
    job_id = table.enqueue("nothing")
    assert waits(listener)
    with database.transaction() as session:
        assert JobClaims(30).claim(session, job_id) is not None
    assert not waits(listener)
    with database.transaction() as session:
        session.execute(update(JobRow).values(lease_until=text("now() - interval '1 second'")))
    assert waits(listener)
    listener.close()


def test_it_survives_a_database_that_drops_every_connection(
    run: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis
) -> None:
    run(dispatch_seconds=0.2, lease_seconds=0.3)
    for _ in range(3):
        job_id = table.enqueue("nothing")
        wait_for(lambda job_id=job_id: job_id in bells(broker))  # type: ignore[misc]
        with table.database.transaction() as session:
            session.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                    "AND backend_type = 'client backend'"  # and not autovacuum, which is the superuser's
                )
            )


def test_it_survives_a_broker_that_restarts(
    run: Callable[..., Dispatcher], table: JobTable, own_broker: RedisServer
) -> None:
    run(broker_url=own_broker.url, dispatch_seconds=0.2)
    with client_of(own_broker.url) as client:
        jobs = [table.enqueue("nothing")]
        wait_for(lambda: bells(client) == jobs)
        for _ in range(2):
            own_broker.kill()
            jobs.append(table.enqueue("nothing"))
            time.sleep(0.4)
            own_broker.start()
            wait_ready(own_broker)
            # What the broker forgot may be rung for again at once.
            wait_for(lambda: jobs[-1] in bells(client))


def test_it_survives_a_key_of_another_kind(
    run: Callable[..., Dispatcher], table: JobTable, broker: redis.Redis
) -> None:
    broker.set(QUEUE, "not a list")
    run(dispatch_seconds=0.2)
    job_id = table.enqueue("nothing")
    time.sleep(0.6)
    broker.delete(QUEUE)
    wait_for(lambda: bells(broker) == [job_id])


@pytest.mark.slow
def test_a_frozen_broker_blocks_for_seconds_only(own_broker: RedisServer) -> None:
    doorbells = Doorbells(own_broker.url)
    assert doorbells.outstanding() == 0
    assert own_broker.process is not None
    os.kill(own_broker.process.pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(BrokerError):
        doorbells.ring("job_" + "0" * 32)
    assert time.monotonic() - started < 40  # a broken socket timeout is for ever
    doorbells.reset()
    os.kill(own_broker.process.pid, signal.SIGCONT)
    assert doorbells.outstanding() >= 0
    doorbells.reset()


def test_a_broker_that_would_throw_doorbells_away_is_told_of(
    own_broker: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        caplog.clear()
        doorbells = Doorbells(own_broker.url)
        doorbells.connect()
        assert doorbells.outstanding() == 0
        doorbells.reset()
        return [record.getMessage() for record in caplog.records if "maxmemory-policy" in record.getMessage()]

    assert said() == []
    with client_of(own_broker.url) as broker:
        broker.config_set("maxmemory-policy", "allkeys-lru")
        (warning,) = said()
        assert "should be noeviction and is allkeys-lru" in warning
        broker.execute_command("ACL SETUSER default -info")
        (warning,) = said()
        assert "is unknown" in warning
