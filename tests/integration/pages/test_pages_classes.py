"""The page of a training, where the labels are several classes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import httpx
import orjson
import pytest
from api_support import upload
from pages_support import Visitor

pytestmark = pytest.mark.usefixtures("read_here")

LABELS = ["apple", "=pear", 'plum "<b>"']
QUOTED = LABELS[2].replace('"', '""')
DATA = "size,kind\n" + "".join(
    f'{i % 7 + 3 * (i % 3)},"{[*LABELS[:2], QUOTED][i % 3] if i % 2 else ""}"\n' for i in range(120)
)


def asked(client: httpx.Client, dataset: str, **chosen: Any) -> dict[str, Any]:
    """The call that the form makes."""
    query = urlencode({"target": "kind", **chosen}, doseq=True)
    page = Visitor(client).open(f"/ui/datasets/{dataset}/train?{query}")
    body: dict[str, Any] = orjson.loads(page.form("/ui/train")["fields"]["request"])
    return body


def test_several_classes_are_chosen_as_the_call_says_them(client: httpx.Client) -> None:
    dataset = upload(client, DATA.encode())["id"]
    plain = asked(client, dataset)
    assert (plain["objective"], plain.get("positive")) == ({"kind": "macro_f1"}, None)
    one = asked(client, dataset, tell="one")
    assert (one["objective"]["kind"], one["positive"] in LABELS) == ("recall", True)
    assert asked(client, dataset, positive="apple")["positive"] == "apple"  # as links name it
    # what was asked of one class is not asked of several, and the other way round
    assert asked(client, dataset, tell="all", objective="recall", abstain="90")["objective"] == {"kind": "macro_f1"}
    assert asked(client, dataset, tell="one", objective="accuracy")["objective"]["kind"] == "recall"

    floors = {f"floor-precision-{LABELS[2]}": "95", "floor-recall-apple": "80"}
    body = asked(client, dataset, objective="accuracy", confidence="90", scheme="one_vs_rest", **floors)
    assert body["scheme"] == "one_vs_rest"
    assert body["objective"] == {
        "kind": "accuracy",
        "floors": {LABELS[2]: {"precision": 0.95}, "apple": {"recall": 0.8}},
        "confidence": 0.9,
    }
    costs = {f"cost-of-{orjson.dumps([LABELS[2], 'apple']).decode()}": "7"}
    made = asked(client, dataset, objective="class_cost", **costs)["objective"]
    assert made["kind"] == "cost"
    assert made["costs"][LABELS[2]] == {"apple": 7, "=pear": 1}
    assert len(made["costs"]) == 3
    # with a label that means nothing there are two, and one of them is looked for
    assert asked(client, dataset, tell="all", unlabeled="=pear")["positive"]


def test_what_classes_cannot_be_told_by_is_said_beside_the_form(client: httpx.Client) -> None:
    dataset = upload(client, DATA.encode())["id"]
    both = {"floor-precision-apple": "95", "floor-recall-apple": "80"}
    page = Visitor(client).open(f"/ui/datasets/{dataset}/train?{urlencode({'target': 'kind', **both})}")
    assert "precision or recall" in page.text
    assert not [form for form in page.forms if form["action"].endswith("/ui/train")]
    visitor = Visitor(client)
    page = visitor.open(f"/ui/datasets/{dataset}/train?target=kind&floor-precision-apple=95")
    assert "with precision 95% of “apple”" in page.text
    assert 'plum "<b>"' not in visitor.answer.text
    visitor.send(page, "/ui/train")
    job = client.get("/jobs").json()["items"][0]
    assert job["request"]["objective"]["floors"] == {"apple": {"precision": 0.95}}
