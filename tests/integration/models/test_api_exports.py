"""Models to take away, from the real application: the file, LIBSVM's format, the model card; and probabilities."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json

import httpx
import numpy as np
import onnxruntime
import pytest
from api_support import problem, report, store_dataset, store_model, tiny_model
from sqlalchemy import text

from service.db.tables import DEFAULT_PROJECT, JobRow
from service.identifiers import new_id
from solver.evaluation import Sigmoid
from solver.features import Column, Table, TableFeatures
from solver.model_file import read_model

ROWS = [{"age": 20, "job": "clerk"}, {"age": 50.5, "job": "cook"}]


def apply(client, model):
    answer = client.post(f"/models/{model}/operating-points", json={"objective": {"kind": "recall", "target": 1.0}})
    point = client.post(
        f"/models/{model}/operating-points", json={"objective": {"kind": "precision", "target": 0.4}, "apply": True}
    )
    assert (answer.status_code, point.status_code) == (200, 200)
    return point.json()["threshold"]


def test_the_model_file(client, database, tmp_path):
    made = tiny_model(threshold=0.75)
    model = store_model(database, tmp_path, made)
    answer = client.get(f"/models/{model}/export")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{model}.safetensors"'
    assert answer.headers["content-length"] == str(len(answer.content))
    digest = base64.b64encode(hashlib.sha256(answer.content).digest()).decode()
    assert answer.headers["repr-digest"] == f"sha-256=:{digest}:"
    loaded = read_model(answer.content)
    assert loaded.manifest == made.manifest
    threshold = apply(client, model)
    assert threshold != 0.75
    now = client.get(f"/models/{model}/export", params={"format": "safetensors"})
    assert read_model(now.content).decision.threshold == threshold
    data, _ = made.parse_rows(ROWS)
    assert np.array_equal(read_model(now.content).predict(data).scores, made.predict(data).scores)


def test_libsvm_format(client, database, tmp_path):
    made = tiny_model()
    model = store_model(database, tmp_path, made)
    threshold = apply(client, model)
    answer = client.get(f"/models/{model}/export", params={"format": "libsvm"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    lines = answer.text.splitlines()
    assert lines[:4] == ["svm_type c_svc", "kernel_type linear", "nr_class 2", "total_sv 4"]
    assert lines[4] == f"rho {threshold!r}"
    assert len(lines) == 8 + 4


def test_onnx_decides_as_the_service_does(client, database, tmp_path):
    model = store_model(database, tmp_path)
    apply(client, model)
    answer = client.get(f"/models/{model}/export", params={"format": "onnx"})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{model}.onnx"'
    session = onnxruntime.InferenceSession(answer.content, providers=["CPUExecutionProvider"])
    columns = {name: np.array([[row[name]] for row in ROWS]) for name in ROWS[0]}
    columns = {name: cells.astype(object if cells.dtype.kind == "U" else float) for name, cells in columns.items()}
    labels, scores = session.run(["label", "score"], columns)
    served = client.post("/predict", json={"model": model, "rows": ROWS}).json()["predictions"]
    assert labels.tolist() == [one["label"] for one in served]
    np.testing.assert_allclose(scores, [one["score"] for one in served], rtol=1e-12)


def test_what_has_no_form_in_onnx_says_why(client, database, tmp_path):
    words = np.array(["the cat sat", "on the mat here", "dogs bark at night", "birds sing in may"] * 8, dtype=object)
    features = TableFeatures(kinds={"note": "text"}).fit(Table({"note": Column("note", "text", words)}))
    decision = dataclasses.replace(tiny_model().decision, support_vectors=np.ones((4, features.n_features)))
    model = store_model(database, tmp_path, dataclasses.replace(tiny_model(), features=features, decision=decision))
    refused = problem(client.get(f"/models/{model}/export", params={"format": "onnx"}), 422, "not-exportable")
    assert "free text or dates" in refused["detail"]


def test_what_cannot_be_exported(client, database, tmp_path):
    model = store_model(database, tmp_path)
    for unknown in ("mdl_" + "0" * 32, "x"):
        for path in ("export", "export?format=libsvm", "card"):
            problem(client.get(f"/models/{unknown}/{path}"), 404, "model-not-found")
    problem(client.get(f"/models/{model}/export", params={"format": "pickle"}), 422, "invalid-request")


def test_damage_is_never_exported_whole(client, database, tmp_path):
    large = tiny_model()
    vectors = np.random.default_rng(0).normal(size=(300, large.decision.support_vectors.shape[1]))
    decision = dataclasses.replace(large.decision, support_vectors=vectors, dual_coef=np.ones(300))
    model = store_model(database, tmp_path, dataclasses.replace(large, decision=decision))
    with database.transaction() as session:
        session.execute(text("UPDATE model_chunks SET data = set_byte(data, 9, get_byte(data, 9) # 1) WHERE seq = 3"))
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(f"/models/{model}/export")
    problem(client.get(f"/models/{model}/export", params={"format": "libsvm"}), 500, "damaged-model")
    apply(client, model)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(f"/models/{model}/export")
    with database.transaction() as session:
        session.execute(text("UPDATE model_chunks SET data = set_byte(data, 9, 1) WHERE seq = 0"))
    problem(client.get(f"/models/{model}/export"), 500, "damaged-model")
    with database.transaction() as session:
        session.execute(text("DELETE FROM model_chunks"))
    problem(client.get(f"/models/{model}/export"), 500, "damaged-model")


def test_model_card(client, database, tmp_path):
    dataset = store_dataset(database, name="<b>mails</b>|`x`.csv")
    job = new_id("job")
    request = {"target": "la\nbel", "features": {"include": None, "exclude": ["id_*"]}, "seed": 7, "test_fraction": 0.1}
    with database.transaction() as session:
        session.add(
            JobRow(
                project_id=DEFAULT_PROJECT,
                id=job,
                max_attempts=3,
                max_seconds=1,
                request=request,
                dataset_id=dataset["id"],
            )
        )
    model = store_model(database, tmp_path, job_id=job)
    changed = report() | {
        "status": "preference_unmet",
        "status_reason": "The calibration rows reach only 0.8.",
        "objective": {"kind": "precision", "target": 0.9},
        "warnings": ["3 columns\n# left out <script>"],
        "columns": [{"name": "age", "kind": "number"}, {"name": "note_1", "kind": "text"}],
    }
    changed["calibration"]["precision"] = None
    with database.transaction() as session:
        session.execute(
            text("UPDATE models SET report = CAST(:report AS jsonb), dataset_id = :dataset"),
            {"report": json.dumps(changed), "dataset": dataset["id"]},
        )
    answer = client.get(f"/models/{model}/card")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "* A row has the columns age (number), note\\_1 (text)\n" in answer.text
    card = answer.text
    assert card.startswith(f"# Model {model}\n")
    assert (
        "Trained for **precision** (target 90%): not reached on the calibration rows. "
        "The calibration rows reach only 0.8."
    ) in card
    assert (
        "| as trained, calibration rows | 0.25 | 10 | undefined | 1.000 [0.900, 1.000] | 0.890 [0.790, 0.890] |" in card
    )
    missed = {"level": "missed", "chance": 0.1, "confidence": 0.95, "bounds": {}, "sentence": "Only 0.8 is reached."}
    with database.transaction() as session:
        told = {"promise": json.dumps({"promise": missed})}
        session.execute(text("UPDATE models SET report = report || CAST(:promise AS jsonb)"), told)
    again = client.get(f"/models/{model}/card").text
    assert "**Only 0.8 is reached.**" in again
    assert "(target 90%): not reached on the calibration rows\n" in again  # and not once more that it is missed
    assert "| control plain\\_svm, calibration rows | 0 | 10 | 0.800 [0.700, 0.800] |" in card
    assert "There were no test rows." in card
    assert "\\<b\\>mails\\</b\\>\\|\\`x\\`.csv" in card
    assert "Labels from the column la bel\n" in card
    assert "* Without the columns: id\\_\\*" in card
    assert "* 3 columns \\# left out \\<script\\>" in card
    threshold = apply(client, model)
    now = client.get(f"/models/{model}/card").text
    assert f"is above {threshold:.6g}." in now
    assert "| now, calibration rows |" in now
    assert "the model without them" not in now
    with database.transaction() as session:
        comparison = {"mode": "safe", "gain": 0.0, "standard_error": 0.1, "low": -0.1, "high": 0.1}
        returned = json.dumps({"comparison": comparison | {"returned": "no_unlabelled"}})
        session.execute(text("UPDATE models SET report = report || CAST(:more AS jsonb)"), {"more": returned})
    assert "did not help enough here: this is the model without them." in client.get(f"/models/{model}/card").text
    with database.transaction() as session:
        session.execute(text("DELETE FROM jobs"))
        session.execute(text("DELETE FROM datasets"))
    assert "* The data set was deleted." in client.get(f"/models/{model}/card").text


def test_probabilities_are_shown_and_never_decide(client, database, tmp_path):
    made = tiny_model()
    contrary = dataclasses.replace(made.decision, probability=Sigmoid(2.0, -50.0))
    model = store_model(database, tmp_path, dataclasses.replace(made, decision=contrary))
    body = client.post("/predict", json={"model": model, "rows": ROWS}).json()
    for prediction in body["predictions"]:
        assert prediction["probability"] == pytest.approx(1 / (1 + np.exp(50 - 2 * prediction["score"])), rel=1e-12)
        assert (prediction["label"] == "spam") == (prediction["score"] > body["threshold"])
    assert any((p["label"] == "spam") != (p["probability"] > 0.5) for p in body["predictions"])
    plain = store_model(database, tmp_path)
    answer = client.post("/predict", json={"model": plain, "rows": ROWS}).json()
    assert [p["probability"] for p in answer["predictions"]] == [None, None]
