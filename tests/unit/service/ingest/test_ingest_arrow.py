from __future__ import annotations

import datetime
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ingest_helpers import Read, refusal

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int64()),
        "f": [0.5, float("nan"), None],
        "s": ["01", "", None],
        "view": pa.array(["a", None, "b"], pa.string_view()),
        "code": pa.array(["x", None, "x"]).dictionary_encode(),
        "flag": [True, None, False],
        "day": [datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 3)],
    }
)


def packed(table: pa.Table, kind: str = "file", rows: int | None = None, **how: Any) -> bytes:
    out = io.BytesIO()
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(**how)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("rows", [None, 1])
def test_types(kind: str, compression: str | None, rows: int | None) -> None:
    read = Read(packed(TABLE, kind, rows, compression=compression, emit_dictionary_deltas=kind == "stream"), "arrow")
    assert read.table == {
        "i": [1.0, None, 3.0],
        "f": [0.5, None, None],
        "s": ["01", None, None],
        "view": ["a", None, "b"],
        "code": ["x", None, "x"],
        "flag": ["true", None, "false"],
        "day": ["2024-01-02", None, "2024-01-03"],
    }
    assert read.kinds["day"] == "date"


def test_many_rows_in_one_batch() -> None:
    n = 300_000
    read = Read(packed(pa.table({"x": np.arange(n), "t": [f"t{i % 7}" for i in range(n)]})), "arrow")
    assert read.rows == n
    assert read.table["x"] == list(range(n))


def test_promises_are_checked_before_anything_is_unpacked() -> None:
    data = packed(pa.table({"a": np.zeros(1000), "b": np.zeros(1000)}), compression="zstd")
    assert refusal(data, "arrow", max_rows=999).code == "too_many_rows"
    assert refusal(data, "arrow", max_cells=1999).code == "too_many_cells"
    assert refusal(data, "arrow", max_columns=1).code == "too_many_columns"
    zeros = packed(pa.table({"a": np.zeros(20_000_000)}), compression="zstd", rows=1_000_000)
    assert len(zeros) < 200_000
    assert refusal(zeros, "arrow").message == "the file unpacks to more than 250 times its own size"
    large = packed(pa.table({"a": np.arange(1e6)}), compression="zstd", rows=100_000)
    found = refusal(large, "arrow", max_bytes=10**6)
    assert (found.code, found.message) == (
        "expands_too_much",
        "the file unpacks to more than the 1000000 bytes allowed",
    )
    one_batch = packed(pa.table({"a": np.zeros(80_000_000)}), compression="zstd")
    assert "batch" in refusal(one_batch, "arrow", max_rows=10**9).message


def test_refusals() -> None:
    assert refusal(b"", "arrow").code in ("malformed", "empty")
    assert refusal(b"ARROW1\0\0", "arrow").code in ("malformed", "empty")
    assert refusal(packed(TABLE)[: len(packed(TABLE)) // 3], "arrow").code == "malformed"
    assert refusal(packed(TABLE.slice(0, 0)), "arrow").code == "empty"
    assert refusal(packed(pa.table({"x": [["a"]]})), "arrow").code == "unsupported"
    assert refusal(packed(pa.table({"x": [b"x"]})), "arrow").code == "unsupported"
    some = {
        "n": pa.array([3, 4, 3]).dictionary_encode(),
        "list": [["a"], ["b"], None],
        "flag": pa.array([True, None, False]).dictionary_encode(),
    }
    read = Read(packed(pa.table(some)), "arrow")
    assert read.table == {"n": [3.0, 4.0, 3.0], "flag": ["true", None, "false"]}
    assert any("'list' is left out" in warning for warning in read.warnings)
    assert refusal(packed(pa.table({"x": ["a", "b\0"]})), "arrow").line == 2
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 2, 4], np.int32)), pa.py_buffer(b"ok\xff\xfe"))
    assert refusal(packed(pa.table({"x": broken})), "arrow").code in ("bad_encoding", "malformed")


@pytest.mark.parametrize("repeats", [1, 1000])
def test_values_of_a_dictionary_are_judged_by_the_rows_that_have_them(repeats: int) -> None:
    def coded(codes: list[int | None], values: pa.Array) -> bytes:
        column = pa.DictionaryArray.from_arrays(pa.array(codes * repeats, pa.int32()), values)
        return packed(pa.table({"x": column}))

    values = pa.array(["a", "", None, "b\0"])
    expected = ["a", None, None, None] * repeats
    assert Read(coded([0, 1, 2, None], values[:3]), "arrow").table["x"] == expected
    assert Read(coded([0, 1, 2, None], values), "arrow").table["x"] == expected
    error = refusal(coded([0, 1, 2, 3], values), "arrow")
    assert (error.code, error.line) == ("bad_value", 4)
