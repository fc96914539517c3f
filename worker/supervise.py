"""Run one job: claim it, watch the child that does the work, and write how it ended.

Nothing here imports NumPy or touches a GPU: the process must stay able to beat, cancel and kill whatever the child
does.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from service.blobs.store import BlobStore, is_disk_full
from service.db.session import AWAY, Database
from service.errors import Problem
from service.faults import fault
from service.identifiers import new_id
from service.ingest.limits import Limits
from service.jobs.lease import Claim, CorruptModelFileError, FinishedModel, JobLifecycle
from service.jobs.parts import PartClaim, PartLifecycle, Worker
from service.models.shadows import ShadowRepository
from service.settings import Settings
from solver.report import Report
from worker.batch_files import fetch_models, publish, shadow_counts
from worker.child_pool import ChildPool, NoChildError
from worker.children import Child, ChildGoneError
from worker.feedback_files import fetch_feedback
from worker.lease_keeper import LeaseKeeper
from worker.liveness import Liveness
from worker.part_answers import PartAnswers
from worker.protocol import FEEDBACK_FILE, MODEL_FILE, PART_FILE, PREDICTIONS_FILE, RESULT_FILE, Job, part_file
from worker.scratch_folders import ScratchFolders
from worker.transitions import Transitions

log = logging.getLogger("prefsvm.worker")

TICK_SECONDS = 0.2
"""How often the supervisor looks at clocks and wishes while the child says nothing."""
CLAIM_SECONDS = 15.0
"""How long a claim is tried again while the database is away; afterwards the dispatcher rings again."""
FINISH_SECONDS = 3600.0
"""How long writing the end of a job is tried while the database is away: rather that than to train again."""
LAST_WORDS_SECONDS = 3.0
"""The same for a worker that is about to exit."""
EXIT_SECONDS = 5.0
"""How long a child that has closed its line may take to end."""
NO_ROOM_BYTES = 1 << 20
"""A disk with less left is full: who wrote there by way of memory was killed for it, and could not say so."""
DISK_OF_WORKER = "of the worker's folder (PREFSVM_DATA_DIR)"
DISK_OF_BLOBS = "of the blob store"
PREPARING_SECONDS = 2.0
"""A job that waits for its child for so long says so, and how long again each time that this has passed."""
PREPARED = 0.5
"""Share of a job that is done once what it waited for is compiled: on most machines that takes longer than the job."""


@dataclass(frozen=True)
class _Ending:
    """How an attempt ended, and the transition that writes it."""

    what: str
    write: Callable[[Session], Literal["cancelled"] | bool] | None
    """None: the job is not ours any more, nothing may be written."""


def describe_exit(status: int | None) -> dict[str, Any]:
    """Return the error of a job whose process ended without a result (`status` negative for a signal)."""
    if status is None or status >= 0:
        return {"code": "process_died", "message": f"the training process ended without a result (status {status})"}
    name = signal.Signals(-status).name
    message = f"the training process was killed by signal {-status} ({name})"
    if -status == signal.SIGKILL:
        message += "; the system may have run out of memory"
    return {"code": "process_killed", "message": message}


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
        self._jobs = JobLifecycle(settings.lease_seconds, settings.redispatch_seconds)
        self.parts = PartLifecycle(settings.lease_seconds, settings.redispatch_seconds)
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
        return self._run(part_id, lambda session: self.parts.claim(session, part_id, worker), self.parts)

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
            scratch = self._scratch.new()
        except OSError as error:
            if not is_disk_full(error):
                raise
            return self._write(claim, _postponed(claim, transitions, DISK_OF_WORKER), transitions)
        keeper = LeaseKeeper(self._database, transitions, claim, claimed_at)
        try:
            ending = _Attempt(
                self._settings, self._database, self._jobs, self.parts, self.worker, self._children, self._stopping,
                claim, transitions, keeper, scratch,
            ).run()  # fmt: skip
            keeper.stop()
            what = self._write(claim, ending, transitions)
        finally:
            keeper.stop()
            shutil.rmtree(scratch, ignore_errors=True)
        log.info("%s: attempt %d %s", row_id, claim.attempt, what)
        return what

    def _claim(self, row_id: str, claim_row: Callable[[Session], Claim | None]) -> Claim | None:
        give_up = time.monotonic() + CLAIM_SECONDS
        while not self._stopping.is_set():
            try:
                with self._database.transaction() as session:
                    return claim_row(session)
            except (DBAPIError, PoolTimeoutError) as error:
                log.warning("%s: the database does not answer (%s)", row_id, type(error).__name__)
                if time.monotonic() > give_up:
                    break
                self._stopping.wait(0.5)
        return None

    def _write(self, claim: Claim, ending: _Ending, transitions: Transitions) -> str:
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
                failure = {"code": "internal_error", "message": message}
                write, what = partial(transitions.finish_failed, claim=claim, error=failure), "failed"
            except (DBAPIError, PoolTimeoutError) as error:
                log.warning("%s: the database does not answer (%s)", claim.job_id, type(error).__name__)
                patience = LAST_WORDS_SECONDS if self._stopping.is_set() else FINISH_SECONDS
                if time.monotonic() - started > patience:
                    return "lost"
                time.sleep(pause)
                pause = min(1.0, 2 * pause)


def _postponed(claim: Claim, transitions: Transitions, disk: str) -> _Ending:
    log.error("%s: the disk %s is full", claim.job_id, disk)
    message = f"the disk {disk} is full: the job waits and is tried again each minute, until somebody makes room there"
    error = {"code": "disk_full", "message": message}
    return _Ending("postponed", lambda session: transitions.postpone(session, claim, error))


class _Attempt:
    """One attempt at one job: the child and everything that may happen to it."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        jobs: JobLifecycle,
        parts: PartLifecycle,
        worker: Worker | None,
        children: ChildPool,
        stopping: threading.Event,
        claim: Claim,
        transitions: Transitions,
        keeper: LeaseKeeper,
        scratch: Path,
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._parts = parts
        self._worker = worker
        self._transitions = transitions
        self._children = children
        self._stopping = stopping
        self._claim = claim
        self._keeper = keeper
        self._scratch = scratch
        self._database = database
        self._started = time.monotonic()
        self._deadline = self._started + claim.max_seconds
        self._kill_at: float | None = None
        """When patience with a child that was asked to stop ends."""
        self._stop_reason = ""
        self._release_at: float | None = None
        self._child_start_seconds = 0.0
        self._says_next = PREPARING_SECONDS
        self._prepared = 0.0
        """Share of the job that was done when its child came: what it says of itself is of the rest."""

    # ------------------------------------------------------------------------------------------------- the watch

    def _has_waited_enough(self) -> bool:
        """Tell whether a child is no longer wanted; says so in the job where one takes long to be made ready."""
        waited = time.monotonic() - self._started
        prepared = PREPARED * self._children.compiled()
        if waited > self._says_next or prepared > self._prepared:
            self._prepared = max(prepared, self._prepared)
            self._keeper.progress("preparing", self._prepared, {})
            said = {"phase": "preparing", "progress": self._prepared, "seconds": round(waited, 1)}
            self._keeper.note("progress", said)
            self._says_next = waited + PREPARING_SECONDS
        return self._interruption() is not None

    def run(self) -> _Ending:
        """Run the child to its end, or end it."""
        try:
            return self._run()
        except OSError as error:
            if not is_disk_full(error):
                raise
            return self._disk_full(DISK_OF_WORKER)

    def _run(self) -> _Ending:
        if self._claim.dataset is None:
            return self._failed("dataset_deleted", "the data set was deleted before the job ran")
        labels = self._claim.labels
        if labels is None and (self._claim.request.get("labels") or {}).get("dataset") is not None:
            return self._failed("dataset_deleted", "the data set of the labels was deleted before the job ran")
        refused = self._fetch()
        if refused is not None:
            return refused
        part = self._lay_out_part() if isinstance(self._claim, PartClaim) else None
        try:
            child = self._children.take(give_up=self._has_waited_enough)
        except NoChildError:
            message = "no process for the job could be made ready on this worker; its log says how they ended"
            return self._crashed({"code": "no_process", "message": message})
        if child is None:
            return self._interruption() or self._released()
        sharing = PartAnswers(
            self._database, self._parts, self._claim, self._worker, self._scratch, child.answer,
            tell=lambda data: self._keeper.note("parts", data),
        )  # fmt: skip
        try:
            self._child_start_seconds = time.monotonic() - self._started
            job = Job(
                job_id=self._claim.job_id,
                attempt=self._claim.attempt,
                request=self._claim.request,
                layout=self._claim.dataset.layout,
                columnar_key=self._claim.dataset.columnar_key,
                columnar_sha256=self._claim.dataset.columnar_sha256,
                labels_key=None if labels is None else labels.columnar_key,
                labels_sha256=None if labels is None else labels.columnar_sha256,
                blob_location=self._settings.blob_location,
                scratch=str(self._scratch),
                kind=self._claim.kind,
                upload={
                    "key": self._claim.dataset.upload_key,
                    "sha256": self._claim.dataset.upload_sha256,
                    "format": self._claim.dataset.format,
                    "options": self._claim.dataset.options,
                    "limits": asdict(Limits.of(self._settings)),
                },
                part=part,
            )
            try:
                child.give(job, self._settings.job_memory_bytes)
                return self._watch(child, sharing)
            except ChildGoneError:
                status = child.exit_status(EXIT_SECONDS)
                if status == -signal.SIGBUS and shutil.disk_usage(self._scratch).free < NO_ROOM_BYTES:
                    return self._disk_full(DISK_OF_WORKER)
                return self._crashed(describe_exit(status))
            except (KeyError, TypeError, ValueError, OSError) as error:
                if is_disk_full(error):
                    raise
                log.exception("%s: the child broke the protocol", self._claim.job_id)
                return self._crashed({"code": "internal_error", "message": "the training process broke the protocol"})
        finally:
            child.end()
            self._children.job_ended()
            sharing.stop()

    def _lay_out_part(self) -> dict[str, Any]:
        """Put what is known by others where the child finds it; return what it is told of the part."""
        claim = cast("PartClaim", self._claim)
        for stage, results in claim.known.items():
            for number, result in enumerate(results):
                (self._scratch / part_file(stage, number)).write_bytes(result)
        known = {stage: len(results) for stage, results in claim.known.items()}
        return {"stage": claim.stage, "number": claim.number, "cache_bytes": claim.cache_bytes, "known": known}

    def _fetch(self) -> _Ending | None:
        """Put the model of a batch, or the feedback of a training, where the child finds it.

        Returns
        -------
        _Ending or None
            How the attempt ends if that cannot be done.
        """
        try:
            if self._claim.kind == "batch":
                fetch_models(self._database, self._claim, self._scratch)
            else:
                fetch_feedback(self._database, self._claim, self._scratch / FEEDBACK_FILE)
        except Problem as error:
            return self._failed(error.type.replace("-", "_"), error.detail)
        except AWAY as error:
            message = f"what the job needs could not be read ({type(error).__name__})"
            return self._crashed({"code": "database_away", "message": message})
        return None

    def _watch(self, child: Child, sharing: PartAnswers) -> _Ending:
        liveness = Liveness(self._settings.job_hung_seconds, child.processor_seconds)
        while True:
            message = child.read(TICK_SECONDS)
            if message is not None or sharing.is_asked:
                liveness.heard()
            if message is not None:
                ending = self._heard(message, sharing)
                if ending is not None:
                    return ending
            ending = self._interruption() or self._stop_if_asked(child)
            if ending is not None:
                return ending
            if child.resident_bytes() > self._settings.job_memory_bytes:
                return self._out_of_memory()
            if liveness.is_hung():
                return self._hung()

    def _interruption(self) -> _Ending | None:
        """Return the ending that does not wait for the child, if there is one."""
        if not self._keeper.held:
            return _Ending("lost", None)
        signals = self._keeper.signals
        if signals.cancel and not signals.keep_best:
            return self._cancelled()
        if self._stopping.is_set():
            if self._release_at is None:
                self._release_at = time.monotonic() + self._settings.shutdown_grace_seconds
            if time.monotonic() >= self._release_at:
                return self._released()
        return None

    def _stop_if_asked(self, child: Child) -> _Ending | None:
        """Ask the child to keep its best when time is up or somebody wants that; end it if it does not listen."""
        now = time.monotonic()
        if self._kill_at is None:
            if self._keeper.signals.cancel:
                self._stop_reason = "cancel"
            elif now >= self._deadline:
                self._stop_reason = "time_limit"
            else:
                return None
            self._kill_at = now + self._settings.stop_grace_seconds
            child.ask_to_stop()
            return None
        if now < self._kill_at:
            return None
        if self._stop_reason == "cancel":
            return self._cancelled()
        return self._failed(
            "time_limit",
            f"max_seconds = {self._claim.max_seconds:g} was reached, and the training had no model to keep within "
            f"{self._settings.stop_grace_seconds:g} s of being asked to stop",
        )

    def _heard(self, message: dict[str, Any], sharing: PartAnswers) -> _Ending | None:
        kind = message["type"]
        if kind == "progress":
            fraction = self._prepared + (1.0 - self._prepared) * float(message["progress"])
            self._keeper.progress(str(message["phase"]), fraction, dict(message["details"]))
        elif kind == "succeeded":
            endings = {"batch": self._batch_succeeded, "part": self._part_succeeded}
            ended = endings.get(self._claim.kind, self._succeeded)
            return ended(int(message["bytes"]), str(message["sha256"]))
        elif "question" in message:
            sharing.ask(message)
        elif kind == "failed":
            if message["code"] == "out_of_memory":
                return self._out_of_memory()
            if message["code"] == "disk_full":
                return self._disk_full(DISK_OF_WORKER)
            error = {"code": str(message["code"]), "message": str(message["message"])}
            return self._crashed(error) if message["again"] else self._failed(error["code"], error["message"])
        return None

    # ----------------------------------------------------------------------------------------------- the endings

    def _succeeded(self, size: int, sha256: str) -> _Ending:
        result = json.loads((self._scratch / RESULT_FILE).read_text())
        report = Report.from_dict(result["report"]).with_seconds(
            queue_seconds=self._claim.queue_seconds, child_start_seconds=self._child_start_seconds
        )
        if report.status == "stopped":
            reason = {
                "cancel": "The job was cancelled, and the best model so far was kept.",
                "time_limit": f"max_seconds = {self._claim.max_seconds:g} was reached; the best model so far was kept.",
            }.get(self._stop_reason, report.status_reason)
            report = replace(report, status_reason=reason)
        model = FinishedModel(
            id=new_id("mdl"),
            algorithm=result["algorithm"],
            manifest=result["manifest"],
            report=report,
            path=self._scratch / MODEL_FILE,
            bytes=size,
            sha256=sha256,
        )
        return _Ending("succeeded", lambda session: self._jobs.finish_succeeded(session, self._claim, model))

    def _batch_succeeded(self, size: int, sha256: str) -> _Ending:
        report = json.loads((self._scratch / RESULT_FILE).read_text())["report"]
        compared = report.pop("shadow", None)
        blobs = BlobStore(self._settings.blob_location)
        try:
            key = publish(blobs, self._scratch / PREDICTIONS_FILE)
        except Exception as error:  # an object store may raise anything
            if is_disk_full(error):
                return self._disk_full(DISK_OF_BLOBS)
            log.exception("%s: the predictions cannot be stored", self._claim.job_id)
            message = f"the predictions cannot be stored ({type(error).__name__})"
            return self._crashed({"code": "storage_error", "message": message})
        result = {"blob_key": key, "bytes": size, "sha256": sha256, **report}

        def write(session: Session) -> Literal["cancelled"] | bool:
            def count_shadow() -> None:
                if compared is not None:
                    who, counts = shadow_counts(self._claim, compared)
                    ShadowRepository(session, self._claim.project_id).add(who, counts)

            written = self._jobs.finish_batch(session, self._claim, result, count_shadow)
            if written is not True:
                blobs.delete(key)
            return written

        return _Ending("succeeded", write)

    def _part_succeeded(self, size: int, sha256: str) -> _Ending:
        claim = cast("PartClaim", self._claim)
        result = (self._scratch / PART_FILE).read_bytes()
        if len(result) != size or hashlib.sha256(result).hexdigest() != sha256:
            return self._crashed({"code": "internal_error", "message": "the result is not what the child wrote"})
        return _Ending("succeeded", lambda session: self._parts.finish_part(session, claim, result))

    def _failed(self, code: str, message: str) -> _Ending:
        error = {"code": code, "message": message}
        return _Ending("failed", lambda session: self._transitions.finish_failed(session, self._claim, error))

    def _crashed(self, error: dict[str, Any]) -> _Ending:
        return _Ending("crashed", lambda session: self._transitions.attempt_crashed(session, self._claim, error))

    def _disk_full(self, disk: str) -> _Ending:
        return _postponed(self._claim, self._transitions, disk)

    def _out_of_memory(self) -> _Ending:
        limit = self._settings.job_memory_bytes / (1 << 20)
        message = f"out of memory: the training needs more than the {limit:,.0f} MiB that a job may use"
        return self._crashed({"code": "out_of_memory", "message": message})

    def _hung(self) -> _Ending:
        message = (
            f"the training process hung: for {self._settings.job_hung_seconds:g} s it said nothing and used no "
            "processor time (PREFSVM_JOB_HUNG_SECONDS)"
        )
        log.error("%s: %s", self._claim.job_id, message)
        return self._crashed({"code": "process_hung", "message": message})

    def _cancelled(self) -> _Ending:
        return _Ending("cancelled", lambda session: self._transitions.finish_cancelled(session, self._claim))

    def _released(self) -> _Ending:
        reason = "the worker shuts down"
        return _Ending("released", lambda session: self._transitions.release(session, self._claim, reason))
