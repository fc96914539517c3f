"""Nothing grows and nothing fails under a steady load: ``make soak`` (``MINUTES=30 KILLS=60``)."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import httpx
import numpy as np
import pytest
from chaos_growth import BLOCK_SECONDS, Growth, Samples, slope
from chaos_soak import Soak, is_closed_by_the_client
from chaos_stack import ChaosStack

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
KILL_SECONDS = float(os.environ.get("SOAK_KILL_SECONDS", "60"))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_grows_and_nothing_fails(short_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = ChaosStack(short_dir)
    try:
        stack.start()
        soak = Soak(stack, MINUTES * 60, KILL_SECONDS)
        soak.run()
        with capsys.disabled():
            print(f"\n{soak.table()}")
        assert soak.wrong == []
        assert {"api", "dispatcher", "worker 1"} <= set(soak.growth.processes)
        # A run that is too short to show growth is no proof that there is none.
        assert soak.growth.memory("api") is not None, "took less than 20 minutes: nobody lived long enough to be judged"
    finally:
        stack.close()


@pytest.mark.parametrize(("per_hour", "grows"), [(0.0, False), (0.3, False), (20.0, True)])
def test_growth_is_told_from_noise(per_hour: float, grows: bool) -> None:
    """Two processes of twenty minutes each, at levels of their own, whose memory goes up and down by half a MiB."""
    noise = np.random.default_rng(1)
    growth = Growth()
    for pid, level in ((1, 80.0), (2, 120.0)):
        seconds = np.arange(0.0, 1200.0, 5.0)
        loads = 30.0 * np.minimum(seconds / 60, 1)  # what it loads in its first minute
        memory = level + loads + per_hour * seconds / 3600 + noise.normal(0, 0.5, len(seconds))
        growth.processes.setdefault("api", {})[pid, 0.0] = Samples(
            seconds.tolist(), memory.tolist(), [12.0] * len(seconds)
        )
    memory, descriptors = growth.memory("api"), growth.descriptors("api")
    assert memory is not None
    assert memory.low <= per_hour <= memory.high
    assert (memory.low > 1.0) is grows
    assert descriptors is not None
    assert descriptors.low == descriptors.high == 0.0
    assert memory.hours == pytest.approx(2 * 600 / 3600, abs=0.05)


@pytest.mark.parametrize(("correlation", "fewest"), [(0.0, 0.9), (0.6, 0.8)])
def test_the_interval_of_a_slope_holds_it_most_times(correlation: float, fewest: float) -> None:
    """Twenty blocks of memory that goes up and down. Slow ups and downs cannot be told from growth by so few: of 95 %
    86 % are left at a correlation of 0.6, by least squares about 65."""
    noise, held, runs = np.random.default_rng(5), 0, 400
    times = BLOCK_SECONDS * np.arange(20.0)
    for _ in range(runs):
        shocks = noise.normal(0, 0.1, 60)
        level = np.zeros(60)
        for i in range(1, 60):
            level[i] = correlation * level[i - 1] + shocks[i]
        found = slope([(times, level[40:])])
        assert found is not None
        held += found.low <= 0.0 <= found.high
    assert held / runs > fewest


def test_few_blocks_that_are_apart_make_no_slope() -> None:
    times = BLOCK_SECONDS * np.arange(20.0)
    memory = 100 + 0.001 * np.sin(times)
    memory[-3:] += 2.0  # what an hour of +1 MiB would take to reach is there for a minute and a half
    found = slope([(times, memory)])
    assert found is not None
    assert abs(found.estimate) < 0.3


@pytest.mark.parametrize("ends", ["client", "server"])
def test_whose_end_of_a_connection_it_was_is_told(ends: str) -> None:
    async def call() -> httpx.HTTPError:
        has_come = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            has_come.set()
            if ends == "client":
                await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False)
            answer = asyncio.ensure_future(client.get("/"))
            await has_come.wait()
            if ends == "client":
                await client.aclose()
            (error,) = await asyncio.gather(answer, return_exceptions=True)
            await client.aclose()
        assert isinstance(error, httpx.HTTPError)
        return error

    assert is_closed_by_the_client(asyncio.run(call())) is (ends == "client")


def test_connections_of_a_pool_are_no_growth() -> None:
    """What this process serves counts among its descriptors, and what it has open at others does not."""
    growth, me = Growth(), os.getpid()
    growth.sample("me", me, 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as made:
        served, _ = server.accept()
        with served:
            growth.sample("me", me, 1.0)
            assert made.fileno() >= 0
    (samples,) = growth.processes["me"].values()
    assert samples.descriptors[1] - samples.descriptors[0] == 2
    assert samples.connections[1] - samples.connections[0] == 1
    assert growth.most_connections("me") == samples.connections[1]
