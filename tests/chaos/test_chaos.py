"""Nothing is lost, whatever is killed, frozen or cut off: ``make chaos`` (``JOBS=1000 SEEDS=1,2,3``)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from chaos_run import ChaosRun, run

JOBS = int(os.environ.get("CHAOS_JOBS", "1000"))
SEEDS = [int(seed) for seed in os.environ.get("CHAOS_SEEDS", "1").split(",")]


def show(capsys: pytest.CaptureFixture[str], chaos: ChaosRun) -> None:
    with capsys.disabled():
        print(f"\n{chaos.table()}")


def check(chaos: ChaosRun) -> None:
    assert chaos.wrong == []
    late = [name for name, _, _ in chaos.stack.refusals()]
    assert "finish_succeeded" in late, "no late writer was there to be refused: the run proves nothing"


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost(short_dir: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    # However short the run: two workers are frozen with a job in hand, so that late writes are there to be refused.
    first = [("freeze", "worker 1"), ("freeze", "worker 2")]
    chaos = run(short_dir, seed, JOBS, fault_seconds=60 + JOBS, first=first)
    show(capsys, chaos)
    check(chaos)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_in_short(short_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = [("freeze", "worker 1"), ("kill", "redis")]
    chaos = run(short_dir, 1, 200, fault_seconds=400, first=first, PREFSVM_JOB_RUNNER_LONG_EVERY="10")
    show(capsys, chaos)
    check(chaos)


# What a defect must turn red, to prove that the test above can fail: every third training is long enough to be caught.
@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("defect", "first", "says"),
    [
        ("no fence", [("freeze", "worker 1"), ("freeze", "worker 2")] * 2, "not the last|after the next had started"),
        ("no reconciler", [("kill", "worker 1"), ("kill", "worker 2")] * 2, "not finished"),
        ("no ringing again", [("kill", "redis")] * 6, "not finished"),
        (
            "answer before the commit",
            [("kill", "api"), ("kill", "worker 1"), ("kill", "dispatcher"), ("kill", "api")],
            "accepted and not there",
        ),
    ],
)
def test_it_goes_red(
    short_dir: Path, capsys: pytest.CaptureFixture[str], defect: str, first: list[tuple[str, str]], says: str
) -> None:
    chaos = run(
        short_dir,
        1,
        60,
        fault_seconds=120,
        settle_seconds=25,
        first=first,
        defect=defect,
        PREFSVM_JOB_RUNNER_LONG_EVERY="3",
    )
    show(capsys, chaos)
    assert any(re.search(says, what) for what in chaos.wrong), chaos.wrong
