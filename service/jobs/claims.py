"""The life of a job row: every transition is one conditional UPDATE.

::

                    claim                    finish_succeeded
    queued ─────────────────────► running ─────────────────────► succeeded
      ▲  │                         │ │ │     finish_failed
      │  │ (the API)               │ │ └─────────────────────────► failed
      │  └──────────► cancelled ◄──┘ │
      └──────────────────────────────┘
        release · postpone · attempt_crashed · expired lease, while attempts are left

Enqueueing and cancel requests are the API's, in ``repository.py``; what the dispatcher does, expired leases first of
all, is in ``dispatching.py``; everything else is here.

Rules, all of them enforced by the WHERE clauses below:

* ``attempt`` grows by one with each claim and never falls. It is the fencing token: each write of a worker says
  ``attempt = mine AND status = 'running'``; no row changed means that the job belongs to somebody else, or to nobody,
  and the worker must stop at once and write nothing.
* Only the clock of the database counts. It may be set back. Then some lease ends later than any that is taken now, or
  some bell was rung in the future; the dispatcher puts both right.
* A doorbell names a job, and lets a worker run one. If a job of another project has more right to run, that one runs,
  and the other is rung for again: see `_fairest`.
* ``succeeded``, ``failed`` and ``cancelled`` are never left.
* A model is written in the transaction that makes its job ``succeeded``; so there is at most one.
* A worker that shuts down hands its job back (`JobClaims.release`), and so does one whose disk is full
  (`JobClaims.postpone`); this raises ``max_attempts`` by one, because the job did nothing wrong. A crash of the job
  and a lost worker do count.

All functions take a session with an open transaction and do not commit, so that a caller can retry the whole
transaction. When the answer to a COMMIT is lost, calling the same function again tells what really happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal, TypedDict, cast

from sqlalchemy import (
    CursorResult,
    Insert,
    Interval,
    Select,
    Update,
    and_,
    bindparam,
    case,
    extract,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql.elements import ColumnElement

from service.access.repository import QuotaRepository, may_run
from service.db.tables import WISH_WITHDRAWN, DatasetRow, JobEventRow, JobRow, ProjectRow
from service.faults import fault
from service.jobs.doorbell import CHANNEL
from service.jobs.events import add_event

POSTPONED_SECONDS = 60.0
"""How long a job waits for room on a disk before it is tried again."""
BELL_GIVEN_AWAY = datetime(1970, 1, 1, tzinfo=UTC)
"""``dispatched_at`` of a job whose bell let another one run: it is due at once, and before those rung for since."""


@dataclass(frozen=True)
class ClaimedDataset:
    """Where the rows of a job are: what the blob store and the columnar reader need."""

    id: str
    layout: str
    columnar_key: str
    columnar_sha256: str | None
    upload_key: str
    upload_sha256: str
    format: str
    options: dict[str, Any]
    """How the upload was read."""


def dataset_columns(row: type[DatasetRow]) -> tuple[Any, ...]:
    """Return what a `ClaimedDataset` is made of, in its order; `row` may be an alias."""
    return (
        *(row.id, row.layout, row.columnar_key, row.columnar_sha256),
        *(row.blob_key, row.sha256, row.format, row.options),
    )


@dataclass(frozen=True)
class Claim:
    """A job that this worker runs now. `attempt` fences every write it makes."""

    job_id: str
    attempt: int
    request: dict[str, Any]
    max_seconds: float
    queue_seconds: float
    """Seconds between acceptance of the job and this claim, by the clock of the database."""
    dataset: ClaimedDataset | None
    """None if the data set was deleted meanwhile."""
    kind: str
    """A key of `worker.kinds.registry.KINDS`."""
    project_id: str
    feedback_until: int | None
    """`JobRow.feedback_until`."""
    alias_request: int
    """`JobRow.alias_request`; 0 for one that is older than such numbers."""
    labels: ClaimedDataset | None
    """Where the labels of a training are, if not in `dataset`; None, too, if that was deleted meanwhile."""


class Failure(TypedDict):
    """Why a job has failed, or was handed back: a stable word for programs, and a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Signals:
    """What others want of a running job."""

    cancel: bool
    keep_best: bool


