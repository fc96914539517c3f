import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution

from solver import percents
from solver.chances import LIKELY
from solver.evaluation import ConfusionCounts, OperatingCurve, confusion, fit_sigmoid
from solver.operating_point import FEWEST_NEGATIVES, Objective, ObjectiveError, choose_from_curve, choose_threshold
from solver.promise import promise_of

TIED_SCORES = st.integers(-4, 4).map(lambda k: k / 2)


@st.composite
def scored_rows(draw, minimum=2, scores=TIED_SCORES):
    n = draw(st.integers(minimum, 25))
    values = draw(st.lists(scores, min_size=n, max_size=n))
    labels = draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n))
    labels[0], labels[1] = 1, -1
    return np.array(values), np.array(labels)


def all_decisions(scores, y):
    """Every decision that a threshold can make, by brute force."""
    thresholds = [*np.unique(scores), np.min(scores) - 1.0]
    return [confusion(y, scores > threshold) for threshold in thresholds]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"kind": "accuracy"}, "kind"),
        ({}, "kind"),
        ({"kind": "precision"}, "target"),
        ({"kind": "precision", "target": 0}, "target"),
        ({"kind": "recall", "target": 1.01}, "target"),
        ({"kind": "recall", "target": math.nan}, "target"),
        ({"kind": "recall", "target": True}, "target"),
        ({"kind": "recall", "target": "0.9"}, "target"),
        ({"kind": "f1", "target": 0.5}, "target"),
        ({"kind": "f_beta", "beta": 0}, "beta"),
        ({"kind": "cost", "false_negative": 1}, "false_positive"),
        ({"kind": "cost", "false_negative": -1, "false_positive": 1}, "false_negative"),
        ({"kind": "precision", "target": 0.9, "confidence": 1}, "confidence"),
        ({"kind": "f1", "confidence": 0.9}, "confidence"),
        ({"kind": "precision", "target": 0.9, "certificate": "strict"}, "certificate"),
        ({"kind": "precision", "target": 0.9, "confidence": 0.9, "certificate": "half"}, "certificate"),
        ({"kind": "f1", "certificate": "strict"}, "certificate"),
        ({"kind": "precision_recall", "precision": 0.5, "recall": 2}, "recall"),
        ({"kind": "ham_loss"}, "at_most"),
        ({"kind": "ham_loss", "at_most": 0}, "at_most"),
        ({"kind": "false_positive_rate", "at_most": 1}, "at_most"),
        ({"kind": "false_positive_rate", "target": 0.1}, "target"),
        ({"kind": "recall", "target": 0.9, "at_most": 0.1}, "at_most"),
        (7, None),
    ],
)
def test_wrong_objective_names_its_field(value, field):
    with pytest.raises(ObjectiveError) as caught:
        Objective.parse(value)
    assert caught.value.field == field


def test_objective_survives_its_mapping_form():
    for value in (
        {"kind": "f1"},
        {"kind": "f_beta", "beta": 2.0},
        {"kind": "precision", "target": 0.9, "confidence": 0.95},
        {"kind": "precision_recall", "precision": 0.9, "recall": 0.8, "confidence": 0.95, "certificate": "strict"},
        {"kind": "cost", "false_negative": 5.0, "false_positive": 1.0},
        {"kind": "precision_recall", "precision": 0.5, "recall": 0.75},
        {"kind": "ham_loss", "at_most": 0.001, "confidence": 0.9},
        {"kind": "false_positive_rate", "at_most": 0.02},
    ):
        assert Objective.parse(Objective.parse(value)).to_dict() == value
    assert Objective.parse("f1") == Objective()
    assert Objective.parse({"kind": "recall", "target": 0.9, "confidence": None}).confidence is None


@given(scored_rows())
def test_curve_holds_every_decision_once(rows):
    scores, y = rows
    curve = OperatingCurve.from_scores(scores, y)
    assert not np.isin(curve.thresholds, scores).any()  # halves have room for midpoints
    for position, threshold in enumerate(curve.thresholds):
        assert curve.counts(position) == confusion(y, scores > threshold)
    assert len(curve) == len(np.unique(scores)) + 1


