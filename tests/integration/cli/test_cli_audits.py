"""``prefsvm audit`` against the real application: keys in the terminal, a CSV file out and in."""

from __future__ import annotations

import csv
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import store_model, tiny_model, upload
from sqlalchemy import select
from typer.testing import CliRunner
from worker_bench import Bench

from prefsvm import Client, ClientError
from service.cli import looking
from service.cli.audits import _length_words
from service.cli.main import app
from service.db.session import Database
from service.db.tables import AuditRow, ModelRow

pytestmark = pytest.mark.usefixtures("read_here")

CSV = "age,job\n" + "".join(f"{20 + i % 40},{('clerk', '=cook')[i % 2]}\n" for i in range(200))
Run = Callable[..., str]


@pytest.fixture
def prefsvm(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: object, code: int = 0, keys: str | None = None) -> str:
        with monkeypatch.context() as patch:
            if keys is not None:  # somebody sits there
                patch.setattr(looking, "somebody_is_there", lambda: True)
                typed = iter(keys)
                patch.setattr(looking.typer, "getchar", lambda: next(typed, "\x03"))
            done = CliRunner().invoke(app, [*map(str, arguments), "--url", str(client.base_url)])
        assert done.exit_code == code, done.output
        return done.output

    return run


def test_several_thresholds_in_the_terminal(
    prefsvm: Run, client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    model = store_model(database, tmp_path, tiny_model())
    dataset = upload(client, CSV.encode())["id"]
    refused = prefsvm("audit", model, dataset, "--objective", "recall=0.5", "--thresholds", "1;2", code=2)
    assert "neither curve nor numbers with commas" in re.sub(r"\s+", " ", refused.replace("│", " "))
    drawn = threading.Thread(target=lambda: _run_next(client, bench))
    drawn.start()
    said = prefsvm("audit", model, dataset, "--objective", "recall=0.5", "--thresholds=-1e9,1e9")
    drawn.join()
    (audit,) = client.get("/audits").json()["items"]
    assert [each["threshold"] for each in audit["pool"]["thresholds"]] == [-1e9, 1e9]
    assert "by the threshold -1e+09" in said
    # by the first threshold all rows are called positive: proven with one answer, and it goes on with the next
    said = prefsvm("audit", audit["id"], keys="yyq")
    assert "proven after 1 row:" in said
    assert "; the next threshold, 1e+09, is " in said


def _run_next(client: httpx.Client, bench: Bench) -> None:
    begun = time.monotonic()
    while not (found := client.get("/audits").json()["items"]) and time.monotonic() < begun + 120:
        time.sleep(0.05)
    assert bench.supervisor.run(found[0]["job"]) == "succeeded"


def test_from_the_first_key_to_the_seal(
    prefsvm: Run, client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    model = store_model(database, tmp_path, tiny_model())
    client.put("/aliases/filter", json={"model": model}).raise_for_status()
    dataset = upload(client, CSV.encode())["id"]

    def draw(objective: dict[str, Any]) -> str:
        made = client.post("/audits", json={"model": model, "dataset": dataset, "objective": objective}).json()
        assert bench.supervisor.run(made["job"]) == "succeeded"
        return str(made["id"])

    audit = draw({"kind": "precision", "target": 0.5})
    assert "no row has an answer yet whether of the " in prefsvm("audit", audit)

    said = prefsvm("audit", audit, keys="ysxnq")
    assert "Is it so that of the " in said
    unknown = "how many answers that takes is not known beforehand"  # the model has no probabilities
    assert (
        f"{unknown}: at most the {client.get(f'/audits/{audit}').json()['pool']['drawn']} rows that are drawn" in said
    )
    assert "that takes about 31 answers, of the 115 rows" in _length_words({"expected_answers": 31, "drawn": 115})
    assert "y: it is spam, n: it is ham, s: later, q: enough for now" in said
    assert re.search(r"--- row \d+: called spam, score [\d.]+\nage: [\d.]+\njob: (clerk|=cook)\nspam\? y\n", said)
    assert "  2 answered, proved so far: precision at least " in said
    assert f"{audit}: open after 2 rows" in said
    assert f"\nprefsvm audit {audit} goes on\n" in said
    interrupted = prefsvm("audit", audit, keys="y", code=130)
    assert f"{audit} keeps its answers; prefsvm audit {audit} goes on" in interrupted
    assert client.get(f"/audits/{audit}").json()["answered"] == 3
    assert unknown not in interrupted  # which is said before the first one

    rows = tmp_path / "rows.csv"
    said = prefsvm("audit", audit, "--out", rows)
    assert f"prefsvm audit {audit} --labels {rows}" in said
    with rows.open(newline="") as file:
        table = list(csv.DictReader(file))
    left = client.get(f"/audits/{audit}/next").json()["left"]
    assert len(table) == left
    assert list(table[0]) == ["row", "answer", "called", "score", "probability", "age", "job"]
    assert {line["job"] for line in table} == {"clerk", "'=cook"}  # harmless in a spreadsheet
    assert CSV.splitlines()[int(table[0]["row"]) + 1].startswith(f"{float(table[0]['age']):.0f},")

    for line, filled in zip(table, ["y", "spam", "Y", "n", *["spam"] * 20], strict=False):
        line["answer"] = filled
    with rows.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter=";")  # as a spreadsheet may save it
        writer.writeheader()
        writer.writerows(table)
    said = prefsvm("audit", audit, "--labels", rows)
    assert "24 answers sent" in said
    assert re.search(rf"{audit}: proven after \d+ rows: of the \d+ unlabelled rows that the model calls 'spam'", said)

    rows.write_text(f"row,answer\n{table[0]['row']},spam\nx,spam\n")
    assert "line 3 of" in prefsvm("audit", audit, "--labels", rows, code=1)
    rows.write_text(f"row,answer\n{table[0]['row']},\n{table[1]['row']},spam\n0,spam\n")
    assert "line 4: row 0 is none of those" in prefsvm("audit", audit, "--labels", rows, code=1)
    job = client.get(f"/audits/{audit}").json()["job"]
    assert f"prefsvm audits {audit}" in prefsvm("jobs", job, code=1)
    rows.write_text("row,label\n1,spam\n")
    assert "has no column 'answer'" in prefsvm("audit", audit, "--labels", rows, code=1)

    listed = prefsvm("audits")
    assert re.search(rf"{audit} +proven +27 .*precision 50% with confidence 95%", listed)
    assert prefsvm("audits", audit).startswith(listed)
    assert f"seal the audit (prefsvm audits seal {audit})" not in listed
    prefsvm("aliases", "delete", "filter")
    refused = prefsvm("models", model, "--delete", code=1)
    assert f"prefsvm audits seal {audit}" in refused
    assert f"prefsvm audits delete {audit}" in refused
    client.put("/aliases/filter", json={"model": model}).raise_for_status()
    sealed = prefsvm("audits", "seal", audit[:-4], "--alias", "filter")
    assert re.search(r"its answers are fb_\w+; prefsvm retrain filter learns them", sealed)
    assert f"{audit} is deleted" in prefsvm("audits", "delete", audit)

    costs = draw({"kind": "cost", "at_most": 0.6, "false_negative": 5, "false_positive": 1})
    assert "cost 5:1 at most 0.6 with confidence 95%" in prefsvm("audits", costs)
    assert "proved so far: at most " in prefsvm("audit", costs, keys="yq")


def test_from_python(client: httpx.Client, bench: Bench, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path, tiny_model())
    client.put("/aliases/filter", json={"model": model}).raise_for_status()
    dataset = upload(client, CSV.replace("=cook", "cook").encode())["id"]
    young = upload(client, b"age,job\n20,cook\n")["id"]

    def work() -> None:
        done: set[str] = set()
        while len(done) < 2:
            with database.transaction() as session:
                waiting = set(session.scalars(select(AuditRow.job_id))) - done
            for job in waiting:
                bench.supervisor.run(str(job))
                done.add(str(job))
            time.sleep(0.02)

    worker = threading.Thread(target=work)
    worker.start()
    with Client(str(client.base_url)) as python:
        audit = python.audit("filter", dataset, objective="precision=0.5", confidence=0.9)
        with pytest.raises(ClientError, match="no rows could be drawn: the model calls none of the 1"):
            python.audit(model, young, objective={"kind": "precision", "target": 0.5})
        worker.join(40)
        assert (audit.status, audit.bound) == ("open", None)
        assert audit.statement.endswith("unlabelled rows that the model calls 'spam', at least 50% are 'spam'")
        first, *_, last = python.audit_rows(audit, 5)
        assert (first.position, last.position) == (1, 5)
        assert set(first.content) == {"age", "job"}
        assert python.audit_rows(audit, 1, after=5)[0].position == 6
        audit = python.answer(audit, {row.row: "spam" for row in python.audit_rows(audit, 20)})
        assert audit.status == "proven"
        assert audit.bound is not None
        assert audit.bound > 0.5
        sealed = python.seal(audit.id, alias="filter")
        assert sealed.document["feedback"].startswith("fb_")


def test_what_is_asked_for_must_be_said(prefsvm: Run, client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path, tiny_model())
    dataset = upload(client, CSV.encode())["id"]
    with database.transaction() as session:
        row = session.get_one(ModelRow, model)
        row.report = row.report | {"objective": {"kind": "f1"}}
    assert "f1" in prefsvm("audit", model, dataset, code=2)
    assert "none of precision=0.95" in prefsvm("audit", model, dataset, "--objective", "f1", code=2)
    assert "at most" in prefsvm("audit", model, dataset, "--objective", "cost=5:1", code=2)
    assert "at most" in prefsvm("audit", model, dataset, "--objective", "recall=0.9", "--at-most", 1, code=2)
    assert "no audit has this id" in prefsvm("audit", "aud_" + 32 * "0", code=1)


def test_without_a_file_it_is_about_the_rows_and_the_objective_of_the_training(
    prefsvm: Run, client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    dataset = upload(client, CSV.encode())["id"]
    model = store_model(database, tmp_path, tiny_model())
    client.put("/aliases/complaints", json={"model": model}).raise_for_status()
    assert "was trained on was deleted" in prefsvm("audit", "complaints", "--objective", "recall=0.9", code=1)
    with database.transaction() as session:
        row = session.get_one(ModelRow, model)
        row.dataset_id = dataset
        row.report = row.report | {"objective": {"kind": "precision", "target": 0.5, "confidence": 0.9}}
    assert "No such model" in prefsvm("audit", "nobodys", code=1)
    worker = threading.Thread(target=_draws, args=(database, bench))
    worker.start()
    prefsvm("audit", "complaints")
    worker.join(40)
    (made,) = client.get("/audits").json()["items"]
    assert (made["dataset"], made["objective"], made["status"]) == (
        dataset, {"kind": "precision", "target": 0.5}, "open",
    )  # fmt: skip
    assert made["id"] in prefsvm("audit", "complaints")  # goes on
    assert len(client.get("/audits").json()["items"]) == 1


def _draws(database: Database, bench: Bench) -> None:
    """Draw the rows of the first audit that is made."""
    for _ in range(1000):
        with database.transaction() as session:
            job = session.scalar(select(AuditRow.job_id))
        if job is not None:
            bench.supervisor.run(str(job))
            return
        time.sleep(0.02)


def test_the_filters_model_is_proved_and_trained_by_its_usual_name(
    prefsvm: Run, client: httpx.Client, bench: Bench, database: Database, tmp_path: Path
) -> None:
    dataset = upload(client, CSV.encode())["id"]
    model = store_model(database, tmp_path, tiny_model())
    client.put("/aliases/spam-filter", json={"model": model}).raise_for_status()
    objective = {"kind": "precision", "target": 0.5}
    body = {"model": model, "dataset": dataset, "objective": objective, "confidence": 0.9}
    made = client.post("/audits", json=body).json()
    other = client.post("/audits", json=body | {"confidence": 0.95}).json()
    for each in (made, other):
        assert bench.supervisor.run(each["job"]) == "succeeded"
    asked = ("mail", "audit", "--objective", "precision=0.5")
    said = prefsvm(*asked, keys="y" * 50)  # goes on with what was begun, though another one is newer
    assert f"{made['id']}: proven after" in said
    assert client.get(f"/audits/{other['id']}").json()["answered"] == 0
    assert "is none of" in prefsvm("mail", "audit", "--objective", "f1", code=2)
    for command in ("audit", "retrain"):
        assert "No such" in prefsvm("mail", command, "--model", "nobodys", code=1)
