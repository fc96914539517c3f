"""Workers share the parts of one job: the same result as alone, whoever dies, stops or comes late."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest
from sqlalchemy import func, select, update
from worker_bench import Bench, Stack, is_over, store_table, wait_for

from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, JobPartRow, JobRow, ModelChunkRow, ProjectRow, WorkerRow
from service.faults import ACTIONS
from service.identifiers import new_id
from service.jobs.claims import JobClaims
from service.jobs.part_claims import MOST_TRIES_ELSEWHERE, PartClaims
from service.jobs.part_dispatching import PartDispatching
from service.jobs.part_sharing import PartSharing
from service.jobs.workers import Worker, WorkerRegistry
from service.settings import Settings
from solver.model_file import read_model

SAME = "standin"
IN_THE_DISPATCHER = ("before_ring_for_parts",)
IN_THE_WORKER = ("after_share", "before_own_part")
"""Fault points of parts; those of jobs are walked elsewhere."""


@pytest.fixture
def open_stack(settings: Settings, database: Database, tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    opened: list[Stack] = []
    quick = {"lease_seconds": 2.0, "redispatch_seconds": 1.0}

    def run(**changes: object) -> Stack:
        opened.append(Stack(settings.model_copy(update={**quick, **changes}), database, tmp_path))
        return opened[-1]

    yield run
    for stack in opened:
        stack.close()


def two_workers(open_stack: Callable[..., Stack], **environment: str) -> tuple[Stack, list]:
    stack = open_stack()
    stack.start_dispatcher()
    workers = stack.start_workers(2, **environment)
    wait_for(lambda: count(stack.database, WorkerRow) == 2)
    return stack, workers


def count(database: Database, table: type) -> int:
    with database.transaction() as session:
        return session.scalar(select(func.count()).select_from(table))


def kill_worker_of(stack: Stack, workers: list, line: list[str]) -> None:
    """Kill the worker whose child has written a line."""
    parent = psutil.Process(int(line[3])).ppid()
    stack.kill(next(worker for worker in workers if worker.pid == parent))


def lines(note: Path, who: str) -> list[list[str]]:
    text = note.read_text() if note.exists() else ""
    return [line.split() for line in text.splitlines() if line.startswith(who)]


def values(parts: int) -> list[float]:
    return [1.0 + number / 3 for number in range(parts)]


def test_two_workers_share_two_stages_of_a_job(open_stack, tmp_path):
    stack, workers = two_workers(open_stack)
    note = tmp_path / "note"
    job_id = stack.enqueue("parts", parts=6, stages=2, seconds=0.3, parts_note=str(note))
    stack.wait_for_status(job_id, "succeeded")
    (model,) = stack.models(job_id)
    assert model.report["params"]["values"] == [sum(values(6)) + number / 3 for number in range(6)]
    shares = model.report["parts"]
    assert {stage: share["parts"] for stage, share in shares.items()} == {"first": 6, "second": 6}
    elsewhere = sum(share["elsewhere"] for share in shares.values())
    assert elsewhere >= 2
    told = [event.data for event in stack.events(job_id) if event.kind == "parts"]
    assert told == [{"stage": stage, **share} for stage, share in shares.items()]
    # A part of the second stage was computed on the results of the first, which nobody computed twice.
    assert len(lines(note, "own first")) + len(lines(note, "part first")) == 6
    assert len(lines(note, "part")) == elsewhere
    wait_for(lambda: count(stack.database, JobPartRow) == 0)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(40) == 0
    assert count(stack.database, WorkerRow) == 0


@pytest.mark.slow
def test_what_a_killed_worker_had_taken_is_computed_by_the_others(open_stack, tmp_path):
    stack, workers = two_workers(open_stack)
    note = tmp_path / "note"
    job_id = stack.enqueue("parts", parts=5, seconds=0.3, parts_note=str(note))
    wait_for(lambda: bool(lines(note, "part")))
    kill_worker_of(stack, workers, lines(note, "part")[0])
    job = stack.wait_for_status(job_id, "succeeded")
    assert job.attempt == 1
    (model,) = stack.models(job_id)
    assert model.report["params"]["values"] == values(5)


@pytest.mark.slow
def test_a_child_that_dies_elsewhere_does_not_end_the_job(open_stack, tmp_path):
    stack, _ = two_workers(open_stack)
    job_id = stack.enqueue("parts", parts=5, seconds=0.2, die_elsewhere=True, parts_note=str(tmp_path / "note"))
    stack.wait_for_status(job_id, "succeeded")
    (model,) = stack.models(job_id)
    assert model.report["params"]["values"] == values(5)
    assert model.report["parts"]["first"]["elsewhere"] == 0
    assert lines(tmp_path / "note", "part")


@pytest.mark.slow
def test_the_parts_of_a_killed_attempt_are_nobodys(open_stack, tmp_path):
    stack, workers = two_workers(open_stack)
    note = tmp_path / "note"
    job_id = stack.enqueue("parts", parts=6, seconds=0.4, parts_note=str(note))
    wait_for(lambda: bool(lines(note, "part")))
    kill_worker_of(stack, workers, lines(note, "own")[0])
    job = stack.wait_for_status(job_id, "succeeded")
    assert job.attempt == 2
    (model,) = stack.models(job_id)
    assert model.report["params"]["values"] == values(6)
    wait_for(lambda: count(stack.database, JobPartRow) == 0)


@pytest.mark.slow
def test_cancelling_the_job_ends_its_parts_elsewhere(open_stack, tmp_path):
    stack, _ = two_workers(open_stack)
    note = tmp_path / "note"
    job_id = stack.enqueue("parts", parts=4, seconds=0.3, parts_note=str(note))
    wait_for(lambda: bool(lines(note, "part")))
    children = {int(line[3]) for line in lines(note, "part") + lines(note, "own")}
    stack.cancel(job_id, keep_best=False)
    stack.wait_for_status(job_id, "cancelled")
    wait_for(lambda: all(is_over(child) for child in children), 40)
    wait_for(lambda: count(stack.database, JobPartRow) == 0)


@pytest.mark.slow
def test_workers_of_other_numerics_and_single_ones_share_nothing(open_stack):
    stack = open_stack()
    stack.start_dispatcher()
    stack.start_worker()
    stack.start_worker(PREFSVM_JOB_RUNNER_NUMERICS="another processor")
    wait_for(lambda: count(stack.database, WorkerRow) == 2)
    job_id = stack.enqueue("parts", parts=4, seconds=0.2)
    stack.wait_for_status(job_id, "succeeded")
    (model,) = stack.models(job_id)
    assert model.report["params"]["values"] == values(4)
    assert model.report["parts"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("place", [*IN_THE_DISPATCHER, *IN_THE_WORKER])
def test_whoever_shares_parts_may_die_anywhere(open_stack, place, action):
    """The step fails once; the result is the same."""
    stack = open_stack()
    fault = {"PREFSVM_FAULT": f"{place}:{action}"}
    of_dispatcher = place in IN_THE_DISPATCHER
    dispatcher = stack.start_dispatcher(**(fault if of_dispatcher else {}))
    workers = stack.start_workers(2, **({} if of_dispatcher else fault))
    wait_for(lambda: count(stack.database, WorkerRow) == 2)
    job_id = stack.enqueue("parts", parts=5, seconds=0.3)
    if of_dispatcher and action != "stall":
        assert dispatcher.wait(40) == (-signal.SIGKILL if action == "exit" else 1)
        stack.start_dispatcher()
    if not of_dispatcher and action == "exit":
        wait_for(lambda: any(worker.poll() is not None for worker in workers), 40)
        stack.start_worker()
    stack.wait_for_status(job_id, "succeeded", 40)
    (model,) = stack.models(job_id)
    assert model.report["params"]["values"] == values(5)
    logs = b"".join(map(stack.log_of, [dispatcher] if of_dispatcher else workers))
    assert f"planned fault: {place}:{action}".encode() in logs
    wait_for(lambda: count(stack.database, JobPartRow) == 0)


# ---------------------------------------------------------------------------------------------- the rows themselves


SHARING, DISPATCHING, REGISTRY = PartSharing(30.0), PartDispatching(30.0, 15.0), WorkerRegistry(30.0)


def shared_job(bench: Bench, owner: Worker, number: int = 3):
    jobs = JobClaims(30.0)
    job_id = bench.enqueue("parts")
    with bench.database.transaction() as session:
        claim = jobs.claim(session, job_id)
        assert SHARING.share(session, claim, owner, "stage", number, 1 << 20, {0: b"own"})
        # The answer was lost, and the call is repeated.
        assert SHARING.share(session, claim, owner, "stage", number, 1 << 20, {0: b"own"})
        ids = session.scalars(select(JobPartRow.id).order_by(JobPartRow.number)).all()
    assert len(ids) == number
    return jobs, claim, ids


def test_late_results_of_parts_are_fenced_off(bench):
    parts = PartClaims(30.0)
    owner, helper, other = (Worker(new_id("wrk"), 1, SAME) for _ in range(3))
    jobs, claim, ids = shared_job(bench, owner)
    transaction = bench.database.transaction
    with transaction() as session:
        assert parts.claim(session, ids[0], helper) is None  # it is done
        assert parts.claim(session, new_id("part"), helper) is None
        assert parts.claim(session, ids[1], Worker(helper.id, 1, "other")) is None
        first = parts.claim(session, ids[1], helper)
        assert (first.stage, first.number, first.attempt) == ("stage", 1, 1)
        assert parts.claim(session, ids[1], other) is None  # it is held
        assert [part.number for part in SHARING.claim(session, claim, owner, "stage", 5)] == [2]
    with transaction() as session:  # the helper was frozen
        session.execute(update(JobPartRow).where(JobPartRow.id == ids[1]).values(lease_until=func.now()))
    with transaction() as session:
        second = parts.claim(session, ids[1], other)
        assert second.attempt == 2
        assert parts.heartbeat(session, first) is None
        assert parts.signals(session, first) is None
        assert not parts.finish_part(session, first, b"late")
        assert parts.finish_part(session, second, b"right")
        assert parts.finish_part(session, second, b"right")  # the answer to the first try was lost
    with transaction() as session:
        state = SHARING.state(session, claim, "stage", owner, [])
        assert (state.parts, state.unfinished, state.elsewhere) == (3, 1, {1: b"right"})
    # Another attempt at the job: nothing of the old one counts.
    with transaction() as session:
        session.execute(update(JobPartRow).where(JobPartRow.id == ids[2]).values(status="waiting", lease_until=None))
        late = parts.claim(session, ids[2], helper)
        assert jobs.release(session, claim, "test")
    with transaction() as session:
        assert jobs.claim(session, claim.job_id).attempt == 2
        assert parts.heartbeat(session, late) is None
        assert not parts.finish_part(session, late, b"late")
        assert not SHARING.share(session, claim, owner, "stage 2", 3, 1, {})
        assert DISPATCHING.sweep(session) == 3
    assert count(bench.database, JobPartRow) == 0


def test_parts_are_rung_for_where_workers_idle_and_no_job_waits(bench):
    parts = PartClaims(30.0)
    owner, helper = (Worker(new_id("wrk"), 1, SAME) for _ in range(2))
    _, claim, ids = shared_job(bench, owner, 4)
    transaction = bench.database.transaction
    with transaction() as session:
        assert DISPATCHING.due_for_dispatch(session) == []  # nobody is there
        REGISTRY.say_alive(session, owner)
        assert REGISTRY.others(session, owner) == 0
        assert DISPATCHING.due_for_dispatch(session) == []  # and the owner is busy
        REGISTRY.say_alive(session, helper)
        assert REGISTRY.others(session, owner) == 1
        assert DISPATCHING.due_for_dispatch(session) == [ids[3]]  # the last one, as the owner begins with the first
    waiting = bench.enqueue("nothing")
    with transaction() as session:
        of_it = update(JobRow).where(JobRow.id == waiting)
        assert DISPATCHING.due_for_dispatch(session) == []
        # One that waits for a disk, or for a job of its project to end, needs no slot.
        session.execute(of_it.values(wait_until=func.now() + timedelta(seconds=30)))
        assert DISPATCHING.due_for_dispatch(session) == [ids[3]]
        session.execute(of_it.values(wait_until=None))
        limit = update(ProjectRow).where(ProjectRow.id == DEFAULT_PROJECT)
        session.execute(limit.values(limits={"running_jobs": 1}))
        assert DISPATCHING.due_for_dispatch(session) == [ids[3]]
        session.execute(limit.values(limits={}))
        session.execute(of_it.values(status="cancelled", finished_at=func.now()))
        DISPATCHING.mark_dispatched(session, [ids[3]])
        assert DISPATCHING.due_for_dispatch(session) == [ids[2]]
        for _ in range(MOST_TRIES_ELSEWHERE):  # a part that nobody else can compute is left to the owner
            taken = parts.claim(session, ids[2], helper)
            assert DISPATCHING.due_for_dispatch(session) == []  # the helper is busy
            assert parts.attempt_crashed(session, taken, {})
        assert parts.claim(session, ids[2], helper) is None
        failed = parts.claim(session, ids[1], helper)
        assert parts.finish_failed(session, failed, {})
        assert parts.claim(session, ids[1], helper) is None
        released = parts.claim(session, ids[3], helper)
        assert parts.release(session, released, "shut down")
        assert DISPATCHING.due_for_dispatch(session) == [ids[3]]
        assert sorted(part.number for part in SHARING.claim(session, claim, owner, "stage", 9)) == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------ the real thing


@pytest.mark.slow
def test_a_real_training_on_two_workers_has_the_bits_of_one(open_stack, settings, database):
    random = np.random.default_rng(0)
    rows = 3000
    X = random.normal(size=(rows, 20)).round(3)
    labels = np.where(X[:, 0] + X[:, 1] ** 2 + 0.7 * random.normal(size=rows) > 1, "1", "0").astype(object)
    dataset = store_table(settings, database, "moons", {**{f"x{i}": X[:, i] for i in range(20)}, "label": labels})
    request = {
        "dataset_id": dataset, "target": "label", "positive": "1", "unlabeled": [], "features": {},
        "objective": {"kind": "f1"}, "algorithm": "svm", "params": {"tune": "C-gamma"}, "test_fraction": 0.2, "seed": 0,
    }  # fmt: skip
    stack = open_stack()
    stack.start_dispatcher()
    found, seconds = [], []
    for workers in (1, 2):
        stack.start_worker(PREFSVM_JOB_RUNNER="worker.fit")
        wait_for(lambda workers=workers: count(database, WorkerRow) == workers, 240)
        job_id = stack.enqueue("", max_seconds=600.0, **request)
        job = stack.wait_for_status(job_id, "succeeded", 300)
        seconds.append((job.finished_at - job.started_at).total_seconds())
        (model,) = stack.models(job_id)
        with database.transaction() as session:
            chunks = session.scalars(
                select(ModelChunkRow.data).where(ModelChunkRow.model_id == model.id).order_by(ModelChunkRow.seq)
            )
            found.append((model, read_model(b"".join(chunks)).decision))
    (alone, mine), (shared, theirs) = found
    print(f"alone {seconds[0]:.1f} s, with another worker {seconds[1]:.1f} s, {shared.report['parts']}")
    assert alone.report["parts"] == {}
    assert shared.report["parts"]["tuning"]["elsewhere"] >= 1
    assert alone.report["tuning"] == shared.report["tuning"]
    assert alone.sha256 == shared.sha256
    assert mine.dual_coef.tobytes() == theirs.dual_coef.tobytes()
