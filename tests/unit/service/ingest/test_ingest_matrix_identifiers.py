"""Columns of sparse rows that number or name the rows are found as those of tables are."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import numpy as np
import pytest
from ingest_helpers import Read
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy import sparse

from service.ingest import matrix, matrix_identifiers
from service.ingest.columnar import read_identifiers
from service.ingest.matrix_identifiers import MatrixIdentifiers

ROWS = 300
RNG = np.random.default_rng(7)


def svmlight(X: NDArray[np.float64], first: int = 1) -> bytes:
    lines = (
        " ".join([str(i % 2), *(f"{j + first}:{row[j]:.17g}" for j in np.flatnonzero(row))]) for i, row in enumerate(X)
    )
    return ("\n".join(lines) + "\n").encode()


def npz(X: Any) -> bytes:
    sink = io.BytesIO()
    y = np.arange(X.shape[0]) % 2
    if sparse.issparse(X):
        np.savez(sink, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    else:
        np.savez(sink, X=X, y=y)
    return sink.getvalue()


def measured(rows: int = ROWS) -> NDArray[np.float64]:
    """Columns of which none numbers the rows: decimals, few values, zeros, years, whole measurements."""
    return np.column_stack(
        [
            RNG.normal(size=rows),
            RNG.integers(0, 2, rows),
            np.where(RNG.random(rows) < 0.5, RNG.integers(1, 9, rows), 0),
            RNG.integers(1900, 2020, rows),
            RNG.integers(0, 500, rows),
        ]
    )


def with_column(values: NDArray[Any]) -> NDArray[np.float64]:
    """The measured columns with another one in their middle: 2 counted from 0, 3 counted from 1."""
    return np.insert(measured(len(values)), 2, values, axis=1)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.arange(ROWS), "counts the rows"),
        (np.arange(1, ROWS + 1), "counts the rows"),
        (1000 + 3 * np.arange(ROWS), "holds whole numbers that rise from row to row, as a counter or key does"),
        (RNG.permutation(ROWS) + 70_000, "holds whole numbers that all differ"),
    ],
)
def test_a_column_that_numbers_the_rows_is_found_in_every_format(values: NDArray[Any], reason: str) -> None:
    X = with_column(values)
    for data, format, name in (
        (svmlight(X), "svmlight", "3"),
        (svmlight(X, first=0), "svmlight", "2"),
        (npz(sparse.csr_array(X)), "npz", "2"),
        (npz(sparse.csr_array(X.astype(np.float32))), "npz", "2"),
    ):
        read = Read(data, format)
        found = read.columns["features"]["identifiers"]
        assert list(found) == [name]
        assert found[name].startswith(reason)
        assert read_identifiers(read.path, "matrix") == found
        assert read.warnings == [
            f"column {name!r} {found[name]}: a training leaves it out, unless `include` or `kinds` of "
            "`features` names it"
        ]
    read = Read(npz(X), "npz")
    assert {name for name, column in read.columns.items() if column.get("identifier")} == {"f2"}


def test_blocks_of_any_size_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first blocks are too short to tell, and where a column comes or ends later."""
    X = with_column(np.arange(ROWS))
    X = np.column_stack([X, np.where(np.arange(ROWS) < 200, np.arange(ROWS), 0), np.arange(ROWS) % 150 + 1])
    csr = sparse.csr_array(X)
    for size in (1, 7, 19, 20, 50, 299, 1000):
        looked = MatrixIdentifiers()
        blocks = []
        for start in range(0, ROWS, size):
            part = csr[start : start + size]
            blocks.append((np.diff(part.indptr).astype(np.int64), part.indices, part.data))
            looked.add(*blocks[-1])
        monkeypatch.setattr(matrix_identifiers, "MOST_VALUES", 1 + size)
        assert looked.reasons(blocks) == {2: "counts the rows"}
    monkeypatch.setattr(matrix, "_COPY_ROWS", 7)
    assert Read(svmlight(X), "svmlight").columns["features"]["identifiers"] == {"3": "counts the rows"}


def test_measurements_are_none() -> None:
    X = measured()
    for values in (X[:, 0], np.zeros(ROWS), np.r_[0, 0, np.arange(ROWS - 2)]):
        read = Read(svmlight(with_column(values)), "svmlight")
        assert "identifiers" not in read.columns["features"]
        assert read.warnings == []
    few = Read(svmlight(with_column(np.arange(19))), "svmlight")
    assert "identifiers" not in few.columns["features"]


def test_what_was_stored_before_they_were_looked_for_is_looked_at_when_it_is_read(tmp_path: Any) -> None:
    read = Read(svmlight(with_column(np.arange(ROWS))), "svmlight")
    with safe_open(read.path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        metadata = file.metadata()
    assert json.loads(metadata.pop("identifiers"))
    save_file(tensors, tmp_path / "old", metadata)
    assert read_identifiers(tmp_path / "old", "matrix") == {"3": "counts the rows"}


def test_looking_costs_the_entries_and_not_rows_times_columns() -> None:
    rows, width = 20_000, 200_000
    X = sparse.csr_array(
        (np.ones(rows * 5), RNG.integers(0, width, rows * 5), np.arange(0, 5 * rows + 1, 5)), shape=(rows, width)
    )
    X.sum_duplicates()
    counts = np.diff(X.indptr).astype(np.int64)
    begun = time.process_time()
    looked = MatrixIdentifiers()
    for start in range(0, rows, 100):
        part = slice(X.indptr[start], X.indptr[start + 100])
        looked.add(counts[start : start + 100], X.indices[part], X.data[part])
    assert looked.candidates() == []
    assert time.process_time() - begun < 4  # .05 here; 4e9 entries take longer
