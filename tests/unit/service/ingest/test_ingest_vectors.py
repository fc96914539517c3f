"""Columns of lists: vectors where they are as many numbers in each row, and else what they were before."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read, refusal

FORMATS = ("parquet", "arrow", "jsonl")
OF_WHOLE_NUMBERS = "it holds lists of whole numbers, but not as many in each row"


def written(format: str, vectors: Any, type_: pa.DataType | None = None, together: int = 2) -> bytes:
    """A file of two columns, `row` and `vec`; in Parquet with so many rows in a group."""
    sink = io.BytesIO()
    if format == "jsonl":
        return b"".join(
            json.dumps({"row": f"r{i}", "vec": vector}).encode() + b"\n" for i, vector in enumerate(vectors)
        )
    table = pa.table({"row": [f"r{i}" for i in range(len(vectors))], "vec": pa.array(vectors, type_)})
    if format == "parquet":
        pq.write_table(table, sink, row_group_size=together)
    else:
        feather.write_feather(table, sink, compression="uncompressed")
    return sink.getvalue()


@pytest.mark.parametrize("format", FORMATS)
def test_lists_of_numbers_are_vectors(format: str) -> None:
    read = Read(written(format, [[3.0, 4.5], [0, 0], [1.5, 1e30], [3.0, 4.5]]), format)
    assert read.kinds == {"row": "category", "vec": "vector"}
    assert read.warnings == []
    column = read.columns["vec"]
    assert (column["length"], column["zero_rows"], column["missing"], column["constant"]) == (2, 1, 0, False)
    assert (column["norm_min"], column["norm_max"]) == (0, pytest.approx(1e30))
    held = read.data.columns["vec"]
    assert held.kind == "vector"
    assert held.values.dtype == np.float32
    assert np.array_equal(held.values, np.float32([[3, 4.5], [0, 0], [1.5, 1e30], [3, 4.5]]))


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.float32()),
        pa.large_list(pa.float64()),
        pa.list_(pa.float16(), 2),
        pa.list_(pa.float64(), 2),
        pa.list_(pa.int8()),
        pa.list_(pa.uint64(), 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_every_type_of_list_of_numbers_is_read(format: str, type_: pa.DataType) -> None:
    values = np.array([[1, 2], [3, 4], [5, 6]], dtype=type_.value_type.to_pandas_dtype())
    read = Read(written(format, list(values), type_), format)
    assert read.data.columns["vec"].values.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("vectors", "row"),
    [
        ([[1.5, 2], [3.0]], 2),
        ([[1.5], [3.0], [1.5, 2]], 3),
        ([[1.5, 2], None], 2),
        ([None, None, [1.5, 2]], 1),
        ([[1.5, 2], [3.0, 4], [None, 1]], 3),
        ([[], [1.5]], 1),
        ([[1.5, 2], [1e39, 1]], 2),
    ],
    ids=str,
)
def test_a_vector_that_is_none_is_refused_by_its_row(format: str, vectors: Any, row: int) -> None:
    error = refusal(written(format, vectors), format)
    assert (error.code, error.column, error.line) == ("bad_value", "vec", row)
    assert "finite numbers in each row" in error.message


def test_numbers_that_are_none_or_infinite_are_refused_by_their_row_across_batches() -> None:
    vectors = np.ones((9000, 3))
    vectors[8501, 2] = np.nan
    for format in ("parquet", "arrow"):
        array = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 3)
        assert refusal(written(format, array, together=1000), format).line == 8502
    vectors[[5, 8501], 2] = np.inf, 1
    assert refusal(written("parquet", list(vectors), together=1000), "parquet").line == 6


@pytest.mark.parametrize("value", [5, "x", True], ids=repr)
def test_what_stands_in_the_place_of_a_vector_in_json_is_refused_by_its_line(value: Any) -> None:
    lines = written("jsonl", [[1.5, 2], value, [2.5, 1]])
    error = refusal(lines, "jsonl")
    assert (error.code, error.line) == ("bad_value", 2)
    assert "something else than a vector" in error.message
    absent = b'{"row": "a", "vec": [1.5]}\n\n{"row": "b"}\n'
    assert refusal(absent, "jsonl").line == 3, "empty lines are counted"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([[1, 2], [3]], OF_WHOLE_NUMBERS),
        ([[1, 2], None], OF_WHOLE_NUMBERS),
        ([["a"], ["b"]], "it holds lists or objects"),
        ([[[1.5]], [[2.5]]], "it holds lists or objects"),
        ([[], []], "it holds lists or objects"),
        ([[True], [False]], "it holds lists or objects"),
        ([{"a": 1}, {"a": 2}], "it holds lists or objects"),
    ],
    ids=str,
)
def test_other_lists_are_left_out_and_the_rest_is_read(format: str, values: Any, reason: str) -> None:
    read = Read(written(format, values), format)
    assert read.kinds == {"row": "category"}
    assert read.result["left_out"]["vec"].startswith(reason)


def test_lists_of_numbers_and_others_in_json_are_left_out() -> None:
    for values in ([[1.5, "x"], [1.5, 2]], [[1.5], {"a": 1}], [[1.5, [1]], [1, 2]]):
        assert Read(written("jsonl", values), "jsonl").kinds == {"row": "category"}


def test_no_option_says_what_a_vector_is() -> None:
    for format in FORMATS:
        for kind in ("text", "number", "category"):
            error = refusal(written(format, [[1.5, 2], [2.5, 3]]), format, {"columns": {"vec": kind}})
            assert error.code == "unsupported"
            assert "it holds vectors" in error.message
        assert Read(written(format, [[1.5, 2], [2.5, 3]]), format, {"missing": ["-999"]}).kinds["vec"] == "vector"


def test_many_and_long_vectors_and_too_many_cells() -> None:
    many = pa.table(
        {f"v{j}": pa.array([[1.5, j], [2, 3]]) for j in range(300)} | {"a.b": [[1.5], [2.5]], "a": [1.0, 2]}
    )
    sink = io.BytesIO()
    pq.write_table(many, sink)
    read = Read(sink.getvalue(), "parquet")
    assert read.kinds["v299"] == read.kinds["a.b"] == "vector"
    assert read.kinds["a"] == "number"
    long = written("parquet", [np.arange(100_000) * 0.5, np.ones(100_000)])
    assert Read(long, "parquet").columns["vec"]["length"] == 100_000
    assert refusal(long, "parquet", max_cells=150_000).code == "too_many_cells"
    assert refusal(written("arrow", [[1.5] * 100, [2.5] * 100]), "arrow", max_cells=150).code == "too_many_cells"
    assert refusal(written("jsonl", [[1.5] * 100, [2.5] * 100]), "jsonl", max_cells=150).code == "too_many_cells"
    assert refusal(written("parquet", [np.ones((1 << 20) + 1)]), "parquet").code == "too_long"


def test_equal_rows_are_counted_by_their_vectors_too() -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 5000)).astype(np.float32)
    vectors[7], vectors[8] = vectors[3], vectors[4]
    vectors[8, 4999] += 1
    table = pa.table({"vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 5000)})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    assert Read(sink.getvalue(), "parquet").result["duplicate_rows"] == 1
