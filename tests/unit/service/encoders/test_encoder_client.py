"""What an encoder may answer, how often it is asked again, and that nothing of it gets into errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from encoder_server import DIMENSIONS, KEY, MODEL, EncoderServer, encoder_server, vector
from pydantic import SecretStr

from service.encoders.client import HttpEncoder
from service.encoders.configuration import EncoderConfig, encoder_config
from service.encoders.errors import EncoderAway
from service.settings import ConfigurationError, Settings

SECRET = "what nobody may read"


@pytest.fixture
def server() -> Iterator[EncoderServer]:
    with encoder_server() as running:
        yield running


def config(server: EncoderServer, **changes: object) -> EncoderConfig:
    fields = {"url": f"{server.url}/embeddings", "model": MODEL, "key": KEY, "batch": 8, "seconds": 5.0} | changes
    return EncoderConfig(**fields)  # type: ignore[arg-type]


def encoded(server: EncoderServer, texts: list[str], patience: float = 0.0, **changes: object) -> list[list[float]]:
    async def ask() -> list[bytes]:
        async with HttpEncoder(config(server, **changes)) as encoder:
            return await encoder.encode(texts, patience)

    return [list(struct.unpack(f"<{len(each) // 4}f", each)) for each in asyncio.run(ask())]


def test_vectors_come_in_the_order_of_the_texts(server: EncoderServer) -> None:
    server.be("backwards")
    texts = [f"text number {i}, of {'x' * (i * 7 % 40)}" for i in range(45)]
    assert encoded(server, texts) == [pytest.approx(vector(text).tolist()) for text in texts]
    assert sorted(server.texts) == sorted(texts)
    assert max(len(body["input"]) for body in server.bodies) == 8
    assert {body["model"] for body in server.bodies} == {MODEL}
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert encoded(server, []) == []


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("error", "it answered with the status 500"),
        ("refuse", "it answered with the status 401"),
        ("busy", "it answered with the status 429"),
        ("redirect", "it answered with the status 307"),
        ("fewer", "it answered 3 texts with 2 vectors"),
        ("twice", "its answer does not name each text once by `index`"),
        ("shorter", f"a vector has {DIMENSIONS - 1} numbers, and {DIMENSIONS} were expected"),
        ("nan", "its answer is no JSON"),
        ("null", "a vector holds what is no finite number"),
        ("infinite", "a vector holds what is no finite number"),
        ("no json", "its answer is no JSON"),
        ("huge", "its answer is longer than"),
    ],
)
def test_a_bad_answer_is_refused_and_quotes_nothing(
    server: EncoderServer, mode: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.be(mode)
    with caplog.at_level(logging.DEBUG), pytest.raises(EncoderAway) as caught:
        encoded(server, [SECRET, "b", "c"], seconds=60.0)
    assert reason in caught.value.detail
    assert MODEL in caught.value.detail
    assert caught.value.headers["Retry-After"] == ("1" if mode == "busy" else "5")
    for told in (
        caught.value.detail,
        repr(config(server)),
        *(r.getMessage() for r in caplog.records if r.levelno > 10),
    ):
        assert SECRET not in told
        assert KEY not in told
    assert len(server.bodies) == 1


def test_an_encoder_is_asked_again_where_that_may_help(server: EncoderServer) -> None:
    for mode in ("error", "busy"):
        server.be(mode, failures=1)
        assert encoded(server, ["a"], patience=5.0) == [pytest.approx(vector("a").tolist())]
    server.bodies.clear()
    server.be("refuse", failures=1)
    with pytest.raises(EncoderAway):
        encoded(server, ["a"], patience=5.0)
    assert len(server.bodies) == 1


def test_an_encoder_that_is_away_or_slow(server: EncoderServer) -> None:
    server.be("slow")
    server.seconds = 60.0
    began = time.monotonic()
    with pytest.raises(EncoderAway, match=r"no answer within 0\.2 s"):
        encoded(server, ["a"], seconds=0.2)
    assert time.monotonic() - began < 30
    server.close()
    with pytest.raises(EncoderAway, match="the connection failed"):
        encoded(server, ["a"])


def test_what_is_waited_for_is_known(server: EncoderServer) -> None:
    async def ask(patience: float) -> list[tuple[float, float, str]]:
        seen = []
        async with HttpEncoder(config(server, seconds=0.6)) as encoder:
            assert encoder.waiting is None
            asking = asyncio.ensure_future(encoder.encode(["a"], patience))
            while not asking.done():
                await asyncio.wait([asking], timeout=0.05)
                if (wait := encoder.waiting) is not None:
                    seen.append((time.monotonic() - wait.since, wait.until - wait.since, wait.reason))
            assert encoder.waiting is None
            with contextlib.suppress(EncoderAway):
                asking.result()
        return seen

    server.be("slow")
    server.seconds = 0.3
    seen = asyncio.run(ask(2.0))
    assert {(round(until, 6), reason) for _, until, reason in seen} == {(2.0, "")}
    server.be("error")
    seen = asyncio.run(ask(0.8))
    assert {reason for _, _, reason in seen} - {""} == {"it answered with the status 500"}
    assert max(after for after, _, _ in seen) < 8.0  # of what would be for ever
    server.be("slow")
    server.seconds = 60.0
    began = time.monotonic()
    seen = asyncio.run(ask(0.0))  # the first request has its time
    assert {round(until, 6) for _, until, _ in seen} == {0.6}
    assert 0.5 < time.monotonic() - began < 30


def test_one_batch_that_fails_ends_the_others(server: EncoderServer) -> None:
    server.be("refuse")
    with pytest.raises(EncoderAway):
        encoded(server, [f"text {i}" for i in range(100)], batch=2)
    assert len(server.bodies) <= 4


def test_dimensions_are_asked_for_and_checked(server: EncoderServer) -> None:
    assert len(encoded(server, ["a"], dimensions=DIMENSIONS)[0]) == DIMENSIONS
    assert server.bodies[-1]["dimensions"] == DIMENSIONS
    with pytest.raises(EncoderAway, match=f"a vector has {DIMENSIONS} numbers, and 16 were expected"):
        encoded(server, ["a"], dimensions=16)


def test_a_prefix_stands_before_each_text(server: EncoderServer) -> None:
    assert encoded(server, ["a"], prefix="query: ") == [pytest.approx(vector("query: a").tolist())]
    assert server.texts == ["query: a"]


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_so_many_requests_are_under_way_as_the_settings_say(server: EncoderServer, at_once: int) -> None:
    server.be("held")
    texts = [f"text {i}" for i in range(48)]
    made: list[list[list[float]]] = []
    asking = threading.Thread(target=lambda: made.append(encoded(server, texts, at_once=at_once)))
    asking.start()
    until = time.monotonic() + 20
    while len(server.bodies) < at_once and time.monotonic() < until:
        time.sleep(0.005)
    assert asking.is_alive()
    assert len(server.bodies) == at_once
    server.released.set()
    asking.join(20)
    assert len(server.bodies) == 6
    assert made == [[pytest.approx(vector(text).tolist()) for text in texts]]


def test_settings(tmp_path: Path) -> None:
    def made(**changes: object) -> EncoderConfig | None:
        return encoder_config(Settings(**({"encoder_url": "http://h:1/v1/", "encoder_model": "m"} | changes)))

    assert encoder_config(Settings()) is None
    plain = made(encoder_dimensions=5, encoder_batch=3, encoder_seconds=2, encoder_prefix="query: ", encoder_at_once=7)
    assert plain == EncoderConfig("http://h:1/v1/embeddings", "m", None, 5, 3, 2.0, "query: ", 7)
    direct = made(encoder_url="https://h/embeddings")
    assert direct is not None
    assert direct.url == "https://h/embeddings"
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    for given in ({"encoder_key_file": file}, {"encoder_key": SecretStr(KEY)}):
        keyed = made(**given)
        assert keyed is not None
        assert keyed.key == KEY
    for changes, said in (
        ({"encoder_model": None}, "belong together"),
        ({"encoder_url": None}, "belong together"),
        ({"encoder_url": "ftp://h"}, "must begin with http"),
        ({"encoder_url": "http://"}, "must begin with http"),
        ({"encoder_url": "http://user:word@h"}, "neither user and password nor a query"),
        ({"encoder_url": "http://h?key=1"}, "neither user and password nor a query"),
        ({"encoder_model": "auto"}, "must not be auto"),
        ({"encoder_key": SecretStr(KEY), "encoder_key_file": file}, "both set"),
        ({"encoder_key_file": tmp_path / "none"}, "cannot be read"),
        ({"encoder_key": SecretStr("two\nlines")}, "does not hold a key"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            made(**changes)
