"""How several classes are decided, chosen on scores of left-out rows, and what that reaches on rows it did not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from scipy.special import expit

from solver.classes_report import ClassesFigures
from solver.estimators._together import train_together
from solver.estimators.svm import SVM
from solver.multiclass import (
    Calibration,
    ClassesDecision,
    ClassesReport,
    ClassObjective,
    LeftOutProblemScores,
    Scheme,
    calibrate_own,
    figures_of,
)
from solver.multiclass.choosing import LeftOutProbabilities
from solver.multiclass.figures import curves_of, floor_outcomes, status_of
from solver.multiclass.rule import dealt_by_case, dealt_in_groups
from solver.repeated_rows import Cases
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_FOLDS: Final = 5
_WARN_BELOW: Final = 10
_LEAST_PROBABILITY: Final = 1e-12
_SCORES_AT_ONCE: Final = 1 << 20
"""Rows times problems: 8 MB."""


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
    left_out : LeftOutProbabilities or None
        What the rules chose by; None without rules.
    """

    decision: ClassesDecision
    rows: IndexArray
    codes: IndexArray
    said: IndexArray
    fold: IndexArray
    log_loss: float
    share_log_loss: float
    left_out: LeftOutProbabilities | None

    def kept(self, seed: int) -> KeptCross | None:
        """What a fitted classifier goes on to hold: all probabilities of very many rows would be six times as large."""
        if self.left_out is None:
            return None
        return KeptCross(self.rows, self.left_out.own, self.left_out.to_keep(seed))


@dataclass(frozen=True)
class KeptCross:
    """What is kept of a `Cross` whose rules chose by probabilities, for a training that tells more of its rows.

    Attributes
    ----------
    rows : int array
        As of `Cross`.
    own : float64 array of shape (n, classes)
        Probabilities of each row that it had no say in.
    chosen_by : LeftOutProbabilities
        As many of them as may be kept with a model.
    """

    rows: IndexArray
    own: FloatArray
    chosen_by: LeftOutProbabilities


def cross_decided(
    left_out: LeftOutProblemScores,
    codes: IndexArray,
    plain: ClassesDecision,
    objective: ClassObjective | None,
    labels: list[Any],
    groups: IndexArray | None = None,
) -> Cross | None:
    """Choose probabilities and rule on all rows, and measure by choosing them on four fifths, for the other fifth.

    Parameters
    ----------
    left_out : LeftOutProblemScores
        By models that a row did not train.
    codes : int array of shape (n,)
    plain : ClassesDecision
        Without probabilities and rule.
    objective : ClassObjective, optional
    labels : list
    groups : int array of shape (n,), optional
        Rows of one number have no say in each other's decision.

    Returns
    -------
    Cross or None
        None if not all classes have two left-out rows.
    """
    own, classes = left_out.own, len(labels)
    has_scores = np.ones(len(codes), dtype=bool)
    has_scores[own.rows[~np.isfinite(left_out.scores)]] = False
    rows = np.flatnonzero(has_scores)
    known = codes[rows]
    if np.bincount(known, minlength=classes).min() < 2:
        return None
    fold = dealt_in_groups(known, _FOLDS, np.random.default_rng(1), None if groups is None else groups[rows])
    of_own = np.full(len(codes), _FOLDS)
    of_own[rows] = fold
    of_own = of_own[own.rows]

    def calibrated(taken: BoolArray, like: Calibration | None) -> Calibration:
        return calibrate_own(left_out.scores[taken], own.kept(taken), plain.scheme, classes, like)

    of_all = calibrated(of_own < _FOLDS, None)
    of_folds = [calibrated((of_own < _FOLDS) & (of_own != number), of_all) for number in range(_FOLDS)]
    decision = replace(plain, calibration=of_all)
    chosen_by = None
    if objective is None:
        said, true = _without_rule(left_out, rows, known, fold, decision, of_folds)
    else:
        chosen_by = _probabilities(left_out, rows, known, fold, decision, of_folds)
        said, rule = chosen_by.decided(objective, labels)
        true = chosen_by.own[np.arange(len(known)), known]
        decision = replace(decision, rule=rule)
    there = np.stack([np.bincount(known[fold != number], minlength=classes) for number in range(_FOLDS)])
    shares = there[fold, known] / there.sum(axis=1)[fold]
    log_loss, share_log_loss = (
        float(-np.mean(np.log(np.maximum(each, _LEAST_PROBABILITY)))) for each in (true, shares)
    )
    return Cross(decision, rows, known, said, fold, log_loss, share_log_loss, chosen_by)


