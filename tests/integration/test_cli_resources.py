"""The commands for data sets, jobs, models, aliases and webhooks, against the real application."""

from __future__ import annotations

import json
import re
import time

import pytest
from api_support import api_client, store_dataset, store_model, tiny_model, train_body, upload
from typer.testing import CliRunner

from service.cli import app
from solver.model_file import read_model


@pytest.fixture
def client(settings):
    with api_client(settings) as client:
        yield client


@pytest.fixture
def prefsvm(client):
    def run(*arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(app, [*map(str, arguments), "--url", str(client.base_url)])
        assert done.exit_code == code, done.output
        return done.output

    return run


def test_datasets(prefsvm, client):
    made = upload(client)["id"]
    assert made in prefsvm("datasets", "list")
    assert re.search(r"job +category", prefsvm("datasets", "show", made))
    assert re.search(r"job +text", prefsvm("datasets", "correct", made, "--kind", "job=text"))
    assert "'job' is not column=kind" in prefsvm("datasets", "correct", made, "--kind", "job", code=2)
    assert "is deleted" in prefsvm("datasets", "delete", made)
    assert "no data set has this id" in prefsvm("datasets", "show", made, code=1)


def test_jobs_are_followed_to_their_end_and_tried_again(prefsvm, client, database):
    job = client.post("/train", json=train_body(store_dataset(database))).json()["id"]
    client.post(f"/jobs/{job}/cancel")
    said = prefsvm("follow", job)
    assert [line.split()[1] for line in said.splitlines()] == ["queued", "finished"]
    again = prefsvm("retry", job).strip()
    assert client.get(f"/jobs/{again}").json()["status"] == "queued"
    assert "no job has this id" in prefsvm("follow", "job_0", code=1)


def test_models_are_taken_away(prefsvm, client, database, tmp_path):
    model = store_model(database, tmp_path, made := tiny_model())
    prefsvm("aliases", "set", "spam-filter", model)
    for form in ("safetensors", "onnx", "libsvm"):
        prefsvm("export", "spam-filter", "--format", form, "--out", tmp_path / f"model.{form}")
    assert read_model(tmp_path / "model.safetensors").decision.threshold == made.decision.threshold
    assert (tmp_path / "model.libsvm").read_text().startswith("svm_type c_svc")
    assert b"ai.onnx" in (tmp_path / "model.onnx").read_bytes()
    assert prefsvm("card", model).startswith("# ")
    prefsvm("curve", model, "roc", "--out", tmp_path / "roc.png")
    prefsvm("curve", model, "cost", "--out", tmp_path / "cost.svg")
    assert (tmp_path / "roc.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "cost.svg").read_bytes()
    assert json.loads(prefsvm("curve", model))["kind"] == "pr"
    assert "no alias is named 'nobody'" in prefsvm("export", "nobody", code=1)
    assert "points at this model" in prefsvm("models", model, "--delete", code=1)


def test_drift(prefsvm, client, database, tmp_path):
    model = store_model(database, tmp_path)
    assert re.search(r"rows +0 *\n", prefsvm("drift", model))
    rows = [{"age": 20, "job": "clerk"}, {"age": 50, "job": "pilot"}]
    assert client.post("/predict", json={"model": model, "rows": rows}).status_code == 200
    shown = ""
    for _ in range(150):  # figures are written every few seconds
        shown = prefsvm("drift", model)
        if re.search(r"rows +2 *\n", shown):
            break
        time.sleep(0.1)
    assert re.search(r"unseen values in job +50\.0%", shown), shown


def test_a_threshold_is_chosen_and_applied(prefsvm, client, database, tmp_path):
    model = store_model(database, tmp_path)
    said = prefsvm("threshold", model, "--objective", "recall=1", "--apply")
    assert re.match(r"threshold \S+: met, in use now", said)
    assert re.search(r"recall +1\.000", said)
    assert len(client.get(f"/models/{model}/operating-points").json()["items"]) == 1
    prefsvm("threshold", model, "--objective", "magic", code=2)
    assert "is deleted" in prefsvm("models", model, "--delete")
    assert client.get(f"/models/{model}").status_code == 404


def test_aliases(prefsvm, database, tmp_path):
    first, second = store_model(database, tmp_path), store_model(database, tmp_path)
    prefsvm("aliases", "set", "spam-filter", first)
    assert second in prefsvm("aliases", "set", "spam-filter", second)
    assert first in prefsvm("aliases", "rollback", "spam-filter")
    assert first in prefsvm("aliases", "list")
    assert "no earlier model" in prefsvm("aliases", "rollback", "spam-filter", code=1)


def test_webhooks(prefsvm, client, database):
    made, secret = prefsvm("webhooks", "create", "https://example.com/hook").split()[2:4]
    assert made.startswith("wh_")
    assert secret.startswith("whsec_")
    listed = prefsvm("webhooks", "list")
    assert made in listed
    assert secret not in listed
    job = client.post("/train", json=train_body(store_dataset(database))).json()["id"]
    client.post(f"/jobs/{job}/cancel")
    assert re.search(rf"{job} +cancelled", prefsvm("webhooks", "deliveries", made))
    prefsvm("webhooks", "delete", made)
    assert made not in prefsvm("webhooks", "list")
