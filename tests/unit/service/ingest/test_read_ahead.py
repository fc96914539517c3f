"""A file is read no further ahead of its rows than allowed, and nobody waits for ever for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ingest_helpers import Read

from service.ingest import delimited, statistics
from service.ingest.batches import MOST_ROWS, joined
from service.ingest.errors import IngestError
from service.ingest.read_ahead import BoundedReadAhead

BLOCK = 1 << 14
MUCH = 40 * BLOCK
"""More than Arrow reads ahead by itself, 32 blocks."""


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Let small files have many blocks; returns the limit that goes with it."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", BLOCK)
    return {"max_line_bytes": BLOCK // 2}


def test_the_thread_that_reads_waits_for_batches_to_be_taken() -> None:
    done: list[str] = []

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            done.append("read")
            yield bytes(10)

    ahead = BoundedReadAhead(block_bytes=10, blocks=4)
    batches = ahead.batches(iter(range(100)))
    with ahead:
        next(batches)
        reading = threading.Thread(target=lambda: [None for _ in ahead.chunks(chunks())])
        reading.start()
        for taken in range(1, 6):
            _await(lambda taken=taken: done.count("read") >= taken + 4)
            done.append("taken")
            next(batches)
    reading.join(30)
    assert not reading.is_alive()
    read = taken = 0
    for event in done:
        read, taken = read + (event == "read"), taken + (event == "taken")
        assert read <= 1 + taken + 4
    assert read < 20, "what is left unread where the context ends stays unread"


def _await(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_who_waits_for_arrow_is_not_waited_for_in_turn() -> None:
    """Arrow, which has come upon an error, may wait until the thread that reads is through."""
    ahead = BoundedReadAhead(block_bytes=10, blocks=1)
    with ahead:
        assert len(list(ahead.chunks([bytes(10)] * 4))) == 4


def _rows(count: int) -> bytes:
    return b"".join(b"%d,w%d\n" % (i, i % 7) for i in range(count))


@pytest.mark.parametrize(
    "middle",
    [
        pytest.param(b"", id="nothing odd"),
        pytest.param(b"\n" * MUCH, id="many blocks of blank lines"),
        pytest.param(b"5,six\n" * (MUCH // 6), id="short rows"),
        pytest.param(b'5,"' + b"x\n" * (BLOCK // 3) + b'"\n', id="a value as long as a block"),
    ],
)
def test_many_blocks_read_as_one(small_blocks: dict[str, int], middle: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a,b\n" + _rows(MUCH // 10) + middle + _rows(MUCH // 10)
    in_many = Read(data, "csv", **small_blocks)
    monkeypatch.undo()
    in_one = Read(data, "csv")
    assert in_many.rows == in_one.rows
    assert in_many.table == in_one.table
    assert in_many.result["duplicate_rows"] == in_one.result["duplicate_rows"]


@pytest.mark.parametrize("before", [2, MUCH // 20, MUCH // 5])
def test_an_error_far_before_the_end_is_said(small_blocks: dict[str, int], before: int) -> None:
    data = b"a,b\n" + _rows(before) + b"1,2,3\n" + _rows(MUCH // 5)
    with pytest.raises(IngestError) as caught:
        Read(data, "csv", **small_blocks)
    assert (caught.value.code, caught.value.line) == ("ragged", before + 2)


def test_readers_that_are_given_up_leave_no_thread_behind(small_blocks: dict[str, int]) -> None:
    """There are two threads for all of them."""
    data = b"a,b\n" + _rows(MUCH // 3)
    for _ in range(6):
        with pytest.raises(IngestError, match="more than 10 rows"):
            Read(data, "csv", max_rows=10, **small_blocks)
    assert Read(data, "csv", **small_blocks).rows == MUCH // 3


def test_a_batch_of_very_many_rows_is_cut() -> None:
    rows = 5 * MOST_ROWS // 2
    numbers = pa.array(np.arange(rows))
    parts = [batch[0] for batch in joined(iter([[numbers]]))]
    assert [len(part) for part in parts] == [MOST_ROWS, MOST_ROWS, MOST_ROWS // 2]
    assert pa.concat_arrays(parts).equals(numbers)


def test_equal_rows_are_counted_up_to_a_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_COMPARED_ROWS", 1000)
    comparison = statistics.RowComparison()
    for start in (0, 400):
        comparison.add([pa.array(np.arange(start, start + 500, dtype=np.float64))])
    assert comparison.duplicates() == 100
    comparison.add([pa.array([1.0])])
    assert comparison.duplicates() is None
