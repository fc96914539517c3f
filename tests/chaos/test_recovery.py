"""How soon the work goes on after a worker ends, with the lease of production; and jobs that are poison."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chaos_load import send, upload, wait_for
from chaos_stack import ChaosStack

KILLS_ITSELF, EATS_MEMORY, LOOPS_IN_C = range(2**31, 2**31 + 3)
"""Seeds that `chaos_jobs` knows."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def open_stack(short_dir: Path) -> Iterator[Callable[..., ChaosStack]]:
    opened: list[ChaosStack] = []

    def run(**changes: object) -> ChaosStack:
        opened.append(ChaosStack(short_dir, **changes))  # type: ignore[arg-type]
        opened[-1].start()
        return opened[-1]

    yield run
    for stack in opened:
        stack.close()


def job(stack: ChaosStack, job_id: str) -> dict[str, object]:
    with stack.client() as client:
        return dict(client.get(f"/jobs/{job_id}").json())


def holder(stack: ChaosStack, job_id: str) -> int:
    """Return the index of the worker whose log says that it has begun on a job."""
    for index, worker in enumerate(stack.workers):
        if any(True for _ in stack.log_lines(worker.name, f"{job_id}: attempt")):
            return index
    raise AssertionError("no worker has begun on it")


@pytest.mark.parametrize(("how", "limit"), [("SIGKILL", 45.0), ("SIGTERM", 2.0)])
def test_a_lost_worker_costs_at_most_45_seconds_and_a_stopped_one_2(
    open_stack: Callable[..., ChaosStack], capsys: pytest.CaptureFixture[str], how: str, limit: float
) -> None:
    stack = open_stack(lease_seconds=30.0, PREFSVM_JOB_RUNNER_LONG_SECONDS="60", PREFSVM_REDISPATCH_SECONDS="15")
    job_id = send(stack, upload(stack), 25)
    wait_for(lambda: job(stack, job_id)["status"] == "running", 30)
    first = stack.workers[holder(stack, job_id)]
    time.sleep(11.0)  # past a heartbeat: the lease is as long as it gets
    ended = time.time()
    if how == "SIGKILL":
        first.kill(with_children=False)
    else:
        first.terminate()
    wait_for(lambda: job(stack, job_id)["attempt"] == 2, limit + 5)
    # When it was, says the database; a busy machine answers calls later.
    claimed = (
        "SELECT extract(epoch FROM created_at) FROM job_events WHERE job_id = %s AND kind = 'started' AND attempt = 2"
    )
    took = float(stack.query(claimed, job_id)[0][0]) - ended
    with capsys.disabled():
        print(f"\n{how}: claimed by another worker after {took:.1f} s (limit {limit:g} s)")
    assert took <= limit
    assert job(stack, job_id)["status"] == "running"


@pytest.mark.parametrize("slots", [1, 4])
def test_poison_fails_with_its_reason_and_blocks_nobody(
    open_stack: Callable[..., ChaosStack], capsys: pytest.CaptureFixture[str], slots: int
) -> None:
    stack = open_stack(
        workers=1, PREFSVM_WORKER_SLOTS=str(slots), PREFSVM_MAX_ATTEMPTS="3", PREFSVM_REDISPATCH_SECONDS="2",
        PREFSVM_STOP_GRACE_SECONDS="1", PREFSVM_JOB_MEMORY_BYTES=str(768 << 20),
    )  # fmt: skip
    dataset = upload(stack)

    def seconds_for_good_jobs() -> list[float]:
        waits = []
        for number in range(8):
            sent = time.monotonic()
            job_id = send(stack, dataset, number)
            wait_for(lambda job_id=job_id: job(stack, job_id)["status"] == "succeeded", 60)  # type: ignore[misc]
            waits.append(time.monotonic() - sent)
        return sorted(waits)

    alone = seconds_for_good_jobs()
    poison = {
        "process_killed": send(stack, dataset, KILLS_ITSELF),
        "out_of_memory": send(stack, dataset, EATS_MEMORY),
        "time_limit": send(stack, dataset, LOOPS_IN_C, max_seconds=1.0),
    }
    beside = seconds_for_good_jobs()
    for job_id in poison.values():
        wait_for(lambda job_id=job_id: job(stack, job_id)["status"] == "failed", 60)  # type: ignore[misc]
    for code, job_id in poison.items():
        found = job(stack, job_id)
        assert found["error"]["code"] == code, found  # type: ignore[index]
        # To run out of time again would not help; the others may have had bad luck.
        assert found["attempt"] == (1 if code == "time_limit" else 3)
    after = seconds_for_good_jobs()
    judged = 4 if slots == 1 else -1
    with capsys.disabled():
        seconds = ", ".join(f"{waits[judged]:.2f}" for waits in (alone, beside, after))
        print(
            f"\n{slots} slots, {'the middle' if slots == 1 else 'the slowest'} of the good jobs, in seconds "
            f"alone, beside poison and afterwards: {seconds}"
        )
    assert stack.workers[0].starts == 1
    assert stack.workers[0].runs
    # Where a slot is left, none of them may notice. Where all share one, some wait until the loop is killed: the middle
    # one must not notice. A busy machine gets half a second.
    assert beside[judged] <= 2 * alone[judged] + 0.5
