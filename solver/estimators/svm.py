"""The supervised support vector machine, with a threshold for an objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from solver.engine_choice import EngineName
from solver.estimators._base import SHARED_CONSTRAINTS, Learned, ThresholdClassifier
from solver.estimators._calibration import (
    FOLDS_STAGE,
    CalibrationPlan,
    LabeledSplit,
    calibration_scores,
    separate_fold_scores,
)
from solver.estimators._run import FitCallback, TrainingRun
from solver.estimators._tuning import Tune
from solver.operating_point import Objective, ThresholdRule

# from so many rows on the kernel rows of a training fill their memory, so that a fold finds few of those it needs (at
# 50,000 × 22 none saves as much as 10 % of its time): folds that share nothing then cost the same, and may be computed
# anywhere
LEAST_ROWS_APART: Final = 40_000


class SVM(ThresholdClassifier):
    """C-SVC on the labelled rows; the threshold serves a precision, recall, F or cost objective.

    Unlabelled rows are ignored. With class or sample weights this is the cost-sensitive SVM (CS-SVM).

    Parameters
    ----------
    objective : str, dict or Objective, default "f1"
        See `solver.operating_point.Objective`.
    threshold_rule : str, default "f1max"
        See `solver.operating_point.choose_threshold`. `zero` is the plain SVM: the objective is only reported on. A
        confidence in the objective turns `f1max` into `fixed-sequence`.
    labeled_split : {"xfit", "part", "full"}, default "xfit"
        Scores for the threshold: out-of-fold (5 folds, the model sees all rows), of a held-out half, or of the
        training rows themselves (fast, optimistic).
    tune : {"none", "C", "C-gamma"}, default "none"
        Choose C from 0.01 … 1000, and gamma from a sixteenth to sixteen times its value, by cross-validation of the
        SVM on the labelled rows; each cell is worth the objective at its best threshold. `report_["tuning"]` shows
        them all.
    positive : label, optional
        The class that precision, recall and costs speak of; the larger of the two sorted labels by default.
    unlabeled : label, optional
        The label that marks unlabelled rows besides None and NaN; -1 by default when there are two other labels.
    kernel : {"rbf", "linear", "poly", "sigmoid"}, default "rbf"
    C : float, default 1.0
        Cost of a margin error.
    gamma : {"scale", "auto"} or float, default "scale"
        Factor in the kernel; `scale` is 1 / (d · variance of X).
    degree : int, default 3
    coef0 : float, default 0.0
    tol : float, default 1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default -1
        Limit on the solver's iterations in each call; -1 for none.
    max_seconds : float, optional
        Limit on the whole fit.
    cache_size : float, optional
        Megabytes for kernel rows; by default a third of the free memory, at most 2048.
    device : {"auto", "cpu", "cuda"}, default "auto"
    solver : {"auto", "exact", "lowrank"}, default "auto"
        `lowrank` approximates the kernel by at most 1,024 landmarks: for very many rows. `auto` takes it where the
        kernel rows of the exact solver would not fit into memory or time. `report_["solver"]` says which it was, and
        how far from exact.
    class_weight : dict, "balanced" or None
        Factors on C by label.
    random_state : int, RandomState or None
        Seeds the split of the labelled rows.
    callback : callable, optional
        Called as `callback(fraction, info)`; True stops and keeps the best model so far.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The negative and the positive label.
    threshold_ : float
        `predict` is positive where `decision_function` is strictly above it.
    status_ : str
        `met`, `preference_unmet`, `cannot_certify`, `solver_limit` or `stopped`.
    status_reason_ : str
        One sentence when the status is not `met`.
    report_ : dict
        Measures with intervals, controls, operating curve, solver and timings; JSON-ready.
    control_states_ : dict of DecisionState
        The decisions named in `report_["controls"]`.
    n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from solver.estimators import SVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svm = SVM(objective={"kind": "recall", "target": 0.95}, random_state=0).fit(X / X.max(axis=0), y)
    >>> svm.status_
    'met'

    References
    ----------
    Cortes and Vapnik, "Support-vector networks", Machine Learning 20, 1995.
    """

    _algorithm: ClassVar[str] = "svm"
    _supervised: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = SHARED_CONSTRAINTS

    def __init__(
        self,
        *,
        objective: str | Mapping[str, Any] | Objective = "f1",
        threshold_rule: ThresholdRule = "f1max",
        labeled_split: LabeledSplit = "xfit",
        tune: Tune = "none",
        positive: Any = None,
        unlabeled: Any = None,
        kernel: str = "rbf",
        C: float = 1.0,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        max_seconds: float | None = None,
        cache_size: float | None = None,
        device: str = "auto",
        solver: EngineName = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        callback: FitCallback | None = None,
    ) -> None:
        self.objective = objective
        self.threshold_rule = threshold_rule
        self.labeled_split = labeled_split
        self.tune = tune
        self.positive = positive
        self.unlabeled = unlabeled
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.cache_size = cache_size
        self.device = device
        self.solver = solver
        self.class_weight = class_weight
        self.random_state = random_state
        self.callback = callback

    def _learn(self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, rule: ThresholdRule) -> Learned:
        del objective, rule  # only the threshold depends on them
        apart = bool(plan.folds) and len(plan.rows) >= LEAST_ROWS_APART
        if apart and run.parts.is_sought(FOLDS_STAGE):
            separate_fold_scores(run, plan, self._train_svm)  # which ends the training
        if not apart:
            model, scores = self._learn_supervised(run, plan)
            return Learned(model, scores, model, scores)
        model = self._train_svm(run, plan.training_rows)
        if run.low_rank.is_used:  # the folds share its factor, which is most of the work
            scores = calibration_scores(run, plan, model, lambda own, _, rows: self._train_svm(own, rows))
        else:
            scores = separate_fold_scores(run, plan, self._train_svm)
        return Learned(model, scores, model, scores)
