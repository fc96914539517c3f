"""One job at a time, with a real database, a real supervisor and real child processes that behave badly."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select, update
from worker_bench import STANDIN, Bench, is_over, wait_for

from service.db.session import Database
from service.db.tables import JobRow, ModelChunkRow
from service.jobs.dispatching import JobDispatching
from service.settings import Settings
from worker.kinds.batch import BatchKind
from worker.kinds.training import TrainingKind
from worker.scratch_folders import ScratchFolders


@pytest.fixture
def open_bench(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Bench]]:
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("PREFSVM_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PREFSVM_BROKER_URL", "redis://secret")
    opened: list[Bench] = []

    def run(**changes: Any) -> Bench:
        opened.append(Bench(settings, database, **changes))
        return opened[-1]

    yield run
    for one in opened:
        one.close()


@pytest.fixture
def bench(open_bench: Callable[..., Bench], request: pytest.FixtureRequest) -> Bench:
    return open_bench(**getattr(request, "param", {}))


def test_a_job_that_succeeds(bench: Bench) -> None:
    job_id = bench.enqueue("nothing")
    assert bench.supervisor.run(job_id) == "succeeded"
    job = bench.row(job_id)
    assert (job.status, job.attempt, job.error) == ("succeeded", 1, None)
    (model,) = bench.models(job_id)
    with bench.database.transaction() as session:
        data = session.scalars(select(ModelChunkRow.data).where(ModelChunkRow.model_id == model.id)).one()
    assert data == b"model of " + job_id.encode()
    assert set(model.report["timings"]) == {"queue_seconds", "child_start_seconds", "training", "storing"}
    assert [event.kind for event in bench.events(job_id)] == ["queued", "started", "progress", "finished"]
    assert list((bench.settings.data_dir / "scratch").glob("*/job-*")) == []
    assert bench.supervisor.run(job_id) is None  # a doubled doorbell


def test_a_job_says_that_its_process_is_made_ready(
    open_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first one on a machine compiles the solver, for which nobody should wait without a word."""
    ready = tmp_path / "ready"
    monkeypatch.setenv("PREFSVM_JOB_RUNNER_READY_WHEN", str(ready))
    monkeypatch.setattr("worker.watch.PREPARING_SECONDS", 0.1)
    bench = open_bench()
    job_id = bench.enqueue("nothing")
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: [event.kind for event in bench.events(job_id)].count("progress") > 3)
    ready.touch()
    thread.join(40)
    assert endings == ["succeeded"]
    news = [event.data for event in bench.events(job_id) if event.kind == "progress"]
    phases = [data["phase"] for data in news]
    assert phases[0] == "preparing"
    assert phases.count("preparing") == len(phases) - 1
    seconds = [data["seconds"] for data in news if "seconds" in data]
    assert len(seconds) > 2
    assert seconds == sorted(set(seconds)), "it says how long it has waited, again and again"
    shares = [data["progress"] for data in news]
    assert 0.25 in shares, "half of what is compiled first is a quarter of the job"
    assert shares == sorted(shares), "what the child says of itself is of the rest"
    later = bench.enqueue("nothing")
    assert bench.supervisor.run(later) == "succeeded"
    shares = [event.data["progress"] for event in bench.events(later) if event.kind == "progress"]
    assert set(shares) <= {0.0, 1.0}, "a later job, which has nothing to wait for, begins at 0"


