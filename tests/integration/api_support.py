"""Helpers of the API tests: a client on the real application, and rows that only a worker would write."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import shared_templates  # noqa: F401 (what it does it does when it is imported)
import uvicorn
from database_roles import as_api
from lazy_routes import create_lazy_app
from sqlalchemy import text

from service.app import server_config
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, DatasetRow, ModelChunkRow, ModelRow
from service.identifiers import new_id
from service.ingest import child, run
from service.settings import Settings
from solver.decision import DecisionState
from solver.features import Column, Encoder, Table, TableFeatures
from solver.model_file import Model, write_model
from solver.training import TrainingRequest, train

CERTIFICATES = httpx.create_ssl_context()
"""Nobody asks for them here, and reading them for each client takes .05 s."""
CSV = b"age,job,label\n" + b"".join(
    f"{20 + i % 40},{('clerk', 'cook')[i % 2]},{('spam', 'ham', '')[i % 3]}\n".encode() for i in range(60)
)


def problem(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """Check that an answer is this problem, whole, and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"urn:prefsvm:problem:{kind}"
    assert body["status"] == status
    assert body["request_id"] == response.headers["x-request-id"]
    return body


@contextmanager
def api_client(settings: Settings, **changes: Any) -> Iterator[httpx.Client]:
    """Serve the application as in production, on a free port of this machine, and yield a client of it."""
    app = create_lazy_app(settings.model_copy(update=({} if "database_url" in changes else as_api(settings)) | changes))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(server_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            host, port = listener.getsockname()
            with httpx.Client(
                base_url=f"http://{host}:{port}", timeout=30, trust_env=False, verify=CERTIFICATES
            ) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(40)
            assert not thread.is_alive()


@contextmanager
def api_process(
    settings: Settings, log: Path, descriptors: int | None = None
) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """Run ``python -m service.app``, with so many file descriptors at most, and yield a client once it answers."""
    limit = [] if descriptors is None else ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = os.environ | {
        **{f"PREFSVM_{name.upper()}": url for name, url in as_api(settings).items()},
        "PREFSVM_BROKER_URL": str(settings.broker_url),
        "PREFSVM_DATA_DIR": str(settings.data_dir),
        "PREFSVM_PORT": str(port),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*limit, sys.executable, "-m", "service.app"], env=environment, stdout=out, stderr=out
        )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False, verify=CERTIFICATES
        ) as client:
            deadline = time.monotonic() + 180  # on a busy machine
            while True:
                try:
                    client.get("/healthz")
                    break
                except httpx.TransportError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            yield client, process
    finally:
        process.kill()
        process.wait()


def reading_here(patch: pytest.MonkeyPatch) -> None:
    """Have this process read what is uploaded.

    To start a reader takes more processor time than most of what a test of a data set does. Readers that are processes
    have tests of their own: ``datasets/test_api_uploads.py``, and ``test_ingest_child.py`` in ``unit/service/ingest``.
    """

    async def read(request: bytes, seconds: float) -> bytes:
        answer = await asyncio.to_thread(child._answer, json.loads(request))
        return json.dumps(answer, allow_nan=False).encode()

    patch.setattr(run, "_run_child", read)


def upload(client: httpx.Client, content: bytes = CSV, name: str = "mails.csv", **fields: str) -> dict[str, Any]:
    """Upload a file and return the data set."""
    response = client.post("/datasets", files={"file": (name, content)}, data=fields)
    assert response.status_code == 201, response.text
    return response.json()


def store_dataset(database: Database, name: str = "mails.csv", project_id: str = DEFAULT_PROJECT) -> dict[str, Any]:
    """Insert the data set that an upload of `CSV` makes, without its bytes, and return its id and name."""
    made = {"id": new_id("ds"), "name": name}
    columns = [
        {"name": "age", "kind": "number", "missing": 0, "distinct": 60, "min": 20.0, "max": 79.0},
        {"name": "job", "kind": "category", "missing": 0, "distinct": 2},
        {"name": "label", "kind": "category", "missing": 20, "distinct": 2, "values": {"ham": 20, "spam": 20}},
    ]
    with database.transaction() as session:
        session.add(
            DatasetRow(
                **made,
                project_id=project_id,
                format="csv",
                layout="table",
                bytes=len(CSV),
                sha256=hashlib.sha256(CSV).hexdigest(),
                rows=60,
                columns=columns,
                warnings=[],
                blob_key=f"uploads/{new_id('blob')}",
                columnar_key=f"columnar/{new_id('blob')}",
            )
        )
    return made


