"""A job queue, a supervisor and whole worker processes for tests, all on real parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import redis
from database_roles import OF_MODULE, as_role
from sqlalchemy import select

from service.blobs.store import BlobStore
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, DatasetRow, JobEventRow, JobRow, ModelRow
from service.identifiers import new_id
from service.jobs.repository import JobRepository
from service.local.processes import spawn
from service.settings import Settings
from worker.child_pool import ChildPool
from worker.scratch_folders import ScratchFolders
from worker.supervise import Supervisor

STANDIN = Path(__file__).parent / "standin"
ROOT = Path(__file__).parents[2]


def dataset_row(**changes: Any) -> DatasetRow:
    """Return the row of a data set of which nobody looks at the upload."""
    values = {
        "id": new_id("ds"), "name": "d", "format": "csv", "layout": "table", "bytes": 1, "sha256": "0", "rows": 1,
        "columns": [], "warnings": [], "blob_key": "b", "columnar_key": "c",
    }  # fmt: skip
    return DatasetRow(project_id=DEFAULT_PROJECT, **(values | changes))


def store_table(settings: Settings, database: Database, name: str, columns: Mapping[str, Any]) -> str:
    """Store a table as a data set whose columnar form is at ``columnar/<name>``, and return its id."""
    table = pa.table(columns)
    with BlobStore(settings.blob_location).writer(f"columnar/{name}") as blob:
        pq.write_table(table, blob)
    row = dataset_row(name=name, rows=len(table), columnar_key=f"columnar/{name}")
    with database.transaction() as session:
        session.add(row)
    return row.id


class JobTable:
    """Puts jobs for `standin_jobs` into the table, and looks at what became of them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def enqueue(
        self,
        do: str,
        *,
        dataset_id: str | None = None,
        max_seconds: float = 60.0,
        max_attempts: int = 3,
        **request: Any,
    ) -> str:
        with self.database.transaction() as session:
            dataset = dataset_row()
            if dataset_id is None:
                session.add(dataset)
                session.flush()
            job = JobRow(project_id=DEFAULT_PROJECT,
                id=new_id("job"), request={"do": do, **request}, dataset_id=dataset_id or dataset.id,
                max_seconds=max_seconds, max_attempts=max_attempts,
            )  # fmt: skip
            return JobRepository(session, DEFAULT_PROJECT).enqueue(job).id

    def row(self, job_id: str) -> JobRow:
        with self.database.transaction() as session:
            return session.get_one(JobRow, job_id)

    def events(self, job_id: str) -> list[JobEventRow]:
        with self.database.transaction() as session:
            return list(
                session.scalars(select(JobEventRow).where(JobEventRow.job_id == job_id).order_by(JobEventRow.id))
            )

    def models(self, job_id: str) -> list[ModelRow]:
        with self.database.transaction() as session:
            return list(session.scalars(select(ModelRow).where(ModelRow.job_id == job_id)))

    def cancel(self, job_id: str, *, keep_best: bool) -> None:
        with self.database.transaction() as session:
            assert JobRepository(session, DEFAULT_PROJECT).ask_running_to_cancel(job_id, keep_best)


class Bench(JobTable):
    """A supervisor in this process, with children of its own or, which saves seconds, with those of other tests too."""

    def __init__(
        self, settings: Settings, database: Database, runner: str | ChildPool = "standin_jobs", **changes: Any
    ) -> None:
        super().__init__(database)
        # A busy machine may let the thread that renews a lease wait for seconds.
        defaults = {"lease_seconds": 60.0, "stop_grace_seconds": 0.5, "shutdown_grace_seconds": 0.3}
        self.settings = settings.model_copy(update={**defaults, **changes})
        self.stopping = threading.Event()
        self.scratch = ScratchFolders(self.settings.data_dir / "scratch")
        self.spares = ChildPool(runner, 1) if isinstance(runner, str) else runner
        self._spares_are_shared = self.spares is runner
        self.supervisor = Supervisor(self.settings, database, self.spares, self.scratch, self.stopping)

    def close(self) -> None:
        if not self._spares_are_shared:
            self.spares.close()
        self.scratch.close()

    def in_thread(self, job_id: str) -> tuple[threading.Thread, list[str | None]]:
        """Run a job beside the test and say how it ended."""
        endings: list[str | None] = []
        thread = threading.Thread(target=lambda: endings.append(self.supervisor.run(job_id)))
        thread.start()
        return thread, endings


class Stack(JobTable):
    """A dispatcher and workers as processes of their own."""

    def __init__(self, settings: Settings, database: Database, folder: Path) -> None:
        super().__init__(database)
        self.settings = settings
        assert settings.database_url is not None
        assert settings.broker_url is not None
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(STANDIN),
            "PREFSVM_JOB_RUNNER": "standin_jobs",
            "PREFSVM_DATABASE_URL": settings.database_url.replace("+psycopg", ""),
            "PREFSVM_BROKER_URL": settings.broker_url,
            "PREFSVM_DATA_DIR": str(settings.data_dir),
            "PREFSVM_LEASE_SECONDS": str(settings.lease_seconds),
            "PREFSVM_REDISPATCH_SECONDS": str(settings.redispatch_seconds),
            "PREFSVM_SHUTDOWN_GRACE_SECONDS": "0.3",
        }
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def start(self, module: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{module}-{len(self._processes)}.log").open("wb")
        self._logs.append(log)
        command = [sys.executable, "-m", module]
        own = {**self.environment, **environment}
        if own["PREFSVM_DATABASE_URL"] == self.environment["PREFSVM_DATABASE_URL"]:
            own["PREFSVM_DATABASE_URL"] = as_role(own["PREFSVM_DATABASE_URL"], OF_MODULE[module])
        process = spawn(command, cwd=ROOT, env=own, log=log)
        self._processes.append(process)
        return process

    def start_dispatcher(self, **environment: str) -> subprocess.Popen[bytes]:
        return self.start("service.dispatcher", **environment)

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker and wait until it listens."""
        return self.start_workers(1, **environment)[0]

    def start_workers(self, number: int, **environment: str) -> list[subprocess.Popen[bytes]]:
        workers = [self.start("worker.main", **environment) for _ in range(number)]
        for log in self._logs[-number:]:
            wait_for(lambda log=log: "ready." in Path(log.name).read_text(), 30)  # type: ignore[misc]
        return workers

    def log_of(self, process: subprocess.Popen[bytes]) -> bytes:
        """What the process has written so far."""
        return Path(self._logs[self._processes.index(process)].name).read_bytes()

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL the process alone, not its group, and wait until it is gone."""
        process.send_signal(signal.SIGKILL)
        process.wait(40)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)
        for log in self._logs:
            log.close()

    @property
    def broker(self) -> redis.Redis:
        assert self.settings.broker_url is not None
        return redis.Redis(unix_socket_path=self.settings.broker_url.removeprefix("redis+socket://"))

    def wait_for_status(self, job_id: str, status: str, seconds: float = 120.0) -> JobRow:
        wait_for(lambda: self.row(job_id).status == status, seconds)
        return self.row(job_id)


def is_over(pid: int) -> bool:
    """Whether a process has ended. It may not have been reaped: an orphan is ours where a worker's parts run here."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
