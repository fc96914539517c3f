"""MTA Hooks, in the form of the draft (JSON and CBOR) and in that which Stalwart has shipped.

The request and the operations are those of the draft's client in rspamd's `mta-hooks-milter`, which names its version.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import HAM, SPAM, store_model
from hostile_mails import HEAD, MAILS, PLAIN
from mail_support import Door, mail_door

from service.db.session import Database
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.mailfilter import cbor
from service.settings import Settings

PROPERTIES = ["/stage", "/action", "/timestamp", "/protocol", "/rawMessage", "/envelope", "/queue", "/client"]
HAM_MAIL = HEAD.replace(b"claim your prize", b"see you") + b"\r\n" + HAM.encode() + b"\r\n"
FORGED = (
    b"Received: a\r\nX-Spam-Flag: NO\r\nX-SPAM-flag\r\n : NO\r\nX-Other: x\r\nx-spam-status: No,\r\n\tscore=-9\r\n"
    + PLAIN
)


def asked(raw: bytes, *to: str, **changes: Any) -> dict[str, Any]:
    """Return what a mail system of the draft sends at the stage data."""
    recipients = [{"address": each, "parameters": {}} for each in to or ("rcpt@example.com",)]
    return {
        "stage": "data",
        "action": "accept",
        "timestamp": "2026-09-05T12:00:00Z",
        "protocol": {"version": "1.0"},
        "rawMessage": base64.b64encode(raw).decode(),
        "envelope": {"from": {"address": None, "parameters": {"SIZE": str(len(raw))}}, "to": recipients},
        "client": {"ip": "192.0.2.42", "port": 34567, "ehlo": "mx.example.com"},
        "queue": {"id": "TESTQ"},
    } | changes


def shipped(headers: list[list[str]], contents: str, stage: str = "data", *to: str) -> dict[str, Any]:
    """Return what Stalwart sends."""
    recipients = [{"address": each} for each in to or ("rcpt@example.com",)]
    return {
        "context": {"stage": stage, "client": {"ip": "192.0.2.1", "port": 1}, "protocol": {"version": 1}},
        "envelope": {"from": {"address": "a@b"}, "to": recipients},
        "message": {"headers": headers, "serverHeaders": [], "contents": contents, "size": 100},
    }


def applied(raw: bytes, operations: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    """Return the header fields that a mail has after operations of the draft: set, add, delete, in this order."""
    assert set(operations) <= {"add", "delete"}
    lines = raw.partition(b"\r\n\r\n")[0].replace(b"\r\n ", b" ").replace(b"\r\n\t", b" ").split(b"\r\n")
    fields = [tuple(part.strip() for part in line.split(b":", 1)) for line in lines]
    for add in operations.get("add", []):
        assert add["path"] == "/message/headers"
        assert "\n" not in add["value"]["value"]
        fields.append((add["value"]["name"].encode(), add["value"]["value"].encode()))
    for delete in operations.get("delete", []):
        del fields[int(delete["path"].removeprefix("/message/headers/"))]
    return fields  # type: ignore[return-value]


def test_discovery_registration_and_its_end(door: Door) -> None:
    with door.http() as http:
        found = http.get("/.well-known/mta-hooks").json()
        assert (found["version"], found["serialization"]) == ("1.0", ["json", "cbor"])
        assert found["capabilities"]["inbound"]["stages"] == ["data"]
        assert found["limits"]["maxMessageSize"] == MAX_MESSAGE_BYTES
        body = {"name": "interop-test", "serialization": "json", "timeoutMs": 20000, "outbound": None}
        body["inbound"] = {"stages": ["data"], "properties": [*PROPERTIES, "/tls", "/auth", "/server"]}
        made = http.post(found["endpoints"]["registration"], json=body)
        assert made.status_code == 201
        registered = made.json()
        assert registered["negotiated"]["inbound"] == {"stages": ["data"], "properties": PROPERTIES}
        assert (registered["status"], registered["negotiated"]["serialization"]) == ("active", "json")
        assert http.get(registered["endpoints"]["status"]).json()["status"] == "active"
        head = {
            "Authorization": "Bearer x",
            "X-MTA-Hooks-Registration": registered["registrationId"],
            "X-MTA-Hooks-Request-Id": "1",
        }
        assert http.post(registered["hookEndpoint"], json=asked(PLAIN), headers=head).status_code == 200
        assert http.delete(registered["endpoints"]["deregistration"]).json()["status"] == "deregistered"
        for wrong in (
            {},
            [],
            {"inbound": None},
            {"inbound": {"stages": "data"}},
            {"inbound": {"stages": ["rcpt"]}},
            {"inbound": {"stages": ["data"], "properties": ["/stage"]}},
            {"inbound": {"stages": ["data"]}, "serialization": "xml"},
        ):
            assert http.post("/mta-hooks/registrations", json=wrong).status_code in (400, 422), wrong
        assert http.post("/mta-hooks/registrations", content=b"{").status_code == 400


@pytest.mark.parametrize("is_cbor", [False, True])
def test_marks_are_added_and_those_of_the_sender_go(door: Door, is_cbor: bool) -> None:
    with door.http() as http:

        def operations(body: dict[str, Any]) -> dict[str, Any]:
            if is_cbor:
                body["rawMessage"] = base64.b64decode(body["rawMessage"])
                answer = http.post("/mta-hooks", content=cbor.dumps(body), headers={"Content-Type": "application/cbor"})
                assert answer.headers["Content-Type"] == "application/cbor"
                return dict(cbor.loads(answer.content))
            answer = http.post("/mta-hooks", json=body)
            assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
            return dict(answer.json())

        fields = applied(FORGED, operations(asked(FORGED)))
        ours = {name: value for name, value in fields if name.lower().startswith(b"x-spam-")}
        assert sum(name.lower().startswith(b"x-spam-") for name, _ in fields) == len(ours)
        assert ours[b"X-Spam-Flag"] == b"YES"
        assert ours[b"X-Spam-Status"].startswith(b"Yes, score=")
        assert {name for name, _ in fields} - set(ours) == {
            b"Received",
            b"X-Other",
            b"From",
            b"To",
            b"Date",
            b"Subject",
        }
        ham = applied(HAM_MAIL, operations(asked(HAM_MAIL)))
        assert b"X-Spam-Flag" not in dict(ham)
        assert dict(ham)[b"X-Spam-Status"].startswith(b"No, score=")


def test_the_form_that_stalwart_ships(door: Door) -> None:
    headers = [
        ["Received", " a\r\n"],
        ["X-Spam-Flag", " NO\r\n"],
        ["Subject", " claim your prize\r\n"],
        ["X-Spam-Status", " No\r\n"],
        ["x-spam-flag", " NO\r\n"],
    ]
    with door.http() as http:
        answer = http.post("/mta-hooks", json=shipped(headers, SPAM + "\r\n")).json()
        assert answer["action"] == "accept"
        deletes = [each for each in answer["modifications"] if each["type"] == "deleteHeader"]
        assert deletes == [
            {"type": "deleteHeader", "index": 2, "name": "x-spam-flag"},
            {"type": "deleteHeader", "index": 1, "name": "X-Spam-Status"},
            {"type": "deleteHeader", "index": 1, "name": "X-Spam-Flag"},
        ]
        adds = {each["name"]: each["value"] for each in answer["modifications"] if each["type"] == "addHeader"}
        assert adds["X-Spam-Flag"] == "YES"
        score = http.post("/checkv2", content=b"Subject: claim your prize\r\n\r\n" + SPAM.encode()).json()["score"]
        assert adds["X-Spam-Score"] == f"{score:.1f}"
        assert http.post("/mta-hooks", json={"context": {"stage": "connect"}}).json() == {
            "action": "accept",
            "modifications": [],
        }


def test_one_recipient_may_have_a_model_of_his_own(
    door: Door, api: httpx.Client, database: Database, tmp_path: Path, model: Any
) -> None:
    own = store_model(database, tmp_path, model)
    api.put("/aliases/spam-filter.anna-at-example.org", json={"model": own})
    with door.http() as http:

        def decided_by(*to: str) -> tuple[bool, bool]:
            draft = http.post("/mta-hooks", json=asked(PLAIN, *to)).text
            return own in draft, own in http.post("/mta-hooks", json=shipped([], SPAM, "data", *to)).text

        assert decided_by("anna@example.org") == (True, True)
        assert decided_by("bert@example.org") == (False, False)
        assert decided_by("anna@example.org", "bert@example.org") == (False, False)


def test_an_answer_always_that_lets_the_mail_pass(settings: Settings, door: Door) -> None:
    """Whatever comes: a mail system defers mail on an error."""
    wrong = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        *(
            str(each).replace("'", '"').encode()
            for each in ({"stage": "data"}, {"context": {}}, {"context": {"stage": "data"}, "message": {"headers": 1}})
        ),
    ]
    with door.http() as http:
        for each in wrong:
            for kind in ("application/json", "application/cbor", "text/plain"):
                answer = http.post("/mta-hooks", content=each, headers={"Content-Type": kind})
                assert answer.status_code == 204 or answer.json() == {"action": "accept", "modifications": []}, each
        for changes in (
            {"rawMessage": "!!!!"},
            {"rawMessage": None},
            {"rawMessage": 5},
            {"stage": "rcpt"},
            {"envelope": []},
            {"envelope": {"to": [5]}},
            {"envelope": {"to": [{"address": 5}]}},
        ):
            assert http.post("/mta-hooks", json=asked(PLAIN, **changes)).status_code in (200, 204), changes
        for odd in ([["A"]], [["A", 5]], [5], "x", [["A\r\nB", "c\r\nd"]]):
            assert http.post("/mta-hooks", json=shipped(odd, SPAM)).json()["action"] == "accept"  # type: ignore[arg-type]
        large = asked(b"x" * (MAX_MESSAGE_BYTES + 10))
        assert http.post("/mta-hooks", json=large).status_code == 204
        assert http.post("/mta-hooks", content=b" " * (MAX_MESSAGE_BYTES * 3 // 2)).status_code == 204
        figures = http.get("/metrics").text
        assert 'prefsvm_mails_unknown_total{reason="no_mail"}' in figures
        assert 'prefsvm_mails_unknown_total{reason="too_large"} 2.0' in figures
    with mail_door(settings, mail_model="nobodys") as closed, closed.http() as http:
        assert http.post("/mta-hooks", json=asked(PLAIN)).status_code == 204
        only_deletes = http.post("/mta-hooks", json=asked(FORGED)).json()
        assert {name for name, _ in applied(FORGED, only_deletes) if name.lower().startswith(b"x-spam")} == set()
    with mail_door(settings, mail_model="nobodys", mail_tempfail=True) as closed, closed.http() as http:
        said = {each["path"]: each["value"] for each in http.post("/mta-hooks", json=asked(PLAIN)).json()["set"]}
        assert (said["/action"], said["/response"]["code"]) == ("reject", 451)
        refused = http.post("/mta-hooks", json=shipped([], SPAM)).json()
        assert (refused["action"], refused["response"]["status"]) == ("reject", 451)
        assert http.post("/mta-hooks", json=asked(PLAIN, stage="rcpt")).status_code == 204
        # What is not read as it holds too much may be a mail: it must not come in by this.
        crowded = {"stage": "data", "rawMessage": "", "more": [[]] * 250_000}
        said = {each["path"]: each["value"] for each in http.post("/mta-hooks", json=crowded).json()["set"]}
        assert (said["/action"], said["/response"]["code"]) == ("reject", 451)
        packed = cbor.dumps(crowded)
        head = {"Content-Type": "application/cbor"}
        told = cbor.loads(http.post("/mta-hooks", content=packed, headers=head).content)
        assert {each["path"] for each in told["set"]} == {"/action", "/response"}
        assert 'prefsvm_mails_unknown_total{reason="too_many_values"} 2.0' in http.get("/metrics").text


def test_the_same_score_as_at_other_doors(door: Door) -> None:
    with door.http() as http:
        for name, mail in MAILS.items():
            if mail.status != 200 or not mail.raw:
                continue
            score = http.post("/checkv2", content=mail.raw).json()["score"]
            answer = http.post("/mta-hooks", json=asked(mail.raw))
            assert answer.status_code == 200, name
            adds = {each["value"]["name"]: each["value"]["value"] for each in answer.json()["add"]}
            assert adds["X-Spam-Score"] == f"{score:.1f}", name
