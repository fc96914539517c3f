"""Model files: bit-identical after a round trip, readable by others, and never believed."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from solver.decision import DecisionState
from solver.evaluation.curves import OperatingCurve
from solver.features import (
    Column,
    FeatureCounts,
    FeatureError,
    MatrixData,
    MatrixFeatures,
    MissingColumns,
    Table,
    TableFeatures,
    TextOptions,
)
from solver.model_file import Model, ModelFileError, Predictions, read_model, write_model
from solver.tensor_file import MAX_HEADER_BYTES, MAX_HEADER_VALUES, TensorFileError, read_tensors, write_tensors

RNG = np.random.default_rng(7)
N = 60
TABLE = Table(
    {
        "age": Column("age", "number", np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(40, 12, N))),
        "height": Column("height", "number", RNG.normal(170, 9, N)),
        "job": Column("job", "text", np.array([["clerk", "cook", None, "kärnten"][i % 4] for i in range(N)], object)),
    }
)
CURVE = OperatingCurve.from_scores(RNG.normal(size=N), RNG.integers(0, 2, N))


TEXT_TABLE = Table(
    {
        "note": Column("note", "text", np.array([f"see you at {i % 7} in the größe room" for i in range(N)], object)),
        "when": Column(
            "when", "text", np.array([f"2026-{1 + i % 12:02}-{1 + i % 28:02}T0{i % 9}:00Z" for i in range(N)], object)
        ),
    }
)


def text_model() -> Model:
    features = TableFeatures(kinds={"note": "text"}, text=TextOptions(characters=3)).fit(TEXT_TABLE)
    X, _ = features.transform(TEXT_TABLE)
    decision = dataclasses.replace(table_model("linear").decision, support_vectors=X[::2])
    return table_model(features=features, decision=decision)


def table_model(kind: str = "rbf", **changes: Any) -> Model:
    features = TableFeatures().fit(TABLE)
    X, _ = features.transform(TABLE)
    state = DecisionState(
        kind=kind,
        gamma=0.1,
        degree=2,
        coef0=0.5,
        support_vectors=X[::2],
        dual_coef=RNG.normal(size=N // 2),
        intercept=0.25,
        threshold=-0.125,
    )
    fields: dict[str, Any] = {
        "algorithm": "psvm",
        "params": {"C": 1.5, "gamma": "scale"},
        "objective": {"kind": "recall", "target": 0.95},
        "classes": ("benign", "malignant"),
        "decision": state,
        "features": features,
        "curve": CURVE,
    }
    return Model(**(fields | changes))


def matrix_model() -> tuple[Model, MatrixData]:
    data = MatrixData(sparse.csr_array(sparse.random_array((N, 40), density=0.1, rng=np.random.default_rng(1))))
    features = MatrixFeatures().fit(data)
    X, _ = features.transform(data)
    state = DecisionState("rbf", 0.5, 3, 0.0, X[:20], RNG.normal(size=20), 0.1, 0.0)
    return Model("svm", {}, {"kind": "f1"}, ("-1", "+1"), state, features, None), data


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("models") / "good.safetensors"
    write_model(path, table_model())
    return path.read_bytes()


@pytest.fixture(scope="module")
def good_csr(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("models") / "csr.safetensors"
    write_model(path, matrix_model()[0])
    return path.read_bytes()


@pytest.fixture(scope="module")
def good_text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("models") / "text.safetensors"
    write_model(path, text_model())
    return path.read_bytes()


def same(a: Predictions, b: Predictions) -> None:
    assert a.scores.tobytes() == b.scores.tobytes()
    assert a.labels == b.labels


# -- round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rbf", "linear", "poly", "sigmoid"])
def test_predictions_after_a_round_trip_are_bit_identical(tmp_path: Path, kind: str) -> None:
    model = table_model(kind)
    path = tmp_path / "model.safetensors"
    write_model(path, model)
    for again in (read_model(path), read_model(str(path)), read_model(path.read_bytes())):
        same(model.predict(TABLE), again.predict(TABLE))
        assert again.manifest == model.manifest
        assert again.columns == model.columns
        assert again.curve is not None
        assert again.curve.to_dict() == CURVE.to_dict()
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_matrix_model_round_trip(tmp_path: Path) -> None:
    model, data = matrix_model()
    write_model(tmp_path / "m", model)
    again = read_model(tmp_path / "m")
    same(model.predict(data), again.predict(data))
    assert again.columns == []
    rows, extra = again.parse_rows([{"1": 0.5, "40": 1, "41": 2}])
    assert extra == ["41"]
    assert len(again.predict(rows).labels) == 1


def test_writing_the_same_model_twice_gives_the_same_bytes(tmp_path: Path, good: bytes) -> None:
    model = read_model(good)
    write_model(tmp_path / "again", model)
    assert (tmp_path / "again").read_bytes() == good


def test_decision_is_strictly_above_the_threshold() -> None:
    state = DecisionState("linear", 1.0, 3, 0.0, np.array([[1.0]]), np.array([1.0]), 0.0, 0.5)
    features = MatrixFeatures().fit(MatrixData(np.array([[1.0], [0.2]])))
    model = Model("svm", {}, {}, ("no", "yes"), state, features)
    made = model.predict(MatrixData(np.array([[0.5], [0.5000001], [0.4]])))
    assert made.labels == ["no", "yes", "no"]
    assert made.probabilities is None


def test_predict_says_what_was_unseen_and_refuses_what_does_not_fit() -> None:
    model = table_model()
    rows, extra = model.parse_rows([{"age": 30, "height": None, "job": "king", "shoe": 43}])
    assert extra == ["shoe"]
    assert [warning.split(":")[0] for warning in model.predict(rows).warnings] == ["column 'height'", "column 'job'"]
    with pytest.raises(MissingColumns, match="'height'"):
        model.parse_rows([{"age": 30, "job": None}])
    with pytest.raises(FeatureError, match="takes a table"):
        model.predict(MatrixData(np.zeros((1, 2))))


def test_rows_that_no_support_vector_is_near_are_flagged() -> None:
    """Their score is the intercept. A row whose score happens to be that is none of them."""
    vectors = np.zeros((2, 5))
    vectors[1, 0] = 2.0
    decision = DecisionState("rbf", 1.0, 3, 0.0, vectors, np.array([1.0, -1.0]), 0.25, 0.0)
    model = Model("svm", {}, {}, ("no", "yes"), decision)
    near, between, far = [0.0] * 5, [1.0, 0, 0, 0, 0], [0.0, 3, 0, 0, 0]
    made = model.decide(np.array([near, between, far, far]), FeatureCounts())
    assert made.scores[1] == 0.25
    assert made.far_rows == [2, 3]
    assert made.warnings[0].startswith("2 row(s) are unlike any row of the training")
    for row in (near, between, far):
        alone = model.decide(np.array([row]), FeatureCounts())
        assert (list(alone.far_rows), len(alone.warnings)) == (([0], 1) if row is far else ([], 0))
    counts = FeatureCounts(far={"x": 1}, far_rows=[0])
    assert model.decide(np.array([near, far]), counts).far_rows == [0, 1]
    sparse_model = dataclasses.replace(
        model, decision=dataclasses.replace(decision, support_vectors=sparse.csr_array(vectors))
    )
    assert sparse_model.decide(sparse.csr_array(np.array([near, far])), FeatureCounts()).far_rows == [1]
    linear = dataclasses.replace(model, decision=dataclasses.replace(decision, kind="linear"))
    assert linear.decide(np.array([near]), FeatureCounts()).warnings == []


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_scores_beyond_float64_are_an_error_not_a_nan() -> None:
    state = DecisionState("poly", 1e300, 50, 0.0, np.array([[1.0]]), np.array([1.0]), 0.0, 0.5)
    features = MatrixFeatures().fit(MatrixData(np.array([[1.0], [0.2]])))
    with pytest.raises(FeatureError, match="row 0, its score is beyond"):
        Model("svm", {}, {}, ("no", "yes"), state, features).predict(MatrixData(np.array([[1.0]])))


def test_the_safetensors_package_reads_it_and_is_read(tmp_path: Path, good: bytes) -> None:
    theirs = safetensors.numpy.load(good)
    ours, metadata = read_tensors(good)
    assert theirs.keys() == ours.keys()
    for name, array in theirs.items():
        assert array.dtype == ours[name].dtype
        np.testing.assert_array_equal(array, ours[name])
    safetensors.numpy.save_file(theirs, tmp_path / "theirs", metadata)
    same(read_model(tmp_path / "theirs").predict(TABLE), read_model(good).predict(TABLE))


def test_a_score_beyond_all_numbers_is_refused_and_not_warned_about() -> None:
    """Whoever calls; warnings are errors here."""
    decision = dataclasses.replace(table_model("linear").decision, dual_coef=np.full(N // 2, 1e308))
    model = table_model("linear", decision=decision)
    with pytest.raises(FeatureError, match="row 0, its score is beyond the range of float64"):
        model.predict(TABLE)
    with pytest.raises(FeatureError, match="row 0, its score is beyond the range of float64"):
        model.predict_rows([{"age": 40, "height": 1e300, "job": "cook"}])


def test_size_is_told() -> None:
    model = table_model()
    vectors = model.decision.support_vectors
    assert isinstance(vectors, np.ndarray)
    assert 2 * vectors.nbytes < model.nbytes < 2 * vectors.nbytes + 10_000


@pytest.mark.parametrize(
    "changes",
    [{"params": {"C": float("nan")}}, {"params": {"C": float("inf")}}, {"classes": ("a", object())}],
)
def test_what_json_cannot_hold_is_not_written(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        write_model(tmp_path / "m", table_model(**changes))
    assert list(tmp_path.iterdir()) == []


arrays = st.one_of(
    *(
        st.tuples(st.integers(0, 5), st.integers(0, 4)).map(
            lambda shape, d=dtype: np.arange(np.prod(shape)).astype(d).reshape(shape)
        )
        for dtype in ("f8", "f4", "i8", "i4", "u1")
    ),
    st.integers(0, 9).map(lambda n: np.arange(n, dtype=np.uint8)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda s: s != "__metadata__"),
        arrays,
        max_size=5,
    )
)
def test_any_arrays_survive(tmp_path: Path, tensors: dict[str, Any]) -> None:
    write_tensors(tmp_path / "t", tensors, {"a": "b"})
    read, metadata = read_tensors(tmp_path / "t")
    assert metadata == {"a": "b"}
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(read[name], array)


# -- files that lie ----------------------------------------------------------------------------------------------------


def forge(content: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None], tmp_path: Path) -> bytes:
    """The same file with its manifest and arrays changed, well-formed as a container."""
    tensors, metadata = read_tensors(content)
    manifest = json.loads(metadata["manifest"])
    change(manifest, tensors)
    write_tensors(tmp_path / "forged", tensors, {"manifest": json.dumps(manifest)})
    return (tmp_path / "forged").read_bytes()


def with_header(header: object, data: bytes = b"") -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + data


def put(**values: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Set manifest fields; a double underscore goes one level down."""

    def change(manifest: dict[str, Any], tensors: dict[str, Any]) -> None:
        for name, value in values.items():
            place = manifest
            *path, last = name.split("__")
            for part in path:
                place = place[part]
            place[last] = value

    return change


