"""A training that leaves rows undecided, end to end: asked for, told, decided by, improved, trained again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from api_support import problem, train_body, upload
from worker_bench import Bench, wait_for

from service.db.session import Database
from service.settings import Settings

pytestmark = pytest.mark.usefixtures("read_here")

ROWS, LABELLED = 300, 160
RNG = np.random.default_rng(0)
SPAM = RNG.random(ROWS) < 0.5
X = RNG.normal(size=(ROWS, 2)).round(3) + 1.6 * SPAM[:, None]
CSV = "age,width,label\n" + "".join(
    f"{X[i, 0]:.3f},{X[i, 1]:.3f},{('ham', 'spam')[int(SPAM[i])] if i < LABELLED else ''}\n" for i in range(ROWS)
)
OBJECTIVE = {"kind": "f1", "abstain": {"precision": 0.9}}


@pytest.fixture
def trainer(settings: Settings, database: Database) -> Iterator[Bench]:
    bench = Bench(settings, database, runner="worker.fit")
    wait_for(lambda: bench.spares.is_warm, 120)
    yield bench
    bench.close()


def model_of(client: httpx.Client, job: dict[str, Any]) -> str:
    return str(client.get(f"/jobs/{job['id']}").json()["model_id"])


def test_asked_for_told_and_trained_again(client: httpx.Client, trainer: Bench) -> None:
    dataset = upload(client, CSV.encode())
    body = train_body(dataset, params={}, objective=OBJECTIVE, alias="careful")
    dry = client.post("/train?dry_run=true", json=body)
    assert dry.status_code == 200, dry.text
    assert dry.json()["request"]["objective"]["abstain"] == OBJECTIVE["abstain"]
    wrong = client.post("/train", json=body | {"objective": {"kind": "f1", "abstain": {"precision": 0.4}}})
    assert problem(wrong, 422, "invalid-request")["errors"][0]["field"].endswith("abstain.precision")

    job = client.post("/train", json=body).json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"
    shown = client.get("/models/careful").json()
    chosen = shown["abstain"]
    assert chosen["lower"] <= shown["threshold"] <= chosen["upper"]
    assert chosen["lower"] < chosen["upper"]
    assert shown["report"]["test_abstain"]["rows"] == shown["report"]["rows"]["test"]
    finished = [event.data for event in trainer.events(job["id"]) if event.kind == "finished"]
    assert "Left undecided" in finished[0]["promise"]["sentence"]

    rows = [{"age": float(age), "width": float(width)} for age, width in X]
    answer = client.post("/predict", json={"model": "careful", "rows": rows}).json()
    said = [each["label"] for each in answer["predictions"]]
    assert {*said} == {"ham", "spam", None}
    assert said[LABELLED:].count(None) == shown["report"]["unlabelled"]["undecided"]
    queue = client.get("/models/careful/queue", params={"n": 40}).json()["items"]
    assert {each["row"]: each["label"] for each in queue} == {each["row"]: said[each["row"]] for each in queue}
    assert any("undecided" in each["reason"] for each in queue if each["label"] is None)
    feedback = {"alias": "careful", "rows": rows[:1], "labels": [None]}
    problem(client.post("/feedback", json=feedback), 422, "invalid-request")

    again = client.post("/aliases/careful/retrain").json()
    assert trainer.supervisor.run(again["id"]) == "succeeded"
    newer = client.get(f"/models/{model_of(client, again)}").json()
    assert newer["abstain"] is not None
    told = newer["report"]["succession"]
    assert (told["moved"], told["model"]) == (True, shown["id"])
    assert "the older one for" not in told["sentence"]  # the same was asked of both
    point = {"objective": {"kind": "recall", "target": 0.8, "abstain": {"precision": 0.8}}, "apply": True}
    client.post("/models/careful/operating-points", json=point).raise_for_status()
    third = client.post("/aliases/careful/retrain").json()
    assert trainer.supervisor.run(third["id"]) == "succeeded"
    kept = client.get(f"/models/{model_of(client, third)}").json()
    assert kept["operating_point"]["objective"] == point["objective"]
    assert kept["operating_point"]["abstain"]["precision"] == 0.8
