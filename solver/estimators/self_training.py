"""Self-training with the SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators.parameters import CostParameters, EngineParameter
from solver.typing import IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class SelfTraining(EngineParameter, CostParameters, SemiSupervisedClassifier):
    """SVM that adds the unlabelled rows it is sure of with its own labels, round by round, and never takes one back.

    Parameters
    ----------
    margin : float, default 1.0
        A row is added when the absolute value of its score is at least this.
    max_add : int, optional
        Most rows of each class added in one round, the most confident ones first.
    max_rounds : int, default 50
    C_soft : float, default 1.0
        Cost of a margin error of an added row, as a multiple of C.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    References
    ----------
    Yarowsky, "Unsupervised word sense disambiguation rivaling supervised methods", ACL 1995.
    """

    declaration: ClassVar = ALGORITHMS["self-training"]

    margin: float = declaration.defaults["margin"]
    max_add: int | None = declaration.defaults["max_add"]
    max_rounds: int = declaration.defaults["max_rounds"]
    C_soft: float = declaration.defaults["C_soft"]

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        rows, y = labelled, run.y[labelled]
        cost = self._labelled_cost(run) * run.cost[labelled]
        left = run.unlabelled
        model = run.train(rows, y, cost)
        for _ in range(self.max_rounds - 1):
            if run.ended or len(left) == 0:
                break
            scores = approximate_scores(run, model, left)
            above, below = np.flatnonzero(scores >= self.margin), np.flatnonzero(scores <= -self.margin)
            below = np.setdiff1d(below, above)  # a margin of 0 takes a score of 0 for positive
            above = above[np.argsort(-scores[above], kind="stable")][: self.max_add]
            below = below[np.argsort(scores[below], kind="stable")][: self.max_add]
            if len(above) + len(below) == 0:
                break
            added = np.concatenate([above, below])
            rows = np.concatenate([rows, left[added]])
            y = np.concatenate([y, np.ones(len(above)), -np.ones(len(below))])
            cost = np.concatenate([cost, self._labelled_cost(run) * self.C_soft * run.cost[left[added]]])
            left = np.delete(left, added)
            model = run.train(rows, y, cost, model)
        return model
