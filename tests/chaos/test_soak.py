"""Nothing grows and nothing fails under a steady load: ``make soak`` (``MINUTES=30 KILLS=60``)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from chaos_growth import Growth, Samples
from chaos_soak import Soak
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
