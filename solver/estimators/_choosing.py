"""Which model a fit returns and where its threshold is: on calibration scores, or certified on rows kept apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from solver.choices import FEWEST_OF_A_CLASS, Certificate, LabeledSplit, Mode, ThresholdRule
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._expansion import Expansion
from solver.estimators._guard import Comparison, compare, difference_between, wins
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores, remember_scores, ruler_scores, scores_in_time
from solver.evaluation.counts import ConfusionCounts, confusion
from solver.operating_point import ChosenThreshold, Objective, choose_threshold
from solver.report import Judgement
from solver.typing import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True)
class Learned:
    """What learning on a calibration plan gives, before a threshold is chosen.

    Attributes
    ----------
    model, scores : Expansion, float64 array
        The method's model and its scores of the plan's calibration rows (NaN where not scored).
    supervised, supervised_scores : Expansion, float64 array
        The same without unlabelled rows: the SVM on the plan's training rows.
    rounds : list of dict
        The trace of an iterative method.
    judgement : Judgement, optional
        Which of several methods the model is of, and why.
    """

    model: Expansion
    scores: FloatArray
    supervised: Expansion
    supervised_scores: FloatArray
    rounds: list[dict[str, Any]] = field(default_factory=list)
    judgement: Judgement | None = None


@dataclass(frozen=True)
class ControlModel:
    """A decision that stands beside the method's own in every report."""

    model: Expansion
    threshold: float
    counts: ConfusionCounts | None


@dataclass(frozen=True)
class Fitted:
    """A fit's result.

    Attributes
    ----------
    plan : CalibrationPlan
        Its rows are those that the threshold was chosen on.
    learned : Learned
    model : Expansion
        The one that is returned: the method's or the control's.
    scores : float64 array
        The model's scores of these rows (NaN where not scored).
    point : ChosenThreshold
    controls : dict of ControlModel
    comparison : Comparison or None
    certificate : str or None
        By which rows the threshold was tested, if it was.
    """

    plan: CalibrationPlan
    learned: Learned
    model: Expansion
    scores: FloatArray
    point: ChosenThreshold
    controls: dict[str, ControlModel]
    comparison: Comparison | None
    certificate: Certificate | None = None


@dataclass
class Fit:
    """One fit: what it learns from, what for, and how its method learns.

    Attributes
    ----------
    run : TrainingRun
    objective : Objective
    rule : str
        The threshold rule in force.
    mode : str or None
        When the method's own model is returned; None for a method that uses no unlabelled rows.
    learn : callable
        What a method does with a plan, see `Learned`.
    train_svm : callable
        Trains the C-SVC on these labelled rows, from the training that is given, if any.
    warnings : list of str
    """

    run: TrainingRun
    objective: Objective
    rule: ThresholdRule
    mode: Mode | None
    learn: Callable[[TrainingRun, CalibrationPlan, Objective, ThresholdRule], Learned]
    train_svm: Callable[[TrainingRun, IndexArray, Expansion | None], Expansion]
    warnings: list[str] = field(default_factory=list)


def fit_calibrated(fit: Fit, plan: CalibrationPlan, asked_split: LabeledSplit) -> Fitted:
    """Learn, and choose the threshold on the calibration scores."""
    run, objective, rule = fit.run, fit.objective, fit.rule
    if plan.split != asked_split:
        fit.warnings.append("Too few labelled rows of a class for two halves: cross-fitted scores are used instead.")
    if plan.split == "full" and rule != "zero":
        fit.warnings.append("The threshold was chosen on rows that trained the model, so its measures are optimistic.")
    scored_rule: ThresholdRule = "f1max" if rule == "fixed-sequence" else rule
    learned = fit.learn(run, plan, objective, scored_rule)
    if run.ended == "stopped" and not np.isfinite(learned.scores).any():
        plan, learned = _best_when_stopped(fit, plan, learned)
    point = choose(run, plan, learned.scores, objective, scored_rule)
    control = point
    if learned.supervised_scores is not learned.scores:
        control = choose(run, plan, learned.supervised_scores, objective, scored_rule)
    comparison = _compare(fit, plan, learned, (point, control), objective)
    model, scores = learned.model, learned.scores
    if comparison is not None and comparison.returned == "no_unlabelled":
        model, scores, point = learned.supervised, learned.supervised_scores, control
    if rule == "fixed-sequence":
        point = replace(
            point,
            status="cannot_certify",
            reason=f"A certificate needs at least {2 * FEWEST_OF_A_CLASS} labelled rows of each class.",
        )
    controls = {"no_unlabelled": ControlModel(learned.supervised, control.threshold, control.counts)}
    return Fitted(plan, learned, model, scores, point, controls, comparison)


