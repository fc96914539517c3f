"""The API as a process: how it starts, logs and stops, memory during uploads, and what it says without its servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest
import redis
from api_support import CSV, api_client, api_process, blob_files, set_status, store_dataset, train_body
from sqlalchemy import text

from service.db.session import Database
from service.readiness import Readiness

MIB = 1 << 20


def test_starts_logs_json_and_stops(settings, tmp_path):
    log = tmp_path / "log"
    with api_process(settings, log) as (client, process):
        assert client.get("/readyz").json()["ready"] is True
        assert "server" not in client.get("/jobs?limit=7").headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    listed = next(line for line in lines if line.get("route") == "/jobs")
    assert (listed["method"], listed["status"], listed["level"]) == ("GET", 200, "INFO")
    assert listed["request_id"]
    assert "limit" not in log.read_text()


@pytest.mark.slow
def test_uploads_do_not_pass_through_memory(settings, tmp_path):
    size = 200 * MIB
    block = os.urandom(MIB)
    head = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.parquet"\r\n\r\n'

    def multipart() -> Iterator[bytes]:
        yield head
        for _ in range(size // MIB):
            yield block
        yield b"\r\n--X--\r\n"

    def raw() -> Iterator[bytes]:
        for _ in range(size // MIB):
            yield block

    with api_process(settings, tmp_path / "log") as (client, process):
        # A first upload loads what is loaded once.
        assert client.post("/datasets", files={"file": ("a.csv", CSV)}).status_code == 201
        kept = blob_files(settings)
        rss = psutil.Process(process.pid).memory_info
        before, peak, done = rss().rss, 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.02):
                peak = max(peak, rss().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        for content, kind in ((multipart, "multipart/form-data; boundary=X"), (raw, "application/vnd.apache.parquet")):
            response = client.post("/datasets", content=content(), headers={"content-type": kind})
            # Noise is no Parquet file: it was stored whole, then refused.
            assert response.status_code == 422, response.text
            assert response.json()["type"] == "urn:prefsvm:problem:unreadable-dataset"
        done.set()
        watcher.join()
        assert peak > 0
        assert peak - before < 32 * MIB, f"{(peak - before) / MIB:.0f} MiB"
        assert blob_files(settings) == kept


def test_before_the_first_migration_no_table_is_asked_for(empty_database_url):
    """Postgres would log an error each time that somebody looks, as `prefsvm serve` does until it is ready."""
    with closing(Database(empty_database_url)) as empty:
        checks = asyncio.run(Readiness(empty, empty, None).report()).checks
    assert checks["queue"].detail == "there is no table of jobs yet"
    assert checks["migrations"].detail.startswith("at revision None, expected ")


def test_without_postgres_503_and_healthz(settings, tmp_path):
    gone = f"postgresql+psycopg://nobody@/nothing?host={tmp_path}"
    with api_client(settings, database_url=gone) as client:
        for call in (
            client.get("/jobs"),
            client.get("/models/mdl_" + "0" * 32),
            client.post("/predict", json={"model": "a", "rows": [{"x": 1}]}),
            client.post("/datasets", files={"file": ("a.csv", CSV)}),
        ):
            assert call.status_code == 503, call.text
            assert int(call.headers["retry-after"]) > 0
            assert call.json()["type"] == "urn:prefsvm:problem:unavailable"
            assert str(tmp_path) not in call.text
        assert client.get("/healthz").json() == {"status": "ok"}
        ready = client.get("/readyz")
        assert ready.status_code == 503
        checks = {name: check["ok"] for name, check in ready.json()["checks"].items()}
        assert checks == {"database": False, "migrations": False, "broker": True, "worker": False, "queue": False}
    assert blob_files(settings) == []


def test_a_restarted_postgres_costs_nobody_an_error(settings, database):
    with api_client(settings) as client:
        assert client.get("/jobs").status_code == 200
        with database.transaction() as session:
            session.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'prefsvm-api' AND datname = current_database()"
                )
            )
        assert client.get("/jobs").status_code == 200


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where somebody takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def test_readyz_does_not_wait_for_frozen_servers(settings, database, silent):
    frozen = {
        "broker_url": f"redis://127.0.0.1:{silent}/0",
        "database_url": f"postgresql+psycopg://x@127.0.0.1:{silent}/x",
    }
    with api_client(settings, **frozen) as client:
        started = time.monotonic()
        ready = client.get("/readyz")
        assert time.monotonic() - started < 8  # of the ten that five looks of 2 s take one after another
        assert ready.status_code == 503
        assert not any(check["ok"] for check in ready.json()["checks"].values())


def readiness(client, expected):
    """Ask until the parts that are not well are the expected ones, and return the answer.

    Each part is given two seconds, which is not enough for it while other work has the machine.
    """
    deadline = time.monotonic() + 60
    while True:
        ready = client.get("/readyz")
        wrong = {name: check["detail"] for name, check in ready.json()["checks"].items() if not check["ok"]}
        if wrong.keys() == expected:
            return ready
        assert time.monotonic() < deadline, wrong
        time.sleep(0.1)


def dataset_of(client, job):
    return client.get(f"/jobs/{job}").json()["request"]["dataset"]


def listener(broker_url):
    """Return a client of the broker that waits as long as a worker does, and not as briefly as a readiness check."""
    socket = broker_url.removeprefix("redis+socket://")
    return redis.Redis(unix_socket_path=socket, socket_timeout=60, single_connection_client=True)


def test_readyz_names_what_is_missing(settings, database):
    with api_client(settings, broker_url="redis://127.0.0.1:1/0") as client:
        assert readiness(client, {"broker", "worker"}).status_code == 503
    with api_client(settings) as client:
        ready = readiness(client, {"worker"})
        assert ready.status_code == 200
        assert ready.json()["checks"]["worker"] == {"ok": False, "detail": "no worker listens; jobs wait"}
        assert ready.json()["workers"] == 0
        with listener(settings.broker_url) as stranger:
            stranger.execute_command("SELECT", 9)  # another database of the same server
            stranger.brpop("prefsvm", timeout=0.01)
            assert readiness(client, {"worker"}).json()["workers"] == 0
        with listener(settings.broker_url) as worker:
            worker.brpop("prefsvm", timeout=0.01)
            ready = readiness(client, set()).json()
            assert ready["checks"]["worker"] == {"ok": True, "detail": ""}
            assert ready["workers"] == 1
            assert ready["checks"]["queue"] == {"ok": True, "detail": ""}
            job = client.post("/train", json=train_body(store_dataset(database))).json()["id"]
            readiness(client, set())  # it has only just come
            with database.transaction() as session:
                waited = "created_at = now() - interval '2 minutes', dispatched_at = now()"
                session.execute(text(f"UPDATE jobs SET {waited}"))
            stuck = readiness(client, {"queue"}).json()["checks"]["queue"]
            assert re.fullmatch(r"a job has waited for 1\d\d s although a worker is idle", stuck["detail"])
            busy = client.post("/train", json=train_body({"id": dataset_of(client, job)})).json()["id"]
            set_status(database, busy, "running")
            assert readiness(client, set()).status_code == 200  # the worker is at work
        with database.transaction() as session:
            session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        ready = readiness(client, {"worker", "migrations"})
        assert ready.status_code == 503
        assert "prefsvm migrate" in ready.json()["checks"]["migrations"]["detail"]
