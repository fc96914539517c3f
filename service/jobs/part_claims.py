"""Parts of a running job that other workers compute: every change is one conditional UPDATE, as in ``claims.py``.

The worker that runs a job cuts it into parts and computes them itself, one after the other (``part_sharing.py``);
others that are idle take some of them off its hands. So nobody is waited for who might never come:

* A part is for those who compute the same bits (`numerics`), and only as long as its job runs in the attempt that made
  it, and nobody wants that job cancelled.
* Who has claimed it holds a lease; one that ran out may be claimed by the next. ``attempt`` is the fence.
* A part that another worker could not compute waits again; after a few tries only the job's own worker takes it. That
  one finds out, and says, what was wrong.
* Parts are left behind when their job ends or is run by another attempt. The dispatcher sweeps them up
  (``part_dispatching.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import CursorResult, Update, and_, exists, func, or_, select, text, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from service.db.tables import DatasetRow, JobPartRow, JobRow
from service.jobs.claims import Claim, ClaimedDataset, Event, Failure, Signals, dataset_columns
from service.jobs.doorbell import CHANNEL
from service.jobs.workers import Worker

MOST_TRIES_ELSEWHERE = 2
"""Claims after which nobody but the job's own worker takes a part."""


@dataclass(frozen=True)
class PartClaim(Claim):
    """A part of somebody else's job that this worker computes now. `attempt` is that of the part."""

    part_id: str
    stage: str
    number: int
    cache_bytes: int
    known: dict[str, list[bytes]]
    """Results of the stages before, by number of the part."""


def runs_in(job_id: Any, attempt: Any) -> ColumnElement[bool]:
    """Tell whether the job runs in this attempt, and nobody wants it cancelled."""
    return exists().where(
        JobRow.id == job_id,
        JobRow.attempt == attempt,
        JobRow.status == "running",
        JobRow.cancel_requested_at.is_(None),
    )


def is_free() -> ColumnElement[bool]:
    """Tell whether nobody computes a part, and it is not done."""
    lost = and_(JobPartRow.status == "running", JobPartRow.lease_until < func.now())
    return or_(JobPartRow.status == "waiting", lost)


def held(part_id: str, attempt: int) -> Update:
    """Return the fenced UPDATE that all writes about a claimed part are made of."""
    return update(JobPartRow).where(
        JobPartRow.id == part_id, JobPartRow.attempt == attempt, JobPartRow.status == "running"
    )


def lease_end(lease_seconds: float) -> ColumnElement[datetime]:
    """Return when a lease ends that is taken now."""
    return func.now() + timedelta(seconds=lease_seconds)


def _changed(session: Session, statement: Update) -> bool:
    return cast("CursorResult[Any]", session.execute(statement)).rowcount == 1


