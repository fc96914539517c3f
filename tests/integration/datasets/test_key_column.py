"""The key of the rows: no feature, and it comes back at each door as it was written."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from api_support import api_client, problem, train_body, upload
from sqlalchemy import select
from worker_bench import Bench

from service.db.session import Database
from service.db.tables import FeedbackRow
from service.settings import Settings

pytestmark = pytest.mark.usefixtures("read_here")

ROWS = 80
RNG = np.random.default_rng(3)
POSITIVE = RNG.random(ROWS) < 0.5
AGES = np.where(POSITIVE, 50, 30) + RNG.integers(0, 20, ROWS)
KEYS = [f"{i:03}" for i in RNG.permutation(ROWS)]
KEYS[5], KEYS[6], KEYS[7] = "=1+1", 'a "b", c', "\u00e4 \u4e2d"


def csv_file(keys: list[str], *, labels: bool = True) -> bytes:
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(["id", "age", "job", *(["label"] if labels else [])])
    for key, age, positive in zip(keys, AGES, POSITIVE, strict=True):
        label = [("spam" if positive else "ham")] if labels else []
        writer.writerow([key, age, "cook" if age % 2 else "clerk", *label])
    return made.getvalue().encode()


def trained(client: httpx.Client, trainer: Bench, **changes: Any) -> dict[str, Any]:
    """Train as asked, and return the job."""
    body = {"algorithm": "svm", "objective": {"kind": "f1"}, **changes}
    response = client.post("/train", json=body)
    assert response.status_code == 202, response.text
    assert trainer.supervisor.run(response.json()["id"]) == "succeeded", client.get(
        f"/jobs/{response.json()['id']}"
    ).text
    job: dict[str, Any] = client.get(f"/jobs/{response.json()['id']}").json()
    return job


def test_the_key_is_no_feature_and_comes_back_unaltered(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, csv_file(KEYS))
    job = trained(client, trainer, **train_body(dataset, key="id", alias="mails", objective={"kind": "f1"}))
    model = client.get(f"/models/{job['model_id']}").json()
    assert [column["name"] for column in model["columns"]] == ["age", "job"]
    assert model["report"]["excluded"] == [{"name": "id", "reason": "is the key, which names the rows"}]
    assert not [said for said in (*job["warnings"], *model["report"]["warnings"]) if "'id'" in said]

    rows: list[dict[str, Any]] = [
        {"age": 30, "job": "cook", "id": "007"},
        {"age": 30, "job": "cook", " id ": 7},
        {"age": 30, "job": "cook", "id": None},
        {"age": 30, "job": "cook"},
    ]
    answer = client.post("/predict", json={"model": "mails", "rows": rows}).json()
    assert [made.get("key", "none") for made in answer["predictions"]] == ["007", 7, None, "none"]
    assert answer["warnings"] == []
    for bad in (True, 12345678901234567890123, ["a"], {}):
        refused = client.post("/predict", json={"model": "mails", "rows": [rows[0], rows[0] | {"id": bad}]})
        assert "body.rows.1: column 'id'" in problem(refused, 422, "rows-do-not-fit")["detail"]
    tensors = [
        {"name": "age", "shape": [1], "datatype": "FP64", "data": [30]},
        {"name": "job", "shape": [1], "datatype": "BYTES", "data": ["cook"]},
        {"name": "id", "shape": [1], "datatype": "FP64", "data": [7]},
    ]
    inferred = client.post("/v2/models/mails/infer", json={"inputs": tensors}).json()
    assert "warnings" not in inferred["parameters"]
    assert inferred["outputs"][0]["data"] == [answer["predictions"][0]["label"]]


def results(client: httpx.Client, bench: Bench, dataset: dict[str, Any], form: str) -> tuple[list[str], list[Any]]:
    """Predict a data set, and return the columns of the result and the keys."""
    body = {"model": "mails", "dataset": dataset["id"], "format": form}
    batch = client.post("/batches", json=body).json()
    assert bench.supervisor.run(batch["id"]) == "succeeded"
    content = client.get(f"/batches/{batch['id']}/result").content
    if form == "parquet":
        table = pq.read_table(io.BytesIO(content))
        return table.column_names, table.to_pydict().get("id", [])
    if form == "jsonl":
        lines = [json.loads(line) for line in content.splitlines()]
    else:
        lines = list(csv.DictReader(io.StringIO(content.decode())))
    return list(lines[0]), [line.get("id") for line in lines]


def test_batches_give_the_key_back(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, csv_file(KEYS))
    trained(client, trainer, **train_body(dataset, key="id", alias="mails", objective={"kind": "f1"}))
    fields = ["label", "score", "probability"]
    numbers = upload(client, csv_file([str(9 * i) for i in range(ROWS - 1)] + [""], labels=False))
    without = upload(client, b"age,job\n30,cook\n50,clerk\n")
    for form in ("csv", "parquet", "jsonl"):
        assert results(client, trainer, dataset, form) == (["row", "id", *fields], KEYS)
        columns, keys = results(client, trainer, numbers, form)
        assert columns == ["row", "id", *fields]
        assert keys == [*(str(9 * i) for i in range(ROWS - 1)), "" if form == "csv" else None]
        assert results(client, trainer, without, form)[0] == ["row", *fields]
    halves = upload(client, csv_file([f"{i}.5" for i in range(ROWS)]))
    batch = client.post("/batches", json={"model": "mails", "dataset": halves["id"], "format": "csv"}).json()
    assert trainer.supervisor.run(batch["id"]) == "failed"
    error = client.get(f"/batches/{batch['id']}").json()["error"]
    assert error["code"] == "inexact_key"
    assert '{"columns": {"id": "category"}}' in error["message"]


def test_what_cannot_be_the_key_is_refused(client: httpx.Client) -> None:
    dataset = upload(client, csv_file([f"{i}.5" for i in range(ROWS)]))
    for changes, where, said in (
        ({"key": "nobody"}, "body.key", "no such column; there are 'id', 'age', 'job', 'label'"),
        ({"key": "label"}, "body.key", "is the target"),
        ({"key": "id"}, "body.key", "cannot be given back"),
        ({"key": "job", "features": {"include": ["job", "age"]}}, "body.features", "'job' is the key"),
        ({"key": "job", "features": {"kinds": {"job": "text"}}}, "body.features", "'job' is the key"),
        ({"key": "age", "features": {"exclude": ["job", "id"]}}, "body.features", "leave no column"),
    ):
        body = {"objective": {"kind": "f1"}, "features": {}, **changes}
        refused = problem(client.post("/train", json=train_body(dataset, **body)), 422, "invalid-request")
        (error,) = refused["errors"]
        assert error["field"] == where
        assert said in error["message"]
    named = upload(client, csv_file(KEYS).replace(b"id,", b"row,", 1))
    refused = problem(client.post("/train", json=train_body(named, key="row")), 422, "invalid-request")
    assert "upload it under another name" in refused["errors"][0]["message"]


def test_identifiers_and_the_file_of_mails_may_be_keys(client: httpx.Client) -> None:
    dataset = upload(client, csv_file([str(i) for i in range(ROWS)]))
    assert next(column for column in dataset["columns"] if column["name"] == "id")["identifier"]
    taken = client.post("/train?dry_run=true", json=train_body(dataset, key="id"))
    assert (taken.status_code, taken.json()["warnings"]) == (200, [])
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for i in range(8):
            folder = "spam" if i % 2 else "ham"
            archive.writestr(f"{folder}/{i}.eml", f"From: a@example.org\nSubject: {i}\n\nbody of {folder} {i}\n")
    mails = upload(client, sink.getvalue(), "mails.zip")
    taken = client.post("/train?dry_run=true", json=train_body(mails, key="file"))
    assert taken.status_code == 200, taken.text
    assert taken.json()["request"]["key"] == "file"


def test_feedback_names_rows_by_data_set_and_key(client: httpx.Client, trainer: Bench, database: Database) -> None:
    trained(client, trainer, **train_body(upload(client, csv_file(KEYS)), key="id", alias="mails"))
    queue = upload(client, csv_file([f"q{i}" for i in range(ROWS)], labels=False))
    body = {"alias": "mails", "dataset": queue["id"], "keys": ["q3", "q1"], "labels": ["spam", "ham"]}
    made = client.post("/feedback", json=body)
    assert made.status_code == 201, made.text
    assert (made.json()["rows"], made.json()["labels"]) == (2, {"ham": 1, "spam": 1})
    first = made.json()["id"]
    numbered = upload(client, csv_file([str(i) for i in range(ROWS)], labels=False))
    assert client.post("/feedback", json=body | {"dataset": numbered["id"], "keys": [0, "1"]}).status_code == 201
    job = client.post("/aliases/mails/retrain").json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"
    report = client.get("/models/mails").json()["report"]["feedback"]
    assert (report["rows"], report["refused"]) == (4, [])
    # no row of the queue is new to the data set but for its key: each has the values of one or more rows of it
    assert (report["added"], report["superseded"]) == (0, 4 - len({(AGES[i], AGES[i] % 2) for i in (0, 1, 3)}))
    by_number = {**body, "keys": None, "numbers": [3, 1, 3], "labels": ["spam", "ham", "spam"], "drawn": "random"}
    made = client.post("/feedback", json=by_number)
    assert made.status_code == 201, made.text
    with database.transaction() as session:
        by_key, numbered = (json.loads(session.get(FeedbackRow, each).content) for each in (first, made.json()["id"]))
    assert numbered["rows"] == [by_key["rows"][0], by_key["rows"][1], by_key["rows"][0]]
    assert (by_key.get("drawn"), numbered["drawn"], numbered["meant"]) == (None, "random", by_key["meant"])

    twice = upload(client, csv_file(["a", *KEYS[1:-1], "a"], labels=False))
    lacking = upload(client, b"id,age\na,1\nb,2\n")
    for changes, field, said in (
        ({"keys": ["q1", "none"]}, "body.keys.1", "no row of this key"),
        ({"dataset": twice["id"], "keys": ["a", KEYS[1]]}, "body.keys.0", "2 rows of this key"),
        ({"dataset": lacking["id"]}, "body.dataset", "'job'"),
        ({"keys": None, "numbers": [0, ROWS]}, "body.numbers.1", f"has {ROWS} rows"),
        ({"keys": None, "numbers": [0, 0]}, "body.numbers.1", "one label for each number"),
        ({"keys": None, "numbers": [0, 1], "dataset": lacking["id"]}, "body.dataset", "'job'"),
        ({"dataset": "ds_1"}, "body.dataset", "no such data set"),
        ({"dataset": None}, "body.dataset", "give both or none"),
        ({"keys": None, "rows": [{"age": 1, "job": "cook"}] * 2}, "body.dataset", "give both or none"),
    ):
        refused = client.post("/feedback", json={**body, **changes})
        assert refused.status_code == 422, refused.text
        assert any(each["field"] == field and said in each["message"] for each in refused.json()["errors"]), (
            refused.text
        )


def test_two_labels_for_one_key_are_refused(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, csv_file(KEYS))
    trained(client, trainer, **train_body(dataset, key="id", alias="mails"))
    body = {"alias": "mails", "dataset": dataset["id"]}
    for keys, labels, named in (
        (["001", "002", "001"], ["spam", "ham", "ham"], "'001'"),
        ([KEYS[7], "a\u0308 \u4e2d"], ["spam", "ham"], repr(KEYS[7])),  # composed and decomposed
    ):
        refused = problem(
            client.post("/feedback", json=body | {"keys": keys, "labels": labels}), 422, "invalid-request"
        )
        (error,) = refused["errors"]
        assert error["field"] == f"body.keys.{len(keys) - 1}"
        assert f"the key {named} has label 'ham' here and 'spam' in body.keys.0" in error["message"]
    assert client.get("/feedback").json()["items"] == []
    agreeing = body | {"keys": ["001", "001"], "labels": ["spam", "spam"]}
    assert client.post("/feedback", json=agreeing).status_code == 201
    # rows name nobody: two people of one age and job may well have different labels
    rows = [{"age": 30, "job": "cook"}] * 2
    assert client.post("/feedback", json={"alias": "mails", "rows": rows, "labels": ["spam", "ham"]}).status_code == 201


def test_keys_are_those_of_the_data_set_that_is_named(client: httpx.Client, trainer: Bench, database: Database) -> None:
    """01 is a key of a data set of texts, and that row is meant, never row 1, whatever the training's keys are."""
    numbers = upload(client, csv_file([str(i) for i in range(ROWS)]))
    trained(client, trainer, **train_body(numbers, key="id", alias="mails"))
    queue = upload(client, b"id,age,job\n01,31,cook\n1,52,clerk\n")
    assert next(column for column in queue["columns"] if column["name"] == "id")["kind"] == "category"
    body = {"alias": "mails", "dataset": queue["id"], "labels": ["spam"]}
    for key, row in (
        ("01", {"age": 31, "job": "cook"}),
        ("1", {"age": 52, "job": "clerk"}),
        (1, {"age": 52, "job": "clerk"}),
    ):
        assert client.post("/feedback", json=body | {"keys": [key]}).status_code == 201
        with database.transaction() as session:
            content = session.scalars(select(FeedbackRow.content).order_by(FeedbackRow.seq.desc())).first()
        assert json.loads(content or b"")["rows"] == [row]
    refused = client.post("/feedback", json=body | {"dataset": numbers["id"], "keys": ["01"]})
    assert problem(refused, 422, "feedback-does-not-fit")["errors"][0] == {
        "field": "body.keys.0",
        "message": "the data set has no row of this key, and needs one",
    }
    report = client.get("/models/mails").json()["report"]
    assert report["feedback"] is None
    job = client.post("/aliases/mails/retrain").json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"
    learned = client.get("/models/mails").json()["report"]["feedback"]
    # 31, cook and 52, clerk: rows with these values, whatever their keys are, as the page on feedback says
    same = sum((age, age % 2) in ((31, 1), (52, 0)) for age in AGES.tolist())
    assert learned["refused"] == []
    assert learned["added"] + learned["relabelled"] + learned["confirmed"] == max(
        2, same + sum(each not in [(age, age % 2) for age in AGES.tolist()] for each in ((31, 1), (52, 0)))
    )