def test_between_a_score_and_its_opposite_stands_zero():
    opposite = 0.1 + 0.2  # not quite 0.3, so that the midpoint is 2.8e-17
    curve = OperatingCurve.from_scores([1.0, opposite, -0.3, -1.0], [1, 1, 0, 0])
    assert curve.thresholds[2] == 0.0


@given(scored_rows(scores=st.sampled_from([0.0, 5e-324, 1.0, np.nextafter(1.0, 2.0), -1e308, 1e308])))
def test_curve_is_exact_between_neighbouring_floats(rows):
    scores, y = rows
    curve = OperatingCurve.from_scores(scores, y)
    for position, threshold in enumerate(curve.thresholds):
        assert curve.counts(position) == confusion(y, scores > threshold)


@given(scored_rows(), st.sampled_from([0.2, 0.5, 2 / 3, 0.9, 1.0]), st.sampled_from(["precision", "recall"]))
def test_best_f1_under_a_target_is_the_brute_force_optimum(rows, target, kind):
    scores, y = rows
    objective = Objective.parse({"kind": kind, "target": target})
    point = choose_threshold(scores, y, objective, "f1max")
    assert point.counts == confusion(y, scores > point.threshold)
    decisions = [c for c in all_decisions(scores, y) if c.true_positives > 0]
    meeting = [c for c in decisions if getattr(c, kind) >= target - 1e-12]
    if meeting:
        few = kind == "precision" and np.count_nonzero(y <= 0) < FEWEST_NEGATIVES
        assert point.status == ("cannot_certify" if few else "met")
        assert getattr(point.counts, kind) >= target - 1e-12
        assert point.counts.f1 == pytest.approx(max(c.f1 for c in meeting))
    else:
        assert point.status == "preference_unmet"
        assert f"where {percents.asked(target)} was asked" in point.reason
        assert getattr(point.counts, kind) == pytest.approx(max(getattr(c, kind) for c in decisions))


@given(scored_rows(), st.floats(0.1, 10), st.floats(0.1, 10))
def test_f_beta_and_cost_are_the_brute_force_optimum(rows, first, second):
    scores, y = rows
    decisions = [*all_decisions(scores, y), confusion(y, np.zeros(len(y), dtype=bool))]
    point = choose_threshold(scores, y, Objective.parse({"kind": "f_beta", "beta": first}), "f1max")
    assert point.counts.f_beta(first) == pytest.approx(max(c.f_beta(first) for c in decisions))
    costs = {"kind": "cost", "false_negative": first, "false_positive": second}
    point = choose_threshold(scores, y, Objective.parse(costs), "f1max")
    assert point.counts.cost(first, second) == pytest.approx(min(c.cost(first, second) for c in decisions))


@given(scored_rows(), st.sampled_from([0.3, 0.6, 0.9]), st.sampled_from([0.3, 0.5, 0.8]))
def test_two_targets_at_once(rows, precision, recall):
    scores, y = rows
    objective = Objective.parse({"kind": "precision_recall", "precision": precision, "recall": recall})
    point = choose_threshold(scores, y, objective, "f1max")
    decisions = [c for c in all_decisions(scores, y) if c.true_positives > 0]
    meeting = [c for c in decisions if c.precision >= precision and c.recall >= recall]
    if meeting:
        assert point.status == ("met" if np.count_nonzero(y <= 0) >= FEWEST_NEGATIVES else "cannot_certify")
        assert point.counts.f1 == pytest.approx(max(c.f1 for c in meeting))
    else:
        assert point.status == "preference_unmet"
        miss = [max((precision - c.precision) / precision, (recall - c.recall) / recall) for c in decisions]
        mine = max((precision - point.counts.precision) / precision, (recall - point.counts.recall) / recall)
        assert mine == pytest.approx(min(miss))


