"""The answer to a COMMIT that was lost: the row is there, though the caller was told that the database is away."""

from __future__ import annotations

import hashlib
from typing import Any

import psycopg
import pytest
from api_support import CSV, api_client, blob_files
from sqlalchemy import select

from service.blobs.store import BlobStore
from service.db.session import Database
from service.db.tables import DatasetRow
from service.settings import Settings


@pytest.mark.parametrize("arrives", [True, False])
def test_an_upload_whose_commit_got_no_answer(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    commit = psycopg.Connection.commit
    lost: list[Any] = []

    def commit_without_answer(connection: psycopg.Connection) -> None:
        new = connection.execute("SELECT count(*) FROM datasets").fetchone()
        if lost or new == (0,):
            return commit(connection)
        lost.append(connection)
        if arrives:
            commit(connection)
        connection.close()
        raise psycopg.OperationalError("the connection was lost")

    def post(key: str) -> Any:
        return client.post("/datasets", files={"file": ("a.csv", CSV)}, headers={"Idempotency-Key": key})

    with api_client(settings) as client:
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Connection, "commit", commit_without_answer)
            assert post("once").status_code == 503
        assert len(blob_files(settings)) == (2 if arrives else 0)
        made = post("once")
        assert made.status_code == 201
    with database.transaction() as session:
        (row,) = session.scalars(select(DatasetRow))
    assert row.id == made.json()["id"]
    assert len(blob_files(settings)) == 2
    with BlobStore(settings.blob_location).open(row.blob_key) as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == row.sha256
