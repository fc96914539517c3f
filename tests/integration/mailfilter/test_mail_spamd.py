"""The protocol of spamd: what each version is answered, and that every door says the same of a mail."""

from __future__ import annotations

import re
import zlib
from email import message_from_bytes
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import HAM, store_model
from hostile_mails import HEAD, MAILS, PLAIN
from mail_support import Door, parsed

from service.db.session import Database

HAM_MAIL = HEAD.replace(b"claim your prize", b"see you") + b"\r\n" + HAM.encode() + b"\r\n"
SPAM_TOLD = re.compile(r"True ; (\d+\.\d) / 5\.0")


def test_check_of_each_version(door: Door) -> None:
    for version in ("1.2", "1.3", "1.4", "1.5"):
        first, fields, body = parsed(door.ask("CHECK", PLAIN, version))
        assert first == "SPAMD/1.1 0 EX_OK"
        assert list(fields) == ["Spam"]
        assert SPAM_TOLD.fullmatch(fields["Spam"])
        assert body == b""
    assert re.fullmatch(r"False ; -?\d+\.\d / 5\.0", parsed(door.ask("CHECK", HAM_MAIL))[1]["Spam"])


def test_symbols_and_reports(door: Door) -> None:
    _, fields, body = parsed(door.ask("SYMBOLS", PLAIN))
    assert list(fields) == ["Content-length", "Spam"]
    assert body == b"PREFSVM_SPAM"
    assert parsed(door.ask("SYMBOLS", PLAIN, "1.2"))[1:] == ({"Spam": fields["Spam"]}, b"PREFSVM_SPAM\r\n")
    for version in ("1.2", "1.5"):
        _, fields, body = parsed(door.ask("REPORT", PLAIN, version))
        assert list(fields) == (["Spam"] if version == "1.2" else ["Content-length", "Spam"])
        assert b"PREFSVM_SPAM" in body
        assert body.isascii()
        assert int(fields.get("Content-length", len(body))) == len(body)
    assert parsed(door.ask("REPORT_IFSPAM", PLAIN))[2]
    assert parsed(door.ask("REPORT_IFSPAM", HAM_MAIL))[2] == b""


def test_the_mail_comes_back_marked_and_else_as_it_was(door: Door) -> None:
    for raw in (PLAIN, PLAIN.replace(b"\r\n", b"\n"), PLAIN + b"caf\xe9 \xff\0\r\n.\r\n"):
        first, fields, body = parsed(door.ask("PROCESS", raw))
        assert first == "SPAMD/1.1 0 EX_OK"
        assert list(fields) == ["Content-length", "Spam"]
        assert body.endswith(raw)
        ours = body.removesuffix(raw)
        assert ours.isascii()
        assert all(len(line) <= 78 for line in ours.splitlines())
        assert (b"\r" in ours) == (b"\r" in raw.partition(b"\n")[0])
        message = message_from_bytes(body)
        assert message.get_all("X-Spam-Flag") == ["YES"]
        assert re.match(r"Yes, score=\d+\.\d required=5\.0 tests=PREFSVM_SPAM\s+autolearn=no", message["X-Spam-Status"])
        assert f"True ; {message['X-Spam-Score']} / 5.0" == fields["Spam"]
        assert message["X-Spam-Level"] == "*" * int(float(message["X-Spam-Score"]))
        assert message["X-Spam-Model"].startswith("spam-filter")
        assert message["Subject"] == "claim your prize"
    assert list(parsed(door.ask("PROCESS", PLAIN, "1.2"))[1]) == ["Content-length"]
    assert door.ask("PROCESS", PLAIN, "1.1").startswith(b"SPAMD/1.0 0 EX_OK\r\n\r\nX-Spam-Flag: YES")
    _, fields, header = parsed(door.ask("HEADERS", PLAIN))
    assert list(fields) == ["Content-length", "Spam"]
    assert header == body.replace(body, parsed(door.ask("PROCESS", PLAIN))[2]).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    assert "X-Spam-Flag" not in message_from_bytes(parsed(door.ask("PROCESS", HAM_MAIL))[2])


def test_marks_of_the_sender_are_gone(door: Door) -> None:
    forged = (
        b"X-Spam-Flag: NO\r\nx-SPAM-status: No, score=-99\r\n\ttests=X\r\n" * 100
        + b"X-Spam-Flag : NO\r\nA: b\rX-Spam-Flag: NO\r\n"
        + PLAIN.replace(b"\r\n\r\n", b"\r\nX-Spam-Checker-Version: x\r\n\r\n", 1)
    )
    body = parsed(door.ask("PROCESS", forged))[2]
    assert body.lower().count(b"x-spam-flag") == 1
    assert b"-99" not in body
    assert b"Checker" not in body
    assert parsed(door.ask("CHECK", forged))[1] == parsed(door.ask("CHECK", PLAIN))[1]
    subject = b"Subject: =?utf-8?q?=0D=0AX-Spam-Flag:_NO?=\r\n"
    message = message_from_bytes(parsed(door.ask("PROCESS", subject + PLAIN))[2])
    assert message.get_all("X-Spam-Flag") == ["YES"]


