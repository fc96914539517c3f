"""Three classes, end to end: asked for, told, decided by at every door, trained again; and what there is not."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import pytest
from api_support import problem, upload
from typer.testing import CliRunner
from worker_bench import Bench

import prefsvm
from service.cli.main import app
from service.db.session import Database
from solver.model_file import read_any_model

pytestmark = pytest.mark.usefixtures("read_here")

ROWS, LABELLED = 210, 150
RNG = np.random.default_rng(0)
CLASSES = ("apple", "=pear", "plum <b>")
"""One that a spreadsheet would take for a formula, and one that a page must escape."""
CODES = RNG.integers(0, 3, ROWS)
CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
X = (RNG.normal(size=(ROWS, 2)) + CENTRES[CODES]).round(3)
JOBS = np.array(["clerk", "cook"])[(X[:, 0] > 0).astype(int)]


def as_csv(labels: list[str]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["age", "width", "job", "kind"])
    writer.writerows([*X[i].tolist(), JOBS[i], labels[i]] for i in range(ROWS))
    return out.getvalue().encode()


DATA = as_csv([CLASSES[CODES[i]] if i < LABELLED else "" for i in range(ROWS)])
ITEMS = [{"age": float(a), "width": float(w), "job": str(j)} for (a, w), j in zip(X, JOBS, strict=True)]


def body(dataset: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "dataset": dataset["id"],
        "target": "kind",
        "objective": {"kind": "macro_f1"},
        "algorithm": "svm",
        "scheme": "one_vs_rest",
    } | changes


def trained(client: httpx.Client, trainer: Bench, asked: dict[str, Any]) -> dict[str, Any]:
    """The model of a training that succeeds."""
    answer = client.post("/train", json=asked)
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert trainer.supervisor.run(job["id"]) == "succeeded", client.get(f"/jobs/{job['id']}").text
    return made_by(client, job["id"])


def made_by(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """The model of a job."""
    model_id = client.get(f"/jobs/{job_id}").json()["model_id"]
    found: dict[str, Any] = client.get(f"/models/{model_id}").json()
    return found


@dataclass
class Place:
    """A model with floors, which leaves rows undecided, and its data set."""

    client: httpx.Client
    trainer: Bench
    dataset: dict[str, Any]
    model: dict[str, Any]

    def predicted(self) -> list[dict[str, Any]]:
        answer = self.client.post("/predict", json={"model": "fruit", "rows": ITEMS})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["predictions"]
        return found


AUDITED = {"kind": "precision", "target": 0.9}
FLOORS = {"apple": {"precision": 0.99}, "=pear": {"precision": 0.99}, "plum <b>": {"precision": 0.99}}
OBJECTIVE = {"kind": "macro_f1", "floors": FLOORS}


@pytest.fixture
def place(client: httpx.Client, trainer: Bench, database: Database) -> Place:
    dataset = upload(client, DATA)
    asked = body(dataset, objective=OBJECTIVE, alias="fruit")
    return Place(client, trainer, dataset, trained(client, trainer, asked))


def test_asked_for_told_and_decided_by_the_same_at_every_door(place: Place, bench: Bench) -> None:
    client, model = place.client, place.model
    report = model["report"]
    assert (model["threshold"], model["aliases"]) == (None, ["fruit"])
    assert report["classes"] == sorted(CLASSES)
    assert report["rows"]["by_class"] == [int(np.sum(CODES[:LABELLED] == CLASSES.index(c))) for c in sorted(CLASSES)]
    assert report["test"]["n"] == report["rows"]["test"] > 20
    assert report["refit"]["labelled"] == LABELLED
    calibration = report["calibration"]
    assert sum(map(sum, calibration["confusion"])) == calibration["n"] == LABELLED
    assert set(report["controls"]) == {"majority", "plain_svm"}
    majority = report["controls"]["majority"]["calibration"]["macro_f1"]["value"]
    assert majority < calibration["macro_f1"]["low"] <= calibration["macro_f1"]["value"]
    assert "nothing is proven" in model["promise"]["sentence"]
    assert model["promise"]["bounds"]["macro_f1"] == calibration["macro_f1"]["low"]
    (listed,) = client.get("/models").json()["items"]
    assert (listed["objective"], listed["status"]) == (report["objective"], report["status"])

    made = place.predicted()
    said = [each["label"] for each in made]
    assert {*said} == {*CLASSES, None}
    decided = [i for i, label in enumerate(said) if label is not None]
    assert np.mean([said[i] == CLASSES[CODES[i]] for i in decided]) > 0.9
    for each in made:
        assert sum(each["probabilities"].values()) == pytest.approx(1)
        assert set(each["scores"]) == set(CLASSES)
        if each["label"] is not None:
            assert each["probability"] == each["probabilities"][each["label"]]

    # one row says the same alone, in tensors, in the file, in batches, at the command line and in Python
    alone = client.post("/predict", json={"model": "fruit", "rows": ITEMS[:1]}).json()["predictions"][0]
    assert alone["label"] == made[0]["label"]
    assert alone["probabilities"] == pytest.approx(made[0]["probabilities"])
    answer = client.post("/v2/models/fruit/infer", json={"inputs": tensors(ITEMS)})
    assert answer.status_code == 200, answer.text
    outputs = {each["name"]: each for each in answer.json()["outputs"]}
    assert outputs["label"]["data"] == [label or "" for label in said]
    assert outputs["probabilities"]["shape"] == [ROWS, 3]
    names = json.loads(answer.json()["parameters"]["classes"])
    assert outputs["probabilities"]["data"][:3] == pytest.approx([made[0]["probabilities"][name] for name in names])
    described = client.get("/v2/models/fruit").json()["outputs"]
    assert {each["name"]: each["shape"] for each in described} == {
        **{name: [-1] for name in ("label", "score", "probability")},
        **{name: [-1, 3] for name in ("scores", "probabilities")},
    }
    raw = client.get("/models/fruit/export").content
    assert read_any_model(raw).predict_rows(ITEMS)[0].labels == said
    _batches(place, bench, made)
    _onnx(client, made)
    _python(place, said)
    _command_line(place, made)


def _batches(place: Place, bench: Bench, made: list[dict[str, Any]]) -> None:
    client = place.client
    for form in ("csv", "parquet", "jsonl"):
        asked = {"model": "fruit", "dataset": place.dataset["id"], "format": form}
        batch = client.post("/batches", json=asked).json()
        assert bench.supervisor.run(batch["id"]) == "succeeded", client.get(f"/batches/{batch['id']}").text
        told = client.get(f"/batches/{batch['id']}").json()["result"]
        assert told["threshold"] is None
        assert told["undecided"] == sum(each["label"] is None for each in made)
        content = client.get(f"/batches/{batch['id']}/result").content
        if form == "jsonl":
            rows = [json.loads(line) for line in content.splitlines()]
            assert [row["label"] for row in rows] == [each["label"] for each in made]
            assert rows[0]["probabilities"] == pytest.approx(made[0]["probabilities"])
            assert rows[0]["scores"] == pytest.approx(made[0]["scores"])
            continue
        if form == "parquet":
            rows = pq.read_table(io.BytesIO(content)).to_pylist()
            assert [row["label"] for row in rows] == [each["label"] for each in made]
        else:
            rows = list(csv.DictReader(io.StringIO(content.decode())))
            assert {row["label"] for row in rows} == {"apple", "'=pear", "plum <b>", ""}
        for name in CLASSES:
            assert float(rows[5][f"probability.{name}"]) == pytest.approx(made[5]["probabilities"][name])


def _onnx(client: httpx.Client, made: list[dict[str, Any]]) -> None:
    answer = client.get("/models/fruit/export", params={"format": "onnx"})
    assert answer.status_code == 200, answer.text
    session = onnxruntime.InferenceSession(answer.content, providers=["CPUExecutionProvider"])
    given = {
        "age": X[:, :1],
        "width": X[:, 1:],
        "job": JOBS.astype(object)[:, None],
    }
    label, _, probabilities = session.run(["label", "scores", "probabilities"], given)
    assert [each or None for each in label.tolist()] == [each["label"] for each in made]
    names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert probabilities[3] == pytest.approx([made[3]["probabilities"][name] for name in names])


def _python(place: Place, said: list[str | None]) -> None:
    with prefsvm.Client(str(place.client.base_url)) as opened:
        shown = opened.model("fruit")
        assert (shown.threshold, shown.report["classes"]) == (None, sorted(CLASSES))
        assert [each.label for each in opened.predict("fruit", ITEMS)] == said


def _command_line(place: Place, made: list[dict[str, Any]]) -> None:
    environment = {"PREFSVM_URL": str(place.client.base_url), "COLUMNS": "200"}

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments, env=environment)
        assert done.exit_code == 0, done.output
        return done.output

    told = run("models", "fruit")
    assert not re.search(r"objective .*(: met|preference_unmet)", told)
    assert "macro-F1" in told
    assert "nothing is proven" in told
    assert all(name in told for name in CLASSES)
    assert "fruit" in run("models")


def test_what_there_is_not_says_so_in_one_sentence(place: Place) -> None:
    client, dataset = place.client, place.dataset["id"]
    refused = [
        client.get("/models/fruit/thresholds"),
        client.post("/audits", json={"model": "fruit", "dataset": dataset, "objective": AUDITED}),
    ]
    for each in refused:
        said = problem(each, 422, "several-classes")["detail"]
        assert "several classes" in said
        assert said.count(". ") == 0
    libsvm = client.get("/models/fruit/export", params={"format": "libsvm"})
    assert "onnx" in problem(libsvm, 422, "not-exportable")["detail"]
    assert client.get("/models/fruit/operating-points").json()["items"] == []
    card = client.get("/models/fruit/card")
    assert card.status_code == 200
    assert "plum \\<b\\>" in card.text
    assert "| undecided |" in card.text


def test_each_prediction_says_why_it_is_not_the_next_class(place: Place, tmp_path: Path) -> None:
    client = place.client
    answer = client.post("/predict", json={"model": "fruit", "rows": ITEMS[:40], "explain": 2})
    assert answer.status_code == 200, answer.text
    for told, plain in zip(answer.json()["predictions"], place.predicted(), strict=False):
        why = told.pop("explanation")
        assert told == plain  # the decision stays as it is
        assert told["label"] in (None, why["said"])
        assert why["against"] != why["said"]
        assert why["margin"] == pytest.approx(told["scores"][why["said"]] - told["scores"][why["against"]])
        assert 1 <= len(why["weights"]) <= 2
        assert {weight["column"] for weight in why["weights"]} <= {"age", "width", "job"}
    explained = {"id": "1", "parameters": {"explain": 2}, "inputs": tensors(ITEMS[:1])}
    outputs = {each["name"]: each for each in client.post("/v2/models/fruit/infer", json=explained).json()["outputs"]}
    first = answer.json()["predictions"][0]["explanation"]
    assert json.loads(outputs["explanation"]["data"][0])["against"] == first["against"]
    with prefsvm.Client(str(client.base_url)) as opened:
        (told,) = opened.predict("fruit", ITEMS[:1], explain=2)
    assert told.explanation is not None
    assert told.explanation["weights"] == first["weights"]
    rows, answers = tmp_path / "rows.csv", tmp_path / "answers.csv"
    rows.write_bytes(b"".join(DATA.splitlines(keepends=True)[:2]))
    environment = {"PREFSVM_URL": str(client.base_url)}
    asked = ["predict", "fruit", str(rows), "--explain", "2", "--out", str(answers)]
    made = CliRunner().invoke(app, asked, env=environment)
    assert f"{first['said']}, not {first['against']}: " in answers.read_text(), made.output


def test_each_class_has_its_curves(place: Place) -> None:
    client, (first, *_) = place.client, place.model["report"]["calibration"]["classes"]
    assert first["label"] == "=pear"
    assert "curves" not in place.model["report"]
    asked = {"class": "=pear"}
    for kind in ("pr", "roc", "cost"):
        curve = client.get(f"/models/fruit/curves/{kind}", params=asked).json()
        assert (curve["kind"], curve["positive"], curve["threshold"]) == (kind, "=pear", None)
        assert all(0 < here["threshold"] > there["threshold"] for here, there in itertools.pairwise(curve["points"]))
        measured = curve["calibration"]
        assert measured["true_positives"] + measured["false_positives"] == first["said"]
        assert measured["precision"] == first["precision"]
        assert measured["n"] == LABELLED
    points = client.get("/models/fruit/curves/pr", params=asked).json()["points"]
    assert (points[-1]["recall"], points[-1]["precision"]) == (1, first["rows"] / LABELLED)
    picture = client.get("/models/fruit/curves/pr", params=asked, headers={"Accept": "image/svg+xml"})
    assert "positive: =pear" in picture.text
    for asked in ({}, {"class": "cherry"}):
        assert errors(client.get("/models/fruit/curves/pr", params=asked)) == ["query.class"]
    page = client.get("/ui/models/fruit", params={"class": "plum <b>"})
    assert '<option value="plum &lt;b&gt;" selected>' in page.text
    assert 'class="plot"' in page.text
    environment = {"PREFSVM_URL": str(client.base_url)}
    told = CliRunner().invoke(app, ["curve", "fruit", "roc", "--class", "apple"], env=environment)
    assert json.loads(told.output)["positive"] == "apple"


def test_pages_show_what_there_is(place: Place) -> None:
    client = place.client
    page = client.get("/ui/models/fruit")
    assert page.status_code == 200, page.text
    for shown in ("Confusion matrix", "plum &lt;b&gt;", "=pear", "nothing is proven", "undecided"):
        assert shown in page.text
    for hidden in ("plum <b>", "Move along the curve", "Prove it", "LIBSVM"):
        assert hidden not in page.text
    report = client.get("/models/fruit/report.html")
    assert "sandbox" in report.headers["Content-Security-Policy"]
    assert report.text.count('class="plot"') == 2
    assert "plum &lt;b&gt;" in report.text
    assert not any(hidden in report.text for hidden in ("plum <b>", "<script", "http://", "https://"))
    job = place.model["job_id"]
    for path in ("/ui/models", f"/ui/jobs/{job}", "/ui/jobs", "/ui"):
        assert client.get(path).status_code == 200, path
    label = client.get("/ui/models/fruit/label")
    assert "Label rows for fruit" in label.text
    assert 'data-key="3"><bdi>plum &lt;b&gt;</bdi>' in label.text
    assert "Begin an audit" not in label.text


def test_a_row_is_tried_on_its_page(place: Place) -> None:
    made = place.predicted()
    undecided = next(place for place, each in enumerate(made) if each["label"] is None)
    decided = next(place for place, each in enumerate(made) if each["label"] == "plum <b>")
    for row in (undecided, decided):
        page = place.client.get("/ui/models/fruit/try", params={"dataset": place.dataset["id"], "row": row})
        assert page.status_code == 200, page.text
        text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page.text))
        assert ("Undecided row" if row == undecided else "plum &lt;b&gt; row") in text
        assert "plum <b>" not in page.text
        said = max(made[row]["probabilities"], key=made[row]["probabilities"].__getitem__)
        assert f"{100 * made[row]['probabilities'][said]:.1f}".removesuffix(".0") + "%" in text
        assert "By how much its lead over" in text
    assert 'ui/models/fruit/try"' in place.client.get("/ui/models/fruit").text


def test_corrected_and_trained_again(place: Place) -> None:
    client = place.client
    wrong = {"alias": "fruit", "rows": ITEMS[:1], "labels": ["cherry"]}
    assert "'apple'" in problem(client.post("/feedback", json=wrong), 422, "feedback-does-not-fit")["detail"]
    sent = {"alias": "fruit", "rows": ITEMS[150:160], "labels": [CLASSES[code] for code in CODES[150:160]]}
    assert client.post("/feedback", json=sent).status_code == 201
    again = client.post("/aliases/fruit/retrain").json()
    assert place.trainer.supervisor.run(again["id"]) == "succeeded", client.get(f"/jobs/{again['id']}").text
    newer = made_by(client, again["id"])
    report = newer["report"]
    assert report["feedback"]["rows"] == 10
    assert report["rows"]["labelled"] == LABELLED + 10
    assert report["calibration"]["n"] == LABELLED  # what somebody has looked at is learned from, and not measured on
    told = report["succession"]
    assert (told["moved"], told["model"]) == (True, place.model["id"])
    # a model of two under the same name is followed, and so is one of several after it
    two = body(place.dataset, objective={"kind": "f1"}, positive="apple", alias="fruit", scheme=None)
    assert trained(client, place.trainer, two)["report"]["succession"]["moved"]
    assert client.get("/models/fruit").json()["threshold"] is not None
    assert trained(client, place.trainer, body(place.dataset, alias="fruit"))["report"]["succession"]["moved"]
    assert client.get("/models/fruit").json()["threshold"] is None


def tensors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "shape": [len(rows)], "datatype": kind, "data": [row[name] for row in rows]}
        for name, kind in (("age", "FP64"), ("width", "FP64"), ("job", "BYTES"))
    ]


def errors(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [each["field"] for each in answer.json()["errors"]]


def test_what_cannot_be_trained_is_refused_before_there_is_a_job(client: httpx.Client) -> None:
    dataset = upload(client, DATA)
    good = body(dataset)
    dry = client.post("/train?dry_run=true", json=good | {"scheme": None}).json()
    assert dry["request"]["scheme"] == "one_vs_one"
    assert "3 problems of two classes" in dry["estimate"]["how"]
    for field, change in {
        "body.objective": {"objective": {"kind": "macro_f1", "floors": {"cherry": {"precision": 0.9}}}},
        "body.positive": {"objective": {"kind": "f1"}, "scheme": None},
        "body.scheme": {"objective": {"kind": "f1"}, "positive": "apple"},
        "body.operating_point": {"operating_point": {"kind": "f1"}},
        "body.labels.keep": {"labels": {"keep": 40}},
        "body.params.labeled_split": {"params": {"labeled_split": "part"}},
    }.items():
        assert errors(client.post("/train", json=good | change)) == [field]
    assert errors(client.post("/train", json=good | {"positive": "apple", "scheme": None})) == ["body.objective"]
    twice = {"kind": "macro_f1", "floors": {"apple": {"precision": 0.9}, "APPLE": {"precision": 0.5}}}
    assert errors(client.post("/train", json=good | {"labels": {"fold": True}, "objective": twice})) == [
        "body.objective"
    ]
    costs = {"kind": "cost", "costs": {"apple": {"=pear": 5}}, "false_negative": 1}
    assert errors(client.post("/train", json=good | {"objective": costs})) == ["body.objective.cost.false_negative"]
    few = upload(client, as_csv([CLASSES[code] if code else "" for code in CODES]))
    (said,) = client.post("/train", json=body(few)).json()["errors"]
    assert (said["field"], "there are 2" in said["message"]) == ("body.objective", True)
    alone = upload(client, as_csv(["apple", "plum", *("abc"[i % 3] for i in range(ROWS - 2))]))
    assert errors(client.post("/train", json=body(alone))) == ["body.target"]


@pytest.mark.parametrize("classes", [100, 101])
def test_a_hundred_classes_are_the_most(client: httpx.Client, classes: int) -> None:
    rows = "".join(f"{i % 7},kind {i % classes}\n" for i in range(4 * classes))
    dataset = upload(client, f"age,kind\n{rows}".encode())
    answer = client.post("/train?dry_run=true", json=body(dataset, scheme="one_vs_one"))
    if classes > 100:
        assert errors(answer) == ["body.target"]
        assert "at most 100 classes" in answer.json()["detail"]
        return
    assert answer.status_code == 200, answer.text
    assert "4,950 problems" in answer.json()["estimate"]["how"]
    slow = client.post("/train?dry_run=true", json=body(dataset, scheme="one_vs_one", max_seconds=0.5))
    assert errors(slow) == ["body.target"]
    assert "classes of such rows would do" in slow.json()["detail"]
