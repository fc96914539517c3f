"""Whatever is wrong, a mail is passed on as it came, and that is logged and counted."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_support import make_tenant
from api_support import SPAM, api_client, store_model, text_model, tiny_model
from encoder_server import MODEL, Trigrams, encoder_server
from hostile_mails import PLAIN
from mail_support import Door, mail_door, parsed, read_all
from pydantic import SecretStr

from service.access.keys import ApiKey
from service.db.session import Database
from service.encoders.errors import EncoderAway, EncoderChanged
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.mailfilter import inbound, listener
from service.mailfilter.addresses import addresses_of, check_mail_settings
from service.settings import ConfigurationError, Settings

UNKNOWN = {"Spam": "False ; 0.0 / 5.0"}
FORGED = b"X-Spam-Flag: NO\r\n" + PLAIN


def passes_unmarked(door: Door, reason: str) -> None:
    """Check that each door passes a mail on, without marks of anybody, and says why."""
    assert parsed(door.ask("CHECK", PLAIN))[1] == UNKNOWN
    assert parsed(door.ask("PROCESS", FORGED))[2] == PLAIN
    assert parsed(door.ask("SYMBOLS", PLAIN))[2] == b""
    assert reason.encode() in parsed(door.ask("REPORT", PLAIN))[2]
    assert parsed(door.ask("REPORT_IFSPAM", PLAIN))[2] == b""
    with door.http() as http:
        answer = http.post("/checkv2", content=PLAIN)
        assert answer.status_code == 200
        told = answer.json()
        assert (told["verdict"], told["reason"], told["is_skipped"]) == ("unknown", reason, True)
        assert (told["action"], told["score"], told["symbols"]) == ("no action", 0.0, {})
        figures = http.get("/metrics").text
    assert re.search(rf'prefsvm_mails_unknown_total{{reason="{reason}"}} [1-9]', figures)
    assert re.search(r'prefsvm_mails_total{door="spamd",verdict="unknown"} [1-9]', figures)


def test_no_model_or_none_of_mails(settings: Settings, api: httpx.Client, database: Database, tmp_path: Path) -> None:
    with mail_door(settings, mail_model="nobodys") as door:
        passes_unmarked(door, "no_model")
    api.put("/aliases/table", json={"model": store_model(database, tmp_path, tiny_model())})
    with mail_door(settings, mail_model="table") as door:
        passes_unmarked(door, "not_of_mails")


def test_too_few_labels(settings: Settings, api: httpx.Client) -> None:
    with mail_door(settings, mail_min_labels=5) as door:  # the report of the model says 4 and 6
        passes_unmarked(door, "too_few_labels")
    with mail_door(settings, mail_min_labels=4) as door:
        assert parsed(door.ask("CHECK", PLAIN))[1] != UNKNOWN


def test_no_database(settings: Settings) -> None:
    with mail_door(settings, database_url="postgresql+psycopg://u@127.0.0.1:1/x", system_database_url=None) as door:
        passes_unmarked(door, "database_away")


def test_a_slow_decision_is_not_waited_for(
    settings: Settings, api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with mail_door(settings, mail_seconds=0.2, mail_memory_bytes=100) as door, caplog.at_level(logging.INFO):
        released = asyncio.Event()
        decides = door.predictions.predict_mail

        async def slowly(*given: Any) -> Any:
            await released.wait()
            return await decides(*given)

        door.predictions.predict_mail = slowly  # type: ignore[method-assign]
        # The first is waited for; while it lasts there is no memory for another one.
        assert b"slow" in parsed(door.ask("REPORT", PLAIN))[2]
        assert b"busy" in parsed(door.ask("REPORT", PLAIN))[2]
        door.loop.call_soon_threadsafe(released.set)
        door.predictions.predict_mail = decides  # type: ignore[method-assign]
        deadline = time.monotonic() + 60
        while parsed(door.ask("CHECK", PLAIN))[1] == UNKNOWN:
            assert time.monotonic() < deadline
    said = caplog.text
    assert "verdict=unknown reason=slow" in said
    for secret in (SPAM, "claim", "win@example.net", "you@example.org"):
        assert secret not in said


def test_a_defect_is_no_verdict(settings: Settings, api: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with mail_door(settings) as door:

        async def fails(*_: Any) -> Any:
            raise RuntimeError("a defect")

        door.predictions.predict_mail = fails  # type: ignore[method-assign]
        passes_unmarked(door, "error")
    assert "a mail could not be decided on" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"), [(EncoderAway(), "encoder_away"), (EncoderChanged("b"), "encoder_changed")]
)
def test_an_encoder_that_is_away_is_no_defect(
    settings: Settings, api: httpx.Client, caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    with mail_door(settings) as door:

        async def fails(*_: Any) -> Any:
            raise error

        door.predictions.predict_mail = fails  # type: ignore[method-assign]
        passes_unmarked(door, reason)
    assert "Traceback" not in caplog.text


def test_an_encoder_that_hangs_is_away_and_nothing_is_slow(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    with encoder_server() as encoder:
        model = store_model(database, tmp_path, text_model(("subject", "body"), Trigrams()))
        with api_client(settings) as client:
            client.put("/aliases/spam-filter", json={"model": model})
        known = {"encoder_url": encoder.url, "encoder_model": MODEL}
        with mail_door(settings, **known) as door:
            assert parsed(door.ask("CHECK", PLAIN))[1] != UNKNOWN
        encoder.be("slow")
        encoder.seconds = 60.0
        with mail_door(settings, **known, mail_seconds=5.0) as door:  # half a second between away and slow
            began = time.monotonic()
            assert b"encoder_away" in parsed(door.ask("REPORT", PLAIN))[2]
            assert time.monotonic() - began < 20


def test_within_the_time_that_mails_have_in_production(settings: Settings, api: httpx.Client) -> None:
    """Other tests give mails ten times as long, for machines that are busy; so one may wait here until ours is not."""
    with mail_door(settings, mail_seconds=Settings().mail_seconds) as door:
        said = [parsed(door.ask("CHECK", raw))[1] for raw in (PLAIN, PLAIN + b"prize money " * 8000) for _ in range(5)]
        assert sum(each != UNKNOWN for each in said) >= 5
        assert door.listener._budget.taken == 0


@pytest.mark.parametrize("tempfail", [False, True])
def test_what_is_empty_is_no_mail_and_no_spam(settings: Settings, api: httpx.Client, *, tempfail: bool) -> None:
    with mail_door(settings, mail_tempfail=tempfail) as door, door.http() as http:
        for empty in (b"", b"\r\n\r\n"):
            told = http.post("/checkv2", content=empty).json()
            assert (told["verdict"], told["reason"], told["action"]) == ("unknown", "no_mail", "no action")
            assert parsed(door.ask("CHECK", empty))[1] == UNKNOWN
            raw = base64.b64encode(empty).decode()
            assert http.post("/mta-hooks", json={"stage": "data", "rawMessage": raw}).status_code == 204
        shipped = {"context": {"stage": "data"}, "message": {"headers": [], "contents": ""}}
        assert http.post("/mta-hooks", json=shipped).json() == {"action": "accept", "modifications": []}
        assert 'prefsvm_mails_unknown_total{reason="no_mail"} 7.0' in http.get("/metrics").text


def test_tempfail_if_so_asked(settings: Settings, api: httpx.Client) -> None:
    with mail_door(settings, mail_model="nobodys", mail_tempfail=True) as door, door.http() as http:
        assert door.ask("CHECK", PLAIN).startswith(b"SPAMD/1.1 75 EX_TEMPFAIL: ")
        assert door.ask("PROCESS", PLAIN).startswith(b"SPAMD/1.1 75 EX_TEMPFAIL: ")
        answer = http.post("/checkv2", content=PLAIN)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")


@pytest.mark.parametrize("tempfail", [False, True])
def test_mails_that_are_too_large(settings: Settings, api: httpx.Client, *, tempfail: bool) -> None:
    """They pass, also where mails are made to wait: they would be as large then."""
    large = PLAIN + b"x" * MAX_MESSAGE_BYTES
    with mail_door(settings, mail_tempfail=tempfail) as door, door.http() as http:
        assert parsed(door.ask("CHECK", large))[1] == UNKNOWN
        assert door.ask("PROCESS", large).startswith(b"SPAMD/1.1 98 EX_TOOBIG: ")
        assert parsed(door.say(b"CHECK SPAMC/1.5\r\n\r\n" + large))[1] == UNKNOWN
        assert http.post("/checkv2", content=large).json()["reason"] == "too_large"
        assert door.say(b"CHECK SPAMC/1.5\r\nContent-length: 99999999999\r\n\r\n" + PLAIN) == b""
        assert parsed(door.ask("CHECK", PLAIN))[1] != UNKNOWN
        assert door.listener._budget.taken == 0


def test_memory_for_mails_is_shared(settings: Settings, api: httpx.Client) -> None:
    """Who sends most of a mail and waits takes room from others, whose mails are passed on."""
    with mail_door(settings, mail_memory_bytes=5 * (len(PLAIN) + 5000)) as door:
        with socket.create_connection(("127.0.0.1", door.port)) as holding:
            holding.sendall(b"CHECK SPAMC/1.5\r\nContent-length: 9000\r\n\r\n" + b"x" * 5000)
            deadline = time.monotonic() + 60
            while door.listener._budget.taken < 5 * 5000:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert parsed(door.ask("CHECK", PLAIN))[1] != UNKNOWN
            assert b"busy" in parsed(door.ask("REPORT", PLAIN + b"x" * 4000))[2]
            assert door.ask("PROCESS", PLAIN + b"x" * 4000).startswith(b"SPAMD/1.1 75 EX_TEMPFAIL: ")
        assert parsed(door.ask("CHECK", PLAIN + b"x" * 4000))[1] != UNKNOWN


def test_slow_senders_are_cut_off_and_connections_are_counted(
    settings: Settings, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_door(settings, mail_connections=3) as door:
        held = [socket.create_connection(("127.0.0.1", door.port), timeout=60) for _ in range(3)]
        deadline = time.monotonic() + 60
        while len(door.listener._open) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        with socket.create_connection(("127.0.0.1", door.port), timeout=60) as refused:
            assert refused.recv(1) == b""
        for each in held:
            each.close()
        while door.listener._open:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        monkeypatch.setattr(inbound, "IDLE_SECONDS", 0.3)
        monkeypatch.setattr(inbound, "TOTAL_SECONDS", 0.6)
        with socket.create_connection(("127.0.0.1", door.port), timeout=60) as silent:
            assert read_all(silent) == b""  # nothing came
        for begun in (b"CHECK SPAMC/1.5\r\nContent-length: 100\r\n\r\n", b"POST /checkv2 HTTP/1.1\r\nHost: a\r\n"):
            with socket.create_connection(("127.0.0.1", door.port), timeout=60) as dripping:
                dripping.sendall(begun)
                with pytest.raises(OSError, match=r"Broken pipe|reset"):  # noqa: PT012
                    for _ in range(1000):
                        dripping.sendall(b"x")
                        time.sleep(0.05)
        assert parsed(door.ask("CHECK", PLAIN))[1] != UNKNOWN


def test_an_answer_that_nobody_takes_is_thrown_away(
    settings: Settings, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SEND_SECONDS", 0.3)
    raw = PLAIN + b"x" * (MAX_MESSAGE_BYTES - len(PLAIN))
    with mail_door(settings) as door:
        with socket.create_connection(("127.0.0.1", door.port), timeout=60) as deaf:
            deaf.sendall(b"PROCESS SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(raw) + raw)
            deadline = time.monotonic() + 60
            while door.listener._open:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert door.listener._budget.taken == 0
            assert len(read_all(deaf)) < len(raw)
        assert parsed(door.ask("PROCESS", PLAIN))[2].endswith(PLAIN)


def test_a_unix_socket_is_left_to_the_group(settings: Settings, api: httpx.Client, short_dir: Path) -> None:
    path = short_dir / "mail.sock"
    with mail_door(settings, mail_listen=str(path)):
        assert path.stat().st_mode & 0o777 == 0o660
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"PING SPAMC/1.5\r\n\r\n")
            assert read_all(connection) == b"SPAMD/1.5 0 PONG\r\n"
    assert not path.exists()


@pytest.mark.parametrize(
    ("said", "anywhere", "found"),
    [
        ("127.0.0.1:783", False, ["127.0.0.1:783"]),
        ("[::1]:783, /run/mail.sock", False, ["[::1]:783", "/run/mail.sock"]),
        ("unix:/run/mail.sock", False, ["/run/mail.sock"]),
        ("localhost:1", False, ["localhost:1"]),
        ("0.0.0.0:783", False, None),
        ("mail.example.org:783", False, None),
        ("192.0.2.1:783", True, ["192.0.2.1:783"]),
        ("783", False, None),
        (":783", True, None),
        ("127.0.0.1:99999", False, None),
        ("", False, []),
    ],
)
def test_addresses(said: str, anywhere: bool, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(ConfigurationError, match="PREFSVM_MAIL_LISTEN"):
            addresses_of(said, anywhere=anywhere)
    else:
        assert [str(address) for address in addresses_of(said, anywhere=anywhere)] == found


def test_with_keys_it_acts_for_the_project_of_its_key(
    settings: Settings, database: Database, tmp_path: Path, model: Any
) -> None:
    with pytest.raises(ConfigurationError, match="PREFSVM_MAIL_KEY_FILE"):
        check_mail_settings(settings.model_copy(update={"mail_listen": "127.0.0.1:1", "keys_required": True}))
    theirs = make_tenant(database, "theirs")
    ours = store_model(database, tmp_path, model)
    with api_client(settings) as client:
        client.put("/aliases/spam-filter", json={"model": ours})
    key = SecretStr(theirs.keys["read"])
    with mail_door(settings, keys_required=True, mail_key=key, mail_learn=True) as door:
        passes_unmarked(door, "no_model")  # theirs; ours is not theirs to see
        assert door.ask("TELL", PLAIN, Message_class="spam", Set="local").startswith(b"SPAMD/1.1 69 ")
    with mail_door(settings, keys_required=True, mail_key=SecretStr(theirs.keys["write"])) as door:
        passes_unmarked(door, "no_access")
    with mail_door(settings, keys_required=True, mail_key=SecretStr(ApiKey.new().text)) as door:
        passes_unmarked(door, "no_access")
    mistyped = {"mail_listen": "127.0.0.1:1", "mail_key": SecretStr("changeme")}
    with pytest.raises(ConfigurationError, match="PREFSVM_MAIL_KEY does not hold an API key"):
        check_mail_settings(settings.model_copy(update=mistyped))
