"""Another threshold for a trained model, from its report alone: no data, no training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from solver.algorithms import ALGORITHMS
from solver.choices import Certificate
from solver.evaluation import CHOSEN_ROW_WORTH, OperatingCurve, Sigmoid, measures
from solver.operating_point import ChosenThreshold, Objective, certify_from_curve, choose_from_curve
from solver.promise import Counts, promise_of, promised_status
from solver.report import Measures, Promise, Report, ReportedPoint

FEWEST_OF_A_CLASS: Final = 2
"""Calibration rows of each class that a certificate needs."""


@dataclass(frozen=True)
class Calibration:
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
    """

    curve: OperatingCurve
    other_positive_share: float | None
    certificate: Certificate | None
    probability: Sigmoid | None = None

    @classmethod
    def from_report(cls, report: Report) -> Calibration | None:
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
        return cls(curve, share, certificate, None if told is None else Sigmoid(told.slope, told.offset))

    def operating_point(self, objective: Objective) -> ChosenThreshold:
        """Choose the threshold that serves an objective.

        With a confidence the fixed-sequence test is run where the rows can certify. Where they cannot, the cautious
        threshold (by lower bounds) comes with the status `cannot_certify`.
        """
        if objective.confidence is None:
            return choose_from_curve(self.curve, objective, probability=self.probability)
        can_certify = self.certificate is not None and objective.certificate in (None, self.certificate)
        if self.certificate == "strict" and objective.certificate == "cross_fitted":
            can_certify = True  # it is more than was asked for
        if can_certify and self.other_positive_share is not None and 0 < self.other_positive_share < 1:
            return certify_from_curve(self.curve, objective, self.other_positive_share)
        cautious = choose_from_curve(self.curve, objective, "lcb")
        if cautious.status != "met":
            return cautious
        reason = (
            "Training kept no rows apart that could certify the target; train with a confidence. "
            "By its lower bound this threshold reaches it on the calibration rows."
        )
        return replace(cautious, status="cannot_certify", reason=reason)


class StoredPoint(Protocol):
    """An operating point that was applied."""

    objective: dict[str, Any]
    status: str
    threshold: float
    calibration: Measures | None


def _promise(report: Report, objective: Objective, counts: Counts, threshold: float, *, is_proven: bool) -> Promise:
    """What a threshold of the model of this report promises."""
    # What the test rows said is of this model at the threshold of its training, if it has not learned from them since.
    is_trained = threshold == report.threshold
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
        called=report.unlabelled.called if is_trained and report.unlabelled is not None else None,
    )


def stored_promise(report: Report, point: StoredPoint) -> Promise | None:
    """What an operating point promises that was applied to the model of this report."""
    if point.calibration is None:
        return None
    objective = Objective.parse(point.objective)
    is_proven = objective.confidence is not None and point.status == "met"
    return _promise(report, objective, point.calibration, point.threshold, is_proven=is_proven)


def chosen_point(report: Report, objective: Objective) -> ReportedPoint | None:
    """The operating point of a trained model for an objective; None if its report has no curve to choose from."""
    calibration = Calibration.from_report(report)
    if calibration is None:
        return None
    point = calibration.operating_point(objective)
    is_proven = objective.confidence is not None and point.status == "met"
    promise = _promise(report, objective, point.counts, point.threshold, is_proven=is_proven)
    status, reason = (point.status, point.reason) if is_proven else promised_status(point.status, point.reason, promise)
    return ReportedPoint(
        promise=promise,
        objective=objective.to_dict(),
        threshold=point.threshold,
        status=status,
        status_reason=reason,
        calibration=measures(point.counts, costs=objective.costs, worth=CHOSEN_ROW_WORTH),
    )
