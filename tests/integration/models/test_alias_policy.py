"""A training for an alias that points at a model: both on the same rows, and whether the alias moves, at every door."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from api_support import train_body, upload
from sqlalchemy import text
from typer.testing import CliRunner
from worker_bench import Bench

from service.cli.main import app
from service.db.session import Database

pytestmark = pytest.mark.usefixtures("read_here")

Train = Callable[[httpx.Response], dict[str, Any]]
ALL, SOME = 240, 160


@pytest.fixture
def trained(client: httpx.Client, trainer: Bench) -> Train:
    """Runs a job that was asked for, and gives its model."""

    def run(asked: httpx.Response) -> dict[str, Any]:
        assert asked.status_code == 202, asked.text
        assert trainer.supervisor.run(asked.json()["id"]) == "succeeded"
        made = client.get(f"/jobs/{asked.json()['id']}").json()["model_id"]
        found: dict[str, Any] = client.get(f"/models/{made}").json()
        return found

    return run


def table(labelled: int, extra: str = "") -> bytes:
    """240 rows, the first of them labelled; column b tells the classes apart nearly well, a not at all."""
    rng = np.random.default_rng(0)
    y = np.arange(ALL) % 2
    lines = [
        f"{a:.4f},{b:.4f},{('ham', 'spam')[k] if i < labelled else ''}" + (",x" if extra else "")
        for i, (a, b, k) in enumerate(zip(rng.normal(size=ALL), rng.normal(size=ALL) + 2.5 * y, y, strict=True))
    ]
    return "\n".join([f"a,b,label{extra}", *lines]).encode()


def body(dataset: dict[str, Any], **changes: Any) -> dict[str, Any]:
    asked = {"objective": {"kind": "f1"}, "alias": "filter", "params": {}, "test_fraction": 0.3}
    return train_body(dataset, **(asked | changes))


def pointed_at(client: httpx.Client) -> str:
    found: str = client.get("/aliases/filter").json()["model_id"]
    return found


def test_the_alias_stays_where_the_new_model_is_worse(client: httpx.Client, trained: Train, database: Database) -> None:
    dataset = upload(client, table(SOME), name="some.csv")
    unmet = {"kind": "precision", "target": 1.0, "confidence": 0.999}
    none = trained(client.post("/train", json=body(dataset, objective=unmet, alias_policy="if_met")))
    assert client.get("/aliases/filter").status_code == 404
    assert none["report"]["succession"]["sentence"].startswith("there is no alias filter: its status is ")

    first = trained(client.post("/train", json=body(dataset)))
    assert first["report"]["succession"] == {
        "alias": "filter", "policy": "if_not_worse", "moved": True, "model": None, "promise": None, "rows": None,
        "sentence": "filter points at this model: it pointed at no model before",
    }  # fmt: skip
    # A retraining has the same test rows; the older model has learned them, so what they measured before counts.
    again = trained(client.post("/aliases/filter/retrain"))
    told = again["report"]["succession"]
    assert (told["moved"], told["model"], told["promise"]) == (True, first["id"], first["report"]["promise"])
    assert (told["rows"]["n"], told["rows"]["new"], told["rows"]["gain"]) == (48, 0, 0.0)
    assert told["rows"]["before"] == told["rows"]["now"]
    assert told["rows"]["before"]["true_positives"] == first["report"]["test"]["true_positives"]

    # Of a threshold that was applied since, nothing is known on these rows; of one that a training applied, all is.
    point = {"objective": {"kind": "recall", "target": 1}, "apply": True}
    client.post("/models/filter/operating-points", json=point).raise_for_status()
    tuned = trained(client.post("/aliases/filter/retrain"))["report"]["succession"]
    assert (tuned["moved"], tuned["rows"]) == (True, None)
    assert "or was tested on them before another threshold was applied to it" in tuned["sentence"]
    tuned = trained(client.post("/aliases/filter/retrain"))
    told = tuned["report"]["succession"]["rows"]
    assert tuned["operating_point"]["objective"]["kind"] == "recall"
    assert (told["n"], told["new"], told["gain"]) == (48, 0, 0.0)
    assert told["before"] == told["now"] != again["report"]["succession"]["rows"]["now"]

    # A point that is applied while a training waits or runs is the later wish.
    asked = client.post("/aliases/filter/retrain")
    point = {"objective": {"kind": "precision", "target": 0.9}, "apply": True}
    client.post("/models/filter/operating-points", json=point).raise_for_status()
    told = trained(asked)["report"]["succession"]
    assert "by an operating point that was applied while this model was trained" in told["sentence"]
    assert (told["moved"], pointed_at(client)) == (False, tuned["id"])
    client.put("/aliases/filter", json={"model": first["id"]}).raise_for_status()

    # With more labels, those rows count that had none before.
    more = upload(client, table(ALL), name="all.csv")
    better = trained(client.post("/train", json=body(more)))
    told = better["report"]["succession"]
    assert told["moved"]
    assert 10 < told["rows"]["new"] < told["rows"]["n"] < better["report"]["test"]["n"]
    assert pointed_at(client) == better["id"]

    asked = client.post("/train", json=body(more, features={"exclude": ["b"]}))
    worse = trained(asked)
    told = worse["report"]["succession"]
    assert not told["moved"]
    assert told["rows"]["high"] < 0
    assert f"filter stays at {better['id']}: worse on {told['rows']['n']} common rows: F1 " in told["sentence"]
    assert told["sentence"].endswith(f'to use this model: PUT /aliases/filter with {{"model": "{worse["id"]}"}}')
    assert told["sentence"] in worse["report"]["warnings"]
    events = {
        event["kind"]: event["data"] for event in client.get(asked.headers["location"] + "/events").json()["items"]
    }
    assert events["warning"] == {"code": "alias_not_moved", "alias": "filter", "message": told["sentence"]}
    assert events["finished"]["alias"] == {"name": "filter", "moved": False, "sentence": told["sentence"]}
    assert pointed_at(client) == better["id"]
    card = client.get(f"/models/{worse['id']}/card").text
    assert re.search(
        rf"## Beside the model before.*{better['id']}.*\| this training \| {told['rows']['n']} \|", card, re.S
    )
    said = CliRunner().invoke(app, ["models", worse["id"], "--url", str(client.base_url)]).output
    counted = rf"{told['rows']['n']} +{told['rows']['n']}"
    assert re.search(rf"beside {better['id']}, on rows .*\n.*before +now.*\n(.*\n)?.*rows +{counted}", said), said
    assert f"prefsvm aliases set filter {worse['id']}" in said

    # Another objective, and a policy that does not ask, are followed.
    other = trained(client.post("/train", json=body(more, objective={"kind": "recall", "target": 0.5})))
    assert "it was asked for recall 50%, the older one for f1" in other["report"]["succession"]["sentence"]
    assert pointed_at(client) == other["id"]
    always = trained(client.post("/aliases/filter/retrain", json={"alias_policy": "always"}))
    assert (always["report"]["succession"]["policy"], pointed_at(client)) == ("always", always["id"])
    assert trained(client.post("/aliases/filter/retrain"))["report"]["succession"]["policy"] == "always"

    # What is not known is said: of a model of before, and of one that needs other columns.
    with database.transaction() as session:
        session.execute(text("UPDATE models SET labelled_rows = NULL"))
    asked = body(more, objective={"kind": "recall", "target": 0.5})
    for dataset, reason in (
        (more, "which rows the older model had learned was not kept"),
        (
            upload(client, table(ALL, ",c").replace(b"a,b", b"d,b"), name="other.csv"),
            "do not fit the older model: missing columns: 'a'",
        ),
    ):
        found = trained(client.post("/train", json=asked | {"dataset": dataset["id"]}))["report"]["succession"]
        assert (found["moved"], found["rows"]) == (True, None)
        assert re.search(rf"no common rows to compare on \(.*{reason}", found["sentence"]), found["sentence"]
    assert found["sentence"].endswith("; rows for it need more columns than before: 'd'")


def test_rows_that_feedback_has_added_do_not_keep_two_models_from_being_compared(
    client: httpx.Client, trained: Train
) -> None:
    trained(client.post("/train", json=body(upload(client, table(SOME)), algorithm="svm")))
    rows = [{"a": k / 7, "b": 2.5 * (k % 2) + k / 50} for k in range(20)]
    sent = {"alias": "filter", "rows": rows, "labels": ["ham", "spam"] * 10, "drawn": "random"}
    client.post("/feedback", json=sent).raise_for_status()
    again = trained(client.post("/aliases/filter/retrain"))["report"]
    assert (again["feedback"]["added"], again["feedback"]["held_out"], again["test"]["n"]) == (20, 6, 54)
    assert again["succession"]["rows"]["n"] == 48
