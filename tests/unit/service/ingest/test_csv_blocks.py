"""Text is parsed in blocks, several at once, and no further ahead of whoever takes the rows than allowed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from ingest_helpers import Read

from service.ingest import delimited, statistics, stream
from service.ingest.batches import MOST_ROWS, joined
from service.ingest.blocks import BLOCKS_AHEAD, RowTooLongError, row_blocks, side_by_side
from service.ingest.errors import IngestError
from service.ingest.quoting import QuoteScan

BLOCK = 1 << 14
MUCH = 40 * BLOCK


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Let small files have many blocks; returns the limit that goes with it."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(stream, "CHUNK_BYTES", BLOCK // 4)
    return {"max_line_bytes": BLOCK // 2}


def test_blocks_are_parsed_no_further_ahead_than_allowed() -> None:
    cut = 0

    def blocks() -> Iterator[bytes]:
        nonlocal cut
        for number in range(40):
            cut += 1
            yield b"%d" % number

    for taken, parsed in enumerate(side_by_side(int, blocks())):
        assert parsed == taken
        assert cut <= taken + 2 + pa.cpu_count() + BLOCKS_AHEAD
    assert cut == 40


@pytest.mark.parametrize("size", [1, 2, 5, 30, 1000])
def test_blocks_hold_whole_rows(size: int) -> None:
    rows = [b"a,b\n", b'"a\n\n"",\r",b\n', b"\n", b'a"b,c\r', b'"a,\nb",""\r\n', b"c,d\n"] * 3
    text = b"".join(rows)
    ends = set(np.cumsum([len(row) for row in rows]).tolist())
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    blocks = list(row_blocks(chunks, QuoteScan(",", '"', 0), 20))
    assert b"".join(blocks) == text
    assert {*np.cumsum([len(block) for block in blocks]).tolist()} <= ends
    assert all(len(block) >= 20 for block in blocks[:-1])
    with pytest.raises(RowTooLongError):
        list(row_blocks([b"a,b\n", b'"' + b"a\n" * 30], QuoteScan(",", '"', 0), 20))


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
    data = b"a,b\n" + _rows(MUCH // 3)
    for _ in range(6):
        with pytest.raises(IngestError, match="more than 10 rows"):
            Read(data, "csv", max_rows=10, **small_blocks)
    assert not [each.name for each in threading.enumerate() if each.name.startswith("columns")]
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
