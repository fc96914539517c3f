"""Wide files: what reading one costs grows as its cells do, whatever the format, not as the square of its columns.

Counted are calls of functions, which do not depend on the machine and its load. Each format has twice: four times the
columns, which must be about four times the calls, and four times the rows, which must be no more than that.
"""

from __future__ import annotations

import cProfile
import io
import json
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from service.ingest.columnar import read_blocks, read_columnar, read_labels
from tests.unit.service.ingest_helpers import Read

ROWS = 600


def parquet_of_nulls(rows: int, columns: int) -> bytes:
    return as_parquet(pa.table([pa.nulls(rows, pa.float64())] * columns, names=names(columns)))


def parquet(rows: int, columns: int) -> bytes:
    return as_parquet(numbers(rows, columns))


def as_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def csv(rows: int, columns: int) -> bytes:
    out = io.BytesIO()
    pa.csv.write_csv(numbers(rows, columns), out)
    return out.getvalue()


def arrow_of_small_batches(rows: int, columns: int) -> bytes:
    out = io.BytesIO()
    table = numbers(rows, columns)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=250)
    return out.getvalue()


def jsonl(rows: int, columns: int) -> bytes:
    row = json.dumps(dict.fromkeys(names(columns), 1.5)).encode() + b"\n"
    return row * rows


def arff(rows: int, columns: int) -> bytes:
    head = "@relation wide\n" + "".join(f"@attribute {name} numeric\n" for name in names(columns)) + "@data\n"
    return (head + ",".join(["1.5"] * columns) + "\n").encode() + (",".join(["2"] * columns) + "\n").encode() * (
        rows - 1
    )


def npz(rows: int, columns: int) -> bytes:
    out = io.BytesIO()
    np.savez(out, X=np.arange(rows * columns).reshape(rows, columns), y=np.arange(rows) % 2)
    return out.getvalue()


def names(columns: int) -> list[str]:
    return [f"g{position}" for position in range(columns)]


def numbers(rows: int, columns: int) -> pa.Table:
    values = np.arange(rows) % 97 / 10
    return pa.table([pa.array(values + position) for position in range(columns)], names=names(columns))


def calls(work: Callable[[], Any]) -> int:
    profile = cProfile.Profile()
    profile.runcall(work)
    return int(pstats.Stats(profile).total_calls)


MAKERS = [
    (parquet_of_nulls, "parquet"),
    (parquet, "parquet"),
    (csv, "csv"),
    (arrow_of_small_batches, "arrow"),
    (npz, "npz"),
]


@pytest.mark.parametrize(("make", "format"), MAKERS)
def test_four_times_the_columns_cost_four_times_the_calls(make: Callable[[int, int], bytes], format: str) -> None:
    narrow, wide = make(ROWS, 500), make(ROWS, 2000)
    once = calls(lambda: Read(narrow, format))
    more = calls(lambda: Read(wide, format))
    print(f"{make.__name__}: {once} {more} calls, {more / once:.2f} times")
    assert more < 4.8 * once


@pytest.mark.parametrize(
    ("make", "format", "columns"),
    [*((*each, 300) for each in MAKERS), (jsonl, "jsonl", 60), (arff, "arff", 60)],  # which take calls for each cell
)
def test_four_times_the_rows_cost_no_more_calls_than_that(
    make: Callable[[int, int], bytes], format: str, columns: int
) -> None:
    short, long = make(300, columns), make(1200, columns)
    assert calls(lambda: Read(long, format)) < 4.4 * calls(lambda: Read(short, format))


@pytest.mark.parametrize(
    ("make", "format", "rows", "columns"),
    [(csv, "csv", 1500, 1500), (jsonl, "jsonl", 600, 800), (arff, "arff", 600, 800)],
)
def test_rows_that_come_in_small_batches_are_stored_together(
    make: Callable[[int, int], bytes], format: str, rows: int, columns: int
) -> None:
    """Each group of rows costs something a column, when it is written and each time that it is read."""
    read = Read(make(rows, columns), format)
    assert pq.read_metadata(read.path).num_row_groups == 1


def test_what_was_written_of_a_wide_file_is_what_was_sent() -> None:
    sent = numbers(4200, 600)
    for format, data in (("parquet", as_parquet(sent)), ("arrow", arrow_of_small_batches(4200, 600))):
        read = Read(data, format)
        assert pq.read_table(read.path).equals(sent), "in the order of the rows, across batches"
        assert (read.rows, read.columns["g7"]["max"], read.columns["g7"]["distinct"]) == (4200, 16.6, 97)


def test_reading_back_costs_rows_times_columns_too() -> None:
    narrow, wide = (Read(parquet(300, columns), "parquet") for columns in (500, 2000))

    def look(read: Read) -> None:
        read_columnar(read.path, "table")
        read_labels(read.path, "table", "g3")
        for _ in read_blocks(read.path, "table", read.columns, 100):
            pass

    assert calls(lambda: look(wide)) < 4.8 * calls(lambda: look(narrow))
