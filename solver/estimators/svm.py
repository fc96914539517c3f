"""The supervised support vector machine, with a threshold for an objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from solver.algorithms import ALGORITHMS
from solver.choices import ThresholdRule
from solver.estimators._base import ThresholdClassifier
from solver.estimators._calibration import (
    FOLDS_STAGE,
    CalibrationPlan,
    calibration_scores,
    separate_fold_scores,
)
from solver.estimators._choosing import Learned
from solver.estimators._run import TrainingRun
from solver.estimators.parameters import CostParameters, EngineParameter
from solver.operating_point import Objective

# from so many rows on the kernel rows of a training fill their memory, so that a fold finds few of those it needs (at
# 50,000 × 22 none saves as much as 10 % of its time): folds that share nothing then cost the same, and may be computed
# anywhere
LEAST_ROWS_APART: Final = 40_000


@dataclass(kw_only=True, eq=False, repr=False)
class SVM(EngineParameter, CostParameters, ThresholdClassifier):
    """C-SVC on the labelled rows; the threshold serves a precision, recall, F or cost objective.

    Unlabelled rows are ignored. With class or sample weights this is the cost-sensitive SVM (CS-SVM).

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

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

    declaration: ClassVar = ALGORITHMS["svm"]

    def _learn(self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, rule: ThresholdRule) -> Learned:
        del objective, rule  # only the threshold depends on them
        apart = bool(plan.folds) and len(plan.rows) >= LEAST_ROWS_APART
        if apart and run.parts.is_sought(FOLDS_STAGE):
            separate_fold_scores(run, plan, None, self._train_svm)  # which ends the training
        if not apart:
            model, scores = self._learn_supervised(run, plan)
            return Learned(model, scores, model, scores)
        model = self._train_svm(run, plan.training_rows)
        if run.low_rank.is_used:  # the folds share its factor, which is most of the work
            scores = calibration_scores(run, plan, model, lambda own, _, rows: self._train_svm(own, rows))
        else:
            scores = separate_fold_scores(run, plan, model, self._train_svm)
        return Learned(model, scores, model, scores)
