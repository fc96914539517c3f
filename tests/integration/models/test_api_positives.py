"""Positive and unlabelled rows alone, from the upload to the proof: the same answer at every door."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
from api_support import problem, train_body, upload
from typer.testing import CliRunner
from worker_bench import Bench, wait_for

import prefsvm
from service.cli.main import app
from service.db.session import Database
from service.settings import Settings
from solver.model_file import read_model
from solver.refusals import NO_ABSTAINING

pytestmark = pytest.mark.usefixtures("read_here")

ROWS, LABELLED = 600, 80
RNG = np.random.default_rng(0)
POSITIVE = RNG.random(ROWS) < 0.4
AGES = np.round(RNG.normal(30, 6, ROWS) + 25 * POSITIVE, 2)
MARKED = set(np.flatnonzero(POSITIVE)[:LABELLED].tolist())
MEASURED = len({(AGES[row], row % 2) for row in MARKED})  # of rows that are the same, one
SHARE = float(POSITIVE[[row not in MARKED for row in range(ROWS)]].mean())
PRECISION = {"kind": "precision", "target": 0.8}


def table(marked: set[int] = MARKED, rows: int = ROWS) -> bytes:
    lines = [f"{AGES[i]},{('clerk', 'cook')[i % 2]},{'spam' if i in marked else ''}" for i in range(rows)]
    return ("age,job,label\n" + "\n".join(lines) + "\n").encode()


def body(dataset: dict[str, Any], **changes: Any) -> dict[str, Any]:
    asked = {"algorithm": "auto", "params": {"positive_share": SHARE}, "objective": PRECISION}
    return train_body(dataset, **(asked | changes))


@pytest.fixture
def trainer(settings: Settings, database: Database) -> Iterator[Bench]:
    bench = Bench(settings, database, runner="worker.fit")
    wait_for(lambda: bench.spares.is_warm, 120)
    yield bench
    bench.close()


def test_from_a_training_to_a_proof(client: httpx.Client, bench: Bench, trainer: Bench) -> None:
    """In one test, as each would have to wait for a worker."""
    dataset = upload(client, table())
    job = client.post("/train", json=body(dataset, alias="finder"))
    assert job.status_code == 202, job.text
    assert trainer.supervisor.run(job.json()["id"]) == "succeeded"
    model = str(client.get(f"/jobs/{job.json()['id']}").json()["model_id"])
    every_door_says_the_same(client, bench, model)
    reports_say_what_is_known(client, model)
    an_audit_proves_it(client, bench, model, dataset)
    another_threshold_is_applied(client, model)
    a_first_negative_row_is_learned(client, trainer, dataset)


def test_what_is_said_before_a_training(client: httpx.Client) -> None:
    dataset = upload(client, table())
    for algorithm in ("auto", "biased-svm", "bayesian-sets", "spy-em", "roc-svm"):
        answer = client.post("/train?dry_run=true", json=body(dataset, algorithm=algorithm))
        assert answer.status_code == 200, answer.text
        assert any(said.startswith("no negative row is labelled") for said in answer.json()["warnings"])
    answer = client.post("/train?dry_run=true", json=body(dataset, params={"positive_share": 0.01}))
    assert any("among the unlabelled rows only" in said for said in answer.json()["warnings"])

    def refused(wanted: dict[str, Any]) -> tuple[str, str]:
        told = problem(client.post("/train", json=wanted), 422, "invalid-request")
        return told["errors"][0]["field"], told["errors"][0]["message"]

    one, every = upload(client, table({5}, 40)), upload(client, table(set(range(40)), 40))
    assert refused(body(one)) == ("body.positive", "need at least 2 labelled positive rows, got 1 of 'spam'")
    field, said = refused(body(every))
    assert (field, "add rows without a label" in said) == ("body.target", True)
    field, said = refused(body(dataset, algorithm="svm", params={}))
    assert (field, "learn from positive and unlabelled rows alone" in said) == ("body.target", True)
    for share in (0, 1, "0.3"):
        assert refused(body(dataset, params={"positive_share": share}))[0] == "body.params.positive_share"
    assert refused(body(dataset, objective={"kind": "f1", "abstain": {"precision": 0.9}}))[0].startswith(
        "body.objective"
    )
    assert refused(body(dataset, labels={"keep": 10}))[0] == "body.labels.keep"


def test_labels_of_another_file_may_be_positive_ones_alone(client: httpx.Client) -> None:
    """The most natural list of all: the keys of what is looked for."""
    rows = upload(client, ("id,age\n" + "".join(f"r{i:03d},{AGES[i]}\n" for i in range(ROWS))).encode())
    found = upload(client, ("id,label\n" + "".join(f"r{i:03d},spam\n" for i in sorted(MARKED))).encode())
    wanted = body(rows, key="id", labels={"dataset": found["id"]})
    answer = client.post("/train?dry_run=true", json=wanted)
    assert answer.status_code == 200, answer.text
    assert any(said.startswith("no negative row is labelled") for said in answer.json()["warnings"])
    assert not any("among the unlabelled rows only" in said for said in answer.json()["warnings"])


def every_door_says_the_same(client: httpx.Client, bench: Bench, model: str) -> None:
    ages = [float(age) for age in range(15, 70, 3)]
    rows = [{"age": age, "job": "cook"} for age in ages]
    answer = client.post("/predict", json={"model": model, "rows": rows}).json()
    said = [each["label"] for each in answer["predictions"]]
    assert {*said} == {"spam", "not spam"}
    assert {each["probability"] for each in answer["predictions"]} == {None}

    inputs = [{"name": "age", "shape": [len(ages)], "datatype": "FP64", "data": ages},
              {"name": "job", "shape": [len(ages)], "datatype": "BYTES", "data": ["cook"] * len(ages)}]  # fmt: skip
    assert client.post(f"/v2/models/{model}/infer", json={"inputs": inputs}).json()["outputs"][0]["data"] == said
    exported = client.get(f"/models/{model}/export?format=onnx").content
    feed = {"age": [[age] for age in ages], "job": [["cook"]] * len(ages)}
    assert onnxruntime.InferenceSession(exported).run(["label"], feed)[0].tolist() == said
    assert read_model(client.get(f"/models/{model}/export").content).predict_rows(rows)[0].labels == said
    few = upload(client, ("age,job\n" + "".join(f"{age},cook\n" for age in ages)).encode())
    batch = client.post("/batches", json={"model": model, "dataset": few["id"], "format": "csv"}).json()
    assert bench.supervisor.run(batch["id"]) == "succeeded"
    result = client.get(f"/batches/{batch['id']}/result").text
    assert [line["label"] for line in csv.DictReader(io.StringIO(result))] == said
    url = str(client.base_url)
    with prefsvm.Client(url) as connected:
        assert [each.label for each in connected.predict(model, rows)] == said


def reports_say_what_is_known(client: httpx.Client, model: str) -> None:
    url = str(client.base_url)
    shown = client.get(f"/models/{model}").json()
    report, told = shown["report"], shown["report"]["positives_only"]
    assert (report["calibration"], report["test"], report["rows"]["negative"]) == (None, None, 0)
    assert (told["share"]["value"], told["share_given"], told["positives"]) == (pytest.approx(SHARE), True, MEASURED)
    assert "curve" not in told
    assert shown["promise"]["level"] in ("likely", "open")
    rest = [row for row in range(ROWS) if row not in MARKED]
    unlabelled = [{"age": float(AGES[row]), "job": ("clerk", "cook")[row % 2]} for row in rest]
    called = client.post("/predict", json={"model": model, "rows": unlabelled}).json()["predictions"]
    truth = POSITIVE[rest][[each["label"] == "spam" for each in called]]
    assert told["precision"]["low"] - 0.03 <= truth.mean() <= told["precision"]["high"]
    assert "left out" in client.get(f"/models/{model}/card").text
    assert "Recall, of left-out positive rows" in client.get(f"/models/{model}/report.html").text
    printed = CliRunner().invoke(app, ["models", model, "--url", url]).stdout
    assert "Recall, of left-out positive rows" in printed
    assert "prefsvm audit" in printed
    assert client.get(f"/models/{model}/drift").status_code == 200
    assert client.get(f"/models/{model}/queue", params={"n": 5}).json()["items"]
    page = client.get(f"/ui/models/{model}")
    assert page.status_code == 200
    assert "What is known without a negative row" in page.text
    # Of neither is anything known: how far a score lies from those of labelled rows, and which labels look wrong.
    assert "Unlike the training" not in page.text
    assert f"/ui/models/{model}/mistakes" not in page.text
    for raw in ("cannot_certify", "preference_unmet", "`met`"):
        assert raw not in client.get(f"/models/{model}/card").text
    for path in ("curves/pr", "thresholds"):
        problem(client.get(f"/models/{model}/{path}"), 404, "no-curve")
    assert client.get("/models").json()["items"][0]["promise"] == shown["promise"]


def another_threshold_is_applied(client: httpx.Client, model: str) -> None:
    recall = {"kind": "recall", "target": 0.95}
    point = client.post(f"/models/{model}/operating-points", json={"objective": recall, "apply": True})
    assert point.status_code == 200, point.text
    assert point.json()["promise"]["level"] in ("likely", "open")
    applied = client.get(f"/models/{model}").json()
    assert applied["threshold"] == point.json()["threshold"]
    assert applied["promise"] == point.json()["promise"]
    assert client.get("/models").json()["items"][0]["promise"] == applied["promise"]
    undecided = {"kind": "recall", "target": 0.95, "abstain": {"precision": 0.9}}
    told = problem(
        client.post(f"/models/{model}/operating-points", json={"objective": undecided}), 422, "invalid-request"
    )
    assert told["errors"] == [{"field": "body.objective.abstain", "message": NO_ABSTAINING}]


def an_audit_proves_it(client: httpx.Client, bench: Bench, model: str, dataset: dict[str, Any]) -> None:
    asked = {"model": model, "dataset": dataset["id"], "objective": {"kind": "precision", "target": 0.8}}
    audit = client.post("/audits", json=asked).json()
    assert bench.supervisor.run(audit["job"]) == "succeeded"
    items = client.get(f"/audits/{audit['id']}/next", params={"n": 100}).json()["items"]
    rows = [item["row"] for item in items]
    assert not MARKED & {*rows}
    labels = ["spam" if POSITIVE[row] else "not spam" for row in rows]
    told = client.post(f"/audits/{audit['id']}/labels", json={"rows": rows, "labels": labels}).json()
    assert told["status"] == "proven", told["verdict"]
    assert client.get(f"/models/{model}").json()["proven_by"] == audit["id"]


def a_first_negative_row_is_learned(client: httpx.Client, trainer: Bench, dataset: dict[str, Any]) -> None:
    wrong = {"age": 61.5, "job": "cook"}
    sent = {"alias": "finder", "rows": [wrong], "labels": ["not spam"]}
    assert client.post("/feedback", json=sent).status_code in (200, 201, 202)
    job = client.post("/train", json=body(dataset, alias="finder", alias_policy="always")).json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"
    report = client.get("/models/finder").json()["report"]
    assert (report["rows"]["negative"], report["feedback"]["added"]) == (1, 1)
    assert report["positives_only"] is not None
    assert any(said.startswith("1 negative row(s) are labelled, too few") for said in report["warnings"])
