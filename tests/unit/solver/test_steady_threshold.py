"""Thresholds of F and of costs on few calibration rows: what new rows say of them."""

from __future__ import annotations

import numpy as np
import pytest

from solver.evaluation import OperatingCurve, confusion, fit_sigmoid
from solver.evaluation.probability import Sigmoid
from solver.operating_point import Objective, choose_from_curve, choose_threshold
from solver.steady_threshold import cheapest, steady_position


def drawn(n: int, seed: int, share: float = 0.3, apart: float = 1.5):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    y[:4] = (True, True, False, False)
    return rng.normal(size=n) + apart * y, np.where(y, 1.0, -1.0)


def test_f1_on_new_rows_is_better_than_with_the_best_threshold_of_few_rows():
    new, truth = drawn(20_000, 999)
    gains = []
    for seed in range(60):
        scores, y = drawn(40, seed)
        f1 = [
            confusion(truth, new > choose_threshold(scores, y, Objective(), rule).threshold).f1
            for rule in ("auto", "f1max")
        ]
        gains.append(f1[0] - f1[1])
    assert np.mean(gains) > 2 * np.std(gains) / np.sqrt(len(gains))
    assert np.mean(gains) > 0.01


@pytest.mark.parametrize(("false_negative", "false_positive"), [(1.0, 10.0), (20.0, 1.0)])
def test_costs_on_new_rows_are_lower_and_seldom_above_those_of_no_model(false_negative, false_positive):
    new, truth = drawn(20_000, 999)
    objective = Objective(kind="cost", false_negative=false_negative, false_positive=false_positive)
    costs = {"auto": [], "f1max": []}
    for seed in range(60):
        scores, y = drawn(100, seed)
        for rule, found in costs.items():
            counts = confusion(truth, new > choose_threshold(scores, y, objective, rule).threshold)
            found.append(counts.cost(false_negative, false_positive) / counts.total)
    no_model = min(false_negative * np.mean(truth > 0), false_positive * np.mean(truth < 0))
    assert np.mean(costs["auto"]) < 0.95 * np.mean(costs["f1max"])
    assert np.mean(np.array(costs["auto"]) > 1.1 * no_model) < np.mean(np.array(costs["f1max"]) > 1.1 * no_model)
    assert np.mean(costs["auto"]) < no_model


def test_of_labels_drawn_at_random_far_less_is_claimed_and_paid_for():
    new, truth = drawn(20_000, 999, apart=0.0)
    cost = Objective(kind="cost", false_negative=1.0, false_positive=3.0)
    no_model = min(1.0 * np.mean(truth > 0), 3.0 * np.mean(truth < 0))
    claimed, paid = {"auto": [], "f1max": []}, {"auto": [], "f1max": []}
    for seed in range(60):
        scores, y = drawn(60, seed, apart=0.0)
        for rule in claimed:
            point = choose_threshold(scores, y, Objective(), rule)
            claimed[rule].append(point.counts.f1 - confusion(truth, new > point.threshold).f1)
            counts = confusion(truth, new > choose_threshold(scores, y, cost, rule).threshold)
            paid[rule].append(counts.cost(1.0, 3.0) / counts.total)
    assert np.mean(claimed["auto"]) < 0.5 * np.mean(claimed["f1max"])
    assert np.mean(paid["f1max"]) > 1.1 * no_model
    assert np.mean(paid["auto"]) < 1.02 * no_model


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize(("false_negative", "false_positive"), [(1.0, 10.0), (1.0, 3.0), (20.0, 1.0)])
def test_where_scores_tell_nothing_new_rows_cost_no_more_than_without_a_model(false_negative, false_positive, share):
    new, truth = drawn(20_000, 999, share, apart=0.0)
    objective = Objective(kind="cost", false_negative=false_negative, false_positive=false_positive)
    paid = []
    for seed in range(40):
        scores, y = drawn(60, seed, share, apart=0.0)
        counts = confusion(truth, new > choose_threshold(scores, y, objective).threshold)
        paid.append(counts.cost(false_negative, false_positive) / counts.total)
    no_model = min(false_negative * np.mean(truth > 0), false_positive * np.mean(truth < 0))
    assert np.mean(paid) < 1.05 * no_model