@pytest.mark.parametrize(
    ("objective", "other"),
    [({"kind": "precision", "target": 0.8}, "recall"), ({"kind": "recall", "target": 0.8}, "precision")],
)
def test_a_target_is_reached_where_it_is_likely_to_hold_if_it_is_anywhere(objective, other):
    rng = np.random.default_rng(4)
    y = rng.random(150) < 0.4
    scores = 1.6 * y + rng.normal(size=len(y))
    asked = Objective.parse(objective)
    likely, reached = (choose_threshold(scores, y, asked, rule) for rule in ("auto", "f1max"))
    chances = [promise_of(asked, point.counts, "yes").chance for point in (likely, reached)]
    assert chances[0] >= LIKELY > chances[1]
    assert getattr(likely.counts, other) < getattr(reached.counts, other)
    # of those by which it is, the one with the best F1
    others = [c for c in all_decisions(scores, y) if promise_of(asked, c, "yes").level == "likely"]
    assert likely.counts.f1 == max(c.f1 for c in others)
    few = slice(0, 12)
    assert choose_threshold(scores[few], y[few], asked) == choose_threshold(scores[few], y[few], asked, "f1max")


def test_scores_that_tell_nothing_seldom_promise_a_precision_beyond_the_share_of_positives():
    rng = np.random.default_rng(5)
    asked, promised = Objective(kind="precision", target=0.6), 0
    for _ in range(60):
        y = rng.permutation(np.repeat([1, -1], 50))
        promised += promise_of(asked, choose_threshold(rng.normal(size=100), y, asked).counts, "yes").level == "likely"
    assert promised <= 6  # 15 where the best of all candidates was taken


def paper_theta(scores, y, precision_goal, recall_goal):
    """The paper's θ₊ as psvm.md writes it, over an explicit list of candidates."""
    distinct = np.unique(scores)
    candidates = sorted({0.0, *((distinct[1:] + distinct[:-1]) / 2), distinct[0] - 1e-6 * max(1, abs(distinct[0]))})
    c = {t: confusion(y, scores > t) for t in candidates}

    def prec_up(goal):
        allowed = [t for t in candidates if t >= 0 and c[t].true_positives] or [
            t for t in candidates if c[t].true_positives
        ]
        enough = [t for t in allowed if c[t].precision >= goal - 1e-12]
        if enough:
            return min(enough)
        top = max(c[t].precision for t in allowed)
        return min(t for t in allowed if c[t].precision >= top - 1e-12)

    def rec_down(goal):
        return max(t for t in candidates if t <= 0 and c[t].recall >= goal - 1e-12)

    def improve():
        p0, r0 = c[0.0].precision, c[0.0].recall
        if p0 == r0 == 0:
            return None
        return prec_up(r0) if p0 < r0 else rec_down(p0) if r0 < p0 else 0.0

    if precision_goal:
        if c[0.0].precision < precision_goal - 1e-12:
            return prec_up(precision_goal)
        floor = min(t for t in candidates if c[t].true_positives and c[t].precision >= precision_goal - 1e-12)
        return max(improve(), floor)
    if recall_goal:
        if c[0.0].recall < recall_goal - 1e-12:
            return rec_down(recall_goal)
        ceiling = max(t for t in candidates if c[t].recall >= recall_goal - 1e-12)
        return min(improve(), ceiling)
    return improve()


@given(scored_rows(), st.sampled_from(["f1", "precision", "recall"]), st.sampled_from([0.3, 0.5, 0.75, 1.0]))
def test_paper_rule_follows_its_definition(rows, kind, target):
    scores, y = rows
    if np.min(scores) > 0:
        scores = scores - 5.0  # rec_down needs a candidate at or below 0 with full recall
    objective = Objective.parse({"kind": kind} if kind == "f1" else {"kind": kind, "target": target})
    point = choose_threshold(scores, y, objective, "paper")
    expected = paper_theta(scores, y, objective.precision_target, objective.recall_target)
    if expected is None:
        assert point.counts.f1 == pytest.approx(max(c.f1 for c in all_decisions(scores, y)))
    else:
        assert point.threshold == pytest.approx(expected)
    assert point.counts == confusion(y, scores > point.threshold)


