"""What was freed goes back to the system, also where glibc alone would keep it."""

from __future__ import annotations

import psutil
import pytest

from service.predictions import heap

PIECE, PIECES = 100_000, 600  # small enough for the heap; larger ones have maps of their own


@pytest.mark.skipif(heap._malloc_trim is None, reason="the C library is not glibc")
def test_free_memory_is_given_back():
    process = psutil.Process()
    pieces = [bytearray(b"x" * PIECE) for _ in range(PIECES)]
    last = pieces.pop()  # above all others, so that glibc does not give them back by itself
    full = process.memory_info().rss
    pieces.clear()
    heap.give_back_free_memory()
    assert process.memory_info().rss < full - PIECE * PIECES / 2
    assert last[0] == ord("x")