@dataclass(frozen=True)
class PartClaims:
    """What a worker does with a part of somebody else's job.

    To whoever watches over a child it looks like `service.jobs.claims.JobClaims`.
    """

    lease_seconds: float

    def claim(self, session: Session, part_id: str, worker: Worker) -> PartClaim | None:
        """Take a part that nobody computes, to help with a job that somebody else runs.

        Returns
        -------
        PartClaim or None
            None if it is not to be had: unknown, done, held by somebody, of a job that does not run so any more, of
            other numerics, or tried elsewhere often enough.
        """
        part = session.execute(
            update(JobPartRow)
            .where(
                JobPartRow.id == part_id,
                is_free(),
                JobPartRow.numerics == worker.numerics,
                JobPartRow.attempt < MOST_TRIES_ELSEWHERE,
                runs_in(JobPartRow.job_id, JobPartRow.job_attempt),
            )
            .values(
                status="running",
                attempt=JobPartRow.attempt + 1,
                worker_id=worker.id,
                lease_until=lease_end(self.lease_seconds),
            )
            .returning(
                JobPartRow.job_id,
                JobPartRow.job_attempt,
                JobPartRow.attempt,
                JobPartRow.stage,
                JobPartRow.number,
                JobPartRow.cache_bytes,
            )
        ).one_or_none()
        if part is None:
            return None
        job = session.execute(
            select(
                *(JobRow.request, JobRow.max_seconds, JobRow.dataset_id, JobRow.labels_dataset_id, JobRow.project_id),
                JobRow.feedback_until,
            ).where(JobRow.id == part.job_id)
        ).one()
        wanted = DatasetRow.id.in_((job.dataset_id, job.labels_dataset_id))
        datasets = {
            row[0]: ClaimedDataset(*row) for row in session.execute(select(*dataset_columns(DatasetRow)).where(wanted))
        }
        return PartClaim(
            job_id=part.job_id,
            attempt=part.attempt,
            request=job.request,
            max_seconds=job.max_seconds,
            queue_seconds=0.0,
            dataset=datasets.get(job.dataset_id),
            labels=datasets.get(job.labels_dataset_id),
            kind="part",
            project_id=job.project_id,
            feedback_until=job.feedback_until,
            alias_request=0,
            part_id=part_id,
            stage=part.stage,
            number=part.number,
            cache_bytes=part.cache_bytes,
            known=self._known(session, part),
        )

    @staticmethod
    def _known(session: Session, part: Any) -> dict[str, list[bytes]]:
        """Return the results of the other stages whose parts are all there."""
        rows = session.execute(
            select(JobPartRow.stage, JobPartRow.result)
            .where(
                JobPartRow.job_id == part.job_id,
                JobPartRow.job_attempt == part.job_attempt,
                JobPartRow.stage != part.stage,
            )
            .order_by(JobPartRow.stage, JobPartRow.number)
        ).all()
        stages: dict[str, list[bytes | None]] = {}
        for row in rows:
            stages.setdefault(row.stage, []).append(row.result)
        return {
            stage: cast("list[bytes]", results)
            for stage, results in stages.items()
            if all(result is not None for result in results)
        }

    @staticmethod
    def _fenced(claim: PartClaim) -> Update:
        return held(claim.part_id, claim.attempt).where(runs_in(JobPartRow.job_id, JobPartRow.job_attempt))

    def heartbeat(self, session: Session, claim: PartClaim) -> Signals | None:
        """Renew the lease; None if the part is not held any more, or of no use."""
        renewed = _changed(session, self._fenced(claim).values(lease_until=lease_end(self.lease_seconds)))
        return Signals(cancel=False, keep_best=False) if renewed else None

    def signals(self, session: Session, claim: PartClaim) -> Signals | None:
        """Tell, without a write, whether the part is still held and of use: None if not."""
        mine = (JobPartRow.id == claim.part_id, JobPartRow.attempt == claim.attempt, JobPartRow.status == "running")
        held = session.scalar(select(JobPartRow.id).where(*mine, runs_in(JobPartRow.job_id, JobPartRow.job_attempt)))
        return None if held is None else Signals(cancel=False, keep_best=False)

    def record_progress(
        self, session: Session, claim: PartClaim, phase: str, progress: float, events: Sequence[Event] = ()
    ) -> Signals | None:
        """Write nothing: the job's own worker says how far that is. Answers as `signals` does."""
        del phase, progress, events
        return self.signals(session, claim)

    def finish_part(self, session: Session, claim: PartClaim, result: bytes) -> bool:
        """Store the result of a part. Returns False if it was lost and nothing was written."""
        if _changed(session, self._fenced(claim).values(status="done", lease_until=None, result=result)):
            return True
        # An earlier try of this same write may have got through, its answer having been lost.
        mine = (JobPartRow.id == claim.part_id, JobPartRow.attempt == claim.attempt, JobPartRow.status == "done")
        return session.scalar(select(JobPartRow.id).where(*mine)) is not None

    def attempt_crashed(self, session: Session, claim: PartClaim, error: Failure) -> bool:
        """Leave a part for somebody else. Why is not kept: whoever comes next finds out too, if it was the part."""
        del error
        return self._leave(session, claim)

    def finish_failed(self, session: Session, claim: PartClaim, error: Failure) -> bool:
        """Leave a part to the job's own worker, which will fail in the same way and say so."""
        del error
        given_up = self._fenced(claim).values(status="waiting", lease_until=None, attempt=MOST_TRIES_ELSEWHERE)
        return _changed(session, given_up)

    def finish_cancelled(self, session: Session, claim: PartClaim) -> bool:
        """Leave a part for somebody else."""
        return self._leave(session, claim)

    def postpone(self, session: Session, claim: PartClaim, error: Failure) -> bool:
        """Leave a part for somebody else, whose disk may not be full."""
        del error
        return self._leave(session, claim)

    def release(self, session: Session, claim: PartClaim, reason: str) -> bool:
        """Hand a part back because the worker shuts down."""
        del reason
        back = self._fenced(claim).values(status="waiting", lease_until=None, dispatched_at=None)
        released = _changed(session, back)
        if released:
            session.execute(text(f"NOTIFY {CHANNEL}"))
        return released

    def _leave(self, session: Session, claim: PartClaim) -> bool:
        return _changed(session, self._fenced(claim).values(status="waiting", lease_until=None))
