"""Columns with a long tail become normal scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.metrics import roc_auc_score

from solver.features import Column, StateError, Table, TableFeatures
from solver.features.normal_scores import KNOTS, NormalScores, find_knots
from solver.onnx_export import onnx_model
from solver.training import TrainingRequest, train

RNG = np.random.default_rng(7)
INCOMES = np.round(np.exp(RNG.normal(size=400) * 1.5) * 100)
MOSTLY_ZERO = np.where(RNG.random(400) < 0.8, 0.0, RNG.gamma(1.0, 3.0, 400))
EVEN = RNG.normal(size=400)


def table(**columns: Any) -> Table:
    return Table({name: Column(name, "number", np.asarray(values, float)) for name, values in columns.items()})


def stored_and_read(features: TableFeatures) -> TableFeatures:
    arrays, meta = features.state()
    return TableFeatures.from_state(arrays, json.loads(json.dumps(meta)))


@pytest.mark.parametrize("values", [INCOMES, MOSTLY_ZERO, -INCOMES])
def test_scores_are_those_of_midranks(values: np.ndarray) -> None:
    knots = find_knots(values)
    assert knots is not None
    assert len(knots.values) <= 2 * KNOTS
    found = NormalScores([0], [knots]).of_column(0, values)
    expected = norm.ppf((rankdata(values) - 0.5) / len(values))
    assert np.abs(found - expected).max() < 0.15  # interpolated between knots
    at_knots = np.isin(values, knots.values)
    np.testing.assert_allclose(found[at_knots], expected[at_knots], atol=1e-9)
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


@pytest.mark.parametrize("values", [EVEN, np.ones(9), np.array([0.0] * 30 + [1.0]), np.array([-1e308, 0, 0, 0, 1e308])])
def test_what_is_not_skewed_or_has_two_values_stays(values: np.ndarray) -> None:
    assert find_knots(values) is None


def test_features_are_standardised_scores_and_the_same_at_every_door() -> None:
    data = table(income=INCOMES, even=EVEN, spent=MOSTLY_ZERO)
    features = stored_and_read(TableFeatures().fit(data))
    X = np.asarray(features.transform(data)[0])
    np.testing.assert_allclose(X[:, [0, 2]].mean(axis=0), 0, atol=0.02)  # but for the cut
    np.testing.assert_allclose(X[:, 1], np.clip((EVEN - EVEN.mean()) / EVEN.std(), -3, 3), rtol=1e-12)
    rows = [{"income": a, "even": b, "spent": c} for a, b, c in zip(INCOMES, EVEN, MOSTLY_ZERO, strict=True)]
    for i in range(0, 400, 37):
        alone = np.asarray(features.transform_rows(rows[i : i + 1])[0])
        np.testing.assert_array_equal(alone[0], X[i])


def test_what_is_far_outside_is_said_in_ranges_of_the_column() -> None:
    features = TableFeatures().fit(table(income=INCOMES, even=EVEN))
    least, greatest = INCOMES.min(), INCOMES.max()
    width = greatest - least
    for value, ranges in ((greatest + 0.99 * width, 0), (greatest + 4 * width, 4.0), (least - 2 * width, 2.0)):
        for rows in ([{"income": value, "even": 0.0}], [{"income": value, "even": 0.0}] * 2):
            counts = features.transform_rows(rows)[1]
            assert counts.far == ({"income": len(rows)} if ranges else {})
            assert counts.furthest.get("income", 0) == pytest.approx(ranges)


def test_a_wild_value_is_said_in_the_units_of_the_column() -> None:
    values = np.append(INCOMES[:300], 1e9)
    features = TableFeatures().fit(table(income=values, even=EVEN[:301]))
    said = [each for each in features.warnings if "far from all others" in each]
    assert len(said) == 1
    counts_as = float(said[0].split("it counts as ")[1].split(";")[0])
    assert INCOMES[:300].max() / 2 < counts_as < 1e6


def test_onnx_has_the_same_scores() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    data = table(income=INCOMES, even=EVEN, spent=np.where(RNG.random(400) < 0.1, np.nan, MOSTLY_ZERO))
    y = np.where(INCOMES + 300 * EVEN > 150, "1", "0").astype(object)
    y[120:] = None
    request = TrainingRequest(algorithm="svm", seed=0, test_fraction=0.0, refit=False, target="label")
    model = train(data, y, request).model
    session = onnxruntime.InferenceSession(onnx_model(model))
    new = table(income=[*INCOMES[:50], 1e7, -5, 0], even=[*EVEN[:53]], spent=[*MOSTLY_ZERO[:52], np.nan])
    expected = model.decision.decision_function(model.feature_matrix(new)[0])
    given = {name: column.values.reshape(-1, 1) for name, column in new.columns.items()}
    found = dict(zip([each.name for each in session.get_outputs()], session.run(None, given), strict=True))
    np.testing.assert_allclose(np.ravel(found["score"]), expected, atol=1e-9)


def test_a_class_that_differs_where_most_values_lie_is_learned_and_noise_is_not() -> None:
    n = 900
    rng = np.random.default_rng(3)
    positive = rng.random(n) < 0.4
    # Nearly all lies below 10 % of what the tail reaches.
    value = np.where(positive, 2.0, 1.0) * np.exp(rng.normal(size=n) * 0.5) + np.where(rng.random(n) < 0.05, 60, 0)
    data, y = table(value=value), np.where(positive, "1", "0").astype(object)
    y[100:] = None
    request = TrainingRequest(algorithm="svm", seed=0, test_fraction=0.0, refit=False, target="label")

    def ranked(labels: Any) -> float:
        model = train(data, labels, request).model
        scores = model.decision.decision_function(model.feature_matrix(data)[0])
        return float(roc_auc_score(positive[100:], scores[100:]))

    assert ranked(y) > 0.75
    at_random = []
    for _ in range(16):
        labels = y.copy()
        labels[:100] = rng.permutation(y[:100])
        at_random.append(ranked(labels))
    # One column ranks the rows in one direction or in the other, whichever chance takes.
    assert abs(np.mean(at_random) - 0.5) < 2.5 * np.std(at_random) / 16**0.5


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("skewed", [0, 0]),
        ("skewed", [0, 9]),
        ("knot_counts", [1, 2]),
        ("knots", None),
        ("knot_scores", None),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(part: str, value: list[int] | None) -> None:
    arrays, meta = TableFeatures().fit(table(income=INCOMES, spent=MOSTLY_ZERO)).state()
    lie = arrays[part][::-1].copy() if value is None else np.array(value)
    with pytest.raises(StateError):
        TableFeatures.from_state({**arrays, part: lie}, meta)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize("part", ["knots", "knot_scores"])
def test_knots_that_are_no_numbers_are_refused(part: str, at: int, value: float) -> None:
    arrays, meta = TableFeatures().fit(table(income=INCOMES)).state()
    lie = arrays[part].copy()
    lie[at] = value
    with pytest.raises(StateError):
        TableFeatures.from_state({**arrays, part: lie}, meta)