def test_with_rows_enough_both_are_the_best_threshold():
    scores, y = drawn(30_000, 3)
    curve = OperatingCurve.from_scores(scores, y)
    assert steady_position(curve) == int(np.argmax(curve.f_beta()))
    scores, y = drawn(15_000, 3)
    curve = OperatingCurve.from_scores(scores, y)
    assert curve.f_beta()[steady_position(curve)] > curve.f_beta().max() - 0.002
    threshold, _ = cheapest(curve, 3.0, 1.0, fit_sigmoid(scores, y))
    paid = np.sum(3.0 * ((scores <= threshold) & (y > 0)) + ((scores > threshold) & (y < 0)))
    assert paid < 1.01 * curve.cost(3.0, 1.0).min()


def test_scores_that_tell_the_classes_apart_are_parted_between_them():
    scores, y = np.array([3.0, 2.5, 2.0, -1.0, -1.5, -2.0, -2.5, -3.0]), np.array([1, 1, 1, -1, -1, -1, -1, -1])
    point = choose_threshold(scores, y, Objective())
    assert point.counts.f1 == 1.0
    assert -1.0 < point.threshold < 2.0


def test_the_threshold_of_a_cost_is_where_the_probability_says_so():
    scores, y = drawn(400, 5)
    curve, sigmoid = OperatingCurve.from_scores(scores, y), fit_sigmoid(scores, y)
    threshold, position = cheapest(curve, 1.0, 4.0, sigmoid)
    assert float(sigmoid(threshold)) == pytest.approx(0.8, abs=0.03)
    assert curve.counts(position).true_positives == int(np.sum((scores > threshold) & (y > 0)))
    # twice as dear, twice as dear: only the ratio counts
    assert cheapest(curve, 10.0, 40.0, sigmoid) == (threshold, position)


def test_beyond_all_rows_the_probability_says_how_far():
    scores, y = drawn(60, 8)
    curve, sigmoid = OperatingCurve.from_scores(scores, y), fit_sigmoid(scores, y)
    none, position = cheapest(curve, 1.0, 1e6, sigmoid)
    assert (position, none > scores.max() + 1) == (0, True)
    every, position = cheapest(curve, 1e6, 1.0, sigmoid)
    assert (position, every < scores.min() - 1) == (len(curve) - 1, True)


@pytest.mark.parametrize(("offset", "is_called"), [(3.0, True), (-3.0, False)])
def test_scores_that_tell_nothing_decide_alike_for_all(offset, is_called):
    scores = np.linspace(-1, 1, 20)
    y = np.where(np.arange(20) % 2, 1.0, -1.0)
    y[:2] = 1.0 if is_called else -1.0
    threshold, _ = cheapest(OperatingCurve.from_scores(scores, y), 1.0, 1.0, Sigmoid(0.0, offset))
    assert np.all((scores > threshold) == is_called)


def test_calling_all_or_none_is_taken_where_that_is_cheaper_on_the_rows():
    # the sigmoid trusts scores that are wrong way round at the end that counts
    scores, y = np.array([4.0, 3.0, 2.0, 1.0, 0.0, -1.0]), np.array([-1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    curve = OperatingCurve.from_scores(scores, y)
    threshold, position = cheapest(curve, 1.0, 2.0, Sigmoid(5.0, 0.0))
    assert (position, threshold > scores.max()) == (0, True)


def test_a_curve_has_one_answer_and_scores_and_curve_have_the_same():
    scores, y = drawn(80, 11)
    curve = OperatingCurve.from_scores(scores, y)
    for objective in (Objective(), Objective(kind="f_beta", beta=2.0)):
        point = choose_threshold(scores, y, objective)
        assert point == choose_threshold(scores, y, objective) == choose_from_curve(curve, objective)
    objective = Objective(kind="cost", false_negative=1.0, false_positive=3.0)
    assert choose_threshold(scores, y, objective) == choose_from_curve(curve, objective, "auto", fit_sigmoid(scores, y))
    assert choose_from_curve(curve, objective) == choose_from_curve(curve, objective, "f1max")


@pytest.mark.parametrize("seed", range(20))
def test_few_rows_and_ties_have_an_answer(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    scores, y = rng.integers(0, 3, n).astype(float), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[0] = 1.0
    point = choose_threshold(scores, y, Objective())
    assert point.counts == confusion(y, scores > point.threshold)
    objective = Objective(kind="cost", false_negative=1.0, false_positive=9.0)
    point = choose_threshold(scores, y, objective)
    assert point.counts == confusion(y, scores > point.threshold)
