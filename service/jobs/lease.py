"""The life of a job row: every transition is one conditional UPDATE.

::

                    claim                    finish_succeeded
    queued ─────────────────────► running ─────────────────────► succeeded
      ▲  │                         │ │ │     finish_failed
      │  │ (the API)               │ │ └─────────────────────────► failed
      │  └──────────► cancelled ◄──┘ │
      └──────────────────────────────┘
        release · postpone · attempt_crashed · expired lease, while attempts are left

Enqueueing and cancel requests are the API's, in ``repository.py``; everything else is here.

Rules, all of them enforced by the WHERE clauses below:

* ``attempt`` grows by one with each claim and never falls. It is the fencing token: each write of a worker says
  ``attempt = mine AND status = 'running'``; no row changed means that the job belongs to somebody else, or to nobody,
  and the worker must stop at once and write nothing.
* Only the clock of the database counts. It may go back: a lease that ends later than one can that was taken now, or a
  bell that was rung in the future, says so, and is put right.
* A doorbell names a job, and lets a worker run one. If a job of another project has more right to run, that one runs,
  and the other is rung for again: see `_fairest`.
* ``succeeded``, ``failed`` and ``cancelled`` are never left.
* A model is written in the transaction that makes its job ``succeeded``; so there is at most one.
* A worker that shuts down hands its job back (`JobLifecycle.release`), and so does one whose disk is full
  (`JobLifecycle.postpone`); this raises ``max_attempts`` by one, because the job did nothing wrong. A crash of the job
  and a lost worker do count.

All functions take a session with an open transaction and do not commit, so that a caller can retry the whole
transaction. When the answer to a COMMIT is lost, calling the same function again tells what really happened.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, LiteralString, cast

from sqlalchemy import CursorResult, Update, and_, case, extract, func, insert, not_, null, or_, select, true, update
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql.elements import ColumnElement

from service.access.repository import QuotaRepository, may_run
from service.db.tables import DatasetRow, JobEventRow, JobRow, ModelChunkRow, ModelRow, ProjectRow
from service.faults import fault
from service.jobs.doorbell import CHANNEL
from service.models.repository import AliasRepository
from service.webhooks.outbox import announce_end
from solver.report import Report

CHUNK_BYTES = 1 << 20
UNHEARD_SECONDS = 1.0
"""Time from a doorbell that somebody took out of the broker until the claim, at most, if nothing went wrong."""
RECONCILE_ROWS = 100
"""Rows that one pass of the reconciler touches at most; the next pass goes on."""

POSTPONED_SECONDS = 60.0
"""How long a job waits for room on a disk before it is tried again."""
BELL_GIVEN_AWAY = datetime(1970, 1, 1, tzinfo=UTC)
"""``dispatched_at`` of a job whose bell let another one run: it is due at once, and before those rung for since."""

OPEN_WORK: LiteralString = """
    SELECT EXISTS (SELECT FROM jobs WHERE status = 'queued')
        OR EXISTS (SELECT FROM jobs
                    WHERE status = 'running' AND (lease_until < now() OR lease_until > now() + %(lease)s))
        OR EXISTS (SELECT FROM job_parts)
