"""Texts that an encoder makes vectors of, at each door: training, predict, batch, feedback, audit, exports, shadow."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from api_support import api_client, problem, train_body, upload
from encoder_server import DIMENSIONS, KEY, MODEL, EncoderServer, encoder_server, vector
from pydantic import SecretStr
from worker_bench import Bench, wait_for

from service.db.session import Database
from service.settings import Settings
from solver.features.encoded import PROBES
from solver.model_file import read_model
from worker.child_pool import ChildPool

pytestmark = pytest.mark.usefixtures("read_here")

RNG = np.random.default_rng(3)
GOOD, BAD = ("meeting", "minutes", "agenda", "report", "tuesday"), ("winner", "prize", "claim", "urgent", "lottery")
PRECISION = {"kind": "precision", "target": 0.5}
ROWS = 90
IS_SPAM = RNG.random(ROWS) < 0.5
TEXTS = [f"{' '.join(RNG.choice(BAD if spam else GOOD, 3))} about number{i}" for i, spam in enumerate(IS_SPAM)]


def csv_file() -> bytes:
    out = io.StringIO("note,age,label\n")
    out.seek(0, io.SEEK_END)
    for i, text in enumerate(TEXTS):
        out.write(f"{text},{20 + i % 30},{('spam' if IS_SPAM[i] else 'ham') if i < 60 else ''}\n")
    return out.getvalue().encode()


@pytest.fixture
def encoder() -> Iterator[EncoderServer]:
    with encoder_server() as running:
        yield running


@pytest.fixture
def encoding(settings: Settings, encoder: EncoderServer) -> Settings:
    return settings.model_copy(
        update={
            "encoder_url": encoder.url,
            "encoder_model": MODEL,
            "encoder_key": SecretStr(KEY),
            "encoder_batch": 16,
            "encoder_seconds": 5.0,
            "encoder_probe_seconds": 0.0001,
        }
    )


@pytest.fixture
def door(encoding: Settings) -> Iterator[httpx.Client]:
    with api_client(encoding) as opened:
        yield opened


@pytest.fixture
def worker(encoding: Settings, database: Database, training_children: ChildPool) -> Iterator[Bench]:
    wait_for(lambda: training_children.is_warm, 120)
    bench = Bench(encoding, database, training_children)
    yield bench
    bench.close()


def run(client: httpx.Client, bench: Bench, body: dict[str, Any], path: str = "/train") -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code in (201, 202), response.text
    job_id = response.json()["id"]
    bench.supervisor.run(job_id)
    job: dict[str, Any] = client.get(f"/jobs/{job_id}").json()
    return job


def trained(client: httpx.Client, bench: Bench, dataset: dict[str, Any], **text: Any) -> dict[str, Any]:
    body = train_body(dataset, alias="notes", algorithm="svm", objective={"kind": "f1"}, features={"text": text})
    job = run(client, bench, body)
    assert job["status"] == "succeeded", job
    model: dict[str, Any] = client.get(f"/models/{job['model_id']}").json()
    return model


def predicted(client: httpx.Client, texts: list[str], **more: Any) -> httpx.Response:
    rows = [{"note": text, "age": 25} for text in texts]
    return client.post("/predict", json={"model": "notes", "rows": rows} | more)


def scores_of(response: httpx.Response) -> list[float]:
    assert response.status_code == 200, response.text
    return [made["score"] for made in response.json()["predictions"]]


def test_the_same_decision_at_each_door(
    door: httpx.Client, worker: Bench, encoder: EncoderServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    dataset = upload(door, csv_file(), "notes.csv")
    model = trained(door, worker, dataset)
    assert model["report"]["encoder"] == {"model": MODEL, "dimensions": DIMENSIONS, "columns": ["note"]}
    assert [(c["name"], c["kind"]) for c in model["columns"]] == [("age", "number"), ("note", "text")]
    assert set(encoder.keys) == {f"Bearer {KEY}"}
    # the text of each row was sent once, however often the training looks at it
    assert sorted(text for text in encoder.texts if text not in PROBES) == sorted(TEXTS)

    rows = [{"note": text, "age": 20 + i % 30} for i, text in enumerate(TEXTS)]
    answer = door.post("/predict", json={"model": "notes", "rows": rows})
    scores = scores_of(answer)
    assert answer.json()["warnings"] == []
    called = np.array([made["label"] == "spam" for made in answer.json()["predictions"]])
    assert (called == IS_SPAM).mean() > 0.9
    tensors = [
        {"name": "note", "shape": [ROWS], "datatype": "BYTES", "data": TEXTS},
        {"name": "age", "shape": [ROWS], "datatype": "INT64", "data": [row["age"] for row in rows]},
    ]
    inferred = door.post("/v2/models/notes/infer", json={"inputs": tensors}).json()
    assert inferred["outputs"][1]["data"] == pytest.approx(scores, abs=1e-12)

    batch = door.post("/batches", json={"model": "notes", "dataset": dataset["id"], "format": "jsonl"}).json()
    assert worker.supervisor.run(batch["id"]) == "succeeded", door.get(f"/batches/{batch['id']}").text
    lines = door.get(f"/batches/{batch['id']}/result").content.splitlines()
    assert [json.loads(line)["score"] for line in lines] == pytest.approx(scores, abs=1e-6)

    # whoever has the file and the vectors decides the same
    file = read_model(io.BytesIO(door.get(f"/models/{model['id']}/export").content).getvalue())
    assert file.encoder is not None
    assert file.encoder.model == MODEL
    onnx = door.get(f"/models/{model['id']}/export", params={"format": "onnx"})
    assert "note" in problem(onnx, 422, "not-exportable")["detail"]
    assert f"trigrams-48 ({DIMENSIONS} numbers)" in door.get(f"/models/{model['id']}/card").text
    for record in caplog.records:
        if record.levelno >= logging.INFO:
            assert "number17" not in record.getMessage()
            assert KEY not in record.getMessage()


def test_an_encoder_that_changes_goes_away_and_comes_back(
    door: httpx.Client, worker: Bench, encoder: EncoderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.predictions.encoding.DOUBTED_SECONDS", 0.0)
    monkeypatch.setattr("service.predictions.encoding.PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("worker.encoder_answers.PATIENCE_SECONDS", 0.1)
    dataset = upload(door, csv_file(), "notes.csv")
    trained(door, worker, dataset)
    before = scores_of(predicted(door, TEXTS[:3]))

    encoder.salt = "another model"
    changed = problem(predicted(door, TEXTS[:3]), 409, "encoder-changed")
    assert f"the encoder {MODEL!r} makes other vectors now" in changed["detail"]
    tensors = [
        {"name": "note", "shape": [1], "datatype": "BYTES", "data": TEXTS[:1]},
        {"name": "age", "shape": [1], "datatype": "INT64", "data": [25]},
    ]
    refused = door.post("/v2/models/notes/infer", json={"inputs": tensors})
    assert (refused.status_code, "other vectors" in refused.json()["error"]) == (409, True)
    assert door.get("/v2/models/notes/ready").status_code == 409
    assert door.get("/v2/models/notes").status_code == 200
    for path, more in (("/batches", {"format": "csv"}), ("/audits", {"objective": PRECISION})):
        body = {"model": "notes", "dataset": dataset["id"], **more}
        made = door.post(path, json=body).json()
        assert worker.supervisor.run(made.get("job", made["id"])) == "failed"
        error = door.get(f"{path}/{made['id']}").json()["error"]
        assert (error["code"], "other vectors" in error["message"]) == ("encoder_changed", True)

    encoder.salt = ""
    assert scores_of(predicted(door, TEXTS[:3])) == before
    encoder.be("error")
    away = predicted(door, TEXTS[:3])
    assert "status 500" in problem(away, 503, "encoder-away")["detail"]
    assert away.headers["Retry-After"] == "5"
    job = run(door, worker, train_body(dataset, algorithm="svm", objective={"kind": "f1"}))
    assert (job["status"], job["error"]["code"]) == ("failed", "encoder_away")
    assert "status 500" in job["error"]["message"]

    encoder.be("ok")
    assert scores_of(predicted(door, TEXTS[:3])) == before


def test_without_an_encoder_all_is_as_it_was(
    client: httpx.Client, trainer: Bench, door: httpx.Client, worker: Bench, encoder: EncoderServer
) -> None:
    dataset = upload(client, csv_file(), "notes.csv")
    plain = trained(client, trainer, dataset)
    assert plain["report"]["encoder"] is None
    for name in ("words", "none"):
        assert trained(door, worker, dataset, encoder=name)["sha256"] == plain["sha256"]
    assert encoder.texts == []
    refused = client.post("/train", json=train_body(dataset, features={"text": {"encoder": MODEL}}))
    assert "has no encoder of that name: it has none" in problem(refused, 422, "invalid-request")["detail"]
    refused = door.post("/train", json=train_body(dataset, features={"text": {"encoder": "other"}}))
    assert f"it has {MODEL!r}" in problem(refused, 422, "invalid-request")["detail"]
    refused = client.post("/train", json=train_body(dataset, features={"text": {"words": 0}}))
    assert "there must be an encoder" in problem(refused, 422, "invalid-request")["detail"]

    alone = trained(door, worker, dataset, encoder=MODEL, words=0)
    assert alone["report"]["features"] == DIMENSIONS + 1
    assert scores_of(predicted(door, TEXTS[:3]))
    away = problem(predicted(client, TEXTS[:3]), 503, "encoder-away")
    assert "no encoder configured" in away["detail"]


def test_the_encoder_is_left_alone_when_the_caller_hangs_up(
    door: httpx.Client, worker: Bench, encoder: EncoderServer
) -> None:
    trained(door, worker, upload(door, csv_file(), "notes.csv"))
    scores_of(predicted(door, TEXTS[:1]))
    encoder.be("held")
    many = [f"note number {i}" for i in range(160)]  # ten requests
    sent = len(encoder.texts)
    with pytest.raises(httpx.ReadTimeout):
        door.post("/predict", json={"model": "notes", "rows": [{"note": t, "age": 1} for t in many]}, timeout=0.3)
    assert door.get("/v2/models/notes").status_code == 200  # what needs no encoder goes on meanwhile
    time.sleep(1.0)
    encoder.be("ok")
    encoder.released.set()
    time.sleep(0.5)
    assert len(encoder.texts) - sent <= 2 * 16 + len(PROBES)


def test_a_training_can_be_cancelled_while_it_encodes(
    door: httpx.Client, worker: Bench, encoder: EncoderServer
) -> None:
    dataset = upload(door, csv_file(), "notes.csv")
    encoder.be("slow")
    encoder.seconds = 0.4
    job_id = door.post("/train", json=train_body(dataset, algorithm="svm", objective={"kind": "f1"})).json()["id"]
    thread, endings = worker.in_thread(job_id)
    wait_for(lambda: len(encoder.texts) > len(PROBES), 60)
    wait_for(lambda: door.get(f"/jobs/{job_id}").json()["phase"] == "encoding", 60)
    door.post(f"/jobs/{job_id}/cancel")
    thread.join(60)
    assert endings == ["cancelled"]
    sent = len(encoder.texts)
    time.sleep(1.0)
    assert len(encoder.texts) == sent
    assert threading.active_count() < 200


def test_rows_without_a_text_say_nothing(door: httpx.Client, worker: Bench, encoder: EncoderServer) -> None:
    trained(door, worker, upload(door, csv_file(), "notes.csv"), words=0)
    encoder.texts.clear()
    rows = [{"note": value, "age": 25} for value in (None, "", "   ", TEXTS[0], TEXTS[0])]
    answer = door.post("/predict", json={"model": "notes", "rows": rows})
    scores = scores_of(answer)
    # Where a row stands among others decides how it is added up: the last bit may differ.
    assert scores[1:3] == pytest.approx([scores[0]] * 2, abs=1e-12)
    assert scores[4] == pytest.approx(scores[3], abs=1e-12)
    assert abs(scores[3] - scores[0]) > 1e-6
    assert [text for text in encoder.texts if text not in PROBES] == [TEXTS[0]]
    foreign = predicted(door, ["昨日"])
    assert foreign.status_code == 200
    long = TEXTS[0] + " " + "x" * 5_000
    assert scores_of(predicted(door, [long])) == scores_of(predicted(door, [long[:2_000]]))


def test_the_vector_is_what_the_encoder_says(door: httpx.Client, worker: Bench, encoder: EncoderServer) -> None:
    """A model of the encoder alone is a plane in its space: known vectors give known scores."""
    model = trained(door, worker, upload(door, csv_file(), "notes.csv"), words=0)
    file = read_model(door.get(f"/models/{model['id']}/export").content)
    encoder_state = file.features.state()[0]  # type: ignore[union-attr]
    text = "a prize for the winner"
    centred = vector(text).astype(float) - encoder_state["encoded_mean"]
    expected = centred * encoder_state["encoded_weight"][0] / np.linalg.norm(centred)

    class Known:
        def identity(self) -> None:
            return None

        def encode(self, texts: list[str]) -> np.ndarray:
            return np.stack([vector(each) for each in texts])

    X, _, _ = file.features.transform_rows([{"note": text, "age": 25}], Known())  # type: ignore[union-attr,arg-type]
    assert np.asarray(X)[0, 1:] == pytest.approx(expected, abs=1e-9)
    score = float(file.decision.decision_function(X)[0])
    assert scores_of(predicted(door, [text])) == [pytest.approx(score, abs=1e-9)]


def test_feedback_audits_shadows_and_the_next_model(door: httpx.Client, worker: Bench, encoder: EncoderServer) -> None:
    dataset = upload(door, csv_file(), "notes.csv")
    first = trained(door, worker, dataset)
    sent = {"alias": "notes", "texts": None, "rows": [{"note": "a lottery for you", "age": 30}], "labels": ["spam"]}
    assert door.post("/feedback", json={k: v for k, v in sent.items() if v}).status_code == 201
    audit = door.post("/audits", json={"model": "notes", "dataset": dataset["id"], "objective": PRECISION}).json()
    assert worker.supervisor.run(audit["job"]) == "succeeded", door.get(f"/jobs/{audit['job']}").text
    assert door.get(f"/audits/{audit['id']}").json()["pool"]["rows"] == 30

    encoder.texts.clear()
    second = trained(door, worker, dataset)
    assert "a lottery for you" in encoder.texts
    assert second["report"]["feedback"]["rows"] == 1
    # the two were compared on the test rows, which needed the vectors of both
    assert second["report"]["succession"]["model"] == first["id"]
    assert second["report"]["succession"]["rows"] is None or second["report"]["succession"]["rows"]["n"] > 0
    assert "encoder" not in second["report"]["succession"]["sentence"]

    assert door.put("/aliases/notes", json={"model": second["id"], "shadow": first["id"]}).status_code == 200
    scores_of(predicted(door, TEXTS[:5]))
    wait_for(lambda: door.get("/aliases/notes/shadow").json()["rows"] == 5, 20)
    assert door.get("/aliases/notes/shadow").json()["failed"] == 0


def test_of_mails_subject_and_body_are_one_text(door: httpx.Client, worker: Bench, encoder: EncoderServer) -> None:
    folder = io.BytesIO()
    with zipfile.ZipFile(folder, "w") as archive:
        for i, text in enumerate(TEXTS[:60]):
            label = "spam" if IS_SPAM[i] else "ham"
            mail = f"From: a{i}@example.org\r\nSubject: {text}\r\n\r\nHello, {text} again {i}\r\n"
            archive.writestr(f"{label}/{i}.eml", mail)
    dataset = upload(door, folder.getvalue(), "mails.zip")
    body = train_body(dataset, alias="mails", algorithm="svm", objective={"kind": "f1"})
    job = run(door, worker, body)
    assert job["status"] == "succeeded", job
    model = door.get(f"/models/{job['model_id']}").json()
    assert model["report"]["encoder"]["columns"] == ["subject", "body"]
    texts = [text for text in encoder.texts if text not in PROBES]
    assert len(texts) == 60
    assert texts[0].count("\n") == 1
    encoder.texts.clear()
    mail = f"From: a@example.org\r\nSubject: {TEXTS[0]}\r\n\r\nHello, {TEXTS[0]} again 0\r\n"
    in_json = door.post("/predict", json={"model": "mails", "messages": [mail]})
    raw = door.post("/predict", params={"model": "mails"}, content=mail, headers={"Content-Type": "message/rfc822"})
    assert scores_of(in_json) == pytest.approx(scores_of(raw), abs=1e-9)
    assert set(encoder.texts) - set(PROBES) <= set(texts)


def test_what_another_encoder_made_meanwhile_is_not_kept(
    door: httpx.Client, worker: Bench, encoder: EncoderServer
) -> None:
    dataset = upload(door, csv_file(), "notes.csv")
    encoder.turns = True
    body = train_body(dataset, alias="notes", algorithm="svm", objective={"kind": "f1"})
    job = run(door, worker, body)
    assert (job["status"], job["error"]["code"]) == ("failed", "encoder_changed")
    encoder.turns, encoder.salt = False, ""
    encoder.texts.clear()
    trained(door, worker, dataset)
    assert sorted(text for text in encoder.texts if text not in PROBES) == sorted(TEXTS)


def test_a_retraining_sends_only_what_is_new(
    door: httpx.Client,
    worker: Bench,
    encoder: EncoderServer,
    encoding: Settings,
    database: Database,
    training_children: ChildPool,
) -> None:
    dataset = upload(door, csv_file(), "notes.csv")
    first = trained(door, worker, dataset)
    encoder.texts.clear()
    more = upload(door, csv_file() + b"one more meeting,30,ham\n", "more.csv")
    second = trained(door, worker, dataset)
    assert [text for text in encoder.texts if text not in PROBES] == []
    assert second["sha256"] == first["sha256"]
    trained(door, worker, more)
    assert [text for text in encoder.texts if text not in PROBES] == ["one more meeting"]

    encoder.texts.clear()
    batch = door.post("/batches", json={"model": "notes", "dataset": more["id"], "format": "csv"}).json()
    assert worker.supervisor.run(batch["id"]) == "succeeded"
    assert [text for text in encoder.texts if text not in PROBES] == []

    encoder.salt = "another model"  # of the same name
    trained(door, worker, dataset)
    assert sorted(text for text in encoder.texts if text not in PROBES) == sorted(TEXTS)

    encoder.texts.clear()
    without = Bench(encoding, database, training_children, encoder_cache_bytes=0)
    trained(door, without, dataset)
    without.close()
    assert sorted(text for text in encoder.texts if text not in PROBES) == sorted(TEXTS)


def events_of(client: httpx.Client, job_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get(f"/jobs/{job_id}/events").json()["items"]
    return [item["data"] for item in items if "progress" in item["data"]]


def test_that_an_encoder_is_waited_for_is_said_at_once(
    door: httpx.Client, worker: Bench, encoder: EncoderServer
) -> None:
    dataset = upload(door, csv_file(), "notes.csv")
    body = train_body(dataset, algorithm="svm", objective={"kind": "f1"})
    encoder.be("error")
    job_id = door.post("/train", json=body).json()["id"]
    thread, endings = worker.in_thread(job_id)
    wait_for(lambda: bool(encoder.texts), 60)
    wait_for(lambda: door.get(f"/jobs/{job_id}").json()["phase"] == "waiting_for_encoder", 60)
    encoder.be("ok")
    thread.join(60)
    assert endings == ["succeeded"]
    events = events_of(door, job_id)
    phases = [event["phase"] for event in events]
    waited = phases.index("waiting_for_encoder")
    assert {"encoding", "training"} <= set(phases[waited + 1 :])
    told = events[waited]
    host = encoder.url.removeprefix("http://").removesuffix("/v1")
    assert re.match(
        rf"the encoder at {host} has not answered for \d s \(it answered with the status 500\); ", told["message"]
    )
    assert f"waiting until {told['until'][11:19]} UTC" in told["message"]
    done = [event["progress"] for event in events]
    assert done == sorted(done)


def test_an_encoder_that_hangs_is_said_and_can_be_left(
    door: httpx.Client, worker: Bench, encoder: EncoderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.encoder_answers.QUIET_SECONDS", 0.5)
    monkeypatch.setattr("worker.encoder_answers.SAY_AGAIN_SECONDS", 0.5)
    dataset = upload(door, csv_file(), "notes.csv")
    encoder.be("slow")
    encoder.seconds = 60.0
    for keep_best in (False, True):
        body = train_body(dataset, algorithm="svm", objective={"kind": "f1"})
        job_id = door.post("/train", json=body).json()["id"]
        thread, endings = worker.in_thread(job_id)
        wait_for(lambda job_id=job_id: len([e for e in events_of(door, job_id) if "message" in e]) > 1, 60)
        assert door.get(f"/jobs/{job_id}").json()["phase"] == "waiting_for_encoder"
        door.post(f"/jobs/{job_id}/cancel", params={"keep_best": keep_best})
        thread.join(25)  # before the 30 s after which the encoder has not answered
        assert endings in (["cancelled"], ["failed"])


def test_a_model_that_is_left_does_not_hold_the_next_one(
    door: httpx.Client, worker: Bench, encoder: EncoderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.encoder_answers.SHORT_PROBE_SECONDS", 0.3)
    dataset = upload(door, csv_file(), "notes.csv")
    first = trained(door, worker, dataset)
    encoder.be("slow")
    encoder.seconds = 60.0
    began = time.monotonic()
    second = trained(door, worker, dataset, encoder="words")
    assert time.monotonic() - began < 29  # of the 30 s that an encoder has for an answer
    said = second["report"]["succession"]["sentence"]
    assert (
        "the comparison was left out: the encoder 'test/trigrams-48' that texts are sent to: no answer within" in said
    )

    # a shadow, likewise
    assert door.put("/aliases/notes", json={"model": second["id"], "shadow": first["id"]}).status_code == 200
    batch = door.post("/batches", json={"model": "notes", "dataset": dataset["id"], "format": "csv"}).json()
    began = time.monotonic()
    assert worker.supervisor.run(batch["id"]) == "succeeded"
    assert time.monotonic() - began < 29
    assert door.get("/aliases/notes/shadow").json()["failed"] == ROWS


def test_progress_does_not_go_back_for_the_texts_of_an_older_model(
    door: httpx.Client, worker: Bench, encoder: EncoderServer
) -> None:
    header, *lines = csv_file().decode().splitlines()
    more = "\n".join([f"more,{header}", *(f"this is note {i},{line}" for i, line in enumerate(lines))])
    dataset = upload(door, more.encode(), "notes.csv")
    body = train_body(dataset, alias="notes", algorithm="svm", objective={"kind": "f1"})
    first = run(door, worker, body)
    assert first["status"] == "succeeded", first
    encoder.texts.clear()
    second = run(door, worker, body | {"features": {"exclude": ["more"]}})
    assert second["status"] == "succeeded", second
    assert [text for text in encoder.texts if text not in PROBES] == []  # all are kept, but the job asks for them
    events = events_of(door, second["id"])
    done = [event["progress"] for event in events]
    assert [event["phase"] for event in events].count("encoding") > 1
    assert done == sorted(done)
