"""The transitions of a job row against a real Postgres: who wins, who is fenced off, what is written."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, select, text, update
from standin.bare_report import bare_report
from worker_bench import dataset_row

from service.db.session import Database
from service.db.tables import (
    ALIAS_REQUESTS,
    DEFAULT_PROJECT,
    AliasChangeRow,
    AliasRow,
    JobEventRow,
    JobRow,
    ModelChunkRow,
    ModelRow,
    ProjectRow,
)
from service.identifiers import new_id
from service.jobs.claims import Claim, Event, JobClaims, Signals
from service.jobs.dispatching import Doorbell, JobDispatching
from service.jobs.queueing import put_in_queue
from service.jobs.repository import JobRepository
from service.models.repository import AliasRepository
from service.models.service import AliasService
from service.models.storing import CHUNK_BYTES, CorruptModelFileError, FinishedModel
from worker.kinds.training import finish_with_model

JOBS = JobClaims(lease_seconds=30)
DISPATCHING = JobDispatching(lease_seconds=30, redispatch_seconds=15)


@pytest.fixture
def enqueue(database: Database) -> Callable[..., str]:
    def run(request: dict[str, Any] | None = None, **columns: Any) -> str:
        with database.transaction() as session:
            dataset = dataset_row()
            session.add(dataset)
            session.flush()
            values = {"max_attempts": 3, "max_seconds": 60.0, "dataset_id": dataset.id, **columns}
            job = JobRow(project_id=DEFAULT_PROJECT, id=new_id("job"), request=request or {}, **values)
            return JobRepository(session, DEFAULT_PROJECT).enqueue(job).id

    return run


def claim(database: Database, job_id: str) -> Claim:
    with database.transaction() as session:
        found = JOBS.claim(session, job_id)
    assert found is not None
    return found


def row(database: Database, job_id: str) -> JobRow:
    with database.transaction() as session:
        return session.get_one(JobRow, job_id)


def kinds(database: Database, job_id: str) -> list[str]:
    with database.transaction() as session:
        statement = select(JobEventRow.kind).where(JobEventRow.job_id == job_id).order_by(JobEventRow.id)
        return list(session.scalars(statement))


def let_lease_expire(database: Database, job_id: str) -> None:
    with database.transaction() as session:
        past = text("now() - interval '1 millisecond'")
        session.execute(update(JobRow).where(JobRow.id == job_id).values(lease_until=past))


def model_file(folder: Path, size: int) -> FinishedModel:
    path = folder / f"{size}.model"
    path.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    return FinishedModel(
        id=new_id("mdl"), algorithm="svm", manifest={"format": 1},
        report=bare_report(timings={"training": 1.0}),
        path=path, bytes=size, sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )  # fmt: skip


def test_of_many_claims_at_once_one_wins(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue()
    threads = 12
    barrier = threading.Barrier(threads)

    def race(_: int) -> Claim | None:
        with database.transaction() as session:
            session.execute(text("SELECT 1"))  # connected before the start
            barrier.wait(30)
            return JOBS.claim(session, job_id)

    with ThreadPoolExecutor(threads) as pool:
        winners = [found for found in pool.map(race, range(threads)) if found is not None]
    assert [winner.attempt for winner in winners] == [1]
    assert kinds(database, job_id) == ["queued", "started"]


def test_a_claim_knows_the_job_and_its_data(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue({"algorithm": "svm"}, max_seconds=12.5)
    found = claim(database, job_id)
    assert found.request == {"algorithm": "svm"}
    assert found.max_seconds == 12.5
    assert found.dataset is not None
    assert (found.dataset.layout, found.dataset.columnar_key) == ("table", "c")
    assert 0 <= found.queue_seconds < 30
    with database.transaction() as session:
        assert session.execute(
            select(JobRow.lease_until - JobRow.started_at).where(JobRow.id == job_id)
        ).scalar_one().total_seconds() == 30  # fmt: skip


@pytest.mark.parametrize("change", [{"status": "failed"}, {"attempt": 3}, {"cancel": True}])
def test_what_is_not_to_be_had_is_not_claimed(
    database: Database, enqueue: Callable[..., str], change: dict[str, Any]
) -> None:
    job_id = enqueue()
    values: dict[str, Any] = dict(change)
    if change.get("status"):
        values["finished_at"] = text("now()")
    if values.pop("cancel", False):
        values["cancel_requested_at"] = text("now()")
    with database.transaction() as session:
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**values))
        assert JOBS.claim(session, job_id) is None
        assert JOBS.claim(session, new_id("job")) is None


def test_a_late_writer_is_fenced_off(database: Database, enqueue: Callable[..., str], tmp_path: Path) -> None:
    job_id = enqueue()
    old = claim(database, job_id)
    let_lease_expire(database, job_id)
    new = claim(database, job_id)
    assert (old.attempt, new.attempt) == (1, 2)
    before = row(database, job_id)
    model = model_file(tmp_path, 10)
    error = {"code": "c", "message": "m"}
    with database.transaction() as session:
        assert JOBS.heartbeat(session, old) is None
        assert JOBS.signals(session, old) is None
        assert not JOBS.record_progress(session, old, "training", 0.5, [Event("round", {})])
        assert not finish_with_model(JOBS, session, old, model)
        assert not JOBS.finish_failed(session, old, error)
        assert not JOBS.finish_cancelled(session, old)
        assert not JOBS.attempt_crashed(session, old, error)
        assert not JOBS.release(session, old, "why")
    after = row(database, job_id)
    assert {column.key: getattr(after, column.key) for column in JobRow.__table__.columns} == {
        column.key: getattr(before, column.key) for column in JobRow.__table__.columns
    }
    assert kinds(database, job_id) == ["queued", "started", "started"]
    with database.transaction() as session:
        assert JOBS.heartbeat(session, new) == Signals(cancel=False, keep_best=False)
        assert session.scalars(select(ModelRow.id)).all() == []


def test_a_model_is_stored_whole_with_its_alias(
    database: Database, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    size = 2 * CHUNK_BYTES + 17
    for _ in range(2):
        job_id = enqueue({"alias": "spam-filter"})
        found = claim(database, job_id)
        model = model_file(tmp_path, size)
        with database.transaction() as session:
            assert finish_with_model(JOBS, session, found, model)
    finished = row(database, job_id)
    assert (finished.status, finished.progress, finished.lease_until) == ("succeeded", 1.0, None)
    with database.transaction() as session:
        stored = session.execute(select(ModelRow).where(ModelRow.job_id == job_id)).scalar_one()
        chunks = session.execute(
            select(ModelChunkRow.seq, ModelChunkRow.data).where(ModelChunkRow.model_id == stored.id).order_by("seq")
        ).all()
        assert [(seq, len(data)) for seq, data in chunks] == [(0, CHUNK_BYTES), (1, CHUNK_BYTES), (2, 17)]
        assert hashlib.sha256(b"".join(data for _, data in chunks)).hexdigest() == stored.sha256
        assert stored.dataset_id == finished.dataset_id
        assert stored.report["status"] == "met"
        assert stored.report["timings"]["training"] == 1.0
        assert stored.report["timings"]["storing"] > 0
        assert session.get_one(AliasRow, (DEFAULT_PROJECT, "spam-filter")).model_id == model.id
        assert len(session.scalars(select(AliasChangeRow.model_id)).all()) == 2
        event = session.scalars(select(JobEventRow).where(JobEventRow.job_id == job_id, JobEventRow.kind == "finished"))
        said = event.one().data
        assert said.pop("alias") == {
            "name": "spam-filter", "moved": True, "sentence": stored.report["succession"]["sentence"],
        }  # fmt: skip
        assert said == {"status": "succeeded", "model_id": model.id}


def test_the_same_end_twice_is_true_and_written_once(
    database: Database, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    """The answer to a COMMIT may be lost: the worker then asks again."""
    job_id = enqueue()
    found = claim(database, job_id)
    model = model_file(tmp_path, 10)
    for _ in range(2):
        with database.transaction() as session:
            assert finish_with_model(JOBS, session, found, model)
    with database.transaction() as session:
        assert not JOBS.finish_failed(session, found, {"code": "c", "message": "m"})
        assert len(session.scalars(select(ModelRow.id)).all()) == 1
    assert kinds(database, job_id) == ["queued", "started", "finished"]


def test_what_goes_with_the_end_of_a_batch_is_written_once(database: Database, enqueue: Callable[..., str]) -> None:
    found = claim(database, enqueue(kind="batch"))
    written: list[str | None] = []

    def store(dataset_id: str | None) -> dict[str, Any]:
        written.append(dataset_id)
        return {}

    for _ in range(2):
        with database.transaction() as session:
            assert JOBS.finish_succeeded(session, found, result={"rows": 1}, store=store)
    assert found.dataset is not None
    assert written == [found.dataset.id]


@pytest.mark.parametrize("change", [{"bytes": 11}, {"sha256": "0" * 64}])
def test_a_model_file_that_changed_on_the_way_is_refused(
    database: Database, enqueue: Callable[..., str], tmp_path: Path, change: dict[str, Any]
) -> None:
    job_id = enqueue()
    found = claim(database, job_id)
    model = FinishedModel(**{**vars(model_file(tmp_path, 10)), **change})
    with pytest.raises(CorruptModelFileError, match="announced"), database.transaction() as session:
        finish_with_model(JOBS, session, found, model)
    assert row(database, job_id).status == "running"
    with database.transaction() as session:
        assert session.scalars(select(ModelRow.id)).all() == []


def test_expired_leases_are_requeued_until_the_attempts_are_used_up(
    database: Database, enqueue: Callable[..., str]
) -> None:
    job_id, healthy = enqueue(max_attempts=2), enqueue()
    claim(database, healthy)
    for expected in ("requeued", "failed"):
        claim(database, job_id)
        with database.transaction() as session:
            assert DISPATCHING.requeue_expired(session).requeued == []  # not yet
        let_lease_expire(database, job_id)
        with database.transaction() as session:
            changed = DISPATCHING.requeue_expired(session)
        assert vars(changed) == {"requeued": [], "failed": [], "cancelled": [], expected: [job_id]}
    ended = row(database, job_id)
    assert ended.status == "failed"
    assert ended.error == {
        "code": "worker_lost", "message": "the worker was lost: it did not renew its lease", "attempts": 2
    }  # fmt: skip
    assert kinds(database, job_id) == ["queued", "started", "requeued", "started", "finished"]
    assert row(database, healthy).status == "running"


def test_a_row_whose_end_is_being_written_is_left_alone(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue()
    found = claim(database, job_id)
    let_lease_expire(database, job_id)
    with database.transaction() as session:
        assert JOBS.finish_cancelled(session, found)
        with database.transaction() as other:
            other.execute(text("SET LOCAL lock_timeout = '1s'"))
            assert DISPATCHING.requeue_expired(other).requeued == []
    assert row(database, job_id).status == "cancelled"


def test_cancel_requests_that_no_worker_can_answer_are_answered(
    database: Database, enqueue: Callable[..., str]
) -> None:
    lost = enqueue()
    claim(database, lost)
    with database.transaction() as session:
        assert JobRepository(session, DEFAULT_PROJECT).ask_running_to_cancel(lost, keep_best=True)
        assert DISPATCHING.requeue_expired(session).cancelled == []  # its worker still has the chance
    let_lease_expire(database, lost)
    with database.transaction() as session:
        assert DISPATCHING.requeue_expired(session).cancelled == [lost]
    assert row(database, lost).status == "cancelled"


def test_signals_reach_the_worker(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue()
    found = claim(database, job_id)
    for keep_best in (True, False):
        with database.transaction() as session:
            JobRepository(session, DEFAULT_PROJECT).ask_running_to_cancel(job_id, keep_best=keep_best)
        with database.transaction() as session:
            assert JOBS.signals(session, found) == JOBS.heartbeat(session, found) == Signals(True, keep_best)


def test_a_crash_counts_and_a_release_does_not(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue(max_attempts=2)
    error = {"code": "process_killed", "message": "killed"}
    for _ in range(5):
        released = claim(database, job_id)
        with database.transaction() as session:
            assert JOBS.release(session, released, "the worker shuts down")
    for expected in ("queued", "failed"):
        crashed = claim(database, job_id)
        with database.transaction() as session:
            assert JOBS.attempt_crashed(session, crashed, error)
        assert row(database, job_id).status == expected
    assert row(database, job_id).error == {**error, "attempts": 7}


@pytest.mark.parametrize("end", ["attempt_crashed", "release"])
def test_a_job_that_is_to_be_cancelled_is_not_requeued(
    database: Database, enqueue: Callable[..., str], end: str
) -> None:
    job_id = enqueue()
    found = claim(database, job_id)
    with database.transaction() as session:
        JobRepository(session, DEFAULT_PROJECT).ask_running_to_cancel(job_id, keep_best=True)
    argument: Any = "why" if end == "release" else {"code": "c", "message": "m"}
    with database.transaction() as session:
        assert getattr(JOBS, end)(session, found, argument)
    assert row(database, job_id).status == "cancelled"


def test_what_is_due_for_a_doorbell(database: Database, enqueue: Callable[..., str]) -> None:
    first, second, third = enqueue(), enqueue(), enqueue()
    with database.transaction() as session:
        due = DISPATCHING.due_for_dispatch(session, 2)
        assert due == [Doorbell(first, 0), Doorbell(second, 0)]
        DISPATCHING.mark_dispatched(session, due)
    with database.transaction() as session:
        assert DISPATCHING.due_for_dispatch(session, 10) == [Doorbell(third, 0)]
    found = claim(database, first)
    with database.transaction() as session:
        JOBS.release(session, found, "why")
        # An old doorbell that is noted late must not silence the new one.
        DISPATCHING.mark_dispatched(session, [Doorbell(first, 0)])
        assert DISPATCHING.due_for_dispatch(session, 10) == [Doorbell(first, 1, first=True), Doorbell(third, 0)]
        past = text("now() - interval '15 seconds'")
        session.execute(update(JobRow).where(JobRow.id == second).values(dispatched_at=past))
        assert [bell.job_id for bell in DISPATCHING.due_for_dispatch(session, 10)] == [first, second, third]


def test_progress_and_events(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue()
    found = claim(database, job_id)
    with database.transaction() as session:
        assert JOBS.record_progress(session, found, "training", 0.25, [Event("round", {"round": 1})])
    assert (row(database, job_id).phase, row(database, job_id).progress) == ("training", 0.25)
    assert kinds(database, job_id) == ["queued", "started", "round"]


def test_events_that_are_written_together_have_times_of_their_own(
    database: Database, enqueue: Callable[..., str]
) -> None:
    found = claim(database, enqueue())
    events = [Event("round", {"round": number}, happened=time.monotonic() - 3 + number) for number in range(3)]
    with database.transaction() as session:
        assert JOBS.record_progress(session, found, "training", 0.25, events)
        rows = session.scalars(select(JobEventRow).where(JobEventRow.kind == "round").order_by(JobEventRow.id)).all()
    assert [row.data["round"] for row in rows] == [0, 1, 2]
    first, second, third = (row.created_at for row in rows)
    assert 0.9 < (second - first).total_seconds() < 1.1
    assert 0.9 < (third - second).total_seconds() < 1.1


def test_a_job_takes_few_statements(enqueue: Callable[..., str], database: Database) -> None:
    """Each costs half a millisecond of a processor here, and as much at the server."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement.split()[0])

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        with database.transaction() as session:
            job = JobRow(id=new_id("job"), project_id=DEFAULT_PROJECT, max_attempts=3, max_seconds=60.0, request={})
            accepted = put_in_queue(session, job)
        assert (accepted.status, accepted.attempt) == ("queued", 0)
        assert accepted.created_at is not None
        assert statements == ["SELECT", "INSERT", "INSERT"]  # limits; job; event and notification
        statements.clear()
        found = claim(database, accepted.id)
        assert statements == ["SELECT", "UPDATE", "INSERT"]  # limits and data set; job; event
        statements.clear()
        with database.transaction() as session:
            assert JOBS.record_progress(session, found, "training", 0.5) == Signals(cancel=False, keep_best=False)
        assert statements == ["UPDATE"]
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def alias_of(database: Database, name: str) -> str:
    with database.transaction() as session:
        return session.get_one(AliasRow, (DEFAULT_PROJECT, name)).model_id