def fit_certified(fit: Fit, inner: CalibrationPlan, plan: CalibrationPlan) -> Fitted:
    """Learn on one half of the labelled rows; certify the result on the other half, which nothing has seen."""
    run = fit.run
    learned, model, comparison = _learn_uncertified(fit, inner)
    positive_share = float(np.mean(run.y[np.setdiff1d(plan.training_rows, plan.unmeasured)] > 0))

    def certify(candidate: Expansion) -> tuple[FloatArray, ChosenThreshold]:
        scores = scores_in_time(run, candidate, plan.rows)
        use_reference = len(run.unlabelled) > 0 and run.ended != "stopped"
        reference = approximate_scores(run, candidate, run.unlabelled) if use_reference else None
        return scores, _certify(fit, plan, scores, reference, positive_share)

    scores, point = certify(model)
    control = point if learned.supervised is model else certify(learned.supervised)[1]
    controls = {"no_unlabelled": ControlModel(learned.supervised, control.threshold, control.counts)}
    return Fitted(plan, learned, model, scores, point, controls, comparison, "strict")


def fit_cross_certified(fit: Fit, plan: CalibrationPlan) -> Fitted:
    """Learn on all labelled rows, and certify the result on all of them, each scored by a model that left it out.

    Left-out scores are ranked among the rows of the run's ruler, and so are the thresholds that are tested: what the
    models of the folds reach at a rank is taken for what the final one reaches there, which has learned from more rows.
    """
    run = fit.run
    learned, model, comparison = _learn_uncertified(fit, plan)
    if run.ended == "stopped" and not np.isfinite(learned.scores).any():
        plan, learned = _best_when_stopped(fit, plan, learned)
        model = learned.model

    def certify(candidate: Expansion, scores: FloatArray) -> ChosenThreshold:
        if plan.split == "full":
            point = choose(run, plan, scores, fit.objective, "f1max")
            return replace(point, status="cannot_certify", reason="No left-out row was scored.")
        scored = np.isfinite(scores)
        positive_share = float(np.mean(run.y[plan.rows][scored] > 0)) if scored.any() else 0.0
        reference = None if run.ended == "stopped" else ruler_scores(run, candidate)
        return _certify(fit, plan, scores, reference, positive_share)

    scores = learned.supervised_scores if model is learned.supervised else learned.scores
    point = certify(model, scores)
    control = point if learned.supervised is model else certify(learned.supervised, learned.supervised_scores)
    controls = {"no_unlabelled": ControlModel(learned.supervised, control.threshold, control.counts)}
    return Fitted(plan, learned, model, scores, point, controls, comparison, "cross_fitted")


def _learn_uncertified(fit: Fit, plan: CalibrationPlan) -> tuple[Learned, Expansion, Comparison | None]:
    """What is learned, which of its two models is returned, and why, for the objective without its confidence."""
    run, objective = fit.run, replace(fit.objective, confidence=None, certificate=None)
    learned = fit.learn(run, plan, objective, "f1max")
    if fit.mode is None:
        return learned, learned.model, None
    points = (
        choose(run, plan, learned.scores, objective, "f1max"),
        choose(run, plan, learned.supervised_scores, objective, "f1max"),
    )
    comparison = _compare(fit, plan, learned, points, objective)
    takes_control = comparison is not None and comparison.returned == "no_unlabelled"
    return learned, learned.supervised if takes_control else learned.model, comparison


def _certify(
    fit: Fit, plan: CalibrationPlan, scores: FloatArray, reference: FloatArray | None, positive_share: float
) -> ChosenThreshold:
    """Test thresholds on the calibration rows that were scored; `reference` are scores that define the grid."""
    run = fit.run
    scored = np.isfinite(scores)
    truth = run.y[plan.rows][scored]
    if not (truth > 0).any() or not 0 < positive_share < 1:
        reason = "Training was stopped before rows of both classes were scored."
        return ChosenThreshold(0.0, confusion(truth, scores[scored] > 0), "cannot_certify", reason)
    return choose_threshold(
        scores[scored],
        truth,
        fit.objective,
        "fixed-sequence",
        reference_scores=reference,
        positive_share=positive_share,
        resolution=run.limits.tol,
    )


