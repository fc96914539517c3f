"""``/train`` and ``/jobs`` on the real application. A worker's moves are made by hand; the worker has its own tests."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from api_support import api_client, counts, set_status, store_dataset, store_model, train_body, upload
from sqlalchemy import select, text

from service.db.tables import DatasetRow, JobRow
from service.jobs.checking import check_training
from service.jobs.schemas import TrainRequest

pytestmark = pytest.mark.usefixtures("read_here")


def fields(response, status: int = 422) -> list[str]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return [error["field"] for error in response.json()["errors"]]


def test_train_puts_a_job_into_the_queue_and_wakes_the_dispatcher(client, settings, database, database_url):
    dataset = store_dataset(database)
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("LISTEN prefsvm_jobs")
        response = client.post("/train", json=train_body(dataset, alias="spam-filter", unlabeled=["?"]))
        assert response.status_code == 202, response.text
        assert [notice.channel for notice in connection.notifies(timeout=5, stop_after=1)] == ["prefsvm_jobs"]
    job = response.json()
    assert response.headers["location"] == f"/jobs/{job['id']}"
    assert (job["status"], job["attempt"], job["progress"], job["model_id"]) == ("queued", 0, 0, None)
    assert job["request"]["alias"] == "spam-filter"
    assert job["request"]["test_fraction"] == 0.2
    assert job["request"]["max_seconds"] == settings.job_max_seconds
    assert job["request"]["features"] == {
        "include": None,
        "exclude": [],
        "kinds": {},
        "missing": "indicate",
        "text": {"words": 1, "characters": 4, "max_terms": 50_000, "min_rows": 2},
        "keep_words": True,
    }
    assert job["request"]["params"]["C"] == 10
    assert client.get(f"/jobs/{job['id']}").json() == job
    events = client.get(f"/jobs/{job['id']}/events").json()
    assert [event["kind"] for event in events["items"]] == ["queued"]
    rest = client.get(f"/jobs/{job['id']}/events", params={"after": events["next_after"]}).json()
    assert rest == {"items": [], "next_after": events["next_after"]}


def test_dry_run_makes_nothing(client, database):
    dataset = store_dataset(database)
    response = client.post("/train?dry_run=true", json=train_body(dataset))
    assert response.status_code == 200, response.text
    assert response.json()["valid"] is True
    assert response.json()["request"]["seed"] == 0
    estimate = response.json()["estimate"]
    assert 400 << 20 < estimate["bytes"] < 500 << 20  # little more than the libraries
    assert estimate["seconds"] < 5
    assert "60 rows × " in estimate["how"]
    assert fields(client.post("/train?dry_run=true", json=train_body(dataset, target="nope"))) == ["body.target"]
    assert counts(database, "jobs", "job_events", "idempotency_keys") == [0, 0, 0]


def test_train_names_the_field_at_fault(client, database):
    dataset = store_dataset(database)
    wrong = {
        "body.dataset": [{"dataset": "ds_" + "0" * 32}, {"dataset": "x"}, {"dataset": 1}, {"dataset": "x" * 101}],
        "body.target": [{"target": "nope"}, {"target": ""}, {"target": None}],
        "body.positive": [
            {"positive": None},
            {"positive": ""},
            {"positive": "?", "unlabeled": ["?"]},
            {"positive": 1},
            {"positive": []},
        ],
        "body.unlabeled.0": [{"unlabeled": [None]}],
        "body.features.include.0": [{"features": {"include": ["nope"]}}],
        "body.features.include": [{"features": {"include": []}}, {"features": {"include": ["label", "age"]}}],
        "body.features.kinds.nope": [{"features": {"kinds": {"nope": "text"}}}],
        "body.features.kinds.job": [{"features": {"kinds": {"job": "magic"}}}],
        "body.features.missing": [{"features": {"missing": "ignore"}}],
        "body.features.text.characters": [{"features": {"text": {"characters": 2}}}],
        "body.features.exclude.1": [{"features": {"exclude": ["age", "nope"]}}],
        "body.features": [{"features": {"exclude": ["age", "job"]}}, {"features": 1}],
        "body.objective": [
            *({"objective": {"kind": kind}} for kind in ("accuracy", "macro_f1")),  # of several classes, in Python only
            {"objective": {}},
            {"objective": None},
        ],
        "body.objective.recall.target": [
            {"objective": {"kind": "recall", "target": target}} for target in (0, 1.1, -1, "1", True, None)
        ],
        "body.objective.precision.confidence": [{"objective": {"kind": "precision", "target": 0.9, "confidence": 1}}],
        "body.objective.f_beta.beta": [{"objective": {"kind": "f_beta", "beta": 0}}],
        "body.objective.cost.false_positive": [{"objective": {"kind": "cost", "false_negative": 1}}],
        "body.objective.f1.target": [{"objective": {"kind": "f1", "target": 0.5}}],
        "body.algorithm": [{"algorithm": "magic"}, {"algorithm": 1}],
        "body.params.nope": [{"params": {"nope": 1}}],
        "body.params.C": [{"params": {"C": -1}}, {"params": {"C": "10"}}, {"params": {"C": None}}],
        "body.params": [{"params": []}],
        "body.test_fraction": [{"test_fraction": 1}, {"test_fraction": -0.1}],
        "body.seed": [{"seed": -1}, {"seed": 2**32}, {"seed": 0.5}],
        "body.alias": [
            {"alias": alias} for alias in ("", "Spam", "-a", "a b", "x" * 64, "mdl_x", "mdl_" + "0" * 32, 1)
        ],
        "body.max_seconds": [{"max_seconds": 0}, {"max_seconds": 1e9}],
        "body.tenant": [{"tenant": "other"}],
    }
    for field, changes in wrong.items():
        for change in changes:
            response = client.post("/train", json=train_body(dataset) | change)
            assert fields(response) == [field], (change, response.text)
    several = client.post("/train", json=train_body(dataset, target="x", algorithm="magic", max_seconds=1e9))
    assert fields(several) == ["body.target", "body.algorithm", "body.max_seconds"]
    assert counts(database, "jobs") == [0]


def test_positive_is_known_where_labels_are_0_and_1_or_minus_1_and_1(client):
    for low, high, known in (
        ("0", "1", True),
        ("-1", "1", True),
        ("-1", "+1", True),
        ("1", "2", False),
        ("a", "b", False),
    ):
        rows = "".join(f"{i % 9},{(low, high)[i % 2]}\n" for i in range(20))
        dataset = upload(client, f"x,label\n{rows}".encode())
        body = {name: value for name, value in train_body(dataset).items() if name != "positive"}
        response = client.post("/train", json=body)
        if known:
            assert response.status_code == 202, response.text
        else:
            assert fields(response) == ["body.positive"]
    # A word for a missing value among numbers is no label; a third number, or a word, is one.
    for third, status in (("?", 202), ("2", 422), ("maybe", 422)):
        mixed = upload(client, b"x,label\n" + f"1,0\n2,1\n3,{third}\n".encode() * 9)
        body = {name: value for name, value in train_body(mixed).items() if name != "positive"}
        response = client.post("/train", json=body)
        assert response.status_code == status, response.text
        if status == 422:
            assert fields(response) == ["body.positive"]
            assert "to tell all of them apart, ask for the objective macro_f1" in response.json()["detail"]
    assert client.post("/train", json=body | {"unlabeled": [third]}).status_code == 202


def test_labels_that_are_neither_0_nor_1_need_a_word_before_the_job_runs(client):
    dataset = upload(client, b"x,label\n" + b"1,0\n2,1\n3,2\n" * 9)
    body = {name: value for name, value in train_body(dataset).items() if name != "positive"}
    assert fields(client.post("/train", json=body)) == ["body.positive"]
    assert fields(client.post("/train", json=body | {"unlabeled": ["?"]})) == ["body.positive"]
    for spelling in ("2", "2.0"):
        assert client.post("/train", json=body | {"unlabeled": [spelling]}).status_code == 202


def test_a_third_label_is_named_before_the_job_runs(client, database):
    def warned(*labels: str, **changes: object) -> list[str]:
        rows = "".join(f"{i},{label}\n" for i in range(10) for label in labels)
        body = train_body(upload(client, f"x,label\n{rows}".encode()), **{"objective": {"kind": "f1"}} | changes)
        said = client.post("/train?dry_run=true", json=body).json()["warnings"]
        job = client.post("/train", json=body).json()
        assert job["warnings"] == said == client.get(f"/jobs/{job['id']}").json()["warnings"]
        return said

    (said,) = warned("spam", "ham", "", "maybe")
    assert said.startswith("3 different labels: 'spam' is told from all others together ('ham', 'maybe')")
    assert warned("spam", "ham", "") == []
    assert warned("spam", "ham", "?", unlabeled=["?"]) == []
    (said,) = warned("0", "1", "2", positive="2")
    assert "('0', '1')" in said
    assert warned("spam", *(f"kind {i}" for i in range(30))) == [
        "31 different labels: 'spam' is told from all others together"
    ]


def test_labels_that_are_too_few_for_the_target_are_counted_before_the_job_runs(client):
    def warned(of_each: int, **changes: object) -> list[str]:
        rows = "".join(f"{i},{label}\n" for i in range(of_each) for label in ("spam", "ham", ""))
        body = train_body(upload(client, f"x,label\n{rows}".encode()), **changes)
        return client.post("/train?dry_run=true", json=body).json()["warnings"]

    (said,) = warned(15)
    assert said.startswith("15 labelled 'spam' rows are too few to promise recall 90%: even without an error")
    assert said.endswith("it takes at least 16, or a lower target")
    assert warned(16) == []
    assert warned(15, refit=False) == []  # the rows that are held out count in full then
    assert warned(15, objective={"kind": "f1"}) == []
    assert warned(15, labels={"keep": 20}) == []
    (said,) = warned(16, objective={"kind": "recall", "target": 0.9, "confidence": 0.95})
    assert said.startswith("16 labelled 'spam' rows are too few to certify recall 90% with confidence 95%")


def test_a_sparse_data_set_can_be_trained_on(client):
    dataset = upload(client, b"".join(b"%d 1:0.5 3:%d\n" % ((1, -1)[i % 2], i) for i in range(20)), name="a.svm")
    assert dataset["layout"] == "matrix"
    target = next(column["name"] for column in dataset["columns"] if column["kind"] == "number")
    body = {"dataset": dataset["id"], "target": target, "objective": {"kind": "f1"}, "algorithm": "svm"}
    response = client.post("/train", json=body)
    assert response.status_code == 202, response.text
    assert fields(client.post("/train", json=body | {"target": "features"})) == ["body.target"]
    assert client.post("/train", json=body | {"features": {"exclude": ["2"]}}).status_code == 202
    assert fields(client.post("/train", json=body | {"features": {"exclude": ["x"]}})) == ["body.features.exclude.0"]


def test_a_sparse_column_that_counts_the_rows_is_left_out_and_can_be_taken_in(client):
    lines = b"".join(b"%d 1:0.5 3:%d\n" % ((1, -1)[i > 10], i) for i in range(30))
    dataset = upload(client, lines, name="a.svm")
    assert dataset["columns"][0]["identifiers"] == {"3": "counts the rows"}
    body = {"dataset": dataset["id"], "target": "label", "objective": {"kind": "f1"}, "algorithm": "svm"}

    def warned(**features):
        answer = client.post("/train?dry_run=true", json=body | {"features": features})
        assert answer.status_code == 200, answer.text
        return answer.json()["warnings"]

    (said,) = warned()
    assert said.startswith(
        "column '3' counts the rows: a training leaves it out, unless `include` or `kinds` of `features` names it"
    )
    assert warned(include=["1", "3"]) == warned(kinds={"3": "number"}) == warned(exclude=["3"]) == []
    refused = client.post("/train", json=body | {"features": {"kinds": {"3": "text", "x": "number"}}})
    assert fields(refused) == ["body.features.kinds.3", "body.features.kinds.x"]


def test_idempotency_key(client, database):
    dataset = store_dataset(database)
    key = {"Idempotency-Key": "job-1"}
    first = client.post("/train", json=train_body(dataset), headers=key)
    set_status(database, first.json()["id"], "running")
    again = client.post("/train", json=train_body(dataset), headers=key)
    assert again.status_code == 202
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    other = client.post("/train", json=train_body(dataset, seed=1), headers=key)
    assert other.status_code == 409
    assert other.json()["type"] == "urn:prefsvm:problem:idempotency-conflict"
    # A refused request does not use up its key.
    assert (
        client.post("/train", json=train_body(dataset, target="x"), headers={"Idempotency-Key": "b"}).status_code == 422
    )
    assert client.post("/train", json=train_body(dataset), headers={"Idempotency-Key": "b"}).status_code == 202
    assert counts(database, "jobs", "idempotency_keys") == [2, 2]


def test_a_race_with_few_keys_makes_one_job_each(client, database):
    dataset = store_dataset(database)

    def post(number: int):
        body = train_body(dataset, seed=number % 5)
        return number % 5, client.post("/train", json=body, headers={"Idempotency-Key": f"key-{number % 5}"})

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(post, range(50)))
    assert {answer.status_code for _, answer in answers} == {202}
    for key in range(5):
        assert len({answer.content for number, answer in answers if number == key}) == 1
    assert counts(database, "jobs", "job_events", "idempotency_keys") == [5, 5, 5]


def test_a_data_set_is_not_deleted_from_under_a_new_job(client, database):
    for _ in range(10):
        dataset = store_dataset(database)
        with ThreadPoolExecutor(2) as pool:
            training = pool.submit(client.post, "/train", json=train_body(dataset, algorithm="svm"))
            deleting = pool.submit(client.delete, f"/datasets/{dataset['id']}")
        outcome = (training.result().status_code, deleting.result().status_code)
        assert outcome in {(202, 409), (422, 204)}


def test_cancel(client, database):
    dataset = store_dataset(database)
    queued, running, done = (client.post("/train", json=train_body(dataset)).json()["id"] for _ in range(3))
    set_status(database, running, "running")
    set_status(database, done, "succeeded")

    response = client.post(f"/jobs/{queued}/cancel")
    assert response.status_code == 202, response.text
    assert response.json()["status"] == "cancelled"
    assert response.json()["finished_at"] is not None
    assert client.post(f"/jobs/{queued}/cancel").status_code == 202
    kinds = [event["kind"] for event in client.get(f"/jobs/{queued}/events").json()["items"]]
    assert kinds == ["queued", "finished"]

    response = client.post(f"/jobs/{running}/cancel", json={"keep_best": True})
    assert response.status_code == 202
    assert response.json()["status"] == "running"
    asked = response.json()["cancel_requested_at"]
    assert asked is not None
    assert client.post(f"/jobs/{running}/cancel", json={}).json()["cancel_requested_at"] == asked
    events = client.get(f"/jobs/{running}/events").json()["items"]
    assert [event["data"] for event in events if event["kind"] == "cancelling"] == [
        {"keep_best": True},
        {"keep_best": False},
    ]
    with database.transaction() as session:
        kept = session.execute(text("SELECT cancel_keep_best FROM jobs WHERE id = :id"), {"id": running}).scalar_one()
    assert kept is False

    finished = client.post(f"/jobs/{done}/cancel")
    assert finished.status_code == 409
    assert finished.json()["type"] == "urn:prefsvm:problem:job-finished"
    assert fields(client.post(f"/jobs/{running}/cancel", json={"keep_best": 1})) == ["body.keep_best"]
    for unknown in ("job_" + "0" * 32, "x", dataset["id"], "%00"):
        for call in (client.get(f"/jobs/{unknown}"), client.get(f"/jobs/{unknown}/events")):
            assert call.status_code == 404
        assert client.post(f"/jobs/{unknown}/cancel").json()["type"] == "urn:prefsvm:problem:job-not-found"


def test_lists(client, database, tmp_path):
    dataset = store_dataset(database)
    made = [client.post("/train", json=train_body(dataset)).json()["id"] for _ in range(4)]
    set_status(database, made[0], "succeeded")
    model = store_model(database, tmp_path, job_id=made[0])
    assert client.get(f"/jobs/{made[0]}").json()["model_id"] == model
    page = client.get("/jobs", params={"limit": 3}).json()
    rest = client.get("/jobs", params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [job["id"] for job in page["items"] + rest["items"]] == made[::-1]
    assert rest["next_cursor"] is None
    ended = client.get("/jobs", params={"status": "succeeded"}).json()["items"]
    assert [job["id"] for job in ended] == [made[0]]
    assert fields(client.get("/jobs", params={"status": "lost"})) == ["query.status"]
    for bad in ("-1", "9" * 30, "9" * 5000, str(2**63), "x"):
        assert fields(client.get(f"/jobs/{made[0]}/events", params={"after": bad})) == ["query.after"]


def test_numbers_in_positive_and_unlabeled_may_be_spelt_as_in_the_file(client):
    dataset = upload(client, b"x,label\n" + b"1,0.0\n2,1.0\n3,-1.0\n" * 9)
    body = train_body(dataset) | {"positive": "1.0", "unlabeled": ["-1.0", "0.50", "?"]}
    request = client.post("/train", json=body).json()["request"]
    assert (request["positive"], request["unlabeled"]) == ("1", ["-1", "0.5", "?"])
    assert fields(client.post("/train", json=body | {"unlabeled": ["1"]})) == ["body.positive"]
    for one in (1, 1.0, True, "true", "01"):
        request = client.post("/train?dry_run=true", json=body | {"positive": one, "unlabeled": [-1, 0.5]}).json()
        assert (request["request"]["positive"], request["request"]["unlabeled"]) == ("1", ["-1", "0.5"])
    holes = upload(client, b"x,label\n" + b"1,0\n2,1\n3,\n4,?\n" * 9)
    for one in (1, 1.0, True, "1.0"):
        request = client.post("/train?dry_run=true", json=train_body(holes, positive=one, unlabeled=["?"])).json()
        assert request["request"]["positive"] == "1"
    assert fields(client.post("/train", json=train_body(holes, positive=2, unlabeled=["?"]))) == ["body.positive"]


def test_labels_that_the_profile_knows_are_looked_at_before_a_job_is_made(client):
    rows = "".join(f"{i % 9},{('spam', 'ham', '?')[i % 3]},{i % 2},{7 + i % 2}\n" for i in range(30))
    dataset = upload(client, f"x,label,bit,number\n{rows}".encode())

    def answer(**changes):
        return client.post("/train?dry_run=true", json=train_body(dataset, unlabeled=["?"]) | changes)

    assert answer().status_code == 200
    assert fields(answer(positive="Spam")) == ["body.positive"]
    assert fields(answer(positive="spam", unlabeled=["?", "ham"])) == ["body.target"]
    assert answer(target="number", positive="8.0").status_code == 200
    for unknown in ("9", "spam", "6.5"):
        assert fields(answer(target="number", positive=unknown)) == ["body.positive"]


def test_a_class_of_one_row_is_refused_in_the_words_of_the_job(client, database, settings):
    rows = "".join(f"{i % 9},{('ham', 'tea', 'spam', '?')[min(i, 3)]},{min(i, 1)},{int(i < 1)}\n" for i in range(30))
    dataset = upload(client, f"x,label,most,few\n{rows}".encode())
    needed = "need at least 2 labelled rows of each class, got"
    for changes, field, got in (
        ({"negative": ["ham", "tea", "?"]}, "body.positive", "29 of 'not spam', 1 of 'spam'"),
        ({"positive": "spam", "unlabeled": ["?"]}, "body.positive", "2 of 'not spam', 1 of 'spam'"),
        ({"positive": "?", "unlabeled": ["tea", "spam"]}, "body.target", "1 of 'ham', 27 of '?'"),
        ({"target": "most", "positive": None}, "body.target", "1 of '0', 29 of '1'"),
        ({"target": "few", "positive": None}, "body.target", "29 of '0', 1 of '1'"),
        ({"target": "few", "positive": "1"}, "body.positive", "29 of '0', 1 of '1'"),
    ):
        for path in ("/train", "/train?dry_run=true"):
            answer = client.post(path, json=train_body(dataset) | {"positive": "spam"} | changes)
            assert fields(answer) == [field]
            assert answer.json()["errors"][0]["message"] == f"{needed} {got}"
    assert client.post("/train?dry_run=true", json=train_body(dataset, positive="?")).status_code == 200
    with database.transaction() as session:
        stored = session.scalars(select(DatasetRow).where(DatasetRow.id == dataset["id"])).one()
    mended = TrainRequest.model_validate(train_body(dataset, negative=["ham", "tea", "?"]))
    check_training(mended, stored, settings, feedback_rows=1)  # may mend it


def test_a_method_that_needs_unlabelled_rows_is_refused_where_there_are_none(client):
    rows = "".join(f"{i % 9},{('ham', 'spam')[i % 2]},{i % 2}\n" for i in range(30))
    dataset = upload(client, f"x,label,number\n{rows}".encode())
    asked = train_body(dataset) | {"positive": "spam", "algorithm": "psvm"}
    for path in ("/train", "/train?dry_run=true"):
        for changes in ({}, {"target": "number", "positive": "1"}):
            answer = client.post(path, json=asked | changes)
            assert fields(answer) == ["body.algorithm"]
            assert "psvm learns from unlabelled rows, and there are none; use svm" in answer.text
    assert client.post("/train?dry_run=true", json=asked | {"algorithm": "svm"}).status_code == 200
    some = upload(client, f"x,label\n3,\n{rows.replace(',0', '').replace(',1', '')}".encode())
    assert client.post("/train?dry_run=true", json=asked | {"dataset": some["id"]}).status_code == 200


def test_a_label_is_the_same_however_its_accents_are_written(client):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    rows = "".join(f"{i % 9},{(composed, decomposed, 'tea')[i % 3]}\n" for i in range(30))
    dataset = upload(client, f"x,label\n{rows}".encode())
    for positive in (composed, decomposed):
        answer = client.post("/train?dry_run=true", json=train_body(dataset, positive=positive))
        assert answer.status_code == 200, answer.text
        assert answer.json()["request"]["positive"] == composed
        assert answer.json()["warnings"] == []  # two labels, not three
    answer = client.post("/train", json=train_body(dataset, positive="tea", unlabeled=[decomposed]))
    assert fields(answer) == ["body.target"]  # all labelled rows are tea


def test_what_cannot_be_a_label_is_refused_before_a_job_is_made(client, database):
    quoted = {"control": '"a\nb"', "long": "é" * 257, "words": "spam"}
    rows = "".join(
        f"{i % 9}" + "".join(f",{(text, 'ham')[i % 2]}" for text in quoted.values()) + "\n" for i in range(30)
    )
    dataset = upload(client, f"x,{','.join(quoted)}\n{rows}".encode())
    for positive, said in (("spam\x07", "control characters"), ("\u0958" * 200, "over 256 characters")):
        for path in ("/train", "/train?dry_run=true"):
            answer = client.post(path, json=train_body(dataset, target="words", positive=positive))
            assert fields(answer) == ["body.positive"]
            assert said in answer.text
    for target, said in (("control", "control characters"), ("long", "over 256 characters")):
        answer = client.post("/train?dry_run=true", json=train_body(dataset, target=target, positive="ham"))
        assert fields(answer) == ["body.target"]
        assert said in answer.text
    assert counts(database, "jobs") == [0]


def test_a_training_that_cannot_fit_is_refused_with_what_helps(client, settings, database):
    dataset = store_dataset(database)

    def refusal(rows, client=client, **changes):
        with database.transaction() as session:
            session.execute(
                text("UPDATE datasets SET rows = :rows, columns = jsonb_set(columns, '{2,values,ham}', :ham)"),
                {"rows": rows, "ham": str(rows - 40)},
            )
        response = client.post("/train", json=train_body(dataset) | changes)
        assert response.status_code == 422, response.text
        (error,) = response.json()["errors"]
        return error["field"], error["message"]

    field, message = refusal(10**9)
    assert field == "body.features"
    assert "fewer columns in features.include" in message
    assert "a job may use 8,192 MiB" in message
    field, message = refusal(200_000, algorithm="lapsvm", params={})
    assert field == "body.params"
    assert "kernel = 'linear'" in message
    field, message = refusal(100_000, params={"cache_size": 9000})
    assert "a smaller cache_size" in message
    with api_client(settings, job_memory_bytes=1 << 30) as small:
        field, message = refusal(3_000_000, small, params={"kernel": "rbf", "solver": "exact"})
    assert field == "body.params"
    assert "a job may use 1,024 MiB" in message
    assert "solver = 'lowrank'" in message
    linear = client.post("/train", json=train_body(dataset, params={"kernel": "linear"}))
    assert linear.status_code == 202, linear.text
    assert linear.json()["estimate"]["seconds"] > 10
    assert counts(database, "jobs") == [1]


def test_retry(client, database):
    dataset = store_dataset(database)
    first = client.post("/train", json=train_body(dataset, seed=7)).json()
    assert first["retry_of"] is None
    early = client.post(f"/jobs/{first['id']}/retry")
    assert (early.status_code, early.json()["type"]) == (409, "urn:prefsvm:problem:job-not-finished")
    set_status(database, first["id"], "failed")
    again = client.post(f"/jobs/{first['id']}/retry", headers={"Idempotency-Key": "a"})
    assert again.status_code == 202, again.text
    second = again.json()
    assert again.headers["location"] == f"/jobs/{second['id']}"
    assert (second["retry_of"], second["status"], second["attempt"]) == (first["id"], "queued", 0)
    assert second["request"] == first["request"]
    assert second["estimate"] == first["estimate"]
    assert client.get(f"/jobs/{first['id']}").json()["status"] == "failed"
    assert client.post(f"/jobs/{first['id']}/retry", headers={"Idempotency-Key": "a"}).json() == second
    set_status(database, second["id"], "succeeded")
    third = client.post(f"/jobs/{second['id']}/retry")
    assert third.json()["retry_of"] == second["id"]
    assert client.post(f"/jobs/job_{'0' * 32}/retry").status_code == 404
    client.post(f"/jobs/{third.json()['id']}/cancel")
    assert client.delete(f"/datasets/{dataset['id']}").status_code == 204
    gone = client.post(f"/jobs/{first['id']}/retry")
    assert fields(gone) == ["body.dataset"]
    assert (
        f"{dataset['id']}, the data set of that training, was deleted; upload it and train again"
        in gone.json()["detail"]
    )
    assert counts(database, "jobs") == [3]


def test_columns_that_number_the_rows_are_left_out_and_said(client):
    rows = "".join(f"{3 * i + 7},{i % 9},{('spam', 'ham', '')[i % 3]}\n" for i in range(60))
    dataset = upload(client, f",x,label\n{rows}".encode())
    for path, status in (("/train?dry_run=true", 200), ("/train", 202)):
        answer = client.post(path, json=train_body(dataset))
        assert answer.status_code == status, answer.text
        (warning,) = answer.json()["warnings"]
        assert warning.startswith("column 'column1' ")
        assert warning in dataset["warnings"]  # so that a command which uploads and trains says it once
    for features in ({"include": ["column1", "x"]}, {"kinds": {"column1": "number"}}, {"exclude": ["column1"]}):
        answer = client.post("/train?dry_run=true", json=train_body(dataset, features=features))
        assert answer.status_code == 200, answer.text
        assert answer.json()["warnings"] == []
    refused = client.post("/train", json=train_body(dataset, features={"exclude": ["x"]}))
    assert refused.status_code == 422
    assert "leave no column to learn from; column 'column1' has the name" in refused.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("labels", "options", "asked"),
    [
        (["10%", "20%", "30%"], {}, {"10%": "10%", "10": "10%"}),
        (["$5", "$1,000", "$7.5"], {}, {"$1,000": "$1,000", "1000": "$1,000"}),
        (["1,5", "2,5"], {"decimal": ","}, {"1,5": "1,5", "1.5": "1,5"}),
        (["Yes", "yes", "No", "no"], {}, {"Yes": "Yes", "yes": "yes"}),
    ],
)
def test_labels_are_called_as_they_stand_in_the_file(client, database, labels, options, asked):
    lines = "".join(f'{i % 9},"{label}"\n' for i, label in enumerate(labels * 20))
    dataset = upload(client, f"x,label\n{lines}".encode(), options=json.dumps(options))
    for positive, called in asked.items():
        job = client.post("/train", json=train_body(dataset, positive=positive))
        assert job.status_code == 202, job.text
        with database.transaction() as session:
            request = session.get(JobRow, job.json()["id"]).request
        assert request["positive"] == called
        assert request["labels"]["fold"] == (positive == "Yes")
    refused = client.post("/train", json=train_body(dataset, positive="40%"))
    assert refused.status_code == 422
    assert "no row of the target column has this label; there are" in refused.text


def test_words_for_missing_values_are_no_labels_in_silence(client):
    def dry_run(rows: list[str], **changes):
        lines = "".join(f"{i % 9},{label}\n" for i, label in enumerate(rows))
        dataset = upload(client, f"x,label\n{lines}".encode())
        return client.post("/train?dry_run=true", json=train_body(dataset, positive="yes") | changes)

    for i, word in enumerate(("NA", "N/A", "nan", "NULL", "None", "?", "unknown", "-")):
        answer = dry_run(["yes"] * 30 + ["no"] * 30 * (i % 2) + [word] * 270)
        assert answer.status_code == 422, (word, answer.text)
        (error,) = answer.json()["errors"]
        assert error["field"] == "body.target"
        assert f"270 row(s) of {word!r}" in error["message"]
    labels = ["yes"] * 30 + ["no"] * 30 + ["NA"] * 240
    assert dry_run(labels, unlabeled=["NA"]).json()["warnings"] == []
    assert dry_run(labels, negative=["NA", "no"]).json()["warnings"] == []
    assert "neither positive nor listed" in dry_run(labels, negative=["no"]).text
    assert dry_run(["-1", "0", "1"] * 20, positive="1").status_code == 422
    assert dry_run(["-1", "0", "1"] * 20, positive="1", unlabeled=["-1"]).status_code == 200
    spelt = ["Yes", "yes", "YES ", "no"] * 20
    (said,) = [warning for warning in dry_run(spelt).json()["warnings"] if "fold" in warning]
    assert "'YES ', 'Yes', 'yes'" in said
    assert dry_run(spelt, labels={"fold": True}).json()["warnings"] == []
    assert dry_run(spelt, labels={"fold": True, "keep": 80}).status_code == 200
    assert "there are 80 labels" in dry_run(spelt, labels={"keep": 81}).text
    # what folding makes one cannot be two things
    for changes, field, said in (
        ({"unlabeled": ["YES "]}, "body.positive", "is also listed in `unlabeled`, in other capitals"),
        ({"negative": ["YES ", "no"]}, "body.positive", "is also listed in `negative`, in other capitals"),
        ({"negative": ["no"], "unlabeled": ["No"]}, "body.negative", "listed in `unlabeled`, as labels.fold makes"),
    ):
        answer = dry_run(spelt, labels={"fold": True}, **changes)
        assert answer.status_code == 422, answer.text
        (error,) = answer.json()["errors"]
        assert error["field"] == field
        assert said in error["message"]


def test_words_that_became_missing_in_a_column_of_numbers_are_named(client):
    rows = "".join(f"{i % 9},{1 if i % 3 else 'NA'}\n" for i in range(60))
    dataset = upload(client, ("age,label\n" + rows).encode())
    for changes in ({"positive": None}, {"positive": "1"}, {"positive": "NA"}, {"positive": "1", "negative": ["NA"]}):
        (error,) = client.post("/train", json=train_body(dataset, **changes)).json()["errors"]
        assert "20 times 'NA' count as missing in a column of numbers" in error["message"], changes
        assert '{"columns": {"label": "category"}}' in error["message"]
    client.patch(f"/datasets/{dataset['id']}", json={"columns": {"label": "category"}}).raise_for_status()
    client.post("/train", json=train_body(dataset, positive="1", negative=["NA"])).raise_for_status()
