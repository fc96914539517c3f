"""Corrected labels: what is taken, what it costs, and that the next training of the alias learns them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from access_support import make_tenant
from api_support import api_client, set_status, store_dataset, store_model, tiny_model, train_body, upload
from database_roles import as_api, as_role
from sqlalchemy import event, text
from worker_bench import Bench, wait_for

from service.blobs.store import BlobStore
from service.db import roles
from service.db.session import Database
from service.db.tables import JobRow
from service.feedback.repository import FeedbackRepository
from service.jobs.claims import JobClaims
from service.models.repository import AliasRepository
from service.retention import Keeper
from service.settings import Settings
from solver.features import MatrixData, MatrixFeatures
from solver.model_file import Model
from worker.child_pool import ChildPool
from worker.fit import read_corrections
from worker.kinds.training import fetch_feedback

pytestmark = pytest.mark.usefixtures("read_here")

ROW = {"age": 39, "job": "clerk", "note": "kept for later"}


@pytest.fixture
def client(settings: Settings, database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with api_client(settings) as made:
        made.put("/aliases/spam-filter", json={"model": store_model(database, tmp_path)})
        yield made


def send(client: httpx.Client, *, status: int = 201, headers: dict[str, str] | None = None, **body: Any) -> Any:
    answer = client.post("/feedback", json={"alias": "spam-filter"} | body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_what_was_sent_is_listed_counted_and_deleted(client: httpx.Client) -> None:
    first = send(client, rows=[ROW, ROW], labels=["ham", "spam"])
    second = send(client, rows=[ROW], labels=["ham"])
    assert (first["rows"], first["labels"]) == (2, {"ham": 1, "spam": 1})
    assert first["model_id"] == client.get("/aliases").json()["items"][0]["model_id"]
    page = client.get("/feedback?alias=spam-filter&limit=1").json()
    assert page["items"] == [second]
    rest = client.get("/feedback", params={"alias": "spam-filter", "cursor": page["next_cursor"]}).json()
    assert rest == {"items": [first], "next_cursor": None}
    assert client.get("/feedback?alias=other").json()["items"] == []
    assert client.get(f"/feedback/{first['id']}").json() == first
    assert client.get("/limits").json()["usage"]["stored_bytes"] >= first["bytes"] + second["bytes"]
    assert client.delete(f"/feedback/{first['id']}").status_code == 204
    assert client.delete(f"/feedback/{first['id']}").status_code == 404
    assert client.get(f"/feedback/{first['id']}").json()["type"].endswith("feedback-not-found")
    assert client.get("/feedback").json()["items"] == [second]


def test_the_same_key_makes_it_once(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    key = {"Idempotency-Key": "once"}
    first = send(client, rows=[ROW], labels=["ham"], headers=key)
    assert send(client, rows=[ROW], labels=["ham"], headers=key) == first
    send(client, rows=[ROW], labels=["spam"], headers=key, status=409)
    other = store_model(database, tmp_path, replace(tiny_model(), classes=("eggs", "toast")))
    client.put("/aliases/spam-filter", json={"model": other})
    send(client, rows=[ROW], labels=["ham"], status=422)
    assert send(client, rows=[ROW], labels=["ham"], headers=key) == first
    client.delete(f"/feedback/{first['id']}")
    assert send(client, rows=[ROW], labels=["ham"], headers=key, status=409)["type"].endswith("idempotency-conflict")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"rows": [ROW], "labels": ["eggs"]}, "body.labels.0", "one of the model's labels, 'ham' or 'spam'"),
        ({"rows": [ROW], "labels": [""]}, "body.labels.0", "one of the model's labels"),
        ({"rows": [ROW], "labels": ["ham", "ham"]}, "body.labels", "one label for each of the 1 rows and has 2"),
        ({"rows": [{"job": "clerk"}], "labels": ["ham"]}, "body.rows", "age"),
        ({"rows": [{"age": "old", "job": "clerk"}], "labels": ["ham"]}, "body.rows.0", "a finite number or null"),
        ({"rows": [{"age": 1, "job": ["x"]}], "labels": ["ham"]}, "body.rows.0.job", ""),
        ({"rows": [], "labels": ["ham"]}, "body.rows", ""),
        ({"labels": ["ham"]}, "body.rows", "give one of"),
        ({"rows": [ROW], "texts": ["x"], "labels": ["ham"]}, "body.texts", "give one of"),
        ({"texts": ["x"], "labels": ["ham"]}, "body.texts", "one column of text"),
        ({"messages": ["x"], "labels": ["ham"]}, "body.messages", "a model of mails"),
        ({"alias": "nobodys", "rows": [ROW], "labels": ["ham"]}, "body.alias", "no alias has this name"),
    ],
)
def test_what_does_not_fit_is_refused(client: httpx.Client, body: dict[str, Any], field: str, said: str) -> None:
    answer = send(client, status=422, **body)
    assert any(error["field"].startswith(field) and said in error["message"] for error in answer["errors"]), answer
    assert client.get("/feedback").json()["items"] == []


def test_limits(settings: Settings, database: Database, tmp_path: Path) -> None:
    with api_client(settings, max_feedback_rows=3, max_predict_rows=2) as client:
        client.put("/aliases/spam-filter", json={"model": store_model(database, tmp_path)})
        send(client, rows=[ROW] * 3, labels=["ham"] * 3, status=422)
        first = send(client, rows=[ROW] * 2, labels=["ham"] * 2)
        full = send(client, rows=[ROW] * 2, labels=["ham"] * 2, status=409)
        assert full["type"].endswith("too-much-feedback")
        client.delete(f"/feedback/{first['id']}")
        stored = client.get("/limits").json()["usage"]["stored_bytes"]
        with database.transaction() as session:
            limits = text("UPDATE projects SET limits = jsonb_build_object('stored_bytes', CAST(:most AS int))")
            session.execute(limits, {"most": stored + 50})
        send(client, rows=[ROW], labels=["ham"], status=403)


def test_rows_of_a_matrix(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    plain = tiny_model()
    features = MatrixFeatures().fit(MatrixData(np.eye(plain.decision.support_vectors.shape[1])))
    model = Model("svm", {}, {"kind": "f1"}, (-1, 1), plain.decision, features)
    client.put("/aliases/sparse", json={"model": store_model(database, tmp_path, model)})
    assert send(client, alias="sparse", rows=[{"1": 0.5}], labels=["-1"])["labels"] == {"-1": 1}
    for one in (1, 1.0, True, "1.0"):
        assert send(client, alias="sparse", rows=[{"1": 0.5}], labels=[one])["labels"] == {"1": 1}
    assert send(client, alias="sparse", rows=[{"1": 0.5}], labels=[2], status=422)["type"].endswith("does-not-fit")
    refused = send(client, alias="sparse", rows=[{"1": "x"}], labels=["1"], status=422)
    assert refused["type"].endswith("feedback-does-not-fit")


def test_a_label_is_the_same_however_its_accents_are_written(
    client: httpx.Client, database: Database, tmp_path: Path
) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    for known in (composed, decomposed):  # the other form is that of a model which is older than this rule
        model = replace(tiny_model(), classes=(known, "tea"))
        client.put("/aliases/drinks", json={"model": store_model(database, tmp_path, model)})
        made = send(client, alias="drinks", rows=[ROW, ROW], labels=[composed, decomposed])
        assert made["labels"] == {composed: 2}


def test_what_it_holds_is_in_no_log(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    send(client, rows=[ROW | {"job": "xyzzy"}], labels=["ham"])
    send(client, rows=[{"age": "xyzzy", "job": "x"}], labels=["ham"], status=422)
    assert "xyzzy" not in caplog.text


def test_old_feedback_is_deleted(client: httpx.Client, settings: Settings, database: Database) -> None:
    old, young = (send(client, rows=[ROW], labels=["ham"]) for _ in range(2))
    with database.transaction() as session:
        session.execute(text("UPDATE feedback SET created_at = now() - interval '3 days' WHERE id = :id"), old)
    keeper = Keeper(
        settings.model_copy(update={"retain_feedback_days": 2}), database, BlobStore(settings.blob_location)
    )
    assert keeper.sweep() == {"feedback": 1}
    assert client.get("/feedback").json()["items"] == [young]


# -- trainings ---------------------------------------------------------------------------------------------------------


def test_a_job_is_given_what_was_there_when_it_was_made(
    client: httpx.Client, database: Database, tmp_path: Path
) -> None:
    dataset = store_dataset(database)

    def given(job: dict[str, Any]) -> list[str] | None:
        """Let a worker claim the job, as often as it likes, and return the labels that its child reads."""
        path = tmp_path / job["id"]
        with database.transaction() as session:
            claim = JobClaims(30).claim(session, job["id"])
        assert claim is not None
        fetch_feedback(database, claim, path)
        found = read_corrections(path)
        return None if found is None else list(found.labels)

    def train(**changes: Any) -> dict[str, Any]:
        return client.post("/train", json=train_body(dataset, **{"alias": "spam-filter"} | changes)).json()

    nothing = train()
    first = send(client, rows=[ROW], labels=["ham"])
    early = train()
    send(client, rows=[ROW, ROW], labels=["spam", "ham"])
    assert given(nothing) is None
    assert given(early) == ["ham"]
    assert given(train()) == ["ham", "spam", "ham"]
    assert given(train(feedback=False)) is None
    assert given(train(alias=None)) is None
    assert given(train(alias="other")) is None
    # The same job again: the same rows.
    set_status(database, early["id"], "failed")
    assert given(client.post(f"/jobs/{early['id']}/retry").json()) == ["ham"]
    # All who compute for one job must see the same rows.
    in_use = client.delete(f"/feedback/{first['id']}")
    assert (in_use.status_code, in_use.json()["type"]) == (409, "urn:prefsvm:problem:feedback-in-use")
    in_use = client.delete("/aliases/spam-filter")
    assert (in_use.status_code, in_use.json()["type"]) == (409, "urn:prefsvm:problem:alias-in-use")
    for job in client.get("/jobs").json()["items"]:
        set_status(database, job["id"], "failed")
    assert client.delete(f"/feedback/{first['id']}").status_code == 204
    last = train()
    assert given(last) == ["spam", "ham"]
    set_status(database, last["id"], "failed")
    assert client.delete("/aliases/spam-filter").status_code == 204
    assert client.get("/feedback").json()["items"] == []


@pytest.mark.parametrize("who", ["caller", "retention"])
@pytest.mark.parametrize("first", ["delete", "train"])
def test_feedback_is_not_deleted_from_under_a_new_job(
    client: httpx.Client,
    settings: Settings,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    first: str,
) -> None:
    """Whoever comes second waits for the first, at the moment at which each has looked at what the other changes."""
    dataset = store_dataset(database)
    old = send(client, rows=[ROW], labels=["ham"])
    with database.transaction() as session:
        session.execute(text("UPDATE feedback SET created_at = now() - interval '3 days'"))
    has_looked, go_on = threading.Event(), threading.Event()

    def held(function: Any) -> Any:
        def hold(*arguments: Any, **named: Any) -> Any:
            found = function(*arguments, **named)
            if not has_looked.is_set():
                has_looked.set()
                go_on.wait(40)
            return found

        return hold

    def train() -> int | None:
        made = client.post("/train", json=train_body(dataset, alias="spam-filter")).json()
        with database.transaction() as session:
            return session.get_one(JobRow, made["id"]).feedback_until

    def delete() -> bool:
        if who == "caller":
            return client.delete(f"/feedback/{old['id']}").status_code == 204
        with closing(Database(as_api(settings)["system_database_url"])) as other:
            event.listen(other.engine, "after_cursor_execute", held_delete)
            keeping = settings.model_copy(update={"retain_feedback_days": 2})
            return Keeper(keeping, other, BlobStore(settings.blob_location)).sweep() == {"feedback": 1}

    def held_delete(*arguments: Any) -> None:
        if first == "delete" and "DELETE FROM feedback" in arguments[2]:
            held(lambda: None)()

    if first == "train":
        monkeypatch.setattr(FeedbackRepository, "count_rows", held(FeedbackRepository.count_rows))
    elif who == "caller":
        look = "open_job_with_feedback"
        monkeypatch.setattr(AliasRepository, look, held(getattr(AliasRepository, look)))
    with ThreadPoolExecutor(2) as pool:
        begun = pool.submit(delete if first == "delete" else train)
        assert has_looked.wait(40)
        other = pool.submit(train if first == "delete" else delete)
        with pytest.raises(TimeoutError):
            other.result(0.3)
        go_on.set()
        outcome = {first: begun.result(20), "train" if first == "delete" else "delete": other.result(20)}
    assert outcome == ({"delete": True, "train": None} if first == "delete" else {"delete": False, "train": 1})


def test_the_estimate_of_a_training_counts_its_feedback(client: httpx.Client, database: Database) -> None:
    body = train_body(store_dataset(database), alias="spam-filter")

    def estimated(answer: httpx.Response) -> dict[str, Any]:
        assert answer.is_success, answer.text
        estimate: dict[str, Any] = answer.json()["estimate"]
        return estimate

    send(client, rows=[ROW] * 20, labels=["ham"] * 20)
    early = client.post("/train", json=body)
    send(client, rows=[ROW] * 980, labels=["ham"] * 980)
    late = client.post("/train", json=body)
    with_all, without = estimated(late), estimated(client.post("/train", json=body | {"feedback": False}))
    assert "60 rows × " in without["how"]
    assert "80 rows × " in estimated(early)["how"]
    assert "1,060 rows × " in with_all["how"]
    assert with_all["bytes"] > without["bytes"]
    assert estimated(client.post("/train", params={"dry_run": True}, json=body)) == with_all
    set_status(database, early.json()["id"], "failed")
    assert estimated(client.post(f"/jobs/{early.json()['id']}/retry")) == estimated(early)


def test_retraining_repeats_the_request_of_the_model(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    assert client.post("/aliases/nobodys/retrain").status_code == 404
    assert client.post("/aliases/spam-filter/retrain").json()["type"].endswith("nothing-to-repeat")
    job = client.post("/train", json=train_body(store_dataset(database), feedback=False, seed=7)).json()
    set_status(database, job["id"], "succeeded")
    client.put("/aliases/spam-filter", json={"model": store_model(database, tmp_path, job_id=job["id"])})
    sent = send(client, rows=[ROW], labels=["ham"])
    again = client.post("/aliases/spam-filter/retrain", headers={"Idempotency-Key": "k"})
    assert again.status_code == 202
    assert again.headers["location"] == f"/jobs/{again.json()['id']}"
    assert again.json()["request"] == job["request"] | {"alias": "spam-filter", "feedback": True}
    assert "61 rows × " in again.json()["estimate"]["how"]
    assert client.post("/aliases/spam-filter/retrain", headers={"Idempotency-Key": "k"}).json() == again.json()
    with database.transaction() as session:
        seq = session.scalar(text("SELECT seq FROM feedback WHERE id = :id"), sent)
        assert session.get_one(JobRow, again.json()["id"]).feedback_until == seq
    with database.transaction() as session:
        session.execute(text("UPDATE models SET dataset_id = NULL; DELETE FROM datasets"))
    gone = client.post("/aliases/spam-filter/retrain")
    assert (gone.status_code, gone.json()["errors"][0]["field"]) == (422, "body.dataset")
    assert (
        f"{job['request']['dataset']}, the data set of that training, was deleted; upload it and train again"
        in gone.json()["detail"]
    )


def test_a_row_that_was_decided_wrongly_is_decided_rightly(
    settings: Settings, database: Database, trainer: Bench
) -> None:
    """Upload, train, predict, correct, retrain; a project with an alias of the same name says the opposite."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 2)) + 3 * y[:, None]
    lines = [f"{a:.4f},{b:.4f},{('ham', 'spam')[label]}" for (a, b), label in zip(X, y, strict=True)]
    content = "\n".join(["a,b,label", *lines]).encode()
    wrong = {"a": -1.5, "b": -1.5}
    similar = [{"a": -1.5 + 0.05 * i, "b": -1.5 - 0.05 * i} for i in range(12)]
    with api_client(settings, keys_required=True) as client:
        ours, theirs = make_tenant(database, "ours"), make_tenant(database, "theirs")
        dataset, jobs = {}, {}
        for tenant in (ours, theirs):
            client.headers.update(tenant.headers())
            dataset = upload(client, content)
            body = train_body(dataset, algorithm="svm", params={}, objective={"kind": "f1"}, alias="spam-filter")
            jobs[tenant.project_id] = client.post("/train", json=body).json()
            assert trainer.supervisor.run(jobs[tenant.project_id]["id"]) == "succeeded"
        send(client, rows=similar, labels=["ham"] * 12)
        client.headers.update(ours.headers())

        def label() -> str:
            answer = client.post("/predict", json={"model": "spam-filter", "rows": [wrong]})
            return answer.json()["predictions"][0]["label"]

        assert label() == "ham"
        before = client.get(f"/jobs/{jobs[ours.project_id]['id']}").json()["model_id"]
        known = {"a": round(X[0, 0], 4), "b": round(X[0, 1], 4)}  # a row of the data set
        send(client, rows=[*similar, known, wrong], labels=["spam"] * 14)
        job = client.post("/aliases/spam-filter/retrain").json()
        assert trainer.supervisor.run(job["id"]) == "succeeded"
        wait_for(lambda: label() == "spam", 40)
        report = client.get(f"/models/{client.get(job_path(job)).json()['model_id']}").json()["report"]
        assert report["feedback"] == {
            "rows": 14, "added": 12, "relabelled": 1, "newly_labelled": 0, "confirmed": 0, "superseded": 1,
            "random": 0, "held_out": report["feedback"]["held_out"], "refused": [], "audited": 0, "concluded": [],
        }  # fmt: skip
        assert report["rows"]["feedback"] == 13
        old = client.get(f"/models/{before}").json()["report"]
        assert report["test"]["n"] == old["test"]["n"]
        assert report["calibration"]["n"] == old["calibration"]["n"]
        assert old["feedback"] is None
        assert client.post("/aliases/spam-filter/rollback").json()["model_id"] == before