@dataclass(frozen=True)
class Event:
    """A row for ``job_events``."""

    kind: str
    data: dict[str, Any]
    happened: float = field(default_factory=time.monotonic)
    """``time.monotonic()`` here: several are written at once, and each is told with its own time."""


def _changed(session: Session, statement: Update) -> bool:
    return cast("CursorResult[Any]", session.execute(statement)).rowcount == 1


def has_waited(job: type[JobRow], now: ColumnElement[datetime]) -> ColumnElement[bool]:
    """Return the condition that a job need not wait for room on a disk any more."""
    longest = now + timedelta(seconds=POSTPONED_SECONDS)
    return or_(job.wait_until.is_(None), job.wait_until <= now, job.wait_until > longest)


@cache
def _write_events() -> Insert:
    """Return the statement that writes events; made once, whatever their number: of 1,000 rows of one statement it is
    the making that takes seconds on a busy machine, and at the end of a job nobody waits so long.
    """
    # By the clock of the database all the same: only how long ago it was is known here.
    happened = func.clock_timestamp() - bindparam("ago", type_=Interval())
    return insert(JobEventRow).values(created_at=happened)


@cache
def _facts_of_a_job() -> Select[Any]:
    """Return the query of `JobClaims._look`; made once, as making it takes longer than to ask it."""
    labels, other = aliased(DatasetRow), aliased(JobRow)
    # Each of the two is the first or last entry of an index, however long the queues are.
    first, last = (
        select(which(other.project_id)).where(other.status == "queued").scalar_subquery()
        for which in (func.min, func.max)
    )
    return (
        select(
            JobRow.project_id,
            ProjectRow.limits,
            and_(JobRow.status == "queued", or_(first != JobRow.project_id, last != JobRow.project_id)).label(
                "others_wait"
            ),
            *dataset_columns(DatasetRow),
            *dataset_columns(labels),
        )
        .select_from(JobRow)
        .join(ProjectRow, ProjectRow.id == JobRow.project_id)
        .outerjoin(DatasetRow, DatasetRow.id == JobRow.dataset_id)
        .outerjoin(labels, labels.id == JobRow.labels_dataset_id)
        .where(JobRow.id == bindparam("job_id"))
    )