def test_what_is_no_key_is_named_by_its_place(client: httpx.Client) -> None:
    body = {"alias": "mails", "dataset": "ds_1", "labels": ["spam", "ham"]}
    for bad in ([], 1.5, 2**60, "x" * 10_001, None, True):
        refused = problem(client.post("/feedback", json=body | {"keys": ["a", bad]}), 422, "invalid-request")
        expected = "expected a text of at most 10,000 characters, or a whole number from -2**53 to 2**53"
        assert refused["errors"] == [{"field": "body.keys.1", "message": expected}]
    rows = {"alias": "mails", "rows": [{"age": 1}, {"age": ["1"]}], "labels": ["spam", "ham"]}
    refused = problem(client.post("/feedback", json=rows), 422, "invalid-request")
    assert refused["errors"] == [
        {"field": "body.rows.1.age", "message": "expected a text, a number, true, false, null or a list of numbers"}
    ]


def test_few_keys_cannot_ask_for_very_much(settings: Settings, database: Database, trainer: Bench) -> None:
    """A row is kept with all its columns: a kilobyte of keys may stand for gigabytes."""
    with api_client(settings, max_body_bytes=100_000) as client:
        dataset = upload(client, csv_file([f"k{i}" for i in range(ROWS)]))
        trained(client, trainer, **train_body(dataset, key="id", alias="mails"))
        texts = b"id,age,job\n" + b"".join(b"k%d,30,%s\n" % (i, b"cook" * 2000) for i in range(50))
        wordy = upload(client, texts)
        body = {"alias": "mails", "dataset": wordy["id"], "labels": ["spam"] * 50}
        refused = problem(
            client.post("/feedback", json=body | {"keys": [f"k{i}" for i in range(50)]}), 422, "feedback-does-not-fit"
        )
        assert "too large to take 50 of them at once; name fewer keys" in refused["errors"][0]["message"]
        few = body | {"keys": ["k1"], "labels": ["spam"]}
        assert client.post("/feedback", json=few).status_code == 201
        many = body | {"keys": ["k1"] * 3000, "labels": ["spam"] * 3000}
        refused = problem(client.post("/feedback", json=many), 422, "feedback-does-not-fit")
        assert refused["errors"][0]["field"] == "body.keys"
        assert "at most 1" in refused["errors"][0]["message"]
