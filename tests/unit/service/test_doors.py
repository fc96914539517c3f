"""The same value is the same at each door: what the upload read, rows as JSON, another file, tensors, feedback."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ingest_helpers import LIMITS, Read, book

from service.ingest.columnar import read_blocks
from service.predictions.tensors import InputTensor, rows_of
from solver.corrections import Corrections, Rules, apply_corrections
from solver.decision import DecisionState
from solver.features import BadValue, FeatureError, Table, TableFeatures, meant_rows
from solver.model_file import Model
from solver.onnx_export import OnnxExportError, onnx_model
from solver.reading import AS_IS
from solver.training import TrainingRequest, train
from worker.predict import rows_for
from worker.protocol import JobSpec

MISSING = ("NA", "n/a")
NAMES = ("x", "Größe", "Größe in m")
POOLS = {
    "number": ["0.02", "1", "1.0", "-3.5", "1e3", "40", "7.25", " 8"],
    "decimal comma": ["0,02", "1", "1,0", "-3,5", "40", "7,25"],
    "percent": ["12 %", "7.5 %", "100 %"],
    "thousands": ["1,234", "567", "8,901"],
    "thousands with points": ["1.234,05", "567", "8.901,00"],
    "currency": ["$1,234.50", "$12.00", "$0.50"],
    "minus nine is missing": ["1.5", "-9", "4", "2"],
    "word": ["red", "green", "caf\u00e9", "cafe\u0301", "Red", " red"],
    "boolean": ["true", "false"],
    "BOOLEAN": ["TRUE", "FALSE"],
    "yes or no": ["yes", "no"],
    "boolean or maybe": ["TRUE", "true", "maybe"],
    "word or missing": ["red", "-", "NA"],
    "code with decimals": ["1.10", "1E5", "2.50"],
    "code": ["1", "2", "3"],
    "code with zeros": ["01", "02", "10"],
    "code as number": ["1.0", "2.0", "3.0"],
    "code in two forms": ["1", "1.0", "2"],
    "ISO date": ["2024-06-30", "2024-07-01", "2025-01-13"],
    "date with points": ["30.06.2024", "01.07.2024", "13.01.2025"],
}
NUMBERS = (
    *("number", "decimal comma", "percent", "thousands", "thousands with points", "currency"),
    "minus nine is missing",
)
CODES = [kind for kind in POOLS if kind.startswith("code")]
KINDS = dict.fromkeys([*CODES, "word or missing", "boolean or maybe"], "category")
OTHERS = [
    ["1.234", "5.678", "8.900"],
    ["1", "12", "3"],
    ["1%", "12 %", "7.5 %"],
    ["1,5", "2,75", "40,0"],
    ["$1", "$12", "$1,000"],
    ["1.0", "1.10", "2.5"],
    ["01", "02", "10"],
    ["1E5", "1e3", "100000"],
    ["1", "-9", "NA"],
    ["TRUE", "true", "FALSE"],
    ["yes", "no", "YES"],
    ["-", "NA", "red"],
    ["1.234", "5", "red"],
]
"""What a file to predict may hold."""


def features_of(X: Any) -> list[list[float]]:
    return (X if isinstance(X, np.ndarray) else X.toarray()).tolist()


def attempt(call: Callable[[], Any]) -> tuple[Any, FeatureError | None]:
    """What a call returns, or how it refuses."""
    try:
        return call(), None
    except FeatureError as refused:
        return None, refused


def model_of(features: TableFeatures) -> Model:
    coefficients = np.random.default_rng(0).normal(size=features.n_features)
    state = DecisionState(
        kind="linear",
        gamma=1.0,
        degree=1,
        coef0=0.0,
        support_vectors=coefficients[None, :],
        dual_coef=np.ones(1),
        intercept=0.0,
        threshold=0.0,
        probability=None,
    )
    return Model("svm", {}, {"kind": "f1"}, ("a", "b"), state, features)


def batch(model: Model, made: Read) -> list[list[float]]:
    """Features of the rows of a file as the child of a worker reads them."""
    folder = made.path.parent
    scratch = Path(tempfile.mkdtemp(dir=folder))
    upload = {
        "key": "in",
        "sha256": hashlib.sha256((folder / "in").read_bytes()).hexdigest(),
        "format": made.format,
        "options": made.options,
        "limits": asdict(LIMITS),
    }
    job = JobSpec("job_1", 1, {}, "table", "out", str(folder), str(scratch), upload=upload)
    path = rows_for(job, made.path, "table", model, "rows")
    blocks = read_blocks(path, "table", [column["name"] for column in model.columns], 1000)
    return [row for block in blocks for row in features_of(model.feature_matrix(block)[0])]


def csv_bytes(name: str, values: Sequence[Any]) -> bytes:
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow([name, "z"])
    writer.writerows([value, number % 7] for number, value in enumerate(values))
    return made.getvalue().encode()


def jsonl_bytes(name: str, values: Sequence[Any]) -> bytes:
    return "".join(json.dumps({name: value, "z": i % 7}) + "\n" for i, value in enumerate(values)).encode()


def parquet_bytes(name: str, values: Sequence[Any]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table({name: values, "z": [i % 7 for i in range(len(values))]}), made)
    return made.getvalue()


def xlsx_bytes(name: str, values: Sequence[Any]) -> bytes:
    return book([[name, "z"], *([value, i % 7] for i, value in enumerate(values))])


FORMATS = {"csv": csv_bytes, "jsonl": jsonl_bytes, "parquet": parquet_bytes, "xlsx": xlsx_bytes}


def options_of(kind: str, name: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if kind == "decimal comma":
        options["decimal"] = ","
    if kind == "thousands":
        options["thousands"] = ","
    if kind == "minus nine is missing":
        options["missing"] = ["-9"]
    if kind == "thousands with points":
        options |= {"decimal": ",", "thousands": "."}
    if kind in KINDS:
        options["columns"] = {name: KINDS[kind]}
    return options


def number_of(kind: str, text: str) -> float:
    if kind in ("thousands", "currency"):
        return float(text.replace(",", "").removeprefix("$"))
    if kind == "thousands with points":
        text = text.replace(".", "")
    return float(text.replace(",", ".").removesuffix("%"))


def json_forms(kind: str, text: str, options: dict[str, Any]) -> list[Any]:
    """What clients send for a cell of a file."""
    forms: list[Any] = [text, unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)]
    if not text or text in options.get("missing", ()):
        forms += [None, "", *options.get("missing", ())]
        forms += [-9, -9.0] if text == "-9" else []
    elif kind in NUMBERS or kind.startswith("code"):
        number = number_of(kind, text)
        forms += [number, *([int(number)] if number.is_integer() else [])]
    elif kind.lower() == "boolean":
        forms += [text.lower(), text.upper(), text.title()]
        forms += [True, 1, 1.0, "1"] if text.lower() == "true" else [False, 0, 0.0, "0"]
    elif kind == "yes or no":
        forms += [True, "YES", 1] if text == "yes" else [False, "No", 0]
    return forms


@st.composite
def uploads(
    draw: st.DrawFn, format: str = "csv", kinds: Sequence[str] = tuple(sorted(POOLS))
) -> tuple[str, str, list[str], dict[str, Any]]:
    kind = draw(st.sampled_from(kinds))
    name = draw(st.sampled_from(NAMES))
    options = options_of(kind, name)
    if draw(st.booleans()):
        options["missing"] = [*MISSING, *options.get("missing", ())]
    if format == "csv" and draw(st.booleans()):
        options["trim"] = True
    pool = POOLS[kind] + ([""] if draw(st.booleans()) else []) + list(options.get("missing", ()))
    values = POOLS[kind] * 3 + draw(st.lists(st.sampled_from(pool), min_size=4, max_size=12))
    return kind, name, values, options


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_value_is_the_same_at_each_door_or_refused(format: str, data: st.DataObject) -> None:
    kind, name, values, options = data.draw(uploads(format))
    header = data.draw(st.sampled_from([name, f" {name} ", unicodedata.normalize("NFD", name)]))
    read = Read(FORMATS[format](header, values), format, options)
    table = read.data
    assert isinstance(table, Table)
    fitted = TableFeatures().fit(table)
    features = TableFeatures.from_state(*fitted.state())
    assume(name in [column["name"] for column in features.columns])
    expected = features_of(features.transform(table)[0])
    row = data.draw(st.integers(0, len(values) - 1))
    z = row % 7
    label_of_rows = np.array(["a" if i % 2 else "b" for i in range(len(values))], dtype=object)
    for sent in json_forms(kind, values[row], options):
        for key in (name, f" {name} ", unicodedata.normalize("NFD", name)):
            rows = [{key: sent, "z": z}]
            made, refused = attempt(lambda rows=rows: features_of(features.transform_rows(rows)[0]))
            if refused is not None:
                assert isinstance(refused, BadValue)
                # 1 and 1.0 in quotes are two texts; a number does not tell which
                unclear = kind == "code in two forms" or (kind == "number" and format != "csv")
                assert (refused.column, unclear, isinstance(sent, str)) == (name, True, False)
                continue
            assert made == [expected[row]], (kind, sent)
            # the same by the Open Inference Protocol
            datatype = "BYTES" if isinstance(sent, str) else "BOOL" if isinstance(sent, bool) else "FP64"
            tensors = [
                InputTensor(name=key, shape=[1], datatype=datatype, data=[sent]),
                InputTensor(name="z", shape=[1], datatype="FP64", data=[z]),
            ]
            assert (
                features_of(features.transform_rows(rows_of(SimpleNamespace(columns=features.columns), tensors))[0])
                == made
            )  # type: ignore[arg-type]
            # feedback finds the row of the upload
            rules = Rules(target=None, include=None, exclude=(), positive="a", unlabeled=(), missing="indicate")
            meant, kinds_of = meant_rows(rows, features.columns, features.readings)
            corrected = apply_corrections(table, label_of_rows, Corrections(meant, ["a"], [kinds_of]), rules)
            assert corrected.report.added == 0, (kind, sent, corrected.report)
            assert corrected.labels[row] == "a"


@given(upload=uploads(), data=st.data())
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_batch_says_what_predict_says_of_each_row(
    upload: tuple[str, str, list[str], dict[str, Any]], data: st.DataObject
) -> None:
    kind, name, values, options = upload
    features = TableFeatures().fit(Read(csv_bytes(name, values), "csv", options).data)
    assume(name in [column["name"] for column in features.columns])
    format = data.draw(st.sampled_from(sorted(FORMATS)))
    pool: list[Any] = data.draw(st.sampled_from([POOLS[kind], values, *OTHERS]))
    if format != "csv" and data.draw(st.booleans()):  # as numbers, where they are such
        pool = [float(text) if AS_IS["number"].is_number(text) else text for text in pool]
        if format == "parquet" and len(set(map(type, pool))) > 1:
            pool = list(map(str, pool))
    sent = pool + data.draw(st.lists(st.sampled_from(pool), max_size=5))
    same = format == "csv" and data.draw(st.booleans())
    made = Read(FORMATS[format](name, sent), format, options if same else {})
    found, refused = attempt(lambda: batch(model_of(features), made))
    said = [
        attempt(lambda i=i, value=value: features_of(features.transform_rows([{name: value, "z": i % 7}])[0])[0])[0]
        for i, value in enumerate(sent)
    ]
    if refused is None:
        for one, other, value in zip(found, said, sent, strict=True):
            assert other is None or one == other, (kind, format, value, made.table)
    else:
        assert repr(name) in str(refused)
        # where all is text, or all is number, what predict takes a batch takes
        mixed = len(set(map(type, sent))) > 1 or format == "xlsx"
        assert mixed or None in said, (kind, format, sent, str(refused))


@pytest.mark.parametrize("format", ["xlsx", "jsonl"])
@pytest.mark.parametrize(
    ("kind", "sent", "meant"),
    [
        ("thousands with points", [1234.5, "1.234", 1.234, "567"], [1234.5, 1234, 1.234, 567]),
        ("decimal comma", [1.5, "1,5", 40, "7,25"], [1.5, 1.5, 40, 7.25]),
        ("thousands", [1.234, "1,234", "5"], [1.234, 1234, 5]),
        ("number", [1.234, "1.5", 2], [1.234, 1.5, 2]),
    ],
)
def test_numbers_beside_numbers_stored_as_text_are_what_they_are(
    format: str, kind: str, sent: list[Any], meant: list[float]
) -> None:
    """In a batch as in the upload: a number is that number, and a text is written as those of the training."""
    values = POOLS[kind] * 4
    features = TableFeatures().fit(Read(csv_bytes("x", values), "csv", options_of(kind, "x")).data)
    made = Read(FORMATS[format]("x", sent), format)
    expected = [features_of(features.transform_rows([{"x": x, "z": i % 7}])[0])[0] for i, x in enumerate(meant)]
    assert batch(model_of(features), made) == expected
    said = [features_of(features.transform_rows([{"x": x, "z": i % 7}])[0])[0] for i, x in enumerate(sent)]
    assert said == expected


def test_a_word_that_the_upload_called_missing_is_missing() -> None:
    values = ["1.5", "NA", "2.5", "4"] * 5
    features = TableFeatures().fit(Read(csv_bytes("x", values), "csv", {"missing": ["NA"]}).data)
    X = [features_of(features.transform_rows([{"x": sent, "z": 1}])[0]) for sent in ("NA", "", None)]
    assert X[0] == X[1] == X[2]
    with pytest.raises(BadValue, match="column 'x'"):
        features.transform_rows([{"x": "n/a", "z": 1}])


@pytest.mark.parametrize("sent", [1719705600000, "20240630", "30.06.2024", "June", 20240630, True])
def test_what_is_no_date_of_the_column_is_refused(sent: Any) -> None:
    features = TableFeatures().fit(Read(csv_bytes("x", POOLS["ISO date"] * 5), "csv").data)
    with pytest.raises(BadValue, match="column 'x': expected a date such as 2026-11-28"):
        features.transform_rows([{"x": sent, "z": 1}])


def test_what_training_called_missing_among_dates_is_missing_for_the_model() -> None:
    options = {"columns": {"x": "date"}}
    read = Read(csv_bytes("x", [*POOLS["ISO date"] * 5, "unknown"]), "csv", options)
    features = TableFeatures(kinds={"x": "date"}).fit(read.data)
    unknown, null = (features_of(features.transform_rows([{"x": v, "z": 1}])[0]) for v in ("unknown", None))
    assert unknown == null
    assert (
        features_of(features.transform(read.data)[0])[-1][1:]
        == features_of(features.transform_rows([{"x": None, "z": 1}])[0])[0][1:]
    )
    with pytest.raises(BadValue, match="column 'x'"):
        features.transform_rows([{"x": "unknowable", "z": 1}])


@given(upload=uploads(), data=st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_value_is_the_same_in_onnx(upload: tuple[str, str, list[str], dict[str, Any]], data: st.DataObject) -> None:
    kind, name, values, options = upload
    features = TableFeatures().fit(Read(csv_bytes(name, values), "csv", options).data)
    assume(name in [column["name"] for column in features.columns])
    model = model_of(features)
    if "date" in kind:
        with pytest.raises(OnnxExportError, match=name):
            onnx_model(model)
        return
    session = onnxruntime.InferenceSession(onnx_model(model), providers=["CPUExecutionProvider"])
    row = data.draw(st.integers(0, len(values) - 1))
    others = [text for pool in OTHERS for text in pool if kind in KINDS]
    for sent in [*json_forms(kind, values[row], options), *others]:
        made, refused = attempt(lambda sent=sent: model.predict_rows([{name: sent, "z": 1}])[0])
        if refused is not None:
            continue
        if {"name": name, "kind": "number"} in features.columns:
            if isinstance(sent, str):
                continue
            given_value: Any = np.array([[np.nan if sent is None else float(sent)]])
        elif isinstance(sent, str) or sent is None:
            said = json.loads(session.get_modelmeta().custom_metadata_map["readings"]).get(name, {})
            given_value = np.array([[sent.strip() if sent and "trim" in said else sent or ""]], dtype=object)
        else:
            continue
        label, score = session.run(["label", "score"], {name: given_value, "z": np.array([[1.0]])})
        np.testing.assert_allclose(score, made.scores, rtol=1e-9, atol=1e-12, err_msg=f"{kind}: {sent!r}")
        assert label.tolist() == made.labels


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", POOLS)
def test_what_is_learned_again_of_feedback_is_the_same_in_each_form(format: str, kind: str) -> None:
    values = [value for value in POOLS[kind] for _ in range(12)]
    options = options_of(kind, "x")
    table = Read(FORMATS[format]("x", values), format, options).data
    labels = np.array([*("ab"[i % 3 == 0] for i in range(len(values))), None], dtype=object)[:-1]
    row = next(i for i, label in enumerate(labels) if label == "a")
    request = TrainingRequest(algorithm="svm", positive="b", target="label", params={"C": 1.0, "gamma": 0.1})
    features = TableFeatures().fit(table)
    columns, readings = features.columns, features.readings
    made = []
    for sent in json_forms(kind, values[row], options):
        rows, meant = meant_rows([{"x": sent, "z": row % 7}], columns, readings)
        trained = train(table, labels, request, corrections=Corrections(rows, ["b"], [meant]))
        report = trained.report.feedback
        if report.refused:
            assert "column 'x'" in report.refused[0].reason
            assert (kind, isinstance(sent, str)) == ("code in two forms", False)
            continue
        assert report.added == 0, (sent, report)
        made.append((report, trained.model.predict(table).scores.tolist()))
    assert all(each == made[0] for each in made)


@pytest.mark.parametrize(
    ("trained", "options", "sent", "next_values", "next_options", "meant"),
    [
        # another way to write the same numbers: the row that was meant
        (POOLS["thousands with points"], {"decimal": ",", "thousands": "."}, "1.234", ["1234", "5", "1.234"], {}, 0),
        (["1.5", "2.25", "1.234"], {}, "1.234", ["1.234", "7", "1,234"], {"decimal": ",", "thousands": "."}, 2),
        (["1", "-9", "3"], {"missing": ["-9"]}, "-9", ["-9", "", "3"], {}, 1),
        (["12 %", "7.5 %", "1 %"], {}, "12 %", ["12", "7.5", "1"], {}, 0),
        # another kind of column, or of dates: none
        (["1", "2", "3"], {"columns": {"x": "category"}}, "1", ["1", "2", "3"], {}, "held texts"),
        (["1.5", "2", "3"], {}, "2", ["1.5", "2", "3"], {"columns": {"x": "category"}}, "held numbers"),
        (["01/02/2024", "13/02/2024"], {}, "01/02/2024", ["01/02/2024", "02/13/2024"], {}, "dates written like"),
        (["1.5", "-9", "3"], {}, "-9", ["1.5", "-9", "3"], {"missing": ["-9"]}, "means missing"),
    ],
)
def test_feedback_means_later_what_it_meant_when_it_was_given(
    trained: list[str],
    options: dict[str, Any],
    sent: str,
    next_values: list[str],
    next_options: dict[str, Any],
    meant: int | str,
) -> None:
    features = TableFeatures().fit(Read(csv_bytes("x", trained * 6), "csv", options).data)
    _, state = features.state()
    rows, kinds = meant_rows([{"x": sent, "z": 1}], features.columns, features.readings)
    kinds |= state.get("date_formats", {})
    table = Read("\n".join(["x;z", *(f"{value};{i % 3}" for i, value in enumerate(next_values * 6))]).encode(), "csv",
                 next_options).data  # fmt: skip
    labels = np.array(["a" if i % 2 else "b" for i in range(table.n_rows)], dtype=object)
    rules = Rules(target=None, include=["x"], exclude=(), positive="a", unlabeled=(), missing="indicate")
    made = apply_corrections(table, labels, Corrections(rows, ["a"], [kinds]), rules)
    if isinstance(meant, int):
        assert (made.report.added, made.report.refused) == (0, [])
        assert np.flatnonzero(made.changed).tolist() == [i for i in range(table.n_rows) if i % 3 == meant]
    else:
        assert meant in made.report.refused[0].reason
        assert not made.changed.any()
