"""Models in ONNX decide as the originals: onnxruntime says so."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import onnxruntime
import pytest
from scipy import sparse

from solver.decision import DecisionState
from solver.evaluation.probability import Sigmoid
from solver.features import Column, MatrixData, MatrixFeatures, Table, TableFeatures
from solver.model_file import Model
from solver.onnx_export import OnnxExportError, onnx_model
from solver.reading import Reading

KERNELS = ["linear", "poly", "rbf", "sigmoid"]


def decision(kind: str, vectors: np.ndarray | sparse.csr_array) -> DecisionState:
    rng = np.random.default_rng(3)
    return DecisionState(
        kind=kind,
        gamma=0.3,
        degree=2,
        coef0=0.7,
        support_vectors=vectors,
        dual_coef=rng.normal(size=vectors.shape[0]),
        intercept=0.2,
        threshold=0.1,
        probability=Sigmoid(1.5, -0.2),
    )


def model_of(features: TableFeatures | MatrixFeatures | None, state: DecisionState) -> Model:
    return Model("svm", {"C": 1.0}, {"kind": "f1"}, ("ham é", "spam"), state, features)


def run(model: Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(onnx_model(model), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def same(model: Model, inputs: dict[str, np.ndarray], data: Table | MatrixData) -> None:
    """The exported model gives what the model gives, at a threshold that tells rows apart."""
    threshold = float(np.median(model.predict(data).scores))
    model = dataclasses.replace(model, decision=model.decision.with_threshold(threshold))
    given, wanted = run(model, inputs), model.predict(data)
    np.testing.assert_allclose(given["score"], wanted.scores, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(given["probability"], wanted.probabilities, rtol=1e-10, atol=1e-14)
    assert given["label"].tolist() == wanted.labels
    assert len(set(wanted.labels)) == 2


def table(n: int, seed: int, missing: bool) -> Table:
    rng = np.random.default_rng(seed)
    age, height = rng.normal(40, 10, n), rng.normal(170, 9, n)
    job = rng.choice(["clerk", "cook", "größe"], n).astype(object)
    flag = rng.choice(["TRUE", "FALSE"], n).astype(object)
    if missing:
        age[::5], job[::7] = np.nan, None
    return Table(
        {
            "age": Column("age", "number", age),
            "prefsvm/value/0": Column("prefsvm/value/0", "number", height),
            "job": Column("job", "text", job),
            "flag": Column("flag", "text", flag),
        }
    )


def cells(data: Table) -> dict[str, np.ndarray]:
    """Columns as the exported model takes them."""
    made = {}
    for name, column in data.columns.items():
        values = column.values
        if column.kind != "number":
            values = np.array(["" if value is None else value for value in values], dtype=object)
        made[name] = values[:, None]
    return made


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("missing", ["indicate", "impute"])
def test_raw_columns_in_decisions_out(kind, missing):
    train, asked = table(80, 0, True), table(200, 1, True)
    features = TableFeatures(missing=missing).fit(train)
    X, _ = features.transform(train)
    model = model_of(features, decision(kind, X[:40]))
    asked.columns["job"].values[3] = "unseen"
    asked.columns["age"].values[4] = 1e300  # cut, as in the library
    asked.columns["age"].values[6] = -900
    for row, spelling in enumerate(("true", "True", "false")):
        asked.columns["flag"].values[row] = spelling
    same(model, cells(asked), asked)


def test_numbers_only_and_no_gaps():
    data = Table({"x": Column("x", "number", np.arange(30.0))})
    features = TableFeatures().fit(data)
    model = model_of(features, decision("rbf", features.transform(data)[0][::3]))
    same(model, cells(data), data)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_matrices(kind, form):
    rng = np.random.default_rng(0)
    raw = np.where(rng.random((60, 7)) < 0.5, 0.0, rng.normal(size=(60, 7)))
    data = MatrixData(raw if form == "dense" else sparse.csr_array(raw))
    features = MatrixFeatures().fit(data)
    model = model_of(features, decision(kind, features.transform(data)[0][:30]))
    raw[3] *= 1e3  # cut, as in the library
    same(model, {"features": raw}, dataclasses.replace(data, X=raw if form == "dense" else sparse.csr_array(raw)))


def test_matrices_with_columns_far_from_zero_and_of_two_values():
    rng = np.random.default_rng(0)
    raw = np.column_stack([rng.integers(2000, 2010, 60), rng.random(60) < 0.1, rng.normal(size=60)]).astype(float)
    data = MatrixData(raw)
    features = MatrixFeatures().fit(data)
    model = model_of(features, decision("rbf", features.transform(data)[0][:30]))
    raw[2], raw[5] = 0, [5000, 9, 9]
    same(model, {"features": raw}, data)


def test_wild_numbers_of_the_training_and_of_later_rows():
    data = table(60, 0, False)
    data.columns["age"].values[4] = 1e300
    features = TableFeatures().fit(data)
    assert any("far from all others" in said for said in features.warnings)
    model = model_of(features, decision("rbf", features.transform(data)[0][:30]))
    data.columns["age"].values[9] = -1e12
    same(model, cells(data), data)


def test_tables_of_models_from_before_numbers_were_cut():
    data = table(60, 0, False)
    arrays, meta = TableFeatures().fit(data).state()
    del meta["cut"]
    features = TableFeatures.from_state(arrays, meta)
    model = model_of(features, decision("linear", features.transform(data)[0][:30]))
    data.columns["age"].values[4] = 1000
    same(model, cells(data), data)


def test_without_features_and_probability():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    state = dataclasses.replace(decision("rbf", X[:20]), probability=None)
    given = run(model_of(None, state), {"features": X})
    assert sorted(given) == ["label", "score"]
    np.testing.assert_allclose(given["score"], state.decision_function(X), rtol=1e-10)


def test_what_has_no_form_is_refused():
    words = np.array(["the cat sat", "on the mat here", "dogs bark at night", "birds sing in may"] * 8, dtype=object)
    texts = Table({"note": Column("note", "text", words)})
    features = TableFeatures(kinds={"note": "text"}).fit(texts)
    with pytest.raises(OnnxExportError, match=r"free text or dates.*'note'$"):
        onnx_model(model_of(features, decision("linear", sparse.csr_array(features.transform(texts)[0]))))
    texts.columns["age"] = Column("age", "number", np.arange(32.0))
    features = TableFeatures(kinds={"note": "text"}).fit(texts)
    with pytest.raises(OnnxExportError, match=r"'note'; a training without them \(`features.exclude`\) has that form$"):
        onnx_model(model_of(features, decision("rbf", sparse.csr_array(features.transform(texts)[0]))))
    named = Table({"score": Column("score", "number", np.arange(9.0))})
    features = TableFeatures().fit(named)
    with pytest.raises(OnnxExportError, match="name of an output: score"):
        onnx_model(model_of(features, decision("rbf", features.transform(named)[0])))
    wide = sparse.csr_array(([1.0], [0], [0, *[1] * 2000]), shape=(2000, 100_000))
    with pytest.raises(OnnxExportError, match="2000 × 100000"):
        onnx_model(model_of(None, decision("rbf", wide)))


@pytest.mark.parametrize("missing", ["indicate", "impute"])
@pytest.mark.parametrize("levels", [["red", "dark red", "größe", "a|b.*", "[x]", "(\n)"], ["1", "2.5", "10"]])
def test_blanks_around_values_are_cut_where_the_training_cut_them(levels: list[str], missing: Any) -> None:
    read = Reading(missing=("n/a", " odd"), trim=True)
    values = np.array([*levels, None] * 12, dtype=object)
    features = TableFeatures(kinds={"x": "category"}, missing=missing).fit(
        Table({"x": Column("x", "text", values, read), "z": Column("z", "number", np.arange(len(values)) % 5.0)})
    )
    model = model_of(features, decision("rbf", np.random.default_rng(0).normal(size=(5, features.n_features))))
    session = onnxruntime.InferenceSession(onnx_model(model), providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["readings"]) == {}
    assert session.get_modelmeta().custom_metadata_map["explanations"].startswith("none")
    around = [each + level + other for level in levels for each in ("", " ", "\t ") for other in ("", "  ", "\n")]
    sent = [
        *around,
        "",
        " ",
        "n/a",
        " n/a\t",
        " odd",
        "odd",
        "gro\u0308ße ",
        "blue",
        "red\u00a0",
        "dark  red",
        "1.0 ",
        "x",
    ]
    given = {"x": np.array([[text] for text in sent], dtype=object), "z": np.ones((len(sent), 1))}
    wanted, _ = model.predict_rows([{"x": text, "z": 1} for text in sent])
    np.testing.assert_allclose(session.run(["score"], given)[0], wanted.scores, rtol=1e-9)


def test_outputs_and_metadata_say_what_they_are() -> None:
    """Labels, scores and probabilities in this order; the classes and columns by name."""
    read = Reading(missing=("n/a",))
    data = table(60, 0, True)
    data = Table(
        {
            name: dataclasses.replace(column, reading=read)
            for name, column in data.columns.items()
            if column.kind == "text"
        }
    )
    features = TableFeatures().fit(data)
    model = model_of(features, decision("linear", np.random.default_rng(0).normal(size=(3, features.n_features))))
    session = onnxruntime.InferenceSession(onnx_model(model), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["label", "score", "probability"]
    said = session.get_modelmeta().custom_metadata_map
    assert (said["positive"], said["negative"]) == ("spam", "ham é")
    columns = json.loads(said["columns"])
    assert columns == model.columns
    assert [each.name for each in session.get_inputs()] == [column["name"] for column in columns]
    # what the upload took for missing, and an ö of two characters
    rows = [("größe", "TRUE"), ("gro\u0308ße", "1"), ("n/a", "true"), ("", "True")]
    given = {
        "job": np.array([[job] for job, _ in rows], dtype=object),
        "flag": np.array([[flag] for _, flag in rows], dtype=object),
    }
    scores = session.run(["score"], given)[0].tolist()
    assert scores[0] == scores[1]
    assert scores[2] == scores[3]
    wanted, _ = model.predict_rows([{"job": job, "flag": flag} for job, flag in rows])
    np.testing.assert_allclose(scores, wanted.scores, rtol=1e-10)