@given(scored_rows())
def test_paper_rule_is_total_on_positive_scores(rows):
    scores, y = rows[0] + 10.0, rows[1]
    for objective in ("f1", {"kind": "recall", "target": 1.0}, {"kind": "precision", "target": 1.0}):
        point = choose_threshold(scores, y, Objective.parse(objective), "paper")
        assert point.counts == confusion(y, scores > point.threshold)


def test_lcb_bounds_with_the_exact_quantile():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=400)
    y = np.where(rng.random(400) < 1 / (1 + np.exp(-3 * scores)), 1, -1)
    objective = Objective.parse({"kind": "precision", "target": 0.8, "confidence": 0.95})
    point = choose_threshold(scores, y, objective, "lcb")
    hits, admitted = point.counts.true_positives, point.counts.predicted_positives
    assert point.status == "met"
    assert beta_distribution.ppf(0.05, hits, admitted - hits + 1) >= 0.8
    plain = choose_threshold(scores, y, Objective.parse({"kind": "precision", "target": 0.8}))
    assert plain.counts.recall > point.counts.recall


def test_a_target_beyond_the_evidence_is_not_certified():
    scores = np.arange(20.0)
    y = np.where(scores >= 10, 1, -1)
    objective = Objective.parse({"kind": "precision", "target": 0.95, "confidence": 0.95})
    for rule in ("lcb", "fixed-sequence"):
        point = choose_threshold(scores, y, objective, rule, positive_share=0.5)
        assert point.status == "cannot_certify"  # 10 of 10 support no more than 0.741
        assert "74.1%" in point.reason
        assert point.counts.precision == 1.0
    mixed = np.where(scores % 2 == 0, 1, -1)
    assert choose_threshold(scores, mixed, objective, "lcb").status == "preference_unmet"


def test_fixed_sequence_stops_at_the_first_failure():
    # precision 1 at the top, a dip in the middle, and again a precision above the target below it
    y = np.concatenate([np.ones(100), -np.ones(100), np.ones(2000)])
    scores = -np.arange(len(y), dtype=float)
    objective = Objective.parse({"kind": "precision", "target": 0.8, "confidence": 0.9})
    point = choose_threshold(scores, y, objective, "fixed-sequence", positive_share=0.05)
    assert point.status == "met"
    assert point.counts.predicted_positives < 150
    assert choose_threshold(scores, y, objective, "lcb").counts.predicted_positives > 2000


def test_fixed_sequence_grid_ignores_the_labels_it_tests():
    rng = np.random.default_rng(1)
    scores, reference = rng.normal(size=300), rng.normal(size=1000)
    y = np.where(scores + rng.normal(size=300) > 0, 1, -1)
    objective = Objective.parse({"kind": "recall", "target": 0.8, "confidence": 0.9})
    point = choose_threshold(scores, y, objective, "fixed-sequence", reference_scores=reference, positive_share=0.5)
    assert point.status == "met"
    assert point.threshold in OperatingCurve.from_scores(reference, np.zeros(1000)).thresholds
    assert beta_distribution.ppf(0.1, point.counts.true_positives, point.counts.false_negatives + 1) >= 0.8
    with pytest.raises(ValueError, match="positive_share"):
        choose_threshold(scores, y, objective, "fixed-sequence")


def test_two_targets_are_certified_at_once_or_not_at_all():
    rng = np.random.default_rng(2)
    y = np.where(rng.random(1000) < 0.3, 1, -1)
    scores = rng.normal(size=1000) + 3 * (y > 0)
    asked = {"kind": "precision_recall", "precision": 0.8, "recall": 0.8, "confidence": 0.9}
    point = choose_threshold(scores, y, Objective.parse(asked), "fixed-sequence", positive_share=0.3)
    hits, admitted, positives = point.counts.true_positives, point.counts.predicted_positives, point.counts.positives
    assert point.status == "met"
    assert beta_distribution.ppf(0.1, hits, admitted - hits + 1) >= 0.8
    assert beta_distribution.ppf(0.1, hits, positives - hits + 1) >= 0.8
    for beyond in ({"precision": 0.999}, {"recall": 0.999}):
        refused = choose_threshold(
            scores, y, Objective.parse({**asked, **beyond}), "fixed-sequence", positive_share=0.3
        )
        assert refused.status != "met"
        assert "support precision" in refused.reason
        assert "and recall" in refused.reason


