"""One part away at a time: the broker emptied, full, frozen or closed; keys sent five times while the API is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles

import httpx
import pytest
import redis
from chaos_load import send, training, upload, wait_for
from chaos_stack import ChaosStack
from scipy.stats import fisher_exact

from service.jobs.doorbell import QUEUE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def stack(short_dir: Path) -> Iterator[ChaosStack]:
    stack = ChaosStack(short_dir)
    yield stack
    stack.close()


def open_jobs(stack: ChaosStack) -> int:
    return int(stack.query("SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')")[0][0])


def test_a_key_sent_five_times_makes_one_job_though_the_api_is_killed(
    stack: ChaosStack, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, times = 1000, 5
    stack.start_servers()
    stack.api.start()
    stack.wait_until_ready(worker=False)
    dataset = upload(stack)
    refused = 0

    answers: list[tuple[int, str]] = []

    def post(client: httpx.Client, number: int) -> str:
        nonlocal refused
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                headers = {"Idempotency-Key": str(number)}
                answer = client.post("/train", json=training(dataset, number), headers=headers)
                if answer.status_code == 202:
                    return answer.text
                assert answer.status_code == 503, answer.text
            refused += 1
            time.sleep(0.2)
        raise AssertionError("not accepted in time")

    def post_all(numbers: list[int]) -> None:
        with stack.client() as client:
            for number in numbers:
                answers.append((number, post(client, number)))  # noqa: PERF401 (others count meanwhile)

    order = [number for number in range(keys) for _ in range(times)]
    with ThreadPoolExecutor(10) as clients:
        sent = [clients.submit(post_all, order[first::10]) for first in range(10)]
        for share in (3, 2):  # after a third, after a half
            wait_for(lambda share=share: len(answers) >= len(order) // share, 300)  # type: ignore[misc]
            stack.api.kill(with_children=False)
            stack.api.start()
        for one in sent:
            one.result()
    rows = stack.query("SELECT id FROM jobs")
    with capsys.disabled():
        print(f"\n{keys} keys, each sent {times} times, API killed twice: {len(rows)} jobs, {refused} sent again")
    assert len(rows) == keys
    # Every copy got the same answer, byte for byte.
    assert len(set(answers)) == keys
    assert refused > 0, "the API was killed while nobody asked"
    with stack.client() as client:
        other = client.post("/train", json=training(dataset, 1), headers={"Idempotency-Key": "0"})
    assert other.status_code == 409


P99_SECONDS = 0.05
"""Of 100 calls, one may take longer."""


@pytest.mark.timeout(900)
def test_the_broker_emptied_full_frozen_and_back(stack: ChaosStack, capsys: pytest.CaptureFixture[str]) -> None:
    """500 trainings wait; the API never notices what becomes of the broker, and afterwards all of them are run.

    Every second training is sent to an API that knows of no broker. Where the machine is so busy that this one is late,
    too, the other must not be later than that one's p99 more often than chance allows.
    """
    stack.start()
    stack.start_api_without_broker()
    dataset = upload(stack)
    broker = redis.Redis(unix_socket_path=str(stack.folder / "redis.sock"))
    number = 0

    def send_pairs(what: str, pairs: int, over_seconds: float = 0.0) -> tuple[list[float], list[float]]:
        """Return the seconds with and without a broker."""
        nonlocal number
        took: tuple[list[float], list[float]] = ([], [])
        began = time.monotonic()
        with stack.client() as one, stack.client(port=stack.port_without_broker) as other:
            for pair in range(pairs):
                time.sleep(max(0.0, began + pair * over_seconds / pairs - time.monotonic()))
                for client, seconds in ((one, took[0]), (other, took[1]))[:: 1 if pair % 2 else -1]:
                    number += 1
                    asked = time.monotonic()
                    assert client.post("/train", json=training(dataset, number)).status_code == 202
                    seconds.append(time.monotonic() - asked)
        show(f"broker {what}", took)
        return took

    def show(what: str, took: tuple[list[float], list[float]]) -> None:
        figures = [f"median {median(seconds) * 1000:.0f} ms, p99 {p99(seconds) * 1000:.0f} ms" for seconds in took]
        with capsys.disabled():
            print(f"\nPOST /train, {what}: {figures[0]}; without one: {figures[1]}", end="")

    def p99(seconds: list[float]) -> float:
        return quantiles(seconds, n=100)[-1]

    for worker in stack.workers:
        worker.freeze(with_children=False)
    send_pairs("well", 50)
    wait_for(lambda: broker.llen(QUEUE) > 0, 20)
    broker.flushall()
    ill = [send_pairs("emptied", 25)]

    # Full, and told to throw away what it likes.
    broker.config_set("maxmemory-policy", "allkeys-lru")
    broker.config_set("maxmemory", "1mb")
    ill.append(send_pairs("full", 50))
    broker.config_set("maxmemory", "0")
    broker.config_set("maxmemory-policy", "noeviction")

    stack.redis.freeze(with_children=False)
    ill.append(send_pairs("frozen for a minute", 75, over_seconds=60))
    with stack.client() as client:
        assert client.get("/readyz").status_code == 503
    stack.redis.thaw()

    stack.redis.kill(with_children=False)
    ill.append(send_pairs("away", 50))
    assert open_jobs(stack) == number == 500
    stack.redis.start()
    for worker in stack.workers:
        worker.thaw()
    wait_for(lambda: open_jobs(stack) == 0, 400)
    assert stack.query("SELECT status, count(*) FROM jobs GROUP BY status") == [("succeeded", number)]
    with_broker, without = ([second for took in ill for second in took[which]] for which in (0, 1))
    show("broker ill, all together", (with_broker, without))
    limit = max(P99_SECONDS, p99(without))
    late = [sum(one > limit for one in seconds) for seconds in (with_broker, without)]
    table = [[count, len(without) - count] for count in late]
    assert late[0] <= 0.01 * len(with_broker) or fisher_exact(table, "greater").pvalue > 0.001, late
    assert median(with_broker) <= 1.5 * median(without) + 0.01


def test_what_workers_take_from_a_broker_behind_a_black_hole_is_rung_for_again(
    stack: ChaosStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """A doorbell that is popped and does not arrive is in no queue any more, and kombu has no note of it.

    For longer than the 20 s after which kombu doubts its connection. Workers that find themselves deaf end before that.
    """
    seconds = 25.0
    stack.start()
    dataset = upload(stack)
    for worker in stack.workers:
        worker.links["redis"].swallow()
    for number in range(4):
        send(stack, dataset, number)
    with redis.Redis(unix_socket_path=str(stack.folder / "redis.sock")) as broker:
        wait_for(lambda: broker.llen(QUEUE) < 4, 10)  # at least one is on its way to a worker
        time.sleep(seconds)
    assert stack.query("SELECT DISTINCT status FROM jobs") == [("queued",)]
    for worker in stack.workers:
        worker.links["redis"].restore()
    restored = time.monotonic()

    def all_run() -> bool:
        for worker in stack.workers:
            worker.start_if_it_ended()
        return open_jobs(stack) == 0

    wait_for(all_run, 60)
    with capsys.disabled():
        print(
            f"\nall run {time.monotonic() - restored:.1f} s after {seconds:g} s of black hole; "
            f"ended for being deaf: {sum(worker.unasked_ends for worker in stack.workers)}"
        )
    assert stack.query("SELECT status, attempt, count(*) FROM jobs GROUP BY 1, 2") == [("succeeded", 1, 4)]


def test_a_forged_doorbell_changes_nothing(stack: ChaosStack) -> None:
    """1,000 random messages in the queue of a running stack."""
    stack.start()
    dataset = upload(stack)
    done = send(stack, dataset, 1)
    wait_for(lambda: open_jobs(stack) == 0, 30)
    before = stack.query("SELECT * FROM jobs")
    chance = random.Random(1)  # noqa: S311 (a seed is the point)
    with redis.Redis(unix_socket_path=str(stack.folder / "redis.sock")) as broker:
        for _ in range(1000):
            length = chance.choice([0, 1, 10, 300, 5000])
            broker.lpush(QUEUE, chance.choice([chance.randbytes(length), done.encode(), b'["' + done.encode() + b'"]']))
        wait_for(lambda: broker.llen(QUEUE) == 0, 60)
    assert stack.query("SELECT * FROM jobs") == before
    again = send(stack, dataset, 2)
    wait_for(lambda: open_jobs(stack) == 0, 30)
    assert stack.query("SELECT status, attempt FROM jobs WHERE id = %s", again) == [("succeeded", 1)]
    assert all(worker.starts == 1 and worker.runs for worker in stack.workers)