def array(name: str, edit: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(manifest: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors[name] = edit(tensors[name].copy())

    return change


def at(index: Any, value: Any) -> Callable[[Any], Any]:
    def edit(values: Any) -> Any:
        values[index] = value
        return values

    return edit


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_a_sign_in_a_file_of_before_turns_the_scores(tmp_path: Path, kind: str) -> None:
    write_model(tmp_path / "m", table_model(kind))
    model = read_model(tmp_path / "m")
    turned = read_model(forge((tmp_path / "m").read_bytes(), put(decision__sign=-1), tmp_path))
    np.testing.assert_array_equal(turned.predict(TABLE).scores, -model.predict(TABLE).scores)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(format="other"), "not a model file"),
        (put(version=4), "version 4"),
        (put(version=True), "version"),
        (put(version="1"), "version"),
        (put(producer=[]), "producer"),
        (put(producer={"numpy": 2}), "producer"),
        (put(algorithm=None), "algorithm"),
        (put(params=[]), "params"),
        (put(objective="f1"), "objective"),
        (put(classes={"negative": "a"}), "positive"),
        (put(classes__positive="x" * 513), "positive"),
        (put(classes__positive=["x"]), "positive"),
        (put(decision=None), "decision"),
        (put(decision__kernel="evil"), "kernel"),
        (put(decision__kernel=["rbf"]), "kernel"),
        (put(decision__gamma=0), "gamma"),
        (put(decision__gamma=-1.0), "gamma"),
        (put(decision__gamma=True), "gamma"),
        (put(decision__gamma=10**400), "gamma"),
        (put(decision__degree=0), "degree"),
        (put(decision__degree=10**9), "degree"),
        (put(decision__degree=2.0), "degree"),
        (put(decision__sign=0), "sign"),
        (put(decision__threshold=None), "threshold"),
        (put(decision__threshold="0"), "threshold"),
        (put(decision__support_vectors=10**9), "support_vectors"),
        (put(decision__support_vectors=-1), "support_vectors"),
        (put(decision__n_features=10**9), "n_features"),
        (put(decision__n_features=3), "support_vectors"),
        (put(decision__layout="csr"), "support_vectors.data"),
        (put(features=None), "belongs to nothing"),
        (put(features=7), "features"),
        (put(features={"kind": "pickle"}), "kind"),
        (put(features={"kind": "matrix", "sparse": True}), "factor"),
        (put(features__sparse="no"), "sparse"),
        (put(curve__positives=0), "operating curve"),
        (put(curve__positives=-1), "positives"),
        (put(curve=None), "belongs to nothing"),
        (array("dual_coef", at(0, np.nan)), "NaN"),
        (array("dual_coef", at(0, np.inf)), "NaN"),
        (array("dual_coef", lambda a: a[1:]), "shape"),
        (array("dual_coef", lambda a: a.astype(np.float32)), "float64"),
        (array("support_vectors", at((0, 0), np.nan)), "NaN"),
        (array("support_vectors", lambda a: a.T.copy()), "shape"),
        (array("support_vectors", lambda a: a.ravel()), "shape"),
        (array("support_vectors", lambda a: a.astype(np.int64)), "float64"),
        (array("features.scale", at(0, -1.0)), "scale"),
        (array("features.mean", at(0, np.nan)), "NaN"),
        (array("features.level_counts", at(0, 2**62)), "level"),
        (array("features.level_ends", at(-1, 2**62)), "ascend"),
        (array("features.level_text", at(0, 0xFF)), "UTF-8"),
        (array("features.number_text", lambda a: a[1:]), "ascend"),
        (array("features.missing_level", at(0, 0)), "wide"),
        (array("curve.thresholds", at(0, -1e9)), "operating curve"),
        (array("curve.thresholds", lambda a: a[1:]), "operating curve"),
        (array("curve.true_positives", at(-1, 10**9)), "operating curve"),
    ],
)  # fmt: skip
def test_lying_files_are_refused(good: bytes, tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(ModelFileError, match=said):
        read_model(forge(good, change, tmp_path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (array("support_vectors.indices", at(0, -1)), "indices"),
        (array("support_vectors.indices", at(-1, 40)), "indices"),
        (array("support_vectors.indices", at(-1, 2**31 - 1)), "indices"),
        (array("support_vectors.indices", lambda a: a[::-1].copy()), "ascend within"),
        (array("support_vectors.indices", lambda a: a.astype(np.int64)), "one type"),
        (array("support_vectors.indptr", at(0, 1)), "indptr"),
        (array("support_vectors.indptr", at(1, 2**31 - 1)), "indptr"),
        (array("support_vectors.indptr", at(-1, 1)), "indptr"),
        (array("support_vectors.indptr", lambda a: a[1:]), "indptr"),
        (array("support_vectors.data", lambda a: a[1:]), "indptr|indices"),
        (array("support_vectors.data", at(0, np.nan)), "NaN"),
        (array("features.factor", lambda a: a[1:]), "one factor, two limits"),
        (array("features.limit_low", at(0, 9)), "ends before it begins"),
        (array("features.factor", at(0, np.inf)), "NaN"),
        (put(features__first_index=5), "first_index"),
        (put(decision__layout="dense"), "support_vectors"),
        (put(decision__n_features=10**7), "wide"),
    ],
)  # fmt: skip
def test_lying_sparse_files_are_refused(good_csr: bytes, tmp_path: Path, change: Any, said: str) -> None:
    read_model(good_csr)
    with pytest.raises(ModelFileError, match=said):
        read_model(forge(good_csr, change, tmp_path))


def entry(dtype: object = "F64", shape: object = (1,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        b"\xff" * 8,
        b"\xff" * 100,
        (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b" " * (MAX_HEADER_BYTES + 1),
        with_header(b"{"),
        with_header(b"[]"),
        with_header(b"[" + b"{}," * MAX_HEADER_VALUES + b"{}, {}]"),
        with_header(b"null"),
        with_header(b"\xff\xfe{}"),
        with_header(b"[" * 900_000),
        with_header(b'{"a":' * 150_000),
        with_header(b'{"__metadata__":{"a":1}}'),
        with_header(b'{"__metadata__":[]}'),
        with_header(b'{"x":NaN}'),
        with_header(b'{"x":1e999}'),
        with_header(b'{"x":' + b"9" * 10_000 + b"}"),
        with_header(b'{"x":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1"),
        with_header({"x": []}, b"12345678"),
        with_header({"x": {"dtype": "F64"}}, b"12345678"),
        with_header(entry(dtype="O"), b"12345678"),
        with_header(entry(dtype="BF16", offsets=(0, 2)), b"12"),
        with_header(entry(dtype=["F64"]), b"12345678"),
        with_header(entry(shape=[]), b"12345678"),
        with_header(entry(shape=[1, 1, 1]), b"12345678"),
        with_header(entry(shape=[-1]), b"12345678"),
        with_header(entry(shape=[True]), b"12345678"),
        with_header(entry(shape=[1.0]), b"12345678"),
        with_header(entry(shape=[2]), b"12345678"),
        with_header(entry(shape=[2**40], offsets=[0, 2**43]), b"12345678"),
        with_header(entry(shape=[2**32, 2**32], offsets=[0, 0]), b""),
        with_header(entry(shape=[10**30]), b"12345678"),
        with_header(entry(offsets=[8, 0]), b"12345678"),
        with_header(entry(offsets=[-8, 0]), b"12345678"),
        with_header(entry(offsets=[0]), b"12345678"),
        with_header(entry(offsets=None), b"12345678"),
        with_header(entry(offsets=[1, 9]), b"123456789"),
        with_header(entry(), b"1234567"),
        with_header(entry(), b"123456789"),
        with_header(
            {name: {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} for name in "xy"}, b"12345678"
        ),
        with_header({str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(300)}),
    ],
)  # fmt: skip
def test_lying_containers_are_refused_without_memory(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TensorFileError):
            read_tensors(content)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(content) + (1 << 20)
    finally:
        tracemalloc.stop()
    with pytest.raises(ModelFileError):
        read_model(content)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.zeros(3)}, tmp_path / "a")
    with pytest.raises(ModelFileError, match="no manifest"):
        read_model(tmp_path / "a")
    write_tensors(tmp_path / "b", {"a": np.zeros(3)}, {"manifest": "[1]"})
    with pytest.raises(ModelFileError, match="JSON object"):
        read_model(tmp_path / "b")
    write_tensors(tmp_path / "c", {"a": np.zeros(3)}, {"manifest": "{"})
    with pytest.raises(ModelFileError, match="JSON"):
        read_model(tmp_path / "c")


def test_memory_stays_near_the_size_of_the_file(tmp_path: Path) -> None:
    rows = 40_000
    state = DecisionState("rbf", 0.1, 3, 0.0, np.ones((rows, 50)), np.ones(rows), 0.0, 0.0)
    write_model(tmp_path / "big", Model("svm", {}, {}, ("a", "b"), state))
    size = (tmp_path / "big").stat().st_size
    tracemalloc.start()
    try:
        model = read_model(tmp_path / "big")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        held = tracemalloc.get_traced_memory()[0]
        write_model(tmp_path / "again", model)
        written = tracemalloc.get_traced_memory()[1] - held
    finally:
        tracemalloc.stop()
    assert size > 16_000_000
    assert peak < 1.3 * size
    assert written < 1 << 20


def still_works(content: bytes, data: Table | MatrixData) -> None:
    """What is not refused must predict, or say why not: no crash, no hang."""
    try:
        model = read_model(content)
    except ModelFileError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a changed gamma may overflow
        try:
            made = model.predict(data)
        except (FeatureError, ValueError):
            return
    assert np.isfinite(made.scores).all()


MATRIX = matrix_model()[1]


def damage(good: bytes, good_csr: bytes, good_text: bytes, data: st.DataObject) -> None:
    rows: Table | MatrixData
    whole, rows = [(good, TABLE), (good_csr, MATRIX), (good_text, TEXT_TABLE)][data.draw(st.integers(0, 2))]
    content = bytearray(whole)
    header_end = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["header", "header", "anywhere", "cut", "insert", "digit"]))
        if kind == "cut":
            del content[data.draw(st.integers(0, max(0, len(content) - 1))) :]
        elif kind == "insert":
            place = data.draw(st.integers(0, len(content)))
            content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        elif kind == "digit":
            places = [i for i, byte in enumerate(content[:header_end]) if 48 <= byte <= 57]
            if places:
                content[data.draw(st.sampled_from(places))] = data.draw(st.integers(48, 57))
        elif content:
            place = data.draw(
                st.integers(0, min(header_end, len(content)) - 1 if kind == "header" else len(content) - 1)
            )
            content[place] = data.draw(st.integers(0, 255))
    still_works(bytes(content), rows)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(300))
@given(st.data())
def test_random_damage_is_refused_or_harmless(
    good: bytes, good_csr: bytes, good_text: bytes, data: st.DataObject
) -> None:
    damage(good, good_csr, good_text, data)


@pytest.mark.fuzz
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=examples(3000))
@given(st.data())
def test_much_random_damage_is_refused_or_harmless(
    good: bytes, good_csr: bytes, good_text: bytes, data: st.DataObject
) -> None:
    damage(good, good_csr, good_text, data)


def test_every_truncation_is_refused(good_csr: bytes) -> None:
    for length in range(0, len(good_csr), 7):
        with pytest.raises(ModelFileError):
            read_model(good_csr[:length])
