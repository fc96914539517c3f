"""Memory: what was freed goes back to the system, also where glibc alone would keep it; cycles do not pile up."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from service import memory

PIECE, PIECES = 100_000, 600  # small enough for the heap; larger ones have maps of their own


@pytest.mark.skipif(memory._malloc_trim is None, reason="the C library is not glibc")
def test_free_memory_is_given_back():
    process = psutil.Process()
    pieces = [bytearray(b"x" * PIECE) for _ in range(PIECES)]
    last = pieces.pop()  # above all others, so that glibc does not give them back by itself
    full = process.memory_info().rss
    pieces.clear()
    memory.give_back_free_memory()
    assert process.memory_info().rss < full - PIECE * PIECES / 2
    assert last[0] == ord("x")


LIVES_LONG = """
import gc, sys
from collections import deque
from service.memory import settle

loaded = [[] for _ in range(1_000_000)]
settled = sys.argv[1] == "settled"
settle() if settled else gc.collect()
most = 0
alive = 0

class Cycle:
    def __init__(self):
        global alive
        alive += 1
        self.itself = self

    def __del__(self):
        global alive
        alive -= 1

held = deque(maxlen=20_000)
for _ in range(250_000):
    held.append(Cycle())  # each is held for a while, as by a job, and so gets as old as what stays
    most = max(most, alive)
print(most)
"""


def test_cycles_do_not_pile_up_beside_all_that_is_loaded():
    """Python looks for old ones when a quarter as many have come: of all that there is, unless that is frozen."""

    def most(how: str) -> int:
        command = [sys.executable, "-P", "-c", LIVES_LONG, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert most("settled") < 150_000
    assert most("as it is") > 200_000
