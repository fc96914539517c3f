"""The API dies, fails or stalls where it accepts something, the worker where a batch ends, the dispatcher where it
gives a lost job to the next: what was accepted is there once, and ends once. Those of trainings are walked elsewhere.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from api_support import CSV, api_client, api_process, blob_files, counts, store_dataset, store_model, train_body
from sqlalchemy import text
from worker_bench import Stack, wait_for

from service.db.session import Database
from service.settings import Settings

pytestmark = pytest.mark.slow
ACTIONS = ("exit", "raise", "stall")
UPLOAD = {"files": {"file": ("a.csv", CSV)}, "headers": {"Idempotency-Key": "upload"}}


@pytest.fixture
def stack(settings: Settings, database: Database, tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(settings.model_copy(update={"lease_seconds": 2.0, "redispatch_seconds": 1.5}), database, tmp_path)
    yield stack
    stack.close()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("place", ["accept_before_commit", "upload_before_commit", "upload_after_commit"])
def test_the_api_may_die_where_it_accepts(
    settings: Settings, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, action: str
) -> None:
    """Whoever sends again with the same key has one data set and one training, and what was said stays true."""
    is_upload = place.startswith("upload")
    training = {"json": train_body(store_dataset(database)), "headers": {"Idempotency-Key": "training"}}
    path, sent, status = ("/datasets", UPLOAD, 201) if is_upload else ("/train", training, 202)
    monkeypatch.setenv("PREFSVM_FAULT", f"{place}:{action}")
    with api_process(settings, tmp_path / "log") as (client, process):
        if action == "exit":
            with pytest.raises(httpx.TransportError):
                client.post(path, **sent)  # type: ignore[arg-type]
            assert process.wait(40) == -signal.SIGKILL
        else:
            first = client.post(path, **sent)  # type: ignore[arg-type]
            assert first.status_code == (500 if action == "raise" else status), first.text
            if action == "raise":
                assert len(blob_files(settings)) == (2 if place == "upload_after_commit" else 0)
        assert b"planned fault: %s:%s" % (place.encode(), action.encode()) in (tmp_path / "log").read_bytes()
    monkeypatch.delenv("PREFSVM_FAULT")
    with api_client(settings) as client:
        answers = [client.post(path, **sent) for _ in range(2)]  # type: ignore[arg-type]
        assert {answer.status_code for answer in answers} == {status}
        assert answers[0].json()["id"] == answers[1].json()["id"]
    assert counts(database, "datasets", "jobs", "idempotency_keys") == ([2, 0, 1] if is_upload else [1, 1, 1])


@pytest.mark.parametrize("action", ACTIONS)
def test_a_worker_may_die_where_a_batch_ends(
    stack: Stack, settings: Settings, database: Database, tmp_path: Path, action: str
) -> None:
    model = store_model(database, tmp_path)
    with api_client(settings) as client:
        dataset = client.post("/datasets", **UPLOAD).json()["id"]  # type: ignore[arg-type]
        struck = stack.start_worker(PREFSVM_FAULT=f"finish_before_commit:{action}")
        stack.start_dispatcher()
        batch = client.post("/batches", json={"model": model, "dataset": dataset}).json()["id"]
        wait_for(lambda: b"planned fault: finish_before_commit" in stack.log_of(struck), 40)
        stack.start_worker()
        stack.wait_for_status(batch, "succeeded", 40)
        result = client.get(f"/batches/{batch}/result")
        assert (result.status_code, len(result.text.splitlines())) == (200, 61)
    assert [event.kind for event in stack.events(batch)].count("finished") == 1
    assert len(stack.models(batch)) == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_a_dispatcher_may_die_where_it_gives_a_lost_job_to_the_next(
    stack: Stack, database: Database, action: str
) -> None:
    job_id = stack.enqueue("nothing")
    with database.transaction() as session:
        lost = "status = 'running', attempt = 1, started_at = now(), lease_until = now() - interval '1 second'"
        session.execute(text(f"UPDATE jobs SET {lost}"))
    struck = stack.start_dispatcher(PREFSVM_FAULT=f"requeue_before_commit:{action}")
    if action != "stall":
        assert struck.wait(40) == (-signal.SIGKILL if action == "exit" else 1)
        assert stack.row(job_id).status == "running"
        stack.start_dispatcher()
    stack.start_worker()
    assert stack.wait_for_status(job_id, "succeeded", 30).attempt == 2
    assert [event.kind for event in stack.events(job_id)].count("requeued") == 1
    assert b"planned fault: requeue_before_commit" in stack.log_of(struck)
