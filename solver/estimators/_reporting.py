"""What a fit says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from solver.algorithms import AlgorithmSpec
from solver.decision import DecisionState
from solver.estimators._choosing import Fit, Fitted
from solver.estimators._run import TrainingRun
from solver.estimators._tuning import Tuning
from solver.evaluation.curves import OperatingCurve
from solver.evaluation.intervals import WORTH_FOR_INTERVALS
from solver.evaluation.measures import measures
from solver.evaluation.probability import Sigmoid, brier_score, reliability_curve
from solver.operating_point import Objective
from solver.promise import promise_of
from solver.report import Classes, Control, CurvePoints, ProbabilityReport, Promise, Report, RowCounts, SolverReport
from solver.typing import FloatArray

_CURVE_POINTS: Final = 4000


class FittedEstimator(Protocol):
    """What a report repeats of a fitted estimator."""

    declaration: AlgorithmSpec
    classes_: NDArray[Any]
    threshold_: float
    status_: str
    status_reason_: str
    _tuning: Tuning | None

    def get_params(self) -> dict[str, Any]:
        """The parameters, as scikit-learn has it."""


def asked_and_ended(estimator: FittedEstimator, run: TrainingRun, objective: Objective) -> dict[str, Any]:
    """The fields of every report: what was asked, on which rows, and how it ended."""
    parameters = estimator.get_params()
    return {
        "algorithm": estimator.declaration.name,
        "params": {name: _plain(value) for name, value in parameters.items() if name != "callback"},
        "objective": objective.to_dict(),
        "status": estimator.status_,
        "status_reason": estimator.status_reason_,
        "threshold": estimator.threshold_,
        "classes": Classes(*map(str, estimator.classes_.tolist())),
        "rows": RowCounts(
            total=len(run.y),
            labelled=len(run.labelled),
            positive=int(np.count_nonzero(run.y > 0)),
            negative=int(np.count_nonzero(run.y < 0)),
            unlabelled=len(run.unlabelled),
        ),
        "test": None,
        "timings": {"training": run.seconds},
    }


def promise_of_fit(fit: Fit, fitted: Fitted, positive: str) -> Promise:
    """What the threshold of a fit promises; `positive` is the name of the class."""
    return promise_of(
        fit.objective,
        fitted.point.counts,
        positive,
        is_proven=fitted.certificate is not None and fitted.point.status == "met",
        has_seen=fitted.plan.split == "full",
        labelled=len(fit.run.labelled),
        certificate=fit.run.certificate,
        unlabelled=len(fit.run.unlabelled),
    )


def fitted_report(
    estimator: FittedEstimator,
    fit: Fit,
    fitted: Fitted,
    state: DecisionState,
    promise: Promise | None,
    upper_bounds: FloatArray,
) -> Report:
    """The report of a fit that measured.

    Parameters
    ----------
    estimator : FittedEstimator
    fit : Fit
    fitted : Fitted
    state : DecisionState
        The decision that is returned.
    promise : Promise or None
    upper_bounds : float64 array
        Of the variables of the run's labelled rows.
    """
    run, costs = fit.run, fit.objective.costs
    scored = np.isfinite(fitted.scores)
    scores, truth = fitted.scores[scored], run.y[fitted.plan.rows][scored]
    tuning = estimator._tuning
    solution = fitted.model.solution
    return Report(
        **asked_and_ended(estimator, run, fit.objective),
        promise=promise,
        threshold_rule=fit.rule,
        labeled_split=fitted.plan.split,
        certificate=fitted.certificate,
        calibration=measures(fitted.point.counts, costs=costs, worth=WORTH_FOR_INTERVALS) if scored.any() else None,
        controls={
            name: Control(
                c.threshold, None if c.counts is None else measures(c.counts, costs=costs, worth=WORTH_FOR_INTERVALS)
            )
            for name, c in fitted.controls.items()
        },
        tuning=None if tuning is None else tuning.report(),
        comparison=None if fitted.comparison is None else fitted.comparison.report(),
        judge=fitted.learned.judgement,
        rounds=fitted.learned.rounds,
        curve=_curve(scores, truth, run.limits.tol),
        probability=None if state.probability is None else _probability(state.probability, scores, truth),
        solver=SolverReport(
            gap=float(solution.gap),
            objective=float(solution.objective),
            iterations=run.iterations,
            status=solution.status,
            support_vectors=int(state.support_vectors.shape[0]),
            engine=solution.engine,
            lowrank=run.low_rank.report(solution, run.y, upper_bounds, run.limits.tol, compare=not run.ended),
        ),
        warnings=fit.warnings,
    )


def _curve(scores: FloatArray, truth: FloatArray, tol: float) -> CurvePoints | None:
    if not len(scores):
        return None
    return CurvePoints(**OperatingCurve.from_scores(scores, truth, tol).thinned(_CURVE_POINTS).to_dict())


def _probability(sigmoid: Sigmoid, scores: FloatArray, truth: FloatArray) -> ProbabilityReport:
    probabilities = sigmoid(scores)
    return ProbabilityReport(
        slope=sigmoid.slope,
        offset=sigmoid.offset,
        brier=brier_score(truth, probabilities),
        reliability=reliability_curve(truth, probabilities),
    )


def _plain(value: Any) -> Any:
    """A JSON value for a parameter or a label."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Objective):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(part) for key, part in value.items()}
    if value is None or isinstance(value, str | bool | int | float):
        return cast(Any, value)
    return str(value)
