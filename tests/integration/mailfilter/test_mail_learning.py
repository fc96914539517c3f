"""What people say of mails becomes feedback of the model's alias: once a mail, whichever copy comes."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from api_support import store_model
from hostile_mails import MAILS, PLAIN
from mail_support import Door, mail_door, parsed

from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, JobRow
from service.feedback.repository import FeedbackRepository
from service.identifiers import new_id
from service.models.repository import AliasRepository
from service.settings import Settings


@pytest.fixture
def door(settings: Settings, api: httpx.Client) -> Iterator[Door]:
    with mail_door(settings, mail_learn=True) as opened:
        yield opened


def tell(door: Door, mail: bytes, said: str | None, **fields: str) -> dict[str, str]:
    """Say what a mail is, or nothing any more, and return the header of the answer."""
    how = {"Remove": "local"} if said is None else {"Set": "local", "Message_class": said}
    first, answer, body = parsed(door.ask("TELL", mail, **how, **fields))
    assert first == "SPAMD/1.1 0 EX_OK", first
    assert answer.pop("Content-length") == "0"
    assert body == b""
    return answer


def labels(api: httpx.Client, alias: str = "spam-filter") -> dict[str, int]:
    """Return how many mails have which label."""
    found: dict[str, int] = {}
    for each in api.get("/feedback", params={"alias": alias, "limit": 100}).json()["items"]:
        for label, count in each["labels"].items():
            found[label] = found.get(label, 0) + count
    return found


def test_a_mail_counts_once_and_what_is_said_last_counts(door: Door, api: httpx.Client) -> None:
    copy = b"Received: by c\n" + PLAIN.replace(b"\r\n", b"\n")
    assert tell(door, PLAIN, "ham") == {"DidSet": "local"}
    assert tell(door, copy, "ham") == {}
    assert labels(api) == {"ham": 1}
    assert tell(door, copy, "spam") == {"DidSet": "local"}
    assert labels(api) == {"spam": 1}
    assert tell(door, PLAIN, None) == {"DidRemove": "local"}
    assert tell(door, PLAIN, None) == {}
    assert labels(api) == {}
    with door.http() as http:
        for path, result in (("/learnspam", "learned"), ("/learnspam", "known"), ("/learnham", "learned")):
            answer = http.post(path, content=copy)
            assert answer.status_code == 200
            assert answer.json().items() >= {"success": True, "result": result}.items()
        assert labels(api) == {"ham": 1}
        http.post("/learnspam", content=PLAIN.replace(b"money", b"gold"))
        figures = http.get("/metrics").text
    assert labels(api) == {"ham": 1, "spam": 1}
    assert 'prefsvm_mails_learned_total{result="known",source="person"} 3.0' in figures


def test_what_is_kept_is_what_feedback_keeps(door: Door, api: httpx.Client, database: Database) -> None:
    tell(door, PLAIN, "spam")
    sent = api.post("/feedback", json={"alias": "spam-filter", "messages": [PLAIN.decode()], "labels": ["spam"]})
    assert sent.status_code == 201
    with database.transaction() as session:
        first, second = FeedbackRepository(session, DEFAULT_PROJECT).contents("spam-filter", 1 << 62)
    assert orjson.loads(first) == orjson.loads(second)


def test_what_a_job_uses_stays_and_the_later_one_counts(door: Door, api: httpx.Client, database: Database) -> None:
    tell(door, PLAIN, "ham")
    with database.transaction() as session:
        last = FeedbackRepository(session, DEFAULT_PROJECT).last_seq("spam-filter")
        request = {"alias": "spam-filter"}
        job = JobRow(id=new_id("job"), project_id=DEFAULT_PROJECT, kind="train", request=request)
        job.max_attempts, job.max_seconds, job.feedback_until = 1, 1, last
        session.add(job)
    assert tell(door, PLAIN, "spam") == {"DidSet": "local"}
    assert tell(door, PLAIN, "spam") == {}
    with database.transaction() as session:
        contents = FeedbackRepository(session, DEFAULT_PROJECT).contents("spam-filter", 1 << 62)
        kept = [orjson.loads(each)["labels"] for each in contents]
    assert kept == [["ham"], ["spam"]]
    assert door.ask("TELL", PLAIN, Remove="local").startswith(b"SPAMD/1.1 69 EX_UNAVAILABLE: a job uses")


def test_every_mail_can_be_learned(door: Door, api: httpx.Client) -> None:
    """Also one with NUL, or without a text, which is left alone."""
    with door.http() as http:
        for name, mail in MAILS.items():
            answer = http.post("/learnspam", content=mail.raw)
            if mail.status == 413:
                assert answer.status_code == 413
            else:
                assert answer.status_code == 200, (name, answer.text)
        assert http.post("/learnham", content=MAILS["no body"].raw).json()["result"] == "ignored"
    assert tell(door, MAILS["no bytes"].raw, "spam") == {}
    assert set(labels(api)) == {"spam"}


def test_each_user_trains_his_own_model_or_the_site(
    door: Door, api: httpx.Client, database: Database, tmp_path: Path, model: Any
) -> None:
    api.put("/aliases/spam-filter.anna", json={"model": store_model(database, tmp_path, model)})
    tell(door, PLAIN, "spam", User="anna")
    assert (labels(api, "spam-filter.anna"), labels(api)) == ({"spam": 1}, {})
    tell(door, PLAIN, "ham", User="bert")
    assert (labels(api, "spam-filter.anna"), labels(api)) == ({"spam": 1}, {"ham": 1})


def test_what_nobody_said_counts_less_than_what_somebody_said(
    settings: Settings, api: httpx.Client, database: Database
) -> None:
    changes = {"mail_learn_correspondents": True, "mail_learn_traps": True, "mail_trap_weight": 0.25}
    correspondent, trap = {"Learn-Source": "correspondent"}, {"Learn-Source": "Trap"}
    with mail_door(settings, mail_learn=True, **changes) as door, door.http() as http:

        def said(path: str, raw: bytes, headers: dict[str, str]) -> str:
            answer = http.post(path, content=raw, headers=headers)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["result"])

        assert said("/learnspam", PLAIN, trap) == "learned"
        assert said("/learnspam", PLAIN, trap) == "known"
        assert said("/learnham", PLAIN, correspondent) == "learned"  # who concludes later knows more
        assert said("/learnham", PLAIN, {}) == "learned"  # somebody says so
        assert said("/learnspam", PLAIN, trap) == "known"
        assert said("/learnham", PLAIN, correspondent) == "known"
        assert labels(api) == {"ham": 1}
        assert said("/learnspam", PLAIN, {}) == "learned"
        other = PLAIN.replace(b"money", b"gold")
        assert said("/learnspam", other, trap) == "learned"
        kept = api.get("/feedback", params={"alias": "spam-filter"}).json()["items"]
        assert [each["source"] for each in kept] == ["trap", "person"]
        with database.transaction() as session:
            contents = FeedbackRepository(session, DEFAULT_PROJECT).contents("spam-filter", 1 << 62)
            assert [orjson.loads(each).get("weight") for each in contents] == [None, 0.25]
        assert http.post("/learnham", content=other, headers=trap).status_code == 422
        assert http.post("/learnspam", content=other, headers=correspondent).status_code == 422
        assert http.post("/learnspam", content=other, headers={"Learn-Source": "x" * 999}).status_code == 403
        figures = http.get("/metrics").text
        assert 'prefsvm_mails_learned_total{result="learned",source="trap"} 2.0' in figures
        assert re.search(r"prefsvm_mail_last_learned_timestamp_seconds 1\.\d+e\+09", figures)
    with mail_door(settings, mail_learn=True) as door, door.http() as http:
        for headers, name in ((trap, "TRAPS"), (correspondent, "CORRESPONDENTS")):
            answer = http.post("/learnspam", content=PLAIN, headers=headers)
            assert answer.status_code == 403
            assert f"PREFSVM_MAIL_LEARN_{name}" in answer.json()["error"]


def test_learning_is_off_unless_allowed(
    settings: Settings, api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "prefsvm.mail")
    with mail_door(settings) as door, door.http() as http:
        refused = door.ask("TELL", PLAIN, Set="local", Message_class="spam")
        assert refused.startswith(b"SPAMD/1.1 69 EX_UNAVAILABLE: learning is off; PREFSVM_MAIL_LEARN=true allows it")
        answer = http.post("/learnspam", content=PLAIN)
        assert answer.status_code == 403
        assert "PREFSVM_MAIL_LEARN" in answer.json()["error"]
        assert answer.reason_phrase == "learning is off; PREFSVM_MAIL_LEARN=true allows it"  # all that rspamc shows
    assert "learned=refused reason=learning is off; PREFSVM_MAIL_LEARN=true allows it" in caplog.text
    assert labels(api) == {}


def test_a_database_that_stands_still_is_not_waited_for(
    settings: Settings, api: httpx.Client, database: Database
) -> None:
    """Nor does it keep other mails from being decided on; what was said is kept in the end."""
    with mail_door(settings, mail_learn=True, mail_seconds=0.4) as door, door.http() as http:
        deadline = time.monotonic() + 60
        while not parsed(door.ask("CHECK", PLAIN))[1]["Spam"].startswith("True"):  # the first one loads the model
            assert time.monotonic() < deadline
        with database.transaction() as session:
            AliasRepository(session, DEFAULT_PROJECT).lock("spam-filter")  # for which learning waits
            began = time.monotonic()
            for _ in range(2):
                refused = door.ask("TELL", PLAIN, Set="local", Message_class="spam")
                assert refused.startswith(b"SPAMD/1.1 75 EX_TEMPFAIL: not learned within 0.4 s"), refused
                answer = http.post("/learnspam", content=PLAIN)
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
            one = (time.monotonic() - began) / 4
            with ThreadPoolExecutor(20) as pool:
                began = time.monotonic()
                codes = list(pool.map(lambda _: http.post("/learnspam", content=PLAIN).status_code, range(20)))
                assert codes == [503] * 20
                assert time.monotonic() - began < 10 * one  # and not one after another
            assert parsed(door.ask("CHECK", PLAIN))[1]["Spam"].startswith("True")
        deadline = time.monotonic() + 20
        while labels(api) != {"spam": 1}:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_body_in_pieces_of_a_byte_does_not_hold_the_others(door: Door) -> None:
    head = b"POST /checkv2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    many = head + b"1\r\nx\r\n" * 300_000 + b"0\r\n\r\n"
    began = time.process_time()
    with suppress(OSError):  # the rest is not read
        assert door.say(many, closes=False).startswith(b"HTTP/1.1 413 ")
    assert time.process_time() - began < 5  # .2 here; to read them all takes
    few = PLAIN + b"x" * 10_000
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in few)
    assert door.say(head + pieces + b"0\r\n\r\n", closes=False).startswith(b"HTTP/1.1 200 ")


def test_what_is_said_wrongly_is_refused(door: Door, api: httpx.Client) -> None:
    for fields in ({}, {"Set": "local"}, {"Set": "local", "Message_class": "other"}, {"Set": "remote"}):
        assert door.ask("TELL", PLAIN, **fields).startswith(b"SPAMD/1.1 76 EX_PROTOCOL: TELL: expected")
    api.delete("/aliases/spam-filter")
    assert door.ask("TELL", PLAIN, Set="local", Message_class="spam").startswith(b"SPAMD/1.1 69 ")
    with door.http() as http:
        assert http.post("/learnspam", content=PLAIN).status_code == 422


def test_http_as_browsers_and_scripts_send_it(door: Door) -> None:
    with door.http() as http:
        assert (http.get("/ping").content, http.head("/ping").content) == (b"pong\r\n", b"")
        assert http.get("/checkv2").status_code == 405
        assert http.post("/stat").status_code == 404
        assert http.post("/learnspam", content=PLAIN, headers={"Origin": "https://example.org"}).status_code == 403
        chunked = http.post("/checkv2", content=iter([PLAIN[:100], PLAIN[100:]]))
        whole = http.post("/checkv2", content=PLAIN).json()
        assert chunked.json() | {"time_real": 0} == whole | {"time_real": 0}
        assert whole["action"] == "add header"
        assert whole["milter"]["add_headers"]["X-Spam-Flag"] == {"value": "YES", "order": 0}
        assert set(whole["milter"]["remove_headers"]) == {*whole["milter"]["add_headers"]}
        assert list(whole["symbols"]) == ["PREFSVM_SPAM"]
    head = b"POST /checkv2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(PLAIN)
    with socket.create_connection(("127.0.0.1", door.port), timeout=20) as connection:
        connection.sendall(head)
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(PLAIN)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert door.say(b"GET /ping HTTP/1.1\r\nno colon\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert door.say(b"GET /ping HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000).startswith(b"HTTP/1.1 431 ")
