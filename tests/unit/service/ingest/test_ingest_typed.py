"""Types that Parquet and Arrow files say: what becomes of each, the same in both formats."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read

USABLE: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)), "number", [1.5, None]),
    (pa.array([Decimal("1.5"), None], pa.decimal64(10, 2)), "number", [1.5, None]),
    (pa.array([Decimal("-0.25"), Decimal(12)], pa.decimal128(38, 19)), "number", [-0.25, 12.0]),
    (pa.array([Decimal("1.5"), Decimal("1" * 20)], pa.decimal256(60, 2)), "category", ["1.50", "1" * 20 + ".00"]),
    (pa.array([Decimal("1.5"), None]).dictionary_encode(), "number", [1.5, None]),
    (pa.array(np.array([1.5, np.nan], np.float16)), "number", [1.5, None]),
    (pa.array([2**53 + 1, 1], pa.uint64()), "category", [str(2**53 + 1), "1"]),
    (pa.array([2**64 - 1, None], pa.uint64()), "category", [str(2**64 - 1), None]),
    (pa.array([2**53, 0], pa.uint64()), "number", [2.0**53, 0.0]),
    (
        pa.array([0, None], pa.timestamp("us", "Europe/Berlin")),
        "date",
        ["1970-01-01 01:00:00.000000+0100", None],
    ),
    (pa.array([0, None], pa.timestamp("us", "UTC")), "date", ["1970-01-01 00:00:00.000000Z", None]),
    (pa.array([1, None], pa.timestamp("ns")), "date", ["1970-01-01 00:00:00.000000001", None]),
    (pa.array([0, None], pa.date64()), "date", ["1970-01-01", None]),
    (pa.array([3_600_000_001, None], pa.time64("us")), "category", ["01:00:00.000001", None]),
    (pa.array([3_600_000, None], pa.time32("ms")), "category", ["01:00:00.000", None]),
    (pa.array(["a", ""], pa.string_view()), "category", ["a", None]),
    (pa.array(["a", None], pa.large_string()).dictionary_encode(), "category", ["a", None]),
]
LEFT_OUT: list[tuple[pa.Array, str]] = [
    (pa.array([1, None], pa.duration("s")), "durations"),
    (pa.array([b"a", b"b"], pa.binary_view()), "of the type binary_view"),
    (pa.array([b"aa", b"bb"], pa.binary(2)), "of the type fixed_size_binary[2]"),
    (pa.array([[1], [2]], pa.list_view(pa.int64())), "lists or objects"),
    (pa.array([{"a": 1}, None]), "lists or objects"),
    (pa.array([b"a" * 16, b"b" * 16], pa.uuid()), "of the type extension"),
]


def as_file(column: pa.Array, format: str) -> bytes:
    out = io.BytesIO()
    table = pa.table({"good": [1, 2], "x": column})
    if format == "parquet":
        pq.write_table(table, out)
    else:
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize(("column", "kind", "expected"), USABLE, ids=lambda each: str(getattr(each, "type", "")))
def test_a_type_that_can_be_used(column: pa.Array, kind: str, expected: list[Any], format: str) -> None:
    read = Read(as_file(column, format), format)
    assert read.table == {"good": [1, 2], "x": expected}
    assert (read.kinds["x"], read.result["left_out"]) == (kind, {})


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize(("column", "reason"), LEFT_OUT, ids=lambda each: str(getattr(each, "type", "")))
def test_a_type_that_cannot_be_used_is_left_out_and_said(column: pa.Array, reason: str, format: str) -> None:
    read = Read(as_file(column, format), format)
    assert read.table == {"good": [1, 2]}
    assert reason in read.result["left_out"]["x"]
    assert read.warnings == [f"column 'x' is left out: {read.result['left_out']['x']}"]
