"""Requests that break a plain FastAPI application: each answer is a 4xx problem that repeats nothing that was sent."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256

import pytest
from api_support import CSV, api_client, blob_files, counts, store_dataset, store_model, train_body
from sqlalchemy import text

from service.api.logs import JsonFormatter

JSON = {"content-type": "application/json"}
SECRET = "tiefes-Geheimnis-4711"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the process would write to standard error in production."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(lambda record: not record.name.startswith(("httpx", "httpcore")))  # the client of this test
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


def test_bodies_that_break_json_or_postgres(client, database, tmp_path):
    model = store_model(database, tmp_path)
    dataset = store_dataset(database)
    rows = b'{"model": "%s", "rows": %%s}' % model.encode()
    train = json.dumps(train_body(dataset)).encode()
    bodies = [
        ("/predict", rows % b'[{"age": NaN, "job": "cook"}]'),
        ("/predict", rows % b'[{"age": 1e999, "job": "cook"}]'),
        ("/predict", rows % b'[{"age": -Infinity, "job": "cook"}]'),
        ("/predict", rows % b"[]"),
        ("/predict", rows % b"[[1], [1, 2]]"),
        ("/predict", rows % b"[{}]"),
        ("/predict", rows % b"[null]"),
        ("/predict", rows % b'"x"'),
        ("/predict", rows % b'[{"age": 1, "job": "\\ud800"}]'),
        ("/predict", rows % b'[{"age": 1, "job": "a\\u0000b"}]'),
        ("/predict", rows % b'[{"age": 1, "job": "cook", "a\\u0000b": 1}]'),
        ("/predict", rows % (b'[{"age": ' + b"9" * 5000 + b', "job": "cook"}]')),
        ("/predict", rows % (b'[{"age": ' + b"[" * 500 + b"]" * 500 + b', "job": "cook"}]')),
        ("/predict", rows % (b"[" * 200_000)),
        ("/predict", b"\xff\xfe{}"),
        ("/predict", b'{"model": "\xff", "rows": [{}]}'),
        ("/predict", b'{"model": "\\u0000", "rows": [{"a": 1}]}'),
        ("/predict", b""),
        ("/predict", b"null"),
        ("/predict", b"[]"),
        ("/predict", b"{"),
        ("/predict", b"\xef\xbb\xbf{}"),
        ("/train", train.replace(b'"C": 10', b'"C": NaN')),
        ("/train", train.replace(b'"C": 10', b'"C": 1e999')),
        ("/train", train.replace(b'"C": 10', b'"C": ' + b"9" * 400)),
        ("/train", train.replace(b'"C": 10', b'"C": {"C": [1]}')),
        ("/train", train.replace(b'"spam"', b'"\\u0000"')),
        ("/train", train.replace(b'"spam"', b'"\\udfff"')),
        ("/train", train.replace(b'"label"', b'"\\u0000"')),
        ("/train", train.replace(b"0.9", b"NaN")),
        ("/train", b'{"a":' * 100_000),
        ("/jobs/job_" + "0" * 32 + "/cancel", b"NaN"),
    ]
    for path, body in bodies:
        response = client.post(path, content=body, headers=JSON)
        assert response.status_code == 422, (path, body[:80], response.text)
        assert response.headers["content-type"] == "application/problem+json"
        assert len(response.content) < 2000
    # An escaped backslash before u0000 is six harmless characters.
    fine = client.post("/predict", content=rows % rb'[{"age": 1, "job": "a\\u0000b"}]', headers=JSON)
    assert fine.status_code == 200, fine.text
    big = client.post("/predict", content=rows % (b'[{"age": ' + b"9" * 200 + b', "job": "cook"}]'), headers=JSON)
    assert big.status_code in (200, 422)
    assert counts(database, "jobs") == [0]


def test_content_types(client):
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "\xff",
        "json",
    ):
        for path in ("/predict", "/train", "/aliases/a"):
            method = "PUT" if path == "/aliases/a" else "POST"
            headers = {"content-type": kind.encode("latin-1")} if kind else {}
            response = client.request(method, path, content=b"{}", headers=headers)
            assert response.status_code == 415, (kind, path, response.text)
            assert response.json()["type"] == "urn:prefsvm:problem:unsupported-media-type"
    for kind in ("application/json; charset=utf-8", "application/vnd.x+json", "Application/JSON"):
        assert client.post("/predict", content=b"{}", headers={"content-type": kind}).status_code == 422


def check_the_page_for_people(client):
    """Everything that `/docs` loads comes from the service; the one script in it is the one that its policy names."""
    page = client.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 3
    for name in loaded:
        answer = client.get(f"/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"].partition(";")[0] in ("text/javascript", "text/css", "image/png")
    (script,) = re.findall(r"<script>(.+?)</script>", page.text)
    assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy
    assert client.get("/" + re.findall("url:'([^']+)'", script)[0]).json()["info"]["title"] == "prefsvm"
    (back,) = re.findall(r"<a href=(\w+)>", page.text)
    assert client.get(f"/{back}", headers={"accept": "text/html"}).status_code == 200
    assert client.get("/docs/../settings.py").status_code == 404
    assert client.get("/docs/main.py").status_code == 404


def test_paths_methods_and_headers(client):
    for method, path, status in (
        ("GET", "/nope", 404),
        ("GET", "/jobs/", 404),
        ("GET", "/%00", 404),
        ("GET", "/datasets/..%2f..%2fetc%2fpasswd", 404),
        ("DELETE", "/jobs", 405),
        ("PATCH", "/predict", 405),
        ("TRACE", "/jobs", 405),
        ("GET", "/train", 405),
        ("HEAD", "/jobs", 405),
    ):
        response = client.request(method, path)
        assert response.status_code == status, (method, path, response.text)
        assert response.headers["content-type"] == "application/problem+json"
        if status == 405:
            assert response.headers["allow"]
    start = client.get("/")
    assert (start.status_code, start.headers["location"]) == (307, "docs")
    check_the_page_for_people(client)
    response = client.get("/healthz", headers={"x-request-id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"
    for bad in ("x" * 129, "a b", "a\tb", "{}"):
        assert client.get("/healthz", headers={"x-request-id": bad}).headers["x-request-id"] not in (bad, "")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert "server" not in response.headers
    assert "access-control-allow-origin" not in client.get("/jobs", headers={"origin": "http://evil"}).headers
    for bad in (b"-1", b"x", b"1e9", b"9" * 30):
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=10) as connection:
            connection.sendall(b"POST /train HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + bad + b"\r\n\r\n")
            assert connection.recv(100).split()[1] in (b"400", b"413")


def test_nothing_that_was_sent_comes_back_or_into_the_log(client, database, tmp_path, log):
    model = store_model(database, tmp_path)
    dataset = store_dataset(database)
    client.put("/aliases/now", json={"model": model})
    body = train_body(dataset)
    planted = [
        client.post("/predict", json={"model": SECRET, "rows": [{"age": 1}]}),
        client.post("/predict", json={"model": model, "rows": [{"age": SECRET, "job": SECRET}]}),
        client.post("/predict", json={"model": model, "rows": [{"age": [SECRET], "job": {"x": SECRET}}]}),
        client.post("/predict", json={"model": model, "rows": SECRET}),
        client.post("/predict", content=f'{{"model": "{SECRET}'.encode(), headers=JSON),
        client.post("/predict", content=f'{{"model": {SECRET}}}'.encode(), headers=JSON),
        client.post("/predict", content=SECRET.encode(), headers={"content-type": SECRET}),
        *(client.post("/train", json=body | {name: SECRET}) for name in body),
        *(client.post("/train", json=body | {name: [SECRET]}) for name in body),
        client.post("/train", json=body | {"objective": {"kind": SECRET, "target": SECRET}}),
        client.post("/train", json=body | {"objective": {"kind": "recall", "target": SECRET}}),
        client.post("/train", json=body | {"features": {"include": [SECRET], "exclude": [SECRET]}}),
        client.post("/train", json=body | {"params": {"C": SECRET, "kernel": SECRET, "gamma": SECRET}}),
        client.post("/train", json=body | {"params": {"kernel": SECRET}}),
        client.post("/train", json=body | {"params": {"gamma": SECRET}}),
        client.post("/train", json=body | {"unlabeled": [SECRET], "positive": SECRET}),
        client.post("/train", json=body | {"alias": "mdl_" + SECRET}),
        client.post("/datasets", files={"file": (f"{SECRET}.bin", SECRET.encode())}),
        client.post("/datasets", files={"file": ("a.csv", f"a,b\n1,{SECRET}\n{SECRET}\n".encode())}),
        client.post("/datasets", files={"file": ("a.svm", f"1 1:{SECRET}\n".encode())}),
        client.post("/datasets", files={"file": ("a.npz", SECRET.encode())}),
        client.post("/datasets", files={"file": ("a.csv", CSV)}, data={"format": SECRET}),
        client.post("/datasets", files={"file": ("a.csv", CSV)}, data={"options": SECRET}),
        client.post("/datasets", files={"file": ("a.csv", CSV)}, data={"options": json.dumps({"encoding": SECRET})}),
        client.post("/datasets", files={SECRET: ("a.csv", CSV)}),
        client.put(f"/aliases/{SECRET.upper()}", json={"model": SECRET}),
        client.put("/aliases/now", json={"model": SECRET}),
        *(client.get(f"/{part}/{SECRET}") for part in ("jobs", "models", "datasets", "aliases", "nope")),
        *(client.get(f"/{part}?cursor={SECRET}&limit={SECRET}") for part in ("jobs", "models", "datasets", "aliases")),
        client.get(f"/jobs?status={SECRET}"),
        client.get(f"/models/{model}/curves/{SECRET}"),
        client.request(SECRET.upper(), "/jobs"),
        client.get("/jobs", headers={"authorization": f"Bearer {SECRET}", "idempotency-key": SECRET}),
        client.post("/train", json=body, headers={"idempotency-key": f"{SECRET} {SECRET}"}),
    ]
    # Defects: the database fails with the request in its hands.
    with database.transaction() as session:
        session.execute(text("ALTER TABLE jobs RENAME TO hidden"))
        session.execute(text("ALTER TABLE aliases RENAME TO hidden_aliases"))
    failing = [
        client.post("/train", json=body | {"unlabeled": [SECRET]}),
        client.post("/predict", json={"model": SECRET.lower(), "rows": [{SECRET: SECRET}]}),
    ]
    for response in failing:
        assert response.status_code == 500
        assert response.json()["type"] == "urn:prefsvm:problem:internal-error"
        assert "Traceback" not in response.text
        assert "jobs" not in response.text
    refused = [response for response in [*planted, *failing] if response.is_error]
    assert len(refused) >= 50
    for response in refused:
        assert SECRET.lower() not in response.text.lower(), (response.request.url, response.text)
        assert SECRET.lower() not in str(response.headers).lower()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert SECRET.lower() not in log.getvalue().lower()
    seen = {(line.get("route"), line.get("status")) for line in lines if line["logger"] == "prefsvm.access"}
    assert {("/predict", 404), ("/train", 422), ("/datasets", 422), ("/jobs/{job_id}", 404), (None, 404)} <= seen
    defects = [line for line in lines if line["message"] == "unexpected error"]
    assert {line["request_id"] for line in defects} == {response.json()["request_id"] for response in failing}
    assert all("repository.py" in " ".join(line["stack"]) for line in defects)


def wait_until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_client_that_hangs_up_leaves_nothing(settings, database):
    head = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    whole = head + CSV + b"\r\n--X--\r\n"

    def send(client, declared: int, body: bytes) -> socket.socket:
        connection = socket.create_connection((client.base_url.host, client.base_url.port))
        connection.sendall(
            b"POST /datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=X\r\n"
            b"Content-Length: %d\r\n\r\n" % declared + body
        )
        return connection

    # No reader is free, so that an upload that has arrived waits.
    with api_client(settings, ingest_slots=0) as client:
        for declared, sent in ((len(whole), whole[:-40]), (10_000_000, head + b"x" * 3_000_000), (len(whole), whole)):
            connection = send(client, declared, sent)
            wait_until(lambda: blob_files(settings) != [])
            connection.close()
            wait_until(lambda: blob_files(settings) == [])
        assert client.get("/healthz").status_code == 200

        def statuses() -> set[str]:
            figures = re.findall(r'_seconds_count{[^}]*route="/datasets"[^}]*}', client.get("/metrics").text)
            return {re.search(r'status="(\d+)"', each)[1] for each in figures}

        # No defect of the service, for which somebody would be called.
        wait_until(lambda: statuses() == {"499"})
    assert counts(database, "datasets", "idempotency_keys") == [0, 0]
