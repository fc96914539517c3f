"""Files with random damage are read or refused; nothing else happens."""

from __future__ import annotations

import collections
import subprocess
import sys
from typing import get_args

import damage_runner
import pytest

from service.ingest.errors import Code

MAX_MIB = 512


def outcomes(format: str, count: int) -> tuple[collections.Counter[str], int]:
    """What came of so many damaged files, and the largest memory; a process that dies counts as one ``crashed``."""
    found: collections.Counter[str] = collections.Counter()
    first, mib = 0, 0
    while first < count:
        done = subprocess.run(
            [sys.executable, damage_runner.__file__, format, str(first), str(count - first)],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [line.split() for line in done.stdout.splitlines()]
        found.update(what for name, what in lines if name != "MiB")
        if done.returncode == 0:
            return found, int(lines[-1][1])
        assert done.returncode < 0, done.stderr[-2000:]  # an exception that the child would not make a refusal of
        found["crashed"] += 1
        first = max([int(name) for name, _ in lines], default=first - 1) + 2
    return found, mib


def test_a_little_damage_to_every_format() -> None:
    done = subprocess.run(
        [sys.executable, damage_runner.__file__, ",".join(damage_runner.WHOLE), "0", "30"],
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, memory = [line.split() for line in done.stdout.splitlines()]
    found = collections.Counter(what for _, what in lines)
    assert len(lines) == 30 * len(damage_runner.WHOLE)
    assert set(found) <= {"read", *get_args(Code)}
    assert found["read"] < 0.5 * len(lines)
    assert int(memory[1]) < MAX_MIB


@pytest.mark.fuzz
@pytest.mark.timeout(900)
@pytest.mark.parametrize("format", damage_runner.WHOLE)
def test_much_damage(format: str) -> None:
    count = 2000
    found, mib = outcomes(format, count)
    print(format, dict(found), f"{mib} MiB")
    assert found.total() == count
    assert set(found) <= {"read", *get_args(Code)}
    assert found["crashed"] <= count * 0.01, "the process of the reader keeps that from the service; it should be rare"
    assert found["read"] < count // 2 + count // 4
    assert mib < MAX_MIB