def _best_when_stopped(fit: Fit, plan: CalibrationPlan, learned: Learned) -> tuple[CalibrationPlan, Learned]:
    """What to keep of a run that was stopped before the method's model was scored.

    That is the model without unlabelled rows if that one was scored; else what there is, with scores of rows that
    trained it.
    """
    run = fit.run
    best, scores = learned.supervised, learned.supervised_scores
    if np.isfinite(scores).any():
        fit.warnings.append("Training was stopped before the unlabelled rows had a part in it.")
    else:
        scores = scores_in_time(run, best, plan.rows)
        plan = replace(plan, split="full", folds=())
        fit.warnings.append(
            "Training was stopped before any left-out row was scored: the threshold was chosen on rows that "
            "trained the model, so its measures are optimistic."
        )
    return plan, Learned(best, scores, best, scores, learned.rounds)


def _compare(
    fit: Fit,
    plan: CalibrationPlan,
    learned: Learned,
    points: tuple[ChosenThreshold, ChosenThreshold],
    objective: Objective,
) -> Comparison | None:
    """The method against the control without unlabelled rows; None for a method that uses none."""
    scored = np.isfinite(learned.scores) & np.isfinite(learned.supervised_scores)
    if fit.mode is None or not scored.any():
        return None
    point, control = points
    return compare(
        fit.run.y[plan.rows][scored],
        learned.scores[scored] > point.threshold,
        learned.supervised_scores[scored] > control.threshold,
        objective,
        fit.mode,
    )


def choose(
    run: TrainingRun,
    plan: CalibrationPlan,
    scores: FloatArray,
    objective: Objective,
    rule: ThresholdRule,
) -> ChosenThreshold:
    """The operating point on the calibration rows that were scored; at 0 when no positive one was."""
    scored = np.isfinite(scores)
    truth = run.y[plan.rows][scored]
    if not (truth > 0).any():
        return ChosenThreshold(0.0, confusion(truth, scores[scored] > 0), "preference_unmet", "")
    return choose_threshold(scores[scored], truth, objective, rule, resolution=run.limits.tol)


def _plain_svm(fit: Fit, plan: CalibrationPlan, learned: Learned) -> ControlModel | None:
    """The SVM on all labelled rows with threshold 0, measured on rows it did not see; None when time is up."""
    run = fit.run
    if plan.split != "part":
        scored = np.isfinite(learned.supervised_scores)
        counts = confusion(run.y[plan.rows][scored], learned.supervised_scores[scored] > 0)
        return ControlModel(learned.supervised, 0.0, counts if scored.any() else None)
    if run.ended:
        return None
    # the two halves score each other, and together they are where the training on both starts
    one = remember_scores(run, learned.supervised, plan.rows)
    other = remember_scores(run, fit.train_svm(run, plan.rows, None), plan.training_rows)
    model = fit.train_svm(run, run.labelled, one.added_to(other))
    others = np.setdiff1d(plan.training_rows, plan.unmeasured)
    scores = np.concatenate([approximate_scores(run, one, plan.rows), approximate_scores(run, other, others)])
    truth = np.concatenate([run.y[plan.rows], run.y[others]])
    return ControlModel(model, 0.0, confusion(truth, scores > 0))


def add_controls(fit: Fit, fitted: Fitted) -> None:
    """Put the other controls beside the first one, and say where one is better than what is returned."""
    run, objective = fit.run, fit.objective
    plain = _plain_svm(fit, fitted.plan, fitted.learned)
    if plain is not None:
        fitted.controls["plain_svm"] = plain
    scored = np.isfinite(fitted.scores)
    truth = run.y[fitted.plan.rows][scored]
    if len(truth) == 0:
        return
    mine = fitted.scores[scored] > fitted.point.threshold
    decisions: dict[str, BoolArray] = {}
    if fitted.plan.split != "part":
        decisions["plain_svm"] = np.nan_to_num(fitted.learned.supervised_scores[scored]) > 0
    if objective.costs is not None:
        nothing = replace(fitted.learned.supervised, rows=np.zeros(0, dtype=np.intp), coefficients=np.zeros(0))
        for name, threshold in (("all_positive", -1.0), ("all_negative", 1.0)):
            decisions[name] = np.full(len(truth), threshold < 0)
            model = replace(nothing, intercept=0.0)
            fitted.controls[name] = ControlModel(model, threshold, confusion(truth, decisions[name]))
    differences = {name: difference_between(truth, decision, mine, objective) for name, decision in decisions.items()}
    if fitted.comparison is not None and fitted.comparison.returned == "method":
        differences["no_unlabelled"] = fitted.comparison.difference.reversed()
    fit.warnings += [
        f"The control {name} is better on the calibration rows by {difference.gain:.3f} "
        f"(standard error {difference.standard_error:.3f})."
        for name, difference in differences.items()
        if wins(difference)
    ]
