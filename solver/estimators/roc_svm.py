"""Roc-SVM."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from solver.engine_choice import EngineName
from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._positive_unlabelled import PositiveUnlabelledClassifier
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._tuning import Tune
from solver.operating_point import Objective, ThresholdRule
from solver.positive_unlabelled import grow_negatives, reliable_negatives
from solver.positive_unlabelled.roc import Scope


class RocSVM(PositiveUnlabelledClassifier):
    """SVM on the positive rows and on reliable negatives, which Rocchio's rule finds and one SVM after another adds to.

    Parameters
    ----------
    clusters : int, default 10
        Into which k-means parts what Rocchio's rule finds, for a second look at each part; 1: no second look.
    scope : {"reliable", "unlabelled"}, default "reliable"
        Rows that the second look may take: those that Rocchio's rule has found, or any.
    tune, mode
        As in `SelfTraining`.
    objective, threshold_rule, labeled_split, positive, unlabeled
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    kernel, C, gamma, degree, coef0, tol, max_iter, max_seconds, cache_size, device, solver, class_weight
        As in `SVM`.
    random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`.

    Notes
    -----
    Rocchio's rule and k-means see the rows divided by their length, the SVM sees them as they are. Features as of
    tf-idf are needed: among rows of 0 and 1 hardly a reliable negative is found. Labelled negative rows have no part in
    the learning.

    With 30 positive rows or fewer the SVMs usually end by calling all unlabelled rows negative. The authors' check,
    that the last one finds 95 % of the positive rows, does not notice it: those rows trained it.

    References
    ----------
    Li and Liu, "Learning to classify texts using positive and unlabeled data", IJCAI 2003.
    """

    _algorithm: ClassVar[str] = "roc-svm"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "clusters": [Interval(Integral, 1, None, closed="left")],
        "scope": [StrOptions({"reliable", "unlabelled"})],
    }

    def __init__(
        self,
        *,
        clusters: int = 10,
        scope: Scope = "reliable",
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
        self.clusters = clusters
        self.scope = scope
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

    def _separate(
        self, run: TrainingRun, positive: NDArray[np.intp], unlabelled: NDArray[np.intp], share: float | None
    ) -> Expansion:
        del share

        def train(
            negative: NDArray[np.bool_], before: Expansion | None
        ) -> tuple[Expansion, NDArray[np.float64], NDArray[np.float64]]:
            rows = np.concatenate([positive, unlabelled[negative]])
            y = np.concatenate([np.ones(len(positive)), -np.ones(np.count_nonzero(negative))])
            model = run.train(rows, y, self._labelled_cost(run) * run.cost[rows], before)
            return model, run.approximate_scores(model, positive), run.approximate_scores(model, unlabelled)

        sure = reliable_negatives(run.X, positive, unlabelled, clusters=self.clusters, scope=self.scope, seed=run.seed)
        grown = grow_negatives(sure, train, lambda: bool(run.ended))
        claimed = int(np.count_nonzero(run.approximate_scores(grown.model, unlabelled) > 0))
        told: dict[str, Any] = {
            "reliable_negatives": int(np.count_nonzero(sure)),
            "negatives": int(np.count_nonzero(grown.negative)),
            "trainings": grown.rounds,
            "kept": grown.kept,
            "claimed": claimed,
        }
        if claimed == 0 or (grown.negative.all() and grown.kept == "last"):
            told["warning"] = "All unlabelled rows ended as negatives: too few positive rows for Roc-SVM."
        elif grown.negative.all():
            told["warning"] = (
                "The SVMs of Roc-SVM ended with all unlabelled rows as negatives, so the first one was kept: too few "
                "positive rows, or C is too low."
            )
        run.trace.append(told)
        return grown.model
