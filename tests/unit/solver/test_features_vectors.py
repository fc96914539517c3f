"""Columns of vectors: one block of features each, the same at every entrance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from solver.corrections import Corrections
from solver.features import BadValue, Column, FeatureError, StateError, Table, TableFeatures, meant_rows, meant_table
from solver.features.vectors import weight_beside
from solver.model_file import Model, read_model, write_model
from solver.onnx_export import onnx_model
from solver.training import TrainingRequest, train

LENGTH = 24


def vectors_of(truth: np.ndarray, seed: int = 0, apart: float = 1.0) -> np.ndarray:
    """Vectors about a mean that is far from zero, as encoders make them; the classes differ in one direction."""
    rng = np.random.default_rng(seed)
    direction, mean = rng.normal(size=LENGTH), 5 * rng.normal(size=LENGTH)
    made = rng.normal(size=(len(truth), LENGTH)) + mean + apart * np.where(truth, 1, -1)[:, None] * direction
    return made.astype(np.float32)


def data(n: int = 240, unlabelled: int = 120, seed: int = 0) -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.5
    labels = np.array(["yes" if each else "no" for each in truth], dtype=object)
    labels[n - unlabelled :] = None
    columns = [
        Column("vec", "vector", vectors_of(truth, seed)),
        Column("age", "number", rng.normal(size=n)),
        Column("job", "text", np.array([("clerk", "cook")[i % 2] for i in range(n)], dtype=object)),
    ]
    return Table({column.name: column for column in columns}), labels


def rows_of(table: Table, n: int) -> list[dict[str, Any]]:
    columns = table.columns.values()
    return [
        {each.name: each.values[i].tolist() if each.kind == "vector" else each.values[i] for each in columns}
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def model() -> Model:
    table, labels = data()
    return train(table, labels, TrainingRequest(target="y", positive="yes", algorithm="svm")).model


def test_a_vector_is_centred_and_brought_to_one_length_and_never_scaled_number_by_number() -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(50, 4)) * [1, 10, 1, 1] + [100, 0, 0, 0]).astype(np.float32)
    vectors[7] = 0
    table = Table({"v": Column("v", "vector", vectors)})
    X, counts = TableFeatures().fit(table).transform(table)
    centred = vectors.astype(float) - vectors.astype(float).mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    expected[7] = 0
    assert np.allclose(X, expected, atol=1e-12), "a row of zeros says nothing"
    assert X[:, 1].var() > 10 * X[:, 2].var(), "which numbers are large is part of what a vector says"
    assert counts.warnings() == []


def test_columns_of_vectors_stand_beside_others_and_neither_drowns() -> None:
    table, _ = data()
    second = Column("other", "vector", vectors_of(np.arange(240) % 2 == 0, 5)[:, :3].copy())
    table = Table({**table.columns, "other": second})
    features = TableFeatures().fit(table)
    X, _ = features.transform(table)
    assert features.columns == [
        {"name": "age", "kind": "number"},
        {"name": "job", "kind": "category"},
        {"name": "vec", "kind": "vector", "length": LENGTH},
        {"name": "other", "kind": "vector", "length": 3},
    ]
    assert features.feature_names[:3] == ["age", "vec[0]", "vec[1]"]
    assert features.n_features == 1 + LENGTH + 3 + 2
    squares = np.square(X).sum(axis=1)
    of_vector = np.square(X[:, 1 : 1 + LENGTH]).sum(axis=1)
    assert np.allclose(of_vector, weight_beside(2) ** 2)
    assert weight_beside(2) ** 2 == pytest.approx(2)
    assert of_vector.mean() == pytest.approx(squares.mean() / 3, rel=0.01), "as long as all that is no vector"


def test_the_same_vectors_are_left_out_and_the_same_but_for_rounding() -> None:
    same = np.tile(np.array([0.1, 3.3], dtype=np.float32), (9, 1))
    table = Table({"v": Column("v", "vector", same), "x": Column("x", "number", np.arange(9.0))})
    features = TableFeatures().fit(table)
    assert [column["name"] for column in features.columns] == ["x"]
    assert features.warnings == ["column 'v' is left out: it has the same vector in all training rows"]
    with pytest.raises(FeatureError, match="no column is left"):
        TableFeatures().fit(Table({"v": Column("v", "vector", same)}))


def test_rows_and_tables_and_the_stored_model_and_onnx_give_the_same_scores(model: Model, tmp_path: Path) -> None:
    table, _ = data(seed=3)
    table.columns["vec"].values[5] = 0
    whole = model.predict(table)
    by_rows, extra = model.predict_rows(rows_of(table, 240))
    assert np.array_equal(whole.scores, by_rows.scores)
    assert extra == []
    alone = [model.predict_rows([row])[0].scores[0] for row in rows_of(table, 20)]
    assert np.allclose(alone, whole.scores[:20], rtol=0, atol=1e-12)
    write_model(tmp_path / "model", model)
    assert np.array_equal(read_model(tmp_path / "model").predict(table).scores, whole.scores)
    session = onnxruntime.InferenceSession(onnx_model(model))
    given = {
        "vec": table.columns["vec"].values,
        "age": table.columns["age"].values[:, None],
        "job": table.columns["job"].values[:, None],
    }
    assert np.allclose(session.run(["score"], given)[0], whole.scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "vector",
    [
        None,
        1.5,
        "[1, 2]",
        [],
        [0.0] * (LENGTH - 1),
        [0.0] * (LENGTH + 1),
        [None, *[0.0] * (LENGTH - 1)],
        [True, *[0.0] * (LENGTH - 1)],
        ["1", *[0.0] * (LENGTH - 1)],
        [[0.0], *[0.0] * (LENGTH - 1)],
        [float("nan"), *[0.0] * (LENGTH - 1)],
        [1e39, *[0.0] * (LENGTH - 1)],
        [10**400, *[0.0] * (LENGTH - 1)],
        {"0": 1.0},
    ],
    ids=str,
)
def test_what_is_no_vector_of_the_model_is_refused_by_its_row(model: Model, vector: Any) -> None:
    table, _ = data()
    rows = rows_of(table, 3)
    rows[1]["vec"] = vector
    with pytest.raises(BadValue, match=f"column 'vec': expected a list of {LENGTH} numbers") as refused:
        model.predict_rows(rows)
    assert refused.value.row == 1


def test_tables_of_other_vectors_or_of_none_do_not_fit(model: Model) -> None:
    table, _ = data()
    other = Column("vec", "vector", np.zeros((240, 3), dtype=np.float32))
    with pytest.raises(FeatureError, match=f"vectors of 3 numbers; the model takes vectors of {LENGTH} numbers"):
        model.predict(Table({**table.columns, "vec": other}))
    with pytest.raises(FeatureError, match="holds no vectors"):
        model.predict(Table({**table.columns, "vec": Column("vec", "number", np.zeros(240))}))
    with pytest.raises(FeatureError, match="'age' holds vectors here, and none to the model"):
        model.predict(Table({**table.columns, "age": Column("age", "vector", other.values)}))
    for kind in ("text", "number", "category", "date"):
        with pytest.raises(FeatureError, match="holds vectors and cannot be of the kind"):
            TableFeatures(kinds={"vec": kind}).fit(table)
    with pytest.raises(FeatureError, match="holds numbers and cannot be of the kind 'vector'"):
        TableFeatures(kinds={"age": "vector"}).fit(table)


def test_vectors_of_another_encoder_are_counted_as_far(model: Model) -> None:
    table, _ = data(seed=0)
    assert list(model.predict(table).far_rows) == []
    vectors = table.columns["vec"].values.copy()
    vectors[[3, 8]] = np.random.default_rng(9).normal(size=(2, LENGTH))  # about zero, not about the mean
    made = model.predict(Table({**table.columns, "vec": Column("vec", "vector", vectors)}))
    assert list(made.far_rows) == [3, 8]
    assert any("'vec': 2 row(s) hold a vector far from those of the training" in said for said in made.warnings)


def test_a_damaged_state_is_refused() -> None:
    table, _ = data()
    arrays, meta = TableFeatures().fit(table).state()
    assert TableFeatures.from_state(arrays, meta).state()[0].keys() == arrays.keys()
    for name, value in {
        "vector_lengths": np.array([LENGTH + 1]),
        "vector_mean": np.zeros(LENGTH - 1),
        "vector_weight": np.array([0.0]),
        "vector_low": np.array([1e9]),
        "vector_high": np.zeros(2),
    }.items():
        with pytest.raises(StateError):
            TableFeatures.from_state(arrays | {name: value}, meta)
    with pytest.raises(StateError):
        TableFeatures.from_state(arrays | {"vector_lengths": np.array([-1]), "vector_mean": np.zeros(0)}, meta)


def test_corrections_find_the_rows_of_their_vectors_and_add_others() -> None:
    table, labels = data()
    found, other = rows_of(table, 240)[130], rows_of(table, 240)[131]
    other["vec"] = [number + 1 for number in other["vec"]]
    lacking = {"age": 99.0, "job": "cook"}
    columns = [{"name": "vec", "kind": "vector", "length": LENGTH}]
    rows, _ = meant_rows([found], columns)
    corrections = Corrections(
        rows=[*rows, other, lacking], labels=["yes", "no", "yes"], random=[False] * 3, meant=[{}] * 3
    )
    request = TrainingRequest(target="y", positive="yes", algorithm="svm")
    trained = train(table, labels, request, corrections=corrections)
    told = trained.report.feedback
    assert told is not None
    assert (told.newly_labelled, told.added) == (1, 1)
    assert [each.reason for each in told.refused] == ["it has no vector of column 'vec', of which none can be missing"]
    again = meant_table(table.take(np.array([130])), [*columns, {"name": "age", "kind": "number"}])[0][0]
    assert np.array_equal(np.float32(again["vec"]), table.columns["vec"].values[130])


def test_labels_at_random_are_not_learned_from_vectors() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(400, 64)).astype(np.float32)
    labels = np.array([str(int(each)) for each in rng.random(400) < 0.5], dtype=object)
    labels[200:] = None
    request = TrainingRequest(target="y", positive="1", algorithm="svm", test_fraction=0.3, seed=1)
    report = train(Table({"v": Column("v", "vector", vectors)}), labels, request).report
    assert report.test is not None
    right = report.test.true_positives + report.test.true_negatives
    assert abs(right / report.test.n - 0.5) < 0.2
