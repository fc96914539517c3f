"""``/datasets`` on the real application: what is taken, what is refused, and that a refusal leaves nothing."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from api_support import CSV, api_client, blob_files, counts, problem, set_status, store_dataset, train_body, upload


def test_multipart_upload_can_be_read_back(client, settings):
    response = client.post("/datasets", files={"file": ("mails.csv", CSV, "text/csv")}, data={"name": "My mails"})
    assert response.status_code == 201, response.text
    made = response.json()
    assert response.headers["location"] == f"/datasets/{made['id']}"
    assert made["name"] == "My mails"
    assert made["format"] == "csv"
    assert made["layout"] == "table"
    assert made["rows"] == 60
    assert made["bytes"] == len(CSV)
    assert made["sha256"] == hashlib.sha256(CSV).hexdigest()
    assert [(c["name"], c["kind"], c["missing"]) for c in made["columns"]] == [
        ("age", "number", 0),
        ("job", "category", 0),
        ("label", "category", 20),
    ]
    assert client.get(f"/datasets/{made['id']}").json() == made
    names = ("id", "name", "format", "layout", "bytes", "sha256", "rows", "created_at")
    listed = {name: made[name] for name in names} | {"column_count": 3, "options": {}}
    assert client.get("/datasets").json() == {"items": [listed], "next_cursor": None}
    assert len(blob_files(settings)) == 2


def test_raw_upload_says_the_rest_in_the_query(client):
    packed = gzip.compress(CSV.replace(b",", b";"))
    response = client.post(
        "/datasets",
        content=packed,
        headers={"content-type": "application/octet-stream"},
        params={"name": "packed", "format": "csv", "options": json.dumps({"delimiter": ";"})},
    )
    assert response.status_code == 201, response.text
    assert response.json()["rows"] == 60
    assert response.json()["bytes"] == len(packed)
    typed = client.post("/datasets", content=CSV, headers={"content-type": "text/csv; charset=utf-8"})
    assert typed.status_code == 201, typed.text
    assert typed.json()["name"] == "upload"


def test_fields_may_come_after_the_file_and_boundaries_in_any_piece(client):
    body = (
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="C:\\dir\\m\x01ails.txt"\r\n\r\n'
        + CSV
        + b'\r\n--XX\r\nContent-Disposition: form-data; name="format"\r\n\r\ncsv\r\n--XX--\r\n'
    )

    def pieces():
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    response = client.post("/datasets", content=pieces(), headers={"content-type": "multipart/form-data; boundary=XX"})
    assert response.status_code == 201, response.text
    assert response.json()["bytes"] == len(CSV)
    assert response.json()["name"] == "mails.txt"


REFUSED = [
    ({"files": {"file": ("a.bin", CSV)}}, 422, "invalid-request", "form.format"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"format": "xls"}}, 422, "invalid-request", "form.format"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"options": "{"}}, 422, "invalid-json", "form.options"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"options": "[1]"}}, 422, "invalid-request", "form.options"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"options": '{"x": 1}'}}, 422, "invalid-request", "form.options"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"name": "a\0b"}}, 422, "invalid-request", "form.name"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"name": "x" * 256}}, 422, "invalid-request", "form.name"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"name": "x" * 70_000}}, 422, "invalid-request", "form"),
    ({"files": {"file": ("a.csv", CSV)}, "data": {"owner": "me"}}, 422, "invalid-request", "form"),
    ({"files": [("file", ("a.csv", CSV)), ("file", ("b.csv", CSV))]}, 422, "invalid-request", "form.file"),
    ({"files": {"upload": ("a.csv", CSV)}}, 422, "invalid-request", "form"),
    ({"files": {"name": (None, "only a name")}}, 422, "invalid-request", "form.file"),
    ({"files": {"file": ("a.csv", b"")}}, 422, "unreadable-dataset", None),
    ({"files": {"file": ("a.csv", b"a,b\n1,2\n3\n")}}, 422, "unreadable-dataset", None),
    ({"files": {"file": ("a.parquet", b"PAR1 no parquet PAR1")}}, 422, "unreadable-dataset", None),
    ({"json": {"file": "x"}}, 415, "unsupported-media-type", None),
    ({"data": {"file": "x"}}, 415, "unsupported-media-type", None),
    ({"content": CSV, "headers": {"content-type": "multipart/mixed; boundary=x"}}, 415, "unsupported-media-type", None),
    ({"content": CSV, "headers": {"content-type": "multipart/form-data"}}, 400, "malformed-request", None),
    (
        {"content": CSV, "headers": {"content-type": "multipart/form-data; boundary=" + "x" * 300}},
        400,
        "malformed-request",
        None,
    ),
    (
        {"content": b"--X\r\nnonsense", "headers": {"content-type": "multipart/form-data; boundary=X"}},
        400,
        "malformed-request",
        None,
    ),
    (
        {
            "content": b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,b\n1,2\n',
            "headers": {"content-type": "multipart/form-data; boundary=X"},
        },
        400,
        "malformed-request",
        None,
    ),
    ({"content": CSV}, 422, "invalid-request", "query.format"),
    ({"content": CSV, "params": {"format": "\0"}}, 422, "invalid-request", "query.format"),
]


def test_refused_uploads_leave_nothing(client, settings, database):
    for send, status, kind, field in REFUSED:
        body = problem(
            client.post("/datasets", headers={"Idempotency-Key": "k"} | send.pop("headers", {}), **send), status, kind
        )
        assert ([error["field"] for error in body["errors"]] or [None])[0] == field, send
        assert blob_files(settings) == [], send
        assert counts(database, "datasets", "idempotency_keys") == [0, 0], send


def test_options_that_curl_has_cut(client):
    for options, cut in (('{"delimiter": "', True), ("{'delimiter': ';'}", False)):
        response = client.post("/datasets", files={"file": ("a.csv", CSV)}, data={"options": options})
        (error,) = problem(response, 422, "invalid-json")["errors"]
        assert ("--form-string" in error["message"]) == cut, error


def test_unreadable_says_where(client):
    response = client.post("/datasets", files={"file": ("a.csv", b"a,b\n1,2\n3\n")})
    body = problem(response, 422, "unreadable-dataset")
    assert body["code"] == "ragged"
    assert body["line"] == 3


def test_size_limit_holds_with_and_without_a_length(settings, database):
    with api_client(settings, max_upload_bytes=1000) as client:
        assert len(CSV) < 1000
        big = CSV + b"1,cook,ham\n" * 100
        problem(client.post("/datasets", files={"file": ("a.csv", big)}), 413, "content-too-large")

        def pieces():
            for _ in range(100):
                yield b"x" * 100

        chunked = client.post("/datasets", content=pieces(), headers={"content-type": "text/csv"})
        problem(chunked, 413, "content-too-large")
        assert upload(client)["rows"] == 60
        assert len(blob_files(settings)) == 2
        # A length that cannot fit is refused before anything is sent.
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=10) as connection:
            connection.sendall(
                b"POST /datasets HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: text/csv\r\nContent-Length: 2000000\r\n\r\n"
            )
            assert connection.recv(100).split()[1] == b"413"
    assert len(blob_files(settings)) == 2
    assert counts(database, "datasets") == [1]


def test_a_full_disk_is_said_and_leaves_nothing(settings, database):
    """The limit on the size of files stands for the disk: the kernel refuses the write in the same place."""
    program = (
        "import asyncio, errno, os, resource, signal, sys\n"
        "from service.datasets import service\n"
        "from service.errors import StorageFull\n"
        "from service.blobs.store import BlobStore\n"
        "from service.db.session import Database\n"
        "from service.db.tables import DEFAULT_PROJECT\n"
        "from service.settings import Settings\n"
        "class Upload:\n"
        "    declared_bytes = None\n"
        "    async def chunks(self):\n"
        "        for _ in range(8): yield b'x' * (1 << 20)\n"
        "async def never(): await asyncio.Event().wait()\n"
        "settings = Settings()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))\n"
        "errno.EDQUOT = errno.EFBIG\n"
        "database, blobs = Database(settings.database_url), BlobStore(settings.blob_location)\n"
        "datasets = service.DatasetService(database, blobs, settings)\n"
        "try: asyncio.run(datasets.create(DEFAULT_PROJECT, Upload(), None, never))\n"
        "except StorageFull as full: print(full.status, full.headers)\n"
    )
    environment = os.environ | {
        "PREFSVM_DATABASE_URL": settings.database_url,
        "PREFSVM_DATA_DIR": str(settings.data_dir),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "503 {'Retry-After': '60'}\n", done.stderr
    assert blob_files(settings) == []


def test_idempotency_key(client, settings, database):
    def post(content: bytes = CSV, name: str = "a.csv", key: str = "k 1".replace(" ", "-")):
        return client.post("/datasets", files={"file": (name, content)}, headers={"Idempotency-Key": key})

    first = post()
    assert first.status_code == 201, first.text
    again = post()
    assert again.status_code == 201
    assert again.content == first.content
    assert len(blob_files(settings)) == 2
    problem(post(content=CSV + b"1,cook,ham\n"), 409, "idempotency-conflict")
    problem(post(name="b.csv"), 409, "idempotency-conflict")
    assert post(key="other").json()["id"] != first.json()["id"]
    assert len(blob_files(settings)) == 4
    for bad in ("", "x" * 256, "with space", "umlaut-\u00e4"):
        response = client.post(
            "/datasets", files={"file": ("a.csv", CSV)}, headers={"Idempotency-Key": bad.encode("latin-1")}
        )
        problem(response, 422, "invalid-request")
    assert client.delete(f"/datasets/{first.json()['id']}").status_code == 204
    problem(post(), 409, "idempotency-conflict")
    assert counts(database, "datasets") == [1]
    assert len(blob_files(settings)) == 2


def test_a_race_with_one_key_makes_one_data_set(client, settings, database):
    def post(_: int):
        return client.post("/datasets", files={"file": ("a.csv", CSV)}, headers={"Idempotency-Key": "race"})

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(post, range(4)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert counts(database, "datasets", "idempotency_keys") == [1, 1]
    assert len(blob_files(settings)) == 2


def test_paging_walks_over_all_newest_first(client, database):
    made = [store_dataset(database, name=f"{i}.csv")["id"] for i in range(5)]
    seen, cursor = [], None
    for _ in range(3):
        page = client.get("/datasets", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert seen == made[::-1]
    for bad in ("x", "AAAA", "\0", "x" * 600, "W10", "WyIyMDI2IiwgMV0"):
        problem(client.get("/datasets", params={"cursor": bad}), 422, "invalid-request")
    for bad in ("0", "101", "-1", "9" * 5000, "x", ""):
        problem(client.get("/datasets", params={"limit": bad}), 422, "invalid-request")


def test_delete(client, settings, database):
    made = upload(client)
    job = client.post("/train", json=train_body(made)).json()
    body = problem(client.delete(f"/datasets/{made['id']}"), 409, "dataset-in-use")
    assert f"POST /jobs/{job['id']}/cancel" in body["detail"]
    set_status(database, job["id"], "failed")
    assert client.delete(f"/datasets/{made['id']}").status_code == 204
    problem(client.get(f"/datasets/{made['id']}"), 404, "dataset-not-found")
    problem(client.delete(f"/datasets/{made['id']}"), 404, "dataset-not-found")
    assert blob_files(settings) == []
    assert client.get(f"/jobs/{job['id']}").json()["request"]["dataset"] == made["id"]


def test_ids_of_the_wrong_form_are_unknown(client):
    unknown = problem(client.get(f"/datasets/ds_{'0' * 32}"), 404, "dataset-not-found")
    for bad in ("x", "job_" + "0" * 32, "ds_" + "0" * 31, "ds_" + "0" * 32 + "%0A", "%00", "ds_" + "A" * 32):
        wrong = problem(client.get(f"/datasets/{bad}"), 404, "dataset-not-found")
        assert {**wrong, "request_id": ""} == {**unknown, "request_id": ""}
