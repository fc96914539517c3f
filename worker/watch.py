"""The child of one attempt: it is told its job and watched, until it has ended or is ended.

Nothing here imports NumPy or touches a GPU, as in `worker.supervise`.
"""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from dataclasses import asdict
from typing import Any

from service.blobs.store import is_disk_full
from service.db.session import AWAY
from service.encoders.configuration import encoder_config
from service.errors import Problem
from service.ingest.limits import ReadingLimits
from service.jobs.claims import ClaimedDataset
from service.jobs.workers import Worker
from worker.attempt import DISK_OF_WORKER, LOST, Attempt, Ending
from worker.child_pool import ChildPool, NoChildError
from worker.children import Child, ChildGoneError
from worker.kinds.kind import JobKind, Made
from worker.kinds.registry import KINDS
from worker.lease_keeper import LeaseKeeper
from worker.liveness import Liveness
from worker.part_answers import PartAnswers
from worker.protocol import JobSpec, UnrunnableJobError

log = logging.getLogger("prefsvm.worker")

TICK_SECONDS = 0.2
"""How often deadlines, the lease and cancel requests are looked at while the child says nothing."""
EXIT_SECONDS = 5.0
"""How long a child that has closed its line may take to end."""
NO_ROOM_BYTES = 1 << 20
"""A disk with less room left is full. A child that wrote to it through mapped memory was killed by SIGBUS for that, and
could not say why."""
PREPARING_SECONDS = 2.0
"""A job that has waited this long for its child says so, and says it again each time that this has passed."""
WAITING_FOR_ENCODER = "waiting_for_encoder"
"""Phase of a job whose encoder of texts does not answer."""
PREPARED = 0.5
"""Share of a job that is done once what it waited for is compiled: on most machines that takes longer than the job."""


def describe_exit(status: int | None) -> tuple[str, str]:
    """Return code and message of a job whose process ended without a result (`status` negative for a signal)."""
    if status is None or status >= 0:
        return "process_died", f"the process of the job ended without a result (status {status})"
    name = signal.Signals(-status).name
    message = f"the process of the job was killed by signal {-status} ({name})"
    if -status == signal.SIGKILL:
        message += "; the system may have run out of memory"
    return "process_killed", message


