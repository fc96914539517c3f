import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from sklearn.metrics import f1_score, fbeta_score, precision_score, recall_score

from solver.evaluation import (
    ConfusionCounts,
    OperatingCurve,
    clopper_pearson_lower,
    confusion,
    f1_interval,
    measures,
    stratified_folds,
    stratified_halves,
    wilson,
)


@given(st.lists(st.tuples(st.sampled_from([-1, 1]), st.booleans()), min_size=1, max_size=40))
def test_counts_agree_with_scikit_learn(rows):
    y, predicted = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    counts = confusion(y, predicted)
    assert counts.total == len(rows)
    labels = np.where(predicted, 1, -1)
    assert counts.precision == pytest.approx(precision_score(y, labels, zero_division=0))
    assert counts.recall == pytest.approx(recall_score(y, labels, zero_division=0))
    assert counts.f1 == pytest.approx(f1_score(y, labels, zero_division=0))
    assert counts.f_beta(2.5) == pytest.approx(fbeta_score(y, labels, beta=2.5, zero_division=0))
    assert counts.cost(3.0, 0.5) == pytest.approx(
        3.0 * ((y > 0) & ~predicted).sum() + 0.5 * ((y < 0) & predicted).sum()
    )


@given(st.integers(1, 200), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_intervals_agree_with_scipy(trials, data, confidence):
    successes = data.draw(st.integers(0, trials))
    test = binomtest(successes, trials)
    expected = test.proportion_ci(confidence, method="wilson")
    assert wilson(successes, trials, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)
    bound = clopper_pearson_lower(successes, trials, confidence)
    one_sided = binomtest(successes, trials, alternative="greater").proportion_ci(confidence, method="exact")
    assert bound == pytest.approx(one_sided.low, abs=1e-9)


def test_exact_lower_bound_covers_for_every_true_share():
    trials, hits = 30, np.arange(31)
    bounds = clopper_pearson_lower(hits, np.full(31, trials), 0.9)
    for share in np.linspace(0.02, 0.98, 25):
        assert binom.pmf(hits[bounds > share], trials, share).sum() <= 0.1 + 1e-12


def test_f1_interval_covers():
    rng = np.random.default_rng(0)
    inside = 0
    for draw in rng.multinomial(1000, [0.08, 0.02, 0.88, 0.02], size=1000):
        low, high = f1_interval(ConfusionCounts(*map(int, draw)))
        inside += low <= 0.8 <= high
    assert 935 <= inside <= 965


def test_a_few_rows_without_an_error_prove_little():
    low, high = f1_interval(ConfusionCounts(3, 0, 5, 0))
    assert high == 1.0
    assert low < 0.7
    low, high = f1_interval(ConfusionCounts(0, 2, 5, 1))
    assert low == 0.0
    assert 0.5 < high < 0.9
    assert f1_interval(ConfusionCounts(500, 0, 500, 0))[0] > 0.99
    with pytest.raises(ValueError, match="undefined"):
        f1_interval(ConfusionCounts(0, 0, 5, 0))


def test_rows_that_chose_say_as_much_as_fewer_untouched_ones():
    counts, fewer = ConfusionCounts(80, 20, 80, 20), ConfusionCounts(40, 10, 40, 10)
    costs = (5.0, 1.0)
    half, alike = measures(counts, costs=costs, worth=0.5), measures(fewer, costs=costs)
    for name in ("precision", "recall", "f1", "cost"):
        assert vars(getattr(half, name)) == pytest.approx(vars(getattr(alike, name)))


def test_measures_show_what_is_undefined_as_none():
    nothing_found = measures(ConfusionCounts(0, 0, 5, 3))
    assert nothing_found.precision is None
    assert nothing_found.recall.value == 0.0
    assert nothing_found.f1.value == 0.0
    no_positives = measures(ConfusionCounts(0, 0, 5, 0))
    assert no_positives.recall is None
    assert no_positives.f1 is None
    assert measures(ConfusionCounts(3, 1, 5, 1), costs=(2.0, 1.0)).cost.value == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("successes", "trials", "confidence"), [(1, 0, 0.9), (3, 2, 0.9), (-1, 2, 0.9), (1, 2, 1.0), (1, 2, 0.0)]
)
def test_impossible_proportions_are_refused(successes, trials, confidence):
    with pytest.raises(ValueError, match=r"need|confidence"):
        wilson(successes, trials, confidence)


labels_of_both_classes = st.tuples(st.integers(2, 30), st.integers(2, 30), st.integers(0, 99)).map(
    lambda t: np.random.default_rng(t[2]).permutation(np.r_[np.ones(t[0]), -np.ones(t[1])])
)


@given(labels_of_both_classes, st.integers(0, 5))
def test_halves_are_stratified_and_repeatable(y, seed):
    first, second = stratified_halves(y, seed)
    assert sorted(np.r_[first, second]) == list(range(len(y)))
    assert abs(len(first) - len(second)) <= 1
    for sign in (-1, 1):
        assert abs((y[first] == sign).sum() - (y[second] == sign).sum()) <= 1
    again = stratified_halves(y, seed)
    assert np.array_equal(first, again[0])


@given(labels_of_both_classes, st.integers(2, 5), st.integers(0, 5))
def test_folds_are_stratified_and_repeatable(y, folds, seed):
    folds = min(folds, int((y > 0).sum()), int((y < 0).sum()))
    fold = stratified_folds(y, folds, seed)
    assert np.array_equal(fold, stratified_folds(y, folds, seed))
    for sign in (-1, 1):
        sizes = np.bincount(fold[y == sign], minlength=folds)
        assert sizes.min() >= 1
        assert sizes.max() - sizes.min() <= 1
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 1


def test_more_folds_than_rows_of_a_class_are_refused():
    with pytest.raises(ValueError, match="smaller class"):
        stratified_folds([1, 1, -1, -1, -1], 3)


def test_thinned_curve_keeps_its_ends():
    rng = np.random.default_rng(0)
    curve = OperatingCurve.from_scores(rng.normal(size=1000), rng.choice([-1, 1], 1000))
    thin = curve.thinned(50)
    assert len(thin) == 50
    assert thin.thresholds[0] == curve.thresholds[0]
    assert thin.thresholds[-1] == curve.thresholds[-1]
    assert np.isin(thin.thresholds, curve.thresholds).all()
    assert thin.true_positives[-1] == thin.positives


@pytest.mark.parametrize(
    "change",
    [
        {"thresholds": [1.0]},
        {"thresholds": [0.0, 1.0, 2.0]},
        {"thresholds": [1.0, float("nan"), 0.0]},
        {"true_positives": [0, 2, 1]},
        {"true_positives": [0, 1, 3]},
        {"false_positives": [-1, 0, 1]},
        {"thresholds": [], "true_positives": [], "false_positives": []},
    ],
)
def test_broken_curve_is_refused(change):
    good = {
        "thresholds": [2.0, 1.0, 0.0],
        "true_positives": [0, 1, 2],
        "false_positives": [0, 0, 1],
        "positives": 2,
        "negatives": 1,
    }
    assert len(OperatingCurve.from_dict(good)) == 3
    with pytest.raises(ValueError, match="thresholds"):
        OperatingCurve.from_dict({**good, **change})
