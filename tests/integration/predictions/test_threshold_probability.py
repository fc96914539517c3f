"""A label that its probability does not suggest: every answer has the threshold as a probability, too."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import onnx
import pytest
from api_support import api_client, store_model, tiny_model
from sqlalchemy import text
from typer.testing import CliRunner

import prefsvm
from service.cli.main import app
from service.db.session import Database
from service.settings import Settings
from solver.evaluation import Sigmoid
from solver.model_file import Model

SIGMOID = Sigmoid(2.0, -1.0)
TOLD = {"slope": SIGMOID.slope, "offset": SIGMOID.offset, "brier": 0.1, "reliability": []}
AGES = range(20, 51)


def model(threshold: float) -> Model:
    made = tiny_model(threshold)
    return replace(made, decision=replace(made.decision, probability=SIGMOID))


@pytest.fixture
def client(settings: Settings, database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with api_client(settings) as made:
        for name, threshold in (("eager", -0.5), ("timid", 1.5)):
            model_id = store_model(database, tmp_path, model(threshold))
            with database.transaction() as session:
                told = text("UPDATE models SET report = report || jsonb_build_object('probability', :told ::jsonb)")
                session.execute(told, {"told": json.dumps(TOLD)})
            made.put(f"/aliases/{name}", json={"model": model_id}).raise_for_status()
        yield made


@pytest.mark.parametrize(("name", "threshold"), [("eager", -0.5), ("timid", 1.5)])
def test_every_answer_says_from_which_probability_on(
    client: httpx.Client, tmp_path: Path, name: str, threshold: float
) -> None:
    wanted = float(SIGMOID(threshold))
    rows = [{"age": age, "job": "cook"} for age in AGES]
    answer = client.post("/predict", json={"model": name, "rows": rows}).json()
    assert answer["threshold_probability"] == wanted
    odd = [p for p in answer["predictions"] if (p["label"] == "spam") != (p["probability"] > 0.5)]
    assert odd
    assert all((p["label"] == "spam") == (p["probability"] > wanted) for p in answer["predictions"])

    inputs = [{"name": "age", "shape": [1], "datatype": "FP64", "data": [30]},
              {"name": "job", "shape": [1], "datatype": "BYTES", "data": ["cook"]}]  # fmt: skip
    told = client.post(f"/v2/models/{name}/infer", json={"inputs": inputs}).json()["parameters"]
    assert told == {"threshold": threshold, "threshold_probability": wanted}
    exported = onnx.load_from_string(client.get(f"/models/{name}/export?format=onnx").content)
    assert {each.key: each.value for each in exported.metadata_props}["threshold_probability"] == repr(wanted)
    assert client.get(f"/models/{name}").json()["threshold_probability"] == wanted
    assert f"its probability is above {wanted:.3g}" in client.get(f"/models/{name}/card").text
    with prefsvm.Client(str(client.base_url)) as connected:
        assert connected.predict(name, rows[:1])[0].threshold_probability == wanted

    file = tmp_path / "rows.csv"
    file.write_text("age,job\n" + "".join(f"{age},cook\n" for age in AGES))
    done = CliRunner().invoke(app, ["predict", name, str(file), "--url", str(client.base_url)])
    below, above = (f"called {label} although the probability of 'spam' is" for label in ("'spam'", "'ham'"))
    how = f"{below} below" if name == "eager" else f"{above} above"
    said = f"{len(odd)} of {len(rows)} rows are {how} 0.5: 'spam' is said from {wanted:.2g} on, as best F1 was asked"
    assert done.stderr == f"note: {said}\n"
    assert len(list(csv.reader(done.stdout.splitlines()))) == len(rows) + 1
    file.write_text("age,job\n50,cook\n" if name == "eager" else "age,job\n20,cook\n")
    assert CliRunner().invoke(app, ["predict", name, str(file), "--url", str(client.base_url)]).stderr == ""


def test_a_probability_that_all_rows_have_is_no_threshold(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    flat = Sigmoid(0.0, 0.4)
    made = tiny_model(0.5)
    with api_client(settings) as client:
        named = store_model(database, tmp_path, replace(made, decision=replace(made.decision, probability=flat)))
        with database.transaction() as session:
            told = text("UPDATE models SET report = report || jsonb_build_object('probability', :told ::jsonb)")
            session.execute(told, {"told": json.dumps(TOLD | {"slope": flat.slope, "offset": flat.offset})})
        rows = [{"age": age, "job": "cook"} for age in AGES]
        answer = client.post("/predict", json={"model": named, "rows": rows}).json()
        assert {each["label"] for each in answer["predictions"]} == set(made.classes)
        assert answer["threshold_probability"] is None
        assert client.get(f"/models/{named}").json()["threshold_probability"] is None
