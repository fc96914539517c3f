"""Requests whose head, or what surrounds their body, has no end: refused before they cost memory or anybody's time."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from api_support import api_client

from service.api.http_protocol import MOST_HEAD_BYTES
from service.settings import Settings

START = b"POST /train HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
BLOCK = 1 << 16


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    with api_client(settings) as client:
        yield client


def send_on(client: httpx.Client, begin: bytes, more: bytes) -> tuple[int, bytes]:
    """Send a beginning, and the same again until it is refused; returns how much went out and the answer."""
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(begin)
        sent = len(begin)
        connection.settimeout(10)
        answer = b""
        while sent < 64 << 20:
            try:
                sent += connection.send(more)
            except (TimeoutError, ConnectionError):
                break
        try:
            while got := connection.recv(1 << 16):
                answer += got
        except ConnectionError:
            pass  # it was closed while we were still sending
        return sent, answer


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        pytest.param(START + b"X-A: ", b"a" * BLOCK, id="one header"),
        pytest.param(START, b"X-A: a\r\n" * (BLOCK // 8), id="many headers"),
        pytest.param(b"GET /jobs?x=", b"a" * BLOCK, id="a path"),
        pytest.param(CHUNKED + b"2; x=", b"a" * BLOCK, id="the head of a chunk"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n0\r\nX-A: ", b"a" * BLOCK, id="what follows the last chunk"),
    ],
)
def test_what_has_no_end_is_cut_off(client: httpx.Client, begin: bytes, more: bytes) -> None:
    sent, _ = send_on(client, begin, more)
    # What the server has read, and what the kernel keeps for both sides.
    assert sent < MOST_HEAD_BYTES + (16 << 20)
    assert client.get("/healthz").status_code == 200


def test_the_answer_says_so(client: httpx.Client) -> None:
    address = (client.base_url.host, client.base_url.port)
    for sent, status, kind in (
        (START + b"X-A: " + b"a" * MOST_HEAD_BYTES, 431, "head-too-long"),
        (b"\x16\x03\x01 no HTTP at all\r\n\r\n", 400, "malformed-request"),
        (START + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "malformed-request"),
    ):
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(sent)
            answer = b""
            while got := connection.recv(1 << 16):
                answer += got
        head, _, body = answer.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert b"content-type: application/problem+json" in head
        problem = json.loads(body)
        assert (problem["type"], problem["status"]) == (f"urn:prefsvm:problem:{kind}", status)
        assert f"x-request-id: {problem['request_id']}".encode() in head


def test_long_heads_small_chunks_and_refused_bodies_are_none_of_that(client: httpx.Client) -> None:
    for _ in range(2):
        assert client.get("/jobs", headers={"X-A": "a" * (60 << 10)}).status_code == 200
    # 50,000 chunks of one byte on one connection: what is around them is five times as long.
    body = iter([b"x"] * 50_000)
    assert client.post("/train", content=body, headers={"Content-Type": "application/json"}).status_code == 422
    # Refused at once, and sent to its end all the same.
    assert client.post("/train", content=b"x" * (40 << 20)).status_code == 413
