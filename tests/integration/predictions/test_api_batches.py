"""Batches end to end: accepted by the API, predicted by a child of the worker, downloaded."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api_support import blob_files, problem, store_dataset, store_model, tiny_model, train_body, upload
from sqlalchemy import text
from worker_bench import Bench

from service.blobs.store import BlobStore
from service.db.session import Database
from service.db.tables import JobRow, ModelChunkRow
from service.identifiers import new_id
from service.orphans import OrphanSweeper
from service.settings import Settings
from solver.evaluation import Sigmoid
from solver.features import Column, Table
from solver.model_file import Model

pytestmark = pytest.mark.usefixtures("read_here")

ROWS = 40_000  # more than two blocks
CSV = "age,job,town\n" + "".join(f"{20 + i % 50},{('clerk', 'cook', 'king')[i % 3]},x\n" for i in range(ROWS))


def formula_model() -> Model:
    """A model whose positive label would do harm in a spreadsheet."""
    model = tiny_model()
    decision = dataclasses.replace(model.decision, probability=Sigmoid(2.0, 0.5))
    return dataclasses.replace(model, classes=("-1", "=cmd|'/c calc'!A1"), decision=decision)


def expected() -> tuple[list[str], list[float], list[float]]:
    ages = np.array([20.0 + i % 50 for i in range(ROWS)])
    jobs = np.array([("clerk", "cook", "king")[i % 3] for i in range(ROWS)], dtype=object)
    made = formula_model().predict(Table({"age": Column("age", "number", ages), "job": Column("job", "text", jobs)}))
    assert made.probabilities is not None
    return made.labels, made.scores.tolist(), made.probabilities.tolist()


def test_a_batch_gives_what_the_model_says_in_every_format(
    client: httpx.Client, bench: Bench, settings: Settings, database: Database, tmp_path: Path
) -> None:
    dataset = upload(client, CSV.encode())
    model_id = store_model(database, tmp_path, formula_model())
    labels, scores, probabilities = expected()
    for form in ("csv", "parquet", "jsonl"):
        response = client.post("/batches", json={"model": model_id, "dataset": dataset["id"], "format": form})
        assert response.status_code == 202, response.text
        batch = response.json()
        assert response.headers["location"] == f"/batches/{batch['id']}"
        assert (batch["status"], batch["model"], batch["result"]) == ("queued", model_id, None)
        problem(client.get(f"/batches/{batch['id']}/result"), 409, "batch-not-finished")
        assert bench.supervisor.run(batch["id"]) == "succeeded"

        done = client.get(f"/batches/{batch['id']}").json()
        assert (done["status"], done["progress"], done["error"]) == ("succeeded", 1.0, None)
        assert done["result"]["rows"] == ROWS
        assert done["result"]["labels"] == {label: labels.count(label) for label in set(labels)}
        decision = formula_model().decision
        assert done["result"]["threshold_probability"] == decision.probability(decision.threshold)
        assert done["result"]["warnings"] == [
            f"column 'job': {ROWS // 3} row(s) hold a category that training never saw"
        ]
        progress = [event.data for event in bench.events(batch["id"]) if event.kind == "progress"]
        assert all(0 <= step.get("progress", 0) <= 1 for step in progress)
        got = client.get(f"/batches/{batch['id']}/result")
        assert got.status_code == 200
        assert got.headers["content-disposition"] == f'attachment; filename="{batch["id"]}.{form}"'
        assert hashlib.sha256(got.content).hexdigest() == done["result"]["sha256"]
        assert len(got.content) == done["result"]["bytes"]
        if form == "parquet":
            table = pq.read_table(io.BytesIO(got.content)).to_pydict()
            made = [(row, label, score) for row, label, score in zip(*list(table.values())[:3], strict=True)]
            assert table["probability"] == probabilities
        elif form == "jsonl":
            lines = [json.loads(line) for line in got.text.splitlines()]
            made = [(line["row"], line["label"], line["score"]) for line in lines]
            assert [line["probability"] for line in lines] == probabilities
        else:
            lines = list(csv.DictReader(io.StringIO(got.text)))
            made = [(int(line["row"]), line["label"], float(line["score"])) for line in lines]
            # Neutral in a spreadsheet; a negative number is no formula.
            assert {label for _, label, _ in made} == {"-1", "'=cmd|'/c calc'!A1"}
            made = [(row, label.removeprefix("'"), score) for row, label, score in made]
        assert made == list(zip(range(ROWS), labels, scores, strict=True))
    page = client.get("/batches", params={"limit": 2}).json()
    assert len(page["items"]) == 2
    rest = client.get("/batches", params={"cursor": page["next_cursor"]}).json()
    assert (len(rest["items"]), rest["next_cursor"]) == (1, None)
    assert client.get("/jobs").json()["items"] == []
    problem(client.get(f"/jobs/{batch['id']}"), 404, "job-not-found")
    for path in [name for name in blob_files(settings) if name.startswith("batches/")]:
        (Path(settings.blob_location) / path).unlink()
    problem(client.get(f"/batches/{batch['id']}/result"), 410, "result-gone")


def test_alias_and_threshold_are_those_of_the_time_of_asking(
    client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    dataset = upload(client)
    first, second = (store_model(database, tmp_path) for _ in range(2))
    client.put("/aliases/spam-filter", json={"model": first}).raise_for_status()
    body = {"model": "spam-filter", "dataset": dataset["id"]}
    headers = {"Idempotency-Key": "once"}
    batch = client.post("/batches", json=body, headers=headers).json()
    assert (batch["model"], batch["format"], batch["threshold"]) == (first, "csv", None)
    client.put("/aliases/spam-filter", json={"model": second}).raise_for_status()
    assert bench.supervisor.run(batch["id"]) == "succeeded"
    again = client.post("/batches", json=body, headers=headers)
    assert again.json() == batch  # as it was accepted
    problem(client.post("/batches", json={**body, "format": "jsonl"}, headers=headers), 409, "idempotency-conflict")
    with database.transaction() as session:
        job = session.get_one(JobRow, batch["id"])
        job.request = {**job.request, "threshold": -1e9}
        job.status, job.finished_at, job.result, job.max_attempts = "queued", None, None, 2
    assert bench.supervisor.run(batch["id"]) == "succeeded"
    result = client.get(f"/batches/{batch['id']}").json()
    assert result["result"]["labels"] == {"spam": 60}
    assert result["threshold"] == -1e9


def test_the_shadow_of_an_alias_decides_on_the_rows_of_a_batch_too(
    client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    dataset = upload(client, CSV.encode())
    model, shadow = (store_model(database, tmp_path, tiny_model(threshold=threshold)) for threshold in (0.25, -1e9))
    client.put("/aliases/spam-filter", json={"model": model, "shadow": shadow}).raise_for_status()

    def labels_of(name: str) -> dict[str, int]:
        batch = client.post("/batches", json={"model": name, "dataset": dataset["id"]}).json()
        assert bench.supervisor.run(batch["id"]) == "succeeded"
        return client.get(f"/batches/{batch['id']}").json()["result"]["labels"]

    def compared() -> tuple[int, int, dict[tuple[str, str], int], int, int]:
        shown = client.get("/aliases/spam-filter/shadow").json()
        pairs = {(pair["label"], pair["shadow_label"]): pair["rows"] for pair in shown["pairs"]}
        return shown["rows"], shown["disagreements"], pairs, shown["dropped"], shown["failed"]

    said = labels_of("spam-filter")
    assert 0 < said["ham"] < ROWS
    pairs = {("ham", "spam"): said["ham"], ("spam", "spam"): said["spam"]}
    assert compared() == (ROWS, said["ham"], pairs, 0, 0)
    # By the id of the model nobody asks for the alias, and so for its shadow.
    assert labels_of(model) == said
    assert compared() == (ROWS, said["ham"], pairs, 0, 0)
    # Whatever is wrong with a shadow does not concern the batch.
    with database.transaction() as session:
        chunk = session.get_one(ModelChunkRow, (shadow, 0))
        chunk.data = chunk.data[::-1]
    assert labels_of("spam-filter") == said
    assert compared() == (ROWS, said["ham"], pairs, 0, ROWS)


def test_what_cannot_be_predicted_is_refused_or_fails_with_its_reason(
    client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    model_id = store_model(database, tmp_path)
    lacking = upload(client, b"age,height\n1,2\n3,4\n")
    other = upload(client, b"age,job\n" + b"30,clerk\n" * 17_000 + b"young,cook\n")  # of the second block
    body = {"model": model_id, "dataset": other["id"]}
    refused = problem(client.post("/batches", json={**body, "dataset": lacking["id"]}), 422, "rows-do-not-fit")
    assert refused["errors"] == [{"field": "body.dataset", "message": "missing columns: 'job'"}]
    unknown = problem(client.post("/batches", json={"model": "nobody", "dataset": "ds_1"}), 422, "invalid-request")
    assert [error["field"] for error in unknown["errors"]] == ["body.model", "body.dataset"]
    problem(client.post("/batches", json={**body, "format": "xlsx"}), 422, "invalid-request")
    batch = client.post("/batches", json=body).json()
    assert bench.supervisor.run(batch["id"]) == "failed"
    failed = client.get(f"/batches/{batch['id']}").json()
    assert failed["error"]["code"] == "rows_do_not_fit"
    assert "row 17001 of the data set, column 'age': expected a finite number" in failed["error"]["message"]
    problem(client.get(f"/batches/{batch['id']}/result"), 409, "batch-not-finished")

    batch = client.post("/batches", json=body).json()
    assert client.delete(f"/models/{model_id}").status_code == 204
    assert bench.supervisor.run(batch["id"]) == "failed"
    assert client.get(f"/batches/{batch['id']}").json()["error"]["code"] == "model_not_found"
    problem(client.post(f"/batches/{batch['id']}/cancel"), 409, "batch-finished")


def test_a_model_whose_header_lies_below_a_right_checksum_is_told_as_damage(
    client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    model_id = store_model(database, tmp_path)
    body = {"model": model_id, "dataset": upload(client)["id"]}
    batch = client.post("/batches", json=body).json()
    with database.transaction() as session:
        chunks = session.execute(
            text("SELECT seq, data FROM model_chunks WHERE model_id = :id ORDER BY seq"), {"id": model_id}
        ).all()
        sent = b"".join(bytes(data) for _, data in chunks)
        lying = sent[:8] + b"?" * 40 + sent[48:]
        begin = 0
        for seq, data in chunks:
            session.execute(
                text("UPDATE model_chunks SET data = :data WHERE model_id = :id AND seq = :seq"),
                {"data": lying[begin : begin + len(data)], "id": model_id, "seq": seq},
            )
            begin += len(data)
        session.execute(
            text("UPDATE models SET sha256 = :sha256 WHERE id = :id"),
            {"sha256": hashlib.sha256(lying).hexdigest(), "id": model_id},
        )
    assert bench.supervisor.run(batch["id"]) == "failed", "at once, for it will not mend"
    assert client.get(f"/batches/{batch['id']}").json()["error"]["code"] == "damaged_model"


def test_cancel_and_what_a_lost_attempt_left(
    client: httpx.Client, bench: Bench, settings: Settings, database: Database, tmp_path: Path
) -> None:
    dataset = upload(client)
    body = {"model": store_model(database, tmp_path), "dataset": dataset["id"]}
    batch = client.post("/batches", json=body).json()
    for _ in range(2):
        cancelled = client.post(f"/batches/{batch['id']}/cancel")
        assert (cancelled.status_code, cancelled.json()["status"]) == (202, "cancelled")
    assert bench.supervisor.run(batch["id"]) is None

    batch = client.post("/batches", json=body).json()
    assert bench.supervisor.run(batch["id"]) == "succeeded"
    blobs = BlobStore(settings.blob_location)
    with blobs.writer(f"batches/{new_id('blob')}") as left:
        left.write(b"of an attempt that was lost before it could say so")
    OrphanSweeper(database, blobs, older_than_seconds=-60.0).sweep()
    (kept,) = [name for name in blob_files(settings) if name.startswith("batches/")]
    with database.transaction() as session:
        assert session.get_one(JobRow, batch["id"]).result["blob_key"] == kept
    # A training is no batch.
    job = client.post("/train", json=train_body(store_dataset(database))).json()
    for call in (client.get(f"/batches/{job['id']}"), client.post(f"/batches/{job['id']}/cancel")):
        problem(call, 404, "batch-not-found")


def test_a_file_is_read_as_the_model_reads_it(client: httpx.Client, trainer: Bench) -> None:
    lines = [
        f"{'1.234,05' if i % 2 else '1,25'};{('1.10', '1E5', '-')[i % 3]};{i % 7} %;{('spam', 'ham')[i % 2]}"
        for i in range(60)
    ]
    options = {"decimal": ",", "thousands": ".", "columns": {"code": "category"}}
    dataset = upload(client, "\n".join(["x;code;share;label", *lines, ""]).encode(), options=json.dumps(options))
    answer = client.post("/train", json=train_body(dataset, alias="mails", objective={"kind": "f1"}))
    assert answer.status_code == 202, answer.text
    assert trainer.supervisor.run(answer.json()["id"]) == "succeeded", client.get(answer.headers["location"]).text

    rows = [{"x": x, "code": code, "share": "3 %"} for x in ("1.234", "5.678", "8.900") for code in ("1.10", "1.1")]
    said = client.post("/predict", json={"model": "mails", "rows": rows}).json()["predictions"]
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    files = {
        "a.csv": "\n".join(["x,code,share", *(",".join(row.values()) for row in rows), ""]).encode(),
        "a.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "a.parquet": parquet.getvalue(),
    }
    for name, content in files.items():
        body = {"model": "mails", "dataset": upload(client, content, name)["id"], "format": "jsonl"}
        batch = client.post("/batches", json=body).json()
        assert trainer.supervisor.run(batch["id"]) == "succeeded", client.get(f"/batches/{batch['id']}").text
        made = [json.loads(line) for line in client.get(f"/batches/{batch['id']}/result").text.splitlines()]
        assert [each["score"] for each in made] == [each["score"] for each in said], name
