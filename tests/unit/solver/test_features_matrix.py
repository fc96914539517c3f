"""Matrices → features: zeros stay zeros, the form is kept, narrower and wider matrices are understood."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import sparse

from solver.features import BadValue, FeatureError, MatrixData, MatrixFeatures, StateError, matrix_from_rows

X = np.array([[1.0, 0.0, -4.0, 0.0], [0.5, 0.0, 2.0, 3.0]])


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_columns_are_divided_by_their_largest_size(make: type) -> None:
    data = MatrixData(make(X))
    features = MatrixFeatures().fit(data)
    Z, counts = features.transform(data)
    assert isinstance(Z, np.ndarray) == (make is np.array)
    values = Z if isinstance(Z, np.ndarray) else Z.toarray()
    np.testing.assert_array_equal(values, [[1, 0, -1, 0], [0.5, 0, 0.5, 1]])
    assert counts.warnings() == []
    assert features.warnings == ["1 of 4 matrix columns are excluded or zero in training"]
    assert features.feature_names == ["1", "2", "3", "4"]


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_columns_are_scaled_by_their_deviation_and_cut(make: type) -> None:
    rng = np.random.default_rng(0)
    counts = np.where(rng.random(500) < 0.4, rng.integers(1, 9, 500), 0).astype(float)
    counts[7] = 90.0
    years = rng.integers(2000, 2020, 500).astype(float)
    flags = (rng.random(500) < 0.01).astype(float)
    raw = np.column_stack([counts, years, flags, -years])
    features = MatrixFeatures().fit(MatrixData(make(raw)))
    arrays, meta = features.state()
    for applied in (features, MatrixFeatures.from_state(arrays, json.loads(json.dumps(meta)))):
        Z, said = applied.transform(MatrixData(make(raw)))
        values = Z if isinstance(Z, np.ndarray) else Z.toarray()
        centre, size = raw.mean(axis=0) / raw.std(axis=0), raw.std(axis=0)
        np.testing.assert_allclose(values[:, 0], np.minimum(counts / size[0], centre[0] + 3), rtol=1e-12)
        assert counts[7] / size[0] > values[7, 0] == values[:, 0].max()
        # zero is beyond the cut of the years, so that this is what becomes 0
        np.testing.assert_allclose(values[:, 1], years / size[1] - (centre[1] - 3), rtol=1e-9)
        np.testing.assert_allclose(values[:, 3], -values[:, 1], rtol=1e-9)
        np.testing.assert_array_equal(values[:, 2], flags)
        assert said.far == {}
        assert not isinstance(Z, sparse.csr_array) or Z.nnz <= np.count_nonzero(raw)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_values_far_outside_those_of_the_training_are_counted(
    make: type, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solver.features.matrix_scales._BLOCK_ELEMENTS", block)
    raw = np.array(
        [[1.0, 2000, 0, 0], [3.0, 2010, 0, 0], [2.0, 2004, 1, 0], *[[2.0, 2001, 0, 0]] * 19, [2, 2004, 0, 7]]
    )
    features = MatrixFeatures().fit(MatrixData(make(raw)))
    arrays, meta = features.state()
    features = MatrixFeatures.from_state(arrays, json.loads(json.dumps(meta)))
    asked = np.array([[5.0, 2010, 1, 0], [5.5, 2020, 1, 1e9], [2, 0, 1, 0], [-21, 2004, 1, 7]])
    Z, counts = features.transform(MatrixData(make(asked)))
    # the columns 3 and 4 are rarely anything but zero: no value of theirs is called far
    assert counts.far == {"1": 2, "2": 1}
    assert counts.furthest == {"1": 11.0, "2": 200.0}
    assert counts.far_rows == [1, 2, 3]
    assert [said.split(":")[0] for said in counts.warnings()] == ["column '1'", "column '2'"]
    assert (Z if isinstance(Z, np.ndarray) else Z.toarray())[2, 1] == 0
    again, _ = features.transform(matrix_from_rows([{"1": 2, "3": 1}], 1, 4)[0])
    np.testing.assert_array_equal(again if isinstance(again, np.ndarray) else again.toarray(), [[*_row(Z, 2)]])


def _row(Z: NDArray[np.float64] | sparse.csr_array, row: int) -> NDArray[np.float64]:
    return (Z if isinstance(Z, np.ndarray) else Z.toarray())[row]


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_models_from_before_columns_were_cut_decide_as_before(make: type) -> None:
    meta = {"sparse": make is not np.array, "first_index": 1}
    assert MatrixFeatures.array_types(meta) == {"factor": "float64"}
    old = MatrixFeatures.from_state({"factor": np.array([0.5, 2.0, 0.0])}, meta)
    Z, counts = old.transform(MatrixData(make([[1.0, -1e9, 5.0], [1e5, 0.0, 0.0]])))
    np.testing.assert_array_equal(Z if isinstance(Z, np.ndarray) else Z.toarray(), [[0.5, -1e6, 0], [5e4, 0, 0]])
    assert counts.far == {}
    assert old.state()[1] == meta


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_columns_unknown_to_training_are_ignored(make: type) -> None:
    features = MatrixFeatures().fit(MatrixData(make(X)))
    wide, counts = features.transform(MatrixData(make([[1.0, 9.0, 0.0, 0.0, 0.0, 7.0]])))
    narrow, _ = features.transform(MatrixData(make([[1.0, 9.0]])))
    for Z in (wide, narrow):
        np.testing.assert_array_equal(Z if isinstance(Z, np.ndarray) else Z.toarray(), [[1, 0, 0, 0]])
    assert counts.extra == 1
    assert "1 matrix entries" in counts.warnings()[0]


def test_form_of_the_fitted_matrix_is_kept() -> None:
    dense_fit = MatrixFeatures().fit(MatrixData(X))
    sparse_fit = MatrixFeatures().fit(MatrixData(sparse.csr_array(X)))
    a, _ = dense_fit.transform(MatrixData(sparse.csr_array(X)))
    b, _ = sparse_fit.transform(MatrixData(X))
    assert isinstance(a, np.ndarray)
    assert isinstance(b, sparse.csr_array)
    np.testing.assert_array_equal(a, b.toarray())


def test_integers_and_what_is_not_finite() -> None:
    extreme = np.array([[-128, 0], [127, 5]], dtype=np.int8)
    Z, _ = MatrixFeatures().fit(MatrixData(extreme)).transform(MatrixData(extreme))
    np.testing.assert_array_equal(Z, [[-1, 0], [127 / 128, 1]])
    for make in (np.array, sparse.csr_array):
        holes = MatrixData(make([[np.nan, 2.0], [np.inf, 4.0], [8.0, 1.0]]))
        features = MatrixFeatures().fit(holes)
        assert features.warnings == ["2 entries are not finite and count as zero"]
        Z, counts = features.transform(holes)
        deviation = np.std([2.0, 4.0, 1.0])
        wanted = [[0, 2 / deviation], [0, 4 / deviation], [1, 1 / deviation]]
        np.testing.assert_allclose(Z if isinstance(Z, np.ndarray) else Z.toarray(), wanted, rtol=1e-14)
        assert counts.extra == 2
        assert np.isnan(holes.X if isinstance(holes.X, np.ndarray) else holes.X.data).sum() == 1  # input untouched


def test_include_and_exclude_go_by_number() -> None:
    features = MatrixFeatures(include=["1", "3"], exclude=["3"]).fit(MatrixData(X))
    Z, _ = features.transform(MatrixData(X))
    np.testing.assert_array_equal(Z, [[1, 0, 0, 0], [0.5, 0, 0, 0]])
    zero_based = MatrixFeatures(include=["0"]).fit(MatrixData(X, first_index=0))
    np.testing.assert_array_equal(zero_based.transform(MatrixData(X))[0], Z)
    for name in ("0", "5", "x", "01", "-1", "1" * 5000, "²"):
        with pytest.raises(FeatureError, match="no such column"):
            MatrixFeatures(exclude=[name]).fit(MatrixData(X))
    with pytest.raises(FeatureError, match="no column is left"):
        MatrixFeatures(include=["2"]).fit(MatrixData(X))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_matrices_are_refused(shape: tuple[int, int]) -> None:
    for empty in (np.zeros(shape), sparse.csr_array(shape)):
        with pytest.raises(FeatureError, match="empty"):
            MatrixFeatures().fit(MatrixData(empty))


def test_rows_become_a_sparse_matrix() -> None:
    data, extra = matrix_from_rows([{"3": 2, "1": 0.5, "x": 1}, {}, {"4": True, "5": 1}], 1, 4)
    assert isinstance(data.X, sparse.csr_array)
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    assert extra == ["5", "x"]


@pytest.mark.parametrize("value", [None, "1", float("nan"), 10**400, [1]])
def test_bad_values_are_refused_by_place(value: object) -> None:
    with pytest.raises(BadValue) as caught:
        matrix_from_rows([{"1": 1}, {"2": value}], 1, 4)
    assert (caught.value.row, caught.value.column) == (1, "2")


@settings(deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)), st.booleans())
def test_any_matrix_is_finite_and_survives_storing(values: NDArray[np.float64], as_sparse: bool) -> None:
    data = MatrixData(sparse.csr_array(values) if as_sparse else values)
    try:
        features = MatrixFeatures().fit(data)
    except FeatureError:
        return
    Z, _ = features.transform(data)
    dense = Z if isinstance(Z, np.ndarray) else Z.toarray()
    assert np.isfinite(dense).all()
    assert dense.shape == values.shape
    arrays, meta = features.state()
    again, _ = MatrixFeatures.from_state(arrays, json.loads(json.dumps(meta))).transform(data)
    assert dense.tobytes() == (again if isinstance(again, np.ndarray) else again.toarray()).tobytes()


@pytest.mark.parametrize(
    ("factor", "meta"),
    [
        (np.array([]), {"sparse": True, "first_index": 1}),
        (np.array([-1.0]), {"sparse": True, "first_index": 1}),
        (np.array([1.0]), {"sparse": 1, "first_index": 1}),
        (np.array([1.0]), {"sparse": True, "first_index": 10**30}),
        (np.array([1.0]), {"sparse": True, "first_index": True}),
        (np.array([1.0]), {}),
    ],
)
def test_lying_state_is_refused(factor: NDArray[np.float64], meta: dict[str, object]) -> None:
    with pytest.raises(StateError):
        MatrixFeatures.from_state({"factor": factor}, meta)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("limit_low", np.array([-3.0])),
        ("limit_high", np.array([3.0, -4.0])),
        ("low", np.array([5.0, 5.0])),
        ("high", np.array([1.0, 1.0, 1.0])),
    ],
)
def test_lying_limits_are_refused(name: str, array: NDArray[np.float64]) -> None:
    arrays, meta = MatrixFeatures().fit(MatrixData(np.array([[1.0, 4.0], [2.0, 0.0], [4.0, 1.0]]))).state()
    assert MatrixFeatures.array_types(meta).keys() == arrays.keys()
    with pytest.raises(StateError):
        MatrixFeatures.from_state(arrays | {name: array}, meta)
