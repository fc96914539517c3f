"""Tables → features: statistics of the fitted rows only, honest counts, state that survives storing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from solver.features import (
    BadValue,
    Column,
    FeatureCounts,
    FeatureError,
    MatrixData,
    MissingColumns,
    StateError,
    Table,
    TableFeatures,
    missing_values,
    table_from_rows,
)


def numbers(name: str, *values: float) -> Column:
    return Column(name, "number", np.array(values, dtype=np.float64))


def texts(name: str, *values: str | None) -> Column:
    return Column(name, "text", np.array(values, dtype=object))


def table(*columns: Column) -> Table:
    return Table({column.name: column for column in columns})


def stored_and_read(features: TableFeatures) -> TableFeatures:
    arrays, meta = features.state()
    return TableFeatures.from_state(arrays, json.loads(json.dumps(meta)))


def dense(features: TableFeatures, data: Table) -> NDArray[np.float64]:
    X, _ = features.transform(data)
    assert isinstance(X, np.ndarray)
    return X


def test_numbers_are_standardised_and_missing_ones_become_the_median_with_an_indicator() -> None:
    data = table(numbers("age", 1.0, 2.0, 9.0, np.nan), numbers("height", 1.0, 2.0, 3.0, 4.0))
    features = TableFeatures().fit(data)
    X = dense(features, data)
    assert features.feature_names == ["age", "height", "age is missing"]
    filled = np.array([1.0, 2.0, 9.0, 2.0])
    np.testing.assert_allclose(X[:, 0], (filled - filled.mean()) / filled.std(), rtol=1e-14)
    np.testing.assert_allclose(X[:, 1].mean(), 0, atol=1e-15)
    np.testing.assert_allclose(X[:, 1].std(), 1, rtol=1e-14)
    np.testing.assert_array_equal(X[:, 2], [0, 0, 0, 1])


def test_categories_become_levels_and_missing_is_one_only_where_it_was_seen() -> None:
    data = table(texts("job", "clerk", "cook", "clerk"), texts("town", "a", None, "b"))
    features = TableFeatures().fit(data)
    assert features.feature_names == ["job=clerk", "job=cook", "town=a", "town=b", "town is missing"]
    np.testing.assert_array_equal(dense(features, data), [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [1, 0, 0, 1, 0]])
    X, counts = features.transform(table(texts("job", None, "king", "king"), texts("town", "a", None, "c")))
    np.testing.assert_array_equal(X, [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    assert counts.unseen == {"job": 3, "town": 1}
    assert [warning.split(":")[0] for warning in counts.warnings()] == ["column 'job'", "column 'town'"]


def test_statistics_come_from_the_fitted_rows_only() -> None:
    fitted = table(numbers("x", 0.0, 2.0))
    features = TableFeatures().fit(fitted)
    X, counts = features.transform(table(numbers("x", 1001.0, np.nan, np.inf)))
    np.testing.assert_array_equal(X, [[3.0], [0.5], [0.5]])  # of 0 and 2, 1001 is cut
    assert counts.missing == {"x": 2}
    assert "median" in counts.warnings()[0]


def test_columns_that_cannot_help_are_left_out_with_a_warning() -> None:
    n = 40
    data = table(
        numbers("good", *range(n)),
        numbers("constant", *[7.0] * n),
        numbers("empty", *[np.nan] * n),
        numbers("sometimes", *[7.0] * (n - 1), np.nan),
        texts("id", *[f"row {i}" for i in range(n)]),
        texts("same", *["x"] * n),
        texts("nothing", *[None] * n),
    )
    features = TableFeatures().fit(data)
    assert features.feature_names == ["good", "sometimes is missing"]
    assert features.columns == [{"name": "good", "kind": "number"}, {"name": "sometimes", "kind": "number"}]
    assert len(features.warnings) == 5
    assert {warning.split("'")[1] for warning in features.warnings} == {"constant", "empty", "id", "same", "nothing"}


def test_more_than_a_thousand_levels_are_left_out() -> None:
    n = 4000
    data = table(numbers("x", *range(n)), texts("many", *[str(i % 1001) for i in range(n)]))
    features = TableFeatures().fit(data)
    assert features.feature_names == ["x"]
    features = TableFeatures().fit(table(texts("many", *[str(i % 1000) for i in range(n)])))
    assert features.n_features == 1000
    parts, owners = features.feature_parts  # what explanations ask for
    assert parts == [("column", "many")]
    assert owners.tolist() == [0] * 1000


def test_what_is_left_out_says_how_its_words_would_count() -> None:
    short = [f"prize {'abcdefghij'[i % 10] * 3}{'klm'[i // 10] * 2}" for i in range(30)]
    with pytest.raises(FeatureError, match=r'make it a text: {"features": {"kinds": {"message": "text"}}}$'):
        TableFeatures().fit(table(texts("message", *short)))
    with pytest.raises(FeatureError, match=r"look like an identifier$"):
        TableFeatures().fit(table(texts("code", *(f"id{i}" for i in range(30)))))


def test_include_and_exclude() -> None:
    data = table(numbers("a", 1, 2), numbers("b", 1, 2), numbers("c", 1, 2))
    assert TableFeatures(include=["a", "b"], exclude=["b"]).fit(data).feature_names == ["a"]
    assert TableFeatures(exclude=["b"]).fit(data).feature_names == ["a", "c"]
    with pytest.raises(FeatureError, match=r"no such column: 'd'"):
        TableFeatures(exclude=["d"]).fit(data)
    with pytest.raises(FeatureError, match=r"no such column: 'd'"):
        TableFeatures(include=["d"]).fit(data)
    with pytest.raises(FeatureError, match="no column is left"):
        TableFeatures(include=[]).fit(data)


def test_wild_numbers_do_not_overflow() -> None:
    data = table(
        numbers("x", 1e308, -1e308, 5.0), numbers("y", 1e-320, 2e-320, 3e-320), numbers("z", 1e16, 1e16 + 2, 1)
    )
    features = TableFeatures().fit(data)
    X = dense(features, data)
    assert np.isfinite(X).all()
    assert np.abs(X).max() < 10
    far, _ = TableFeatures().fit(table(numbers("x", 0.0, 1.0))).transform(table(numbers("x", 1.7e308, -1e300)))
    np.testing.assert_array_equal(far, [[3], [-3]])


def test_wide_one_hot_is_sparse_and_equals_its_dense_form() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    many = texts("many", *[f"v{i}" for i in rng.integers(0, 800, n)])
    few = texts("few", *[None if i == 0 else f"w{i}" for i in rng.integers(0, 5, n)])
    data = table(numbers("x", *rng.normal(size=n)), many, few, numbers("gap", np.nan, *rng.normal(size=n - 1)))
    features = TableFeatures().fit(data)
    probe = table(
        numbers("x", 0.5, np.nan, 1),
        texts("many", "v1", "unknown", None),
        texts("few", None, "w2", "unknown"),
        numbers("gap", 1.0, np.nan, 2.0),
    )
    X, counts = features.transform(probe)
    assert isinstance(X, sparse.csr_array)
    assert X.has_sorted_indices
    features.sparse = False
    same, same_counts = features.transform(probe)
    assert isinstance(same, np.ndarray)
    np.testing.assert_array_equal(X.toarray(), same)
    assert counts == same_counts


def test_transform_tells_what_columns_are_missing_and_of_the_wrong_kind() -> None:
    features = TableFeatures().fit(table(numbers("a", 1, 2), texts("b", "x", "y"), numbers("c", 3, 4)))
    with pytest.raises(MissingColumns) as caught:
        features.transform(table(texts("b", "x")))
    assert caught.value.names == ("a", "c")
    with pytest.raises(FeatureError, match="column 'a': expected a finite number"):
        features.transform(table(texts("a", "x"), texts("b", "x"), numbers("c", 1)))
    _, counts = features.transform(table(numbers("a", 1), numbers("b", 1), numbers("c", 1)))
    assert counts.unseen == {"b": 1}  # the category "1"


def test_a_column_without_any_value_is_of_the_kind_that_the_model_wants() -> None:
    """A reader of files takes it for numbers, or a format that says its types says another one."""
    prose = [f"see the long note number {i}" for i in range(300)]
    days = [f"2026-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(300)]
    data = table(numbers("a", *range(300)), texts("day", *days), texts("note", *prose))
    features = TableFeatures().fit(data)
    assert {column["kind"] for column in features.columns} == {"number", "date", "text"}
    wanted, _ = features.transform(table(numbers("a", np.nan), texts("day", None), texts("note", None)))
    found, _ = features.transform(table(texts("a", None), numbers("day", np.nan), numbers("note", np.nan)))
    assert (found != wanted).sum() == 0
    for kind in ("day", "note"):
        one_value = [numbers(name, 1.0 if name == kind else np.nan) for name in ("a", "day", "note")]
        with pytest.raises(FeatureError, match=f"column '{kind}'"):
            features.transform(table(*one_value))


def test_columns_of_a_table_have_one_length() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        table(numbers("a", 1, 2), numbers("b", 1))


COLUMNS = [{"name": "age", "kind": "number"}, {"name": "job", "kind": "category"}]


def test_rows_become_a_table() -> None:
    rows = [
        {"age": 39, "job": "clerk", "town": "x"},
        {"job": 7, "age": None},
        {"age": True, "job": False, "zip": 1, "town": 2},
        {"age": 1.5, "job": None},
        {"age": 1, "job": 7.0},
        {"age": 1, "job": 0.25},
    ]
    made, extra = table_from_rows(rows, COLUMNS)
    np.testing.assert_array_equal(made.columns["age"].values, [39, np.nan, 1, 1.5, 1, 1])
    assert made.columns["job"].values.tolist() == ["clerk", "7", "false", None, "7", "0.25"]
    assert extra == ["town", "zip"]


@pytest.mark.parametrize("value", ["39 years", float("nan"), float("inf"), 10**400, [1], {}])
def test_bad_numbers_are_refused_by_place(value: object) -> None:
    with pytest.raises(BadValue) as caught:
        table_from_rows([{"age": 1, "job": "a"}, {"age": None, "job": "a"}, {"age": value, "job": "a"}], COLUMNS)
    assert (caught.value.row, caught.value.column) == (2, "age")
    assert "number" in caught.value.expected
    with pytest.raises(BadValue):
        table_from_rows([{"age": value, "job": "a"}], COLUMNS)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, ["a"], {}, b"a"])
def test_bad_categories_are_refused_by_place(value: object) -> None:
    with pytest.raises(BadValue) as caught:
        table_from_rows([{"age": 1, "job": "a"}, {"age": 1, "job": value}], COLUMNS)
    assert (caught.value.row, caught.value.column) == (1, "job")


@pytest.mark.parametrize("kinds", ["numbers", "numbers and gaps", "categories", "all", "wide"])
def test_rows_give_the_features_of_the_table_that_they_make(kinds: str) -> None:
    generator = np.random.default_rng(0)
    columns = {}
    if kinds != "categories":
        values = generator.normal(size=(300, 3))
        if kinds != "numbers":
            values[generator.random(values.shape) < 0.2] = np.nan
        columns = {f"x{j}": Column(f"x{j}", "number", values[:, j]) for j in range(3)}
    if kinds in ("categories", "all", "wide"):
        levels = 750 if kinds == "wide" else 4
        texts = [None if value % 5 == 0 else f"level {value % levels}" for value in range(1500)]
        for name in columns:
            columns[name] = Column(name, "number", np.resize(columns[name].values, len(texts)))
        columns["job"] = Column("job", "text", np.array(texts, dtype=object))
    table = Table(columns)
    features = TableFeatures().fit(table)
    assert features.sparse == (kinds == "wide")

    def cell(value: Any) -> Any:
        return None if value != value else value

    lists = [column.values.tolist() for column in columns.values()]
    rows = [dict(zip(columns, map(cell, values), strict=True)) for values in zip(*lists, strict=True)]
    if "job" in columns:
        rows[3]["job"] = "never seen"
        table.columns["job"].values[3] = "never seen"
    rows[1]["shoe"] = 43
    X, counts, extra = features.transform_rows(rows)
    expected, expected_counts = features.transform(table)
    assert (counts, extra) == (expected_counts, ["shoe"])
    as_dense = [made if isinstance(made, np.ndarray) else made.toarray() for made in (X, expected)]
    np.testing.assert_array_equal(*as_dense)
    one, _, _ = features.transform_rows(rows[:1])
    np.testing.assert_array_equal(one if isinstance(one, np.ndarray) else one.toarray(), as_dense[0][:1])


def test_one_row_becomes_what_it_becomes_among_others() -> None:
    features = TableFeatures().fit(table(numbers("x", 1.0, 2.0, 4.0), numbers("y", -1.0, 0.5, 3.0)))
    rows = [
        {"x": 1.5, "y": 2},
        {"x": None, "y": True},
        {"x": 1.7e308, "y": -1.7e308},
        {"x": 10**300, "y": 10**308},
        {"x": 5e5, "y": 0.1},
        {"x": 5e7, "y": 0.1},
    ]
    X, _, _ = features.transform_rows(rows)
    assert isinstance(X, np.ndarray)
    assert np.abs(X).max() == 3
    for row, expected in zip(rows, X, strict=True):
        alone, counts, _ = features.transform_rows([row])
        np.testing.assert_array_equal(alone, [expected])
        assert counts.missing == ({"x": 1} if row["x"] is None else {})


def test_rows_with_missing_columns_are_refused_by_name() -> None:
    with pytest.raises(MissingColumns) as caught:
        table_from_rows([{"age": 1, "job": "a"}, {"age": 1}], COLUMNS)
    assert caught.value.names == ("job",)


# -- state ---

floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
words = st.one_of(st.none(), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    n = draw(st.integers(2, 12))
    columns = {}
    for name in draw(st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            values = np.array(draw(st.lists(floats, min_size=n, max_size=n)), dtype=np.float64)
            columns[name] = Column(name, "number", values)
        else:
            column = np.empty(n, dtype=object)
            column[:] = draw(st.lists(words, min_size=n, max_size=n))
            columns[name] = Column(name, "text", column)
    return Table(columns)


@settings(deadline=None)
@given(tables())
def test_any_table_is_finite_and_survives_storing(data: Table) -> None:
    try:
        features = TableFeatures().fit(data)
    except FeatureError:
        return
    X, _ = features.transform(data)
    assert isinstance(X, np.ndarray)
    assert np.isfinite(X).all()
    assert X.shape == (data.n_rows, features.n_features) == (data.n_rows, len(features.feature_names))
    again = stored_and_read(features)
    X2, _ = again.transform(data)
    assert isinstance(X2, np.ndarray)
    assert X.tobytes() == X2.tobytes()
    assert (again.columns, again.feature_names) == (features.columns, features.feature_names)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("median", np.zeros(3)),
        ("scale", np.array([-1.0, 1.0])),
        ("scale", np.array([0.0, 1.0])),
        ("indicator", np.array([2, 0], dtype=np.uint8)),
        ("missing_level", np.array([2], dtype=np.uint8)),
        ("missing_level", np.array([], dtype=np.uint8)),
        ("level_counts", np.array([3], dtype=np.int64)),
        ("level_counts", np.array([-1], dtype=np.int64)),
        ("level_counts", np.array([1, 1], dtype=np.int64)),
        ("level_ends", np.array([1, 2**60], dtype=np.int64)),
        ("level_ends", np.array([-1, 2], dtype=np.int64)),
        ("level_ends", np.array([1, 1], dtype=np.int64)),
        ("level_text", np.frombuffer(b"\xff\xfe", dtype=np.uint8)),
        ("level_text", np.frombuffer(b"xx", dtype=np.uint8)),
        ("category_text", np.frombuffer(b"a", dtype=np.uint8)),
        ("number_ends", np.array([0, 2], dtype=np.int64)),
    ],
)
def test_lying_state_is_refused(part: str, value: NDArray[np.generic]) -> None:
    features = TableFeatures().fit(table(numbers("a", 1, 2), numbers("b", 1, 3), texts("c", "x", "y")))
    arrays, meta = features.state()
    TableFeatures.from_state(arrays, meta)
    if part == "number_ends":
        arrays["number_text"] = np.frombuffer(b"bc", dtype=np.uint8)  # "" and "bc": fine
        TableFeatures.from_state({**arrays, part: value}, meta)
        arrays["number_text"] = np.frombuffer(b"cc", dtype=np.uint8)
        value = np.array([1, 2], dtype=np.int64)  # "c" twice
    with pytest.raises(StateError):
        TableFeatures.from_state({**arrays, part: value}, meta)


# -- missing values and booleans ---


def test_missing_values_are_imputed_without_a_word_where_that_is_asked() -> None:
    data = table(numbers("age", 1, 2, 9, np.nan), texts("job", "cook", "clerk", "clerk", None))
    features = stored_and_read(TableFeatures(missing="impute").fit(data))
    assert features.feature_names == ["age", "job=clerk", "job=cook"]
    X, counts = features.transform(data)
    assert isinstance(X, np.ndarray)
    np.testing.assert_array_equal(X[:, 1:], [[0, 1], [1, 0], [1, 0], [1, 0]])
    assert X[3, 0] == X[1, 0]
    assert counts.warnings() == []


def test_missing_values_are_refused_by_place_where_that_is_asked() -> None:
    features = stored_and_read(
        TableFeatures(missing="error").fit(table(numbers("age", 1, 2, 9), texts("job", "cook", "clerk", "cook")))
    )
    for row in ({"age": None, "job": "cook"}, {"age": 1, "job": None}):
        with pytest.raises(BadValue, match="takes no missing") as caught:
            features.transform_rows([{"age": 1, "job": "cook"}, row])
        assert (caught.value.row, row[caught.value.column]) == (1, None)


def test_rows_that_lack_a_value_are_found() -> None:
    data = table(
        numbers("age", 1, np.nan, np.inf, 4), texts("job", "cook", "clerk", "clerk", None), texts("empty", *[None] * 4)
    )
    rows, counts = missing_values(data, None, [])
    assert rows.tolist() == [False, True, True, True]
    assert counts == {"age": 2, "job": 1}
    assert missing_values(data, None, ["job"])[1] == missing_values(data, ["age"], [])[1] == {"age": 2}
    for make in (np.array, sparse.csr_array):
        rows, counts = missing_values(MatrixData(make([[1.0, np.nan], [0.0, 2.0], [np.inf, np.nan]])), None, [])
        assert (rows.tolist(), counts) == ([True, False, True], {"matrix": 3})


@pytest.mark.parametrize(("true", "false"), [("TRUE", "FALSE"), ("True", "False"), ("true", "false")])
def test_booleans_of_files_are_those_of_json(true: str, false: str) -> None:
    features = stored_and_read(TableFeatures().fit(table(texts("paid", true, false, true))))
    X, counts, _ = features.transform_rows([{"paid": value} for value in (True, False, true, false, "TRUE", "false")])
    assert counts.unseen == {}
    np.testing.assert_array_equal(np.asarray(X)[:, features.feature_names.index(f"paid={true}")], [1, 0, 1, 0, 1, 0])


def test_state_from_before_dates_and_texts_is_understood() -> None:
    data = table(numbers("age", 1, 2, 9), texts("job", "cook", "clerk", None))
    features = TableFeatures().fit(data)
    arrays, meta = features.state()
    later = ("level_fill", "number_low", "number_high")
    old = {name: array for name, array in arrays.items() if name not in later}
    assert TableFeatures.array_types({"sparse": False}) == {name: array.dtype.name for name, array in old.items()}
    np.testing.assert_array_equal(dense(TableFeatures.from_state(old, {"sparse": False}), data), dense(features, data))
    for lie in ({"missing": "magic"}, {"missing": ["drop"]}, {"sparse": 1}):
        with pytest.raises(StateError):
            TableFeatures.from_state(arrays, {**meta, **lie})
    for fill in (np.array([2]), np.array([-2])):
        with pytest.raises(StateError):
            TableFeatures.from_state({**arrays, "level_fill": fill}, meta)


@pytest.mark.parametrize("rows", [1, 2])
def test_numbers_far_outside_those_of_the_training_are_said(rows: int) -> None:
    features = stored_and_read(TableFeatures().fit(table(numbers("x", 1.0, 2.0, 4.0), numbers("y", -1.0, 0.5, 3.0))))
    for value, far in ((4, False), (7, False), (-2, False), (7.1, True), (-2.1, True), (1e3, True), (-1e9, True)):
        _, counts, _ = features.transform_rows([{"x": value, "y": 0}, {"x": 2, "y": 0}][:rows])
        assert counts.far == ({"x": 1} if far else {}), value
        assert counts.far_rows == ([0] if far else [])
        assert any("column 'x': 1 row(s) hold a number far outside" in said for said in counts.warnings()) == far
    _, counts = features.transform(table(numbers("x", 1e9, 2.0, -1e9), numbers("y", 0.0, 1.0, 0.0)))
    assert (counts.far, counts.far_rows) == ({"x": 2}, [0, 2])


def test_numbers_are_cut_and_two_values_become_0_and_1() -> None:
    values = np.array([-40.0] + [0.0] * 9 + [1.0] * 9 + [41.0])
    data = table(numbers("x", *values), numbers("flag", *[5.0] * 19, 7.0), numbers("gaps", 0, 1, np.nan, *[1] * 17))
    features = stored_and_read(TableFeatures().fit(data))
    X = dense(features, data)
    standard = (values - values.mean()) / values.std()
    np.testing.assert_allclose(X[:, 0], np.clip(standard, -3, 3), rtol=1e-14)
    assert X[19, 0] == 3 < standard[19]
    np.testing.assert_array_equal(X[:, 1], [0] * 19 + [1])
    np.testing.assert_array_equal(X[:, 2:], [[0, 0], [1, 0], [1, 1], *[[1, 0]] * 17])
    wild, counts, _ = features.transform_rows([{"x": 60, "flag": -9, "gaps": 0.5}])
    np.testing.assert_array_equal(np.asarray(wild), [[3, -3, 0.5, 0]])
    assert counts.far == {"flag": 1}
    assert counts.furthest == {"flag": 7.0}
    assert "column 'flag': 1 row(s) hold a number far outside" in counts.warnings()[0]
    assert "(the furthest by 7 times their range)" in counts.warnings()[0]


@pytest.mark.parametrize("rows", [1, 2])
def test_models_from_before_numbers_were_cut_decide_as_before(rows: int) -> None:
    arrays, meta = TableFeatures().fit(table(numbers("x", 1.0, 2.0, 4.0))).state()
    del meta["cut"]
    old = TableFeatures.from_state(arrays, meta)
    X, _, _ = old.transform_rows([{"x": 1e3}, {"x": 1e9}][:rows])
    deviation = np.std([1.0, 2.0, 4.0])
    np.testing.assert_allclose(np.asarray(X)[:, 0], [(1e3 - 7 / 3) / deviation, 1e6][:rows], rtol=1e-12)
    for lie in (0, -1.0, "3", None, True, float("nan"), 1e9, [3.0]):
        with pytest.raises(StateError, match="'cut'"):
            TableFeatures.from_state(arrays, {**meta, "cut": lie})


def test_of_many_columns_with_wild_numbers_twenty_are_named() -> None:
    data = table(*(numbers(f"x{j}", 0.0, 1.0, 3.0) for j in range(25)))
    features = TableFeatures().fit(data)
    _, counts, _ = features.transform_rows(
        [{f"x{j}": 1e9 if j < 24 or row else 1 for j in range(25)} for row in (0, 1)]
    )
    said = counts.warnings()
    assert len(said) == 21
    assert said[0].startswith("column 'x0': 2 row(s)")
    assert said[20].startswith("5 more columns: row(s) hold a number far outside")
    more = FeatureCounts(far={"x0": 1}, furthest={"x0": 1e8}, unlike=2)
    counts.add(more)
    assert (counts.far["x0"], counts.furthest["x0"], counts.unlike) == (3, pytest.approx(1e9 / 3), 2)


def test_models_from_before_ranges_were_kept_say_nothing_of_them() -> None:
    arrays, meta = TableFeatures().fit(table(numbers("x", 1.0, 2.0, 4.0))).state()
    del meta["ranges"]
    old = TableFeatures.from_state({name: arrays[name] for name in TableFeatures.array_types(meta)}, meta)
    assert old.transform_rows([{"x": 1e9}])[1].far == {}
