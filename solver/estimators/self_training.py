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
from solver.estimators._semi_supervised import SemiSupervisedClassifier, positives_among
from solver.estimators.parameters import CostParameters, EngineParameter, ShareParameters
from solver.typing import IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class SelfTraining(EngineParameter, ShareParameters, CostParameters, SemiSupervisedClassifier):
    """SVM that adds the unlabelled rows it is surest of with its own labels, round by round, and never takes one back.

    In each round the rows with the highest scores become positive and those with the lowest ones negative, in the ratio
    in which the classes are expected among the unlabelled rows. (A fixed margin does not do: with few labels hardly a
    row is as far from the plane as the support vectors are.)

    Parameters
    ----------
    added_share : float, default 0.1
        Share of the unlabelled rows that is added in a round; at least one of each class.
    max_rounds : int, default 10
    C_soft : float, default 0.1
        Cost of a margin error of an added row, as a multiple of C.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    References
    ----------
    Yarowsky, "Unsupervised word sense disambiguation rivaling supervised methods", ACL 1995.
    """

    declaration: ClassVar = ALGORITHMS["self-training"]

    added_share: float = declaration.defaults["added_share"]
    max_rounds: int = declaration.defaults["max_rounds"]
    C_soft: float = declaration.defaults["C_soft"]

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        rows, y = labelled, run.y[labelled]
        cost = self._labelled_cost(run) * run.cost[labelled]
        left = run.unlabelled
        model = run.train(rows, y, cost)
        if len(left) < 2:
            return model
        positives = positives_among(len(left), y, self.positive_share, self.prior_strength)
        most = max(1, round(self.added_share * positives)), max(1, round(self.added_share * (len(left) - positives)))
        for _ in range(self.max_rounds):
            if run.ended or len(left) == 0:
                break
            order = np.argsort(-approximate_scores(run, model, left), kind="stable")
            above = order[: most[0]]
            below = np.setdiff1d(order[-most[1] :], above)
            added = np.concatenate([above, below])
            rows = np.concatenate([rows, left[added]])
            y = np.concatenate([y, np.ones(len(above)), -np.ones(len(below))])
            cost = np.concatenate([cost, self._labelled_cost(run) * self.C_soft * run.cost[left[added]]])
            left = np.delete(left, added)
            model = run.train(rows, y, cost, model)
        return model