def asked_for(database: Database) -> int:
    with database.transaction() as session:
        return int(session.scalar(select(ALIAS_REQUESTS.next_value())) or 0)


def finish(database: Database, held: Claim, folder: Path) -> str:
    model = model_file(folder, 10)
    with database.transaction() as session:
        assert finish_with_model(JOBS, session, held, model) is True
    return model.id


def was_not_moved(database: Database, job_id: str, model_id: str) -> bool:
    """Whether event and report say that, and how to move it by hand."""
    with database.transaction() as session:
        found = session.scalars(
            select(JobEventRow.data).where(JobEventRow.job_id == job_id, JobEventRow.kind == "warning")
        ).all()
        (report,) = session.scalars(select(ModelRow.report).where(ModelRow.id == model_id))
    assert [data["message"] for data in found] == report.get("warnings", [])
    for data in found:
        assert (data["code"], data["alias"]) == ("alias_not_moved", "a")
        assert f'PUT /aliases/a with {{"model": "{model_id}"}}' in data["message"]
    return bool(found)


def test_of_two_trainings_the_one_that_was_asked_for_later_has_the_alias(
    database: Database, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    older = enqueue({"alias": "a"}, alias_request=asked_for(database))
    newer = enqueue({"alias": "a"}, alias_request=asked_for(database))
    slow, quick = claim(database, older), claim(database, newer)
    wanted = finish(database, quick, tmp_path)
    late = finish(database, slow, tmp_path)
    assert alias_of(database, "a") == wanted
    assert not was_not_moved(database, newer, wanted)
    assert was_not_moved(database, older, late)
    repeated = enqueue({"alias": "a"}, alias_request=row(database, older).alias_request)
    again = finish(database, claim(database, repeated), tmp_path)
    assert alias_of(database, "a") == wanted
    assert was_not_moved(database, repeated, again)


def test_an_alias_that_was_moved_by_hand_meanwhile_stays(
    database: Database, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    first = enqueue({"alias": "a"}, alias_request=asked_for(database))
    chosen = finish(database, claim(database, first), tmp_path)
    older = enqueue({"alias": "a"}, alias_request=asked_for(database))
    held = claim(database, older)
    with database.transaction() as session:
        AliasRepository(session, DEFAULT_PROJECT).put("a", chosen)
    late = finish(database, held, tmp_path)
    assert alias_of(database, "a") == chosen
    assert was_not_moved(database, older, late)
    # What was asked for since moves it, and so may it be repeated.
    newer = asked_for(database)
    for _ in range(2):
        model_id = finish(database, claim(database, enqueue({"alias": "a"}, alias_request=newer)), tmp_path)
        assert alias_of(database, "a") == model_id


def test_an_alias_that_was_deleted_meanwhile_is_not_made_again(
    database: Database, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    finish(database, claim(database, enqueue({"alias": "a"}, alias_request=asked_for(database))), tmp_path)
    runs, waits, other = (enqueue({"alias": name}, alias_request=asked_for(database)) for name in ("a", "a", "b"))
    held = claim(database, runs)
    AliasService(database).delete(DEFAULT_PROJECT, "a")
    for job_id, claimed in ((runs, held), (waits, claim(database, waits))):
        assert was_not_moved(database, job_id, finish(database, claimed, tmp_path))
        with database.transaction() as session:
            assert AliasRepository(session, DEFAULT_PROJECT).get("a") is None
    wanted = finish(database, claim(database, other), tmp_path)
    assert alias_of(database, "b") == wanted
    # Whoever asks now means it.
    newer = enqueue({"alias": "a"}, alias_request=asked_for(database))
    wanted = finish(database, claim(database, newer), tmp_path)
    assert alias_of(database, "a") == wanted


@pytest.mark.parametrize("kind", ["train", "batch"])
def test_a_cancel_that_was_accepted_is_kept(
    database: Database, enqueue: Callable[..., str], tmp_path: Path, kind: str
) -> None:
    def end(held: Claim) -> object:
        with database.transaction() as session:
            if kind == "batch":
                return JOBS.finish_succeeded(session, held, result={"rows": 1})
            return finish_with_model(JOBS, session, held, model_file(tmp_path, 10))

    for keep_best, expected in ((False, "cancelled"), (True, "succeeded")):
        job_id = enqueue({"alias": f"keep-{keep_best}".lower()}, kind=kind)
        held = claim(database, job_id)
        with database.transaction() as session:
            assert JobRepository(session, DEFAULT_PROJECT).ask_running_to_cancel(job_id, keep_best)
        said = True if keep_best else "cancelled"
        assert end(held) == said
        assert end(held) == said  # the answer to a COMMIT may be lost
        assert row(database, job_id).status == expected
        assert kinds(database, job_id) == ["queued", "started", "cancelling", "finished"]
    with database.transaction() as session:
        names = session.scalars(select(AliasRow.name)).all()
    assert names == (["keep-true"] if kind == "train" else [])


def test_a_clock_that_goes_back_costs_no_more_than_a_lease(database: Database, enqueue: Callable[..., str]) -> None:
    """An hour back: what was taken and rung for before looks as if it were of the next hour."""
    running, rung = enqueue(), enqueue()
    held = claim(database, running)
    with database.transaction() as session:
        DISPATCHING.mark_dispatched(session, [Doorbell(rung, 0)])
        later = text("now() + interval '1 hour'")
        session.execute(update(JobRow).where(JobRow.id == rung).values(dispatched_at=later))
        session.execute(update(JobRow).where(JobRow.id == running).values(lease_until=later))
    with database.transaction() as session:
        assert [bell.job_id for bell in DISPATCHING.due_for_dispatch(session, 10)] == [rung]
        assert DISPATCHING.rung_and_waiting(session) == []  # nobody is deaf for that
        assert vars(DISPATCHING.requeue_expired(session)) == {"requeued": [], "failed": [], "cancelled": []}
    with database.transaction() as session:
        left = session.scalar(select(JobRow.lease_until - func.now()).where(JobRow.id == running))
        assert left is not None
        assert 20 < left.total_seconds() <= 30  # what has gone by is a busy machine's
        assert JOBS.heartbeat(session, held) is not None  # whoever lives goes on


def test_a_full_disk_is_waited_for(database: Database, enqueue: Callable[..., str]) -> None:
    job_id = enqueue(max_attempts=1)
    error = {"code": "disk_full", "message": "no room"}
    for tries in range(1, 4):
        held = claim(database, job_id)
        with database.transaction() as session:
            assert JOBS.postpone(session, held, error)
            assert DISPATCHING.due_for_dispatch(session, 10) == []
        found = row(database, job_id)
        assert (found.status, found.phase, found.attempt) == ("queued", "waiting_for_disk", tries)
        with database.transaction() as session:
            session.execute(update(JobRow).values(wait_until=text("now()")))
            assert DISPATCHING.due_for_dispatch(session, 10) == [Doorbell(job_id, tries, first=True)]
            # After a clock that went back nobody waits for an hour.
            session.execute(update(JobRow).values(wait_until=text("now() + interval '1 hour'")))
            assert DISPATCHING.due_for_dispatch(session, 10) == [Doorbell(job_id, tries, first=True)]
    with database.transaction() as session:
        reasons = session.scalars(select(JobEventRow.data).where(JobEventRow.kind == "requeued")).all()
    assert reasons == 3 * [{"reason": error}]


OTHER = "prj_" + 31 * "0" + "2"


@pytest.fixture
def other_project(database: Database) -> str:
    with database.transaction() as session:
        session.add(ProjectRow(id=OTHER, name="other"))
    return OTHER


def fill_queue(database: Database, jobs: int) -> None:
    with database.transaction() as session:
        session.execute(
            text(
                "INSERT INTO jobs (id, project_id, request, max_attempts, max_seconds, created_at) "
                "SELECT 'job_' || n, :project, '{}', 3, 60, now() - interval '1 hour' + n * interval '1 ms' "
                "FROM generate_series(1, :jobs) n"
            ),
            {"project": DEFAULT_PROJECT, "jobs": jobs},
        )


def put_in(database: Database, project_id: str, **columns: Any) -> str:
    with database.transaction() as session:
        job = JobRow(id=new_id("job"), project_id=project_id, max_attempts=3, max_seconds=60.0, request={}, **columns)
        return JobRepository(session, project_id).enqueue(job).id


@pytest.mark.parametrize("kind", ["train", "batch"])
def test_a_project_that_runs_little_goes_first(database: Database, other_project: str, kind: str) -> None:
    """150 jobs wait, some of them rung for already, when another project asks for one."""
    fill_queue(database, 150)
    with database.transaction() as session:
        rung = DISPATCHING.due_for_dispatch(session, 8)
        DISPATCHING.mark_dispatched(session, rung)
    bells = [bell.job_id for bell in rung]
    first = claim(database, bells.pop(0))
    assert first.job_id == "job_1"
    theirs = put_in(database, other_project, kind=kind)
    # The slot is free again, and the next bell that anybody rang for was one for the first project.
    with database.transaction() as session:
        assert JOBS.finish_failed(session, first, {"code": "c", "message": "m"})
    assert claim(database, bells.pop(0)).job_id == theirs
    # Its bell was given away: it is rung for again, before those that were rung for since.
    with database.transaction() as session:
        assert DISPATCHING.due_for_dispatch(session, 1) == [Doorbell("job_2", 0, first=True)]
    # Now both run one, and the other project waits for nothing.
    assert claim(database, bells.pop(0)).job_id == "job_3"


def test_projects_take_turns(database: Database, other_project: str) -> None:
    fill_queue(database, 20)
    for _ in range(3):
        put_in(database, other_project)
    order = []
    for number in range(1, 9):
        held = claim(database, f"job_{number}" if row(database, f"job_{number}").status == "queued" else "job_20")
        order.append(held.project_id == other_project)
        with database.transaction() as session:
            assert JOBS.finish_failed(session, held, {"code": "c", "message": "m"})
    assert sum(order[:6]) == 3, order
    assert order[:2] != [False, False]


def test_a_fair_choice_costs_little_however_many_wait(database: Database, other_project: str) -> None:
    """Measured in pages that the server looks at, which do not depend on who else is at work."""
    fill_queue(database, 10_000)
    assert claim(database, "job_1").job_id == "job_1"
    theirs = put_in(database, other_project)
    with database.transaction() as session:
        session.execute(text("ANALYZE jobs"))
    looked_at = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if not looked_at and "LATERAL" in statement:
            looked_at.append(0)
            with database.engine.connect() as other:
                plan = other.exec_driver_sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, parameters)
                top = plan.scalar_one()[0]["Plan"]
                looked_at[0] = top["Shared Hit Blocks"] + top["Shared Read Blocks"]

    event.listen(database.engine, "before_cursor_execute", explain)
    try:
        assert claim(database, "job_7").job_id == theirs
    finally:
        event.remove(database.engine, "before_cursor_execute", explain)
    assert 0 < looked_at[0] < 100, looked_at
