"""How several classes are decided, chosen on scores of left-out rows, and what that reaches on rows it did not see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.estimators._together import train_together
from solver.estimators.svm import SVM
from solver.multiclass import (
    ClassesDecision,
    ClassesReport,
    ClassObjective,
    Scheme,
    calibrate,
    choose_rule,
    figures_of,
    two_class_problems,
)
from solver.multiclass.figures import ClassesFigures, floor_outcomes
from solver.multiclass.rule import dealt
from solver.typing import FloatArray, IndexArray, Matrix

_FOLDS: Final = 5
_WARN_BELOW: Final = 10
_LEAST_PROBABILITY: Final = 1e-12


@dataclass(frozen=True)
class Cross:
    """A decision, and what such ones say of rows that had no say in them.

    Attributes
    ----------
    decision : ClassesDecision
        Chosen on all rows.
    rows : int array
        Those that have left-out scores, among the labelled ones.
    codes, said : int arrays
        Their classes, and those that are said of them.
    fold : int array
        Which rows had no say together.
    log_loss, share_log_loss : float
        Of the probabilities, and of the classes' shares.
    """

    decision: ClassesDecision
    rows: IndexArray
    codes: IndexArray
    said: IndexArray
    fold: IndexArray
    log_loss: float
    share_log_loss: float


def cross_decided(
    left_out: FloatArray,
    codes: IndexArray,
    plain: ClassesDecision,
    objective: ClassObjective | None,
    labels: list[Any],
) -> Cross | None:
    """Choose probabilities and rule on all rows, and measure by choosing them on four fifths, for the other fifth.

    Parameters
    ----------
    left_out : float64 array of shape (n, problems)
        Scores by models that a row did not train; NaN where there are none.
    codes : int array of shape (n,)
    plain : ClassesDecision
        Without probabilities and rule.
    objective : ClassObjective, optional
    labels : list

    Returns
    -------
    Cross or None
        None if not all classes have two left-out rows.
    """
    rows = np.flatnonzero(np.isfinite(left_out).all(axis=1))
    scores, known = left_out[rows], codes[rows]
    if np.bincount(known, minlength=len(labels)).min() < 2:
        return None
    fold = dealt(known, _FOLDS, np.random.default_rng(1))
    said = np.empty(len(rows), dtype=np.intp)
    probabilities = np.empty((len(rows), len(labels)))
    shares = np.empty(len(rows))
    for number in range(_FOLDS):
        learns, judged = fold != number, fold == number
        own = _chosen(scores[learns], known[learns], plain, objective, labels)
        said[judged] = own.says(scores[judged])
        if own.calibration is not None:
            probabilities[judged] = own.calibration(scores[judged])
        counts = np.bincount(known[learns], minlength=len(labels))
        shares[judged] = counts[known[judged]] / counts.sum()
    true = probabilities[np.arange(len(rows)), known]
    return Cross(
        _chosen(scores, known, plain, objective, labels), rows, known, said, fold,
        *(float(-np.mean(np.log(np.maximum(each, _LEAST_PROBABILITY)))) for each in (true, shares)),
    )  # fmt: skip


def _chosen(
    scores: FloatArray,
    codes: IndexArray,
    plain: ClassesDecision,
    objective: ClassObjective | None,
    labels: list[Any],
) -> ClassesDecision:
    """Probabilities and rule of these rows."""
    problems: NDArray[np.int8] = np.column_stack(two_class_problems(codes, len(labels), plain.scheme))
    calibration = calibrate(scores, problems, plain.scheme, len(labels))
    if objective is None:
        return replace(plain, calibration=calibration)
    rule = choose_rule(calibration(scores), codes, objective, labels, plain.counts)
    return replace(plain, calibration=calibration, rule=rule)


def linear_control(
    X: Matrix, codes: IndexArray, labels: list[Any], scheme: Scheme, crossed: Cross
) -> dict[str, ClassesFigures]:
    """A linear SVM by the same scheme, on the same rows."""
    problems = two_class_problems(codes, len(labels), scheme)
    fold = dealt(codes, _FOLDS, np.random.default_rng(1))
    trained = train_together(SVM(kernel="linear"), X, problems, np.ones(len(codes)), fold)
    if trained.left_out is None:
        return {}
    said = replace(crossed.decision, rule=None).says(trained.left_out[crossed.rows])
    return {"linear": figures_of(crossed.codes, said, labels)}


def class_report(
    *,
    declaration: Any,
    decision: ClassesDecision,
    objective: ClassObjective | None,
    labels: list[Any],
    unlabelled: int,
    crossed: Cross | None,
    controls: dict[str, ClassesFigures],
    ended: str,
) -> ClassesReport:
    """What a fit tells of itself."""
    counts = decision.counts
    report = ClassesReport(
        algorithm="" if declaration is None else declaration.name,
        scheme=decision.scheme,
        objective=None if objective is None else objective.to_dict(),
        classes=[str(label) for label in labels],
        rows=counts.tolist(),
        unlabelled=unlabelled,
        status="unmeasured",
        status_reason="No row was left out to be measured on.",
        figures=None,
        warnings=[
            f"only {n} labelled rows of {label!r}: what is said of it is uncertain"
            for label, n in zip(labels, counts.tolist(), strict=True)
            if n < _WARN_BELOW
        ],
    )
    if crossed is not None:
        costs = objective.cost_matrix(labels) if objective is not None and objective.kind == "cost" else None
        figures = figures_of(crossed.codes, crossed.said, labels, costs)
        largest = np.full(len(crossed.codes), int(np.argmax(counts)))
        outcomes = [] if objective is None else floor_outcomes(figures, objective)
        missed = [f"the {each.measure} of {each.label!r}" for each in outcomes if not each.met]
        report = replace(
            report,
            status="preference_unmet" if missed else "met",
            status_reason=f"Not reached on left-out rows: {', '.join(missed)}." if missed else "",
            figures=figures,
            controls={"majority": figures_of(crossed.codes, largest, labels, costs), **controls},
            floors=outcomes,
            log_loss=crossed.log_loss,
            share_log_loss=crossed.share_log_loss,
        )
    if ended == "stopped":
        return replace(report, status="stopped", status_reason="Training was stopped; this is the model until then.")
    if ended == "solver_limit":
        reason = "The solver reached its limit of iterations, time or precision before it converged."
        return replace(report, status="solver_limit", status_reason=reason)
    return report
