"""Entry point: ``python -m worker.main`` runs one worker, with the settings of the environment, until SIGTERM."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from typing import Any

from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from celery.signals import worker_shutting_down

from service.blobs.store import is_folder
from service.db.session import Database
from service.encoders.configuration import encoder_config
from service.isolation import hide_secrets
from service.jobs.dispatching import JobDispatching
from service.jobs.workers import WorkerRegistry
from service.memory import keep_one_heap, settle
from service.processes import RUNNER_VARIABLE
from service.settings import ConfigurationError, Settings
from service.telemetry import telemetry, traced_job
from worker.app import create_app
from worker.broker_watchdog import BrokerWatchdog
from worker.child_pool import ChildPool
from worker.protocol import DEFAULT_RUNNER
from worker.registration import WorkerRegistration
from worker.scratch_folders import ScratchFolders
from worker.slot_wakeup import SlotWakeup
from worker.supervise import Supervisor

DEAF = 3
"""Exit status of a worker that heard no doorbell although it should have."""


def ignore_noise() -> None:
    """Keep out of the log what Celery warns of though it is settled here."""
    # At each reconnect: Celery 6 will change a default that is set here.
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
    # To root: of pickles, which are not read here (with them it would refuse), advising an option that is not ours.
    warnings.filterwarnings("ignore", category=SecurityWarning)


def main() -> int:
    """Run the worker. Returns the exit status."""
    hide_secrets()
    keep_one_heap()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # To Celery a task that was told of a job has succeeded, also where the job failed; what became of it is said here.
    logging.getLogger("celery.app.trace").setLevel(logging.WARNING)
    settings = Settings()
    if settings.database_url is None or settings.broker_url is None:
        raise SystemExit("PREFSVM_DATABASE_URL and PREFSVM_BROKER_URL must be set")
    try:
        encoder_config(settings)
    except ConfigurationError as error:
        raise SystemExit(f"prefsvm: {error}") from None
    stopping = threading.Event()

    wakeup = SlotWakeup()

    def shut_down(**_: Any) -> None:
        stopping.set()
        wakeup.wake()  # Celery would look up to a second later.

    ignore_noise()
    # Before Celery waits for its tasks: the supervisors hand their jobs back and return.
    worker_shutting_down.connect(shut_down, weak=False)
    database = Database(
        settings.database_url,
        pool_size=3 * settings.worker_slots + 2,
        application_name="prefsvm-worker",
        # A worker that is frozen while it writes must not keep its job from those who would recover it.
        idle_transaction_seconds=settings.lease_seconds / 2,
    )
    scratch = ScratchFolders(settings.data_dir.absolute() / "scratch")
    runner = os.environ.get(RUNNER_VARIABLE, DEFAULT_RUNNER)
    # Runners of tests leave notes elsewhere.
    writable = scratch.folder if runner == DEFAULT_RUNNER else None
    children = ChildPool(runner, settings.worker_slots, not is_folder(settings.blob_location), writable)
    supervisor = Supervisor(settings, database, children, scratch, stopping)
    spans = telemetry(settings.otlp_endpoint, "prefsvm-worker")
    jobs = JobDispatching(settings.lease_seconds, settings.redispatch_seconds)
    # It is idle when that happens, so that nothing is lost by an end without ceremony; Celery's own may never come.
    watchdog = BrokerWatchdog(database, jobs, on_deaf=lambda: os._exit(DEAF))
    run = watchdog.around(traced_job(spans, supervisor.run))
    app = create_app(settings, run, watchdog.around(supervisor.run_part), wakeup)
    registration = WorkerRegistration(database, WorkerRegistry(settings.lease_seconds), lambda: supervisor.worker)
    try:
        worker = app.Worker(
            loglevel="INFO", without_gossip=True, without_mingle=True, without_heartbeat=True, quiet=True
        )
        settle()
        worker.start()
        return int(worker.exitcode or 0)
    finally:
        stopping.set()
        watchdog.close()
        registration.close()
        children.close()
        scratch.close()
        database.close()
        if spans is not None:
            spans.close()


if __name__ == "__main__":
    status = main()
    # All is closed; to take the interpreter apart would take longer than that did.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)
