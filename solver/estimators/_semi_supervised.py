"""Base of the methods that train once on labelled and unlabelled rows together."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy import sparse

from solver.choices import ThresholdRule
from solver.estimators._base import ThresholdClassifier
from solver.estimators._calibration import FOLDS_STAGE, CalibrationPlan, calibration_scores, separate_fold_scores
from solver.estimators._choosing import Learned
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators.parameters import ModeParameter
from solver.operating_point import Objective
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix


class SemiSupervisedClassifier(ModeParameter, ThresholdClassifier):
    """A method that is defined by its training on a set of labelled rows and all unlabelled rows.

    With fewer than two unlabelled rows it is the SVM on the labelled ones.
    """

    # whether a fold needs nothing that the others have computed
    _folds_are_parts: ClassVar[bool] = True

    @abstractmethod
    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        """Train on these labelled rows and the run's unlabelled ones (at least two).

        What it appends to `run.trace` is reported if the model is the final one.
        """

    def _learn(self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, rule: ThresholdRule) -> Learned:
        del objective, rule  # only the threshold depends on them

        def train_fold(apart: TrainingRun, rows: IndexArray) -> Expansion:
            return self._train(apart, rows, plan)

        if self._folds_are_parts and run.parts.is_sought(FOLDS_STAGE):
            separate_fold_scores(run, plan, None, train_fold)  # which ends the training
        supervised, supervised_scores = self._learn_supervised(run, plan)
        if len(run.unlabelled) < 2 or run.is_exhausted():
            return Learned(supervised, supervised_scores, supervised, supervised_scores)
        model = self._train(run, plan.training_rows, plan)
        rounds = list(run.trace)
        if plan.folds and self._folds_are_parts and not run.low_rank.is_used:
            scores = separate_fold_scores(run, plan, model, train_fold)
        else:
            scores = self._fold_scores(run, plan, model)
        return Learned(model, scores, supervised, supervised_scores, rounds)

    def learn_beside(self, run: TrainingRun, plan: CalibrationPlan) -> tuple[Expansion, FloatArray]:
        model = self._train(run, plan.training_rows, plan)
        return model, self._fold_scores(run, plan, model)

    def _fold_scores(self, run: TrainingRun, plan: CalibrationPlan, model: Expansion) -> FloatArray:
        """Calibration scores of folds that share kernel rows, and what else does not depend on labels."""
        return calibration_scores(run, plan, model, lambda own, _, rows: self._train(own, rows, plan))


def positives_among(unlabelled: int, truth: FloatArray, share: float | None, prior_strength: float | None) -> int:
    """How many unlabelled rows shall be positive: u₊, at least 1 and at most u - 1.

    Parameters
    ----------
    unlabelled : int
        u, at least 2.
    truth : array
        +1 and -1 of the labelled rows.
    share : float or None
        Known share of positives; None: the labelled rows' share.
    prior_strength : float or None
        With `share`: it is a prior worth this many labelled rows; None: it is taken as it is.
    """
    labelled, positive = len(truth), int(np.count_nonzero(truth > 0))
    if share is None:
        share = positive / labelled
    elif prior_strength is not None:
        share = (positive + prior_strength * share) / (labelled + prior_strength)
    return int(min(max(round(unlabelled * share), 1), unlabelled - 1))


def top_rows(scores: FloatArray, count: int) -> BoolArray:
    """Marks the `count` largest scores, the first rows among equals."""
    marked = np.zeros(len(scores), dtype=bool)
    marked[np.argsort(-scores, kind="stable")[:count]] = True
    return marked


def stack_rows(X: Matrix, row: FloatArray) -> Matrix:
    """X with one more row, of shape (1, d), below."""
    if sparse.issparse(X):
        compressed: Matrix = sparse.vstack([X, sparse.csr_matrix(row)], format="csr")
        return compressed
    return np.vstack([np.asarray(X), row])
