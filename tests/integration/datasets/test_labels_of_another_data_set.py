"""Labels that come from a second data set, joined by keys: real jobs, and what is refused before there is one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from api_support import problem, upload
from sqlalchemy import text
from worker_bench import Bench

from service.blobs.store import BlobStore
from service.db.session import Database
from service.jobs.claims import JobClaims
from service.retention import Keeper
from service.settings import Settings

pytestmark = pytest.mark.usefixtures("read_here")

ROWS = 90
RNG = np.random.default_rng(5)
POSITIVE = RNG.random(ROWS) < 0.5
AGES = np.where(POSITIVE, 60, 30) + RNG.integers(0, 20, ROWS)
KEYS = [f"p{i:03}" for i in RNG.permutation(ROWS)]


def rows_file(header: str = "id,age,job", keys: list[str] = KEYS) -> bytes:
    lines = [f"{key},{age},{('cook', 'clerk')[age % 2]}" for key, age in zip(keys, AGES, strict=True)]
    return "\n".join([header, *lines, ""]).encode()


def labels_file(labelled: int = 60, extra: str = "", header: str = "patient,outcome") -> bytes:
    """The labels of the first rows, in another order, with a row that nobody has and one without a label."""
    lines = [f"{KEYS[i]},{'ill' if POSITIVE[i] else 'well'}" for i in RNG.permutation(labelled)]
    return "\n".join([header, "nobody,ill", f"{KEYS[-1]},", *lines]).encode() + b"\n" + extra.encode()


def body(rows: dict[str, Any], labels: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "dataset": rows["id"],
        "target": "outcome",
        "positive": "ill",
        "key": "id",
        "labels": {"dataset": labels["id"], "key": "patient"},
        "objective": {"kind": "f1"},
        "algorithm": "svm",
    } | changes


def run(client: httpx.Client, trainer: Bench, asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Train as asked; return how the job ended, and what it is."""
    response = client.post("/train", json=asked)
    assert response.status_code == 202, response.text
    ended = trainer.supervisor.run(response.json()["id"])
    return str(ended), client.get(f"/jobs/{response.json()['id']}").json()


def test_rows_get_the_labels_of_their_keys_and_the_rest_is_unlabelled(client: httpx.Client, trainer: Bench) -> None:
    rows, labels = upload(client, rows_file()), upload(client, labels_file(), "labels.csv")
    ended, job = run(client, trainer, body(rows, labels, alias="patients"))
    assert ended == "succeeded", job
    report = client.get(f"/models/{job['model_id']}").json()["report"]
    assert report["rows"] | {"test": 0} == {
        "total": ROWS, "labelled": 60, "positive": int(POSITIVE[:60].sum()), "negative": int((~POSITIVE[:60]).sum()),
        "unlabelled": 30, "test": 0, "dropped": 0,
    }  # fmt: skip
    assert report["labels"] == {
        "labelled": 60, "unmatched": 1, "repeated": 0, "without_key": 0, "rows_without_key": 0, "shared": 0,
    }  # fmt: skip
    assert "labels: 1 labelled key(s) are not in the data set ('nobody')" in report["warnings"]
    # The labels are those of the rows, and not in the order of the second file.
    asked = [{"age": int(age), "job": "cook"} for age in AGES[60:]]
    made = client.post("/predict", json={"model": "patients", "rows": asked}).json()["predictions"]
    assert np.mean([each["label"] == "ill" for each in made] == POSITIVE[60:]) > 0.8

    # A retraining, and a repetition, read both again.
    for path in ("/aliases/patients/retrain", f"/jobs/{job['id']}/retry"):
        again = client.post(path).json()
        assert again["request"]["labels"]["dataset"] == labels["id"]
        assert trainer.supervisor.run(again["id"]) == "succeeded"
        model_id = client.get(f"/jobs/{again['id']}").json()["model_id"]
        same = client.get(f"/models/{model_id}").json()["report"]
        assert same["labels"] == report["labels"]


