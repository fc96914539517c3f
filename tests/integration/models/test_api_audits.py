"""Audits end to end: accepted by the API, drawn by a child of the worker, answered, sealed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api_support import problem, store_model, tiny_model, upload
from sqlalchemy import select, text
from worker_bench import Bench, wait_for

from service.audits import service as audits
from service.db.session import Database
from service.db.tables import AuditItemRow, AuditRow, DatasetRow, FeedbackRow, JobRow
from service.models.repository import ModelRepository
from service.models.verdicts import proving_audit, statement_of
from solver.audits import AuditTarget, Draws, alike_drawn, judge
from solver.decision import DecisionState
from solver.evaluation import Sigmoid
from solver.features import Column, MatrixData, MatrixFeatures, Table, TableFeatures, table_from_rows
from solver.model_file import Model
from worker import audit
from worker.fit import read_corrections

pytestmark = pytest.mark.usefixtures("read_here")

ROWS, LABELLED = 3000, 500
RNG = np.random.default_rng(0)
AGES = RNG.integers(20, 80, ROWS)
POSITIVE = RNG.random(ROWS) < np.where(AGES > 50, 0.99, 0.02)


def line(i: int) -> str:
    label = ("ham", "spam")[int(POSITIVE[i])] if i < LABELLED else ("?" if i % 2 else "")
    return f"{i:05d},{AGES[i]},{('clerk', 'cook')[i % 2]},{label}\n"


CSV = "id,age,job,label\n" + "".join(map(line, range(ROWS)))
PRECISION = {"kind": "precision", "target": 0.9}
Ask = Callable[..., str]


def model_of_ages(key: str | None = "id") -> Model:
    """A model that calls people above 50 positive."""
    jobs = np.array(["clerk", "cook"] * 30, dtype=object)
    seen = Table({"age": Column("age", "number", np.arange(20.0, 80)), "job": Column("job", "text", jobs)})
    model = dataclasses.replace(tiny_model(), features=TableFeatures().fit(seen))
    only_age = np.eye(1, model.decision.support_vectors.shape[1])
    age = dataclasses.replace(model.decision, support_vectors=only_age, dual_coef=np.array([1.0]))
    model = dataclasses.replace(model, decision=age)
    ages = Table({"age": Column("age", "number", np.array([50.0])), "job": Column("job", "text", np.array(["cook"]))})
    threshold = float(model.predict(ages).scores[0])
    decision = dataclasses.replace(model.decision, probability=Sigmoid(3.0, -3.0 * threshold), threshold=threshold)
    return dataclasses.replace(model, decision=decision, key=key)


@pytest.fixture
def model(bench: Bench, database: Database, tmp_path: Path, dataset: str) -> str:
    """A model whose training took the labels from `label`, where ? is unlabelled."""
    job = bench.enqueue("nothing", dataset_id=dataset, target="label", unlabeled=["?"])
    with database.transaction() as session:
        session.get_one(JobRow, job).status = "cancelled"
        session.get_one(JobRow, job).finished_at = session.get_one(JobRow, job).created_at
    return store_model(database, tmp_path, model_of_ages(), job_id=job)


@pytest.fixture
def dataset(client: httpx.Client) -> str:
    return str(upload(client, CSV.encode())["id"])


@pytest.fixture
def ask(client: httpx.Client, bench: Bench, model: str, dataset: str) -> Ask:
    """Make an audit, have its rows drawn, and return its id."""

    def made(objective: dict[str, Any] = PRECISION, ends: str = "succeeded", **changes: Any) -> str:
        body = {"model": model, "dataset": dataset, "objective": objective} | changes
        answer = client.post("/audits", json=body)
        assert answer.status_code == 202, answer.text
        audit = answer.json()
        assert answer.headers["location"] == f"/audits/{audit['id']}"
        assert (audit["status"], audit["pool"], audit["verdict"]) == ("preparing", None, None)
        problem(client.get(f"/audits/{audit['id']}/next"), 409, "audit-not-ready")
        assert bench.supervisor.run(audit["job"]) == ends
        return str(audit["id"])

    return made


def label_of(row: int) -> str:
    return "spam" if POSITIVE[row] else "ham"


def answer(client: httpx.Client, audit: str, rows: list[int], labels: list[str] | None = None) -> httpx.Response:
    body = {"rows": rows, "labels": labels or [label_of(row) for row in rows]}
    return client.post(f"/audits/{audit}/labels", json=body)


def rows_of(client: httpx.Client, audit: str, n: int = 100) -> list[int]:
    rows: list[int] = []
    after = 0
    while len(rows) < n:
        items = client.get(f"/audits/{audit}/next", params={"n": 100, "after": after}).json()["items"]
        if not items:
            break
        rows += [item["row"] for item in items]
        after = items[-1]["position"]
    return rows[:n]


def drawn(database: Database, audit: str) -> tuple[Draws, list[int]]:
    with database.transaction() as session:
        pool = session.get_one(AuditRow, audit).pool
        items = session.scalars(
            select(AuditItemRow).where(AuditItemRow.audit_id == audit).order_by(AuditItemRow.position)
        ).all()
    assert pool is not None
    rows = [item.row for item in items]
    return Draws.of_plan(pool, [item.stratum for item in items], rows), rows


def test_from_the_question_to_the_proof(client: httpx.Client, ask: Ask, model: str, database: Database) -> None:
    audit = ask()
    found = client.get(f"/audits/{audit}").json()
    called = AGES[LABELLED:] > 50
    expected = {"rows": ROWS - LABELLED, "called_positive": int(called.sum()), "labelled": LABELLED}
    assert {name: found["pool"][name] for name in expected} == expected
    assert found["pool"]["drawn"] == found["pool"]["called_positive"]
    assert (found["status"], found["verdict"], found["answered"]) == ("open", None, 0)
    assert 28 <= found["pool"]["expected_answers"] <= found["pool"]["drawn"]

    given = client.get(f"/audits/{audit}/next", params={"n": 3}).json()
    assert given["left"] == found["pool"]["drawn"]
    assert [item["position"] for item in given["items"]] == [1, 2, 3]
    for item in given["items"]:
        row = item["row"]
        assert row >= LABELLED
        assert AGES[row] > 50
        assert item["content"] == {"age": float(AGES[row]), "job": ("clerk", "cook")[row % 2]}
        assert (item["key"], item["label"]) == (f"{row:05d}", "spam")
        assert item["score"] > found["pool"]["threshold"]
        assert 0.5 < item["probability"] < 1

    rows = rows_of(client, audit)
    assert len(set(rows)) == 100
    states = []
    for number, row in enumerate(rows, 1):
        said = answer(client, audit, [row])
        assert said.status_code == 200, said.text
        states.append(said.json()["status"])
        assert said.json()["answered"] == number
        if states[-1] == "proven":
            break
    assert states[-1] == "proven"
    assert 20 <= len(states) <= 80  # 28 of them are enough if all are right
    verdict = said.json()["verdict"]
    assert verdict["bound"] >= 0.9
    assert verdict["decided_after"] == len(states)
    assert verdict["sentence"] == (
        f"proven after {len(states)} rows: of the {called.sum()} unlabelled rows that the model calls 'spam', at least "
        "90% are 'spam' (confidence 95%)"
    )
    shown = client.get(f"/models/{model}").json()
    assert [(each["id"], each["status"], each["in_use"]) for each in shown["audits"]] == [(audit, "proven", True)]
    assert shown["audits"][0]["sentence"] == verdict["sentence"]
    check_what_it_proves(client, database, model, audit)
    assert f"Audit {audit}: {verdict['sentence']}." in client.get(f"/models/{model}/card").text
    left = client.get(f"/audits/{audit}/next", params={"n": 1}).json()
    assert left["items"][0]["position"] == len(states) + 1
    page = client.get("/audits").json()
    assert [each["id"] for each in page["items"]] == [audit]
    assert page["items"][0] == client.get(f"/audits/{audit}").json()
    assert client.get("/jobs").json()["items"][0]["id"] != audit  # no training, no batch
    assert client.get("/batches").json()["items"] == []
    for path in (f"/jobs/{found['job']}", f"/jobs/{found['job']}/events"):
        told = problem(client.get(path), 404, "job-not-found")
        assert told["detail"] == f"{found['job']} draws the rows of an audit: GET /audits/{audit}"
    with database.transaction() as session:  # as if later answers had been others
        session.execute(text("UPDATE audits SET verdict = verdict || '{\"estimate\": 0.5}'"))
    sentence = client.get(f"/audits/{audit}").json()["verdict"]["sentence"]
    assert re.search(
        r"proven after .* speak against what was proved \(at least 9\d(\.\d)?%\): .* they say 50%, ", sentence
    )


def check_what_it_proves(client: httpx.Client, database: Database, model: str, audit: str) -> None:
    """A list shows the proof of the target that the threshold in use was chosen for, and an alias keeps to it."""
    with database.transaction() as session:
        row = session.get_one(AuditRow, audit)
        (found,) = ModelRepository(session, row.project_id).verdicts([model])[model]
        threshold = row.pool["threshold"] if row.pool else 0.0
    assert proving_audit([found], PRECISION, threshold) == audit
    assert proving_audit([found], PRECISION | {"target": 0.8}, threshold) == audit
    for other in ({"target": 0.95}, {"confidence": 0.99}, {"kind": "recall"}):
        assert proving_audit([found], PRECISION | other, threshold) is None
    assert proving_audit([found], {"kind": "f1"}, threshold) is None
    assert proving_audit([found], PRECISION, threshold + 1) is None
    assert client.get("/models").json()["items"][0]["proven_by"] is None  # it was trained for another objective
    point = orjson.dumps({"objective": PRECISION, "threshold": threshold}).decode()
    with database.transaction() as session:
        session.execute(text("UPDATE models SET report = report || CAST(:point AS jsonb)"), {"point": point})
    for said in (client.get("/models").json()["items"][0], client.get(f"/models/{model}").json()):
        assert said["proven_by"] == audit


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({"kind": "recall", "target": 0.9}, "the model finds at least 90% of those that are 'complaint'"),
        (
            {"kind": "ham_loss", "at_most": 0.001},
            "the model takes at most 0.1% of those that are not 'complaint' for 'complaint'",
        ),
    ],
)
def test_what_is_to_be_proved_is_one_plain_sentence(objective: dict[str, Any], said: str) -> None:
    pool = {"rows": 40, "called_positive": 7, "positive": "complaint"}
    assert statement_of(objective, pool) == f"of the 40 unlabelled rows, {said}"
    corrected = statement_of(objective, pool | {"with_feedback": 3})
    assert corrected == f"of the 40 rows without label and feedback, {said}"


def test_rows_are_given_as_the_model_sees_them(
    client: httpx.Client, ask: Ask, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = ask()
    items = client.get(f"/audits/{audit}/next", params={"n": 5}).json()["items"]
    made = client.post("/predict", json={"model": model, "rows": [item["content"] for item in items]}).json()
    assert [each["score"] for each in made["predictions"]] == pytest.approx([item["score"] for item in items])
    data, _ = table_from_rows([item["content"] for item in items], model_of_ages().columns, {})
    assert model_of_ages().predict(data).labels == [item["label"] for item in items]

    rows = rows_of(client, audit, 3)
    stranger = next(row for row in range(ROWS) if AGES[row] < 50)
    refused = problem(answer(client, audit, [rows[0], stranger]), 422, "answers-do-not-fit")
    assert refused["errors"][0]["field"] == "body.rows.1"
    assert f"row {stranger} is none of those that the audit has drawn" in refused["detail"]
    refused = problem(answer(client, audit, rows[:1], ["eggs"]), 422, "answers-do-not-fit")
    assert "'ham' or 'spam'" in refused["detail"]
    refused = problem(answer(client, audit, [rows[0]] * 2, ["ham", "spam"]), 422, "answers-do-not-fit")
    assert "send one label for each row" in refused["detail"]
    problem(answer(client, audit, rows[:2], ["ham"]), 422, "invalid-request")
    problem(answer(client, "aud_" + 32 * "0", rows[:1]), 404, "audit-not-found")
    assert client.get(f"/audits/{audit}").json()["answered"] == 0

    monkeypatch.setattr(audits, "MOST_BYTES", 100)
    rows = rows_of(client, audit, 10)
    assert len(client.get(f"/audits/{audit}/next", params={"n": 50}).json()["items"]) == 3
    monkeypatch.setattr(audits, "MOST_BYTES", 1)
    assert rows_of(client, audit, 10) == rows


COSTS = {"false_negative": 5.0, "false_positive": 1.0}
STATEMENTS = [
    ({"kind": "precision", "target": 0.999}, AuditTarget("precision", 0.999), "refuted"),
    ({"kind": "recall", "target": 0.8}, AuditTarget("recall", 0.8), "proven"),
    ({"kind": "recall", "target": 1}, AuditTarget("recall", 1.0), "refuted"),
    ({"kind": "ham_loss", "at_most": 0.3}, AuditTarget("false_positive_rate", 0.3), "proven"),
    ({"kind": "false_positive_rate", "at_most": 0.001}, AuditTarget("false_positive_rate", 0.001), "refuted"),
    ({"kind": "cost", "at_most": 0.5, **COSTS}, AuditTarget("cost", 0.5, **COSTS), "proven"),
    ({"kind": "cost", "at_most": 0.05, **COSTS}, AuditTarget("cost", 0.05, **COSTS), "open"),
]


def test_the_verdict_is_that_of_the_statistics(client: httpx.Client, ask: Ask, database: Database) -> None:
    for objective, target, status in STATEMENTS:
        audit = ask(objective, rows=800, confidence=0.9)
        draws, rows = drawn(database, audit)
        some = rows[:600]
        said = answer(client, audit, some[::-1]).json()  # in whatever order
        answers = [int(POSITIVE[row]) for row in some] + [-1] * (len(rows) - len(some))
        expected = judge(draws, answers, target, 0.9)
        verdict = said["verdict"]
        assert (said["status"], verdict["bound"]) == (expected.standing, expected.bound)
        assert (verdict["estimate"], verdict["decided_after"]) == (expected.estimate, expected.decided_at)
        assert said["status"] == status
        assert verdict["sentence"].startswith(status)


def test_the_same_question_draws_the_same_rows(client: httpx.Client, ask: Ask, database: Database) -> None:
    """So nobody asks again until the rows please; and fewer rows are the beginning of more."""
    first, again, fewer = drawn(database, ask()), drawn(database, ask()), drawn(database, ask(rows=10))
    assert first[1] == again[1]
    assert fewer[1] == first[1][:10]
    other = drawn(database, ask({"kind": "precision", "target": 0.5}))
    assert other[1] == first[1]


def score_of(client: httpx.Client, model: str, age: float) -> float:
    made = client.post("/predict", json={"model": model, "rows": [{"age": age, "job": "cook"}]}).json()
    return float(made["predictions"][0]["score"])


def test_thresholds_are_tried_in_their_order(
    client: httpx.Client, ask: Ask, model: str, dataset: str, database: Database
) -> None:
    """People above 50 are positive: of those above 40 fewer than 0.9, so that the last threshold is not proven."""
    high, own, low = (score_of(client, model, age) for age in (60.2, 50.2, 40.2))
    audit = ask(thresholds=[high, own, low])
    found = client.get(f"/audits/{audit}").json()
    pool = found["pool"]
    ages = AGES[LABELLED:]
    counts = [int((ages > age).sum()) for age in (60, 50, 40)]
    assert [(each["threshold"], each["called_positive"]) for each in pool["thresholds"]] == [
        *zip((high, own, low), counts, strict=True)
    ]
    assert (pool["threshold"], pool["called_positive"], pool["drawn"]) == (high, counts[0], min(2000, counts[2]))
    assert f"that the model calls 'spam' by the threshold {high:.6g}, at least" in found["statement"]
    rows = rows_of(client, audit, 400)
    stages = []
    for start in range(0, 400, 10):
        said = answer(client, audit, rows[start : start + 10]).json()
        verdict = said["verdict"]
        stages.append((said["status"], verdict["threshold"], len(verdict["thresholds"]), verdict["next_threshold"]))
    assert stages[0] == ("open", high, 1, high)
    assert stages[-1] == ("proven", own, 3, None)
    places = [(high, own).index(threshold) for _, threshold, _, _ in stages]
    assert places == sorted(places)  # what is proven stays
    assert [each["standing"] for each in verdict["thresholds"]] == ["proven", "proven", "refuted"]
    assert f"; the next threshold, {low:.6g}, is refuted: proved of it so far at least " in verdict["sentence"]
    (shown,) = client.get(f"/models/{model}").json()["audits"]
    assert (shown["threshold"], shown["status"]) == (own, "proven")
    with database.transaction() as session:
        row = session.get_one(AuditRow, audit)
        assert [proving_audit([row], PRECISION, each) for each in (high, own, low, 0.0)] == [audit, audit, None, None]
    assert rows_of(client, ask(thresholds=[own]), 50) != rows_of(client, ask(thresholds=[high]), 50)

    body = {"model": model, "dataset": dataset, "objective": PRECISION}
    for wrong in ([], [1.0, 1.0], [*range(21)], ["x"], "all", ["nan"]):
        assert client.post("/audits", json=body | {"thresholds": wrong}).status_code == 422, wrong
    error = client.get(f"/audits/{ask(ends='failed', thresholds=[1e6])}").json()["error"]
    assert (error["code"], "by the threshold 1e+06 none" in error["message"]) == ("nothing_called_positive", True)


@pytest.mark.parametrize("kind", ["precision", "recall", "cost"])
def test_some_thresholds_around_the_one_in_use_are_tried(client: httpx.Client, ask: Ask, kind: str) -> None:
    objective = {"kind": "cost", "at_most": 2.0, **COSTS} if kind == "cost" else {"kind": kind, "target": 0.5}
    audit = ask(objective, thresholds="curve", rows=800)
    pool = client.get(f"/audits/{audit}").json()["pool"]
    tried = [each["threshold"] for each in pool["thresholds"]]
    assert len(tried) == len(set(tried)) >= 2
    if kind != "cost":
        assert tried == sorted(tried, reverse=kind == "precision")
    assert all(each["called_positive"] for each in pool["thresholds"])
    said = answer(client, audit, rows_of(client, audit, 800)).json()
    assert said["status"] == "proven"
    assert len(said["verdict"]["thresholds"]) >= 2


def test_answers_of_a_recall_become_calibration_rows_too(
    client: httpx.Client, ask: Ask, model: str, database: Database, tmp_path: Path
) -> None:
    """As many of them as are a sample at one rate; all are learned from."""
    assert client.put("/aliases/filter", json={"model": model}).status_code == 200
    audit = ask({"kind": "recall", "target": 0.8}, rows=400)
    draws, rows = drawn(database, audit)
    answer(client, audit, rows[:300])
    answer(client, audit, rows[310:320])
    sealed = client.post(f"/audits/{audit}/seal", json={"alias": "filter"}).json()
    with database.transaction() as session:
        content = session.get_one(FeedbackRow, sealed["feedback"]).content
    (tmp_path / "feedback").write_bytes(content + b"\n")
    corrections = read_corrections(tmp_path / "feedback")
    assert corrections is not None
    assert len(corrections.rows) == 310
    assert corrections.audited == [True] * 310
    answers = [1] * 300 + [-1] * (len(rows) - 300)
    alike = alike_drawn(draws, answers, sealed["pool"]["rows"])
    assert 30 < alike.sum() < 300
    # behind a row that was passed over none counts
    assert corrections.random == [*alike[:300].tolist(), *[False] * 10]


def test_an_answer_may_be_sent_twice_corrected_or_left_out(client: httpx.Client, ask: Ask) -> None:
    audit = ask()
    rows = rows_of(client, audit, 40)
    first = answer(client, audit, rows, ["spam"] * 40).json()
    assert (first["status"], first["answered"], first["corrected"]) == ("proven", 40, 0)
    assert answer(client, audit, rows[5:9], ["spam"] * 4).json() == first
    corrected = answer(client, audit, rows[:10], ["ham"] * 10).json()
    assert (corrected["answered"], corrected["corrected"]) == (40, 10)
    assert corrected["status"] != "proven"
    assert corrected["verdict"]["bound"] < 0.9
    back = answer(client, audit, rows[:10], ["spam"] * 10).json()
    assert (back["status"], back["corrected"]) == ("proven", 20)
    assert back["verdict"] == first["verdict"]

    audit = ask()  # a row that is passed over counts against the proof
    rows = rows_of(client, audit, 40)
    all_but_some = [row for number, row in enumerate(rows) if number % 4]
    assert answer(client, audit, all_but_some, ["spam"] * 30).json()["status"] != "proven"
    assert answer(client, audit, rows, ["spam"] * 40).json()["status"] == "proven"


def test_a_sealed_audit_stays_and_its_answers_are_feedback(
    client: httpx.Client, ask: Ask, model: str, database: Database
) -> None:
    assert client.put("/aliases/filter", json={"model": model}).status_code == 200
    audit = ask()
    rows = rows_of(client, audit, 40)
    answered = answer(client, audit, rows).json()
    problem(client.post(f"/audits/{audit}/seal", json={"alias": "nobody"}), 422, "invalid-request")
    sealed = client.post(f"/audits/{audit}/seal", json={"alias": "filter"})
    assert sealed.status_code == 200, sealed.text
    said = sealed.json()
    assert said["sealed_at"] is not None
    assert said["verdict"] == answered["verdict"]
    kept = client.get(f"/feedback/{said['feedback']}").json()
    assert (kept["rows"], kept["alias"]) == (40, "filter")
    assert kept["labels"] == {
        label: n for label in ("spam", "ham") if (n := [label_of(row) for row in rows].count(label))
    }
    # It is what somebody would have sent by key.
    labels = [label_of(row) for row in rows]
    keyed = {"alias": "filter", "dataset": said["dataset"], "keys": [f"{row:05d}" for row in rows], "labels": labels}
    twin = client.post("/feedback", json=keyed)
    assert twin.status_code == 201, twin.text
    with database.transaction() as session:
        ours, theirs = (
            orjson.loads(session.get_one(FeedbackRow, fb).content) for fb in (said["feedback"], twin.json()["id"])
        )
    # of rows that are not called positive an audit of a precision draws none: no sample to measure on
    assert ours.pop("audited") == [False] * 40
    assert ours == theirs

    problem(answer(client, audit, rows[:1]), 409, "audit-sealed")
    assert client.post(f"/audits/{audit}/seal").json() == said  # without a body, too
    problem(client.post(f"/audits/{audit}/seal", json={"alias": "filter"}), 409, "audit-sealed")
    quiet = ask()
    found = client.post(f"/audits/{quiet}/seal", json={"alias": "filter"}).json()
    assert found["feedback"] is None
    # What has feedback is no row that nobody has labelled, and a retrained model has learned it.
    learned = {(AGES[row], row % 2) for row in rows}
    has_feedback = np.array([(AGES[row], row % 2) in learned for row in range(LABELLED, ROWS)])
    called = AGES[LABELLED:] > 50
    pool = {"rows": ROWS - LABELLED - has_feedback.sum(), "labelled": LABELLED, "with_feedback": has_feedback.sum()}
    pool["called_positive"] = (called & ~has_feedback).sum()
    assert {name: found["pool"][name] for name in pool} == pool
    assert f"{pool['with_feedback']:,} rows without a label are left out" in found["pool"]["warnings"][0]
    assert not learned & {(AGES[row], row % 2) for row in rows_of(client, quiet, 3000)}
    assert f"of the {pool['called_positive']} rows without label and feedback that the model" in found["statement"]


def test_what_an_audit_needs_is_not_deleted_without_a_word(
    client: httpx.Client, ask: Ask, model: str, dataset: str, bench: Bench
) -> None:
    made = client.post("/audits", json={"model": model, "dataset": dataset, "objective": PRECISION}).json()
    waiting = made["id"]
    refused = problem(client.delete(f"/datasets/{dataset}"), 409, "dataset-in-use")
    assert f"DELETE /audits/{waiting}" in refused["detail"]
    assert client.delete(f"/audits/{waiting}").status_code == 204
    assert bench.row(made["job"]).status == "cancelled"

    audit = ask()
    rows = rows_of(client, audit, 2)
    answer(client, audit, rows)
    assert client.delete(f"/datasets/{dataset}").status_code == 204
    assert client.get(f"/audits/{audit}").json()["dataset"] is None
    assert answer(client, audit, rows).status_code == 200  # its rows are its own
    refused = problem(client.delete(f"/models/{model}"), 409, "model-in-use")
    assert f"POST /audits/{audit}/seal" in refused["detail"]
    assert client.post(f"/audits/{audit}/seal", json={}).status_code == 200
    assert client.delete(f"/models/{model}").status_code == 204
    problem(client.get(f"/audits/{audit}"), 404, "audit-not-found")


def test_who_deletes_an_audit_locks_its_job_first_as_the_worker_does_that_ends_it(
    client: httpx.Client, model: str, dataset: str, database: Database
) -> None:
    made = client.post("/audits", json={"model": model, "dataset": dataset, "objective": PRECISION}).json()
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with ThreadPoolExecutor(1) as other:
        with database.transaction() as session:
            session.get_one(JobRow, made["job"], with_for_update=True)
            deleted = other.submit(client.delete, f"/audits/{made['id']}")
            wait_for(lambda: session.scalar(waiting) > 0, 40)
            # the other way round each would wait for the other here
            session.get_one(AuditRow, made["id"], with_for_update={"nowait": True})
        assert deleted.result().status_code == 204


def test_what_cannot_be_audited_says_why(
    client: httpx.Client, ask: Ask, model: str, database: Database, tmp_path: Path
) -> None:
    whole = upload(client, "".join(CSV.splitlines(keepends=True)[: LABELLED + 1]).encode())["id"]
    refused = problem(
        client.post("/audits", json={"model": model, "dataset": whole, "objective": PRECISION}), 422, "invalid-request"
    )
    assert refused["errors"][0]["field"] == "body.dataset"
    assert "each of its 500 rows has a label in column 'label'" in refused["detail"]
    assert client.get("/audits").json()["items"] == []
    # where the profile does not list the labels, the worker finds out
    with database.transaction() as session:
        row = session.get_one(DatasetRow, whole)
        row.columns = [{**column, "values": None} for column in row.columns]
    audit = ask(ends="failed", dataset=whole)
    found = client.get(f"/audits/{audit}").json()
    assert (found["status"], found["error"]["code"]) == ("failed", "no_unlabelled_rows")
    problem(client.get(f"/audits/{audit}/next"), 409, "audit-not-ready")
    problem(client.post(f"/audits/{audit}/seal", json={}), 409, "audit-not-ready")
    young = upload(client, b"age,job\n" + b"30,cook\n" * 20)["id"]
    audit = ask(ends="failed", dataset=young)
    error = client.get(f"/audits/{audit}").json()["error"]
    assert error["code"] == "nothing_called_positive"
    assert "none of the 20 unlabelled rows spam" in error["message"]
    # a column of another name is no label: then all rows are unlabelled, and recall has its rows
    audit = ask({"kind": "recall", "target": 0.5}, dataset=young)
    assert client.get(f"/audits/{audit}").json()["pool"]["labelled"] == 0

    body = {"model": model, "dataset": young, "objective": PRECISION}
    problem(client.post("/audits", json=body | {"model": "nobody"}), 422, "invalid-request")
    problem(client.post("/audits", json=body | {"dataset": "ds_" + 32 * "0"}), 422, "invalid-request")
    lacking = upload(client, b"job\ncook\n")["id"]
    problem(client.post("/audits", json=body | {"dataset": lacking}), 422, "rows-do-not-fit")
    for wrong in (
        {"kind": "f1"},
        {"kind": "ham_loss", "at_most": 1},
        {"kind": "precision", "target": 0},
        {"kind": "cost", "at_most": 1},
    ):
        assert client.post("/audits", json=body | {"objective": wrong}).status_code == 422


def test_a_key_makes_one_audit(client: httpx.Client, model: str, dataset: str) -> None:
    body = {"model": model, "dataset": dataset, "objective": PRECISION}
    first, again = (client.post("/audits", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json() == again.json()
    assert len(client.get("/audits").json()["items"]) == 1
    problem(
        client.post("/audits", json=body | {"rows": 5}, headers={"Idempotency-Key": "k"}), 409, "idempotency-conflict"
    )


def test_rows_of_a_matrix(client: httpx.Client, bench: Bench, ask: Ask, database: Database, tmp_path: Path) -> None:
    lines = [f"{('+1', '-1')[i % 2]} 1:{i} 3:2.5" for i in range(1, 60)]
    dataset = upload(client, "\n".join(lines).encode(), "rows.svmlight")["id"]
    X = np.array([[1.0, 0.0, 2.5], [60.0, 0.0, 2.5]])
    features = MatrixFeatures().fit(MatrixData(X, 1))
    decision = DecisionState(
        kind="linear",
        gamma=1.0,
        degree=3,
        coef0=0.0,
        support_vectors=np.array([[1.0, 0.0, 0.0]]),
        dual_coef=np.array([1.0]),
        intercept=0.0,
        threshold=0.5,
    )
    model = store_model(database, tmp_path, Model("svm", {}, {"kind": "f1"}, (-1, 1), decision, features))
    audit = ask({"kind": "recall", "target": 0.5}, model=model, dataset=dataset)
    found = client.get(f"/audits/{audit}").json()
    assert found["pool"]["rows"] == 59  # the training is not known, so no label is
    (item,) = client.get(f"/audits/{audit}/next", params={"n": 1}).json()["items"]
    assert item["content"] == {"1": float(item["row"] + 1), "3": 2.5}
    assert item["probability"] is None
    assert answer(client, audit, [item["row"]], ["1"]).status_code == 200


def test_of_large_rows_fewer_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    ids = [f"{row:05d}" for row in range(40_000)]
    pq.write_table(pa.table({"age": np.full(40_000, 30.0), "job": ["x" * 100] * 40_000, "id": ids}), path)
    wanted = np.random.default_rng(0).permutation(40_000)[:3000]
    whole = audit._contents(model_of_ages(), path, "table", wanted)
    assert [key for key, _ in whole] == [ids[row] for row in wanted]
    monkeypatch.setattr(audit, "MOST_BYTES", 100_000)
    fewer = audit._contents(model_of_ages(), path, "table", wanted)
    assert 300 < len(fewer) < 900
    assert fewer == whole[: len(fewer)]
