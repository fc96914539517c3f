"""Keys as text, how often somebody may call, and what an installation must have before it starts."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from service import app as service_app
from service.access.authenticator import ADDRESSES, WRONG_KEYS_A_MINUTE, TokenBucket, WrongKeys
from service.access.bootstrap import check_reachable, read_bootstrap_key
from service.access.keys import ApiKey
from service.api.access import check_routes
from service.api.logs import JsonFormatter, hide_secrets
from service.settings import ConfigurationError, Settings

ANYWHERE = "0.0.0.0"  # noqa: S104
KEY = ApiKey.new()


def test_a_key_can_be_read_back_and_shows_nothing_by_itself() -> None:
    assert re.fullmatch(r"pfs_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", KEY.text)
    assert ApiKey.parse(KEY.text) == KEY
    assert KEY.secret not in repr(KEY)
    assert len(KEY.sha256) == 32
    assert len({ApiKey.new().text for _ in range(100)}) == 100


@given(st.integers(0, len(KEY.text) - 1), st.characters(max_codepoint=0x2FF))
def test_no_key_differs_from_another_in_one_character(position: int, character: str) -> None:
    changed = KEY.text[:position] + character + KEY.text[position + 1 :]
    assert (ApiKey.parse(changed) is None) is (changed != KEY.text)


@given(st.text(max_size=200))
def test_other_text_is_no_key(text: str) -> None:
    assert ApiKey.parse(text) is None
    assert ApiKey.parse(KEY.text + text) is None or text == ""


@given(st.floats(0.01, 1e4), st.lists(st.floats(0, 5), max_size=200))
def test_a_bucket_lets_through_what_its_rate_allows(rate: float, pauses: list[float]) -> None:
    bucket = TokenBucket(rate)
    now, passed = 1000.0, 0
    for pause in pauses:
        now += pause
        wait = bucket.seconds_to_wait(now)
        passed += wait == 0
        assert 0 <= wait <= 1 / rate + 1e-6
    assert passed <= max(1, rate) + rate * (now - 1000) + 1e-6


def test_a_bucket_opens_again_when_it_says() -> None:
    bucket = TokenBucket(2.0)
    assert [bucket.seconds_to_wait(5.0) for _ in range(3)] == [0, 0, 0.5]
    assert bucket.seconds_to_wait(5.5) == 0
    assert bucket.seconds_to_wait(5.5) == 0.5


def test_wrong_keys_are_counted_by_the_minute_in_bounded_memory() -> None:
    wrong = WrongKeys()
    for _ in range(WRONG_KEYS_A_MINUTE):
        assert wrong.seconds_blocked("a", 10.0) == 0
        wrong.add("a", 10.0)
    assert wrong.seconds_blocked("a", 30.0) == 40
    assert wrong.seconds_blocked("b", 30.0) == 0
    assert wrong.seconds_blocked("a", 70.0) == 0
    wrong.add("a", 71.0)
    assert wrong.seconds_blocked("a", 71.0) == 0
    for address in range(2 * ADDRESSES):
        wrong.add(str(address), 71.0)
    assert len(wrong._counts) == ADDRESSES


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"host": ANYWHERE, "keys_required": False}, "can be reached from other machines"),
        ({"host": "::"}, "there is no admin key"),
        ({"host": "example.org"}, "there is no admin key"),
        ({"keys_required": True}, "there is no admin key"),
        ({"host": ANYWHERE, "bootstrap_key": SecretStr("")}, "PREFSVM_BOOTSTRAP_KEY does not hold an API key"),
        ({"bootstrap_key": SecretStr("changeme")}, "PREFSVM_BOOTSTRAP_KEY does not hold an API key"),
        ({"bootstrap_key_file": Path("/nothing/here")}, "cannot be read: FileNotFoundError"),
        ({"bootstrap_key": SecretStr(KEY.text), "bootstrap_key_file": Path("/x")}, "both set"),
    ],
)
def test_what_lets_everybody_in_or_nobody_does_not_start(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        check_reachable(Settings().model_copy(update=changes), database_is_new=True)
    assert KEY.secret not in str(raised.value)


def test_what_starts(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY.text + "\n")
    for changes in (
        {},
        {"host": "localhost"},
        {"host": "127.9.9.9"},
        {"host": "::1"},
        {"host": ANYWHERE, "bootstrap_key_file": file},
        {"keys_required": True, "bootstrap_key": SecretStr(KEY.text)},
    ):
        check_reachable(Settings().model_copy(update=changes), database_is_new=True)
    assert read_bootstrap_key(Settings(bootstrap_key_file=file)) == KEY
    assert KEY.secret not in repr(Settings(bootstrap_key=SecretStr(KEY.text)))


def test_the_api_says_why_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFSVM_HOST", ANYWHERE)
    monkeypatch.setenv("PREFSVM_KEYS_REQUIRED", "false")
    with pytest.raises(SystemExit, match=r"^prefsvm: PREFSVM_KEYS_REQUIRED is off"):
        service_app.main()


def test_a_route_that_names_no_scope_is_a_defect() -> None:
    app, router = FastAPI(), APIRouter()
    app.router.routes.clear()
    check_routes(app)
    router.add_api_route("/everything", lambda: None)
    app.include_router(router)
    with pytest.raises(RuntimeError, match="/everything says nothing about who may call it"):
        check_routes(app)


def test_what_somebody_logs_by_mistake_is_hidden() -> None:
    record = logging.LogRecord(
        "x", logging.INFO, "", 0, f"Bearer {KEY.text} for postgresql://app:hunter2@host/db", None, None
    )
    line = JsonFormatter().format(record)
    assert KEY.secret not in line
    assert "hunter2" not in line
    assert f"{KEY.id}_***" in line
    assert "postgresql://app:***@host/db" in line
    assert hide_secrets("http://127.0.0.1:8000/models and a@b") == "http://127.0.0.1:8000/models and a@b"
