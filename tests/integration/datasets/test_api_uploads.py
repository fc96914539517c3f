"""Resumable uploads: the protocol, an independent client of it, and what survives the death of the API."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from api_support import CSV, api_client, api_process, blob_files, counts
from sqlalchemy import text
from tusclient.client import TusClient
from upload_support import BYTES, TUS, begin, encoded, send

from service.access.repository import ProjectRepository
from service.datasets import resumable
from service.datasets import service as datasets_service
from service.db.tables import DEFAULT_PROJECT
from service.ingest import run


def ended(client: httpx.Client, path: str) -> dict:
    deadline = time.monotonic() + 40
    while (upload := client.get(path).json())["status"] in ("receiving", "received"):
        assert time.monotonic() < deadline, upload
        time.sleep(0.05)
    return upload


def left_with(settings, blobs: int) -> None:
    """Wait until so many blobs are left: parts go after the row has said how it ended."""
    deadline = time.monotonic() + 40
    while len(blob_files(settings)) != blobs:
        assert time.monotonic() < deadline, blob_files(settings)
        time.sleep(0.05)


def test_a_file_in_parts_becomes_a_data_set(client, settings, database):
    path = begin(client, filename="semi.csv", name="In parts", options=json.dumps({"columns": {"job": "text"}}))
    for start in range(0, len(CSV), 100):
        answer = send(client, path, start, CSV[start : start + 100])
        assert answer.status_code == 204, answer.text
        assert answer.headers["upload-offset"] == str(min(start + 100, len(CSV)))
    upload = ended(client, path)
    assert (upload["status"], upload["received"], upload["error"]) == ("ready", len(CSV), None)
    dataset = client.get(f"/datasets/{upload['dataset_id']}").json()
    assert dataset["name"] == "In parts"
    assert dataset["sha256"] == hashlib.sha256(CSV).hexdigest()
    assert [column["kind"] for column in dataset["columns"]] == ["number", "text", "category"]
    assert counts(database, "datasets", "uploads", "upload_parts") == [1, 1, 0]
    left_with(settings, 2)
    assert send(client, path, len(CSV), b"x").status_code == 409
    assert client.delete(path, headers=TUS).status_code == 204
    assert client.get(path).status_code == 404
    assert client.get(f"/datasets/{upload['dataset_id']}").status_code == 200


def test_what_cannot_be_read_is_said(client, settings, database):
    path = begin(client, 12)
    assert send(client, path, 0, b"a,b\n1,2\n3,\n\n").status_code == 204
    assert ended(client, path)["status"] == "ready"
    path = begin(client, 10)
    assert send(client, path, 0, b"a,b\n1,2\n3\n").status_code == 204
    upload = ended(client, path)
    assert upload["status"] == "failed"
    assert upload["dataset_id"] is None
    assert (upload["error"]["type"], upload["error"]["code"], upload["error"]["line"]) == (
        "unreadable-dataset",
        "ragged",
        3,
    )
    assert ended(client, begin(client, 0))["error"]["code"] == "empty"
    assert counts(database, "datasets", "upload_parts") == [1, 0]
    left_with(settings, 2)


def test_an_upload_whose_reader_is_killed_is_read_again(client, monkeypatch, tmp_path):
    script = (
        "import os, pathlib, runpy, sys, tempfile\n"
        f"begun = pathlib.Path({str(tmp_path)!r})\n"
        "tempfile.mkstemp(dir=begun)\n"
        "if len(list(begun.iterdir())) <= 3: os.kill(os.getpid(), 9)\n"
        "runpy.run_module('service.ingest.child', run_name='__main__')\n"
    )
    monkeypatch.setattr(run, "CHILD", ("-c", script))
    path = begin(client)
    assert send(client, path, 0, CSV).status_code == 204
    done = ended(client, path)
    assert (done["status"], done["error"]) == ("ready", None)
    assert len(list(tmp_path.iterdir())) == 4, "twice, and twice once more"


def test_the_rules_of_the_protocol(client, settings, database):
    described = client.options("/uploads")
    assert described.status_code == 204
    assert described.headers["tus-version"] == described.headers["tus-resumable"] == "1.0.0"
    assert described.headers["tus-extension"] == "creation,expiration,termination"
    assert int(described.headers["tus-max-size"]) == settings.max_upload_bytes
    path = begin(client)
    for call in (
        lambda headers: client.post("/uploads", headers=headers | {"Upload-Length": "1"}),
        lambda headers: client.head(path, headers=headers),
        lambda headers: client.patch(path, headers=headers | BYTES | headers, content=b"x"),
        lambda headers: client.delete(path, headers=headers),
    ):
        for version in ({"Tus-Resumable": "0.2.2"}, {"Tus-Resumable": ""}):
            assert call(version).status_code == 412
    head = client.head(path, headers=TUS)
    assert (head.status_code, head.headers["upload-offset"], head.headers["upload-length"]) == (200, "0", str(len(CSV)))
    assert head.headers["cache-control"] == "no-store"
    assert head.headers["upload-metadata"] == encoded(filename="mails.csv")
    assert send(client, path, 5, b"x").status_code == 409
    assert send(client, path, 10**30, b"x").status_code == 409
    assert send(client, path, -1, b"x").status_code == 400
    assert client.patch(path, content=b"x", headers=TUS | {"Upload-Offset": "0"}).status_code == 415
    too_much = send(client, path, 0, CSV + b"x")
    assert too_much.status_code == 413
    assert too_much.headers["tus-resumable"] == "1.0.0"

    def pieces():
        yield CSV
        yield b"x"

    assert client.patch(path, content=pieces(), headers=BYTES | {"Upload-Offset": "0"}).status_code == 413
    assert client.delete(path, headers=TUS).status_code == 204
    for gone in (path, "/uploads/up_" + "0" * 32, "/uploads/x"):
        assert client.head(gone, headers=TUS).status_code == 404
        assert send(client, gone, 0, b"x").status_code == 404
        assert client.delete(gone, headers=TUS).status_code == 404
    refused = [
        ({"Upload-Length": "x"}, 400),
        ({}, 422),
        ({"Upload-Length": "-1"}, 400),
        ({"Upload-Length": "+1"}, 400),
        ({"Upload-Length": "1.0"}, 400),
        ({"Upload-Length": "1_0"}, 400),
        ({"Upload-Length": ""}, 400),
        ({"Upload-Defer-Length": "1"}, 400),
        ({"Upload-Length": str(settings.max_upload_bytes + 1)}, 413),
        ({"Upload-Length": str(10**30)}, 413),
        ({"Upload-Length": "1", "Upload-Metadata": "filename !"}, 400),
        ({"Upload-Length": "1", "Upload-Metadata": encoded(filename="a\0.csv")}, 400),
        ({"Upload-Length": "1", "Upload-Metadata": "filename YQ==,filename YQ=="}, 400),
        ({"Upload-Length": "1", "Upload-Metadata": encoded(format="xls")}, 422),
        ({"Upload-Length": "1", "Upload-Metadata": encoded(filename="a.csv", options="[]")}, 422),
        ({"Upload-Length": "1", "Upload-Metadata": encoded(filename="a.csv", options='{"x": 1}')}, 422),
        ({"Upload-Length": "1"}, 422),
    ]
    for headers, status in refused:
        assert client.post("/uploads", headers=TUS | headers).status_code == status, headers
    assert counts(database, "uploads", "upload_parts") == [0, 0]
    assert blob_files(settings) == []


def test_parts_of_two_senders_do_not_mix(client, settings, database):
    path = begin(client)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: send(client, path, 0, CSV[:500]).status_code, range(8)))
    assert answers.count(204) == 1
    assert answers.count(409) == 7
    assert counts(database, "upload_parts") == [1]
    assert len(blob_files(settings)) == 1
    assert send(client, path, 500, CSV[500:]).status_code == 204
    assert ended(client, path)["status"] == "ready"


def test_a_broken_connection_costs_nothing_that_has_arrived(client, settings):
    path = begin(client)

    def broken():
        yield CSV[:300]
        time.sleep(0.3)
        raise OSError("the line breaks")

    with pytest.raises(OSError, match="the line breaks"):
        client.patch(path, content=broken(), headers=BYTES | {"Upload-Offset": "0", "Content-Length": str(len(CSV))})
    deadline = time.monotonic() + 40
    while client.head(path, headers=TUS).headers["upload-offset"] != "300":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert send(client, path, 300, CSV[300:]).status_code == 204
    assert ended(client, path)["status"] == "ready"


def test_expired_uploads_are_thrown_away(settings, database, monkeypatch):
    monkeypatch.setattr(resumable, "LOOK_SECONDS", 0.1)
    with api_client(settings, upload_expire_seconds=0.5) as client:
        path = begin(client)
        send(client, path, 0, CSV[:100])
        deadline = time.monotonic() + 40
        while counts(database, "uploads") != [0]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.head(path, headers=TUS).status_code == 404
    assert blob_files(settings) == []


def test_unfinished_uploads_are_limited_and_listed(client, database, monkeypatch):
    monkeypatch.setattr(resumable, "MAX_UNFINISHED", 3)
    headers = TUS | {"Upload-Length": "1", "Upload-Metadata": encoded(filename="a.csv", colour="grün")}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/uploads", headers=headers), range(16)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [409] * 13
    assert counts(database, "uploads") == [3]
    refused = next(answer.json() for answer in answers if answer.status_code == 409)
    assert refused["type"].endswith("too-many-uploads")
    assert "GET /uploads?status=receiving" in refused["detail"]

    first = client.get("/uploads", params={"status": "receiving", "limit": 2}).json()
    rest = client.get("/uploads", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    found = [*first["items"], *rest["items"]]
    assert rest["next_cursor"] is None
    assert sorted(each["id"] for each in found) == sorted(a.json()["id"] for a in answers if a.status_code == 201)
    assert found[0]["metadata"] == {"filename": "a.csv", "colour": "grün"}
    assert client.delete(f"/uploads/{found[0]['id']}", headers=TUS).status_code == 204
    again = client.post("/uploads", headers=headers)
    assert again.status_code == 201
    assert client.get("/uploads", params={"limit": 1}).json()["items"] == [again.json()]
    assert client.get("/uploads", params={"status": "ready"}).json()["items"] == []
    assert client.get("/uploads", params={"status": "lost"}).status_code == 422
    assert client.get("/uploads", params={"cursor": "x"}).status_code == 422


def test_deleting_wins_over_bytes_that_arrive(client, settings, database):
    path = begin(client, 40 << 20)

    def pieces():
        for _ in range(20):  # the first part is there
            yield b"x" * (1 << 20)
        assert client.delete(path, headers=TUS).status_code == 204
        yield b"x" * (1 << 20)

    answer = client.patch(path, content=pieces(), headers=BYTES | {"Upload-Offset": "0"})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (404, "upload-not-found")
    assert client.head(path, headers=TUS).status_code == 404
    assert counts(database, "uploads", "upload_parts") == [0, 0]
    left_with(settings, 0)


def test_an_upload_keeps_its_room_until_it_is_a_data_set(client, database, monkeypatch):
    """Nobody takes it while the file is read, and the last data set may fill the project to the last byte."""
    with database.transaction() as session:
        ProjectRepository(session).set_limits(DEFAULT_PROJECT, {"stored_bytes": len(CSV)})
    begun, go_on = hold_reading(monkeypatch)
    path = begin(client)
    assert send(client, path, 0, CSV).status_code == 204
    assert begun.wait(40)
    assert client.get("/limits").json()["usage"]["stored_bytes"] == len(CSV)
    headers = TUS | {"Upload-Length": "1", "Upload-Metadata": encoded(filename="a.csv")}
    assert client.post("/uploads", headers=headers).status_code == 403
    go_on.set()
    assert ended(client, path)["status"] == "ready"
    assert client.get("/limits").json()["usage"]["stored_bytes"] == len(CSV)


def hold_reading(monkeypatch) -> tuple[threading.Event, threading.Event]:
    """Let no file be read until the second event is set; the first tells when one is about to be."""
    begun, go_on = threading.Event(), threading.Event()
    ingest = datasets_service.ingest

    async def held(*arguments, **options):
        begun.set()
        await asyncio.to_thread(go_on.wait, 20)
        return await ingest(*arguments, **options)

    monkeypatch.setattr(datasets_service, "ingest", held)
    return begun, go_on


@pytest.mark.parametrize("seen", [True, False], ids=["while it is read", "when it has been read"])
def test_deleting_wins_over_reading(client, settings, database, monkeypatch, seen):
    """No data set comes of it, whether the reader notices in the middle or only at its end."""
    monkeypatch.setattr(resumable, "RENEW_SECONDS", 0.05 if seen else 60)
    begun, go_on = hold_reading(monkeypatch)
    path = begin(client)
    assert send(client, path, 0, CSV).status_code == 204
    assert begun.wait(40)
    assert client.get(path).json()["status"] == "received"
    assert client.delete(path, headers=TUS).status_code == 204
    assert client.get(path).status_code == 404
    if seen:
        left_with(settings, 0)
    go_on.set()
    left_with(settings, 0)
    assert counts(database, "datasets", "uploads", "upload_parts") == [0, 0, 0]


@pytest.mark.slow
def test_a_killed_api_loses_less_than_one_part(settings, database, tmp_path):
    """SIGKILL in the middle of a PATCH; a restarted API goes on where it was, with an independent client."""
    content = b"x,label\n" + b"1.25,spam\n2.5,ham\n" * 1_800_000
    assert len(content) > 30 << 20
    with api_process(settings, tmp_path / "log1") as (client, process):
        path = begin(client, len(content))

        def until_killed():
            for start in range(0, 24 << 20, 1 << 20):
                yield content[start : start + (1 << 20)]
            deadline = time.monotonic() + 40
            while counts(database, "upload_parts") == [0]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.kill()
            process.wait()
            yield content[24 << 20 : 25 << 20]

        with pytest.raises(httpx.TransportError):
            client.patch(
                path,
                content=until_killed(),
                headers=BYTES | {"Upload-Offset": "0", "Content-Length": str(len(content))},
            )
    with api_process(settings, tmp_path / "log2") as (client, process):
        offset = int(client.head(path, headers=TUS).headers["upload-offset"])
        assert 16 << 20 <= offset < 24 << 20
        theirs = TusClient(str(client.base_url.join("/uploads")))
        uploader = theirs.uploader(
            file_stream=io.BytesIO(content), url=str(client.base_url.join(path)), chunk_size=8 << 20
        )
        assert uploader.offset == offset
        uploader.upload()
        # Complete, and killed again before or while it is read.
        process.kill()
        process.wait()
    with database.transaction() as session:  # do not wait for the claim of the dead process to end
        session.execute(text("UPDATE uploads SET claimed_until = now()"))
    with api_process(settings, tmp_path / "log3") as (client, _):
        upload = ended(client, path)
        assert upload["status"] == "ready", upload
        dataset = client.get(f"/datasets/{upload['dataset_id']}").json()
    assert dataset["sha256"] == hashlib.sha256(content).hexdigest()
    assert counts(database, "datasets", "upload_parts") == [1, 0]


def test_a_whole_upload_by_an_independent_client(client):
    theirs = TusClient(str(client.base_url.join("/uploads")))
    uploader = theirs.uploader(
        file_stream=io.BytesIO(CSV), chunk_size=200, metadata={"filename": "m.csv", "options": '{"header": true}'}
    )
    uploader.upload()
    path = httpx.URL(uploader.url).path
    assert ended(client, path)["status"] == "ready"
