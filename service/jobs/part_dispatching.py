"""What the dispatcher does with parts of jobs: it finds those to ring for, and sweeps up what is left.

The rules are in ``part_claims.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sqlalchemy import CursorResult, and_, delete, exists, func, not_, or_, select, update
from sqlalchemy.orm import Session

from service.access.repository import may_run
from service.db.tables import JobPartRow, JobRow, ProjectRow, WorkerRow
from service.jobs.claims import has_waited
from service.jobs.part_claims import MOST_TRIES_ELSEWHERE, is_free, lease_end, runs_in
from service.jobs.workers import lives


@dataclass(frozen=True)
class PartDispatching:
    """The rows of parts, as far as the dispatcher changes them.

    Parameters
    ----------
    lease_seconds : float
    redispatch_seconds : float
        A part that waits and was rung for this long ago is rung for again.
    """

    lease_seconds: float
    redispatch_seconds: float

    def due_for_dispatch(self, session: Session) -> list[str]:
        """Return ids of parts to ring for: as many as there are idle slots; none while a job waits for a slot."""
        quiet = or_(
            JobPartRow.dispatched_at <= func.now() - timedelta(seconds=self.redispatch_seconds),
            JobPartRow.dispatched_at > func.now(),  # the clock has gone back
        )
        parts = session.scalars(
            select(JobPartRow.id)
            .where(
                is_free(),
                JobPartRow.attempt < MOST_TRIES_ELSEWHERE,
                or_(JobPartRow.dispatched_at.is_(None), quiet),
                runs_in(JobPartRow.job_id, JobPartRow.job_attempt),
            )
            # The job's own worker begins with the first.
            .order_by(JobPartRow.created_at, JobPartRow.number.desc())
        ).all()
        if not parts:
            return []
        waits_for_a_slot = session.scalar(
            select(JobRow.id)
            .join(ProjectRow, ProjectRow.id == JobRow.project_id)
            .where(JobRow.status == "queued", has_waited(JobRow, func.now()), may_run())
            .limit(1)
        )
        return [] if waits_for_a_slot is not None else list(parts)[: max(0, self._idle_slots(session))]

    def _idle_slots(self, session: Session) -> int:
        slots = session.scalar(select(func.coalesce(func.sum(WorkerRow.slots), 0)).where(lives(self.lease_seconds)))
        jobs = session.scalar(select(func.count()).select_from(JobRow).where(JobRow.status == "running"))
        helped = session.scalar(
            select(func.count())
            .select_from(JobPartRow)
            .where(
                JobPartRow.worker_id != JobPartRow.owner_id,
                JobPartRow.status == "running",
                JobPartRow.lease_until >= func.now(),
            )
        )
        return int(slots or 0) - int(jobs or 0) - int(helped or 0)

    def mark_dispatched(self, session: Session, part_ids: Sequence[str]) -> None:
        """Note that these were rung for."""
        session.execute(update(JobPartRow).where(JobPartRow.id.in_(part_ids)).values(dispatched_at=func.now()))

    def sweep(self, session: Session) -> int:
        """Delete parts of attempts that have ended, and end leases of a clock that went back. Returns how many of those
        parts there were.
        """
        ahead = and_(JobPartRow.status == "running", JobPartRow.lease_until > lease_end(self.lease_seconds))
        session.execute(
            update(JobPartRow)
            .where(ahead)
            .values(lease_until=lease_end(self.lease_seconds))
            .execution_options(synchronize_session=False)
        )
        running = exists().where(
            JobRow.id == JobPartRow.job_id, JobRow.attempt == JobPartRow.job_attempt, JobRow.status == "running"
        )
        left = delete(JobPartRow).where(not_(running)).execution_options(synchronize_session=False)
        return cast("CursorResult[Any]", session.execute(left)).rowcount