def test_a_worker_whose_processes_are_never_ready_gives_the_job_back(
    open_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may have more luck; if none has, the job fails and says why, instead of running for ever."""
    monkeypatch.setenv("PREFSVM_JOB_RUNNER_NEVER_READY", "1")
    monkeypatch.setattr("worker.child_pool.RETRY_SECONDS", 0.05)
    bench = open_bench()
    job_id = bench.enqueue("nothing")
    for attempt in range(1, 4):
        assert bench.row(job_id).status == "queued"
        bench.supervisor.run(job_id)
        assert bench.row(job_id).attempt == attempt
    job = bench.row(job_id)
    assert job.status == "failed"
    assert job.error is not None
    assert "could be made ready" in job.error["message"]


def test_the_child_has_no_secrets_and_a_folder_of_its_own(bench: Bench) -> None:
    job_id = bench.enqueue("environment")
    bench.supervisor.run(job_id)
    report = bench.models(job_id)[0].report["params"]
    assert not {"PREFSVM_DATABASE_URL", "PREFSVM_BROKER_URL"} & set(report["environment"])
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"} <= set(report["environment"])
    assert report["folder"].startswith(str(bench.settings.data_dir / "scratch"))
    assert report["nice"] >= 10


@pytest.mark.parametrize("do", ["deaf", "loop in C"])
def test_a_process_that_hangs_is_ended_and_the_job_tried_again(open_bench: Callable[..., Bench], do: str) -> None:
    """It had ended by `max_seconds`, a day later."""
    bench = open_bench(job_hung_seconds=0.5)
    job_id = bench.enqueue(do, seconds=600, max_seconds=500, max_attempts=2)
    assert bench.supervisor.run(job_id) == "crashed"
    assert bench.row(job_id).status == "queued"
    assert bench.supervisor.run(job_id) == "crashed"
    job = bench.row(job_id)
    assert (job.status, job.attempt) == ("failed", 2)
    assert job.error is not None
    assert job.error["code"] == "process_hung"
    assert "for 0.5 s it said nothing and used no processor time" in job.error["message"]


@pytest.mark.parametrize("do", ["work in silence", "sleep"])
def test_a_process_that_works_or_speaks_does_not_hang(open_bench: Callable[..., Bench], do: str) -> None:
    bench = open_bench(job_hung_seconds=1.5)
    job_id = bench.enqueue(do, seconds=4)
    assert bench.supervisor.run(job_id) == "succeeded"


def test_what_the_user_can_mend_fails_at_once(bench: Bench) -> None:
    job_id = bench.enqueue("user error")
    assert bench.supervisor.run(job_id) == "failed"
    job = bench.row(job_id)
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error == {
        "code": "too_few_labels",
        "message": "3 labelled rows of class 'spam' are needed, 1 was found",
    }


@pytest.mark.parametrize(
    ("do", "code", "says"),
    [
        ("die", "process_killed", "killed by signal 9 (SIGKILL)"),
        ("exit", "process_died", "status 7"),
        ("eat", "out_of_memory", "out of memory: the job needs more than the 512 MiB"),
        ("start a thread", "out_of_memory", "out of memory: the job needs more than the 512 MiB"),
        ("bug", "internal_error", "ValueError in standin_jobs.py, line"),
        ("unwritable report", "internal_error", "TypeError in protocol.py"),
    ],
)
def test_a_crash_is_tried_again_and_then_told(open_bench: Callable[..., Bench], do: str, code: str, says: str) -> None:
    bench = open_bench(job_memory_bytes=512 << 20)
    job_id = bench.enqueue(do, max_attempts=2)
    assert bench.supervisor.run(job_id) == "crashed"
    assert bench.row(job_id).status == "queued"
    assert bench.supervisor.run(job_id) == "crashed"
    job = bench.row(job_id)
    assert (job.status, job.attempt) == ("failed", 2)
    assert job.error is not None
    assert (job.error["code"], job.error["attempts"]) == (code, 2)
    assert says in job.error["message"]
    assert "4711" not in str(job.error)
    events = bench.events(job_id)
    assert [event.kind for event in events if event.kind != "progress"] == [
        "queued", "started", "requeued", "started", "finished",
    ]  # fmt: skip
    assert next(event for event in events if event.kind == "requeued").data["reason"]["code"] == code


def test_where_address_space_cannot_be_limited_memory_is_watched(
    open_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.children.NVIDIA_CONTROL", Path("/dev/null"))
    bench = open_bench(job_memory_bytes=256 << 20)
    job_id = bench.enqueue("eat", pause=0.02)
    assert bench.supervisor.run(job_id) == "crashed"
    reason = next(event for event in bench.events(job_id) if event.kind == "requeued").data["reason"]
    assert reason["code"] == "out_of_memory"
    assert "256 MiB" in reason["message"]


def test_a_crash_that_does_not_come_again_is_forgotten(bench: Bench) -> None:
    job_id = bench.enqueue("die", times=1)
    assert [bench.supervisor.run(job_id), bench.supervisor.run(job_id)] == ["crashed", "succeeded"]
    assert bench.row(job_id).error is None


def test_max_seconds_keeps_the_best(bench: Bench) -> None:
    job_id = bench.enqueue("sleep", seconds=60, max_seconds=0.4)
    started = time.monotonic()
    assert bench.supervisor.run(job_id) == "succeeded"
    assert time.monotonic() - started < 40  # of 60
    report = bench.models(job_id)[0].report
    assert report["status"] == "stopped"
    assert "max_seconds = 0.4" in report["status_reason"]


@pytest.mark.parametrize("do", ["deaf", "loop in C"])
def test_max_seconds_ends_what_does_not_listen(bench: Bench, do: str) -> None:
    job_id = bench.enqueue(do, seconds=60, max_seconds=0.4)
    assert bench.supervisor.run(job_id) == "failed"
    job = bench.row(job_id)
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error is not None
    assert job.error["code"] == "time_limit"


@pytest.mark.parametrize(("do", "keep_best", "status"), [
    ("sleep", False, "cancelled"), ("sleep", True, "succeeded"), ("loop in C", False, "cancelled"),
    ("loop in C", True, "cancelled"),
])  # fmt: skip
def test_cancel_while_it_runs(bench: Bench, tmp_path: Path, do: str, keep_best: bool, status: str) -> None:
    note = tmp_path / "note"
    job_id = bench.enqueue(do, seconds=60, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    bench.cancel(job_id, keep_best=keep_best)
    thread.join(40)  # of 60
    assert endings == [status]
    assert bench.row(job_id).status == status
    pid = int(note.read_text().split()[0])
    assert not Path(f"/proc/{pid}").exists()
    assert len(bench.models(job_id)) == (status == "succeeded")
    if status == "succeeded":
        assert "best model so far was kept" in bench.models(job_id)[0].report["status_reason"]


def test_the_whole_group_dies(bench: Bench, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    job_id = bench.enqueue("grandchild", pid_file=str(pid_file))
    thread, _ = bench.in_thread(job_id)
    wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
    bench.cancel(job_id, keep_best=False)
    thread.join(40)
    # It was an orphan when its parent died: the worker has reaped it, too.
    assert not Path(f"/proc/{pid_file.read_text()}").exists()


def test_a_child_cannot_have_another_process_killed_in_its_place(bench: Bench, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            job_id = bench.enqueue("says that it is another", pid=stranger.pid, note=str(note))
            thread, endings = bench.in_thread(job_id)
            wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
            bench.cancel(job_id, keep_best=False)
            thread.join(40)
            assert endings == ["cancelled"]
            assert not Path(f"/proc/{note.read_text().split()[0]}").exists()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_heartbeats_keep_a_job_that_is_longer_than_its_lease(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(lease_seconds=5.0)  # a busy machine may let a thread wait for seconds
    job_id = bench.enqueue("loop in C", seconds=7)
    thread, endings = bench.in_thread(job_id)
    jobs = JobDispatching(5.0, 15)
    while thread.is_alive():
        with bench.database.transaction() as session:
            assert jobs.requeue_expired(session).requeued == []
        thread.join(0.1)
    assert endings == ["succeeded"]
    assert bench.row(job_id).attempt == 1


def test_a_lost_lease_ends_the_child_and_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    note = tmp_path / "note"
    job_id = bench.enqueue("sleep", seconds=60, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    with bench.database.transaction() as session:
        session.get_one(JobRow, job_id).attempt += 1  # somebody else has claimed it
    thread.join(40)
    assert endings == ["lost"]
    assert not Path(f"/proc/{note.read_text().split()[0]}").exists()
    job = bench.row(job_id)
    assert (job.status, job.attempt, job.error) == ("running", 2, None)
    assert bench.events(job_id)[-1].kind != "finished"


@pytest.fixture
def outage(postgres_url: str, bench: Bench) -> Callable[[bool], None]:
    """Take the database of the bench away (True) and give it back (False)."""
    name = bench.database.engine.url.database

    def switch(away: bool) -> None:
        with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as administrator:
            administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {not away}")  # type: ignore[arg-type]
            if away:
                administrator.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
                )

    return switch


@pytest.mark.parametrize("bench", [{"lease_seconds": 9.0}], indirect=True)
def test_a_short_outage_of_the_database_costs_nothing(
    bench: Bench, outage: Callable[[bool], None], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    job_id = bench.enqueue("sleep", seconds=6, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists())
    outage(True)
    time.sleep(3)  # a third of the lease
    outage(False)
    thread.join(40)
    assert endings == ["succeeded"]
    assert bench.row(job_id).attempt == 1


@pytest.mark.parametrize("bench", [{"lease_seconds": 3.0}], indirect=True)
def test_a_long_outage_ends_the_child_when_the_lease_has_run_out(
    bench: Bench, outage: Callable[[bool], None], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    job_id = bench.enqueue("sleep", seconds=60, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    outage(True)
    thread.join(40)  # of 60
    assert endings == ["lost"]
    assert not Path(f"/proc/{note.read_text().split()[0]}").exists()
    outage(False)

    def requeued() -> Sequence[str]:
        with bench.database.transaction() as session:
            return JobDispatching(3.0, 15).requeue_expired(session).requeued

    # a worker gives up a little before the database does, whose clock starts when it hears of the last renewal
    wait_for(lambda: requeued() == [job_id])


def test_a_result_waits_for_the_database(bench: Bench, outage: Callable[[bool], None], tmp_path: Path) -> None:
    note = tmp_path / "note"
    job_id = bench.enqueue("sleep", seconds=2, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists())
    outage(True)
    thread.join(3.0)  # it has its result now, and the lease goes on
    assert endings == []
    outage(False)
    thread.join(40)
    assert endings == ["succeeded"]
    assert bench.row(job_id).attempt == 1
    assert len(bench.models(job_id)) == 1


def test_a_worker_that_shuts_down_hands_its_job_back(bench: Bench, tmp_path: Path) -> None:
    note = tmp_path / "note"
    job_id = bench.enqueue("sleep", seconds=60, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    bench.stopping.set()
    thread.join(40)  # of 60
    assert endings == ["released"]
    job = bench.row(job_id)
    assert (job.status, job.attempt, job.max_attempts) == ("queued", 1, 4)
    assert bench.supervisor.run(job_id) is None  # nothing is claimed any more
    assert bench.row(job_id).status == "queued"


def test_a_short_job_may_end_while_the_worker_shuts_down(open_bench: Callable[..., Bench], tmp_path: Path) -> None:
    bench = open_bench(shutdown_grace_seconds=10.0)
    note = tmp_path / "note"
    job_id = bench.enqueue("sleep", seconds=0.5, note=str(note))
    thread, endings = bench.in_thread(job_id)
    wait_for(lambda: note.exists())
    bench.stopping.set()
    thread.join(40)
    assert endings == ["succeeded"]


def test_a_job_that_reports_without_end_is_written_within_bounds(bench: Bench) -> None:
    job_id = bench.enqueue("babble")
    assert bench.supervisor.run(job_id) == "succeeded"
    kinds = [event.kind for event in bench.events(job_id)]
    assert kinds.count("progress") < 100
    assert 900 <= kinds.count("round") <= 1000
    assert kinds[-1] == "finished"


def test_what_the_database_cannot_hold_is_replaced(bench: Bench) -> None:
    job_id = bench.enqueue("odd report")
    assert bench.supervisor.run(job_id) == "succeeded"
    assert bench.models(job_id)[0].report["params"]["odd"] == {
        "nan": None, "nul\ufffd": "a\ufffdb?", "path": [1, 2.5, None, True],
    }  # fmt: skip


def test_a_data_set_that_was_deleted(bench: Bench) -> None:
    job_id = bench.enqueue("nothing")
    with bench.database.transaction() as session:
        session.get_one(JobRow, job_id).dataset_id = None
    assert bench.supervisor.run(job_id) == "failed"
    error = bench.row(job_id).error
    assert error is not None
    assert error["code"] == "dataset_deleted"


@pytest.fixture
def small_disk(settings: Settings) -> Iterator[Path]:
    """The folder of the worker is on a disk of 256 KiB, and so are blobs."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(settings.data_dir)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small disk can be made here")
    yield settings.data_dir
    subprocess.run(["umount", "--lazy", str(settings.data_dir)], check=True)


