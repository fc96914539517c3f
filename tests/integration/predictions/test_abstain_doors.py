"""A model that leaves rows undecided says the same of a row at every door."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import onnx
import onnxruntime
import pandas as pd
import pyarrow.parquet as pq
import pytest
from api_support import api_client, problem, report, store_model, tiny_model, upload
from sqlalchemy import text
from typer.testing import CliRunner
from worker_bench import Bench, wait_for

import prefsvm
from service.cli.main import app
from service.db.session import Database
from service.predictions import shadow as shadow_module
from service.predictions import usage as usage_module
from service.settings import Settings
from solver.band import Band
from solver.evaluation import Sigmoid
from solver.evaluation.probability import told_band
from solver.model_file import Model, read_model

pytestmark = pytest.mark.usefixtures("read_here")

SIGMOID = Sigmoid(2.0, -1.0)
BAND = Band(-0.7, 0.6)
AGES = range(20, 51)
ROWS = [{"age": age, "job": "cook"} for age in AGES]
OBJECTIVE = {"kind": "f1", "abstain": {"precision": 0.9}}
CHOSEN = {
    **{"precision": 0.9, "lower": BAND.lower, "upper": BAND.upper, "rows": 10},
    "positive": {"label": "spam", "rows": 3, "right": 3, "reason": None},
    "negative": {"label": "ham", "rows": 5, "right": 5, "reason": None},
}


def model(band: Band = BAND) -> Model:
    made = tiny_model()
    return replace(made, objective=OBJECTIVE, decision=replace(made.decision, probability=SIGMOID, band=band))


def stored(database: Database, folder: Path, made: Model, **changes: Any) -> str:
    told = {"slope": SIGMOID.slope, "offset": SIGMOID.offset, "brier": 0.1, "reliability": []}
    model_id = store_model(database, folder, made)
    wanted = report() | {"columns": made.columns, "probability": told} | changes
    with database.transaction() as session:
        values = {"told": json.dumps(wanted), "id": model_id}
        session.execute(text("UPDATE models SET report = CAST(:told AS jsonb) WHERE id = :id"), values)
    return model_id


def expected() -> list[str | None]:
    said = model().predict_rows(ROWS)[0].labels
    assert set(said) == {"spam", "ham", None}
    return said


@pytest.fixture
def client(settings: Settings, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(shadow_module, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(usage_module, "FLUSH_SECONDS", 0.05)
    with api_client(settings) as made:
        model_id = stored(database, tmp_path, model(), objective=OBJECTIVE, abstain=CHOSEN)
        made.put("/aliases/careful", json={"model": model_id}).raise_for_status()
        yield made


def test_what_answers_say_of_undecided_rows(client: httpx.Client, tmp_path: Path) -> None:
    answer = client.post("/predict", json={"model": "careful", "rows": ROWS}).json()
    assert [each["label"] for each in answer["predictions"]] == expected()
    assert (answer["threshold"], answer["abstain"]) == (0.25, told_band(BAND, SIGMOID))
    for each in answer["predictions"]:
        part = each["probability"]
        lower, upper = (answer["abstain"][f"{name}_probability"] for name in ("lower", "upper"))
        assert each["label"] == ("spam" if part > upper else "ham" if part <= lower else None)

    url = str(client.base_url)
    with prefsvm.Client(url) as connected:
        assert [each.label for each in connected.predict("careful", ROWS)] == expected()
        frame = connected.predict("careful", pd.DataFrame(ROWS))
        assert [None if pd.isna(label) else label for label in frame["label"]] == expected()
    file = tmp_path / "rows.csv"
    file.write_text("age,job\n" + "".join(f"{age},cook\n" for age in AGES))
    done = CliRunner().invoke(app, ["predict", "careful", str(file), "--url", url])
    lines = list(csv.DictReader(done.stdout.splitlines()))
    assert [line["prefsvm_label"] or None for line in lines] == expected()
    assert done.stderr == ""  # no label here is at odds with its probability


def test_tensors_and_files_say_it_too(client: httpx.Client, tmp_path: Path) -> None:
    inputs = [{"name": "age", "shape": [len(AGES)], "datatype": "FP64", "data": [*AGES]},
              {"name": "job", "shape": [len(AGES)], "datatype": "BYTES", "data": ["cook"] * len(AGES)}]  # fmt: skip
    answer = client.post("/v2/models/careful/infer", json={"inputs": inputs}).json()
    assert [label or None for label in answer["outputs"][0]["data"]] == expected()
    told = told_band(BAND, SIGMOID)
    assert told is not None
    assert told.items() <= answer["parameters"].items()

    exported = client.get("/models/careful/export?format=onnx").content
    feed = {"age": [[float(age)] for age in AGES], "job": [["cook"]] * len(AGES)}
    labels = onnxruntime.InferenceSession(exported).run(["label"], feed)[0]
    assert [label or None for label in labels.tolist()] == expected()
    told_in_file = {each.key: each.value for each in onnx.load_from_string(exported).metadata_props}
    assert (told_in_file["lower"], told_in_file["upper"]) == ("-0.7", "0.6")
    whole = read_model(client.get("/models/careful/export").content)
    assert whole.predict_rows(ROWS)[0].labels == expected()
    refused = problem(client.get("/models/careful/export?format=libsvm"), 422, "not-exportable")
    assert "apply an objective without abstain" in refused["detail"]


def test_a_batch_leaves_them_empty_and_a_shadow_is_compared(
    client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    shadow = store_model(database, tmp_path)
    named = client.get("/aliases/careful").json()["model_id"]
    client.put("/aliases/careful", json={"model": named, "shadow": shadow}).raise_for_status()
    dataset = upload(client, ("age,job\n" + "".join(f"{age},cook\n" for age in AGES)).encode())
    for form in ("csv", "parquet", "jsonl"):
        body = {"model": "careful", "dataset": dataset["id"], "format": form}
        batch = client.post("/batches", json=body).json()
        assert bench.supervisor.run(batch["id"]) == "succeeded"
        done = client.get(f"/batches/{batch['id']}").json()["result"]
        said = Counter(expected())
        assert (done["undecided"], done["labels"]) == (said[None], {name: said[name] for name in ("ham", "spam")})
        assert done["abstain"] == told_band(BAND, SIGMOID)
        got = client.get(f"/batches/{batch['id']}/result").content
        if form == "parquet":
            labels = pq.read_table(io.BytesIO(got)).column("label").to_pylist()
        elif form == "jsonl":
            labels = [json.loads(line)["label"] for line in got.splitlines()]
        else:
            labels = [line["label"] or None for line in csv.DictReader(io.StringIO(got.decode()))]
        assert labels == expected()
    plain = tiny_model().predict_rows(ROWS)[0].labels
    pairs = {
        (each["label"], each["shadow_label"]): each["rows"]
        for each in client.get("/aliases/careful/shadow").json()["pairs"]
    }
    assert pairs == {pair: 3 * rows for pair, rows in Counter(zip(expected(), plain, strict=True)).items()}
    client.post("/predict", json={"model": "careful", "rows": ROWS}).raise_for_status()
    wait_for(lambda: client.get("/aliases/careful/shadow").json()["rows"] == 4 * len(ROWS), 40)
    latest = client.get("/aliases/careful/shadow").json()["latest"]
    assert latest
    assert all(each["label"] is None for each in latest)


def test_undecided_rows_are_counted_apart(client: httpx.Client) -> None:
    client.post("/predict", json={"model": "careful", "rows": ROWS}).raise_for_status()
    wait_for(lambda: client.get("/models/careful/drift").json()["rows"] == len(ROWS), 40)
    said = Counter(expected())
    drift = client.get("/models/careful/drift").json()
    assert drift["rows_at_threshold"] == len(ROWS)
    assert drift["positive_share"] == pytest.approx(said["spam"] / len(ROWS))
    assert drift["undecided_share"] == pytest.approx(said[None] / len(ROWS))
    assert (drift["by_day"][0]["positive"], drift["by_day"][0]["undecided"]) == (said["spam"], said[None])
    # the share of positives that it points to rests on what is called positive: 3 of 4 positives, and no negative
    low, high = drift["prior"]["low"], drift["prior"]["high"]
    assert low is None or low <= min(1.0, said["spam"] / len(ROWS) * 4 / 3) <= high


def test_an_audit_of_a_precision_is_of_what_is_called_positive(
    client: httpx.Client, bench: Bench, database: Database
) -> None:
    dataset = upload(client, ("age,job\n" + "".join(f"{age},cook\n" for age in AGES)).encode())
    said = Counter(expected())
    asked = {"model": "careful", "dataset": dataset["id"], "objective": {"kind": "precision", "target": 0.9}}
    audit = client.post("/audits", json=asked).json()
    assert bench.supervisor.run(audit["job"]) == "succeeded"
    pool = client.get(f"/audits/{audit['id']}").json()["pool"]
    assert (pool["called_positive"], pool["undecided"]) == (said["spam"], said[None])
    assert pool["abstain"] == BAND.to_json()
    drawn = client.get(f"/audits/{audit['id']}/next?n=100").json()["items"]
    assert {each["label"] for each in drawn} == {"spam"}
    asked["objective"] = {"kind": "recall", "target": 0.5}
    audit = client.post("/audits", json=asked).json()
    assert bench.supervisor.run(audit["job"]) == "succeeded"
    found = client.get(f"/audits/{audit['id']}").json()
    above = sum(score > 0.25 for score in model().predict_rows(ROWS)[0].scores.tolist())
    assert found["pool"]["called_positive"] == above
    assert "left undecided" in found["statement"]
    drawn = client.get(f"/audits/{audit['id']}/next?n=100").json()["items"]
    assert {each["row"]: each["label"] for each in drawn} == {each["row"]: expected()[each["row"]] for each in drawn}


def test_card_list_and_curve_say_it(client: httpx.Client) -> None:
    shown = client.get("/models/careful").json()
    wanted = {name: told for name, told in (told_band(BAND, SIGMOID) or {}).items() if "probability" in name}
    assert {f"{name}_probability": at for name, at in shown["abstain_probabilities"].items()} == wanted
    for one in (shown, client.get("/models").json()["items"][0], client.get("/models/careful/curves/pr").json()):
        assert one["abstain"] == CHOSEN
    card = client.get("/models/careful/card").text
    assert "spam is said of a row whose score is above 0.6 (a probability of" in card
    assert "All other rows are left undecided" in card
    said = CliRunner().invoke(app, ["models", "show", "careful", "--url", str(client.base_url)])
    assert "'spam' above 0.6; 'ham' up to -0.7; else undecided: 2 of 10 calibration rows" in said.stdout


def test_a_band_is_applied_and_taken_away_by_operating_points(
    client: httpx.Client, database: Database, tmp_path: Path
) -> None:
    curve = {
        "thresholds": [9.0, 0.6, 0.25, -0.7, -9.0],
        **{"true_positives": [0, 90, 95, 99, 100], "false_positives": [0, 1, 9, 20, 200]},
        **{"positives": 100, "negatives": 200},
    }
    plain = stored(database, tmp_path, tiny_model(), curve=curve, labeled_split="xfit")
    path, rows = f"/models/{plain}/operating-points", {"model": plain, "rows": ROWS}
    assert client.post("/predict", json=rows).json()["abstain"] is None
    asked = {"objective": {"kind": "precision", "target": 0.7, "abstain": {"precision": 0.9}}, "apply": True}
    point = client.post(path, json=asked).json()
    assert point["abstain"]["upper"] is not None
    assert point["promise"]["abstain"]["negative"]["level"] == "likely"
    assert "Left undecided" in point["promise"]["sentence"]
    answer = client.post("/predict", json=rows).json()
    assert {name: answer["abstain"][name] for name in ("lower", "upper")} == {
        name: point["abstain"][name] for name in ("lower", "upper")
    }
    assert client.get(f"/models/{plain}").json()["promise"] == point["promise"]
    assert read_model(client.get(f"/models/{plain}/export").content).decision.band is not None
    asked["objective"] = {"kind": "precision", "target": 0.7}
    assert client.post(path, json=asked).json()["abstain"] is None
    assert client.post("/predict", json=rows).json()["abstain"] is None
    assert read_model(client.get(f"/models/{plain}/export").content).decision.band is None
    assert [each["abstain"] is None for each in client.get(path).json()["items"]] == [True, False]


def test_a_wrong_abstain_is_refused_by_its_field(client: httpx.Client) -> None:
    wrong: list[tuple[Any, str]] = [
        ({"precision": 0.5}, "abstain.precision"),
        ({"precision": 1}, "abstain.precision"),
        ({"precision": "0.9"}, "abstain.precision"),
        ({}, "abstain.precision"),
        ({"precision": 0.9, "recall": 0.9}, "abstain.recall"),
        (0.9, "abstain"),
    ]
    for abstain, field in wrong:
        asked = {"objective": {"kind": "f1", "abstain": abstain}}
        found = problem(client.post("/models/careful/operating-points", json=asked), 422, "invalid-request")
        assert [each["field"].endswith(field) for each in found["errors"]] == [True], found["errors"]
