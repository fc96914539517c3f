"""No room below the database, the blob store, or what a reader makes: it is said, and nothing stays behind."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest
from api_support import CSV, blob_files, problem, store_dataset, train_body
from sqlalchemy import text
from upload_support import begin, send

from service.blobs import store
from service.datasets.errors import UnreadableDataset
from service.datasets.service import _refused
from service.db.session import AWAY, Database, trouble_of
from service.errors import StorageFull
from service.ingest.child import _answer
from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits
from service.settings import Settings

FULL = text(
    """
    CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$
    """
)


@pytest.mark.parametrize("table", ["datasets", "jobs"])
def test_a_full_disk_below_the_database(client, database, settings, table):
    """What Postgres answers then; `tests/chaos/test_database_trouble.py` fills a disk."""
    dataset = store_dataset(database)
    with database.transaction() as session:
        session.execute(FULL)
        session.execute(text(f"CREATE TRIGGER no_room BEFORE INSERT ON {table} EXECUTE FUNCTION no_room()"))
    if table == "datasets":
        answer = client.post("/datasets", files={"file": ("mails.csv", CSV)})
    else:
        answer = client.post("/train", json=train_body(dataset))
    assert "disk of the database is full" in problem(answer, 503, "storage-full")["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    assert blob_files(settings) == []
    assert client.get(f"/datasets/{dataset['id']}").status_code == 200


def test_the_log_tells_a_full_disk_from_a_database_that_is_away(database: Database):
    with pytest.raises(AWAY) as full, database.transaction() as session:
        session.execute(text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$"))
    assert trouble_of(full.value) == "the disk of the database is full"
    nobody = Database("postgresql+psycopg://127.0.0.1:1/prefsvm")
    with pytest.raises(AWAY) as away:
        nobody.ping()
    assert trouble_of(away.value) == "the database does not answer (OperationalError)"
    nobody.close()


def test_a_full_disk_below_a_resumable_upload(client, settings, monkeypatch):
    path = begin(client)

    def full(descriptor: int, mode: str):
        os.close(descriptor)
        return open("/dev/full", mode)

    with monkeypatch.context() as patched:
        patched.setattr(store.os, "fdopen", full)
        answer = send(client, path, 0, CSV)
    assert "no room" in problem(answer, 503, "storage-full")["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    assert blob_files(settings) == []
    assert client.get(path).json()["received"] == 0
    assert send(client, path, 0, CSV).status_code == 204


def test_a_reader_without_room_does_not_blame_the_file(tmp_path: Path):
    source = tmp_path / "a.csv"
    source.write_bytes(CSV)
    request = {"path": str(source), "format": "csv", "options": {}, "output": "/dev/full"}
    error = _answer(request | {"limits": asdict(ReadingLimits.of(Settings()))})["error"]
    assert error["code"] == "storage_full"
    assert isinstance(_refused(IngestError(error["code"], error["message"]), "form"), StorageFull)
    assert isinstance(_refused(IngestError("crashed", "the reader died"), "form"), UnreadableDataset)
