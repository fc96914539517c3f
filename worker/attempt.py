"""One attempt at a job, as all see it who work on that, and the ways in which it may end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy.orm import Session

from service.db.session import Database
from service.jobs.claims import Claim, Failure
from service.settings import Settings
from worker.transitions import Transitions

log = logging.getLogger("prefsvm.worker")

DISK_OF_WORKER = "of the worker's folder (PREFSVM_DATA_DIR)"
DISK_OF_BLOBS = "of the blob store"


@dataclass(frozen=True)
class Ending:
    """How an attempt ended, and the transition that writes it."""

    what: str
    write: Callable[[Session], Literal["cancelled"] | bool] | None
    """None: the job is not ours any more, nothing may be written."""


LOST = Ending("lost", None)


@dataclass(frozen=True)
class Attempt:
    """A claim, and what there is to work on it with."""

    claim: Claim
    transitions: Transitions
    """Those of `claim`."""
    settings: Settings
    database: Database
    folder: Path
    """Private to the job; supervisor and child leave files for each other there."""

    def failed(self, code: str, message: str) -> Ending:
        """End the job: another attempt would not change the reason."""
        error: Failure = {"code": code, "message": message}
        return Ending("failed", lambda session: self.transitions.finish_failed(session, self.claim, error))

    def crashed(self, code: str, message: str) -> Ending:
        """Try again, while attempts are left."""
        error: Failure = {"code": code, "message": message}
        return Ending("crashed", lambda session: self.transitions.attempt_crashed(session, self.claim, error))

    def cancelled(self) -> Ending:
        """End the job because somebody wants that."""
        return Ending("cancelled", lambda session: self.transitions.finish_cancelled(session, self.claim))

    def released(self) -> Ending:
        """Hand the job back."""
        reason = "the worker shuts down"
        return Ending("released", lambda session: self.transitions.release(session, self.claim, reason))

    def disk_full(self, disk: str) -> Ending:
        """Hand the job back until there is room on a disk."""
        return postponed(self.claim, self.transitions, disk)

    def out_of_memory(self) -> Ending:
        """Say how much the job might have used."""
        limit = self.settings.job_memory_bytes / (1 << 20)
        message = f"out of memory: the job needs more than the {limit:,.0f} MiB that a job may use"
        return self.crashed("out_of_memory", message)

    def hung(self) -> Ending:
        """Say for how long the child did nothing."""
        message = (
            f"the process of the job hung: for {self.settings.job_hung_seconds:g} s it said nothing and used no "
            "processor time (PREFSVM_JOB_HUNG_SECONDS)"
        )
        log.error("%s: %s", self.claim.job_id, message)
        return self.crashed("process_hung", message)


def postponed(claim: Claim, transitions: Transitions, disk: str) -> Ending:
    """Hand a job back until there is room on a disk; also for one that has no folder for that reason."""
    log.error("%s: the disk %s is full", claim.job_id, disk)
    message = f"the disk {disk} is full: the job waits and is tried again each minute, until somebody makes room there"
    error: Failure = {"code": "disk_full", "message": message}
    return Ending("postponed", lambda session: transitions.postpone(session, claim, error))
