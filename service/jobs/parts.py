"""Parts of a running job that several workers share: every transition is one conditional UPDATE, as in ``lease.py``.

The worker that runs a job cuts it into parts and computes them itself, one after the other; others that are idle take
some of them off its hands. So nobody is waited for who might never come:

* A part is for those who compute the same bits (`numerics`), and only as long as its job runs in the attempt that made
  it, and nobody wants that job cancelled.
* Who has claimed it holds a lease; one that ran out may be claimed by the next. ``attempt`` is the fence.
* A part that another worker could not compute waits again; after a few tries only the job's own worker takes it. That
  one finds out, and says, what was wrong.
* Parts are left behind when their job ends or is run by another attempt. The dispatcher sweeps them up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import CursorResult, and_, delete, exists, func, not_, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from service.access.repository import may_run
from service.db.tables import DatasetRow, JobPartRow, JobRow, ProjectRow, WorkerRow
from service.identifiers import new_id
from service.jobs.doorbell import CHANNEL
from service.jobs.lease import Claim, Dataset, Event, Signals, dataset_columns, has_waited

MOST_TRIES_ELSEWHERE = 2
"""Claims after which nobody but the job's own worker takes a part."""
FORGET_LEASES = 20
"""A worker that has not been seen for so many leases is forgotten."""


@dataclass(frozen=True)
class Worker:
    """A worker process as others see it."""

    id: str
    slots: int
    numerics: str


@dataclass(frozen=True)
class PartClaim(Claim):
    """A part of somebody else's job that this worker computes now. `attempt` is that of the part."""

    part_id: str
    stage: str
    number: int
    cache_bytes: int
    known: dict[str, list[bytes]]
    """Results of the stages before, by number of the part."""


@dataclass(frozen=True)
class OwnClaim:
    """A part that the job's own worker computes."""

    id: str
    number: int
    attempt: int


@dataclass(frozen=True)
class StageState:
    """What has become of the parts of a stage.

    Attributes
    ----------
    parts, unfinished : int
        Parts, and those of them that wait or run.
    elsewhere : dict of int to bytes
        Results of other workers, by number of the part.
    """

    parts: int
    unfinished: int
    elsewhere: dict[int, bytes] = field(repr=False)


def _runs(job_id: Any, attempt: Any) -> ColumnElement[bool]:
    """Tell whether the job runs in this attempt, and nobody wants it cancelled."""
    return exists().where(
        JobRow.id == job_id,
        JobRow.attempt == attempt,
        JobRow.status == "running",
        JobRow.cancel_requested_at.is_(None),
    )


def _count(session: Session, statement: Any) -> int:
    return cast("CursorResult[Any]", session.execute(statement)).rowcount


