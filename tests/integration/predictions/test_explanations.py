"""Every door says why a row has its score, says the same, and no other score or label for that."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from api_support import HAM, SPAM, problem, store_model, text_model, train_body, upload
from sqlalchemy import text
from typer.testing import CliRunner
from worker_bench import Bench

import prefsvm
from service.cli.main import app
from service.db.session import Database
from service.predictions import explaining
from solver.decision import DecisionState
from solver.features import MatrixData, MatrixFeatures
from solver.model_file import Model

pytestmark = pytest.mark.usefixtures("read_here")

LABELLED, ROWS = 40, 60
TEXTS = [f"{SPAM if row % 2 else HAM} {row % 7} times" for row in range(ROWS)]
NOTES = "id,note,age,label\n" + "".join(
    f'k{row},"{note}",{20 + row % 9},{("spam" if row % 2 else "ham") if row < LABELLED else ""}\n'
    for row, note in enumerate(TEXTS)
)
ROW = {"note": "claim your prize, at the meeting: xyzzy", "age": 22}


def trained(client: httpx.Client, trainer: Bench, **features: Any) -> dict[str, Any]:
    """Train the model ``filter`` on notes, and return its data set."""
    dataset = upload(client, NOTES.encode())
    body = train_body(dataset, algorithm="svm", params={}, objective={"kind": "f1"}, alias="filter", key="id")
    body["features"] = {"kinds": {"note": "text"}, **features}
    job = client.post("/train", json=body)
    assert job.status_code == 202, job.text
    assert trainer.supervisor.run(job.json()["id"]) == "succeeded"
    return dataset


def predicted(client: httpx.Client, model: str = "filter", **body: Any) -> list[dict[str, Any]]:
    answer = client.post("/predict", json={"model": model, **body})
    assert answer.status_code == 200, answer.text
    made: list[dict[str, Any]] = answer.json()["predictions"]
    return made


def adds_up(said: dict[str, Any]) -> None:
    why = said["explanation"]
    summed = math.fsum([weight["change"] for weight in why["weights"]]) + why["rest"] + why["intercept"]
    assert summed == pytest.approx(said["score"], abs=1e-9)


def test_from_a_training_to_every_door(client: httpx.Client, trainer: Bench, tmp_path: Path) -> None:
    dataset = trained(client, trainer)
    plain = predicted(client, rows=[ROW])
    (said,) = predicted(client, rows=[ROW], explain=5)
    why = said.pop("explanation")
    assert [said] == plain
    assert next(weight["term"] for weight in why["weights"] if weight["change"] > 0) in ("claim", "your", "prize")
    assert "meeting" in [weight["term"] for weight in why["weights"] if weight["change"] < 0]
    adds_up({**said, "explanation": why})
    assert (why["compared"], len(why["nearest"])) == (LABELLED, 5)
    for each in why["nearest"]:
        assert each["key"] == f"k{each['row']}"
        assert each["label"] == ("spam" if each["row"] % 2 else "ham")
    (same,) = predicted(client, rows=[{"note": TEXTS[3], "age": 23}], explain=1)
    assert same["explanation"]["nearest"][0]["similarity"] == pytest.approx(1, abs=1e-6)

    url = str(client.base_url)
    with prefsvm.Client(url) as connected:
        (one, two) = connected.predict("filter", [ROW, {"note": TEXTS[3], "age": 23}], explain=5)
        assert one.explanation == why
        assert one.score == said["score"]
        assert connected.predict("filter", [ROW])[0].explanation is None
        frame = connected.predict("filter", pd.DataFrame([ROW]), explain=5)
        assert frame["explanation"][0] == why
        assert two.explanation is not None
    file = tmp_path / "rows.csv"
    file.write_text(f'note,age\n"{ROW["note"]}",22\n"{TEXTS[3]}",23\n')
    done = CliRunner().invoke(app, ["predict", "filter", str(file), "--explain", "5", "--url", url])
    first, second = csv.DictReader(done.stdout.splitlines())
    top = why["weights"][0]
    assert first["prefsvm_why"].startswith(f"{top['term']} {top['change']:+.3g}; ")
    assert second["prefsvm_nearest"].startswith("row ")
    assert "prefsvm_why" not in CliRunner().invoke(app, ["predict", "filter", str(file), "--url", url]).stdout

    inputs = [{"name": name, "shape": [1], "datatype": kind, "data": [ROW[name]]}
              for name, kind in (("note", "BYTES"), ("age", "FP64"))]  # fmt: skip
    body: dict[str, Any] = {"inputs": inputs, "parameters": {"explain": 5}}
    outputs = {each["name"]: each for each in client.post("/v2/models/filter/infer", json=body).json()["outputs"]}
    assert json.loads(outputs["explanation"]["data"][0]) == why
    assert outputs["score"]["data"] == [said["score"]]
    for wrong in (0, 51, "5", 5.0, True, [5]):
        refused = client.post("/v2/models/filter/infer", json={**body, "parameters": {"explain": wrong}})
        assert (refused.status_code, "whole number from 1 to 50" in refused.text) == (400, True)
    wanted = {"inputs": inputs, "outputs": [{"name": "explanation"}]}
    assert client.post("/v2/models/filter/infer", json=wanted).status_code == 400

    batch = {"model": "filter", "dataset": dataset["id"], "explain": 5}
    assert "POST /predict" in problem(client.post("/batches", json=batch), 422, "invalid-request")["detail"]

    weights = client.get("/models/filter").json()["report"]["weights"]
    assert {each["term"] for each in weights["terms"]} >= {"prize", "meeting"}
    assert {each["column"] for each in weights["columns"]} <= {"note", "age"}


def test_without_words_no_door_names_one(client: httpx.Client, trainer: Bench) -> None:
    trained(client, trainer, keep_words=False)
    (said,) = predicted(client, rows=[ROW], explain=50)
    assert {weight["kind"] for weight in said["explanation"]["weights"]} == {"column"}
    adds_up(said)
    told = client.get("/models/filter").text + client.get("/models/filter/card").text + json.dumps(said)
    words = ("claim", "prize", "money", "offer", "meeting")
    assert not [word for word in words if word in told]
    page = client.get("/ui/models/filter").text
    assert "What weighs most" in page
    assert not [word for word in words if f">{word}<" in page]


@pytest.mark.parametrize("explain", [0, -1, 51, 10**6, 10**30, "5", 5.0, True, [5], {}])
def test_another_amount_is_refused(client: httpx.Client, database: Database, tmp_path: Path, explain: Any) -> None:
    model = store_model(database, tmp_path)
    answer = client.post("/predict", json={"model": model, "rows": [{"age": 40, "job": "cook"}], "explain": explain})
    assert problem(answer, 422, "invalid-request")["errors"][0]["field"] == "body.explain"


def test_a_model_of_before_has_no_rows_to_compare_with(
    client: httpx.Client, database: Database, tmp_path: Path
) -> None:
    model = store_model(database, tmp_path)
    rows = [{"age": age, "job": "cook"} for age in (20, 35, 50)]
    for said, plain in zip(
        predicted(client, model, rows=rows, explain=3), predicted(client, model, rows=rows), strict=True
    ):
        adds_up(said)
        why = said.pop("explanation")
        assert (why["nearest"], why["compared"]) == (None, 0)
        assert {weight["column"] for weight in why["weights"]} <= {"age", "job"}
        assert said == plain
    with database.transaction() as session:
        session.execute(text("UPDATE models SET kept_rows = :rows WHERE id = :id"), {"rows": b"nonsense", "id": model})
    other = store_model(database, tmp_path)
    with database.transaction() as session:
        session.execute(text("UPDATE models SET kept_rows = :rows WHERE id = :id"), {"rows": b"nonsense", "id": other})
    answer = client.post("/predict", json={"model": other, "rows": rows, "explain": 3})
    assert "kept with this model cannot be read" in problem(answer, 500, "damaged-model")["detail"]
    assert len(predicted(client, other, rows=rows)) == 3


def test_texts_and_mails(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path, text_model(("subject", "body")))
    mail = f"Subject: Claim it\r\n\r\n{SPAM}\r\n".encode()
    (said,) = predicted(client, model, messages=[mail.decode()], explain=4)
    adds_up(said)
    assert {weight["column"] for weight in said["explanation"]["weights"]} <= {"subject", "body"}
    headers = {"Content-Type": "message/rfc822"}
    raw = client.post(f"/predict?model={model}&explain=4", content=mail, headers=headers).json()["predictions"]
    twice = client.post(f"/predict?model={model}&explain=4&explain=5", content=mail, headers=headers)
    assert (twice.status_code, twice.json()["errors"][0]["field"]) == (422, "query.explain")
    assert raw == [said]
    for wrong in ("0", "51", "x", "", "1e1", "٣", "9" * 5000):
        refused = client.post("/predict", params={"model": model, "explain": wrong}, content=mail, headers=headers)
        assert problem(refused, 422, "invalid-request")["errors"][0]["field"] == "query.explain"
    of_texts = store_model(database, tmp_path, text_model(("body",)))
    for said in predicted(client, of_texts, texts=[SPAM, HAM, "???"], explain=2):
        adds_up(said)
    done = CliRunner().invoke(
        app, ["predict", of_texts, "--text", SPAM, "--explain", "2", "--url", str(client.base_url)]
    )
    assert done.stdout.splitlines()[1].startswith("    ")


def wide_model(kind: str, vectors: int, width: int) -> Model:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(vectors, width))
    features = MatrixFeatures().fit(MatrixData(X, first_index=0))
    made, _ = features.transform(MatrixData(X, first_index=0))
    state = DecisionState(kind, 1 / width, 3, 0.0, np.asarray(made), rng.normal(size=vectors), 0.1, 0.0)
    return Model("svm", {}, {"kind": "f1"}, ("ham", "spam"), state, features)


@pytest.fixture
def made(database: Database, tmp_path: Path) -> Callable[..., str]:
    return lambda *of: store_model(database, tmp_path, wide_model(*of))


def test_how_many_rows_are_explained_at_once(
    client: httpx.Client, database: Database, tmp_path: Path, made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = store_model(database, tmp_path)
    row = {"age": 40, "job": "cook"}
    assert len(predicted(client, small, rows=[row] * 100, explain=50)) == 100
    refused = client.post("/predict", json={"model": small, "rows": [row] * 101, "explain": 1})
    assert "may hold at most 100 rows;" in problem(refused, 422, "invalid-request")["detail"]
    assert len(predicted(client, small, rows=[row] * 101)) == 101

    large = made("rbf", 400, 600)
    monkeypatch.setattr(explaining, "MOST_SECONDS", 0.01)
    wide = {str(column): 1.0 for column in range(600)}
    refused = client.post("/predict", json={"model": large, "rows": [wide] * 9, "explain": 5})
    assert "so many support vectors" in problem(refused, 422, "invalid-request")["detail"]
    assert len(predicted(client, large, rows=[wide], explain=5)) == 1

    monkeypatch.setattr(explaining, "MOST_CHARACTERS", 100)
    texts = store_model(database, tmp_path, text_model(("body",)))
    refused = client.post("/predict", json={"model": texts, "texts": ["a" * 51] * 2, "explain": 5})
    assert "at most 100 characters" in problem(refused, 422, "invalid-request")["detail"]
    assert len(predicted(client, texts, texts=["a" * 500], explain=5)) == 1


@pytest.mark.parametrize("kind", ["rbf", "poly", "sigmoid"])
def test_a_change_is_what_predict_says_of_the_row_without_it(
    client: httpx.Client, made: Callable[..., str], kind: str
) -> None:
    model = made(kind, 50, 40)
    row = {str(column): float(value) for column, value in enumerate(np.random.default_rng(1).normal(size=40))}
    (said,) = predicted(client, model, rows=[row], explain=50)
    why = said["explanation"]
    assert (why["rest"], why["intercept"]) == (None, None)
    assert len(why["weights"]) == 40
    for weight in why["weights"][:10]:
        (without,) = predicted(client, model, rows=[{**row, weight["column"]: 0.0}])
        assert weight["change"] == pytest.approx(said["score"] - without["score"], abs=1e-9)