def _parts(left_out: LeftOutProblemScores, rows: int) -> Iterator[slice]:
    """Parts of so many rows, the scores of each of which are not too many at once."""
    step = max(1, _SCORES_AT_ONCE // max(1, left_out.own.problems))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _without_rule(
    left_out: LeftOutProblemScores,
    rows: IndexArray,
    codes: IndexArray,
    fold: IndexArray,
    decision: ClassesDecision,
    of_folds: list[Calibration],
) -> tuple[IndexArray, FloatArray]:
    """What is said of each row, and how likely its own class is by the sigmoids that it had no say in."""
    slopes, offsets = (np.stack([getattr(each, name) for each in of_folds]) for name in ("slopes", "offsets"))
    said, true = np.empty(len(rows), dtype=np.intp), np.empty(len(rows))
    for part in _parts(left_out, len(rows)):
        scores = left_out.of_rows(rows[part])
        said[part] = decision.says(scores)
        probabilities = of_folds[0].of_classes(expit(slopes[fold[part]] * scores + offsets[fold[part]]))
        true[part] = probabilities[np.arange(len(scores)), codes[part]]
    return said, true


def _probabilities(
    left_out: LeftOutProblemScores,
    rows: IndexArray,
    codes: IndexArray,
    fold: IndexArray,
    decision: ClassesDecision,
    of_folds: list[Calibration],
) -> LeftOutProbabilities:
    """Probabilities of each row, by the sigmoids of all rows and by those that the rows of a fold had no say in."""
    made = np.empty((1 + len(of_folds), len(rows), len(decision.counts)))
    for part in _parts(left_out, len(rows)):
        scores = left_out.of_rows(rows[part])
        for each, calibration in zip(made, (decision.calibration, *of_folds), strict=True):
            each[part] = cast("Calibration", calibration)(scores)
    return LeftOutProbabilities(codes, fold, made[0], made[1:], decision.counts, len(rows))


def linear_control(
    X: Matrix, codes: IndexArray, labels: list[Any], scheme: Scheme, crossed: Cross, cases: Cases
) -> dict[str, ClassesFigures]:
    """A linear SVM by the same scheme, on the same rows."""
    fold = dealt_by_case(codes, _FOLDS, np.random.default_rng(1), cases)
    trained = train_together(SVM(kernel="linear"), X, codes, len(labels), scheme, np.ones(len(codes)), fold)
    if trained.left_out is None:
        return {}
    decision, of_rows = replace(crossed.decision, rule=None), trained.left_out.of_rows
    parts = _parts(trained.left_out, len(crossed.rows))
    said = np.concatenate([decision.says(of_rows(crossed.rows[part])) for part in parts])
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
        status, reason = status_of(outcomes)
        report = replace(
            report,
            status=status,
            status_reason=reason,
            figures=figures,
            controls={"majority": figures_of(crossed.codes, largest, labels, costs), **controls},
            floors=outcomes,
            log_loss=crossed.log_loss,
            share_log_loss=crossed.share_log_loss,
            curves=[] if crossed.left_out is None else curves_of(crossed.left_out.own, crossed.codes),
        )
    if ended == "stopped":
        return replace(report, status="stopped", status_reason="Training was stopped; this is the model until then.")
    if ended == "solver_limit":
        reason = "The solver reached its limit of iterations, time or precision before it converged."
        return replace(report, status="solver_limit", status_reason=reason)
    return report