@dataclass(frozen=True)
class PartLifecycle:
    """The transitions of a part, and the list of those who live.

    To whoever watches over a child it looks like `service.jobs.lease.JobLifecycle`.

    Parameters
    ----------
    lease_seconds : float
    redispatch_seconds : float
        A part that waits and was rung for this long ago is rung for again.
    """

    lease_seconds: float
    redispatch_seconds: float

    @property
    def _lease_end(self) -> ColumnElement[datetime]:
        return func.now() + timedelta(seconds=self.lease_seconds)

    @property
    def _is_free(self) -> ColumnElement[bool]:
        lost = and_(JobPartRow.status == "running", JobPartRow.lease_until < func.now())
        return or_(JobPartRow.status == "waiting", lost)

    @property
    def _lives(self) -> ColumnElement[bool]:
        # Nobody has been seen in the future: there the clock has gone back, and whoever lives says so again soon.
        return WorkerRow.seen_at.between(func.now() - timedelta(seconds=self.lease_seconds), func.now())

    # ---------------------------------------------------------------------------------------------- who is there

    def say_alive(self, session: Session, worker: Worker) -> None:
        """Note that a worker lives; forget those that have not done so for long."""
        values = vars(worker) | {"seen_at": func.now()}
        session.execute(upsert(WorkerRow).values(**values).on_conflict_do_update(index_elements=["id"], set_=values))
        long_ago = func.now() - timedelta(seconds=FORGET_LEASES * self.lease_seconds)
        forgotten = or_(WorkerRow.seen_at < long_ago, WorkerRow.seen_at > self._lease_end)
        session.execute(delete(WorkerRow).where(forgotten))

    def say_gone(self, session: Session, worker_id: str) -> None:
        """Note that a worker shuts down."""
        session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id))

    def others(self, session: Session, worker: Worker) -> int:
        """Return how many other workers live that compute the same bits."""
        statement = select(func.count()).select_from(WorkerRow)
        same = (WorkerRow.id != worker.id, WorkerRow.numerics == worker.numerics, self._lives)
        return int(session.scalar(statement.where(*same)) or 0)

    # ---------------------------------------------------------------------------------- for the job's own worker

    def share(
        self,
        session: Session,
        claim: Claim,
        worker: Worker,
        stage: str,
        count: int,
        cache_bytes: int,
        done: Mapping[int, bytes],
    ) -> bool:
        """Insert the parts of a stage, some of them done, and wake the dispatcher.

        Returns False if the job is not held any more. The call may be repeated if its answer was lost.
        """
        if not session.scalar(select(_runs(claim.job_id, claim.attempt))):
            return False
        common = {
            "job_id": claim.job_id,
            "job_attempt": claim.attempt,
            "stage": stage,
            "owner_id": worker.id,
            "numerics": worker.numerics,
            "cache_bytes": cache_bytes,
        }
        rows = [
            {
                "id": new_id("part"),
                "number": number,
                "status": "done" if number in done else "waiting",
                "worker_id": worker.id if number in done else None,
                "result": done.get(number),
                **common,
            }
            for number in range(count)
        ]
        session.execute(upsert(JobPartRow).values(rows).on_conflict_do_nothing())
        session.execute(text(f"NOTIFY {CHANNEL}"))
        return True

    def claim_own(self, session: Session, claim: Claim, worker: Worker, stage: str, most: int) -> list[OwnClaim]:
        """Take up to `most` parts of a stage that nobody computes."""
        free = (
            select(JobPartRow.id)
            .where(*self._of(claim, stage), self._is_free)
            .order_by(JobPartRow.number)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        rows = session.execute(
            update(JobPartRow)
            .where(JobPartRow.id.in_(free))
            .values(status="running", attempt=JobPartRow.attempt + 1, worker_id=worker.id, lease_until=self._lease_end)
            .returning(JobPartRow.id, JobPartRow.number, JobPartRow.attempt)
            .execution_options(synchronize_session=False)
        )
        return sorted((OwnClaim(*row) for row in rows), key=lambda part: part.number)

    def renew_own(self, session: Session, parts: Sequence[OwnClaim]) -> None:
        """Hold parts that the job's own worker computes for another lease."""
        for part in parts:
            session.execute(self._held(part.id, part.attempt).values(lease_until=self._lease_end))

    def finish_own(self, session: Session, parts: Sequence[OwnClaim], results: Mapping[int, bytes]) -> None:
        """Store what the job's own worker has computed: whoever helps with a later stage asks for it."""
        for part in parts:
            done = {"status": "done", "lease_until": None, "result": results[part.number]}
            session.execute(self._held(part.id, part.attempt).values(**done))

    def state(self, session: Session, claim: Claim, stage: str, worker: Worker, known: Sequence[int]) -> StageState:
        """Return what is left of a stage, and the results of others besides those that are known."""
        mine = self._of(claim, stage)
        done = func.count().filter(JobPartRow.status == "done")
        count, finished = session.execute(select(func.count(), done).where(*mine)).one()
        rows = session.execute(
            select(JobPartRow.number, JobPartRow.result).where(
                *mine,
                JobPartRow.status == "done",
                JobPartRow.worker_id != worker.id,
                JobPartRow.result.is_not(None),
                JobPartRow.number.not_in(list(known)),
            )
        )
        return StageState(count, count - finished, {row.number: row.result for row in rows})

    def withdraw(self, session: Session, claim: Claim) -> None:
        """Delete all parts of an attempt: nobody needs to compute any of them any more."""
        session.execute(
            delete(JobPartRow).where(JobPartRow.job_id == claim.job_id, JobPartRow.job_attempt == claim.attempt)
        )

    @staticmethod
    def _of(claim: Claim, stage: str) -> tuple[ColumnElement[bool], ...]:
        return (
            JobPartRow.job_id == claim.job_id,
            JobPartRow.job_attempt == claim.attempt,
            JobPartRow.stage == stage,
        )

    @staticmethod
    def _held(part_id: str, attempt: int) -> Any:
        return update(JobPartRow).where(
            JobPartRow.id == part_id, JobPartRow.attempt == attempt, JobPartRow.status == "running"
        )

    # ----------------------------------------------------------------------------------------- for other workers

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
                self._is_free,
                JobPartRow.numerics == worker.numerics,
                JobPartRow.attempt < MOST_TRIES_ELSEWHERE,
                _runs(JobPartRow.job_id, JobPartRow.job_attempt),
            )
            .values(status="running", attempt=JobPartRow.attempt + 1, worker_id=worker.id, lease_until=self._lease_end)
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
            row[0]: Dataset(*row) for row in session.execute(select(*dataset_columns(DatasetRow)).where(wanted))
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

    def _fenced(self, claim: PartClaim) -> Any:
        return self._held(claim.part_id, claim.attempt).where(_runs(JobPartRow.job_id, JobPartRow.job_attempt))

    def heartbeat(self, session: Session, claim: PartClaim) -> Signals | None:
        """Renew the lease; None if the part is not held any more, or of no use."""
        renewed = _count(session, self._fenced(claim).values(lease_until=self._lease_end)) == 1
        return Signals(cancel=False, keep_best=False) if renewed else None

    def signals(self, session: Session, claim: PartClaim) -> Signals | None:
        """Tell, without a write, whether the part is still held and of use: None if not."""
        mine = (JobPartRow.id == claim.part_id, JobPartRow.attempt == claim.attempt, JobPartRow.status == "running")
        held = session.scalar(select(JobPartRow.id).where(*mine, _runs(JobPartRow.job_id, JobPartRow.job_attempt)))
        return None if held is None else Signals(cancel=False, keep_best=False)

    def record_progress(
        self, session: Session, claim: PartClaim, phase: str, progress: float, events: Sequence[Event] = ()
    ) -> Signals | None:
        """Write nothing: the job's own worker says how far that is. Answers as `signals` does."""
        del phase, progress, events
        return self.signals(session, claim)

    def finish_part(self, session: Session, claim: PartClaim, result: bytes) -> bool:
        """Store the result of a part. Returns False if it was lost and nothing was written."""
        if _count(session, self._fenced(claim).values(status="done", lease_until=None, result=result)) == 1:
            return True
        # An earlier try of this same write may have got through, its answer having been lost.
        mine = (JobPartRow.id == claim.part_id, JobPartRow.attempt == claim.attempt, JobPartRow.status == "done")
        return session.scalar(select(JobPartRow.id).where(*mine)) is not None

    def attempt_crashed(self, session: Session, claim: PartClaim, error: dict[str, Any]) -> bool:
        """Leave a part for somebody else. Why is not kept: whoever comes next finds out too, if it was the part."""
        del error
        return _count(session, self._fenced(claim).values(status="waiting", lease_until=None)) == 1

    def finish_failed(self, session: Session, claim: PartClaim, error: dict[str, Any]) -> bool:
        """Leave a part to the job's own worker, which will fail in the same way and say so."""
        del error
        given_up = self._fenced(claim).values(status="waiting", lease_until=None, attempt=MOST_TRIES_ELSEWHERE)
        return _count(session, given_up) == 1

    def finish_cancelled(self, session: Session, claim: PartClaim) -> bool:
        """Leave a part for somebody else."""
        return self.attempt_crashed(session, claim, {})

    def postpone(self, session: Session, claim: PartClaim, error: dict[str, Any]) -> bool:
        """Leave a part for somebody else, whose disk may not be full."""
        return self.attempt_crashed(session, claim, error)

    def release(self, session: Session, claim: PartClaim, reason: str) -> bool:
        """Hand a part back because the worker shuts down."""
        del reason
        back = self._fenced(claim).values(status="waiting", lease_until=None, dispatched_at=None)
        released = _count(session, back) == 1
        if released:
            session.execute(text(f"NOTIFY {CHANNEL}"))
        return released

    # ------------------------------------------------------------------------------------------- for the dispatcher

    def due_for_dispatch(self, session: Session) -> list[str]:
        """Return ids of parts to ring for: as many as there are idle slots; none while a job waits for a slot."""
        quiet = or_(
            JobPartRow.dispatched_at <= func.now() - timedelta(seconds=self.redispatch_seconds),
            JobPartRow.dispatched_at > func.now(),  # the clock has gone back
        )
        parts = session.scalars(
            select(JobPartRow.id)
            .where(
                self._is_free,
                JobPartRow.attempt < MOST_TRIES_ELSEWHERE,
                or_(JobPartRow.dispatched_at.is_(None), quiet),
                _runs(JobPartRow.job_id, JobPartRow.job_attempt),
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
        slots = session.scalar(select(func.coalesce(func.sum(WorkerRow.slots), 0)).where(self._lives))
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
        ahead = and_(JobPartRow.status == "running", JobPartRow.lease_until > self._lease_end)
        session.execute(
            update(JobPartRow)
            .where(ahead)
            .values(lease_until=self._lease_end)
            .execution_options(synchronize_session=False)
        )
        running = exists().where(
            JobRow.id == JobPartRow.job_id, JobRow.attempt == JobPartRow.job_attempt, JobRow.status == "running"
        )
        return _count(session, delete(JobPartRow).where(not_(running)).execution_options(synchronize_session=False))