def test_rules_that_do_not_go_with_the_objective_are_refused():
    scores, y = np.array([0.0, 1.0]), np.array([-1, 1])
    cost = Objective.parse({"kind": "cost", "false_negative": 1, "false_positive": 2})
    for rule in ("paper", "lcb", "fixed-sequence"):
        with pytest.raises(ValueError, match=rule):
            choose_threshold(scores, y, cost, rule, positive_share=0.5)
    with pytest.raises(ValueError, match="threshold_rule"):
        choose_threshold(scores, y, cost, "best")
    with pytest.raises(ValueError, match="needs the scores"):
        choose_from_curve(OperatingCurve.from_scores(scores, y), Objective(), "paper")


@given(scored_rows(), st.randoms(use_true_random=False))
def test_scores_within_their_resolution_are_never_parted(rows, random):
    scores, y = rows
    blurred = scores + np.array([random.uniform(-4e-4, 4e-4) for _ in scores])
    exact, curve = OperatingCurve.from_scores(scores, y), OperatingCurve.from_scores(blurred, y, 1e-3)
    assert curve.true_positives.tolist() == exact.true_positives.tolist()
    assert curve.false_positives.tolist() == exact.false_positives.tolist()
    np.testing.assert_allclose(curve.thresholds, exact.thresholds, atol=1.5e-3)
    for position, threshold in enumerate(curve.thresholds):  # whatever of its resolution a score is off by
        assert confusion(y, scores > threshold) == curve.counts(position)


def test_a_continuum_is_parted_though_its_gaps_are_small():
    scores = np.repeat(np.linspace(0, 1, 5000), 2)
    scores[1::2] += 1e-8
    curve = OperatingCurve.from_scores(scores, scores > 0.5, 1e-3)
    assert len(curve) == 5001
    assert set(np.diff(curve.predicted_positives)) == {2}  # equal rows are not parted there either


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [np.inf, 1.0], []])
def test_scores_must_be_finite_and_some(bad):
    with pytest.raises(ValueError, match="scores"):
        choose_threshold(bad, np.ones(len(bad)), Objective())


@given(scored_rows())
def test_stored_curve_gives_the_same_point(rows):
    scores, y = rows
    stored = OperatingCurve.from_dict(OperatingCurve.from_scores(scores, y).to_dict())
    for value in ("f1", {"kind": "recall", "target": 0.7}, {"kind": "cost", "false_negative": 3, "false_positive": 1}):
        objective = Objective.parse(value)
        for rule in ("auto", "f1max"):
            sigmoid = fit_sigmoid(scores, y) if len(set(y)) == 2 else None
            assert choose_from_curve(stored, objective, rule, sigmoid) == choose_threshold(scores, y, objective, rule)


def test_zero_rule_reports_on_the_objective_only():
    scores, y = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([1, 1, -1, 1])
    point = choose_threshold(scores, y, Objective.parse({"kind": "recall", "target": 0.5}), "zero")
    assert point.threshold == 0.0
    assert point.counts == ConfusionCounts(1, 1, 0, 2)  # a score of 0 is not above the threshold
    assert point.status == "preference_unmet"


def test_rank_prefers_a_met_target_then_the_value():
    objective = Objective.parse({"kind": "precision", "target": 0.8})
    met, better, missed = ConfusionCounts(8, 2, 80, 10), ConfusionCounts(16, 4, 78, 2), ConfusionCounts(17, 6, 76, 1)
    assert objective.rank(better) > objective.rank(met) > objective.rank(missed)
    closer = ConfusionCounts(7, 2, 80, 11)
    assert objective.rank(met) > objective.rank(closer) > objective.rank(missed)
