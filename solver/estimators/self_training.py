"""Self-training with the SVM."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from solver.engine_choice import EngineName
from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import CalibrationPlan, LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators._tuning import Tune
from solver.operating_point import Objective, ThresholdRule


class SelfTraining(SemiSupervisedClassifier):
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
    tune : {"none", "C", "C-gamma"}, default "none"
        As in `SVM`.
    mode : {"method", "safe", "balanced", "bold"}, default "method"
        What is returned: the method's model; or, as long as the calibration rows do not show it to be better than the
        same labels without unlabelled rows, the SVM on those: better by 1.64 standard errors (`safe`), by one
        (`balanced`), by anything (`bold`). `report_["comparison"]` says which it was.
    objective, threshold_rule, labeled_split, positive, unlabeled, kernel, C, gamma, degree, coef0, tol, max_iter
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    max_seconds, cache_size, device, solver, class_weight, random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`.

    References
    ----------
    Yarowsky, "Unsupervised word sense disambiguation rivaling supervised methods", ACL 1995.
    """

    _algorithm: ClassVar[str] = "self-training"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "margin": [Interval(Real, 0.0, None, closed="left")],
        "max_add": [None, Interval(Integral, 1, None, closed="left")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "C_soft": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        margin: float = 1.0,
        max_add: int | None = None,
        max_rounds: int = 50,
        C_soft: float = 1.0,
        objective: str | Mapping[str, Any] | Objective = "f1",
        threshold_rule: ThresholdRule = "f1max",
        labeled_split: LabeledSplit = "xfit",
        tune: Tune = "none",
        mode: Mode = "method",
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
        self.margin = margin
        self.max_add = max_add
        self.max_rounds = max_rounds
        self.C_soft = C_soft
        self.objective = objective
        self.threshold_rule = threshold_rule
        self.labeled_split = labeled_split
        self.tune = tune
        self.mode = mode
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

    def _train(self, run: TrainingRun, labelled: NDArray[np.intp], plan: CalibrationPlan) -> Expansion:
        del plan
        rows, y = labelled, run.y[labelled]
        cost = self._labelled_cost(run) * run.cost[labelled]
        left = run.unlabelled
        model = run.train(rows, y, cost)
        for _ in range(self.max_rounds - 1):
            if run.ended or len(left) == 0:
                break
            scores = run.approximate_scores(model, left)
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