def test_retraining_keeps_the_operating_point_that_was_applied(
    settings: Settings, training_children: ChildPool
) -> None:
    """What is repeated without new feedback decides by the same threshold; a training of one's own does not."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 2
    lines = [
        f"{a:.4f},{b:.4f},{('ham', 'spam')[k]}"
        for (a, b), k in zip(rng.normal(size=(160, 2)) + y[:, None], y, strict=True)
    ]
    with closing(Database(as_role(settings.database_url, roles.WORKER))) as as_worker, api_client(settings) as client:
        bench = Bench(settings, as_worker, training_children)
        dataset = upload(client, "\n".join(["a,b,label", *lines]).encode())
        body = train_body(dataset, algorithm="svm", params={}, objective={"kind": "f1"}, alias="spam-filter")
        wait_for(lambda: bench.spares.is_warm, 120)

        def model_of(job: httpx.Response) -> dict[str, Any]:
            assert job.status_code == 202, job.text
            assert bench.supervisor.run(job.json()["id"]) == "succeeded"
            found: dict[str, Any] = client.get("/models/spam-filter").json()
            return found

        def apply(objective: dict[str, Any] | None) -> dict[str, Any]:
            wanted = {"objective": objective, "apply": True}
            point: dict[str, Any] = client.post("/models/spam-filter/operating-points", json=wanted).json()
            return point

        assert model_of(client.post("/train", json=body))["operating_point"] is None
        point = apply({"kind": "recall", "target": 0.95})
        for _ in range(2):  # also that of a model which has it by a retraining
            kept = model_of(client.post("/aliases/spam-filter/retrain"))
            assert kept["report"]["objective"] == {"kind": "f1"}
            assert kept["operating_point"] | {"created_at": point["created_at"]} == point
            assert kept["threshold"] == point["threshold"] != kept["report"]["threshold"]
        apply({"kind": "precision", "target": 0.9})
        job = client.post("/aliases/spam-filter/retrain")
        assert job.json()["request"]["operating_point"]["kind"] == "precision"
        assert model_of(job)["objective"] == {"kind": "precision", "target": 0.9}
        # What is picked by hand is of this model: what is asked goes on, and the job says so.
        at = client.get("/models/spam-filter/thresholds").json()["points"][-1]["threshold"]
        picked = client.post("/models/spam-filter/operating-points", json={"threshold": at, "apply": True}).json()
        assert picked["calibration"]["recall"]["value"] == 1.0
        job = client.post("/aliases/spam-filter/retrain")
        assert job.json()["request"]["operating_point"]["kind"] == "precision"
        assert "picked by hand" in job.json()["warnings"][-1]
        kept = model_of(job)["operating_point"]
        assert (kept["objective"], kept["picked"]) == ({"kind": "precision", "target": 0.9}, False)
        assert kept["threshold"] != at
        apply(None)  # back to what it was trained for
        assert model_of(client.post("/aliases/spam-filter/retrain"))["operating_point"] is None
        apply({"kind": "recall", "target": 0.95})
        assert model_of(client.post("/train", json=body))["operating_point"] is None


def job_path(job: dict[str, Any]) -> str:
    return f"/jobs/{job['id']}"