def last_reason(bench: Bench, job_id: str) -> dict[str, Any]:
    return next(event.data["reason"] for event in reversed(bench.events(job_id)) if event.kind == "requeued")


def test_a_full_disk_is_named_and_costs_no_attempt(small_disk: Path, bench: Bench) -> None:
    job_id = bench.enqueue("fill the disk", bytes=1 << 20, max_attempts=1)
    for tries in (1, 2):
        assert bench.supervisor.run(job_id) == "postponed"
        found = bench.row(job_id)
        assert (found.status, found.phase, found.attempt) == ("queued", "waiting_for_disk", tries)
    assert last_reason(bench, job_id)["code"] == "disk_full"
    assert "the disk of the worker's folder (PREFSVM_DATA_DIR) is full" in last_reason(bench, job_id)["message"]
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    assert bench.supervisor.run(job_id) == "postponed"  # there is not even room to begin
    (small_disk / "ballast").unlink()
    with bench.database.transaction() as session:
        session.execute(update(JobRow).values(request={"do": "nothing"}))
    assert bench.supervisor.run(job_id) == "succeeded"


def test_a_batch_waits_for_room_among_the_blobs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # The child does what a training does; what comes after is that of a batch.
    monkeypatch.setattr(TrainingKind, "conclude", BatchKind.conclude)
    monkeypatch.setattr("worker.kinds.batch.publish", no_room)
    job_id = bench.enqueue("nothing", max_attempts=1)
    assert bench.supervisor.run(job_id) == "postponed"
    assert "the disk of the blob store is full" in last_reason(bench, job_id)["message"]


