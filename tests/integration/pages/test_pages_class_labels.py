"""Rows of several classes on the page to label: any class is an answer, by its number too, and is learned."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from api_support import upload
from pages_support import Visitor
from typer.testing import CliRunner
from worker_bench import Bench

from service.cli.main import app
from service.db.session import Database
from solver import percents

pytestmark = pytest.mark.usefixtures("read_here")

ROWS = 90
CLASSES = ("apple", "=pear", "plum <b>")
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, ROWS)
X = (RNG.normal(size=(ROWS, 2)) + np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[CODES]).round(3)
LABELS = [CLASSES[code] if row < 45 else "" for row, code in enumerate(CODES.tolist())]
LABELS[0] = CLASSES[(CODES[0] + 1) % 3]
DATA = "age,width,kind\n" + "".join(f"{a},{w},{label}\n" for (a, w), label in zip(X.tolist(), LABELS, strict=True))


def test_any_class_is_an_answer_and_is_learned(client: httpx.Client, trainer: Bench, database: Database) -> None:
    dataset = upload(client, DATA.encode())["id"]
    asked = {"dataset": dataset, "target": "kind", "objective": {"kind": "macro_f1"}, "algorithm": "svm"}
    job = client.post("/train", json=asked | {"alias": "fruit", "test_fraction": 0}).json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"

    queue = client.get("/models/fruit/queue", params={"n": 5}).json()
    first = queue["items"][0]
    assert first["row"] >= 45
    assert {*first["content"]} == {"age", "width"}
    assert {each["drawn"] for each in queue["items"]} == {"random", "chosen"}
    assert all(("drawn at random" in each["reason"]) == (each["drawn"] == "random") for each in queue["items"])
    doubted = client.get("/models/fruit/queue", params={"purpose": "suspicious"}).json()["items"]
    wrong = next(each for each in doubted if each["row"] == 0)
    assert (wrong["label"], wrong["score"] < 0) == (LABELS[0], True)
    assert wrong["reason"].endswith(
        f"models that have not seen this label give {LABELS[0]!r} {percents.measured(wrong['probability'])}"
    )
    assert client.get("/models/fruit").json()["report"].get("queue") is None

    visitor = Visitor(client)
    page = visitor.open("/ui/models/fruit/label")
    assert f"Row {first['row']}" in page.text
    for number, name in enumerate(sorted(("apple", "=pear", "plum &lt;b&gt;")), 1):
        assert f'data-key="{number}"><bdi>{name}</bdi>' in visitor.answer.text
    assert "plum <b>" not in visitor.answer.text
    answered = visitor.send(page, "/ui/models/fruit/label", label="plum <b>")
    assert "Kept" in answered.text
    (sent,) = client.get("/feedback", params={"alias": "fruit"}).json()["items"]
    assert (sent["labels"], sent["rows"]) == ({"plum <b>": 1}, 1)
    assert client.get("/models/fruit/queue").json()["items"][0]["row"] != first["row"]
    environment = {"PREFSVM_URL": str(client.base_url)}
    listed = CliRunner().invoke(app, ["queue", "fruit", "--purpose", "suspicious"], env=environment)
    assert f"{wrong['probability']:.2f}" in listed.output, listed.output
    looked = CliRunner().invoke(app, ["queue", "fruit", "--ask"], env=environment, input="2q")
    assert "1: it is =pear, 2: it is apple, 3: it is plum <b>" in looked.output
    assert "1 labels sent" in looked.output
    again = client.post("/aliases/fruit/retrain", json={"alias_policy": "always"}).json()
    assert trainer.supervisor.run(again["id"]) == "succeeded"
    assert sum(client.get("/models/fruit").json()["report"]["rows"]["by_class"]) == 47
