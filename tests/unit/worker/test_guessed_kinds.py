"""What an upload says that a column is, a training makes of it, also where its own rows would say another thing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from service.ingest.columnar import read_columnar, read_guesses, read_identifiers, read_kinds, read_labels
from solver.features import Column, Table, TableFeatures
from solver.training import TrainedModel, train
from worker.fit import training_request

sys.path.append(str(Path(__file__).parents[1] / "service"))
from ingest_helpers import Read

ROWS = 160
WORDS = "late parcel broken screen great value poor service would buy never quick friendly answer again".split()  # noqa: SIM905


def sentences(distinct: int, rows: int = ROWS, words: int = 4) -> list[str]:
    """So many different texts, in turn."""
    rng = np.random.default_rng(distinct)
    made: dict[str, None] = {}
    while len(made) < distinct:
        made[" ".join(rng.choice(WORDS, words))] = None
    return [list(made)[i % distinct] for i in range(rows)]


def read(columns: dict[str, list[Any]], options: dict[str, Any] | None = None) -> Read:
    rows = len(next(iter(columns.values())))
    lines = [
        {"x": i % 7 + 0.5, "y": "yes" if i % 3 else "no"} | {name: values[i] for name, values in columns.items()}
        for i in range(rows)
    ]
    return Read("".join(json.dumps(line) + "\n" for line in lines).encode(), "jsonl", options)


def trained(made: Read, test_fraction: float = 0.25, **features: Any) -> TrainedModel:
    """The training as the worker does it."""
    body = {
        "target": "y", "positive": "yes", "unlabeled": [], "features": features, "objective": {"kind": "f1"},
        "algorithm": "svm", "params": {}, "test_fraction": test_fraction, "seed": 0,
    }  # fmt: skip
    known, guesses = read_kinds(made.path, "table"), read_guesses(made.path, "table")
    request = training_request(body, known, guesses, read_identifiers(made.path, "table"))
    return train(read_columnar(made.path, "table"), read_labels(made.path, "table", "y"), request)


def kinds(model: TrainedModel) -> dict[str, str]:
    return {column["name"]: column["kind"] for column in model.model.columns}


@pytest.mark.parametrize("distinct", [19, 21, 31, 32, 33, 34, 47, 60, 70, 79, 81])
def test_texts_are_to_a_training_what_the_upload_said(distinct: int) -> None:
    made = read({"note": sentences(distinct), "few": sentences(distinct // 4), "short": sentences(distinct, words=2)})
    said = {name: made.columns[name]["kind"] for name in ("note", "few", "short")}
    assert said == {"note": "text" if distinct > ROWS / 5 else "category", "few": "category", "short": "category"}
    found = kinds(trained(made))
    assert {name: found[name] for name in said if name in found} == {name: said[name] for name in said if name in found}
    assert found["note"] == said["note"]


def test_few_rows_of_texts_are_texts_for_both() -> None:
    made = read({"note": sentences(18, rows=24), "chinese": [f"这个产品很好{chr(0x4E00 + i)}" for i in range(24)]})
    assert {made.columns[name]["kind"] for name in ("note", "chinese")} == {"text"}
    assert kinds(trained(made, 0.0)) == {"x": "number", "note": "text", "chinese": "text"}


def columns_of(values: list[str], guessed: str) -> tuple[dict[str, str], list[str]]:
    """Kinds and warnings of rows of a training that hold these."""
    data = Table(
        {
            "x": Column("x", "number", np.arange(len(values)) + 0.5),
            "day": Column("day", "text", np.array(values, object)),
        }
    )
    fitted = TableFeatures(guessed={"day": guessed}).fit(data)
    return {column["name"]: column["kind"] for column in fitted.columns}, fitted.warnings


def test_what_only_the_rows_of_the_training_would_take_for_dates_stays_a_category() -> None:
    days = [f"2026-01-{i % 20 + 1:02}" for i in range(ROWS)]
    assert read({"day": ["soon", *days[1:]]}).columns["day"]["kind"] == "category"
    assert columns_of(days, "date") == ({"x": "number", "day": "date"}, [])
    assert columns_of(days, "category") == ({"x": "number", "day": "category"}, [])


def test_dates_that_the_rows_of_the_training_do_not_tell_are_said() -> None:
    days = [f"0{i % 9 + 1}/0{i % 8 + 1}/2026" for i in range(ROWS)]
    assert read({"day": ["13/01/2026", *days[1:]]}).columns["day"]["kind"] == "date"
    found, warnings = columns_of(days, "date")
    assert found == {"x": "number", "day": "category"}
    assert ["taken for dates by the upload" in warning for warning in warnings] == [True]


def test_the_request_says_otherwise() -> None:
    made = read({"note": sentences(70)})
    assert kinds(trained(made, kinds={"note": "category"}))["note"] == "category"
    said = read({"note": sentences(70)}, {"columns": {"note": "category"}})
    assert read_guesses(said.path, "table") == {"y": "category"}  # of `note` it is known
    assert kinds(trained(said))["note"] == "category"


def test_a_data_set_of_an_older_version_is_guessed_by_its_rows() -> None:
    made = read({"note": sentences(70)})
    pq.write_table(pq.read_table(made.path).replace_schema_metadata(None), made.path)
    assert read_guesses(made.path, "table") == {}
    assert kinds(trained(made))["note"] == "text"