def test_folding_and_keeping_go_on_from_there(client: httpx.Client, trainer: Bench) -> None:
    rows = upload(client, rows_file())
    labels = upload(client, labels_file(extra=f"{KEYS[0]},{'Ill' if POSITIVE[0] else 'WELL '}\n"), "labels.csv")
    asked = body(rows, labels)
    ended, job = run(client, trainer, asked)
    assert (ended, job["error"]["code"]) == ("failed", "conflicting_labels")
    assert f"{KEYS[0]!r} is" in job["error"]["message"]
    asked["labels"] |= {"fold": True, "keep": 40}
    ended, job = run(client, trainer, asked)
    assert ended == "succeeded", job
    report = client.get(f"/models/{job['model_id']}").json()["report"]
    assert (report["rows"]["labelled"], report["labels"]["labelled"], report["labels"]["repeated"]) == (40, 60, 1)


def test_keys_that_differ_in_their_spelling_meet_nobody(client: httpx.Client, trainer: Bench) -> None:
    rows = upload(client, rows_file(keys=[f"{i:04}" for i in range(ROWS)]))
    lines = "".join(f"{i},{('ill', 'well')[i % 2]}\n" for i in range(ROWS))
    labels = upload(client, f"patient,outcome\n{lines}".encode(), "labels.csv")
    ended, job = run(client, trainer, body(rows, labels))
    assert (ended, job["error"]["code"]) == ("failed", "no_matching_key")
    assert "('0', '1', '2', …)" in job["error"]["message"]
    assert "('0000', '0001', '0002', …)" in job["error"]["message"]
    # Whole numbers are one key however a format holds them.
    rows = upload(client, rows_file(keys=[f"{i}.0" for i in range(ROWS)]))
    ended, job = run(client, trainer, body(rows, labels))
    assert ended == "succeeded", job


def test_mails_have_their_labels_by_file(client: httpx.Client, trainer: Bench) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for i in range(40):
            word = ("prize money", "minutes of the meeting")[i % 2]
            archive.writestr(f"inbox/{i:02}.eml", f"From: a{i}@example.org\nSubject: {word}\n\n{word} number {i}\n")
    mails = upload(client, sink.getvalue(), "mails.zip")
    lines = "".join(f"inbox/{i:02}.eml,{('ill', 'well')[i % 2]}\n" for i in range(30))
    labels = upload(client, f"name,outcome\n{lines}".encode(), "labels.csv")
    asked = body(mails, labels, key="file") | {"labels": {"dataset": labels["id"], "key": "name"}}
    ended, job = run(client, trainer, asked)
    assert ended == "succeeded", job
    model = client.get(f"/models/{job['model_id']}").json()
    assert (model["report"]["rows"]["labelled"], model["report"]["rows"]["unlabelled"]) == (30, 10)
    assert "file" not in {column["name"] for column in model["columns"]}


def test_a_damaged_file_of_labels_is_damage(client: httpx.Client, trainer: Bench, settings: Settings) -> None:
    rows, labels = upload(client, rows_file()), upload(client, labels_file(), "labels.csv")
    with trainer.database.transaction() as session:
        key = session.execute(text("SELECT columnar_key FROM datasets WHERE id = :id"), {"id": labels["id"]}).scalar()
    path = Path(settings.blob_location) / str(key)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    ended, job = run(client, trainer, body(rows, labels))
    assert (ended, job["error"]["code"]) == ("failed", "damaged_dataset")
    assert "of the labels" in job["error"]["message"]


