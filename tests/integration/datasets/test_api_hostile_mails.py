"""Mails that have broken mail software, one after the other at POST /predict; and copies of one mail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import HAM, SPAM, api_client, problem, store_model, text_model
from hostile_mails import HEAD, MAILS, PLAIN

from service.db.session import Database
from service.ingest.mail import MAX_MESSAGE_BYTES, mail_identity
from service.settings import Settings

SECONDS = 5.0
"""Of processor time, all threads of this process together."""


@pytest.fixture(scope="module")
def model() -> Any:
    return text_model(("subject", "body"))


@pytest.fixture
def mails(settings: Settings, database: Database, tmp_path: Path, model: Any) -> Iterator[httpx.Client]:
    with api_client(settings) as client:
        client.params = {"model": store_model(database, tmp_path, model)}
        client.headers["Content-Type"] = "message/rfc822"
        yield client


def decided(client: httpx.Client, raw: bytes) -> dict[str, Any]:
    answer = client.post("/predict", content=raw)
    assert answer.status_code == 200, answer.text
    (made,) = answer.json()["predictions"]
    return made


def test_each_gets_the_right_answer_soon_and_the_process_lives_on(mails: httpx.Client) -> None:
    decided(mails, PLAIN)  # the model is loaded
    for name, mail in MAILS.items():
        began = time.process_time()
        answer = mails.post("/predict", content=mail.raw)
        spent = time.process_time() - began
        assert answer.status_code == mail.status, (name, answer.text)
        assert spent < SECONDS, (name, spent)
        if mail.status == 200:
            (made,) = answer.json()["predictions"]
            assert made["label"] in (("spam", "ham") if mail.label is None else (mail.label,)), (name, made)
            assert made.get("truncated", False) is mail.truncated, name
    assert decided(mails, PLAIN)["label"] == "spam"
    ham = HEAD.replace(b"claim your prize", b"see you") + b"\r\n" + HAM.encode()
    assert decided(mails, ham)["label"] == "ham"


def test_longer_than_is_looked_at(mails: httpx.Client) -> None:
    padded = PLAIN + b"--\r\n" + b"x" * (MAX_MESSAGE_BYTES - len(PLAIN) - 4)
    assert len(padded) == MAX_MESSAGE_BYTES
    assert decided(mails, padded)["truncated"] is True
    problem(mails.post("/predict", content=padded + b"x"), 413, "content-too-large")
    body = {"model": mails.params["model"], "messages": [SPAM, padded.decode() + "x"]}
    refused = problem(
        mails.post("/predict", json=body, headers={"Content-Type": "application/json"}), 422, "rows-do-not-fit"
    )
    assert refused["errors"][0]["field"] == "body.messages.1"


LF = PLAIN.replace(b"\r\n", b"\n")
COPIES = {
    "LF": LF,
    "CR CR LF": PLAIN.replace(b"\r\n", b"\r\r\n"),
    "mbox": b"From win@example.net Sat Nov 28 03:30:00 2026\n" + LF + b"\n",
    "mbox without a date": b"From MAILER-DAEMON\n" + LF + b"\n",
    "received": b"Received: from a (b [192.0.2.1])\r\n\tby c; Sat, 28 Nov 2026 03:30:05 +0100\r\n" * 3 + PLAIN,
    "marked": b"X-Spam-Flag: NO\r\nX-Spam-Status: No, score=-1.0\r\nX-Spam-Report:\r\n\tlong\r\n" + PLAIN,
    "delivered": b"Return-Path: <x@y>\r\nDelivered-To: you\r\nAuthentication-Results: b; dkim=fail\r\n" + PLAIN,
    "below": PLAIN.replace(b"\r\n\r\n", b"\r\nX-Spam-Level: ***\r\nReceived: by d\r\n\r\n", 1),
}  # fmt: skip


def test_copies_of_a_mail_are_one_mail(mails: httpx.Client) -> None:
    first = decided(mails, PLAIN)
    for name, raw in COPIES.items():
        assert mail_identity(raw) == mail_identity(PLAIN), name
        assert decided(mails, raw)["score"] == pytest.approx(first["score"], abs=1e-9), name


def test_other_mails_are_others() -> None:
    body = PLAIN.replace(b"prize", b"price")
    to = PLAIN.replace(b"you@", b"me@")
    date = PLAIN.replace(b"28 Nov", b"29 Nov")
    assert len({mail_identity(raw) for raw in (PLAIN, body, to, date, b"", b"\r\n\r\nx")}) == 6


def test_lines_that_mbox_files_quote_are_no_difference() -> None:
    raw = LF + b"From here on\n>From there on\n"
    quoted = b"From a@b Sat Nov 28 03:30:00 2026\n" + LF + b">From here on\n>>From there on\n\n"
    assert mail_identity(quoted) == mail_identity(raw)
