"""Postgres that ends what stood still, or lets nobody write: like any other time in which it is away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from api_support import api_client
from sqlalchemy import text, update
from worker_bench import JobTable, wait_for

from service.db.session import AWAY, Database, trouble_of
from service.db.tables import JobRow
from service.jobs.claims import JobClaims
from service.jobs.dispatching import JobDispatching
from service.settings import Settings


def test_rows_of_a_frozen_process_are_free_again(database: Database, database_url: str) -> None:
    """What the frozen worker of this test holds: the row of its job, by a heartbeat without its COMMIT."""
    job_id = JobTable(database).enqueue("nothing")
    jobs = JobClaims(1.0)
    with database.transaction() as session:
        claim = jobs.claim(session, job_id)
    assert claim is not None
    frozen = Database(database_url, idle_transaction_seconds=2.0)
    with pytest.raises(AWAY), frozen.transaction() as session:  # noqa: PT012
        assert jobs.heartbeat(session, claim) is not None

        def requeued() -> Sequence[str]:
            with database.transaction() as other:
                return JobDispatching(1.0, 15).requeue_expired(other).requeued

        assert requeued() == []  # the row is locked
        wait_for(lambda: requeued() == [job_id])
        session.execute(update(JobRow).values(progress=1.0))
    assert JobTable(database).row(job_id).progress == 0.0
    with frozen.transaction() as session:  # nor is the pool the worse for it
        assert session.scalar(text("SELECT 1")) == 1
    frozen.close()


def test_the_limit_is_there_by_default(database: Database) -> None:
    with database.transaction() as session:
        assert session.scalar(text("SHOW idle_in_transaction_session_timeout")) == "30s"


def test_a_statement_that_takes_too_long_is_ended(database_url: str) -> None:
    """Backends went on for minutes after their callers had gone, until there was no connection left."""
    impatient = Database(database_url, statement_seconds=0.2)
    with pytest.raises(AWAY) as raised, impatient.transaction() as session:
        session.execute(text("SELECT pg_sleep(20)"))
    assert trouble_of(raised.value) == "the database ended a statement that took too long"
    with impatient.transaction() as session:
        assert session.scalar(text("SELECT 1")) == 1
    impatient.close()


def test_statements_for_callers_of_the_api_have_a_limit(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that somebody holds is one way to be slow."""
    monkeypatch.setattr("service.app.STATEMENT_SECONDS", 0.3)
    with api_client(settings) as client, database.transaction() as session:
        session.execute(text("LOCK TABLE datasets IN ACCESS EXCLUSIVE MODE"))
        answer = client.get("/datasets", timeout=10)
    assert answer.status_code == 503
    assert "try again" in answer.json()["detail"]


def test_a_replica_counts_as_away(database: Database) -> None:
    job_id = JobTable(database).enqueue("nothing")
    with pytest.raises(AWAY), database.transaction() as session:  # noqa: PT012
        session.execute(text("SET TRANSACTION READ ONLY"))
        session.execute(update(JobRow).values(progress=1.0))
    assert JobTable(database).row(job_id).progress == 0.0


def test_a_connection_that_a_thread_still_uses_is_closed_when_it_is_given_back(database_url: str) -> None:
    """As when the API stops while somebody writes what was used: nothing may be left to the garbage collector."""
    ending = Database(database_url)
    with ending.engine.connect() as connection:
        late = connection.connection.driver_connection
        assert late is not None
        ending.close()
        assert connection.scalar(text("SELECT 1")) == 1
    assert late.closed
