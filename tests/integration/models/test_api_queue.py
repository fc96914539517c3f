"""The queue of a model end to end: trained, shown, labelled by API, client, keys and file, learned."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from api_support import problem, store_model, train_body, upload
from sqlalchemy import select
from typer.testing import CliRunner
from worker_bench import Bench, wait_for

from prefsvm import Client
from service.cli import looking
from service.cli.main import app
from service.db.session import Database
from service.db.tables import FeedbackRow
from service.labelling import service as labelling
from service.settings import Settings

pytestmark = pytest.mark.usefixtures("read_here")

ROWS, LABELLED = 160, 40
RNG = np.random.default_rng(0)
SPAM = RNG.random(ROWS) < 0.5
X = RNG.normal(size=(ROWS, 2)).round(3) + 3 * SPAM[:, None]
FLIPPED = 7
CSV = "id,age,width,label\n" + "".join(
    f"k{i},{X[i, 0]:.3f},{X[i, 1]:.3f},{('ham', 'spam')[int(SPAM[i] ^ (i == FLIPPED))] if i < LABELLED else ''}\n"
    for i in range(ROWS)
)


@pytest.fixture
def trainer(settings: Settings, database: Database) -> Iterator[Bench]:
    bench = Bench(settings, database, runner="worker.fit")
    wait_for(lambda: bench.spares.is_warm, 120)
    yield bench
    bench.close()


def trained(client: httpx.Client, trainer: Bench, dataset: dict[str, Any], **changes: Any) -> None:
    body = train_body(dataset, algorithm="svm", params={}, objective={"kind": "f1"}, alias="filter", **changes)
    answer = client.post("/train", json=body)
    assert answer.status_code == 202, answer.text
    assert trainer.supervisor.run(answer.json()["id"]) == "succeeded"


def queue_of(client: httpx.Client, **asked: Any) -> dict[str, Any]:
    answer = client.get("/models/filter/queue", params=asked)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def label_of(row: int) -> str:
    return "spam" if SPAM[row] else "ham"


def test_from_the_queue_to_the_next_training(
    client: httpx.Client, trainer: Bench, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = upload(client, CSV.encode())
    trained(client, trainer, dataset, key="id")
    found = queue_of(client, n=30, dataset=dataset["id"])
    assert (found["dataset"], found["purpose"], found["warnings"]) == (dataset["id"], "improve", [])
    rows = [item["row"] for item in found["items"]]
    assert len({*rows}) == 30
    assert min(rows) >= LABELLED
    for item in found["items"]:
        assert item["key"] == f"k{item['row']}"
        assert item["content"] == {"age": pytest.approx(X[item["row"], 0]), "width": pytest.approx(X[item["row"], 1])}
        assert item["reason"].startswith("drawn at random") == (item["drawn"] == "random")
    assert [item["drawn"] for item in found["items"][:4]] == ["random", "chosen"] * 2
    assert client.get("/models/filter").json()["report"].get("queue") is None
    suspicious = queue_of(client, purpose="suspicious")["items"]
    assert suspicious[0]["row"] == FLIPPED
    wrong = "ham" if SPAM[FLIPPED] else "spam"
    assert suspicious[0]["label"] == wrong
    assert f"labelled {wrong!r}; models that have not seen this label give {wrong!r} " in suspicious[0]["reason"]
    mistakes = queue_of(client, purpose="mistakes")["items"]
    assert mistakes[0]["row"] == FLIPPED
    assert mistakes[0]["reason"] == f"{suspicious[0]['reason']}, and the threshold calls it {label_of(FLIPPED)!r}"

    # by the client, by keys in the terminal, by a file, and by content: what has feedback is asked no more
    with Client(str(client.base_url)) as ours:
        ours.label("filter", [(row, label_of(row.row)) for row in ours.queue("filter", n=4)])
    assert [item["row"] for item in queue_of(client, n=26)["items"]] == rows[4:]
    by_content = {"alias": "filter", "rows": [found["items"][4]["content"]], "labels": [label_of(rows[4])]}
    assert client.post("/feedback", json=by_content).status_code == 201
    assert rows[4] not in [item["row"] for item in queue_of(client, n=26)["items"]]

    def prefsvm(*arguments: object, keys: str = "") -> str:
        typed = iter(keys)
        with monkeypatch.context() as patch:
            patch.setattr(looking.typer, "getchar", lambda: next(typed, "\x03"))
            done = CliRunner().invoke(app, ["queue", *map(str, arguments), "--url", str(client.base_url)])
        assert done.exit_code == 0, done.output
        return done.output

    assert f"{rows[5]} (k{rows[5]})" in prefsvm("filter", "-n", 5)
    said = prefsvm("filter", "--ask", keys="ynsq")
    assert f"--- row {rows[5]} k{rows[5]}: " in said
    assert "2 labels sent; prefsvm retrain filter learns them" in said
    file = tmp_path / "rows.csv"
    assert f"prefsvm queue filter --labels {file}" in prefsvm("filter", "--out", file, "-n", 6)
    with file.open(newline="") as source:
        table = list(csv.DictReader(source))
    assert [int(line["row"]) for line in table] == rows[7:13]
    assert {line["dataset"] for line in table} == {dataset["id"]}
    for line in table[:3]:
        line["answer"] = label_of(int(line["row"]))
    with file.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    assert "3 labels sent" in prefsvm("filter", "--labels", file)
    # the numbers are of the data set that the file names, whatever the name points at when it comes back
    file.write_text(file.read_text().replace(dataset["id"], "ds_other"))
    refused = CliRunner().invoke(app, ["queue", "filter", "--labels", str(file), "--url", str(client.base_url)])
    assert (refused.exit_code, "dataset: there is no such data set" in refused.output) == (1, True), refused.output
    assert "0 labels sent" in refused.output
    body = {"alias": "filter", "dataset": dataset["id"], "numbers": [FLIPPED], "labels": [label_of(FLIPPED)]}
    assert client.post("/feedback", json=body).status_code == 201
    assert FLIPPED not in [item["row"] for item in queue_of(client, purpose="suspicious")["items"]]

    with database.transaction() as session:
        sent = [json.loads(content) for content in session.scalars(select(FeedbackRow.content))]
    of_chance = sum(len(each["rows"]) for each in sent if each.get("drawn") == "random")
    drawn = [item["drawn"] for item in found["items"]]
    by_number = drawn[:4] + drawn[5:10]
    assert (sum(len(each["rows"]) for each in sent), of_chance) == (11, by_number.count("random"))
    job = client.post("/aliases/filter/retrain").json()
    assert trainer.supervisor.run(job["id"]) == "succeeded"
    report = client.get("/models/filter").json()["report"]
    told = report["feedback"]
    assert (told["random"], told["added"], told["refused"]) == (of_chance, 0, [])
    assert report["calibration"]["n"] == LABELLED + of_chance
    assert not {*rows[:10]} & {item["row"] for item in queue_of(client, n=100)["items"]}


def test_an_empty_list_says_why(client: httpx.Client, trainer: Bench) -> None:
    head, *lines = CSV.splitlines(keepends=True)
    dataset = upload(client, "".join([head, *lines[:LABELLED]]).encode())
    trained(client, trainer, dataset, key="id")
    found = queue_of(client)
    (warning,) = found["warnings"]
    assert (found["items"], "has no row without a label" in warning) == ([], True)

    def prefsvm(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["queue", "filter", *arguments, "--url", str(client.base_url)])
        assert done.exit_code == 0, done.output
        return done.output

    for arguments in ((), ("--ask",)):
        said = prefsvm(*arguments)
        assert warning in said
        assert "rows to label next" not in said
    doubted = [item["row"] for item in queue_of(client, purpose="suspicious", n=100)["items"]]
    assert FLIPPED in doubted
    body = {"alias": "filter", "dataset": dataset["id"], "numbers": doubted}
    body["labels"] = [label_of(row) for row in doubted]
    assert client.post("/feedback", json=body).status_code == 201
    assert "no label looks wrong, or each that did has an answer" in prefsvm("--purpose", "suspicious")


def test_what_has_no_queue_says_what_to_do(
    client: httpx.Client, trainer: Bench, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{('+1' if i % 4 else '-1') if i < 40 else '0'} 1:{i % 4} 2:0.5\n" for i in range(60)]
    matrix = upload(client, "".join(lines).encode(), "rows.svm")
    trained(client, trainer, matrix, target="label", positive="1", unlabeled=["0"])
    first = queue_of(client, n=2)["items"]
    for item in first:
        held = {"1": item["row"] % 4, "2": 0.5}
        assert item["content"] == {name: value for name, value in held.items() if value}
    sent = {"alias": "filter", "rows": [first[0]["content"]], "labels": ["1"]}
    assert client.post("/feedback", json=sent).status_code == 201
    left = [item["row"] % 4 for item in queue_of(client, n=60)["items"]]
    assert left
    assert first[0]["row"] % 4 not in left
    monkeypatch.setattr(labelling, "MOST_BYTES", 1)
    assert len(queue_of(client, n=60)["items"]) == 1

    other = upload(client, CSV.encode())
    said = problem(client.get(f"/models/filter/queue?dataset={other['id']}"), 422, "invalid-request")
    assert said["errors"][0]["field"] == "query.dataset"
    assert f"is of {matrix['id']}" in said["detail"]
    assert client.get("/models/filter/queue?n=101").status_code == 422
    assert client.get("/models/other/queue").status_code == 404
    old = store_model(database, tmp_path)
    assert "was deleted" in problem(client.get(f"/models/{old}/queue"), 409, "no-queue")["detail"]
    assert client.delete(f"/datasets/{matrix['id']}").status_code == 204
    assert "train again" in problem(client.get("/models/filter/queue"), 409, "no-queue")["detail"]