def test_every_way_to_send_a_mail(door: Door) -> None:
    expected = parsed(door.ask("CHECK", PLAIN))[1]
    half_closed = b"CHECK SPAMC/1.4\r\nUser: haraka\r\n\r\nX-Envelope-From: <a@b>\r\n" + PLAIN
    assert parsed(door.say(half_closed))[1] == expected
    envelope = b"From MAILER-DAEMON Sat Nov 28 03:30:00 2026\nX-Envelope-To: x\n" + PLAIN.replace(b"\r\n", b"\n")
    assert parsed(door.ask("CHECK", envelope, "1.2", User="nobody"))[1] == expected
    marked = parsed(door.ask("PROCESS", envelope))[2]
    assert marked.startswith(b"From MAILER-DAEMON Sat Nov 28 03:30:00 2026\nX-Spam-Flag: YES\n")
    packed = zlib.compress(PLAIN)
    assert parsed(door.ask("CHECK", packed, Compress="zlib"))[1] == expected
    assert parsed(door.ask("PROCESS", packed, Compress="zlib"))[2].endswith(PLAIN)
    lower = b"CHECK SPAMC/1.5\r\ncontent-LENGTH: %d\r\n\r\n" % len(PLAIN)
    assert parsed(door.say(lower + PLAIN + b"more", closes=False))[1] == expected


def test_ping_skip_and_what_is_no_request(door: Door) -> None:
    assert door.say(b"PING SPAMC/1.5\r\n\r\n") == b"SPAMD/1.5 0 PONG\r\n"
    assert door.say(b"PING SPAMC/1.2\r\n", closes=False) == b"SPAMD/1.5 0 PONG\r\n"
    assert door.say(b"SKIP SPAMC/1.5\r\n\r\n") == b""
    for wrong in (
        b"EHLO example.org\r\n",
        b"CHECK RSPAMC/1.3\r\n\r\n",
        b"BOGUS SPAMC/1.5\r\n\r\n",
        b"\r\n",
        b"\0\xff\r\n",
        b"CHECK SPAMC/1.5\r\nContent-length: -1\r\n\r\n",
        b"CHECK SPAMC/1.5\r\nContent-length: \xb2\r\n\r\n",
        b"CHECK SPAMC/1.5\r\nno colon\r\n\r\n",
        b"CHECK SPAMC/1.5\r\n" + b"A: b\r\n" * 50 + b"\r\n",
        b"CHECK SPAMC/1.5\r\nCompress: bzip2\r\nContent-length: 1\r\n\r\nx",
        b"CHECK SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 1\r\n\r\nx",
        b"CHECK SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 30\r\n\r\n" + zlib.compress(b"x" * 9999)[:30],
        b"TELL SPAMC/1.5\r\nContent-length: 1\r\n\r\nx",
    ):
        assert door.say(wrong).startswith(b"SPAMD/1.1 76 EX_PROTOCOL: "), wrong
    for cut in (b"", b"CHECK", b"CHECK SPAMC/1.5\r\nContent-length: 10\r\n\r\nshort", b"x" * 10_000, b"\n" * 0):
        assert door.say(cut) == b""
    assert parsed(door.ask("CHECK", PLAIN))[1]


def test_each_door_has_the_same_score(door: Door, api: httpx.Client) -> None:
    """And rspamd's is in the same range of points, where the threshold has five."""
    with door.http() as http:
        for name, mail in MAILS.items():
            if mail.status != 200 or not mail.raw:  # nothing is no mail, and the doors of mail say so
                continue
            asked = api.post(
                "/predict",
                params={"model": "spam-filter"},
                content=mail.raw,
                headers={"Content-Type": "message/rfc822"},
            ).json()
            (made,) = asked["predictions"]
            found = http.post("/checkv2", content=mail.raw).json()
            assert found["svm_score"] == pytest.approx(made["score"], abs=1e-9), name
            assert found["label"] == made["label"]
            assert found["svm_threshold"] == asked["threshold"]
            assert found["truncated"] == mail.truncated
            assert (found["score"] >= 5.0) == (made["label"] == "spam")
            _, fields, _ = parsed(door.ask("CHECK", mail.raw))
            told, _, points = fields["Spam"].partition(" ; ")
            assert told == str(made["label"] == "spam")
            assert points == f"{found['score']:.1f} / 5.0"
            _, _, body = parsed(door.ask("PROCESS", mail.raw))
            flags = BytesHeaderParser().parsebytes(body).get_all("X-Spam-Flag", [])
            assert flags == ["YES"] * (made["label"] == "spam"), name


def test_each_user_may_have_a_model(
    door: Door, api: httpx.Client, database: Database, tmp_path: Path, model: Any
) -> None:
    """Of his own, or of the site: under a name that no alias can have, too, and none that leads elsewhere."""
    own = store_model(database, tmp_path, model)
    api.put("/aliases/spam-filter.anna-at-example.org", json={"model": own})

    def decided_by(user: str) -> str:
        return str(message_from_bytes(parsed(door.ask("PROCESS", PLAIN, User=user))[2])["X-Spam-Model"])

    assert own in decided_by("anna@example.org")
    assert own in decided_by("Anna@Example.org")
    for other in ("bert@example.org", "anna-at-example.org", "anna", "../anna", "a b", "x" * 99, "", "\xe4nna"):
        assert own not in decided_by(other), other
    assert own not in decided_by("Anna-AT-example.org")
    api.put("/aliases/spam-filter.a-at-at-b", json={"model": own})
    for other in ("a-at@b", "a@at-b", "a-at-at-b"):  # any of them could be meant
        assert own not in decided_by(other), other
    with door.http() as http:
        for headers, mine in (
            ({"Deliver-To": "anna@example.org"}, True),
            ({"Rcpt": "<anna@example.org>"}, True),
            ({"User": "anna@example.org"}, False),
        ):
            assert (http.post("/checkv2", content=PLAIN, headers=headers).json()["model"] == own) is mine
        two = [("Rcpt", "anna@example.org"), ("Rcpt", "bert@example.org")]
        assert http.post("/checkv2", content=PLAIN, headers=two).json()["model"] != own
