"""Rows that are named by their keys: whose they are, and what finding them costs."""

from __future__ import annotations

import cProfile
import pstats
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read

from service.ingest.columnar import TooManyBytesError, find_rows, rows_at
from solver.features import matrix_rows

ROWS = 200_000


def with_keys(rows: int, prefix: str = "") -> Read:
    lines = "".join(f"{prefix}{row},{row % 89}\n" for row in range(rows))
    return Read(f"id,age\n{lines}".encode(), "csv", {"columns": {"id": "category" if prefix else "number"}})


def test_a_key_is_what_stands_in_the_file() -> None:
    """01 and 1 are two rows of a column of texts; in one of numbers there is no 01, whatever it was written like."""
    texts = Read(b"id,age\n01,30\n1,40\n7,50\n1.0,60\n-2,70\n", "csv", {"columns": {"id": "category"}})
    for key, age in (("01", 30), ("1", 40), ("1.0", 60), ("-2", 70)):
        found, table = find_rows(texts.path, "id", {key}, {"age"}, 1000)
        assert (found, table.columns["age"].values.tolist()) == ({key: [0]}, [age])
    numbers = Read(b"id,age\n1,40\n7,50\n-2,70\n", "csv")
    assert numbers.kinds["id"] == "number"
    for key in ("01", "1.0", "+1", "1_0", " 1", "\u0661", "9" * 5000):
        assert find_rows(numbers.path, "id", {key}, {"age"}, 1000)[0] == {}, key
    found, table = find_rows(numbers.path, "id", {"-2", "1"}, {"age"}, 1000)
    assert [table.columns["age"].values[found[key][0]] for key in ("1", "-2")] == [40, 70]
    twice = Read(b"id,age\na,1\nb,2\na,3\na,4\n", "csv")
    assert find_rows(twice.path, "id", {"a", "b"}, {"age"}, 1000)[0] == {"a": [0, 2], "b": [1]}


def most_bytes(work: Callable[[], Any]) -> int:
    """Return the most memory of Python that something holds at once: of values as objects, some 30 bytes each."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_finding_a_row_costs_no_work_in_python_for_the_others() -> None:
    """It happens in the API, where work in Python keeps all other requests waiting."""
    for prefix in ("", "k"):
        read = with_keys(ROWS, prefix)
        key = f"{prefix}{ROWS - 5}"
        profile = cProfile.Profile()
        found, table = profile.runcall(find_rows, read.path, "id", {key}, {"age"}, 1000)
        assert (found, table.columns["age"].values.tolist()) == ({key: [0]}, [(ROWS - 5) % 89])
        assert pstats.Stats(profile).total_calls < ROWS / 20  # type: ignore[attr-defined]

        def to_python(path: Any = read.path) -> list[Any]:
            values: list[Any] = pq.read_table(path, columns=["id"]).column("id").to_pylist()
            return values

        def find(path: Any = read.path, key: str = key) -> None:
            find_rows(path, "id", {key}, {"age"}, 1000)

        assert 3 * most_bytes(find) < most_bytes(to_python)


def test_a_row_of_a_wide_table_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = 3000, 2000
    table = pa.table({"id": [f"k{row}" for row in range(rows)]} | {f"g{j}": [j + 0.5] * rows for j in range(columns)})
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    read = Read(out.getvalue().to_pybytes(), "parquet")
    wanted = frozenset(read.columns) - {"id"}
    read_at_once: list[int] = []
    read_row_group = pq.ParquetFile.read_row_group

    def counted(*args: Any, **options: Any) -> pa.Table:
        table = read_row_group(*args, **options)
        read_at_once.append(table.nbytes)
        return table

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    found, one = find_rows(read.path, "id", {"k2999"}, wanted, 1 << 20)
    assert (found, one.columns["g7"].values.tolist()) == ({"k2999": [0]}, [7.5])
    assert sum(read_at_once) > rows * columns * 8
    assert max(read_at_once) < rows * columns * 4
    with pytest.raises(TooManyBytesError):
        find_rows(read.path, "id", {f"k{row}" for row in range(100)}, wanted, 1 << 20)


def test_rows_by_their_numbers_come_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    """Also where they stand in several groups, and of a matrix."""
    path = tmp_path / "rows"
    table = pa.table({"age": np.arange(90.0), "job": [f"j{row}" for row in range(90)]})
    pq.write_table(table, path, row_group_size=40)
    some = rows_at(path, "table", [85, 3, 41, 4], {"age", "job"}, 1000)
    assert some.columns["age"].values.tolist() == [85, 3, 41, 4]
    assert some.columns["job"].values.tolist() == ["j85", "j3", "j41", "j4"]
    matrix = Read(b"1 1:0.5 3:2\n-1 2:1\n1\n", "svmlight")
    assert matrix_rows(rows_at(matrix.path, "matrix", [1, 2, 0], (), 1000)) == [{"2": 1}, {}, {"1": 0.5, "3": 2}]
    for each, layout, numbers in ((path, "table", [1, 2]), (matrix.path, "matrix", [0, 1])):
        with pytest.raises(TooManyBytesError):
            rows_at(each, layout, numbers, {"age", "job"}, 10)
