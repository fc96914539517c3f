"""Operating points and curves of stored models on the real application: new thresholds without training, pictures."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from api_support import problem, report, store_model
from matplotlib.image import imread
from sqlalchemy import text

from solver.evaluation import WORTH_FOR_INTERVALS, OperatingCurve, fit_sigmoid, measures
from solver.evaluation.counts import confusion
from solver.operating_point import Objective, choose_threshold

ROWS = [{"age": age, "job": "clerk"} for age in range(10, 70)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def calibrated(database, tmp_path, rng, n: int = 400, **changes):
    """Store a model with the report of `n` calibration rows, and return its id with their scores and classes."""
    y = rng.random(n) < 0.4
    scores = 2 * y + rng.normal(size=n)
    curve = OperatingCurve.from_scores(scores, y)
    rows = report()["rows"] | {"labelled": 2 * n, "positive": 2 * int(y.sum())}
    sigmoid = fit_sigmoid(scores, y)
    made = report() | {
        "curve": curve.to_dict(),
        "rows": rows,
        "labeled_split": "part",
        "threshold_rule": "auto",
        "probability": {"slope": sigmoid.slope, "offset": sigmoid.offset, "brier": 0.1, "reliability": []},
    }
    model = store_model(database, tmp_path)
    with database.transaction() as session:
        session.execute(
            text("UPDATE models SET report = CAST(:report AS jsonb) WHERE id = :id"),
            {"report": json.dumps(made | changes), "id": model},
        )
    return model, scores, y


@pytest.mark.parametrize(
    "objective",
    [
        {"kind": "precision", "target": 0.9},
        {"kind": "recall", "target": 0.95},
        {"kind": "precision_recall", "precision": 0.7, "recall": 0.7},
        {"kind": "ham_loss", "at_most": 0.02},
        {"kind": "false_positive_rate", "at_most": 0.02},
        {"kind": "f_beta", "beta": 2.0},
        {"kind": "cost", "false_negative": 10.0, "false_positive": 1.0},
    ],
)
def test_another_objective_without_training(client, database, tmp_path, rng, objective):
    model, scores, y = calibrated(database, tmp_path, rng)
    point = client.post(f"/models/{model}/operating-points", json={"objective": objective})
    assert point.status_code == 200, point.text
    expected = choose_threshold(scores, y, Objective.parse(objective))
    body = point.json()
    assert (body["objective"], body["threshold"]) == (objective, expected.threshold)
    likely = body["promise"]["level"] != "open"  # reached on the calibration rows; met is what is likely to hold
    assert (body["status"], body["status_reason"]) == (
        ("met", "") if likely else ("cannot_certify", body["promise"]["sentence"])
    )
    counted = confusion(y, scores > body["threshold"])
    costs = Objective.parse(objective).costs
    assert body["calibration"] == measures(counted, costs=costs, worth=WORTH_FOR_INTERVALS).to_dict()
    assert body["created_at"] is None
    assert client.get(f"/models/{model}").json()["threshold"] == 0.25
    assert client.get(f"/models/{model}/operating-points").json()["items"] == []


def test_a_threshold_of_the_curve_is_taken_as_it_is_and_proves_nothing(client, database, tmp_path, rng):
    model, scores, y = calibrated(database, tmp_path, rng)
    path = f"/models/{model}/operating-points"
    points = client.get(f"/models/{model}/thresholds").json()["points"]
    picked = points[len(points) // 3]
    target = round(picked["precision"]["value"] - 1e-4, 4)
    asked = {"objective": {"kind": "precision", "target": target}, "threshold": picked["threshold"]}
    body = client.post(path, json=asked | {"apply": True}).json()
    assert body["threshold"] == picked["threshold"]
    counted = confusion(y, scores > picked["threshold"])
    assert (counted.true_positives, counted.false_positives) == (picked["true_positives"], picked["false_positives"])
    assert body["calibration"] == measures(counted, worth=WORTH_FOR_INTERVALS).to_dict()
    # As good as that on the rows by which it was picked: that it holds for others is as likely as not.
    assert body["promise"]["level"] == "open"
    assert 0.2 < body["promise"]["chance"] < 0.75
    assert body["status"] == "cannot_certify"
    assert client.get(f"/models/{model}").json()["operating_point"]["promise"] == body["promise"]
    assert client.post("/predict", json={"model": model, "rows": ROWS}).json()["threshold"] == picked["threshold"]
    # A target far below it is likely to hold, and one above it is missed.
    for far, level in ((-0.2, "likely"), (0.05, "missed")):
        lower = asked | {"objective": {"kind": "precision", "target": min(1.0, round(target + far, 4))}}
        assert client.post(path, json=lower).json()["promise"]["level"] == level
    said = problem(client.post(path, json=asked | {"threshold": picked["threshold"] + 1e-6}), 422, "invalid-request")
    assert said["errors"][0]["field"] == "body.threshold"


def test_a_picked_threshold_asks_for_nothing_else(client, database, tmp_path, rng):
    """A handle at recall 100 % made "at least 100 %" of the objective, which retrainings went by."""
    model, _, _ = calibrated(database, tmp_path, rng)
    path = f"/models/{model}/operating-points"
    asked = {"kind": "recall", "target": 0.9}
    chosen = client.post(path, json={"objective": asked, "apply": True}).json()
    assert not chosen["picked"]
    points = client.get(f"/models/{model}/thresholds").json()["points"]
    all_found = next(point for point in points if point["recall"]["value"] == 1.0)
    body = client.post(path, json={"threshold": all_found["threshold"], "apply": True}).json()
    assert (body["objective"], body["threshold"], body["picked"]) == (asked, all_found["threshold"], True)
    assert body["promise"]["level"] == "likely"
    few = client.post(path, json={"threshold": points[5]["threshold"]}).json()
    assert (few["objective"], few["status"], few["promise"]["level"]) == (asked, "preference_unmet", "missed")
    # The one that is chosen for it is not picked, though it was named.
    again = client.post(path, json={"threshold": chosen["threshold"]}).json()
    assert again == chosen | {"created_at": None}
    assert [point["picked"] for point in client.get(path).json()["items"]] == [True, False]
    assert client.get(f"/models/{model}").json()["operating_point"]["picked"]
    assert "by a threshold that was picked by hand" in client.get(f"/models/{model}/card").text


def test_a_picked_threshold_never_proves_what_is_asked_with_a_confidence(client, database, tmp_path, rng):
    model, _, _ = calibrated(database, tmp_path, rng)
    path = f"/models/{model}/operating-points"
    proven = {"kind": "recall", "target": 0.8, "confidence": 0.95, "abstain": {"precision": 0.7}}
    assert client.post(path, json={"objective": proven, "apply": True}).json()["promise"]["level"] == "proven"
    points = client.get(f"/models/{model}/thresholds").json()["points"]
    at = points[-2]["threshold"]
    for body in ({"threshold": at, "apply": True}, {"threshold": at, "objective": proven}):
        picked = client.post(path, json=body).json()
        assert (picked["objective"], picked["picked"], picked["status"]) == (proven, True, "cannot_certify")
        assert picked["promise"]["level"] == "likely"
        assert "proven" not in {picked["promise"]["abstain"][side]["level"] for side in ("positive", "negative")}
    assert client.get(f"/models/{model}").json()["promise"] == picked["promise"]


def test_an_applied_point_shows_everywhere_what_it_promises(client, database, tmp_path, rng):
    model, _, _ = calibrated(database, tmp_path, rng)
    asked = {"objective": {"kind": "precision", "target": 0.9}, "apply": True}
    promise = client.post(f"/models/{model}/operating-points", json=asked).json()["promise"]
    assert promise["level"] in ("likely", "open")
    assert "precision 90%" in promise["sentence"].lower()
    shown = client.get(f"/models/{model}").json()
    assert shown["operating_point"]["promise"] == promise
    assert shown["report"]["promise"] is None  # that of the training
    in_use = {name: shown["operating_point"][name] for name in ("objective", "status", "threshold", "promise")}
    for one in (shown, client.get("/models").json()["items"][0]):
        assert {name: one[name] for name in in_use} == in_use
    assert client.get(f"/models/{model}/operating-points").json()["items"][0]["promise"] == promise
    assert client.get(f"/models/{model}/curves/pr").json()["promise"] == promise
    card = client.get(f"/models/{model}/card").text
    assert card.index("count on") < card.index("## What it was asked for")
    assert "prefsvm audit" not in card  # fewer labels do
    asked["objective"]["target"] = 0.95
    closer = client.post(f"/models/{model}/operating-points", json=asked).json()["promise"]
    assert "in an audit" in closer["sentence"]
    assert f"`prefsvm audit {model} FILE --objective precision=0.95`" in client.get(f"/models/{model}/card").text
    assert card.count(promise["sentence"].replace("~", "\\~")) == 1
    picture = client.get(f"/models/{model}/curves/pr", headers={"Accept": "image/svg+xml"}).text
    assert "count on" in picture


def test_what_cannot_be_reached_or_certified_is_said(client, database, tmp_path, rng):
    model, _, _ = calibrated(database, tmp_path, rng)

    def choose(**objective):
        return client.post(f"/models/{model}/operating-points", json={"objective": objective}).json()

    both = choose(kind="precision_recall", precision=0.99, recall=0.98)
    assert both["status"] == "preference_unmet"
    assert "where 99% was asked" in both["status_reason"]
    assert choose(kind="recall", target=0.8, confidence=0.95)["status"] == "met"
    assert choose(kind="precision", target=1.0, confidence=0.99)["status"] == "cannot_certify"
    crossfit, _, _ = calibrated(database, tmp_path, rng, labeled_split="xfit")
    wanted = {"kind": "recall", "target": 0.8, "confidence": 0.95}
    uncertain = client.post(f"/models/{crossfit}/operating-points", json={"objective": wanted}).json()
    assert uncertain["status"] == "cannot_certify"
    assert "kept no rows apart" in uncertain["status_reason"]
    assert uncertain["calibration"]["recall"]["value"] >= 0.8


def test_an_applied_point_decides_and_is_on_record(client, database, tmp_path, rng):
    model, _, _ = calibrated(database, tmp_path, rng)
    client.put("/aliases/now", json={"model": model})

    def predict():
        body = client.post("/predict", json={"model": "now", "rows": ROWS}).json()
        assert all((p["label"] == "spam") == (p["score"] > body["threshold"]) for p in body["predictions"])
        return body

    def apply(objective):
        answer = client.post(f"/models/{model}/operating-points", json={"objective": objective, "apply": True})
        assert answer.status_code == 200, answer.text
        return answer.json()

    before = predict()
    assert before["threshold"] == 0.25
    strict = apply({"kind": "precision", "target": 1.0})
    after = predict()
    assert after["threshold"] == strict["threshold"] > 0.25
    assert [p["score"] for p in after["predictions"]] == [p["score"] for p in before["predictions"]]
    assert [p["label"] for p in after["predictions"]] != [p["label"] for p in before["predictions"]]
    lax = apply({"kind": "recall", "target": 0.99})
    assert predict()["threshold"] == lax["threshold"] < strict["threshold"]
    shown = client.get(f"/models/{model}").json()
    assert (shown["threshold"], shown["objective"], shown["status"]) == (
        lax["threshold"],
        lax["objective"],
        lax["status"],
    )
    assert shown["operating_point"] == lax
    assert shown["report"]["threshold"] == 0.25
    assert client.get("/models").json()["items"][0]["threshold"] == lax["threshold"]
    curve = client.get(f"/models/{model}/curves/pr").json()
    assert (curve["threshold"], curve["calibration"]) == (lax["threshold"], lax["calibration"])
    back = apply(None)
    assert (back["threshold"], back["objective"], back["calibration"]) == (
        0.25,
        {"kind": "f1"},
        report()["calibration"],
    )
    assert predict() == before
    listed = client.get(f"/models/{model}/operating-points", params={"limit": 2}).json()
    rest = client.get(f"/models/{model}/operating-points", params={"cursor": listed["next_cursor"]}).json()
    assert listed["items"] + rest["items"] == [back, lax, strict]
    assert rest["next_cursor"] is None
    client.put("/aliases/now", json={"model": store_model(database, tmp_path)})
    assert client.delete(f"/models/{model}").status_code == 204
    with database.transaction() as session:
        assert session.execute(text("SELECT count(*) FROM operating_points")).scalar_one() == 0


def test_errors(client, database, tmp_path, rng):
    model, _, _ = calibrated(database, tmp_path, rng)
    path = f"/models/{model}/operating-points"
    for objective in (
        {"kind": "precision", "target": 0},
        {"kind": "precision", "target": 1.5},
        {"kind": "cost", "false_negative": -1, "false_positive": 1},
        {"kind": "f1", "target": 0.5},
        {"kind": "magic"},
        "f1",
    ):
        wrong = problem(client.post(path, json={"objective": objective}), 422, "invalid-request")
        assert wrong["errors"][0]["field"].startswith("body.objective")
    problem(client.post(path, json={"goal": 1}), 422, "invalid-request")
    for unknown in ("mdl_" + "0" * 32, "x"):
        body = {"objective": {"kind": "f1"}, "apply": True}
        problem(client.post(f"/models/{unknown}/operating-points", json=body), 404, "model-not-found")
        problem(client.get(f"/models/{unknown}/operating-points"), 404, "model-not-found")
    bare, _, _ = calibrated(database, tmp_path, rng, curve=None)
    problem(client.post(f"/models/{bare}/operating-points", json={"objective": {"kind": "f1"}}), 404, "no-curve")
    problem(client.get(f"/models/{bare}/curves/pr"), 404, "no-curve")


def test_curves_as_numbers(client, database, tmp_path, rng):
    model = store_model(database, tmp_path)
    pr = client.get(f"/models/{model}/curves/pr").json()
    assert (pr["kind"], pr["threshold"], pr["positive"]) == ("pr", 0.25, "spam")
    assert pr["calibration"] == report()["calibration"]
    assert pr["points"] == [
        {"threshold": 2.0, "precision": None, "recall": 0.0},
        {"threshold": 0.25, "precision": 0.8, "recall": 1.0},
        {"threshold": -2.0, "precision": 0.4, "recall": 1.0},
    ]
    roc = client.get(f"/models/{model}/curves/roc").json()
    assert roc["points"][1] == {"threshold": 0.25, "false_positive_rate": 1 / 6, "true_positive_rate": 1.0}
    cost = client.get(f"/models/{model}/curves/cost").json()
    assert (cost["false_negative"], cost["false_positive"], cost["assumed"]) == (1.0, 1.0, True)
    assert cost["points"] == [
        {"threshold": 2.0, "positive_share": 0.0, "cost": 0.4},
        {"threshold": 0.25, "positive_share": 0.5, "cost": 0.1},
        {"threshold": -2.0, "positive_share": 1.0, "cost": 0.6},
    ]
    dear = client.get(f"/models/{model}/curves/cost", params={"false_negative": 10, "false_positive": 2}).json()
    assert ([point["cost"] for point in dear["points"]], dear["assumed"]) == ([4.0, 0.2, 1.2], False)
    weighted, _, _ = calibrated(
        database, tmp_path, rng, objective={"kind": "cost", "false_negative": 7, "false_positive": 3}
    )
    client.post(f"/models/{weighted}/operating-points", json={"objective": {"kind": "f1"}, "apply": True})
    kept = client.get(f"/models/{weighted}/curves/cost").json()
    assert (kept["objective"], kept["false_negative"], kept["false_positive"]) == ({"kind": "f1"}, 7, 3)
    assert not kept["assumed"]
    problem(client.get(f"/models/{model}/curves/cost", params={"false_negative": 0}), 422, "invalid-request")
    problem(client.get(f"/models/{model}/curves/cost", params={"false_negative": "nan"}), 422, "invalid-request")
    problem(client.get(f"/models/{model}/curves/magic"), 422, "invalid-request")


def test_curves_as_pictures(client, database, tmp_path, rng):
    objective = {"kind": "recall", "target": 0.9}
    classes = {"negative": "ham", "positive": '<script>"&\x07 long' + "g" * 300}
    model, _, _ = calibrated(database, tmp_path, rng, objective=objective, classes=classes)
    for kind, dashed in (("pr", "target: recall 90%"), ("roc", "guessing"), ("cost", "mean cost (prices 1:1 assumed)")):
        path = f"/models/{model}/curves/{kind}"
        picture = client.get(path, headers={"Accept": "image/svg+xml"})
        assert picture.status_code == 200
        assert picture.headers["content-type"] == "image/svg+xml"
        assert picture.headers["vary"] == "Accept"
        assert "default-src 'none'" in picture.headers["content-security-policy"]
        root = ET.fromstring(picture.content)  # noqa: S314 (made here)
        assert "script" not in {element.tag.rpartition("}")[2] for element in root.iter()}
        texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert any("in use" in shown for shown in texts)
        assert dashed in texts
        assert any(shown.startswith("positive: <script>") for shown in texts)
        assert max(map(len, texts)) < 90
        assert len(picture.content) < 60_000
        assert client.get(path, headers={"Accept": "image/svg+xml"}).content == picture.content
        raster = client.get(path, headers={"Accept": "image/png"})
        assert raster.headers["content-type"] == "image/png"
        pixels = imread(io.BytesIO(raster.content))
        assert pixels.shape[:2] == (1040, 1280)
        assert 0.01 < (pixels[..., :3].min(axis=2) < 0.9).mean() < 0.3  # drawn, on white
    for accept, kind in (
        ("image/png;q=0.9, image/svg+xml", "image/svg+xml"),
        ("image/png, image/svg+xml;q=0.9", "image/png"),
        ("image/*", "image/svg+xml"),
        ("application/json;q=0.5, image/svg+xml;q=0.4", "application/json"),
        ("text/html, */*;q=0.1", "application/json"),
        ("", "application/json"),
    ):
        assert client.get(path, headers={"Accept": accept}).headers["content-type"] == kind
    for accept in ("image/jpeg", "text/html", "image/svg+xml;q=0", "image/png;q=x"):
        refused = problem(client.get(path, headers={"Accept": accept}), 406, "not-acceptable")
        assert "image/svg+xml" in refused["detail"]
