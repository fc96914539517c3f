"""Chooses another threshold for a trained model from its report alone, without data and without training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from solver.abstention import Certifying, abstention, missing, missing_words, nothing_said
from solver.algorithms import ALGORITHMS
from solver.choices import FEWEST_OF_A_CLASS, Certificate
from solver.evaluation import WORTH_FOR_INTERVALS, ConfusionCounts, OperatingCurve, Sigmoid, measures
from solver.operating_point import ChosenThreshold, Objective, certify_from_curve, choose_from_curve, point_at
from solver.positives_only import OnlyPositives, choose_place, reached, told_at
from solver.promise import Counts, promise_of, promised_status
from solver.report import Abstention, Measures, PositivesOnly, Promise, Report, ReportedPoint


@dataclass(frozen=True)
class CalibrationRows:
    """What a report keeps of the calibration rows.

    Attributes
    ----------
    curve : OperatingCurve
    other_positive_share : float or None
        Share of positives among the labelled rows that are not calibration rows; None without such rows.
    certificate : str or None
        What these rows can certify a target by. `strict`: training has chosen nothing by them but the threshold, and
        the scores are those of the very model. `cross_fitted`: the scores are those of models that left the rows out,
        ranked as the model ranks. None: nothing.
    probability : Sigmoid or None
        Fitted on the calibration rows.
    has_trained : bool
        Whether these rows have trained the model: then they say nothing of new ones.
    """

    curve: OperatingCurve
    other_positive_share: float | None
    certificate: Certificate | None
    probability: Sigmoid | None = None
    has_trained: bool = False

    @classmethod
    def from_report(cls, report: Report) -> CalibrationRows | None:
        """What the report of a training keeps; None if it has no curve."""
        if report.curve is None:
            return None
        curve = OperatingCurve.from_dict(vars(report.curve))
        others = report.rows.labelled - curve.positives - curve.negatives
        # Cross-fitted scores are of other models. The semi-supervised methods choose rounds by calibration scores, and
        # auto a method. And tuning chose C and gamma on all labelled rows, until it said how many rows had chosen.
        is_svm = report.algorithm in ("svm", "auto") and not (report.judge and report.judge.methods)
        chose_nothing = is_svm and (report.tuning is None or report.tuning.rows is not None)
        kept_apart = report.labeled_split == "part" and (report.threshold_rule == "fixed-sequence" or chose_nothing)
        enough = min(curve.positives, curve.negatives) >= FEWEST_OF_A_CLASS
        share = (report.rows.positive - curve.positives) / others if others > 0 else None
        certificate: Certificate | None = None
        if enough and report.certificate == "cross_fitted":
            certificate, share = "cross_fitted", curve.positives / (curve.positives + curve.negatives)
        elif enough and kept_apart:
            certificate = "strict"
        told = report.probability
        sigmoid = None if told is None else Sigmoid(told.slope, told.offset)
        return cls(curve, share, certificate, sigmoid, report.labeled_split == "full")

    def operating_point(self, objective: Objective) -> ChosenThreshold:
        """Choose the threshold that serves an objective.

        With a confidence the fixed-sequence test is run where the rows can certify. Where they cannot, the cautious
        threshold (by lower bounds) comes with the status `cannot_certify`.
        """
        if objective.confidence is None:
            return choose_from_curve(self.curve, objective, probability=self.probability)
        share = self._certifying_share(objective)
        if share is not None:
            return certify_from_curve(self.curve, objective, share)
        cautious = choose_from_curve(self.curve, objective, "lcb")
        if cautious.status != "met":
            return cautious
        reason = (
            "Training kept no rows apart that could certify the target; train with a confidence. "
            "The confidence bound of this threshold alone reaches it on the calibration rows, but does not count that "
            "it was chosen by looking at them."
        )
        return replace(cautious, status="cannot_certify", reason=reason)

    def abstention(
        self, objective: Objective, threshold: float, counts: ConfusionCounts, classes: tuple[str, str]
    ) -> Abstention | None:
        """Choose which rows are left undecided around the threshold of an objective; None where none are to be.

        With a confidence each class is said only where its precision is certified.
        """
        if objective.abstain is None:
            return None
        if self.has_trained:
            return nothing_said(objective.abstain, classes, "the calibration rows have trained the model")
        certifying = None
        if objective.confidence is not None:
            certifying = Certifying(objective.confidence, self._certifying_share(objective))
        return abstention(self.curve, threshold, counts, objective.abstain, classes, certifying)

    def _certifying_share(self, objective: Objective) -> float | None:
        """The share of positives that a certificate for an objective starts from; None where there can be none."""
        can_certify = self.certificate is not None and objective.certificate in (None, self.certificate)
        if self.certificate == "strict" and objective.certificate == "cross_fitted":
            can_certify = True  # it is more than was asked for
        share = self.other_positive_share
        return share if can_certify and share is not None and 0 < share < 1 else None


class StoredPoint(Protocol):
    """An operating point that was applied."""

    objective: dict[str, Any]
    status: str
    threshold: float
    calibration: Measures | None
    abstain: Abstention | None


def abstention_of(report: Report, objective: Objective, threshold: float) -> Abstention | None:
    """Which rows a trained model leaves undecided at the threshold of its training; None where none are to be."""
    if objective.abstain is None:
        return None
    calibration, classes = CalibrationRows.from_report(report), (report.classes.negative, report.classes.positive)
    if calibration is None or report.calibration is None:
        return nothing_said(objective.abstain, classes, "no labelled row was left to measure it on")
    return calibration.abstention(objective, threshold, counts_of(report.calibration), classes)


def counts_of(measured: Measures) -> ConfusionCounts:
    """The counts that measures were made of."""
    return ConfusionCounts(
        measured.true_positives, measured.false_positives, measured.true_negatives, measured.false_negatives
    )


def status_with(status: str, reason: str, chosen: Abstention | None) -> tuple[str, str]:
    """Status and reason of a point whose target is not proven: a class that is said of no row was asked for, too."""
    unsaid = missing(chosen)
    if status != "met" or not unsaid:
        return status, reason
    said = missing_words(unsaid)
    return "cannot_certify", f"{said[0].upper()}{said[1:]}."


def _promise(
    report: Report,
    objective: Objective,
    counts: Counts,
    threshold: float,
    chosen: Abstention | None,
    *,
    is_proven: bool,
) -> Promise:
    """What a threshold of the model of this report promises, with the rows that are left undecided around it."""
    # What the test rows said is of this model at the threshold of its training, if it has not learned from them since.
    is_trained = threshold == report.threshold
    is_same = is_trained and chosen == report.abstain
    # A higher threshold calls some of the same rows.
    is_stricter = threshold >= report.threshold and chosen is None and report.abstain is None
    counted = report.unlabelled if is_same or is_stricter else None
    return promise_of(
        objective,
        counts,
        report.classes.positive,
        is_proven=is_proven,
        has_seen=report.labeled_split == "full",
        test=report.test if is_trained and report.refit is None else None,
        # an algorithm that is no more is taken for one of most
        certificate=ALGORITHMS.get(report.algorithm, ALGORITHMS["svm"]).certificate(report.rows.unlabelled),
        labelled=report.rows.labelled - (0 if report.refit is not None else report.rows.test),
        unlabelled=report.rows.unlabelled,
        called=None if counted is None else counted.called,
        abstained=chosen,
        test_abstained=report.test_abstain if is_same and report.refit is None else None,
    )


def _unproven(objective: Objective) -> Objective:
    """The objective as a threshold can serve it that was picked by looking: without a proof."""
    return replace(objective, confidence=None, certificate=None)


def stored_promise(report: Report, point: StoredPoint, *, picked: bool = False) -> Promise | None:
    """What an operating point promises that was applied to the model of this report; `picked` as of `ChosenPoint`."""
    objective = Objective.parse(point.objective)
    objective = _unproven(objective) if picked else objective
    if report.positives_only is not None:
        return told_at(report.positives_only, point.threshold, objective, report.classes.positive)[1]
    if point.calibration is None:
        return None
    is_proven = objective.confidence is not None and point.status == "met"
    return _promise(report, objective, point.calibration, point.threshold, point.abstain, is_proven=is_proven)


@dataclass(frozen=True, kw_only=True)
class ChosenPoint(ReportedPoint):
    """A threshold of a trained model, chosen for an objective or picked by hand.

    Attributes
    ----------
    picked : bool
        Whether somebody took this very threshold, which is not the one that serves the objective.
    """

    picked: bool


class NotOfTheCurveError(ValueError):
    """A threshold is none of those that a curve knows the counts of."""


def chosen_point(report: Report, objective: Objective, threshold: float | None = None) -> ChosenPoint | None:
    """The operating point of a trained model for an objective; None if its report has no curve to choose from.

    Of one that no negative row has measured, `calibration` is None, and the promise says what is known.

    Parameters
    ----------
    report : Report
    objective : Objective
        What is asked of the model, whatever threshold it is given.
    threshold : float, optional
        One of the curve, to be taken as it is. By default the one that serves the objective. Picked by looking, it
        proves nothing: a confidence that the objective asks for is not reached by it.

    Raises
    ------
    NotOfTheCurveError
        If the threshold is none of the curve's.
    """
    if report.positives_only is not None:
        return _without_negatives(report, report.positives_only, objective, threshold)
    calibration = CalibrationRows.from_report(report)
    if calibration is None:
        return None
    point, asked = calibration.operating_point(objective), objective
    picked = threshold not in (None, point.threshold)
    if threshold is not None and picked:
        asked = _unproven(objective)
        taken = point_at(calibration.curve, threshold, asked)
        if taken is None:
            raise NotOfTheCurveError
        point = taken
    is_proven = asked.confidence is not None and point.status == "met"
    classes = (report.classes.negative, report.classes.positive)
    chosen = calibration.abstention(asked, point.threshold, point.counts, classes)
    promise = _promise(report, asked, point.counts, point.threshold, chosen, is_proven=is_proven)
    said: tuple[str, str] = (point.status, point.reason)
    if not is_proven:
        said = status_with(*promised_status(point.status, point.reason, promise), chosen)
    if asked != objective and said[0] == "met":
        said = ("cannot_certify", "The threshold was picked by looking at the curve, which proves nothing.")
    return ChosenPoint(
        picked=picked,
        promise=promise,
        objective=objective.to_dict(),
        threshold=point.threshold,
        status=said[0],
        status_reason=said[1],
        calibration=measures(point.counts, costs=objective.costs, worth=WORTH_FOR_INTERVALS),
        abstain=chosen,
    )


def _without_negatives(
    report: Report, told: PositivesOnly, objective: Objective, threshold: float | None
) -> ChosenPoint | None:
    """The operating point of a model that no negative row has measured; None for one that leaves rows undecided."""
    if objective.abstain is not None:
        return None
    known = OnlyPositives.from_report(told)
    thresholds = known.curve.thresholds.tolist()
    best = thresholds[choose_place(known, objective, "auto")]
    picked = threshold not in (None, best)
    if threshold is not None and threshold not in thresholds:
        raise NotOfTheCurveError
    taken = best if threshold is None else threshold
    promise = told_at(told, taken, _unproven(objective) if picked else objective, report.classes.positive)[1]
    status, reason = reached(promise, objective)
    return ChosenPoint(
        picked=picked,
        promise=promise,
        objective=objective.to_dict(),
        threshold=taken,
        status=status,
        status_reason=reason,
        calibration=None,
    )
