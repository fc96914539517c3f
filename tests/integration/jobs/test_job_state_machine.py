"""Random histories of one job with two workers, a dispatcher, a user and a clock that jumps, on a real Postgres."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Connection, Row, bindparam, cast, delete, func, select
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.orm import Session
from standin.bare_report import bare_report
from worker_bench import JobTable

from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, JobEventRow, JobRow, ModelRow
from service.identifiers import new_id
from service.jobs.claims import Claim, Event, JobClaims
from service.jobs.dispatching import JobDispatching
from service.jobs.repository import JobRepository
from service.models.storing import FinishedModel
from worker.kinds.training import finish_with_model

LEASE = 30.0
ENDS = ("succeeded", "failed", "cancelled")
WORKERS = st.sampled_from(["one", "two"])
ERROR = {"code": "process_killed", "message": "killed"}


def machine(
    database: Database, doing: Connection, looking: Connection, model_path: Path
) -> type[RuleBasedStateMachine]:
    model_path.write_bytes(b"model")
    digest = hashlib.sha256(b"model").hexdigest()
    wanted = bindparam("job_id")
    finished = (JobEventRow.job_id == wanted, JobEventRow.kind == "finished")
    look = select(
        JobRow.status,
        JobRow.attempt,
        JobRow.max_attempts,
        JobRow.lease_until,
        JobRow.cancel_requested_at,
        JobRow.cancel_keep_best,
        JobRow.progress,
        select(func.count()).where(ModelRow.job_id == wanted).scalar_subquery().label("models"),
        select(func.count()).where(*finished).scalar_subquery().label("finished"),
    ).where(JobRow.id == wanted)

    class Jobs(RuleBasedStateMachine):
        steps = 0

        @initialize(max_attempts=st.integers(1, 6))
        def enqueue(self, max_attempts: int) -> None:
            # What earlier histories left open would slow this one down.
            self.do(lambda session: session.execute(delete(JobRow)))
            self.clock = datetime.now(UTC)
            moment = bindparam("clock", callable_=lambda: self.clock)
            now = cast(moment, TIMESTAMP(timezone=True))
            self.jobs = JobClaims(LEASE, now)
            self.dispatching = JobDispatching(LEASE, 15, now)
            self.new_job(max_attempts)

        def new_job(self, max_attempts: int) -> None:
            self.job_id = JobTable(database).enqueue("nothing", max_attempts=max_attempts)
            self.claims: dict[str, Claim] = {}
            self.ended: str | None = None
            self.attempt = 0

        def do(self, action: Callable[..., Any], *arguments: Any) -> Any:
            with Session(doing, expire_on_commit=False) as session, session.begin():
                return action(session, *arguments)

        @property
        def row(self) -> Row[Any]:
            return looking.execute(look, {"job_id": self.job_id}).one()

        def model(self) -> FinishedModel:
            return FinishedModel(new_id("mdl"), "svm", {}, bare_report(), model_path, 5, digest)

        @precondition(lambda self: self.ended is None)
        @rule(seconds=st.sampled_from([1, 10, 29, 31, 100, -3600]))
        def time_passes(self, seconds: int) -> None:
            self.clock += timedelta(seconds=seconds)

        @precondition(lambda self: self.ended is not None)
        @rule(max_attempts=st.integers(1, 6))
        def another_job(self, max_attempts: int) -> None:
            self.new_job(max_attempts)

        @precondition(lambda self: self.ended is None)
        @rule(worker=WORKERS)
        def take_over(self, worker: str) -> None:
            """What makes late writers: a lease runs out and the other worker comes."""
            self.time_passes(31)
            self.claim(worker)

        @precondition(lambda self: self.ended is None)
        @rule(worker=WORKERS)
        def claim(self, worker: str) -> None:
            before = self.row
            claim = self.do(self.jobs.claim, self.job_id)
            if claim is not None:
                assert before.status == "queued" or before.lease_until < self.clock
                assert before.cancel_requested_at is None
                assert claim.attempt == before.attempt + 1 <= before.max_attempts
                self.claims[worker] = claim

        @precondition(lambda self: self.claims)
        @rule(worker=WORKERS)
        def heartbeat(self, worker: str) -> None:
            if claim := self.claims.get(worker):
                signals = self.do(self.jobs.heartbeat, claim)
                row = self.row
                assert (signals is not None) == (row.status == "running" and row.attempt == claim.attempt)
                assert signals is None or row.lease_until == self.clock + timedelta(seconds=LEASE)

        @precondition(lambda self: self.claims)
        @rule(worker=WORKERS, fraction=st.floats(0, 1))
        def progress(self, worker: str, fraction: float) -> None:
            if claim := self.claims.get(worker):
                held = self.do(self.jobs.record_progress, claim, "training", fraction, [Event("progress", {})])
                assert not held or self.row.progress == fraction

        @precondition(lambda self: self.claims)
        @rule(worker=WORKERS, how=st.sampled_from(["succeeded", "failed", "cancelled"]))
        def finish(self, worker: str, how: str) -> None:
            if claim := self.claims.get(worker):
                before = self.row
                end, *arguments = {
                    "succeeded": [partial(finish_with_model, self.jobs), self.model()],
                    "failed": [self.jobs.finish_failed, ERROR],
                    "cancelled": [self.jobs.finish_cancelled],
                }[how]
                written = self.do(end, claim, *arguments)
                held = before.status == "running" and before.attempt == claim.attempt
                done_before = before.status == how and before.attempt == claim.attempt
                is_to_end = held and before.cancel_requested_at is not None and not before.cancel_keep_best
                ended_so = before.status == "cancelled" and before.attempt == claim.attempt
                if how == "succeeded" and (is_to_end or ended_so):
                    assert written == "cancelled"
                else:
                    assert written == (held or done_before)

        @precondition(lambda self: self.claims)
        @rule(worker=WORKERS, how=st.sampled_from(["crash", "release", "postpone"]))
        def give_back(self, worker: str, how: str) -> None:
            if claim := self.claims.get(worker):
                before = self.row
                if how == "crash":
                    written = self.do(self.jobs.attempt_crashed, claim, ERROR)
                elif how == "postpone":
                    written = self.do(self.jobs.postpone, claim, ERROR)
                else:
                    written = self.do(self.jobs.release, claim, "the worker shuts down")
                if before.status == "running" and before.attempt == claim.attempt:
                    assert written
                    assert self.row.status != "running"
                    assert self.row.status != "failed" or how == "crash"

        @precondition(lambda self: self.ended is None)
        @rule(keep_best=st.booleans())
        def cancel(self, keep_best: bool) -> None:
            def ask(session: Any) -> bool:
                jobs = JobRepository(session, DEFAULT_PROJECT)
                return jobs.cancel_queued(self.job_id) or jobs.ask_running_to_cancel(self.job_id, keep_best)

            assert self.do(ask)

        @rule()
        def reconcile(self) -> None:
            before = self.row
            changed = self.do(self.dispatching.requeue_expired)
            if self.job_id in changed.requeued + changed.failed:
                assert before.lease_until < self.clock
            after = self.row
            # However far the clock has gone back: whoever is lost is known to be after a lease.
            assert after.status != "running" or 0 <= (after.lease_until - self.clock).total_seconds() <= LEASE

        @rule()
        def dispatch(self) -> None:
            due = [bell for bell in self.do(self.dispatching.due_for_dispatch, 1000) if bell.job_id == self.job_id]
            assert not due or self.row.status == "queued"
            self.do(self.dispatching.mark_dispatched, due)

        @invariant()
        def holds(self) -> None:
            if not hasattr(self, "job_id"):
                return
            type(self).steps += 1
            row = self.row
            assert row.attempt >= self.attempt
            self.attempt = row.attempt
            if self.ended is not None:
                assert row.status == self.ended
            self.ended = row.status if row.status in ENDS else None
            assert row.models == (row.status == "succeeded")
            assert row.finished == (row.status in ENDS)

    return Jobs


def run(database: Database, folder: Path, examples: int, steps: int) -> int:
    """Return how many steps were taken, on one connection; another one looks at what came of them."""
    length = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    with database.engine.connect() as doing, database.engine.connect() as looking:
        looking.execution_options(isolation_level="AUTOCOMMIT")
        jobs = machine(database, doing, looking, folder / "model")
        run_state_machine_as_test(jobs, settings=length)  # type: ignore[no-untyped-call]
    return int(jobs.steps)


def test_random_histories_of_a_job(database: Database, tmp_path: Path) -> None:
    assert run(database, tmp_path, 12, 25) > 100


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_a_hundred_thousand_steps(database: Database, tmp_path: Path, quarter: int) -> None:
    assert run(database, tmp_path, 750, 50) >= 25_000, quarter
