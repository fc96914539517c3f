from __future__ import annotations

import datetime
import decimal
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read, refusal


def packed(columns: dict[str, Any], **how: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **how)
    return out.getvalue()


def test_types() -> None:
    read = Read(
        packed(
            {
                "i": pa.array([1, None, 3], pa.int64()),
                "f": [0.5, float("nan"), None],
                "s": ["01", "", None],
                "large": pa.array(["a", "b", "a"], pa.large_string()),
                "code": pa.array(["x", None, "x"]).dictionary_encode(),
                "flag": [True, None, False],
                "day": [datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 3)],
                "when": pa.array([0, None, 1], pa.timestamp("s")),
                "money": [decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")],
                "nothing": pa.nulls(3),
            }
        ),
        "parquet",
    )
    assert read.table == {
        "i": [1.0, None, 3.0],
        "f": [0.5, None, None],
        "s": ["01", None, None],
        "large": ["a", "b", "a"],
        "code": ["x", None, "x"],
        "flag": ["true", None, "false"],
        "day": ["2024-01-02", None, "2024-01-03"],
        "when": ["1970-01-01 00:00:00.000", None, "1970-01-01 00:00:01.000"],
        "money": [1.5, None, -2.25],
        "nothing": [None, None, None],
    }
    assert read.columns["s"]["missing"] == 2
    assert read.labels("flag") == ["true", None, "false"]
    assert read.labels("i") == ["1", None, "3"]


def test_integers_that_float64_cannot_hold_become_text() -> None:
    n = 200_000
    values = [*range(n), 2**63 - 1]
    read = Read(packed({"id": values, "small": [2**53] * (n + 1)}), "parquet")
    assert read.kinds == {"id": "category", "small": "number"}
    assert read.table["id"] == [str(value) for value in values]
    assert "beyond 2**53" in read.warnings[0]
    assert Read(packed({"id": pa.array([2**64 - 1], pa.uint64())}), "parquet").table["id"] == [str(2**64 - 1)]


def test_kinds_can_be_set() -> None:
    data = packed({"zip": [1234, None], "n": ["007", None], "flag": [True, None]})
    read = Read(data, "parquet", {"columns": {"zip": "text", "n": "number", "flag": "number"}})
    assert read.table == {"zip": ["1234", None], "n": [7.0, None], "flag": [1.0, None]}
    error = refusal(packed({"n": ["1", "secret"]}), "parquet", {"columns": {"n": "number"}})
    assert (error.code, error.line, error.column) == ("bad_value", 2, "n")
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["a", "b"]]),
        pa.array([{"a": 1}]),
        pa.array([b"x"]),
        pa.array([datetime.timedelta(1)]),
        pa.array([b"x"]).dictionary_encode(),
    ],
)
def test_unsupported_types(column: pa.Array) -> None:
    read = Read(packed({"bad": column, "good": [1]}), "parquet")
    assert read.table == {"good": [1.0]}
    assert any("'bad' is left out" in warning for warning in read.warnings)
    assert list(read.result["left_out"]) == ["bad"]
    error = refusal(packed({"bad": column, "good": [1]}), "parquet", {"columns": {"bad": "text"}})
    assert (error.code, error.column) == ("unsupported", "bad")
    error = refusal(packed({"bad": column}), "parquet")
    assert (error.code, error.column) == ("unsupported", "bad")


def test_bad_values() -> None:
    assert refusal(packed({"x": [1.0, float("inf")]}), "parquet").line == 2
    assert refusal(packed({"x": ["a", "b\0c"]}), "parquet").line == 2
    offsets = np.array([0, 2, 4], np.int32)
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(b"ok\xff\xfe"))
    assert refusal(packed({"x": broken}), "parquet").code == "bad_encoding"
    assert refusal(packed({"x": ["y" * 2000]}), "parquet", max_line_bytes=1000).code == "too_long"
    assert refusal(packed({}), "parquet").code == "empty"
    assert refusal(packed({"x": pa.array([], pa.int64())}), "parquet").code == "empty"
    assert refusal(packed({"e\u0301": [1], "é": [2]}), "parquet").code == "bad_column_name"


def test_limits_come_before_unpacking() -> None:
    data = packed({"a": np.zeros(1000), "b": np.zeros(1000)})
    assert refusal(data, "parquet", max_rows=999).code == "too_many_rows"
    assert refusal(data, "parquet", max_cells=1999).code == "too_many_cells"
    assert refusal(data, "parquet", max_columns=1).code == "too_many_columns"


def test_one_long_text_many_times() -> None:
    """A dictionary makes 60 GB of text out of a file of some kilobytes."""
    codes = pa.array(np.zeros(1_000_000, np.int32))
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 60_000]))
    data = packed({"t": column, "y": np.zeros(1_000_000)})
    assert len(data) < 100_000
    assert refusal(data, "parquet").code == "expands_too_much"


def test_damaged_files() -> None:
    data = packed({"a": np.arange(10_000.0), "t": [f"t{i % 100}" for i in range(10_000)]})
    assert refusal(b"", "parquet").code == "malformed"
    assert refusal(b"PAR1" + b"\0" * 100 + b"PAR1", "parquet").code == "malformed"
    assert refusal(data[:-1], "parquet").code == "malformed"
    assert refusal(data[: len(data) // 2], "parquet").code == "malformed"
    assert refusal(data[:4] + b"\xff" * 2000 + data[2004:], "parquet").code == "malformed"


def test_numbers_and_texts_survive_many_batches() -> None:
    n = 150_000
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    t = [None if i % 7 == 0 else f"wört {i % 1000}" for i in range(n)]
    read = Read(packed({"x": x, "t": t}, row_group_size=10_000), "parquet")
    np.testing.assert_array_equal(read.data.columns["x"].values, x)
    assert read.data.columns["t"].values.tolist() == t
    assert (read.columns["x"]["min"], read.columns["x"]["max"]) == (x.min(), x.max())
    assert read.columns["t"]["distinct"] == 1000
