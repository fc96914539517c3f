"""Rules of HTTP that uvicorn leaves to others: one Host, and what is said where nobody else may connect."""

from __future__ import annotations

import json
import os
import resource
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import api_support
import httpx
import psutil
import pytest
import uvicorn
from api_support import CSV, api_client, api_process, problem
from fastapi import FastAPI

from service.api import http_protocol
from service.app import most_connections, server_config
from service.settings import Settings

PLACES = 4


def ask(client: httpx.Client, request: bytes) -> tuple[int, dict[str, Any]]:
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=10) as connection:
        connection.sendall(request)
        answer = http_answer(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def http_answer(connection: socket.socket) -> bytes:
    answer = b""
    while not answer.endswith(b"}"):
        got = connection.recv(1 << 16)
        assert got
        answer += got
    return answer


def test_a_request_has_one_host(settings: Settings) -> None:
    with api_client(settings) as client:
        for path in (b"/healthz", b"/jobs"):
            for hosts in (b"Host: localhost\r\nHost: other\r\n", b"Host: localhost\r\nhost: localhost\r\n", b""):
                status, body = ask(client, b"GET %s HTTP/1.1\r\n%s\r\n" % (path, hosts))
                assert (status, body["type"]) == (400, "urn:prefsvm:problem:malformed-request")
            assert ask(client, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)[0] == 200
        body = b'{"model": "now", "rows": [{"age": 1}]}'
        head = b"POST /predict HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Type: application/json\r\n"
        assert ask(client, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)[0] == 400
    # HTTP/1.0 need not have one, where any name will do.
    with api_client(settings, keys_required=True) as client:
        assert ask(client, b"GET /healthz HTTP/1.0\r\n\r\n") == (200, {"status": "ok"})


def test_beyond_the_last_connection_there_is_a_problem_and_a_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few_places(app: Any) -> uvicorn.Config:
        config = server_config(app)
        config.limit_concurrency = PLACES
        return config

    monkeypatch.setattr(api_support, "server_config", few_places)
    with api_client(settings) as client, ExitStack() as others:
        client.headers["connection"] = "close"
        address = (client.base_url.host, client.base_url.port)
        for _ in range(PLACES - 1):
            connection = others.enter_context(socket.create_connection(address, timeout=10))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert http_answer(connection).startswith(b"HTTP/1.1 200")
        for path in ("/healthz", "/jobs", "/v2/health/ready"):
            refused = client.get(path)
            said = problem(refused, 503, "unavailable")
            assert int(refused.headers["retry-after"]) > 0
            assert refused.headers["connection"] == "close"
            assert refused.headers["x-request-id"] == said["request_id"]
        assert said["error"] == said["detail"]  # for callers of the Open Inference Protocol
        others.close()
        deadline = time.monotonic() + 40
        while client.get("/healthz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_far_beyond_the_last_connection_there_is_no_answer(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are told that there is no place; more than those are ended at once, or they would take all descriptors."""

    def few_places(app: Any) -> uvicorn.Config:
        config = server_config(app)
        config.limit_concurrency = PLACES
        return config

    monkeypatch.setattr(api_support, "server_config", few_places)
    monkeypatch.setattr(http_protocol, "REFUSED_PLACES", 2)
    monkeypatch.setattr(http_protocol, "FIRST_BYTE_SECONDS", 600.0)  # that they are silent is no reason
    with api_client(settings) as client, ExitStack() as others:
        address = (client.base_url.host, client.base_url.port)
        for _ in range(PLACES + 2):
            others.enter_context(socket.create_connection(address, timeout=10))
        for _ in range(3):
            one_more = others.enter_context(socket.create_connection(address, timeout=30))
            with suppress(ConnectionResetError):
                assert one_more.recv(1) == b""


def test_connections_leave_descriptors_for_files() -> None:
    """As many as there may be, wherever the application is served: uvicorn by itself has no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    app = FastAPI()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
        limit = server_config(app).limit_concurrency
        assert limit is not None
        assert limit + http_protocol.REFUSED_PLACES < 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server_config(app).limit_concurrency == most_connections()


def test_the_kernel_asks_after_clients(settings: Settings) -> None:
    """Or one that lost its network would have a connection, of which there are few, until the process ends."""
    with api_client(settings) as client:
        address = (client.base_url.host, client.base_url.port)
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            http_answer(connection)
            with their_end_of(connection) as theirs:
                assert theirs.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


def their_end_of(connection: socket.socket) -> socket.socket:
    """Return another handle of a socket of this process, by that which it is connected with."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is closed by now, or is connected with nothing
            if path.readlink().name.startswith("socket:"):
                found = socket.socket(fileno=os.dup(int(path.name)))
                try:
                    if found.getpeername() == connection.getsockname():
                        return found.dup()
                finally:
                    found.close()
    raise AssertionError("the other end is not here")


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
"""As Java's HttpClient sends it, and curl --http2."""


@pytest.mark.parametrize("pause", [0, 0.05], ids=["in one part", "in parts"])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_who_offers_http_2_is_served_in_http_1(settings: Settings, is_chunked: bool, pause: float) -> None:
    body = b'{"model": "now", "texts": "no list", "extra": 1}'
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body)
    head = b"Host: localhost\r\nContent-Type: application/json\r\n%s%s\r\n\r\n" % (OFFER, length)
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % OFFER
    with api_client(settings) as client:
        connection = socket.create_connection((client.base_url.host, client.base_url.port), timeout=10)
        with connection, connection.makefile("rb") as answers:
            for _ in range(2):
                for part in (b"POST /train HT", b"TP/1.1\r\n" + head[:90], head[90:], sent[:9], sent[9:] + get + get):
                    if pause:
                        connection.sendall(part)
                        time.sleep(pause)
                    else:
                        connection.sendall(b"POST /train HTTP/1.1\r\n" + head + sent + get + get)
                        break
                found = [next_answer(answers) for _ in range(3)]
                assert [status for status, _ in found] == [422, 200, 200]
                assert "body.extra" in [error["field"] for error in found[0][1]["errors"]]  # it was read
        assert ask(client, b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 400


def next_answer(answers: IO[bytes]) -> tuple[int, dict[str, Any]]:
    status = int(answers.readline().split()[1])
    head = dict(line.lower().rstrip().split(b": ", 1) for line in iter(answers.readline, b"\r\n"))
    return status, json.loads(answers.read(int(head[b"content-length"])))


def test_a_connection_that_sends_nothing_is_ended(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "FIRST_BYTE_SECONDS", 0.3)
    with api_client(settings) as client:
        address = (client.base_url.host, client.base_url.port)
        with (
            socket.create_connection(address, timeout=10) as silent,
            socket.create_connection(address, timeout=10) as other,
        ):
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            assert silent.recv(1) == b""
            other.sendall(b"1\r\n\r\n")
            assert http_answer(other).startswith(b"HTTP/1.1 200")


def test_connections_never_take_the_descriptors_of_the_rest(settings: Settings, tmp_path: Path) -> None:
    """400 that send nothing had taken all 256 of them; uploads were answered with 500."""
    with api_process(settings, tmp_path / "log", descriptors=256) as (client, _), ExitStack() as others:
        address = (client.base_url.host, client.base_url.port)
        for _ in range(400):
            others.enter_context(socket.create_connection(address, timeout=10))
        refused = client.post("/datasets", files={"file": ("a.csv", CSV)})
        assert refused.status_code in (201, 503)
        others.close()
        deadline = time.monotonic() + 40
        while client.post("/datasets", files={"file": ("a.csv", CSV)}).status_code != 201:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_without_a_descriptor_the_answer_is_503(settings: Settings, tmp_path: Path) -> None:
    with api_process(settings, tmp_path / "log") as (client, running):
        assert client.post("/datasets", files={"file": ("a.csv", CSV)}).status_code == 201
        process, taken = psutil.Process(running.pid), Path(f"/proc/{running.pid}/fd")
        usual = process.rlimit(resource.RLIMIT_NOFILE)
        free = next(number for number in range(100_000) if not (taken / str(number)).exists())
        process.rlimit(resource.RLIMIT_NOFILE, (free, usual[1]))
        refused = problem(client.post("/datasets", files={"file": ("a.csv", CSV)}), 503, "unavailable")
        assert "files" in refused["detail"]
        process.rlimit(resource.RLIMIT_NOFILE, usual)
        assert client.post("/datasets", files={"file": ("a.csv", CSV)}).status_code == 201


@pytest.mark.parametrize("long", [0, 9_000], ids=["short", "long"])
def test_a_websocket_passes_the_gate_like_everything(settings: Settings, long: int) -> None:
    """And what follows its head is not kept for a protocol that nobody speaks."""
    with api_client(settings, keys_required=True) as client:
        offer = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
        status, body = ask(client, b"GET /jobs HTTP/1.1\r\nHost: a\r\nX-Long: %s\r\n%s\r\n" % (b"x" * long, offer))
        assert status == 401, body
