"""One value far from all others of its column does not hide what the others differ by, and is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import sparse

from solver.features import Column, MatrixData, MatrixFeatures, Table, TableFeatures
from solver.features.normal_scores import NormalScores, find_knots
from solver.features.wild_values import find_wild, may_be_wild, moments
from solver.training import TrainingRequest, train

MAKERS = pytest.mark.parametrize("make", [np.array, sparse.csr_array])
WILD = pytest.mark.parametrize("wild", [1e6, -1e6, 1e300, -1.7e308])


def some_columns(n: int = 700) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    return {
        "normal": rng.normal(50, 10, n),
        "counts": rng.poisson(2, n).astype(float),
        "rare": np.where(rng.random(n) < 0.03, rng.integers(1, 5, n), 0).astype(float),
        "flag": (rng.random(n) < 0.3).astype(float),
        "skewed": np.exp(rng.normal(size=n)),
        "tail": rng.laplace(size=n),
        "long tail": np.exp(1.5 * rng.normal(size=n)),
        "constant but one": np.append(np.full(n - 1, 5.0), 1e6),
    }


def as_table(columns: dict[str, NDArray[np.float64]]) -> Table:
    return Table({name: Column(name, "number", values) for name, values in columns.items()})


def dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


@WILD
@pytest.mark.parametrize("name", ["normal", "counts", "rare", "flag", "skewed", "tail"])
def test_the_others_of_a_table_become_what_they_would_without_it(name: str, wild: float) -> None:
    without = some_columns()[name][1:]
    column = np.append(wild, without)
    features = TableFeatures().fit(as_table({name: column}))
    X = dense(features.transform(as_table({name: column}))[0])
    plain = dense(TableFeatures().fit(as_table({name: without})).transform(as_table({name: without}))[0])
    np.testing.assert_allclose(X[1:], plain, rtol=1e-9, atol=1e-9)
    assert X[0, 0] == np.copysign(3, wild)
    (said,) = features.warnings
    assert said.startswith(f"column {name!r}: 1 value is far from all others ({wild:.6g}, where they lie between ")
    assert "it counts as " in said


@WILD
@MAKERS
@pytest.mark.parametrize("name", ["normal", "counts", "rare", "flag", "skewed", "tail"])
def test_the_others_of_a_matrix_become_what_they_would_without_it(
    make: Callable[[Any], Any], name: str, wild: float
) -> None:
    without = np.column_stack([some_columns()[name][1:], np.zeros(699)])
    raw = np.vstack([[wild, 0.0], without])
    features = MatrixFeatures().fit(MatrixData(make(raw)))
    X = dense(features.transform(MatrixData(make(raw)))[0])
    plain = dense(MatrixFeatures().fit(MatrixData(make(without))).transform(MatrixData(make(without)))[0])
    np.testing.assert_allclose(X[1:], plain, rtol=1e-9, atol=1e-9)
    assert (X[0, 0] >= X[:, 0].max()) if wild > 0 else (X[0, 0] <= X[:, 0].min())
    assert features.warnings[-1].startswith(f"column '1': 1 value is far from all others ({wild:.6g}, where they lie ")


@MAKERS
def test_columns_as_they_come_stay_as_they_were(make: Callable[[Any], Any]) -> None:
    columns = some_columns()
    arrays, _ = TableFeatures().fit(as_table(columns)).state()
    raw = np.column_stack(list(columns.values()))
    matrix = MatrixFeatures().fit(MatrixData(make(raw)))
    for j, (name, values) in enumerate(columns.items()):
        two = len(np.unique(values)) == 2
        knots = find_knots(values)
        scores = values if knots is None else NormalScores([0], [knots]).of_column(0, values)
        mean, scale = (values.min(), np.ptp(values)) if two else (scores.mean(), scores.std())
        assert (arrays["mean"][j], arrays["scale"][j]) == pytest.approx((mean, scale), rel=1e-12), name
        mean, scale = values.mean(), values.std()
        assert matrix.limits[0][j] == pytest.approx(1 / (values.max() if two else scale), rel=1e-12), name
    assert matrix.warnings == []


@MAKERS
def test_columns_of_a_matrix_that_are_nowhere_zero(make: Callable[[Any], Any]) -> None:
    years = np.random.default_rng(0).integers(2000, 2020, 300).astype(float)
    for years_and_one in (np.append(years, 1e5), np.append(years, 0.0), -np.append(years, 1e5), -np.append(years, 0.0)):
        raw = years_and_one[:, None]
        features = MatrixFeatures().fit(MatrixData(make(raw)))
        X = dense(features.transform(MatrixData(make(raw)))[0])[:, 0]
        assert X[:-1].std() == pytest.approx(1)
        (said,) = features.warnings
        counts_as = float(said.rsplit(" ", 1)[1])
        toward = 1 if years_and_one[-1] > years_and_one[0] else -1
        assert counts_as == pytest.approx(years_and_one[:-1].mean() + 3 * toward * years.std(), rel=1e-5)


def test_of_many_columns_twenty_are_named_and_missing_values_stay_missing() -> None:
    normal = some_columns()["normal"]
    normal[0], normal[1] = 1e6, np.nan
    features = TableFeatures().fit(as_table({f"x{j}": normal for j in range(25)}))
    assert len(features.warnings) == 21
    assert features.warnings[0].endswith("if it stands for no value at all, leave it empty")
    assert features.warnings[20] == "5 more columns: values that are far from all others"
    assert features.feature_names[25] == "x0 is missing"


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.one_of(finite, st.sampled_from([0.0, 1.0, 1e-320, 1e300]))),
    st.booleans(),
)
def test_any_numbers_are_looked_at_without_overflow(values: NDArray[np.float64], has_gaps: bool) -> None:
    gaps = len(values) + 1 if has_gaps else 0
    with np.errstate(all="raise", under="ignore"):
        found = find_wild(values, gaps)
    if found is not None:
        wild, ordinary = found
        assert wild.low <= wild.high
        assert not wild.low <= wild.furthest <= wild.high
        assert wild.count == np.count_nonzero(~ordinary) <= max(1, (len(values) + gaps) // 50)
        mean, deviation = moments(values, gaps)
        with np.errstate(over="ignore"):
            furthest = np.abs(values - mean).max()
        assert may_be_wild(len(values) + gaps, furthest, deviation), "not looked at, though it has a wild value"


def test_a_training_with_one_slip_a_column_finds_what_one_without_does() -> None:
    rng = np.random.default_rng(5)
    labels = rng.random(260) < 0.4
    X = rng.normal(labels[:, None] * 2.0, 1.0, (260, 3))
    slips = X.copy()
    slips[[3, 60, 140], [0, 1, 2]] = 1e6
    y = np.where(labels, "a", "b").astype(object)
    y[150:] = None
    request = TrainingRequest(algorithm="svm", seed=1, test_fraction=0.0, refit=False, target="label", positive="a")
    for rows in (
        MatrixData(slips),
        MatrixData(sparse.csr_array(slips)),
        as_table(dict(zip("xyz", slips.T, strict=True))),
    ):
        trained = train(rows, y, request)
        right = np.array(trained.model.predict(rows).labels)[150:] == np.where(labels, "a", "b")[150:]
        assert right.mean() > 0.93
        assert sum("1 value is far from all others (1e+06" in said for said in trained.report.warnings) == 3