"""
"""Whether the dispatcher may have something to do: never false if it has, and much cheaper than to look for what."""


class CorruptModelFileError(Exception):
    """Raised when a model file differs from what its writer announced; the transaction must be rolled back."""


@dataclass(frozen=True)
class Dataset:
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
    """Return what a `Dataset` is made of, in its order; `row` may be an alias."""
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
    dataset: Dataset | None
    """None if the data set was deleted meanwhile."""
    kind: str
    """``train`` or ``batch``."""
    project_id: str
    feedback_until: int | None
    """`JobRow.feedback_until`."""
    alias_request: int
    """`JobRow.alias_request`; 0 for one that is older than such numbers."""
    labels: Dataset | None
    """Where the labels of a training are, if not in `dataset`; None, too, if that was deleted meanwhile."""


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


@dataclass(frozen=True)
class FinishedModel:
    """A model file that is to be stored, with what is shown of it."""

    id: str
    algorithm: str
    manifest: dict[str, Any]
    report: Report
    path: Path
    bytes: int
    sha256: str


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


def _add_event(
    session: Session, job_id: str, attempt: int, kind: str, data: dict[str, Any], *, wake: bool = False
) -> None:
    """Write an event; with `wake` the dispatcher is woken, too, when this transaction commits."""
    event = insert(JobEventRow).values(job_id=job_id, attempt=attempt, kind=kind, data=data)
    session.execute(event.returning(func.pg_notify(CHANNEL, "")) if wake else event)
    if kind == "finished":
        announce_end(session, job_id, data["status"])


def _changed(session: Session, statement: Update) -> bool:
    return cast("CursorResult[Any]", session.execute(statement)).rowcount == 1


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def has_waited(job: type[JobRow], now: ColumnElement[datetime]) -> ColumnElement[bool]:
    """Return the condition that a job need not wait for room on a disk any more."""
    longest = now + timedelta(seconds=POSTPONED_SECONDS)
    return or_(job.wait_until.is_(None), job.wait_until <= now, job.wait_until > longest)


@dataclass(frozen=True)
class JobLifecycle:
    """The transitions of a job row.

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

    # ------------------------------------------------------------------------------------------- for the worker

    def claim(self, session: Session, job_id: str) -> Claim | None:
        """Take a job that waits, or whose worker let its lease run out, if attempts are left.

        Returns
        -------
        Claim or None
            Of the job, or of one of another project that has more right to run now. None if the job is not to be had:
            unknown, finished, cancelled, or held by somebody else; or if as many jobs of its project run as may. Then
            the dispatcher rings again when one of them has ended.
        """
        found = self._look(session, job_id, case((JobRow.status == "queued", self._fairest(JobRow.project_id))))
        if found is None:
            return None
        if found.fairest is not None:
            fairer = self._look(session, found.fairest, null())
            claim = None if fairer is None else self._take(session, found.fairest, fairer)
            if claim is not None:
                given = update(JobRow).where(JobRow.id == job_id, JobRow.status == "queued")
                session.execute(
                    given.values(dispatched_at=BELL_GIVEN_AWAY).execution_options(synchronize_session=False)
                )
                session.execute(select(func.pg_notify(CHANNEL, "")))
                return claim
        return self._take(session, job_id, found)

    @staticmethod
    def _look(session: Session, job_id: str, fairest: Any) -> Any:
        """Return what must be known of a job to take it, and which one should be taken before it."""
        labels = aliased(DatasetRow)
        return session.execute(
            select(
                ProjectRow.id,
                ProjectRow.limits,
                fairest.label("fairest"),
                *dataset_columns(DatasetRow),
                *dataset_columns(labels),
            )
            .select_from(JobRow)
            .join(ProjectRow, ProjectRow.id == JobRow.project_id)
            .outerjoin(DatasetRow, DatasetRow.id == JobRow.dataset_id)
            .outerjoin(labels, labels.id == JobRow.labels_dataset_id)
            .where(JobRow.id == job_id)
        ).one_or_none()

    def _fairest(self, mine: Any) -> ColumnElement[str]:
        """Return a subquery of the job that should run before one of the project `mine`, or null if none should.

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
        statement = (
            select(case((ProjectRow.id != mine, oldest.c.id)))
            .select_from(ProjectRow)
            .join(oldest, true())
            .join(running, true())
            .join(last, true())
            .where(may_run())
            .order_by(running.c.jobs, last.c.start.nulls_first(), oldest.c.created_at)
            .limit(1)
        )
        # The query that this stands in has a project, too.
        return statement.correlate(JobRow).scalar_subquery()

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
        _add_event(session, job_id, row.attempt, "started", {})
        return Claim(
            job_id=job_id,
            attempt=row.attempt,
            request=row.request,
            max_seconds=row.max_seconds,
            queue_seconds=float(row.queue_seconds),
            dataset=None if dataset[0] is None else Dataset(*dataset),
            labels=None if labels[0] is None else Dataset(*labels),
            kind=row.kind,
            project_id=project_id,
            feedback_until=row.feedback_until,
            alias_request=row.alias_request,
        )

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
                    # By the clock of the database all the same: only how long ago it was is known here.
                    "created_at": func.clock_timestamp() - timedelta(seconds=now - event.happened),
                }
                for event in events
            ]
            session.execute(insert(JobEventRow).values(rows))
        return Signals(row.cancel_requested_at is not None, row.cancel_keep_best)

    def finish_succeeded(self, session: Session, claim: Claim, model: FinishedModel) -> Literal["cancelled"] | bool:
        """End the job with a model: row, chunks, alias and event in this one transaction.

        `storing` of the report's timings grows by the seconds that the upload took. An alias that was moved by a later
        request than this job's stays where it is; an event and the report say so.

        Returns
        -------
        bool or str
            Whether the job has succeeded by this attempt; False means it was lost and nothing was written,
            ``"cancelled"`` that somebody had asked for that in time, and the job has ended so.

        Raises
        ------
        CorruptModelFileError
            If size or SHA-256 of the file are not those announced.
        """
        started = time.monotonic()
        row = session.execute(
            self._wanted(claim)
            .values(status="succeeded", finished_at=self.now, lease_until=None, progress=1.0)
            .returning(JobRow.project_id, JobRow.dataset_id)
        ).one_or_none()
        if row is None:
            return self._not_succeeded(session, claim)
        fault("finish_after_update")
        session.execute(
            insert(ModelRow).values(
                id=model.id,
                project_id=row.project_id,
                job_id=claim.job_id,
                dataset_id=row.dataset_id,
                algorithm=model.algorithm,
                manifest=model.manifest,
                report={},
                bytes=model.bytes,
                sha256=model.sha256,
            )
        )
        digest, size = hashlib.sha256(), 0
        for seq, chunk in enumerate(_chunks(model.path)):
            digest.update(chunk)
            size += len(chunk)
            session.execute(insert(ModelChunkRow.__table__).values(model_id=model.id, seq=seq, data=chunk))  # type: ignore[arg-type]
        if size != model.bytes or digest.hexdigest() != model.sha256:
            raise CorruptModelFileError(
                f"the model file has {size} bytes with SHA-256 {digest.hexdigest()}, "
                f"but {model.bytes} bytes with {model.sha256} were announced"
            )
        fault("finish_after_chunks")
        report = model.report.with_seconds(storing=time.monotonic() - started)
        alias = claim.request.get("alias")
        aliases = AliasRepository(session, row.project_id)
        if alias is not None and not aliases.follow(alias, model.id, claim.alias_request):
            there = aliases.get(alias)
            message = (
                f"alias not moved: {alias} was pointed at {'another model' if there is None else there.model_id} by a "
                f"later request than this job's; to use this model: PUT /aliases/{alias} with "
                f"{json.dumps({'model': model.id})}"
            )
            _add_event(
                session, claim.job_id, claim.attempt, "warning",
                {"code": "alias_not_moved", "alias": alias, "message": message},
            )  # fmt: skip
            report = replace(report, warnings=[*report.warnings, message])
        session.execute(update(ModelRow).where(ModelRow.id == model.id).values(report=report.to_dict()))
        _add_event(
            session, claim.job_id, claim.attempt, "finished", {"status": "succeeded", "model_id": model.id}, wake=True
        )
        fault("finish_before_commit")
        return True

    def finish_batch(
        self, session: Session, claim: Claim, result: dict[str, Any], once: Callable[[], None] = lambda: None
    ) -> Literal["cancelled"] | bool:
        """End a batch with its result.

        Parameters
        ----------
        result : dict
            ``blob_key``, where the file is by now, and what is shown of it.
        once : callable, optional
            What else to write in the same transaction; not called if this attempt has ended the batch before, in a
            transaction whose COMMIT was carried out but not answered.

        Returns
        -------
        bool or str
            As `finish_succeeded` answers.
        """
        ended = self._wanted(claim).values(
            status="succeeded", finished_at=self.now, lease_until=None, progress=1.0, result=result
        )
        if not _changed(session, ended):
            return self._not_succeeded(session, claim)
        once()
        _add_event(session, claim.job_id, claim.attempt, "finished", {"status": "succeeded"}, wake=True)
        fault("finish_batch_before_commit")
        return True

    def finish_failed(self, session: Session, claim: Claim, error: dict[str, Any]) -> bool:
        """End the job for a reason that another attempt would not change.

        Parameters
        ----------
        error : dict
            ``{"code", "message", …}``, shown to the user.

        Returns
        -------
        bool
            Whether the job has failed by this attempt; False means it was lost and nothing was written.
        """
        return self._finish(session, claim, "failed", error)

    def finish_cancelled(self, session: Session, claim: Claim) -> bool:
        """End the job because it was asked for. Returns False if the job was lost and nothing was written."""
        return self._finish(session, claim, "cancelled", None)

    def attempt_crashed(self, session: Session, claim: Claim, error: dict[str, Any]) -> bool:
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
            _add_event(session, claim.job_id, claim.attempt, "requeued", {"reason": error}, wake=True)
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
        if self._release_cancelled(session, claim):
            return True
        released = self._held(claim).values(
            status="queued",
            lease_until=None,
            phase=None,
            progress=0.0,
            dispatched_at=None,
            max_attempts=JobRow.max_attempts + 1,
        )
        if not _changed(session, released):
            return False
        reason_data = {"code": "released", "message": reason}
        _add_event(session, claim.job_id, claim.attempt, "requeued", {"reason": reason_data}, wake=True)
        return True

    def postpone(self, session: Session, claim: Claim, error: dict[str, Any]) -> bool:
        """Hand the job back because a disk is full, to be tried again in a while; the attempt is not counted.

        Returns
        -------
        bool
            False if the job was not held any more and nothing was written.
        """
        if self._release_cancelled(session, claim):
            return True
        waits = self._held(claim).values(
            status="queued",
            lease_until=None,
            phase="waiting_for_disk",
            progress=0.0,
            wait_until=self.now + timedelta(seconds=POSTPONED_SECONDS),
            dispatched_at=None,
            max_attempts=JobRow.max_attempts + 1,
        )
        if not _changed(session, waits):
            return False
        _add_event(session, claim.job_id, claim.attempt, "requeued", {"reason": error})
        return True

    def _release_cancelled(self, session: Session, claim: Claim) -> bool:
        """End a job that is handed back and that somebody has cancelled meanwhile."""
        cancelled = self._held(claim).where(JobRow.cancel_requested_at.is_not(None))
        if not _changed(session, cancelled.values(status="cancelled", finished_at=self.now, lease_until=None)):
            return False
        _add_event(session, claim.job_id, claim.attempt, "finished", {"status": "cancelled"})
        return True

    def _finish(self, session: Session, claim: Claim, status: str, error: dict[str, Any] | None) -> bool:
        ended = self._held(claim).values(status=status, finished_at=self.now, lease_until=None, error=error)
        if not _changed(session, ended):
            return self._ended(session, claim, status)
        _add_event(
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

    # --------------------------------------------------------------------------------------- for the dispatcher

    def requeue_expired(self, session: Session) -> Reconciled:
        """Deal with jobs whose worker was lost, and with cancel requests that no worker can answer any more.

        A lease that ran out: back into the queue while attempts are left, else failed. Rows that are locked, such as
        one whose model is being stored right now, are left for the next pass.

        A lease that ends later than any that was taken by now: the clock has gone back, and the lease ends when one
        would that is taken now. Whoever lives renews it long before.
        """
        ahead = and_(JobRow.status == "running", JobRow.lease_until > self._lease_end)
        skipping = select(JobRow.id).where(ahead).with_for_update(skip_locked=True)
        session.execute(
            update(JobRow)
            .where(JobRow.id.in_(skipping), ahead)
            .values(lease_until=self._lease_end)
            .execution_options(synchronize_session=False)
        )
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
            _add_event(session, job_id, attempt, "finished", {"status": "cancelled"})
        requeued = change(
            and_(lost, JobRow.attempt < JobRow.max_attempts),
            status="queued",
            phase=None,
            progress=0.0,
            dispatched_at=None,
        )
        for job_id, attempt in requeued:
            _add_event(session, job_id, attempt, "requeued", {"reason": reason})
            fault("requeue_before_commit")
        failed = change(
            and_(lost, JobRow.attempt >= JobRow.max_attempts),
            status="failed",
            finished_at=self.now,
            error=func.jsonb_build_object("code", "worker_lost", "message", message, "attempts", JobRow.attempt),
        )
        for job_id, attempt in failed:
            error = {**reason, "attempts": attempt}
            _add_event(session, job_id, attempt, "finished", {"status": "failed", "error": error})
        return Reconciled([i for i, _ in requeued], [i for i, _ in failed], [i for i, _ in cancelled])

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

    def rung_and_waiting(self, session: Session, limit: int = 10) -> list[str]:
        """Return the ids of the oldest queued jobs that were rung for lately."""
        lately = JobRow.dispatched_at.between(self.now - timedelta(seconds=2 * self.redispatch_seconds), self.now)
        rows = session.scalars(
            select(JobRow.id)
            .where(JobRow.status == "queued", lately)
            .order_by(JobRow.created_at, JobRow.id)
            .limit(limit)
        )
        return list(rows)

    def mark_dispatched(self, session: Session, bells: Sequence[Doorbell]) -> None:
        """Note that these were rung for. A job that was claimed meanwhile, even if handed back, is left alone."""
        for bell in bells:
            session.execute(
                update(JobRow)
                .where(JobRow.id == bell.job_id, JobRow.attempt == bell.attempt, JobRow.status == "queued")
                .values(dispatched_at=self.now)
            )
