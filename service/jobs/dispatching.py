"""What the dispatcher does with jobs: it deals with those whose worker was lost, and finds those to ring for.

The states of a job, and the rules that hold here too, are in ``claims.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString

from sqlalchemy import and_, func, not_, or_, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from service.access.repository import may_run
from service.db.tables import JobRow, ProjectRow
from service.faults import fault
from service.jobs.claims import BELL_GIVEN_AWAY, has_waited
from service.jobs.events import add_event

UNHEARD_SECONDS = 1.0
"""Time from a doorbell that somebody took out of the broker until the claim, at most, if nothing went wrong."""
RECONCILE_ROWS = 100
"""Rows that one pass of the reconciler touches at most; the next pass goes on."""
OPEN_WORK: LiteralString = """
    SELECT EXISTS (SELECT FROM jobs WHERE status = 'queued')
        OR EXISTS (SELECT FROM jobs
                    WHERE status = 'running' AND (lease_until < now() OR lease_until > now() + %(lease)s))
        OR EXISTS (SELECT FROM job_parts)
"""
"""Whether the dispatcher may have something to do: never false if it has, and much cheaper than to look for what."""


@dataclass(frozen=True)
class Doorbell:
    """A queued row that should be rung for.

    Parameters
    ----------
    job_id : str
    attempt : int
    unheard : bool, default=False
        It was rung for a moment ago and nobody has claimed it. Due only if the bell is not in the broker any more: then
        whoever took it out was killed before the claim.
    first : bool, default=False
        It ran before and was handed back or lost, or its bell let another job run: it goes before those that were rung
        for meanwhile.
    """

    job_id: str
    attempt: int
    unheard: bool = False
    first: bool = False


@dataclass(frozen=True)
class Reconciled:
    """What one pass over expired leases and open cancel requests changed: ids of jobs."""

    requeued: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JobDispatching:
    """The job rows, as far as the dispatcher changes them.

    Parameters
    ----------
    lease_seconds : float
        Seconds that a claim or heartbeat holds a job.
    redispatch_seconds : float
        A queued job that was rung for this many seconds ago is due again.
    now : ColumnElement, default=now()
        The clock: the one of the database. Tests of the state machine hand in one of their own.
    """

    lease_seconds: float
    redispatch_seconds: float
    now: ColumnElement[datetime] = field(default_factory=func.now)

    def requeue_expired(self, session: Session) -> Reconciled:
        """Deal with jobs whose worker was lost, and with cancel requests that no worker can answer any more.

        A lease that ran out: back into the queue while attempts are left, else failed. Rows that are locked, such as
        one whose model is being stored right now, are left for the next pass.
        """
        self._shorten_leases_from_the_future(session)
        lost = and_(JobRow.status == "running", JobRow.lease_until < self.now)
        unanswered = and_(JobRow.cancel_requested_at.is_not(None), or_(JobRow.status == "queued", lost))

        def rows(condition: ColumnElement[bool]) -> Any:
            return select(JobRow.id).where(condition).limit(RECONCILE_ROWS).with_for_update(skip_locked=True)

        def change(condition: ColumnElement[bool], **values: Any) -> list[tuple[str, int]]:
            found = session.execute(
                update(JobRow)
                # The condition is repeated on the row itself: the subquery alone is not looked at again after a wait.
                .where(JobRow.id.in_(rows(condition)), condition)
                .values(lease_until=None, **values)
                .returning(JobRow.id, JobRow.attempt)
                .execution_options(synchronize_session=False)
            ).all()
            return [(row.id, row.attempt) for row in found]

        message = "the worker was lost: it did not renew its lease"
        reason = {"code": "worker_lost", "message": message}
        cancelled = change(unanswered, status="cancelled", finished_at=self.now)
        for job_id, attempt in cancelled:
            add_event(session, job_id, attempt, "finished", {"status": "cancelled"})
        requeued = change(
            and_(lost, JobRow.attempt < JobRow.max_attempts),
            status="queued",
            phase=None,
            progress=0.0,
            dispatched_at=None,
        )
        for job_id, attempt in requeued:
            add_event(session, job_id, attempt, "requeued", {"reason": reason})
            fault("requeue_before_commit")
        failed = change(
            and_(lost, JobRow.attempt >= JobRow.max_attempts),
            status="failed",
            finished_at=self.now,
            error=func.jsonb_build_object("code", "worker_lost", "message", message, "attempts", JobRow.attempt),
        )
        for job_id, attempt in failed:
            error = {**reason, "attempts": attempt}
            add_event(session, job_id, attempt, "finished", {"status": "failed", "error": error})
        return Reconciled([i for i, _ in requeued], [i for i, _ in failed], [i for i, _ in cancelled])

    def _shorten_leases_from_the_future(self, session: Session) -> None:
        """Let a lease that ends later than any that was taken by now end when one would that is taken now.

        Whoever lives renews it long before.
        """
        lease_end = self.now + timedelta(seconds=self.lease_seconds)
        ahead = and_(JobRow.status == "running", JobRow.lease_until > lease_end)
        skipping = select(JobRow.id).where(ahead).with_for_update(skip_locked=True)
        session.execute(
            update(JobRow)
            .where(JobRow.id.in_(skipping), ahead)
            .values(lease_until=lease_end)
            .execution_options(synchronize_session=False)
        )

    def due_for_dispatch(self, session: Session, limit: int) -> list[Doorbell]:
        """Return at most `limit` queued jobs that may run and were not rung for lately or not heard, oldest first."""
        never_rung = JobRow.dispatched_at.is_(None)
        # Of a bell that was rung in the future only the clock can be to blame.
        quiet = or_(
            JobRow.dispatched_at <= self.now - timedelta(seconds=self.redispatch_seconds),
            JobRow.dispatched_at > self.now,
        )
        # A job that was claimed after its last bell, and is back because it crashed, was heard: it waits its time.
        unheard = and_(
            JobRow.dispatched_at <= self.now - timedelta(seconds=UNHEARD_SECONDS),
            or_(JobRow.started_at.is_(None), JobRow.started_at < JobRow.dispatched_at),
        )
        due = or_(never_rung, quiet)
        rows = session.execute(
            select(
                JobRow.id,
                JobRow.attempt,
                not_(due).label("unheard"),
                or_(
                    and_(never_rung, JobRow.attempt > 0), JobRow.dispatched_at.is_not_distinct_from(BELL_GIVEN_AWAY)
                ).label("first"),
            )
            .join(ProjectRow, ProjectRow.id == JobRow.project_id)
            .where(JobRow.status == "queued", has_waited(JobRow, self.now), or_(due, unheard), may_run())
            .order_by(JobRow.created_at, JobRow.id)
            .limit(limit)
        )
        return [Doorbell(row.id, row.attempt, row.unheard, row.first) for row in rows]

    def rung_and_waiting(self, session: Session) -> list[str]:
        """Return the ids of the ten oldest queued jobs that were rung for lately."""
        lately = JobRow.dispatched_at.between(self.now - timedelta(seconds=2 * self.redispatch_seconds), self.now)
        waiting = select(JobRow.id).where(JobRow.status == "queued", lately)
        return list(session.scalars(waiting.order_by(JobRow.created_at, JobRow.id).limit(10)))

    def mark_dispatched(self, session: Session, bells: Sequence[Doorbell]) -> None:
        """Note that these were rung for. A job that was claimed meanwhile, even if handed back, is left alone."""
        for bell in bells:
            session.execute(
                update(JobRow)
                .where(JobRow.id == bell.job_id, JobRow.attempt == bell.attempt, JobRow.status == "queued")
                .values(dispatched_at=self.now)
            )