def test_a_fork_server_that_hangs_is_replaced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.child_pool.STUCK_SECONDS", 1.0)
    job_id, again = bench.enqueue("nothing"), bench.enqueue("nothing")
    assert bench.supervisor.run(job_id) == "succeeded"
    wait_for(lambda: bench.spares.is_warm)
    server = bench.spares._factory._server
    assert server is not None
    os.kill(server.pid, signal.SIGSTOP)
    for child in bench.spares._spares:
        os.kill(child.pid, signal.SIGKILL)
    thread, endings = bench.in_thread(again)
    thread.join(120)  # a few seconds, and not the 300 that the first child of a server may take
    assert endings == ["succeeded"]
    # Where a child was just made when that was stopped, the next one shows it.
    wait_for(lambda: is_over(server.pid), 40)


def test_a_spare_that_died_in_its_sleep_is_replaced(bench: Bench) -> None:
    wait_for(lambda: bench.spares.is_warm)
    (spare,) = bench.spares._spares
    os.kill(spare.pid, signal.SIGKILL)
    job_id = bench.enqueue("nothing")
    assert bench.supervisor.run(job_id) == "succeeded"


def test_a_job_is_left_in_peace_until_it_ends_or_somebody_waits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.child_pool.UNDISTURBED_SECONDS", 3600.0)
    wait_for(lambda: bench.spares.is_warm)
    first = bench.spares.take(lambda: False)
    assert first is not None
    time.sleep(0.3)
    assert not bench.spares.is_warm
    assert bench.spares._starting == 0
    first.end()
    bench.spares.job_ended()
    wait_for(lambda: bench.spares.is_warm)
    gives_up = time.monotonic() + 40
    for _ in range(2):  # the second one has to be waited for
        child = bench.spares.take(lambda: time.monotonic() > gives_up)
        assert child is not None
        child.end()


def test_the_scratch_folders_of_dead_workers_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "scratch"
    alive = ScratchFolders(root)
    (root / "worker-dead" / "job-1").mkdir(parents=True)
    second = ScratchFolders(root)
    assert not (root / "worker-dead").exists()
    assert alive.new().is_dir()
    assert second.new().is_dir()
    alive.close()
    second.close()
    assert list(root.iterdir()) == []
