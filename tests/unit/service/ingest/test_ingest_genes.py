"""Very many columns, as genes are: how many there may be, and that nothing costs by their square."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read, refusal

from service.ingest.batches import MOST_BYTES, batch_bytes, batch_rows
from service.ingest.columnar import read_columnar
from service.ingest.limits import COLUMN_BYTES, FEWEST_COLUMNS, READER_BYTES, ReadingLimits
from service.settings import GIB, Settings
from solver.features import Table


def test_the_memory_of_a_reader_says_how_many_columns_there_may_be() -> None:
    def most(memory: int) -> int:
        return ReadingLimits.of(Settings(ingest_memory_bytes=memory)).max_columns

    assert most(4 * GIB) == (4 * GIB - READER_BYTES) // COLUMN_BYTES > 100_000
    assert most(8 * GIB) > 2 * most(4 * GIB)
    assert most(1) == FEWEST_COLUMNS


def test_too_many_columns_are_refused_before_a_row_is_read() -> None:
    header = ",".join(f"g{j}" for j in range(2_000))
    found = refusal(f"{header}\n".encode() + b'"never closed', "csv", max_columns=1_999)
    assert (found.code, found.line) == ("too_many_columns", 1)
    assert found.message == (
        "2000 columns; at most 1999 fit into the memory that a reader has (PREFSVM_INGEST_MEMORY_BYTES), as each takes "
        "24 KiB of it however few its rows are"
    )


def test_batches_of_very_many_columns_leave_these_room() -> None:
    wide = MOST_BYTES // (32 << 10)
    assert batch_bytes(wide) == MOST_BYTES
    assert batch_bytes(4 * wide) == MOST_BYTES // 4
    assert batch_rows(109_000) >= 1


@pytest.mark.parametrize("texts", [False, True])
def test_a_table_is_read_back_as_it_was_in_parts_of_its_columns(monkeypatch: pytest.MonkeyPatch, texts: bool) -> None:
    monkeypatch.setattr("service.ingest.columnar.COLUMNS_BYTES", 1_000)
    rng = np.random.default_rng(0)
    columns = {f"a.{j}" if j % 3 else f"a{j}": rng.normal(size=30).astype(object) for j in range(40)}
    columns["a"] = np.array([f"word {i % 7}" if texts else float(i) for i in range(30)], dtype=object)
    table = pa.table(
        {name: pa.array(values.tolist()) for name, values in columns.items()}
        | {"v": pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=90)), 3)}
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    read = Read(sink.getvalue(), "parquet").data
    assert isinstance(read, Table)
    assert list(read.columns) == [*columns, "v"]
    for name, values in columns.items():
        assert read.columns[name].values.tolist() == values.tolist()
    assert read.columns["v"].values.shape == (30, 3)


def test_reading_back_costs_as_the_columns_do(tmp_path: Path) -> None:
    """It cost by their square: 2 s of a processor for 2,500, 8 for 5,000, two minutes for 20,000."""

    def seconds(columns: int) -> float:
        path = tmp_path / str(columns)
        pq.write_table(pa.table({f"GENE{j}_at": np.full(60, j / 7) for j in range(columns)}), path)
        taken = []
        for _ in range(3):
            began = time.process_time()
            assert len(read_columnar(path, "table").columns) == columns  # type: ignore[union-attr]
            taken.append(time.process_time() - began)
        return min(taken)

    few, many = seconds(1_500), seconds(6_000)
    assert many < 8 * few
