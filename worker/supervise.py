"""Run one job: claim it, have its child watched (`worker.watch`), and write how it ended.

Nothing here imports NumPy or touches a GPU: the process must stay able to beat, cancel and kill whatever the child
does.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial

from sqlalchemy.exc import DataError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.orm import Session

from service.blobs.store import is_disk_full
from service.db.session import AWAY, TROUBLE, Database
from service.faults import fault
from service.identifiers import new_id
from service.jobs.claims import Claim, Failure, JobClaims
from service.jobs.part_claims import PartClaim, PartClaims
from service.jobs.workers import Worker
from service.models.storing import CorruptModelFileError
from service.settings import Settings
from worker.attempt import DISK_OF_WORKER, Attempt, Ending, postponed
from worker.child_pool import ChildPool
from worker.lease_keeper import LeaseKeeper
from worker.scratch_folders import ScratchFolders
from worker.transitions import Transitions
from worker.watch import Watch

log = logging.getLogger("prefsvm.worker")

CLAIM_SECONDS = 15.0
"""How long a claim is tried again while the database is away; afterwards the dispatcher rings again."""
FINISH_SECONDS = 3600.0
"""How long writing the end of a job is tried while the database is away: to wait costs less than to train again."""
LAST_WORDS_SECONDS = 3.0
"""The same for a worker that is about to exit."""


class Supervisor:
    """Runs jobs, one call of `run` each; calls in several threads run side by side.

    Parameters
    ----------
    settings : Settings
    database : Database
    children : ChildPool
    scratch : ScratchFolders
    stopping : threading.Event
        Set when the worker shuts down: nothing is claimed any more, and jobs are handed back.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        children: ChildPool,
        scratch: ScratchFolders,
        stopping: threading.Event,
    ) -> None:
        self._settings = settings
        self._database = database
        self._children = children
        self._scratch = scratch
        self._stopping = stopping
        self._jobs = JobClaims(settings.lease_seconds)
        self._parts = PartClaims(settings.lease_seconds)
        self._id = new_id("wrk")

    @property
    def worker(self) -> Worker | None:
        """Who this is to other workers; None as long as no child has said what its numerics are."""
        numerics = self._children.numerics
        return Worker(self._id, self._settings.worker_slots, numerics) if numerics else None

    def run(self, job_id: str) -> str | None:
        """Run the job if it can be claimed.

        Returns
        -------
        str or None
            How this attempt ended: ``succeeded``, ``failed``, ``cancelled``, ``crashed``, ``released``, ``postponed``
            or ``lost``.
            None if there was nothing to claim.
        """
        return self._run(job_id, lambda session: self._jobs.claim(session, job_id), self._jobs)

    def run_part(self, part_id: str) -> str | None:
        """Compute a part of a job that another worker runs, if it can be claimed; answers as `run` does."""
        worker = self.worker
        if worker is None:
            return None
        return self._run(part_id, lambda session: self._parts.claim(session, part_id, worker), self._parts)

    def _run(self, row_id: str, claim_row: Callable[[Session], Claim | None], transitions: Transitions) -> str | None:
        claimed_at = time.monotonic()
        claim = self._claim(row_id, claim_row)
        if claim is None:
            return None
        # A job of another project may have had more right to run.
        row_id = claim.part_id if isinstance(claim, PartClaim) else claim.job_id
        log.info("%s: attempt %d begins", row_id, claim.attempt)
        fault("after_claim")
        try:
            folder = self._scratch.new()
        except OSError as error:
            if not is_disk_full(error):
                raise
            return self._write(claim, postponed(claim, transitions, DISK_OF_WORKER), transitions)
        attempt = Attempt(claim, transitions, self._settings, self._database, folder)
        keeper = LeaseKeeper(self._database, transitions, claim, claimed_at)
        try:
            ending = Watch(attempt, keeper, self._children, self._stopping, self.worker).run()
            keeper.stop()
            what = self._write(claim, ending, transitions)
        finally:
            keeper.stop()
            shutil.rmtree(folder, ignore_errors=True)
        log.info("%s: attempt %d %s", row_id, claim.attempt, what)
        return what

    def _claim(self, row_id: str, claim_row: Callable[[Session], Claim | None]) -> Claim | None:
        give_up = time.monotonic() + CLAIM_SECONDS
        while not self._stopping.is_set():
            try:
                with self._database.transaction() as session:
                    return claim_row(session)
            except AWAY as error:
                log.warning("%s: the database does not answer (%s)", row_id, type(error).__name__)
                if time.monotonic() > give_up:
                    break
                self._stopping.wait(0.5)
        return None

    def _write(self, claim: Claim, ending: Ending, transitions: Transitions) -> str:
        """Write the end of an attempt, however often the database has to be asked."""
        write, what = ending.write, ending.what
        if write is None:
            return what
        started = time.monotonic()
        pause = 0.1
        while True:
            try:
                fault("before_finish")
                with self._database.transaction() as session:
                    written = write(session)
                fault("after_finish")
                return written if isinstance(written, str) else what if written else "lost"
            except (DataError, IntegrityError, ProgrammingError, NotSupportedError, CorruptModelFileError) as error:
                # To try again would not help. Without the details, which may quote the user's data.
                log.error("%s: the result cannot be stored (%s)", claim.job_id, type(error).__name__)
                message = f"the result of the training cannot be stored ({type(error).__name__})"
                failure: Failure = {"code": "internal_error", "message": message}
                write, what = partial(transitions.finish_failed, claim=claim, error=failure), "failed"
            except TROUBLE as error:
                log.warning("%s: the database does not answer (%s)", claim.job_id, type(error).__name__)
                patience = LAST_WORDS_SECONDS if self._stopping.is_set() else FINISH_SECONDS
                if time.monotonic() - started > patience:
                    return "lost"
                time.sleep(pause)
                pause = min(1.0, 2 * pause)
