"""The report of a model to send: one file without scripts that loads nothing; what people wrote into data is text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import orjson
import pytest
from api_support import measures, report, store_model
from sqlalchemy import text

from service.db.session import Database

HOSTILE = "\u202e\x1b[31m<script>alert(1)</script><img src=https://evil.example/x>"


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def told(database: Database, model: str, **changes: object) -> None:
    """Let the report of a model say something else here and there."""
    change = "UPDATE models SET report = report || CAST(:told AS jsonb) WHERE id = :id"
    with database.transaction() as session:
        session.execute(text(change), {"told": orjson.dumps(changes).decode(), "id": model})


@pytest.fixture
def full(client: httpx.Client, database: Database, tmp_path: Path) -> str:
    """Store a model of which everything is known that a report may say, with names that were meant to do harm."""
    before = store_model(database, tmp_path)
    model = store_model(database, tmp_path)
    rows = {
        "n": 40,
        "new": 30,
        "before": measures(),
        "now": measures(),
        "value": "F1",
        "gain": 0.1,
        "low": 0,
        "high": 0.2,
    }
    control = {"threshold": 0.0, "calibration": measures(), "test": measures()}
    reliability = [{"n": 10, "predicted": at / 10, "observed": at / 12} for at in range(1, 11)]
    told(
        database,
        model,
        classes={"negative": "ham", "positive": HOSTILE},
        rows=report()["rows"] | {"unlabelled": 30, "test": 10},
        test=measures(),
        refit={"labelled": 10, "measured": 8, "method": None},
        controls=dict.fromkeys(("no_unlabelled", "plain_svm", "all_positive", "all_negative"), control),
        probability={"slope": 1.0, "offset": 0.0, "brier": 0.1, "reliability": reliability},
        succession={
            "alias": "filter",
            "policy": "always",
            "moved": True,
            "model": before,
            "rows": rows,
            "sentence": "x" * 900,
        },
        warnings=[f"{HOSTILE} {'word ' * 300}"] * 40,
        columns=[{"name": f"{HOSTILE}{'n' * 200}{place}", "kind": "number", "length": None} for place in range(400)],
    )
    client.put("/aliases/filter", json={"model": model}).raise_for_status()
    return model


def test_a_report_is_one_file_that_runs_and_loads_nothing(client: httpx.Client, full: str) -> None:
    answer = client.get(f"/models/{full}/report.html")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "sandbox" in answer.headers["content-security-policy"]
    found = Tags(answer.text).found
    assert not {"script", "img", "link", "iframe", "object", "form", "a"} & {tag for tag, _ in found}
    assert not [name for _, given in found for name in given if name.startswith("on") or name in ("src", "href")]
    assert ("http-equiv", "Content-Security-Policy") in [item for _, given in found for item in given.items()]
    assert "url(" not in answer.text
    assert "\u202e" not in answer.text
    assert "\x1b" not in answer.text
    assert "⟨U+202E⟩" in answer.text
    assert len(answer.content) < 150_000
    for title in (
        "What it reached",
        "Are its probabilities right?",
        "What the unlabelled rows bought",
        "Beside the model",
    ):
        assert title in answer.text
    assert answer.text.count("<svg") >= 7
    assert "This model, before it learned them" in answer.text
    assert "and 390 more" in answer.text
    assert "36 more: see the model card" in answer.text
    assert client.get("/models/filter/report.html").text == answer.text


def test_figures_of_a_report_are_those_of_the_call(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path)
    page = client.get(f"/models/{model}/report.html").text
    point = client.get(f"/models/{model}").json()["report"]["calibration"]
    precision = point["precision"]
    shown = " ".join(f"{100 * precision[name]:.1f}".removesuffix(".0") + "%" for name in ("value", "low", "high"))
    assert shown in re.sub(r" \(| to|\)", lambda found: " " if found[0] == " (" else "", page)
    at = client.get(f"/models/{model}/thresholds").json()["points"][-1]["threshold"]
    client.post(f"/models/{model}/operating-points", json={"threshold": at, "apply": True}).raise_for_status()
    page = client.get(f"/models/{model}/report.html").text
    assert "The threshold was picked by hand." in page
    assert "False positive rate" in page
    costs = {"kind": "cost", "false_negative": 3, "false_positive": 1}
    point = client.post(f"/models/{model}/operating-points", json={"objective": costs, "apply": True}).json()
    page = client.get(f"/models/{model}/report.html").text
    assert "False positive rate" not in page
    assert f"<td>{point['calibration']['cost']['value']:.4g} (" in page
    assert "As trained, calibration rows" in page
    told(database, model, curve=None, calibration=None)
    assert client.get(f"/models/{model}/report.html").status_code == 200
    assert client.get("/models/nobodys/report.html").status_code == 404
