"""What is too old goes, with its bytes; what somebody still needs stays."""

from __future__ import annotations

import logging
import time

import pytest
from api_support import api_client, blob_files, set_status, store_model, train_body, upload
from sqlalchemy import text

from service.blobs.store import BlobStore
from service.db import migrate
from service.retention import LOCK, Keeper

pytestmark = pytest.mark.usefixtures("read_here")

DAYS = {f"retain_{kind}_days": 7.0 for kind in ("events", "jobs", "models", "datasets")}


def rows(database, table):
    with database.transaction() as session:
        return int(session.scalar(text(f"SELECT count(*) FROM {table}")))


def age(database, table, days, **where):
    """Make rows older, all times of theirs alike."""
    times = {"jobs": ("created_at", "started_at", "finished_at")}.get(table, ("created_at",))
    moved = ", ".join(f"{time} = {time} - make_interval(days => {days})" for time in times)
    condition = " AND ".join(f"{name} = :{name}" for name in where) or "true"
    with database.transaction() as session:
        assert session.execute(text(f"UPDATE {table} SET {moved} WHERE {condition}"), where).rowcount > 0


@pytest.fixture
def keeper(settings, database):
    return lambda **changes: Keeper(settings.model_copy(update=changes), database, BlobStore(settings.blob_location))


def test_the_first_start_waits_for_the_tables_and_sweeps_then(settings, empty_database_url, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    swept = []
    sweep = Keeper.sweep

    def noted(keeper):
        found = sweep(keeper)
        swept.append(found)
        return found

    monkeypatch.setattr(Keeper, "sweep", noted)

    def wait_for(happened):
        until = time.monotonic() + 40
        while not happened():
            assert time.monotonic() < until
            time.sleep(0.02)

    with api_client(settings, database_url=empty_database_url):
        wait_for(lambda: "the database is not migrated yet" in caplog.text)
        assert not swept
        migrate.upgrade(empty_database_url)
        wait_for(lambda: swept)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_nothing_is_deleted_unless_a_setting_says_so(settings, database, keeper, tmp_path):
    with api_client(settings) as client:
        upload(client)
    store_model(database, tmp_path)
    age(database, "datasets", 10_000)
    age(database, "models", 10_000)
    assert keeper().sweep() == {}
    assert rows(database, "datasets") == rows(database, "models") == 1


def test_old_rows_go_with_their_bytes_and_young_ones_stay(settings, database, keeper, tmp_path):
    with api_client(settings) as client:
        old, young = upload(client), upload(client, name="young.csv")
        job = client.post("/train", json=train_body(old)).json()["id"]
        set_status(database, job, "succeeded")
        model = store_model(database, tmp_path, job_id=job)
        kept = store_model(database, tmp_path)
        client.put("/aliases/spam-filter", json={"model": kept})
        for table, row in (("jobs", job), ("models", model), ("models", kept), ("datasets", old["id"])):
            age(database, table, 8, id=row)
        before = len(blob_files(settings))
        deleted = keeper(**DAYS).sweep()
        assert {kind: deleted[kind] for kind in ("jobs", "models", "datasets")} == {
            "jobs": 1,
            "models": 1,
            "datasets": 1,
        }
        assert deleted["events"] >= 1
        assert client.get(f"/datasets/{young['id']}").status_code == 200
        assert client.get(f"/models/{kept}").status_code == 200
        for gone in (f"/datasets/{old['id']}", f"/jobs/{job}", f"/models/{model}"):
            assert client.get(gone).status_code == 404, gone
    assert len(blob_files(settings)) == before - 2
    assert keeper(**DAYS).sweep() == {}


def test_a_dataset_that_is_in_use_or_was_used_lately_stays(settings, database, keeper):
    with api_client(settings) as client:
        data = upload(client)
        age(database, "datasets", 100)
        job = client.post("/train", json=train_body(data)).json()["id"]
        assert keeper(retain_datasets_days=7.0).sweep() == {}
        set_status(database, job, "succeeded")
        assert keeper(retain_datasets_days=7.0).sweep() == {}
        age(database, "jobs", 8)
        assert keeper(retain_datasets_days=7.0).sweep() == {"datasets": 1}


def test_events_may_go_before_their_job(settings, database, keeper):
    with api_client(settings) as client:
        job = client.post("/train", json=train_body(upload(client))).json()["id"]
        assert keeper(retain_events_days=0.0).sweep() == {}  # the job has not ended
        set_status(database, job, "succeeded")
        age(database, "jobs", 1)
        assert list(keeper(retain_events_days=0.5).sweep()) == ["events"]
        assert client.get(f"/jobs/{job}").status_code == 200
        assert rows(database, "job_events") == 0


def test_one_process_at_a_time(database, keeper, tmp_path):
    store_model(database, tmp_path)
    age(database, "models", 8)
    with database.transaction() as session:
        assert session.scalar(LOCK)
        assert keeper(**DAYS).sweep() == {}
    assert keeper(**DAYS).sweep() == {"models": 1}


def test_the_api_sweeps_by_itself(settings, database, tmp_path):
    store_model(database, tmp_path)
    age(database, "models", 8)
    with api_client(settings, retention_seconds=0.1, **DAYS) as client:
        for _ in range(200):
            if client.get("/models").json()["items"] == []:
                break
        else:
            pytest.fail("the model is still there")


def test_audits_go_with_old_jobs_unless_answers_would_be_lost(settings, database, keeper, tmp_path):
    model = store_model(database, tmp_path)
    with api_client(settings) as client:
        dataset = upload(client)["id"]
        body = {"model": model, "dataset": dataset, "objective": {"kind": "recall", "target": 0.9}}
        untouched, answered, sealed = (client.post("/audits", json=body).json()["id"] for _ in range(3))
    with database.transaction() as session:
        session.execute(text("UPDATE audits SET answered = 1 WHERE id <> :id"), {"id": untouched})
        session.execute(text("UPDATE audits SET sealed_at = now() WHERE id = :id"), {"id": sealed})
    age(database, "audits", 8)
    age(database, "models", 8)
    assert keeper(**DAYS).sweep() == {"audits": 2}  # the model of the answers stays, too
    with database.transaction() as session:
        assert session.scalars(text("SELECT id FROM audits")).all() == [answered]
        session.execute(text("UPDATE audits SET sealed_at = now()"))
    assert keeper(retain_models_days=7.0).sweep() == {"models": 1}
    assert rows(database, "audits") == 0