class Watch:
    """The child of one attempt, and everything that may happen to it."""

    def __init__(
        self,
        attempt: Attempt,
        keeper: LeaseKeeper,
        children: ChildPool,
        stopping: threading.Event,
        worker: Worker | None,
    ) -> None:
        self._attempt = attempt
        self._claim = attempt.claim
        self._settings = attempt.settings
        self._keeper = keeper
        self._children = children
        self._stopping = stopping
        self._worker = worker
        self._started = time.monotonic()
        self._deadline = self._started + attempt.claim.max_seconds
        self._kill_at: float | None = None
        """When patience with a child that was asked to stop ends."""
        self._stop_reason = ""
        self._release_at: float | None = None
        self._child_start_seconds = 0.0
        self._says_next = PREPARING_SECONDS
        self._says_of_encoder = False
        self._at = ("", 0.0)
        """Phase and progress of which the child spoke last."""
        self._prepared = 0.0
        """Share of the job that was done when its child came: what it says of itself is of the rest."""

    def _has_given_up(self) -> bool:
        """Tell whether a child is no longer waited for."""
        self._say_of_waiting()
        return self._interruption() is not None

    def _say_of_waiting(self) -> None:
        """Say in the job that its child is made ready, where that takes long."""
        waited = time.monotonic() - self._started
        prepared = PREPARED * self._children.compiled()
        if waited > self._says_next or prepared > self._prepared:
            self._prepared = max(prepared, self._prepared)
            self._keeper.progress("preparing", self._prepared, {})
            said = {"phase": "preparing", "progress": self._prepared, "seconds": round(waited, 1)}
            self._keeper.note("progress", said)
            self._says_next = waited + PREPARING_SECONDS

    def run(self) -> Ending:
        """Run the child to its end, or end it."""
        try:
            return self._run()
        except OSError as error:
            if not is_disk_full(error):
                raise
            return self._attempt.disk_full(DISK_OF_WORKER)

    def _run(self) -> Ending:
        attempt, kind = self._attempt, KINDS.get(self._claim.kind)
        if kind is None:
            message = f"this worker knows no jobs of the kind {self._claim.kind}: it is older than the service"
            return attempt.crashed("unknown_kind", message)
        if self._claim.dataset is None:
            return attempt.failed("dataset_deleted", "the data set was deleted before the job ran")
        try:
            details = kind.lay_out(attempt)
        except UnrunnableJobError as error:
            return attempt.failed(error.code, error.message)
        except Problem as error:
            return attempt.failed(error.type.replace("-", "_"), error.detail)
        except AWAY as error:
            message = f"what the job needs could not be read ({type(error).__name__})"
            return attempt.crashed("database_away", message)
        job = _job(attempt, kind, self._claim.dataset, details)
        try:
            child = self._children.take(give_up=self._has_given_up)
        except NoChildError:
            message = "no process for the job could be made ready on this worker; its log says how they ended"
            return attempt.crashed("no_process", message)
        if child is None:
            return self._interruption() or attempt.released()
        self._child_start_seconds = time.monotonic() - self._started
        return self._run_in(child, kind, job)

    def _run_in(self, child: Child, kind: JobKind, job: JobSpec) -> Ending:
        answers = PartAnswers(
            self._attempt,
            self._worker,
            child.answer,
            lambda data: self._keeper.note("parts", data),
            encoder_config(self._settings),
            self._waits_for_encoder,
        )
        try:
            child.give(job, self._settings.job_memory_bytes)
            return self._watch(child, kind, answers)
        except ChildGoneError:
            status = child.exit_status(EXIT_SECONDS)
            if status == -signal.SIGBUS and shutil.disk_usage(self._attempt.folder).free < NO_ROOM_BYTES:
                return self._attempt.disk_full(DISK_OF_WORKER)
            return self._attempt.crashed(*describe_exit(status))
        except (KeyError, TypeError, ValueError, OSError) as error:
            if is_disk_full(error):
                raise
            log.exception("%s: the child broke the protocol", self._claim.job_id)
            return self._attempt.crashed("internal_error", "the process of the job broke the protocol")
        finally:
            child.end()
            self._children.job_ended()
            answers.stop()

    def _waits_for_encoder(self, said: dict[str, Any] | None) -> None:
        """Say in the job that its encoder is waited for; with None, that the job goes on where it was."""
        phase, fraction = self._at
        if said is None:
            self._says_of_encoder = False
            self._keeper.progress(phase, fraction, {})
            return
        if self._says_of_encoder:  # phase and progress have not changed, so progress() would write no event
            self._keeper.note("progress", said | {"phase": WAITING_FOR_ENCODER, "progress": fraction})
        self._says_of_encoder = True
        self._keeper.progress(WAITING_FOR_ENCODER, fraction, said)

    def _watch(self, child: Child, kind: JobKind, answers: PartAnswers) -> Ending:
        liveness = Liveness(self._settings.job_hung_seconds, child.processor_seconds)
        while True:
            message = child.read(TICK_SECONDS)
            if message is not None or answers.is_asked:
                liveness.heard()
            if message is not None:
                ending = self._heard(message, kind, answers)
                if ending is not None:
                    return ending
            ending = self._interruption() or self._stop_if_due(child)
            if ending is not None:
                return ending
            if child.resident_bytes() > self._settings.job_memory_bytes:
                return self._attempt.out_of_memory()
            if liveness.is_hung():
                return self._attempt.hung()

    def _interruption(self) -> Ending | None:
        """Return the ending that does not wait for the child, if there is one."""
        if not self._keeper.held:
            return LOST
        signals = self._keeper.signals
        if signals.cancel and not signals.keep_best:
            return self._attempt.cancelled()
        if self._stopping.is_set():
            if self._release_at is None:
                self._release_at = time.monotonic() + self._settings.shutdown_grace_seconds
            if time.monotonic() >= self._release_at:
                return self._attempt.released()
        return None

    def _stop_if_due(self, child: Child) -> Ending | None:
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
            return self._attempt.cancelled()
        return self._attempt.failed(
            "time_limit",
            f"max_seconds = {self._claim.max_seconds:g} was reached, and the job had nothing to keep within "
            f"{self._settings.stop_grace_seconds:g} s of being asked to stop",
        )

    def _heard(self, message: dict[str, Any], kind: JobKind, answers: PartAnswers) -> Ending | None:
        """Take a line of the child; return how the attempt ends if it says so."""
        what = message["type"]
        if what == "progress":
            fraction = self._prepared + (1.0 - self._prepared) * float(message["progress"])
            self._at = str(message["phase"]), fraction
            self._keeper.progress(*self._at, dict(message["details"]))
        elif what == "succeeded":
            made = Made(int(message["bytes"]), str(message["sha256"]), self._stop_reason, self._child_start_seconds)
            return kind.conclude(self._attempt, made)
        elif "question" in message:
            answers.ask(message)
        elif what == "failed":
            if message["code"] == "out_of_memory":
                return self._attempt.out_of_memory()
            if message["code"] == "disk_full":
                return self._attempt.disk_full(DISK_OF_WORKER)
            end = self._attempt.crashed if message["again"] else self._attempt.failed
            return end(str(message["code"]), str(message["message"]))
        return None


def _job(attempt: Attempt, kind: JobKind, dataset: ClaimedDataset, details: dict[str, Any]) -> JobSpec:
    """Return what the child is told."""
    claim, settings = attempt.claim, attempt.settings
    encoder = {} if settings.encoder_model is None else {"encoder": settings.encoder_model}
    return JobSpec(
        job_id=claim.job_id,
        attempt=claim.attempt,
        request=claim.request,
        computes=kind.computes,
        makes=kind.makes,
        details=details | encoder,
        layout=dataset.layout,
        columnar_key=dataset.columnar_key,
        columnar_sha256=dataset.columnar_sha256,
        labels_key=None if claim.labels is None else claim.labels.columnar_key,
        labels_sha256=None if claim.labels is None else claim.labels.columnar_sha256,
        blob_location=settings.blob_location,
        scratch=str(attempt.folder),
        upload={
            "key": dataset.upload_key,
            "sha256": dataset.upload_sha256,
            "format": dataset.format,
            "options": dataset.options,
            "limits": asdict(ReadingLimits.of(settings)),
        },
    )
