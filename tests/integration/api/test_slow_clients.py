"""Clients that send their headers or bodies drop by drop do not slow others down: through the nginx of production."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from statistics import quantiles
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from api_support import api_process, store_model
from nginx_proxy import nginx_before

SLOW = 200
ADDRESS = "127.0.0.2"
"""The slow clients' address; the others are 127.0.0.1."""
BLOCK_SECONDS = 8.0
DROP_SECONDS = 0.5
MODES = {
    "headers": "GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "bodies of predictions": "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "Content-Length: 100000\r\n\r\n",
    "bodies of uploads": "POST /datasets?name=slow.csv HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\n"
    "Content-Length: 100000\r\n\r\n",
}


class SlowClients:
    """So many connections that each send a byte now and then, and begin anew when they are ended."""

    def __init__(self, port: int, begun: str, address: str, count: int) -> None:
        self.begun = begun.encode()
        self.connections = 0
        """How many are open now."""
        self.ended = 0
        self._where = (port, address, count)

    async def run(self, over: threading.Event) -> None:
        """Dribble until `over`."""
        port, address, count = self._where

        async def dribble() -> None:
            while not over.is_set():
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                    self.connections += 1
                    try:
                        writer.write(self.begun)
                        while not over.is_set():
                            await writer.drain()
                            await asyncio.sleep(DROP_SECONDS)
                            writer.write(b"1")
                    finally:
                        self.connections -= 1
                        self.ended += 1
                        writer.transport.abort()
                await asyncio.sleep(DROP_SECONDS)

        await asyncio.gather(*(dribble() for _ in range(count)))


@contextmanager
def slow_clients(port: int, begun: str, address: str = ADDRESS, count: int = SLOW) -> Iterator[SlowClients]:
    """Let them dribble in a thread of their own; all are connected when this yields."""
    clients, over = SlowClients(port, begun, address, count), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(clients.run(over)))
    thread.start()
    try:
        deadline = time.monotonic() + 40
        while clients.connections + clients.ended < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield clients
    finally:
        over.set()
        thread.join(40)
        assert not thread.is_alive()


def ask_for(seconds: float, url: str, model: str) -> tuple[list[float], set[int]]:
    """Send one prediction after the other and return how long each took, and the statuses."""
    took, statuses, until = [], set(), time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        while time.monotonic() < until:
            asked = time.monotonic()
            answer = client.post("/predict", json={"model": model, "rows": [{"age": 40, "job": "cook"}]})
            took.append(time.monotonic() - asked)
            statuses.add(answer.status_code)
            time.sleep(0.01)
    return took, statuses


def late(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "of_an_address"), [("bodies of predictions", 0), ("bodies of uploads", 60)])
def test_a_handful_of_addresses_locks_nobody_out(settings, database, tmp_path, tmp_path_factory, mode, of_an_address):
    """Each of four holds as many requests as it may; all but uploads wait in nginx."""
    model = store_model(database, tmp_path)
    with api_process(settings, tmp_path / "log") as (client, process), ExitStack() as opened:
        api_port = urlsplit(str(client.base_url)).port
        assert api_port is not None
        port = opened.enter_context(nginx_before(api_port, tmp_path_factory.mktemp("nginx")))
        for number in range(2, 6):
            opened.enter_context(slow_clients(port, MODES[mode], f"127.0.0.{number}", 80))
        time.sleep(2)
        connections = psutil.Process(process.pid).net_connections()
        held = sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == api_port for each in connections)
        _, statuses = ask_for(3, f"http://127.0.0.1:{port}", model)
        assert statuses == {200}
        assert 0 <= held - 4 * of_an_address < 10


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_200_slow_clients_do_not_slow_others_down(settings, database, tmp_path, tmp_path_factory, mode, capsys):
    """Alternately with and without them, so that both see the same machine; at most three times as late."""
    model = store_model(database, tmp_path)
    with api_process(settings, tmp_path / "log") as (client, _):
        api_port = urlsplit(str(client.base_url)).port
        assert api_port is not None
        with nginx_before(api_port, tmp_path_factory.mktemp("nginx")) as port:
            url = f"http://127.0.0.1:{port}"
            ask_for(1, url, model)
            alone: list[float] = []
            beside: list[float] = []
            for _ in range(2):
                took, statuses = ask_for(BLOCK_SECONDS, url, model)
                assert statuses == {200}
                alone += took
                with slow_clients(port, MODES[mode]) as slow:
                    took, statuses = ask_for(BLOCK_SECONDS, url, model)
                    assert statuses == {200}
                    assert slow.connections + slow.ended >= SLOW
                    beside += took
            with capsys.disabled():
                print(
                    f"\n{SLOW} slow {mode}: p99 of {len(beside)} predictions {late(beside) * 1000:.1f} ms, "
                    f"of {len(alone)} without them {late(alone) * 1000:.1f} ms"
                )
            assert late(beside) <= 3 * late(alone)
