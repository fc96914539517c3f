"""What one API process changes takes effect in another within the time that is promised; bodies beyond the budget."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from api_support import api_client, store_model, tiny_model
from worker_bench import wait_for

from service.api import json_body
from service.db.session import Database
from service.predictions import lookup
from service.predictions.budget import BYTES_A_BYTE
from service.settings import Settings

ROWS = [{"age": 39, "job": "clerk"}]


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_changes_of_another_process_take_effect_in_half_a_second(
    settings: Settings, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(lookup, "time", clock)
    low, high = (store_model(database, tmp_path, tiny_model(threshold)) for threshold in (-100.0, 100.0))
    with api_client(settings) as here, api_client(settings) as elsewhere:

        def ask(client: httpx.Client) -> httpx.Response:
            return client.post("/predict", json={"model": "spam-filter", "rows": ROWS})

        def model(client: httpx.Client) -> str:
            return ask(client).raise_for_status().json()["model"]

        assert ask(elsewhere).status_code == 404
        here.put("/aliases/spam-filter", json={"model": low}).raise_for_status()
        assert model(here) == model(elsewhere) == low  # what was not there is not remembered

        here.put("/aliases/spam-filter", json={"model": high}).raise_for_status()
        assert model(here) == high  # at once where it was done
        assert model(elsewhere) == low
        clock.now += 0.5
        assert model(elsewhere) == high
        here.post("/aliases/spam-filter/rollback").raise_for_status()
        assert model(here) == low
        clock.now += 0.49
        assert model(elsewhere) == high  # what has been asked for since is no older for that
        clock.now += 0.01
        assert model(elsewhere) == low

        by_id = {"model": high, "rows": ROWS}
        assert elsewhere.post("/predict", json=by_id).status_code == 200
        here.delete(f"/models/{high}").raise_for_status()
        assert here.post("/predict", json=by_id).status_code == 404
        assert elsewhere.post("/predict", json=by_id).status_code == 200
        clock.now += 0.5
        assert elsewhere.post("/predict", json=by_id).status_code == 404


class Slow(ExitStack):
    """A request that never ends its body. It may itself be refused where it meets another one, and then begins anew."""

    def __init__(self, client: httpx.Client, begun: bytes) -> None:
        super().__init__()
        self._address = (client.base_url.host, client.base_url.port)
        self._begun = begun
        self._begin()

    def _begin(self) -> None:
        self._socket = self.enter_context(socket.create_connection(self._address))
        self._socket.sendall(self._begun)

    def goes_on(self) -> bool:
        if select.select([self._socket], [], [], 0)[0]:
            self._begin()
        return True


def test_bodies_beyond_the_budget_are_refused_for_now(settings: Settings, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path)
    with api_client(settings, predict_memory_bytes=10_000 * BYTES_A_BYTE) as client:
        body = {"model": model, "rows": ROWS}
        assert client.post("/predict", json=body).status_code == 200
        head = "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        with Slow(client, head.encode() + b"Content-Length: 9990\r\n\r\n{") as slow:
            wait_for(lambda: slow.goes_on() and client.post("/predict", json=body).status_code == 503)
            for path, sent in (
                ("/predict", body),
                (
                    f"/v2/models/{model}/infer",
                    {"inputs": [{"name": "age", "shape": [1], "datatype": "FP64", "data": [1]}]},
                ),
            ):
                answer = client.post(path, json=sent)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert client.get("/healthz").status_code == 200
        wait_for(lambda: client.post("/predict", json=body).status_code == 200)


@pytest.mark.parametrize(
    ("slow_path", "head", "busy", "spared"),
    [
        ("/train", "Content-Length: 9990\r\n\r\n{", "/webhooks", "/predict"),
        ("/v2/models/a/infer", "Transfer-Encoding: chunked\r\n\r\n1f40\r\n{", "/predict", "/webhooks"),
    ],
    ids=["with its length", "without"],
)
def test_so_are_those_of_other_calls(settings: Settings, slow_path: str, head: str, busy: str, spared: str) -> None:
    """Also without a length: what has come of a body counts. Other calls and predictions do not take each other's."""
    body = {"url": "x" * 3000}  # as large for both; what is wrong with it is told after it was read
    with api_client(settings, predict_memory_bytes=10_000 * BYTES_A_BYTE) as client:
        begun = f"POST {slow_path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{head}"
        with Slow(client, begun.encode() + b" " * 7999) as slow:
            wait_for(lambda: slow.goes_on() and client.post(busy, json=body).status_code == 503)
            assert client.post(spared, json=body).status_code == 422
        wait_for(lambda: client.post(busy, json=body).status_code == 422)


@pytest.mark.parametrize(
    ("path", "length", "sent"),
    [
        ("/train", "Content-Length: 99999", b""),
        ("/predict", "Content-Length: 9000", b"{"),
        ("/v2/models/a/infer", "Transfer-Encoding: chunked", b"7d0\r\n{"),
    ],
    ids=["large", "begun", "chunked"],
)
def test_who_is_cut_off_in_a_body_holds_its_memory_for_a_while_only(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, path: str, length: str, sent: bytes
) -> None:
    """A client that is switched off, or loses its network, says no word: its connection stays as it is."""
    monkeypatch.setattr(json_body, "STALLED_SECONDS", 0.3)
    body = {"url": "x" * 30}
    with (
        api_client(settings, predict_memory_bytes=40 * BYTES_A_BYTE) as client,
        socket.create_connection((client.base_url.host, client.base_url.port)) as gone,
    ):
        gone.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{length}".encode())
        gone.sendall(b"\r\n\r\n" + sent)
        gone.settimeout(10)
        answer = b"".join(iter(lambda: gone.recv(1 << 16), b""))  # to the end of the connection
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert b"no further part of the body came" in answer
        assert client.post(path, json=body).status_code != 503


def test_who_sends_slowly_is_waited_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_body, "STALLED_SECONDS", 2.0)

    def slowly() -> Iterator[bytes]:
        yield b'{"url": '
        for _ in range(6):
            time.sleep(0.4)
            yield b" "
        yield b"1}"

    with api_client(settings) as client:
        answer = client.post("/webhooks", content=slowly(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_body_without_a_length_counts_as_it_comes(
    settings: Settings, database: Database, tmp_path: Path, pieces: int
) -> None:
    raw = b'{"model": "%s", "rows": [{"age": 39, "job": "clerk"}]}' % store_model(database, tmp_path).encode()
    size = -(-len(raw) // pieces)
    with api_client(settings) as client:
        answer = client.post(
            "/predict",
            content=iter([raw[start : start + size] for start in range(0, len(raw), size)]),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 200, answer.text