@dataclass(frozen=True)
class JobClaims:
    """What a worker does with a job: every change of its row.

    Parameters
    ----------
    lease_seconds : float
        Seconds that a claim or heartbeat holds a job.
    now : ColumnElement, default=now()
        The clock: the one of the database. Tests of the state machine hand in one of their own.
    """

    lease_seconds: float
    now: ColumnElement[datetime] = field(default_factory=func.now)

    @property
    def _lease_end(self) -> ColumnElement[datetime]:
        return self.now + timedelta(seconds=self.lease_seconds)

    @staticmethod
    def _held(claim: Claim) -> Update:
        """Return the fenced UPDATE that all writes of a worker are made of."""
        held = update(JobRow).where(
            JobRow.id == claim.job_id, JobRow.attempt == claim.attempt, JobRow.status == "running"
        )
        # No session has loaded the row: to look for it there would cost as much as to send the statement.
        return held.execution_options(synchronize_session=False)

    @classmethod
    def _wanted(cls, claim: Claim) -> Update:
        """As `_held`, unless somebody has been told that the job is cancelled and nothing of it kept."""
        return cls._held(claim).where(or_(JobRow.cancel_requested_at.is_(None), JobRow.cancel_keep_best))

    def _not_succeeded(self, session: Session, claim: Claim) -> Literal["cancelled"] | bool:
        """Say what became of a job that was to end well: an earlier try got through, a cancel came, or it is lost."""
        if self._ended(session, claim, "succeeded"):
            return True
        return "cancelled" if self._finish(session, claim, "cancelled", None) else False

    def claim(self, session: Session, job_id: str) -> Claim | None:
        """Take a job that waits, or whose worker let its lease run out, if attempts are left.

        Returns
        -------
        Claim or None
            Of the job, or of one of another project that has more right to run now. None if the job is not to be had:
            unknown, finished, cancelled, or held by somebody else; or if as many jobs of its project run as may. Then
            the dispatcher rings again when one of them has ended.
        """
        found = self._look(session, job_id)
        if found is None:
            return None
        fairest = self._fairest(session, found.project_id) if found.others_wait else None
        if fairest is not None:
            fairer = self._look(session, fairest)
            claim = None if fairer is None else self._take(session, fairest, fairer)
            if claim is not None:
                given = update(JobRow).where(JobRow.id == job_id, JobRow.status == "queued")
                session.execute(
                    given.values(dispatched_at=BELL_GIVEN_AWAY).execution_options(synchronize_session=False)
                )
                session.execute(select(func.pg_notify(CHANNEL, "")))
                return claim
        return self._take(session, job_id, found)

    @staticmethod
    def _look(session: Session, job_id: str) -> Any:
        """Return what must be known of a job to take it, and whether it waits and jobs of other projects do, too."""
        return session.execute(_facts_of_a_job(), {"job_id": job_id}).one_or_none()

    def _fairest(self, session: Session, mine: str) -> str | None:
        """Return the job that should run before one of the project `mine`, or None if none should.

        Projects that run fewest come first; of those, the one that has not started any for longest, and has one to run.
        Of each its oldest job is meant. What is asked of a project is the first entry of an index, so that a long queue
        costs no more than a short one.
        """
        job, other = aliased(JobRow), aliased(JobRow)
        oldest = (
            select(job.id, job.created_at)
            .where(
                job.project_id == ProjectRow.id,
                job.status == "queued",
                job.cancel_requested_at.is_(None),
                job.attempt < job.max_attempts,
                has_waited(job, self.now),
                # One that has crashed waits for its next bell.
                or_(job.started_at.is_(None), job.dispatched_at.is_(None), job.started_at < job.dispatched_at),
            )
            .order_by(job.created_at, job.id)
            .limit(1)
            .correlate(ProjectRow)
            .lateral()
        )
        running = (
            select(func.count().label("jobs"))
            .where(other.project_id == ProjectRow.id, other.status == "running")
            .correlate(ProjectRow)
            .lateral()
        )
        last = (
            select(func.max(other.started_at).label("start"))
            .where(other.project_id == ProjectRow.id, other.started_at <= self.now)
            .correlate(ProjectRow)
            .lateral()
        )
        return session.execute(
            select(case((ProjectRow.id != mine, oldest.c.id)))
            .select_from(ProjectRow)
            .join(oldest, true())
            .join(running, true())
            .join(last, true())
            .where(may_run())
            .order_by(running.c.jobs, last.c.start.nulls_first(), oldest.c.created_at)
            .limit(1)
        ).scalar()

    def _take(self, session: Session, job_id: str, found: Any) -> Claim | None:
        project_id, limits, _, *dataset = found
        dataset, labels = dataset[: len(dataset) // 2], dataset[len(dataset) // 2 :]
        if not QuotaRepository(session, project_id, limits).make_room_to_run():
            unrung = update(JobRow).where(JobRow.id == job_id, JobRow.status == "queued").values(dispatched_at=None)
            session.execute(unrung)
            return None
        row = session.execute(
            update(JobRow)
            .where(
                JobRow.id == job_id,
                JobRow.attempt < JobRow.max_attempts,
                JobRow.cancel_requested_at.is_(None),
                or_(JobRow.status == "queued", and_(JobRow.status == "running", JobRow.lease_until < self.now)),
            )
            .values(
                status="running",
                attempt=JobRow.attempt + 1,
                lease_until=self._lease_end,
                started_at=self.now,
                wait_until=None,
                phase=None,
                progress=0.0,
            )
            .returning(
                JobRow.attempt,
                JobRow.request,
                JobRow.max_seconds,
                JobRow.kind,
                JobRow.feedback_until,
                func.coalesce(JobRow.alias_request, 0).label("alias_request"),
                extract("epoch", self.now - JobRow.created_at).label("queue_seconds"),
            )
        ).one_or_none()
        if row is None:
            return None
        add_event(session, job_id, row.attempt, "started", {})
        return Claim(
            job_id=job_id,
            attempt=row.attempt,
            request=row.request,
            max_seconds=row.max_seconds,
            queue_seconds=float(row.queue_seconds),
            dataset=None if dataset[0] is None else ClaimedDataset(*dataset),
            labels=None if labels[0] is None else ClaimedDataset(*labels),
            kind=row.kind,
            project_id=project_id,
            feedback_until=row.feedback_until,
            alias_request=row.alias_request,
        )

    @staticmethod
    def wish_is_withdrawn(session: Session, claim: Claim) -> bool:
        """Tell whether the alias of a training was deleted since somebody asked for it."""
        wish = select(JobRow.alias_request).where(JobRow.id == claim.job_id)
        return session.scalar(wish) == WISH_WITHDRAWN

    def heartbeat(self, session: Session, claim: Claim) -> Signals | None:
        """Renew the lease. Returns what others want of the job, or None if it is no longer held."""
        row = session.execute(
            self._held(claim)
            .values(lease_until=self._lease_end)
            .returning(JobRow.cancel_requested_at, JobRow.cancel_keep_best)
        ).one_or_none()
        return None if row is None else Signals(row.cancel_requested_at is not None, row.cancel_keep_best)

    def signals(self, session: Session, claim: Claim) -> Signals | None:
        """Read what others want of the job, without a write; None if it is no longer held."""
        row = session.execute(
            select(JobRow.cancel_requested_at, JobRow.cancel_keep_best).where(
                JobRow.id == claim.job_id, JobRow.attempt == claim.attempt, JobRow.status == "running"
            )
        ).one_or_none()
        return None if row is None else Signals(row.cancel_requested_at is not None, row.cancel_keep_best)

    def record_progress(
        self, session: Session, claim: Claim, phase: str, progress: float, events: Sequence[Event] = ()
    ) -> Signals | None:
        """Write phase, progress (0 to 1) and events of the running attempt; answers as `heartbeat` does."""
        row = session.execute(
            self._held(claim)
            .values(phase=phase, progress=progress)
            .returning(JobRow.cancel_requested_at, JobRow.cancel_keep_best)
        ).one_or_none()
        if row is None:
            return None
        if events:
            now = time.monotonic()
            rows = [
                {
                    "job_id": claim.job_id,
                    "attempt": claim.attempt,
                    "kind": event.kind,
                    "data": event.data,
                    "ago": timedelta(seconds=now - event.happened),
                }
                for event in events
            ]
            session.execute(_write_events(), rows)
        return Signals(row.cancel_requested_at is not None, row.cancel_keep_best)

    def finish_succeeded(
        self,
        session: Session,
        claim: Claim,
        *,
        result: dict[str, Any] | None = None,
        store: Callable[[str | None], dict[str, Any]] = lambda _: {},
    ) -> Literal["cancelled"] | bool:
        """End the job well, with all that it has made, in this one transaction.

        Parameters
        ----------
        result : dict, optional
            What the row keeps of it.
        store : callable, optional
            Writes what else there is to write. It is given the id of the data set, None if that was deleted meanwhile,
            and returns what the event says. Not called if this attempt has ended the job before, in a transaction whose
            COMMIT was carried out but not answered.

        Returns
        -------
        bool or str
            Whether the job has succeeded by this attempt; False means it was lost and nothing was written,
            ``"cancelled"`` that somebody had asked for that in time, and the job has ended so.
        """
        ended = self._wanted(claim).values(status="succeeded", finished_at=self.now, lease_until=None, progress=1.0)
        if result is not None:
            ended = ended.values(result=result)
        row = session.execute(ended.returning(JobRow.dataset_id)).one_or_none()
        if row is None:
            return self._not_succeeded(session, claim)
        fault("finish_after_update")
        said = {"status": "succeeded", **store(row.dataset_id)}
        add_event(session, claim.job_id, claim.attempt, "finished", said, wake=True)
        fault("finish_before_commit")
        return True

    def finish_failed(self, session: Session, claim: Claim, error: Failure) -> bool:
        """End the job for a reason that another attempt would not change.

        Parameters
        ----------
        error : Failure
            Shown to the user.

        Returns
        -------
        bool
            Whether the job has failed by this attempt; False means it was lost and nothing was written.
        """
        return self._finish(session, claim, "failed", error)

    def finish_cancelled(self, session: Session, claim: Claim) -> bool:
        """End the job because it was asked for. Returns False if the job was lost and nothing was written."""
        return self._finish(session, claim, "cancelled", None)

    def attempt_crashed(self, session: Session, claim: Claim, error: Failure) -> bool:
        """Record that this attempt died: back into the queue while attempts are left, else failed with its reason.

        ``dispatched_at`` stays, so that the next doorbell comes `redispatch_seconds` after the last one (or after now,
        if that was never noted): a job that kills its process as soon as it starts does not keep the workers busy.

        Returns
        -------
        bool
            False if the job was lost and nothing was written.
        """
        requeued = session.execute(
            self._held(claim)
            .where(JobRow.attempt < JobRow.max_attempts, JobRow.cancel_requested_at.is_(None))
            .values(
                status="queued",
                lease_until=None,
                phase=None,
                progress=0.0,
                dispatched_at=func.coalesce(JobRow.dispatched_at, self.now),
            )
            .returning(JobRow.attempt)
        ).one_or_none()
        if requeued is not None:
            add_event(session, claim.job_id, claim.attempt, "requeued", {"reason": error}, wake=True)
            return True
        cancelled = session.execute(
            select(JobRow.id).where(JobRow.id == claim.job_id, JobRow.cancel_requested_at.is_not(None))
        ).one_or_none()
        if cancelled is not None:
            return self._finish(session, claim, "cancelled", None)
        return self._finish(session, claim, "failed", {**error, "attempts": claim.attempt})

    def release(self, session: Session, claim: Claim, reason: str) -> bool:
        """Hand the job back, to be run again at once by whoever comes first; the attempt is not counted.

        Returns
        -------
        bool
            False if the job was not held any more and nothing was written.
        """
        error: Failure = {"code": "released", "message": reason}
        return self._hand_back(session, claim, error, wake=True, phase=None)

    def postpone(self, session: Session, claim: Claim, error: Failure) -> bool:
        """Hand the job back because a disk is full, to be tried again in a while; the attempt is not counted.

        Returns
        -------
        bool
            False if the job was not held any more and nothing was written.
        """
        wait_until = self.now + timedelta(seconds=POSTPONED_SECONDS)
        return self._hand_back(session, claim, error, wake=False, phase="waiting_for_disk", wait_until=wait_until)

    def _hand_back(self, session: Session, claim: Claim, reason: Failure, *, wake: bool, **values: Any) -> bool:
        if self._release_cancelled(session, claim):
            return True
        back = self._held(claim).values(
            status="queued",
            lease_until=None,
            progress=0.0,
            dispatched_at=None,
            max_attempts=JobRow.max_attempts + 1,
            **values,
        )
        if not _changed(session, back):
            return False
        add_event(session, claim.job_id, claim.attempt, "requeued", {"reason": reason}, wake=wake)
        return True

    def _release_cancelled(self, session: Session, claim: Claim) -> bool:
        """End a job that is handed back and that somebody has cancelled meanwhile."""
        cancelled = self._held(claim).where(JobRow.cancel_requested_at.is_not(None))
        if not _changed(session, cancelled.values(status="cancelled", finished_at=self.now, lease_until=None)):
            return False
        add_event(session, claim.job_id, claim.attempt, "finished", {"status": "cancelled"})
        return True

    def _finish(self, session: Session, claim: Claim, status: str, error: Mapping[str, Any] | None) -> bool:
        ended = self._held(claim).values(status=status, finished_at=self.now, lease_until=None, error=error)
        if not _changed(session, ended):
            return self._ended(session, claim, status)
        add_event(
            session,
            claim.job_id,
            claim.attempt,
            "finished",
            {"status": status} if error is None else {"status": status, "error": error},
            wake=True,
        )
        return True

    @staticmethod
    def _ended(session: Session, claim: Claim, status: str) -> bool:
        """Tell whether an earlier try of this same write got through, its answer having been lost."""
        row = session.execute(select(JobRow.status, JobRow.attempt).where(JobRow.id == claim.job_id)).one_or_none()
        return row is not None and row.status == status and row.attempt == claim.attempt
