"""What decided, what weighs most, and labelled rows that contradict a model: shown as text, as the calls say it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from api_support import HAM, SPAM, text_model, tiny_model, upload
from pages_support import Place, Visitor
from sqlalchemy import text

from solver.nearest import KeptRows

pytestmark = pytest.mark.usefixtures("read_here")

HOSTILE = "<img/src=x/onerror=alert(1)>"
WEIGHTS = {
    "rows": 40,
    "adds_up": True,
    "columns": [
        {"kind": "column", "column": "<b>age", "term": None, "mean": 0.1, "mean_size": 0.8, "rows": 40},
        {"kind": "encoding", "column": "note", "term": None, "mean": 0.1, "mean_size": 0.2, "rows": 40},
    ],
    "terms": [
        {"kind": "term", "column": "note", "term": HOSTILE, "mean": 0.3, "mean_size": 0.3, "rows": 9},
        {"kind": "term", "column": "note", "term": "meeting", "mean": -0.2, "mean_size": 0.2, "rows": 4},
    ],
    "sentence": "What the model's scores are made of.",
}
QUEUE = {
    "improve": {"rows": [], "scores": [], "reasons": [], "covers": [], "compared": 0},
    "suspicious": {
        **{"rows": [3, 6, 0], "scores": [-0.9, 0.1, 0.8], "positive": [True, False, False], "judged": 40},
        "better_than_chance": True,
    },
}


def told(place: Place, model: str, **changes: Any) -> None:
    with place.database.transaction() as session:
        said = session.execute(text("SELECT report FROM models WHERE id = :id"), {"id": model}).scalar_one()
        values = {"told": json.dumps(said | changes), "id": model, "dataset": place.dataset}
        session.execute(
            text("UPDATE models SET report = CAST(:told AS jsonb), dataset_id = :dataset WHERE id = :id"), values
        )


def test_what_decided_is_what_the_call_says(place: Place) -> None:
    model = place.model(text_model(("subject", "body")))
    visitor = Visitor(place.client)
    mail = f"Subject: Claim it\r\n\r\n{SPAM} {HOSTILE}"
    page = visitor.send(visitor.open(f"/ui/models/{model}/try"), "/try", holding={"way": "mail"}, text=mail)
    body = {"model": model, "messages": [mail], "explain": 8}
    why = place.client.post("/predict", json=body).json()["predictions"][0]["explanation"]
    assert len(why["weights"]) == 8
    for each in why["weights"]:
        assert f"{each['term']} in {each['column']} {each['change']:+.3g}" in page.text
    assert f"All others together: {why['rest']:+.3g}" in page.text
    assert "Labelled rows most like it" not in page.text  # a model of before has kept none
    assert "<img/src" not in visitor.answer.text
    nothing = visitor.send(page, "/try", holding={"way": "mail"}, text="Subject: \r\n\r\n?")
    assert "Nothing of it is known to the model" in nothing.text


def test_what_weighs_most_is_on_the_page_of_the_model(place: Place) -> None:
    model = place.model(tiny_model())
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}")
    assert "What weighs most" not in page.text  # of a model of before
    assert [link for link in page.links if link.endswith("/mistakes")]
    told(place, model, weights=WEIGHTS)
    page = visitor.open(f"/ui/models/{model}")
    assert "Columns <b>age 0.8 note encoded 0.2 Words" in page.text
    assert f"{HOSTILE} in note +0.3 meeting in note -0.2" in page.text
    assert "What the model's scores are made of." in page.text
    assert "<img/src" not in visitor.answer.text
    assert not page.inline
    told(place, model, weights={**WEIGHTS, "terms": [], "columns": []})
    assert "What weighs most" in visitor.open(f"/ui/models/{model}").text


def test_mistakes_are_labelled_rows_with_what_they_hold(place: Place) -> None:
    model = place.model(tiny_model())
    visitor = Visitor(place.client)
    assert (
        "the data set that this model was trained on was deleted" in visitor.open(f"/ui/models/{model}/mistakes").text
    )
    told(place, model, queue=QUEUE)
    page = visitor.open(f"/ui/models/{model}/mistakes")
    assert "spam is its label · row 3" in page.text
    assert page.text.index("row 3") < page.text.index("row 0")
    # One whose label is in doubt, and that the threshold calls as it is labelled, is no mistake.
    assert "row 6" not in page.text
    assert "called otherwise by the threshold in use, 0.25, as" in page.text
    assert "In all 1 of 10 calibration rows is called otherwise: 1 flagged wrongly, 0 missed." in page.text
    found = place.client.get(f"/models/{model}/queue?purpose=mistakes").json()
    assert [item["row"] for item in found["items"]] == [3, 0]
    assert found["items"][0]["reason"].endswith(", and the threshold calls it 'ham'")
    assert "age 23" in page.text
    assert [link for link in page.links if link.endswith(f"try?dataset={place.dataset}&row=3")]
    assert [link for link in page.links if link.endswith("label?purpose=suspicious")]
    # Of another threshold others are mistakes.
    body = {"threshold": -2.0, "apply": True}
    place.client.post(f"/models/{model}/operating-points", json=body).raise_for_status()
    page = visitor.open(f"/ui/models/{model}/mistakes")
    assert "in use, -2 (picked by hand after the training)" in page.text
    assert [f"row {row}" in page.text for row in (3, 6, 0)] == [False, True, True]
    told(
        place,
        model,
        queue={**QUEUE, "suspicious": {**QUEUE["suspicious"], "judged": 0, "rows": [], "scores": [], "positive": []}},
    )
    assert "No label could be judged" in visitor.open(f"/ui/models/{model}/mistakes").text
    visitor.open("/ui/models/nobodys/mistakes", 404)


@pytest.mark.parametrize("given", [HAM, HOSTILE * 2_000, "\u202e\x1b[31m " * 50])
def test_any_text_can_be_explained(place: Place, given: str) -> None:
    model = place.model(text_model(("body",)))
    visitor = Visitor(place.client)
    row = orjson.dumps({"body": given}).decode()
    page = visitor.send(visitor.open(f"/ui/models/{model}/try"), "/try", holding={"way": "json"}, text=row)
    assert "What decided" in page.text
    html = visitor.answer.text
    assert "<img" not in html.split("<textarea")[0]
    assert "\u202e" not in html.split("<textarea")[0]


def test_a_row_that_is_like_it_can_be_opened(place: Place) -> None:
    made = tiny_model()
    model = place.model(made)
    X = np.asarray(made.decision.support_vectors)
    kept = KeptRows.of(X, np.arange(4), np.array([True, False, True, False]), np.array([5, 6, 7, 99]), 60, 0)
    path = place.folder / "kept"
    kept.named_by([f"<i>k{number}" for number in range(60)]).write(path)
    told(place, model)
    with place.database.transaction() as session:
        values = {"rows": path.read_bytes(), "id": model}
        session.execute(text("UPDATE models SET kept_rows = :rows WHERE id = :id"), values)
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}/try?dataset={upload(place.client)['id']}&row=0")
    assert "spam row 5 <i>k5" in page.text
    assert "ham a row of the feedback" in page.text
    assert "% alike" in page.text
    assert [link for link in page.links if link.endswith(f"try?dataset={place.dataset}&row=5")]
