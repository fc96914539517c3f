"""A column of vectors at each door: upload, training, predict, batch, queue, feedback, exports."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api_support import problem, train_body, upload
from worker_bench import Bench

pytestmark = pytest.mark.usefixtures("read_here")

ROWS, LENGTH = 120, 16
RNG = np.random.default_rng(5)
POSITIVE = RNG.random(ROWS) < 0.5
VECTORS = (RNG.normal(size=(ROWS, LENGTH)) + 4 + np.where(POSITIVE, 0.8, -0.8)[:, None]).astype(np.float32)
AGES = RNG.integers(20, 60, ROWS)
LABELS = [("spam" if positive else "ham") if i < 80 else None for i, positive in enumerate(POSITIVE)]


def parquet_file(vectors: np.ndarray = VECTORS) -> bytes:
    sink = io.BytesIO()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    pq.write_table(pa.table({"vec": lists, "age": AGES, "label": LABELS}), sink)
    return sink.getvalue()


def json_row(i: int, **changes: Any) -> dict[str, Any]:
    return {"vec": VECTORS[i].tolist(), "age": int(AGES[i])} | changes


def trained(client: httpx.Client, trainer: Bench, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/train", json=body)
    assert response.status_code == 202, response.text
    job_id = response.json()["id"]
    assert trainer.supervisor.run(job_id) == "succeeded", client.get(f"/jobs/{job_id}").text
    model: dict[str, Any] = client.get(f"/models/{client.get(f'/jobs/{job_id}').json()['model_id']}").json()
    return model


def test_a_column_of_vectors_at_each_door(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, parquet_file(), "mails.parquet")
    profile = next(column for column in dataset["columns"] if column["name"] == "vec")
    assert (profile["kind"], profile["length"], profile["zero_rows"]) == ("vector", LENGTH, 0)
    assert profile["norm_min"] < profile["norm_mean"] < profile["norm_max"]
    shown = client.get(f"/datasets/{dataset['id']}/rows", params={"limit": 2}).json()["items"]
    assert shown[1]["age"] == AGES[1]
    assert shown[1]["vec"].startswith(f"[{VECTORS[1, 0]:.4g}, {VECTORS[1, 1]:.4g}, ")
    assert shown[1]["vec"].endswith(f", …] ({LENGTH} numbers)")
    assert [each["column"] for each in client.get(f"/datasets/{dataset['id']}/histograms").json()["columns"]] == ["age"]
    body = train_body(dataset, alias="mails", algorithm="svm", objective={"kind": "f1"})
    model = trained(client, trainer, body)
    assert model["columns"] == [
        {"name": "age", "kind": "number", "length": None},
        {"name": "vec", "kind": "vector", "length": LENGTH},
    ]
    rows = [json_row(i) for i in range(ROWS)]
    answer = client.post("/predict", json={"model": "mails", "rows": rows}).json()
    scores = [made["score"] for made in answer["predictions"]]
    assert answer["warnings"] == []
    called = [made["label"] == "spam" for made in answer["predictions"]]
    assert np.mean(np.array(called) == POSITIVE) > 0.9

    inputs = client.get("/v2/models/mails").json()["inputs"]
    assert {"name": "vec", "datatype": "FP32", "shape": [-1, LENGTH]} in inputs
    flat = {"name": "vec", "shape": [2, LENGTH], "datatype": "FP32", "data": VECTORS[:2].ravel().tolist()}
    ages = {"name": "age", "shape": [2], "datatype": "INT64", "data": AGES[:2].tolist()}
    for data in (flat["data"], VECTORS[:2].tolist()):
        inferred = client.post("/v2/models/mails/infer", json={"inputs": [flat | {"data": data}, ages]}).json()
        assert inferred["outputs"][1]["data"] == pytest.approx(scores[:2], abs=1e-12)
    wrong = flat | {"shape": [4, LENGTH // 2]}
    refused = client.post("/v2/models/mails/infer", json={"inputs": [wrong, ages | {"shape": [4], "data": [1] * 4}]})
    assert refused.status_code == 400 or refused.status_code == 422, refused.text
    assert f"[rows, {LENGTH}]" in refused.text

    batch = client.post("/batches", json={"model": "mails", "dataset": dataset["id"], "format": "jsonl"}).json()
    assert trainer.supervisor.run(batch["id"]) == "succeeded"
    lines = client.get(f"/batches/{batch['id']}/result").content.splitlines()
    assert [json.loads(line)["score"] for line in lines] == pytest.approx(scores, abs=1e-12)

    onnx = client.get(f"/models/{model['id']}/export", params={"format": "onnx"}).content
    given = {"vec": VECTORS, "age": AGES[:, None].astype(float)}
    assert onnxruntime.InferenceSession(onnx).run(["score"], given)[0] == pytest.approx(scores, abs=1e-9)
    assert "vec (vector)" in client.get(f"/models/{model['id']}/card").text


def test_vectors_that_do_not_fit_are_refused_by_their_row(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, parquet_file(), "mails.parquet")
    trained(client, trainer, train_body(dataset, alias="mails", algorithm="svm", objective={"kind": "f1"}))
    for vector in (None, 5, "x", [], [1.0] * (LENGTH - 1), [None] * LENGTH, ["1"] * LENGTH, [1e39] * LENGTH):
        bad = client.post("/predict", json={"model": "mails", "rows": [json_row(0), json_row(1, vec=vector)]})
        assert (
            "body.rows.1: column 'vec': expected a list of 16 numbers" in problem(bad, 422, "rows-do-not-fit")["detail"]
        )
    lacking = client.post("/predict", json={"model": "mails", "rows": [{"age": 1}]})
    assert "missing columns: 'vec'" in problem(lacking, 422, "rows-do-not-fit")["detail"]
    shorter = upload(client, parquet_file(VECTORS[:, :5].copy()), "other.parquet")
    numbers = upload(client, b"vec,age\n1,20\n2,30\n", "other.csv")
    for other, held in ((shorter, "vectors of 5 numbers"), (numbers, "single values")):
        batch = client.post("/batches", json={"model": "mails", "dataset": other["id"], "format": "csv"})
        said = problem(batch, 422, "rows-do-not-fit")["detail"]
        assert f"column 'vec' holds {held} there, and vectors of 16 numbers in the model" in said
    far = client.post("/predict", json={"model": "mails", "rows": [json_row(0, vec=[-40.0] * LENGTH)]}).json()
    assert "hold a vector far from those of the training" in far["warnings"][0]
    for changes, said in (
        ({"target": "vec"}, "body.target: the column holds vectors"),
        ({"key": "vec"}, "body.key: the column holds vectors"),
        ({"features": {"kinds": {"vec": "text"}}}, "the column holds vectors, and is nothing else"),
    ):
        refused = client.post("/train", json=train_body(dataset, **changes))
        assert said in problem(refused, 422, "invalid-request")["detail"]
    fresh = upload(client, parquet_file(), "fresh.parquet")
    patched = client.patch(f"/datasets/{fresh['id']}", json={"columns": {"vec": "text"}})
    assert patched.status_code == 422, patched.text
    assert "it holds vectors" in patched.json()["detail"]


def test_the_queue_shows_the_first_numbers_and_takes_its_answers(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, parquet_file(), "mails.parquet")
    body = train_body(dataset, alias="mails", algorithm="svm", objective={"kind": "f1"})
    trained(client, trainer, body)
    items = client.get("/models/mails/queue").json()["items"]
    assert items[0]["content"]["vec"].startswith("[")
    assert items[0]["content"]["vec"].endswith(f"] ({LENGTH} numbers)")
    numbered, sent = items[0]["row"], items[1]["row"]
    for more in (
        {"dataset": dataset["id"], "numbers": [numbered]},
        {"rows": [json_row(sent, vec=[round(float(number), 7) for number in VECTORS[sent]])]},
    ):
        kept = client.post("/feedback", json={"alias": "mails", "labels": ["spam"], **more})
        assert kept.status_code == 201, kept.text
    left = {item["row"] for item in client.get("/models/mails/queue").json()["items"]}
    assert not {numbered, sent} & left, "what was answered is not asked again, also where more digits were sent"
    told = trained(client, trainer, body | {"feedback": True})["report"]["feedback"]
    assert (told["rows"], told["added"], told["refused"]) == (2, 0, [])
    assert told["newly_labelled"] == 2


def test_an_npz_file_of_vectors_and_columns_is_as_one_of_parquet(client: httpx.Client, trainer: Bench) -> None:
    sink = io.BytesIO()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), LENGTH)
    pq.write_table(pa.table({"X": lists, "age": AGES, "label": LABELS}), sink)
    of_parquet = upload(client, sink.getvalue(), "mails.parquet")
    packed = io.BytesIO()
    np.savez_compressed(packed, X=VECTORS, age=AGES, label=np.array([label or "" for label in LABELS]))
    of_npz = upload(client, packed.getvalue(), "mails.npz", options=json.dumps({"vectors": True}))
    assert of_npz["columns"] == of_parquet["columns"]
    models = [
        trained(client, trainer, train_body(dataset, alias=alias, algorithm="svm", objective={"kind": "f1"}))
        for alias, dataset in (("parquet", of_parquet), ("npz", of_npz))
    ]
    assert models[0]["sha256"] == models[1]["sha256"]
    batch = client.post("/batches", json={"model": "parquet", "dataset": of_npz["id"], "format": "jsonl"}).json()
    assert trainer.supervisor.run(batch["id"]) == "succeeded"
    lines = client.get(f"/batches/{batch['id']}/result").content.splitlines()
    rows = [{"X": VECTORS[i].tolist(), "age": int(AGES[i])} for i in range(ROWS)]
    made = client.post("/predict", json={"model": "npz", "rows": rows}).json()["predictions"]
    assert [json.loads(line)["score"] for line in lines] == pytest.approx([each["score"] for each in made], abs=1e-12)
