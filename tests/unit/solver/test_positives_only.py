"""Trainings on positive and unlabelled rows alone: what is counted, what follows from it, and what is promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, f1_score, precision_score, roc_auc_score

from solver.corrections import Corrections
from solver.estimators import AutoClassifier, BiasedSVM, SpyEM
from solver.features import Column, Table
from solver.operating_point import Objective
from solver.positive_unlabelled.left_out import FoundCurve, LeftOutScores, left_out_scores
from solver.positive_unlabelled.share import ShareEstimate, estimate_share
from solver.positives_only import OnlyPositives, Rates, choose_place, point_of, reached, warnings_of
from solver.report import Report
from solver.retuning import NotOfTheCurveError, chosen_point
from solver.training import TrainedModel, TrainingError, TrainingRequest, train

Labels = NDArray[Any]


def scores(positives: int = 60, unlabelled: int = 600, share: float = 0.3, apart: float = 6.0, seed: int = 0):
    """Left-out scores: normal ones of both classes, so far apart."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(unlabelled) < share
    return LeftOutScores(rng.normal(apart, 1, positives), rng.normal(0, 1, unlabelled) + apart * hidden)


def known(share: ShareEstimate | None = None, **changes: Any) -> OnlyPositives:
    made = scores(**changes)
    return OnlyPositives(FoundCurve.of(made), share or estimate_share(made), len(made.unlabelled))


