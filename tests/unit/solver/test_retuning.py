"""New thresholds for trained models: the same as choosing from the scores, and no certificate that cannot be given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.evaluation import OperatingCurve, fit_sigmoid, measures
from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import cost_interval
from solver.operating_point import Objective, certify_from_curve, choose_threshold
from solver.report import (
    Classes,
    CurvePoints,
    DecidedUnlabelled,
    JudgedMethod,
    Judgement,
    ProbabilityReport,
    Report,
    RowCounts,
    TuningReport,
)
from solver.retuning import CalibrationRows, chosen_point, stored_promise


def scored(n: int, seed: int, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.r_[np.ones(2), np.zeros(2), rng.random(n) < 0.3]
    scores = y * 2 + rng.normal(size=len(y))
    return (scores.round(1) if ties else scores), y


def report(curve: OperatingCurve, **changes):
    positive, negative = 2 * curve.positives, 2 * curve.negatives
    made = Report(
        algorithm="psvm",
        params={},
        objective={"kind": "f1"},
        status="met",
        status_reason="",
        threshold=0.0,
        classes=Classes("no", "yes"),
        rows=RowCounts(total=500, labelled=positive + negative, positive=positive, negative=negative, unlabelled=0),
        calibration=None,
        test=None,
        labeled_split="part",
        threshold_rule="fixed-sequence",
        curve=CurvePoints(**curve.to_dict()),
    )
    return replace(made, **changes)


@given(
    n=st.integers(4, 120),
    seed=st.integers(0, 1000),
    kind=st.sampled_from(["precision", "recall"]),
    target=st.sampled_from([0.5, 0.8, 0.9, 1.0]),
    share=st.floats(0.05, 0.6),
)
@settings(max_examples=examples(60), deadline=None)
def test_certificate_from_the_curve_is_that_from_the_scores(n, seed, kind, target, share):
    scores, y = scored(n, seed)
    objective = Objective.parse({"kind": kind, "target": target, "confidence": 0.9})
    from_scores = choose_threshold(scores, y, objective, "fixed-sequence", positive_share=share)
    from_curve = certify_from_curve(OperatingCurve.from_scores(scores, y), objective, share)
    assert (from_curve.status, from_curve.counts, from_curve.reason) == (
        from_scores.status,
        from_scores.counts,
        from_scores.reason,
    )


def test_another_threshold_has_a_promise_and_met_is_said_of_likely_ones_only():
    scores, y = scored(300, 1)
    trained = report(OperatingCurve.from_scores(scores, y))
    hard, easy = ({"kind": "precision", "target": target} for target in (0.95, 0.5))
    for asked, level, status in ((hard, "open", "cannot_certify"), (easy, "likely", "met")):
        point = chosen_point(trained, Objective.parse(asked))
        assert (point.promise.level, point.status) == (level, status)
        assert point.status_reason == ("" if status == "met" else point.promise.sentence)
        assert stored_promise(trained, point) == point.promise
    certified = chosen_point(trained, Objective.parse({"kind": "recall", "target": 0.7, "confidence": 0.9}))
    assert (certified.promise.level, certified.status) == ("proven", "met")
    assert stored_promise(trained, certified) == certified.promise


@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_certificate_with_tied_scores_decides_on_rows_as_it_says(kind):
    scores, y = scored(200, 3, ties=True)
    objective = Objective.parse({"kind": kind, "target": 0.7, "confidence": 0.9})
    point = certify_from_curve(OperatingCurve.from_scores(scores, y), objective, 0.3)
    assert point.status == "met"
    assert point.counts.true_positives == np.count_nonzero((scores > point.threshold) & (y > 0))
    assert point.counts.false_positives == np.count_nonzero((scores > point.threshold) & (y == 0))


@pytest.mark.parametrize(
    "objective",
    [
        {"kind": "f1"},
        {"kind": "f_beta", "beta": 2},
        {"kind": "precision", "target": 0.9},
        {"kind": "recall", "target": 0.95},
        {"kind": "cost", "false_negative": 10, "false_positive": 1},
        {"kind": "precision", "target": 1.0},
    ],
)
def test_without_confidence_it_is_the_choice_that_training_makes(objective):
    scores, y = scored(300, 1)
    parsed = Objective.parse(objective)
    sigmoid = fit_sigmoid(scores, y)
    probability = ProbabilityReport(slope=sigmoid.slope, offset=sigmoid.offset, brier=0.1, reliability=[])
    calibration = CalibrationRows.from_report(report(OperatingCurve.from_scores(scores, y), probability=probability))
    assert calibration.operating_point(parsed) == choose_threshold(scores, y, parsed)


def test_certificates_only_from_rows_kept_apart():
    scores, y = scored(600, 2)
    curve = OperatingCurve.from_scores(scores, y)
    objective = Objective.parse({"kind": "recall", "target": 0.8, "confidence": 0.95})
    met = CalibrationRows.from_report(report(curve)).operating_point(objective)
    assert (met.status, met.reason) == ("met", "")
    supervised = report(curve, algorithm="svm", threshold_rule="f1max")
    assert CalibrationRows.from_report(supervised).operating_point(objective).status == "met"
    tuned = replace(supervised, tuning=TuningReport(1.0, 1.0, rows=100))  # by the other half, as it says since it is so
    assert CalibrationRows.from_report(tuned).operating_point(objective).status == "met"
    auto = replace(supervised, algorithm="auto")
    assert CalibrationRows.from_report(auto).operating_point(objective).status == "met"
    tried = JudgedMethod(
        method="lapsvm", log_loss=0.4, gain=0, standard_error=0, sharpness=0, rank_correlation=0,
        passes=False,
    )  # fmt: skip
    judge = Judgement(mode="safe", returned="svm", log_loss=0.4, sharpness=0.5, methods=[tried], sentence="")
    for changes in (
        {"labeled_split": "xfit"},
        {"threshold_rule": "f1max"},
        {"threshold_rule": "f1max", "algorithm": "auto", "judge": judge},  # these rows have chosen svm
        {"threshold_rule": "f1max", "algorithm": "svm", "tuning": TuningReport(1.0, 1.0)},
        {
            "rows": RowCounts(
                total=len(y), labelled=len(y), positive=int(y.sum()), negative=int((1 - y).sum()), unlabelled=0
            )
        },
    ):
        point = CalibrationRows.from_report(report(curve, **changes)).operating_point(objective)
        assert point.status == "cannot_certify"
        assert "train with a confidence" in point.reason
        assert "lower bound" not in point.reason  # of a share of errors it is an upper one
        assert "does not count that it was chosen by looking at them" in point.reason
        assert point.counts.recall >= 0.8
    crossed = report(curve, labeled_split="xfit", certificate="cross_fitted", algorithm="svm")
    assert CalibrationRows.from_report(crossed).operating_point(objective).status == "met"
    for certificate, changes, status in (
        ("strict", {"labeled_split": "xfit", "certificate": "cross_fitted", "algorithm": "svm"}, "cannot_certify"),
        ("strict", {}, "met"),
        ("cross_fitted", {}, "met"),
    ):
        asked = replace(objective, certificate=certificate)
        assert CalibrationRows.from_report(report(curve, **changes)).operating_point(asked).status == status
    hopeless = Objective.parse({"kind": "precision", "target": 1.0, "confidence": 0.99})
    assert CalibrationRows.from_report(report(curve)).operating_point(hopeless).status != "met"
    assert CalibrationRows.from_report(replace(report(curve), curve=None)) is None


def test_one_row_of_a_class_certifies_nothing():
    curve = OperatingCurve.from_scores([3.0, 2, 1, 0], [1, 0, 0, 0])
    assert CalibrationRows.from_report(report(curve)).certificate is None


def test_cost_interval_covers_as_stated():
    rng = np.random.default_rng(0)
    truth = np.array([0.27, 0.04, 0.66, 0.03])  # hits, false positives, true negatives, false negatives
    mean = 5 * truth[3] + 1 * truth[1]
    inside = 0
    for draw in rng.multinomial(200, truth, size=1000):
        low, high = cost_interval(ConfusionCounts(*map(int, draw)), (5.0, 1.0))
        inside += low <= mean <= high
    assert 935 <= inside <= 990  # 950 is the level; the covariance that is left out makes it a little wider


def test_no_error_seen_is_not_no_cost():
    shown = measures(ConfusionCounts(10, 0, 10, 0), costs=(5.0, 1.0)).cost
    assert shown.value == shown.low == 0
    assert 0.5 < shown.high < 1


def test_a_stricter_threshold_asks_for_no_more_rows_to_be_checked_than_are_called():
    scores, y = scored(120, 3)
    curve = OperatingCurve.from_scores(scores, y)
    rows = RowCounts(total=500, labelled=124, positive=40, negative=84, unlabelled=376)
    called = DecidedUnlabelled(rows=376, measured=376, positive=30, share=30 / 376, labelled_share=0.3)
    trained = report(curve, rows=rows, unlabelled=called, threshold=1.0)
    point = chosen_point(trained, Objective.parse({"kind": "precision", "target": 0.99}))
    assert point is not None
    assert point.threshold > 1.0
    assert point.promise is not None
    assert point.promise.needs is not None
    assert point.promise.needs.checkable == 30