def test_what_cannot_be_joined_is_refused_at_the_call(client: httpx.Client) -> None:
    rows, labels = upload(client, rows_file()), upload(client, labels_file(), "labels.csv")
    sparse = upload(client, b"1 1:1\n-1 2:1\n" * 10, "rows.svmlight")
    few = upload(client, f"patient,outcome\n{KEYS[0]},ill\n{KEYS[1]},well\n{KEYS[2]},well\n".encode(), "few.csv")
    halves = upload(client, b"patient,outcome\n" + b"0.5,ill\n1.5,well\n" * 5, "halves.csv")

    def of(dataset: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"labels": {"dataset": dataset["id"], "key": "patient"} | more}

    for changes, where, said in (
        (of({"id": "ds_nobody"}), "body.labels.dataset", "no such data set"),
        (of({"id": "ds_" + "0" * 32}), "body.labels.dataset", "no such data set"),
        (of(rows), "body.labels.dataset", "is the data set of the rows"),
        (of(sparse), "body.labels.dataset", "sparse rows"),
        ({"dataset": sparse["id"]}, "body.dataset", "sparse rows"),
        ({"key": None}, "body.key", "is required with `labels.dataset`"),
        ({"key": "nobody"}, "body.key", "no such column"),
        (of(labels, key="nobody"), "body.labels.key", "no such column; there are 'patient', 'outcome'"),
        (of(labels, key=None), "body.labels.key", "'id': the data set has no such column"),
        (of(labels, key="outcome"), "body.labels.key", "is the target"),
        (of(halves), "body.labels.key", "cannot be given back"),
        ({"labels": {"key": "patient"}}, "body.labels.key", "needs `labels.dataset`"),
        ({"target": "nobody"}, "body.target", "no such column; there are 'patient', 'outcome'"),
        (
            {"positive": "Ill"},
            "body.positive",
            "no row of the target column has this label; 'ill' differs from it in capitals or blanks only",
        ),
        (of(labels, keep=500), "body.labels.keep", "there are 61 labels"),
        (of(few), "body.positive", "need at least 2 labelled rows of each class, got 2 of 'well', 1 of 'ill'"),
    ):
        for path in ("/train", "/train?dry_run=true"):
            asked = body(rows, labels) | changes
            (error,) = problem(client.post(path, json=asked), 422, "invalid-request")["errors"]
            assert (error["field"], said in error["message"]) == (where, True), error
    # Several rows may share a key: then one label may be that of many.
    shared = upload(client, rows_file(keys=[key[:3] for key in KEYS]))
    taken = client.post("/train?dry_run=true", json=body(shared, few))
    assert taken.status_code == 200, taken.text


def test_a_target_of_the_rows_themselves_is_said_not_to_count(client: httpx.Client, trainer: Bench) -> None:
    content = rows_file(header="id,age,outcome").replace(b",cook", b",ill").replace(b",clerk", b",well")
    rows, labels = upload(client, content), upload(client, labels_file(), "labels.csv")
    ended, job = run(client, trainer, body(rows, labels))
    assert ended == "succeeded", job
    assert f"column 'outcome' of the data set is not used: the labels come from {labels['id']}" in job["warnings"]
    model = client.get(f"/models/{job['model_id']}").json()
    assert [column["name"] for column in model["columns"]] == ["age"]
    assert model["report"]["rows"]["labelled"] == 60


def test_labels_in_use_are_not_deleted(client: httpx.Client, settings: Settings, database: Database) -> None:
    rows, labels = upload(client, rows_file()), upload(client, labels_file(), "labels.csv")
    job = client.post("/train", json=body(rows, labels)).json()
    refused = problem(client.delete(f"/datasets/{labels['id']}"), 409, "dataset-in-use")
    assert job["id"] in refused["detail"]
    problem(client.patch(f"/datasets/{labels['id']}", json={"columns": {"patient": "category"}}), 409, "dataset-used")
    with database.transaction() as session:
        session.execute(text("UPDATE datasets SET created_at = now() - interval '9 days'"))
    blobs = BlobStore(settings.blob_location)
    keeper = Keeper(settings.model_copy(update={"retain_datasets_days": 1}), database, blobs)
    assert keeper.sweep() == {}
    jobs = JobClaims(30.0)
    with database.transaction() as session:
        claim = jobs.claim(session, job["id"])
        assert claim is not None
        assert claim.dataset is not None
        assert claim.labels is not None
        assert (claim.dataset.id, claim.labels.id) == (rows["id"], labels["id"])
    with database.transaction() as session:
        assert jobs.finish_cancelled(session, claim)
    assert client.delete(f"/datasets/{labels['id']}").status_code == 204
    (error,) = problem(client.post(f"/jobs/{job['id']}/retry"), 422, "invalid-request")["errors"]
    assert error["field"] == "body.labels.dataset"
    assert "the data set of the labels of that training, was deleted" in error["message"]