def table(n: int = 400, apart: float = 2.5, seed: int = 0) -> tuple[Table, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.3
    columns = rng.normal(size=(n, 3)) + apart * truth[:, None]
    return Table({f"x{k}": Column(f"x{k}", "number", columns[:, k]) for k in range(3)}), truth


def marked(truth: NDArray[np.bool_], count: int, seed: int = 0) -> Labels:
    """Labels: so many of the positive rows say yes, all others nothing."""
    labels = np.full(len(truth), None, dtype=object)
    labels[np.random.default_rng(seed).permutation(np.flatnonzero(truth))[:count]] = "yes"
    return labels


def trained(labels: Labels, data: Table, **changes: Any) -> TrainedModel:
    return train(data, labels, TrainingRequest(positive="yes", **changes))


# -- counting ----------------------------------------------------------------------------------------------------------


def test_a_curve_counts_what_lies_above_each_threshold():
    rng = np.random.default_rng(1)
    made = LeftOutScores(rng.integers(0, 9, 40).astype(float), rng.integers(-3, 8, 70).astype(float))
    curve = FoundCurve.of(made, also=[0.0])
    assert 0.0 in curve.thresholds
    assert (np.diff(curve.thresholds) < 0).all()
    for threshold, found, called in zip(curve.thresholds, curve.found, curve.called, strict=True):
        assert found == sum(score > threshold for score in made.positive)
        assert called == sum(score > threshold for score in made.unlabelled)
    assert curve.found[-1] == 40  # one lies below all positive rows
    assert made.auc == pytest.approx(
        roc_auc_score(np.repeat([1, 0], [40, 70]), np.concatenate([made.positive, made.unlabelled]))
    )


def test_of_many_positive_rows_the_curve_has_two_hundred_points():
    curve = FoundCurve.of(scores(positives=3000))
    assert 190 < len(curve.thresholds) <= 200
    assert (curve.found[0], curve.found[-1]) == (1, 3000)


@pytest.mark.parametrize("seed", range(3))
def test_measures_are_those_of_the_rows_that_they_speak_of(seed):
    """With the true rates of unlabelled rows whose labels are known after all, nothing is an estimate."""
    rng = np.random.default_rng(seed)
    truth, called = rng.random(500) < 0.3, rng.random(500) < 0.4
    rates = Rates(np.array(called[truth].mean()), np.array(called.mean()), float(truth.mean()))
    (tn, fp), (fn, _) = confusion_matrix(truth, called)
    assert rates.measure("precision") == pytest.approx(precision_score(truth, called))
    assert rates.measure("recall") == pytest.approx(called[truth].mean())
    assert rates.measure("specificity") == pytest.approx(tn / (tn + fp))
    assert rates.measure("f") == pytest.approx(f1_score(truth, called))
    assert rates.cost(5.0, 2.0) == pytest.approx((5 * fn + 2 * fp) / 500)


@pytest.mark.parametrize("at", ["rows", "copies"])
def test_no_row_is_scored_by_what_has_learned_it_or_its_copy(at):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    positive, unlabelled = np.arange(12), np.arange(12, 60)
    if at == "copies":
        X[5] = X[4]
        X[30:36] = X[:6]
    learned: list[set[bytes]] = []

    def train_fold(p, u):
        learned.append({X[row].tobytes() for row in (*p, *u)})

        def score(rows):
            assert not {X[row].tobytes() for row in rows} & learned[-1]
            return rows.astype(float)

        return score

    made = left_out_scores(X, positive, unlabelled, train_fold, 0)
    assert made.positive.tolist() == positive.tolist()
    assert made.unlabelled.tolist() == unlabelled.tolist()
    assert made.copies == (6 if at == "copies" else 0)
    assert len(learned) == 5


def test_copies_of_one_row_leave_nothing_out():
    X = np.ones((20, 2))
    assert left_out_scores(X, np.arange(5), np.arange(5, 20), lambda *_: len, 0) is None


# -- the share ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_the_share_of_classes_that_lie_apart_is_found(share):
    for seed in range(5):
        made = estimate_share(scores(positives=200, unlabelled=2000, share=share, seed=seed))
        assert made.value == pytest.approx(share, abs=0.1)
        assert made.low <= share <= made.high
        assert made.is_useful or share > 0.5  # of a large share all bounds are wide


def test_scores_that_tell_nothing_leave_the_share_open():
    for seed in range(5):
        made = estimate_share(scores(apart=0.0, seed=seed))
        assert made.low < 0.15
        assert made.high > 0.95
        assert not made.is_useful


def test_few_positive_rows_leave_the_share_open():
    made = estimate_share(scores(positives=9))
    assert (made.low, made.high, made.is_useful) == (0.0, 1.0, False)


# -- thresholds and promises -------------------------------------------------------------------------------------------


def test_a_precision_is_likely_with_the_share_and_never_proven():
    evidence = known(ShareEstimate.given(0.3), positives=200)
    for objective in ({"kind": "precision", "target": 0.9}, {"kind": "precision", "target": 0.9, "confidence": 0.9}):
        asked = Objective.parse(objective)
        told, promise = point_of(evidence, choose_place(evidence, asked, "auto"), asked, "yes")
        assert promise.level == "likely"
        assert told.precision.low <= told.precision.value <= told.precision.high
        assert "audit" in promise.sentence
        assert promise.needs.by_audit
        assert reached(promise, asked)[0] == ("met" if asked.confidence is None else "cannot_certify")


@pytest.mark.parametrize("share", [0.4, 0.999])
def test_a_share_that_is_too_high_makes_no_precision_of_one(share):
    """Of the unlabelled rows .3 are positive; with more, all that are called would be."""
    given = known(ShareEstimate.given(share))
    for asked in ({"kind": "precision", "target": 1.0}, {"kind": "false_positive_rate", "at_most": 1e-6}):
        objective = Objective.parse(asked)
        promise = point_of(given, choose_place(given, objective, "auto"), objective, "yes")[1]
        assert promise.level != "likely"
        assert promise.chance is not None
        assert promise.chance < 0.05
    counted = Objective.parse({"kind": "precision", "target": 0.9})
    bound = point_of(given, choose_place(given, counted, "auto"), counted, "yes")[1].bounds["precision"]
    assert 0.9 < bound < 0.99


def test_a_share_that_is_not_known_promises_no_precision():
    evidence = known(apart=0.0)
    asked = Objective.parse({"kind": "precision", "target": 0.9})
    told, promise = point_of(evidence, choose_place(evidence, asked, "auto"), asked, "yes")
    assert promise.level == "open"
    assert promise.bounds["precision"] < 0.2
    assert promise.needs is None  # the value of such a share is its upper end, of which few checks would prove all
    assert "labels of some rows that chance has drawn" in promise.advice
    assert (told.share_useful, told.precision, told.f1, told.false_positive_rate) == (False, None, None, None)
    assert told.recall is not None
    assert "next to nothing" in told.sentence


def test_a_recall_needs_no_share():
    asked = Objective.parse({"kind": "recall", "target": 0.9})
    places = set()
    for share in (0.1, 0.6):
        evidence = known(ShareEstimate.given(share), apart=1.0)
        place = choose_place(evidence, asked, "auto")
        promise = point_of(evidence, place, asked, "yes")[1]
        places.add(promise.chance > 0.75)
        assert "share of positives" not in promise.sentence
    assert places == {True}


def test_thresholds_above_nearly_all_positive_rows_are_not_chosen():
    made = scores(apart=3.0)
    made.positive[0] = 99.0  # above it is one positive row and nothing else
    evidence = OnlyPositives(FoundCurve.of(made), ShareEstimate.given(0.3), 600)
    place = choose_place(evidence, Objective.parse({"kind": "precision", "target": 0.999}), "auto")
    assert evidence.curve.found[place] >= 6


def test_other_costs_call_more_or_fewer_rows():
    evidence = known(ShareEstimate.given(0.3), apart=1.5)
    called = [
        evidence.curve.called[
            choose_place(
                evidence, Objective.parse({"kind": "cost", "false_negative": miss, "false_positive": 1}), "auto"
            )
        ]
        for miss in (0.2, 1, 10)
    ]
    assert called == sorted(called)
    assert called[0] < called[2]


def test_a_model_that_calls_nearly_all_rows_positive_is_warned_of():
    evidence = known(ShareEstimate.given(0.3))
    last = len(evidence.curve.thresholds) - 1
    wide = replace(evidence, curve=replace(evidence.curve, called=np.full(last + 1, 558)))
    said = warnings_of(wide, last, wide.share, 0)
    assert "the model calls 93% of the unlabelled rows positive" in said
    assert warnings_of(evidence, last, evidence.share, 0) == []


def test_shares_that_cannot_be_are_warned_of():
    high = known(ShareEstimate.given(0.9))
    estimated = estimate_share(scores())
    assert any("cannot be positive" in said for said in warnings_of(high, 0, estimated, 0))
    low = known(ShareEstimate.given(0.01))
    assert any("among the unlabelled rows only" in said for said in warnings_of(low, 0, estimated, 0))
    assert any("are the same" in said for said in warnings_of(low, 0, estimated, 3))


# -- trainings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["auto", "biased-svm", "bayesian-sets", "spy-em", "roc-svm"])
def test_a_training_without_a_negative_row(algorithm, tmp_path):
    data, truth = table()
    labels = marked(truth, 60)
    rest = labels == None  # noqa: E711
    params = {"positive_share": float(truth[rest].mean())}
    result = trained(labels, data, algorithm=algorithm, params=params, test_fraction=0.3)
    report = result.report
    assert (report.algorithm, report.rows.negative, report.rows.test) == (algorithm, 0, 0)
    assert (report.calibration, report.test, report.curve, report.probability) == (None, None, None, None)
    assert report.classes.negative == "not yes"
    said = np.array(result.model.predict(data).labels)[rest] == "yes"
    told = report.positives_only
    assert (told.positives, told.unlabelled, told.share_given) == (60, 340, True)
    assert told.recall.low - 0.05 <= said[truth[rest]].mean() <= told.recall.high + 0.05
    assert told.precision.low - 0.05 <= truth[rest][said].mean() <= told.precision.high + 0.05
    assert Report.from_dict(report.to_dict()) == report
    assert report.judge is None or report.judge.returned == "biased-svm"


def test_auto_is_the_biased_svm_to_the_bit():
    data, truth = table()
    X = np.column_stack([data.columns[f"x{k}"].values for k in range(3)])
    y = np.where(marked(truth, 40) == "yes", 1.0, np.nan)
    auto, svm = AutoClassifier(random_state=0).fit(X, y), BiasedSVM(random_state=0).fit(X, y)
    assert np.array_equal(auto.decision_function(X), svm.decision_function(X))
    assert auto.threshold_ == svm.threshold_
    assert auto.report_.positives_only == svm.report_.positives_only
    assert (auto.report_.algorithm, auto.report_.judge.returned) == ("auto", "biased-svm")
    with pytest.raises(ValueError, match="only one class"):
        AutoClassifier().fit(X, np.ones(len(X)))
    assert AutoClassifier().fit(X, np.where(truth, 1, -1)).report_.positives_only is None  # -1 is a class there


def test_the_threshold_is_that_of_the_method_itself_where_nothing_is_left_out():
    data, truth = table()
    params = {"labeled_split": "full"}
    report = trained(marked(truth, 40), data, algorithm="spy-em", params=params).report
    assert (report.threshold, report.positives_only, report.status) == (0.0, None, "cannot_certify")
    zero = trained(marked(truth, 40), data, algorithm="spy-em", params={"threshold_rule": "zero"}).report
    assert zero.threshold == 0.0
    assert zero.positives_only.positives == 40


@pytest.mark.parametrize("given", [True, False])
def test_labels_drawn_at_random_claim_no_more_than_chance(given):
    """Of all rows some are called positive by lot: what is claimed has to be so of the others with that label."""
    claimed, likely, recalls, found = [], 0, [], []
    for seed in range(8):
        data, _ = table(n=300, seed=seed)
        truth = np.random.default_rng(100 + seed).random(300) < 0.3
        labels = marked(truth, 40, seed)
        rest = labels == None  # noqa: E711
        params = {"positive_share": float(truth[rest].mean())} if given else {}
        result = trained(labels, data, params=params, objective={"kind": "precision", "target": 0.6}, seed=seed)
        told, said = result.report.positives_only, np.array(result.model.predict(data).labels)[rest] == "yes"
        likely += result.report.promise.level == "likely"
        if given:
            claimed.append(told.precision.low <= truth[rest].mean() <= told.precision.high)
        else:
            assert told.precision is None
            assert result.report.promise.bounds["precision"] < truth[rest].mean() + 0.05
        recalls.append(told.recall.value)
        found.append(said.mean())
        assert told.share.low <= truth[rest].mean() <= told.share.high
    assert likely == 0
    assert sum(claimed) >= len(claimed) - 1
    assert np.mean(recalls) == pytest.approx(np.mean(found), abs=0.12)


@pytest.mark.parametrize(("positives", "most"), [(2, 0), (5, 0), (10, 4)])
def test_a_few_rows_labelled_at_random_make_no_precision_likely(positives, most):
    """Scores that tell nothing, and a share that is given: of 25 data sets each, hardly one calls its luck likely."""
    objective = Objective.parse({"kind": "precision", "target": 0.7})
    likely = 0
    for seed in range(25):
        rng = np.random.default_rng([seed, positives])
        curve = FoundCurve.of(LeftOutScores(rng.random(positives), rng.random(200)))
        known = OnlyPositives(curve, ShareEstimate.given(0.5), 200)
        place = choose_place(known, objective, "auto")
        likely += point_of(known, place, objective, "yes")[1].level == "likely"
    assert likely <= most


def test_what_cannot_be_learned_from_says_what_would_help():
    data, truth = table(60)
    labels = marked(truth, 10)

    def refused(labels: Labels, **changes: Any) -> tuple[str, str]:
        with pytest.raises(TrainingError) as caught:
            train(data, labels, TrainingRequest(**({"positive": "yes"} | changes)))
        return caught.value.code, caught.value.message

    code, said = refused(marked(truth, 1))
    assert code == "too_few_labelled"
    assert "at least 2 labelled positive rows" in said
    code, said = refused(np.full(60, "yes", dtype=object))
    assert code == "one_class"
    assert "add rows without a label" in said
    code, said = refused(labels, positive=None)
    assert code == "one_class"
    assert "name it in `positive`" in said
    code, said = refused(labels, positive="no")
    assert code == "one_class"
    code, said = refused(labels, algorithm="svm")
    assert code == "one_class"
    assert "auto, bayesian-sets" in said
    code, said = refused(labels, objective={"kind": "f1", "abstain": {"precision": 0.9}})
    assert code == "objective"
    for share in (0, 1, float("nan"), -0.1, "0.3", True):
        code, said = refused(labels, params={"positive_share": share})
        assert code == "params"
        assert "positive_share" in said


def test_plain_labels_and_named_negatives_name_the_classes():
    data, truth = table(100)
    labels = marked(truth, 20)
    ones = np.where(labels == "yes", "1", None)
    assert train(data, ones, TrainingRequest()).model.classes == ("0", "1")
    assert trained(labels, data, negative=["no"]).model.classes == ("no", "yes")


def test_copies_of_positive_rows_are_said():
    data, truth = table(200)
    labels = marked(truth, 30)
    rows = np.concatenate([np.arange(200), np.flatnonzero(labels == "yes")[:7]])
    result = trained(np.append(labels, [None] * 7), data.take(rows))
    assert any(said.startswith("7 unlabelled row(s) are the same") for said in result.report.warnings)


def test_a_first_negative_row_is_learned_and_a_second_one_measures():
    data, truth = table(apart=1.2)
    labels = marked(truth, 50)
    X = np.flatnonzero(labels == None)  # noqa: E711
    without = trained(labels, data, params={"positive_share": 0.2})
    decided = without.model.decision.decision_function(without.model.feature_matrix(data)[0])
    highest = X[np.argsort(-decided[X])[:1]]
    labels[highest] = "no"
    one = trained(labels, data, params={"positive_share": 0.2})
    assert one.report.positives_only is not None
    assert one.report.rows.negative == 1
    assert any(said.startswith("1 negative row(s) are labelled, too few") for said in one.report.warnings)
    again = one.model.decision.decision_function(one.model.feature_matrix(data)[0])
    assert again[highest] < decided[highest]
    labels[X[np.argsort(decided[X])[:1]]] = "no"
    two = trained(labels, data, params={"positive_share": 0.2})
    assert two.report.positives_only is None
    assert two.report.calibration is not None
    assert any(said.startswith("positive_share is of no effect") for said in two.report.warnings)


@pytest.mark.parametrize(("label", "negative"), [("not yes", []), ("no", ["no"]), ("no", ["no", "never"])])
def test_negative_rows_of_feedback_measure_nothing(label, negative):
    """Somebody has chosen them: three of them, too, leave the threshold to positive and unlabelled rows."""
    data, truth = table()
    labels = marked(truth, 50)
    corrections = Corrections(rows=[{f"x{k}": -2.0 - row for k in range(3)} for row in range(3)], labels=[label] * 3)
    result = train(data, labels, TrainingRequest(positive="yes", negative=negative), corrections=corrections)
    assert result.report.positives_only.positives == 50
    assert result.report.rows.negative == 3


def test_weights_are_not_called_useless_where_nothing_can_show_that():
    data, truth = table()
    sentence = trained(marked(truth, 50), data).report.weights.sentence
    assert "no better than chance" not in sentence
    assert "Too few negative rows are labelled, or none" in sentence


# -- other thresholds --------------------------------------------------------------------------------------------------


def test_another_threshold_comes_of_the_report_alone():
    data, truth = table(apart=1.0)
    report = trained(marked(truth, 60), data, params={"positive_share": 0.18}).report
    report = Report.from_dict(report.to_dict())
    found = [
        chosen_point(report, Objective.parse({"kind": "cost", "false_negative": miss, "false_positive": 1})).threshold
        for miss in (0.3, 10)
    ]
    assert found[0] > found[1]
    same = chosen_point(report, Objective.parse(report.objective))
    assert (same.threshold, same.picked, same.calibration) == (report.threshold, False, None)
    assert same.promise == report.promise
    picked = chosen_point(report, Objective.parse("f1"), report.positives_only.curve.thresholds[0])
    assert picked.picked
    with pytest.raises(NotOfTheCurveError):
        chosen_point(report, Objective.parse("f1"), 1234.5)
    assert chosen_point(report, Objective.parse({"kind": "f1", "abstain": {"precision": 0.9}})) is None


def test_what_is_of_no_effect_is_said():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 12, 1, -1)
    fitted = SpyEM(tune="C", class_weight="balanced", random_state=0).fit(X, y)
    assert any(said.startswith("tune is of no effect") for said in fitted.report_.warnings)
