"""Tests between classifiers, and probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import _SigmoidCalibration
from sklearn.metrics import brier_score_loss

from solver.evaluation import (
    ConfusionCounts,
    brier_score,
    confusion,
    fit_sigmoid,
    paired_bootstrap,
    reliability_curve,
)
from solver.report import ReliabilityBin

three = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=60).map(
    lambda rows: [np.array(column) for column in zip(*rows, strict=True)]
)


@given(three)
def test_paired_bootstrap_of_a_classifier_with_itself_is_zero(rows):
    y, first, second = rows
    itself = paired_bootstrap(y, first, first, lambda c: c.f1, draws=50)
    assert (itself.gain, itself.standard_error, itself.low, itself.high) == (0, 0, 0, 0)
    there = paired_bootstrap(y, first, second, lambda c: c.f1, draws=50)
    back = paired_bootstrap(y, second, first, lambda c: c.f1, draws=50)
    assert there.gain == pytest.approx(confusion(y, first).f1 - confusion(y, second).f1)
    assert there.gain == -back.gain


def test_paired_bootstrap_finds_the_standard_error_of_a_mean():
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.5
    first, second = np.where(rng.random(500) < 0.1, ~y, y), np.where(rng.random(500) < 0.2, ~y, y)
    accuracy = lambda c: (c.true_positives + c.true_negatives) / c.total  # noqa: E731
    found = paired_bootstrap(y, first, second, accuracy, draws=4000)
    differences = (first == y).astype(float) - (second == y)
    assert found.gain == pytest.approx(differences.mean())
    assert found.standard_error == pytest.approx(differences.std() / np.sqrt(500), rel=0.05)
    assert found.low < found.gain < found.high
    assert found == paired_bootstrap(y, first, second, accuracy, draws=4000)


@pytest.mark.parametrize("seed", range(5))
def test_sigmoid_agrees_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(200) < 0.3, 1, -1)
    scores = rng.normal(size=200) * 3 + y + 5
    mine = fit_sigmoid(scores, y)
    theirs = _SigmoidCalibration().fit(scores, y)
    np.testing.assert_allclose(mine(scores), theirs.predict(scores), atol=1e-3)
    assert brier_score(y, mine(scores)) == pytest.approx(brier_score_loss(y > 0, mine(scores)))


def test_sigmoid_keeps_the_order_and_stays_off_the_ends():
    scores = np.array([-2.0, -1.0, 1.0, 2.0])
    separable = fit_sigmoid(scores, [-1, -1, 1, 1])
    assert np.all(np.diff(separable(scores)) > 0)
    assert 0.05 < separable(scores)[0] < 0.5 < separable(scores)[-1] < 0.95
    inverted = fit_sigmoid(scores, [1, 1, -1, -1])
    assert inverted.slope == 0
    assert inverted(scores) == pytest.approx(np.full(4, 0.5))
    flat = fit_sigmoid(np.zeros(5), [1, 1, -1, -1, -1])
    assert flat(0.0) == pytest.approx(0.4, abs=0.05)
    with pytest.raises(ValueError, match="both classes"):
        fit_sigmoid(scores, [1, 1, 1, 1])


def test_probabilities_of_a_true_sigmoid_are_reliable():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000) * 2
    truth = rng.random(20_000) < 1 / (1 + np.exp(-(1.5 * scores - 1)))
    sigmoid = fit_sigmoid(scores, truth)
    assert sigmoid.slope == pytest.approx(1.5, rel=0.05)
    assert sigmoid.offset == pytest.approx(-1, rel=0.1)
    curve = reliability_curve(truth, sigmoid(scores))
    assert sum(point.n for point in curve) == 20_000
    assert len(curve) == 10
    for point in curve:
        assert point.observed == pytest.approx(point.predicted, abs=0.03)


def test_reliability_of_tied_probabilities_is_one_bin():
    assert reliability_curve([1, -1, 1, -1], [0.5] * 4) == [ReliabilityBin(n=4, predicted=0.5, observed=0.5)]


def test_mismatched_lengths_are_refused():
    with pytest.raises(ValueError, match="one length"):
        paired_bootstrap([1, -1], [True, False], [True], ConfusionCounts.f_beta)
    with pytest.raises(ValueError, match="no row"):
        paired_bootstrap([], [], [], ConfusionCounts.f_beta)
