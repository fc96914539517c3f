"""POST /predict with texts and mails: whole messages in JSON or as the body."""

from __future__ import annotations

from unittest.mock import ANY

import orjson
import pytest
from api_support import HAM, SPAM, problem, store_model, text_model, tiny_model

from service.db.tables import DEFAULT_PROJECT
from service.feedback.repository import FeedbackRepository
from service.ingest.mail import FIELDS, read_mail
from service.ingest.threads import THREAD


def mail(subject: str, body: str) -> str:
    return f"From: a@example.org\r\nTo: b@example.org\r\nSubject: {subject}\r\n\r\n{body}\r\n"


@pytest.fixture
def models(database, tmp_path):
    """Ids of a model of one text, and of one of mails."""
    return store_model(database, tmp_path, text_model(("body",))), store_model(
        database, tmp_path, text_model(("subject", "body"))
    )


def test_texts_and_mails_are_decided_as_the_rows_they_are(client, models):
    of_texts, of_mails = models
    assert client.get(f"/models/{of_texts}").json()["columns"] == [{"name": "body", "kind": "text", "length": None}]
    rows = client.post("/predict", json={"model": of_texts, "rows": [{"body": SPAM}, {"body": HAM}, {"body": None}]})
    texts = client.post("/predict", json={"model": of_texts, "texts": [SPAM, HAM, ""]})
    assert texts.status_code == 200, texts.text
    assert texts.json() == rows.json()
    assert [made["label"] for made in texts.json()["predictions"]][:2] == ["spam", "ham"]
    wordless = client.post("/predict", json={"model": of_texts, "texts": ["zzzz qqqq"]}).json()
    assert "without any word" in wordless["warnings"][0]

    messages = [mail("claim your prize", SPAM), mail("see you", HAM)]
    made = client.post("/predict", json={"model": of_mails, "messages": messages})
    assert made.status_code == 200, made.text
    assert [each["label"] for each in made.json()["predictions"]] == ["spam", "ham"]
    fields = [read_mail(message.encode()).fields for message in messages]
    assert fields[0].keys() == set(FIELDS)
    as_rows = client.post("/predict", json={"model": of_mails, "rows": fields})
    assert as_rows.json()["predictions"] == made.json()["predictions"]
    for content_type in ("message/rfc822", "Message/RFC822; charset=utf-8"):
        raw = client.post(
            "/predict", params={"model": of_mails}, content=messages[0], headers={"Content-Type": content_type}
        )
        alone, together = raw.json()["predictions"][0], made.json()["predictions"][0]
        assert alone == {**together, "score": pytest.approx(together["score"], rel=1e-12), "probability": ANY}


@pytest.mark.parametrize(
    "raw", [b"", b"\0\xff\r\n\r\n" * 50, b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\r\n" * 5000]
)
def test_hostile_mails_get_a_verdict(client, models, raw):
    made = client.post("/predict", params={"model": models[1]}, content=raw, headers={"Content-Type": "message/rfc822"})
    assert made.status_code == 200, made.text
    assert len(made.json()["predictions"]) == 1


def test_what_does_not_fit_is_refused(client, database, tmp_path, models):
    of_texts, of_mails = models
    of_rows = store_model(database, tmp_path, tiny_model())
    predict = lambda body: client.post("/predict", json=body)  # noqa: E731
    refused = problem(predict({"model": of_rows, "texts": ["x"]}), 422, "rows-do-not-fit")
    assert "'age' (number)" in refused["errors"][0]["message"]
    problem(predict({"model": of_mails, "texts": ["x"]}), 422, "rows-do-not-fit")
    problem(predict({"model": of_rows, "messages": ["x"]}), 422, "rows-do-not-fit")
    for body, field in (
        ({}, "body.rows"),
        ({"rows": [{"body": "x"}], "texts": ["x"]}, "body.texts"),
        ({"texts": ["x"], "messages": ["x"]}, "body.messages"),
        ({"texts": ["x"] * 10_001}, "body.texts"),
    ):
        refused = problem(predict({"model": of_texts, **body}), 422, "invalid-request")
        assert [error["field"] for error in refused["errors"]] == [field]
    for body in ({"texts": []}, {"texts": [1]}, {"messages": [None]}, {"rows": []}):
        problem(predict({"model": of_texts, **body}), 422, "invalid-request")
    mail_type = {"Content-Type": "message/rfc822"}
    problem(client.post("/predict", content=b"x", headers=mail_type), 422, "invalid-request")
    problem(
        client.post("/predict", params={"model": "x" * 101}, content=b"x", headers=mail_type), 422, "invalid-request"
    )
    problem(
        client.post("/predict", params={"model": "nobody"}, content=b"x", headers=mail_type), 404, "model-not-found"
    )


def test_feedback_in_texts_and_mails_is_kept_as_the_rows_that_trainings_read(client, database, models):
    for name, model in zip(("of-texts", "of-mails"), models, strict=True):
        client.put(f"/aliases/{name}", json={"model": model})
    messages = [mail("claim your prize", SPAM), mail("see you", HAM)]
    sent = {"alias": "of-mails", "messages": messages, "labels": ["ham", "spam"]}
    assert client.post("/feedback", json=sent).status_code == 201
    assert client.post("/feedback", json={"alias": "of-texts", "texts": [SPAM, ""], "labels": ["ham"] * 2}).is_success
    with database.transaction() as session:
        of_mails = b"".join(FeedbackRepository(session, DEFAULT_PROJECT).contents("of-mails", 1 << 62))
        of_texts = b"".join(FeedbackRepository(session, DEFAULT_PROJECT).contents("of-texts", 1 << 62))
    # All fields, whichever the model of today uses.
    mails = [read_mail(message.encode()) for message in messages]
    fields = [{name: text or None for name, text in (read.fields | {THREAD: read.thread}).items()} for read in mails]
    assert orjson.loads(of_mails) == {"rows": fields, "labels": ["ham", "spam"], "meant": {}}
    assert set(fields[0]) == {*FIELDS, THREAD}
    assert orjson.loads(of_texts) == {"rows": [{"body": SPAM}, {"body": None}], "labels": ["ham", "ham"], "meant": {}}
    wrong = client.post("/feedback", json={"alias": "of-mails", "texts": ["x"], "labels": ["ham"]})
    problem(wrong, 422, "feedback-does-not-fit")
