"""Starts a part of the product as it is, but for a note of each late write that was refused, or with one defect put in.

A worker's clock stands still while it is frozen, as on a machine that was suspended: it does not know by itself that
its lease is over, so only the fence keeps its late writes out.

``python -m chaos_entry worker``, ``dispatcher`` or ``api``; ``CHAOS_NOTES`` names the file for the notes,
``CHAOS_DEFECT`` the defect. Only the chaos tests start parts this way, to see that they notice.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Update, select, update
from sqlalchemy.orm import Session

from service.db.session import AWAY, Database
from service.db.tables import JobRow
from service.jobs.claims import Claim, JobClaims, Signals
from service.jobs.dispatching import JobDispatching, Reconciled
from service.jobs.repository import JobRepository
from worker.lease_keeper import LeaseKeeper

FENCED = ("heartbeat", "signals", "record_progress", "finish_succeeded", "finish_failed", "attempt_crashed", "release")
MODULES = {"worker": "worker.main", "dispatcher": "service.dispatcher", "api": "service.app"}
LATE_SECONDS = 0.5


def note_refusals(path: str) -> None:
    """Add a line to `path` whenever a worker is refused, because the job is not its own any more."""

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(self: JobClaims, session: Any, claim: Claim, *arguments: Any, **more: Any) -> Any:
            result = function(self, session, claim, *arguments, **more)
            if not result:
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                os.write(descriptor, f"{name} {claim.job_id} {claim.attempt}\n".encode())
                os.close(descriptor)
            return result

        return call

    for name in FENCED:
        setattr(JobClaims, name, noting(name, getattr(JobClaims, name)))


def let_the_clock_stand_still() -> None:
    """Let a worker believe in its lease until the database says that it is lost."""
    LeaseKeeper.held = property(lambda self: not self._lost)  # type: ignore[assignment,method-assign]


def take_out_the_fence() -> None:
    """Let a worker write whenever the job runs, whoever runs it."""

    def held(claim: Claim) -> Update:
        return update(JobRow).where(JobRow.id == claim.job_id, JobRow.status == "running")

    def signals(_: JobClaims, session: Any, claim: Claim) -> Signals | None:
        row = session.execute(select(JobRow).where(JobRow.id == claim.job_id, JobRow.status == "running")).one_or_none()
        return None if row is None else Signals(cancel=False, keep_best=False)

    JobClaims._held = staticmethod(held)  # type: ignore[method-assign]
    JobClaims.signals = signals  # type: ignore[method-assign]


def take_out_the_reconciler() -> None:
    """Leave jobs with the worker that was lost."""
    JobDispatching.requeue_expired = lambda _, __: Reconciled()  # type: ignore[method-assign]


def take_out_the_ringing_again() -> None:
    """Ring once for each job that is queued, and never again."""
    due = JobDispatching.due_for_dispatch

    def only_new(self: JobDispatching, session: Any, limit: int) -> Any:
        rung = set(session.scalars(select(JobRow.id).where(JobRow.dispatched_at.is_not(None))))
        return [bell for bell in due(self, session, 10_000) if bell.job_id not in rung][:limit]

    JobDispatching.due_for_dispatch = only_new  # type: ignore[method-assign]


def answer_before_the_commit() -> None:
    """Let the API say that a training is accepted a moment before its row is there for good."""
    enqueue, commit = JobRepository.enqueue, Session.commit

    def enqueue_late(self: JobRepository, job: JobRow) -> JobRow:
        self._session.info["late"] = True
        return enqueue(self, job)

    def commit_late(session: Session) -> None:
        with suppress(*AWAY):
            commit(session)
        session.close()

    @contextmanager
    def transaction(self: Database) -> Iterator[Session]:
        manager = begin(self)
        session = manager.__enter__()
        try:
            yield session
        except BaseException:
            manager.__exit__(*sys.exc_info())
            raise
        if session.info.get("late"):
            threading.Timer(LATE_SECONDS, commit_late, [session]).start()
            kept.append(manager)
        else:
            manager.__exit__(None, None, None)

    begin, kept = Database.transaction, []
    JobRepository.enqueue = enqueue_late  # type: ignore[method-assign]
    Database.transaction = transaction  # type: ignore[method-assign]


DEFECTS = {
    "": lambda: None,
    "no fence": take_out_the_fence,
    "no reconciler": take_out_the_reconciler,
    "no ringing again": take_out_the_ringing_again,
    "answer before the commit": answer_before_the_commit,
}

if __name__ == "__main__":
    DEFECTS[os.environ.get("CHAOS_DEFECT", "")]()
    note_refusals(os.environ["CHAOS_NOTES"])
    let_the_clock_stand_still()
    raise SystemExit(importlib.import_module(MODULES[sys.argv[1]]).main())
