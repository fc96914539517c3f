"""A column that numbers or names the rows is no feature, in whatever format it came: noise trains to chance."""

from __future__ import annotations

import io
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from service.ingest.columnar import read_columnar, read_identifiers, read_kinds, read_labels
from service.ingest.identifiers import IdentifierSample, identifier
from solver.report import ExcludedColumn
from solver.training import train
from worker.fit import training_request

sys.path.append(str(Path(__file__).parents[1] / "service"))
from ingest_helpers import Read

ROWS = 400
RNG = np.random.default_rng(7)
NOISE = RNG.normal(size=(ROWS, 2))
POSITIVE = np.arange(ROWS) < ROWS // 2
"""The file is sorted by class."""
LABELS = [("yes" if POSITIVE[i] else "no") if i % 3 == 0 else None for i in range(ROWS)]
WHOLE = np.arange(ROWS)
HOLES = np.sort(RNG.choice(ROWS * 5 // 4, ROWS, replace=False))
SHUFFLED = RNG.permutation(ROWS) + 100_000
HOSPITAL = np.cumsum(RNG.integers(1, 50, ROWS)) + 4_000_000
"""Numbers that were given one after the other, of which some went elsewhere."""


def csv(name: str, ids: Any) -> bytes:
    rows = (f"{i},{x[0]!r},{x[1]!r},{y or ''}\n" for i, x, y in zip(ids, NOISE.tolist(), LABELS, strict=True))
    return (f"{name},x1,x2,y\n" + "".join(rows)).encode()


def table(name: str, ids: Any) -> pa.Table:
    return pa.table({"x1": NOISE[:, 0], "x2": NOISE[:, 1], "y": LABELS, name: ids})


def parquet(name: str, ids: Any, *, said: bool = True) -> bytes:
    metadata = {"pandas": json.dumps({"index_columns": [name], "columns": [], "pandas_version": "2.2.3"})}
    sink = io.BytesIO()
    pq.write_table(table(name, ids).replace_schema_metadata(metadata if said else None), sink)
    return sink.getvalue()


def feather(name: str, ids: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.feather.write_feather(table(name, ids), sink)
    return sink.getvalue()


def jsonl(name: str, ids: Any) -> bytes:
    rows = zip(np.asarray(ids).tolist(), NOISE.tolist(), LABELS, strict=True)
    return "".join(json.dumps({name: i, "x1": x[0], "x2": x[1], "y": y}) + "\n" for i, x, y in rows).encode()


def arff(name: str, ids: Any) -> bytes:
    head = f"@relation r\n@attribute {name} numeric\n@attribute x1 numeric\n@attribute x2 numeric\n"
    rows = (f"{i},{x[0]!r},{x[1]!r},{y or '?'}\n" for i, x, y in zip(ids, NOISE.tolist(), LABELS, strict=True))
    return (head + "@attribute y {yes,no}\n@data\n" + "".join(rows)).encode()


def npz(name: str, ids: Any) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **{name: ids, "x1": NOISE[:, 0], "x2": NOISE[:, 1], "y": np.array([y or "" for y in LABELS])})
    return sink.getvalue()


FILES = {
    "csv, pandas' index": ("csv", csv("", WHOLE), "column1"),
    "csv, pandas' index with holes": ("csv", csv("", HOLES), "column1"),
    "csv, that index once more": ("csv", csv("Unnamed: 0", HOLES), "Unnamed: 0"),
    "csv, of two files": ("csv", csv("", WHOLE % (ROWS // 2)), "column1"),
    "parquet, pandas' index": ("parquet", parquet("__index_level_0__", HOLES), "__index_level_0__"),
    "parquet, index by its name": ("parquet", parquet("__index_level_0__", HOLES, said=False), "__index_level_0__"),
    "parquet, index with a name": ("parquet", parquet("weight", HOLES * 0.1), "weight"),
    "feather": ("arrow", feather("index", HOLES), "index"),
    "json lines": ("jsonl", jsonl("index", HOLES), "index"),
    "arff": ("arff", arff("n", HOLES), "n"),
    "hospital numbers": ("csv", csv("hospital", HOSPITAL), "hospital"),
    "numbers in any order": ("csv", csv("Patient No", RNG.permutation(HOSPITAL)), "Patient No"),
    "dense numbers in any order": ("csv", csv("who", SHUFFLED), "who"),
    "numbers beyond 2**53": ("csv", csv("who", [2**60 + int(i) for i in HOLES]), "who"),
    "uuids": ("jsonl", jsonl("token", [str(uuid.UUID(int=int(i) << 90)) for i in HOLES]), "token"),
    "hashes": ("csv", csv("hash", [f"{int(i) * 0x9E3779B97F4A7C15 % 2**64:016x}" for i in HOLES]), "hash"),
    "names with numbers": ("csv", csv("sample", [f"TCGA-{i:05}" for i in HOLES]), "sample"),
}  # fmt: skip


def trained(read: Read, **features: Any) -> tuple[float, dict[str, Any], set[str]]:
    """The AUC on unlabelled rows, the report, and the columns of a training as the worker does it."""
    body = {
        "target": "y", "positive": "yes", "unlabeled": [], "features": features, "objective": {"kind": "f1"},
        "algorithm": "svm", "params": {}, "test_fraction": 0.0, "seed": 0,
    }  # fmt: skip
    layout = read.result["layout"]
    request = training_request(body, read_kinds(read.path, layout), {}, read_identifiers(read.path, layout))
    data = read_columnar(read.path, layout)
    made = train(data, read_labels(read.path, layout, "y"), request)
    scores = made.model.decision.decision_function(made.model.feature_matrix(data)[0])
    unlabelled = np.array([label is None for label in LABELS])
    auc = float(roc_auc_score(POSITIVE[unlabelled], scores[unlabelled]))
    return auc, made.report, {column["name"] for column in made.model.columns}


@pytest.mark.parametrize("case", FILES)
def test_noise_sorted_by_class_trains_to_chance(case: str) -> None:
    format, content, name = FILES[case]
    read = Read(content, format)
    assert any(repr(name) in warning and "leaves it out" in warning for warning in read.warnings), read.warnings
    auc, report, columns = trained(read)
    assert columns == {"x1", "x2"}
    assert 0.3 < auc < 0.7  # noise on a few rows; with the index it is 1
    assert report.excluded == [ExcludedColumn(name, read.columns[name]["identifier"])]
    assert any(repr(name) in warning for warning in report.warnings)


@pytest.mark.parametrize("features", [{"include": ["n", "x1"]}, {"kinds": {"n": "number"}}])
def test_who_asks_for_it_gets_it(features: dict[str, Any]) -> None:
    read = Read(csv("n", HOLES), "csv")
    auc, report, columns = trained(read, **features)
    assert "n" in columns
    assert report.excluded == []
    assert auc > 0.95  # sorted by class
    assert "identifier" not in Read(csv("n", HOLES), "csv", {"columns": {"n": "number"}}).columns["n"]


def test_who_leaves_it_out_is_not_told_of_it() -> None:
    _, report, columns = trained(Read(csv("n", HOLES), "csv"), exclude=["n"])
    assert columns == {"x1", "x2"}
    assert report.excluded == []


def test_a_data_set_read_by_an_older_version_is_looked_at_by_the_job() -> None:
    read = Read(csv("n", HOLES), "csv")
    pq.write_table(pq.read_table(read.path).replace_schema_metadata(None), read.path)
    assert read_identifiers(read.path, "table") == {"n": read.columns["n"]["identifier"]}


MEASURED = {
    "numbers with decimals": RNG.normal(size=ROWS).cumsum(),
    "rising numbers with decimals": np.sort(RNG.normal(size=ROWS)),
    "an even grid of times": np.arange(ROWS) * 0.25,
    "prices, all different": RNG.permutation(np.unique((RNG.lognormal(10, 2, ROWS * 2) * 100).astype(int)))[:ROWS],
    "seconds since 1970": np.sort(RNG.choice(10**8, ROWS, replace=False)) + 1_600_000_000,
    "milliseconds since 1970": (np.sort(RNG.choice(10**8, ROWS, replace=False)) + 1_600_000_000) * 1000,
    "days": np.array([20_200_101 + 100 * (i % 12) + i // 12 + 10_000 * (i // 300) for i in range(300)]),
    "years": np.arange(1700, 2026),
    "counts": RNG.poisson(1000, ROWS),
    "categories": RNG.integers(0, 5, ROWS),
    "ages in order": np.sort(RNG.integers(18, 90, ROWS)),
}


@pytest.mark.parametrize("what", MEASURED)
def test_a_measurement_stays_in(what: str) -> None:
    values = MEASURED[what]
    assert identifier("x", pa.array(values.astype(float))) is None
    assert identifier("x", pa.array(values[:19].astype(float))) is None


@pytest.mark.parametrize("name", ["paid", "valid", "acid", "bid", "monkey", "casino", "piano"])
def test_a_name_that_only_ends_like_one_of_an_id(name: str) -> None:
    assert identifier(name, pa.array(MEASURED["prices, all different"].astype(float))) is None
    for called in ("id", "customerId", "patient_id", "ID", "Order No", "row-number", "HospitalNumber", "userID"):
        assert identifier(called, pa.array(MEASURED["prices, all different"].astype(float))) is not None


@pytest.mark.parametrize("rows", [1, 7, 100, 399])
def test_what_passes_by_in_batches_is_judged_as_the_whole(rows: int) -> None:
    columns = {name: pa.array(np.asarray(values, dtype=float)) for name, values in MEASURED.items()}
    columns |= {"n": pa.array(HOLES.astype(float)), "who": pa.array(SHUFFLED.astype(float))}
    columns |= {"a": pa.array([f"A{i}" for i in HOLES]), "b": pa.array([f"A{i % 50}" for i in HOLES])}
    for name, values in columns.items():
        sample = IdentifierSample(name, None)
        for start in range(0, len(values), rows):
            sample.add(values[start : start + rows], min(len(values[: start + rows].unique()), 1001))
        assert sample.reason() == identifier(name, values), name
