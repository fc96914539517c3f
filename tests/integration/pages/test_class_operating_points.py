"""Another objective for a model of several classes, without training: chosen, applied, decided by, undone, repeated."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
from api_support import api_client, problem, upload
from pages_support import Visitor
from sqlalchemy import text
from typer.testing import CliRunner
from worker_bench import Bench

from service.cli.main import app
from service.db.session import Database
from service.settings import Settings
from solver.model_file import read_any_model

pytestmark = pytest.mark.usefixtures("read_here")

ROWS = 120
RNG = np.random.default_rng(0)
CLASSES = ("1", "2", "3")
CODES = RNG.integers(0, 3, ROWS)
X = (RNG.normal(size=(ROWS, 2)) + np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[CODES]).round(3)
DATA = "age,width,kind\n" + "".join(f"{a},{w},{CLASSES[c]}\n" for (a, w), c in zip(X.tolist(), CODES, strict=True))
ITEMS = [{"age": a, "width": w} for a, w in X.tolist()]
WANTED = {"kind": "accuracy", "floors": {"1.0": {"precision": 0.9}}}
"""A class may be spelt as it is in a training."""
CALLED = {"kind": "accuracy", "floors": {"1": {"precision": 0.9}}}
POINTS = "/models/fruit/operating-points"


@pytest.fixture
def dataset(client: httpx.Client, trainer: Bench, database: Database) -> str:
    """A data set, on which a model was trained."""
    found: str = upload(client, DATA.encode())["id"]
    asked = {
        "dataset": found,
        "target": "kind",
        "objective": {"kind": "macro_f1"},
        "algorithm": "svm",
        "scheme": "one_vs_rest",
        "alias": "fruit",
        "test_fraction": 0,
    }
    job = client.post("/train", json=asked).json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"
    return found


def labels(client: httpx.Client) -> list[str | None]:
    made = client.post("/predict", json={"model": "fruit", "rows": ITEMS}).json()["predictions"]
    return [each["label"] for each in made]


def test_a_rule_is_applied_at_every_door_undone_and_chosen_again_by_a_retraining(
    client: httpx.Client, dataset: str, trainer: Bench, bench: Bench
) -> None:
    before = labels(client)
    trained = client.get("/models/fruit").json()
    looked = client.post(POINTS, json={"objective": WANTED}).json()
    assert (looked["objective"], looked["created_at"]) == (CALLED, None)
    assert looked["calibration"]["undecided"] > 0
    assert [floor["measure"] for floor in looked["floors"]] == ["precision"]
    assert labels(client) == before

    applied = client.post(POINTS, json={"objective": WANTED, "apply": True}).json()
    assert {**applied, "created_at": None} == looked
    after = labels(client)
    assert None in after
    shown = client.get("/models/fruit").json()
    assert shown["operating_point"] == applied
    assert (shown["objective"], shown["status"], shown["promise"]) == (
        CALLED,
        applied["status"],
        applied["promise"],
    )
    assert shown["report"] == trained["report"]
    (listed,) = client.get("/models").json()["items"]
    assert (listed["objective"], listed["promise"]) == (CALLED, applied["promise"])
    curve = client.get("/models/fruit/curves/pr", params={"class": "1"}).json()
    of_one = applied["calibration"]["classes"][0]
    assert (curve["objective"], curve["calibration"]["precision"]) == (CALLED, of_one["precision"])
    _doors(client, dataset, bench, after)
    page = client.get("/ui/models/fruit").text
    assert "Undo the last change of the rule" in page
    assert "without training" in client.get("/models/fruit/card").text
    told = _run(client, "models", "fruit")
    assert "trained for best macro-F1" in told
    assert "precision 90% of '1'" in told

    again = client.post("/aliases/fruit/retrain", json={"alias_policy": "always"}).json()
    assert again["request"]["operating_point"] == {**CALLED, "confidence": None}
    assert trainer.supervisor.run(again["id"]) == "succeeded", client.get(f"/jobs/{again['id']}").text
    next_one = client.get("/models/fruit").json()
    assert next_one["id"] != shown["id"]
    assert next_one["operating_point"]["calibration"] == applied["calibration"]
    assert labels(client) == after

    Visitor(client).send(Visitor(client).open("/ui/models/fruit"), "/ui/models/fruit/undo")
    assert labels(client) == before
    points = client.get(POINTS).json()["items"]
    assert [point["objective"]["kind"] for point in points] == ["macro_f1", "accuracy"]
    assert client.get("/models/fruit").json()["objective"]["kind"] == "macro_f1"


def test_how_often_each_class_is_said_of_late(client: httpx.Client, dataset: str, settings: Settings) -> None:
    """Rows that another rule decided do not say how often the one in use says a class."""
    model = client.get("/models/fruit").json()
    with api_client(settings) as first:
        empty = first.get("/models/fruit/drift").raise_for_status().json()
        assert (empty["rows"], empty["undecided_share"]) == (0, None)
        assert [each["share"] for each in empty["classes"]] == [None] * 3
        assert empty["unknown"][0].startswith("no row was counted in these days")
        said = labels(first)
        assert [first.post("/predict", json={"model": "fruit", "rows": [ITEMS[i]]}).status_code for i in (0, 1)] == [
            200
        ] * 2
    said += said[:2]
    with api_client(settings) as second:  # the end of the first one wrote what it had counted
        told = second.get("/models/fruit/drift").raise_for_status().json()
        assert (told["rows"], told["rows_by_rule"], told["undecided_share"]) == (122, 122, 0)
        assert [(each["label"], each["rows"]) for each in told["classes"]] == [(c, said.count(c)) for c in CLASSES]
        for each, figures in zip(told["classes"], model["report"]["calibration"]["classes"], strict=True):
            assert each["low"] < each["share"] == each["rows"] / 122 < each["high"]
            assert (each["calibration"], each["training"]) == (figures["said"] / ROWS, figures["rows"] / ROWS)
        (day,) = told["by_day"]
        assert (day["rows"], day["said"]) == (122, {c: said.count(c) for c in CLASSES})
        page = second.get("/ui/models/fruit").text
        assert "it decided on 122 rows." in page
        assert "Said, of the rows of each day" in page
        assert _run(second, "drift", "fruit").count("%") >= 4 * 3

        second.post(POINTS, json={"objective": WANTED, "apply": True}).raise_for_status()
        moved = second.get("/models/fruit/drift").json()
        assert (moved["rows"], moved["rows_by_rule"], moved["classes"][0]["share"]) == (122, 0, None)
        assert moved["undecided_calibration"] > 0
        assert moved["unknown"][0].startswith("none of the 122 rows was decided by the rule in use")
        assert "none of the 122 rows" in second.get("/ui/models/fruit").text.lower()
        after = labels(second)
    with api_client(settings) as third:
        told = third.get("/models/fruit/drift").json()
        assert (told["rows"], told["rows_by_rule"]) == (242, 120)
        assert told["undecided_share"] == after.count(None) / 120
        assert [each["rows"] for each in told["classes"]] == [after.count(c) for c in CLASSES]


def _doors(client: httpx.Client, dataset: str, bench: Bench, said: list[str | None]) -> None:
    batch = client.post("/batches", json={"model": "fruit", "dataset": dataset, "format": "csv"}).json()
    assert bench.supervisor.run(batch["id"]) == "succeeded"
    content = client.get(f"/batches/{batch['id']}/result").content
    assert [row["label"] or None for row in csv.DictReader(io.StringIO(content.decode()))] == said
    exported = read_any_model(client.get("/models/fruit/export").content)
    assert exported.predict_rows(ITEMS)[0].labels == said
    onnx = client.get("/models/fruit/export", params={"format": "onnx"}).content
    session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    (made,) = session.run(["label"], {"age": X[:, :1], "width": X[:, 1:]})
    assert [each or None for each in made.tolist()] == said


def _run(client: httpx.Client, *arguments: str) -> str:
    environment = {"PREFSVM_URL": str(client.base_url), "COLUMNS": "200"}
    done = CliRunner().invoke(app, arguments, env=environment)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_and_the_command_line_choose_a_rule(client: httpx.Client, dataset: str) -> None:
    visitor = Visitor(client)
    query = {"objective": "class_cost", f"cost-of-{json.dumps(['1', '2'], separators=(',', ':'))}": "9"}
    page = visitor.open(f"/ui/models/fruit?{httpx.QueryParams(query)}")
    assert "Cost of a decided row" in page.text
    visitor.send(page, "/ui/models/fruit/rule")
    shown = client.get("/models/fruit").json()
    assert shown["objective"]["costs"]["1"]["2"] == 9
    assert 'value="9"' in client.get("/ui/models/fruit").text
    both = httpx.QueryParams({"objective": "accuracy", "floor-precision-1": "90", "floor-recall-1": "90"})
    refused = client.get(f"/ui/models/fruit?{both}")
    assert (refused.status_code, "precision or recall" in refused.text) == (200, True)

    told = _run(client, "threshold", "fruit", "--objective", json.dumps(CALLED), "--apply")
    assert "best accuracy, precision 90% of '1'" in told
    assert "in use now" in told
    assert "best accuracy, precision 90% of '1'" in _run(client, "threshold", "fruit")


def test_what_cannot_be_asked_says_where(client: httpx.Client, dataset: str, database: Database) -> None:
    def refused(body: dict[str, Any] | str) -> list[str]:
        raw = body if isinstance(body, str) else json.dumps(body)
        answer = client.post(POINTS, content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
        assert len(answer.content) < 10_000
        return [each["field"] for each in answer.json().get("errors", [])]

    def floors(named: dict[str, Any]) -> dict[str, Any]:
        return {"objective": {"kind": "accuracy", "floors": named}}

    assert refused({"threshold": 0.5}) == ["body.threshold"]
    assert refused({"objective": {"kind": "f1"}}) == ["body.objective.kind"]
    assert refused(floors({"9": {"recall": 0.5}})) == ["body.objective.floors.9"]
    assert refused({"objective": {"kind": "cost", "costs": {"1": {"9": 2}}}}) == ["body.objective.costs.1.9"]
    # two names of one class: none of the two values is lost in silence
    assert refused(floors({"1": {"recall": 0.5}, "1.0": {"recall": 0.9}})) == ["body.objective"]
    assert refused({"objective": {"kind": "cost", "costs": {"1": {"2": 3, "2.0": 4}}}}) == ["body.objective"]
    for hostile in (
        floors({"x" * 10_000: {"recall": 0.5}}),
        floors({str(number): {"recall": 0.5} for number in range(1000)}),
        floors({"1": {"recall": 0.5, "precision": 0.5}}),
        floors({"1": [0.5]}),
        {"objective": {"kind": "cost", "costs": {"1": {"2": -1}}}},
        {"objective": {"kind": "cost", "costs": [[0, 1], [1, 0]]}},
        {"objective": {"kind": "cost", "costs": {"1": {"2": 1e300}}}},
    ):
        places = refused(hostile)
        assert places
        assert all(place.startswith("body.objective") for place in places), places
    refused('{"objective": {"kind": "cost", "costs": {"1": {"2": NaN}}}}')
    same = {one: dict.fromkeys(CLASSES, 1) for one in CLASSES}
    assert refused({"objective": {"kind": "cost", "costs": same}}) == ["body.objective"]

    # one of before, which kept nothing, still goes back to what it was trained for
    with database.transaction() as session:
        session.execute(text("UPDATE models SET left_out = NULL"))
    answer = client.post(POINTS, json={"objective": {"kind": "accuracy"}})
    assert "train it again" in problem(answer, 404, "no-curve")["detail"]
    assert client.post(POINTS, json={"objective": {"kind": "macro_f1"}, "apply": True}).status_code == 200
    with database.transaction() as session:
        session.execute(text("UPDATE models SET left_out = 'nonsense'"))
    problem(client.post(POINTS, json={"objective": {"kind": "accuracy"}}), 500, "damaged-model")