def train_body(dataset: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a good body of POST /train."""
    return {
        "dataset": dataset["id"],
        "target": "label",
        "positive": "spam",
        "objective": {"kind": "recall", "target": 0.9},
        "algorithm": "svm",
        "params": {"C": 10},
    } | changes


SPAM = "claim your prize money now, click this offer"
HAM = "see you at the meeting about the report"


def text_model(names: tuple[str, ...], encoder: Encoder | None = None) -> Model:
    """Train a model that tells `SPAM` from `HAM` by texts in these columns, `body` and maybe `subject`."""
    pairs = [
        [{"subject": text.split(",")[0], "body": f"{text} {i % 7} times"} for text in (SPAM, HAM)] for i in range(20)
    ]
    rows = [row for pair in pairs for row in pair]
    columns = {name: Column(name, "text", np.array([row[name] for row in rows], dtype=object)) for name in names}
    labels = np.array(["spam", "ham"] * 20, dtype=object)
    request = TrainingRequest(positive="spam", kinds=dict.fromkeys(names, "text"), encoder=encoder)
    return train(Table(columns), labels, request).model


def tiny_model(threshold: float = 0.25) -> Model:
    """Return a model on the columns age (a number) and job (a category) whose score grows with age."""
    rows = Table(
        {
            "age": Column("age", "number", np.array([20.0, 30, 40, 50])),
            "job": Column("job", "text", np.array(["clerk", "cook", "clerk", "cook"], dtype=object)),
        }
    )
    features = TableFeatures().fit(rows)
    X, _ = features.transform(rows)
    decision = DecisionState(
        kind="linear",
        gamma=1.0,
        degree=3,
        coef0=0.0,
        support_vectors=np.asarray(X),
        dual_coef=np.array([-1.0, -0.5, 0.5, 1.0]),
        intercept=0.0,
        threshold=threshold,
    )
    return Model("svm", {"C": 1.0}, {"kind": "f1"}, ("ham", "spam"), decision, features)


def estimate(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.1, "high": value}


def measures() -> dict[str, Any]:
    return {
        "n": 10,
        "true_positives": 4,
        "false_positives": 1,
        "true_negatives": 5,
        "false_negatives": 0,
        "precision": estimate(0.8),
        "recall": estimate(1.0),
        "f1": estimate(0.89),
        "false_positive_rate": {"value": 1 / 6, "low": 0.1, "high": 0.3},
        "cost": None,
        "confidence": 0.95,
    }


def report(threshold: float = 0.25) -> dict[str, Any]:
    """Return a report as workers write them."""
    return {
        "algorithm": "svm",
        "params": {"C": 1.0},
        "objective": {"kind": "f1"},
        "status": "met",
        "status_reason": "",
        "threshold": threshold,
        "classes": {"negative": "ham", "positive": "spam"},
        "rows": {"total": 10, "labelled": 10, "positive": 4, "negative": 6, "unlabelled": 0, "test": 0, "dropped": 0},
        "calibration": measures(),
        "test": None,
        "controls": {"plain_svm": {"threshold": 0.0, "calibration": measures(), "test": None}},
        "rounds": [],
        "curve": {
            "thresholds": [2.0, 0.25, -2.0],
            "true_positives": [0, 4, 4],
            "false_positives": [0, 1, 6],
            "positives": 4,
            "negatives": 6,
        },
        "solver": {"gap": 1e-4, "iterations": 12, "status": "optimal"},
        "timings": {"reading": 0.1, "training": 0.2},
        "peak_memory_bytes": 1 << 26,
        "warnings": [],
    }


def store_model(
    database: Database,
    folder: Path,
    model: Model | None = None,
    job_id: str | None = None,
    project_id: str = DEFAULT_PROJECT,
) -> str:
    """Write a model as a worker does, and return its id."""
    model = model or tiny_model()
    path = folder / f"{new_id('blob')}.model"
    write_model(path, model)
    raw = path.read_bytes()
    model_id = new_id("mdl")
    with database.transaction() as session:
        session.add(
            ModelRow(
                id=model_id,
                project_id=project_id,
                job_id=job_id,
                algorithm=model.algorithm,
                manifest=model.manifest,
                report=report(model.decision.threshold) | {"columns": model.columns},
                bytes=len(raw),
                sha256=hashlib.sha256(raw).hexdigest(),
            )
        )
        session.flush()
        # Pieces of odd size: the reader must not rely on 1 MiB.
        for seq, start in enumerate(range(0, len(raw), 1000)):
            session.add(ModelChunkRow(model_id=model_id, seq=seq, data=raw[start : start + 1000]))
    return model_id


def set_status(database: Database, job_id: str, status: str) -> None:
    """Move a job as a worker would."""
    lease = "now() + interval '1 minute'" if status == "running" else "NULL"
    finished = "NULL" if status in ("queued", "running") else "now()"
    with database.transaction() as session:
        session.execute(
            text(
                f"UPDATE jobs SET status = :status, attempt = 1, started_at = now(), lease_until = {lease}, "
                f"finished_at = {finished} WHERE id = :id"
            ),
            {"status": status, "id": job_id},
        )


def blob_files(settings: Settings) -> list[str]:
    """Return every file below the blob store, finished or not."""
    root = Path(settings.blob_location)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def counts(database: Database, *tables: str) -> list[int]:
    """Return the number of rows of each table."""
    with database.transaction() as session:
        return [session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in tables]
