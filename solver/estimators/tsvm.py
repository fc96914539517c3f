"""The transductive SVM by label switching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from solver.engine_choice import EngineName
from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import CalibrationPlan, LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier, positives_among, top_rows
from solver.estimators._tuning import Tune
from solver.operating_point import Objective, ThresholdRule

# SVMlight: the unlabelled rows' cost starts at this share of its final value and grows by this factor
_FIRST_LEVEL: Final = 1e-5
_GROWTH: Final = 1.5
# a pair is switched when it violates the margins by more than this
_SWITCH_TOLERANCE: Final = 1e-4
# with different costs of the two classes the objective need not fall at each switch, so switching is capped
_MAX_TRAININGS_OF_A_LEVEL: Final = 200

SHARE_CONSTRAINTS: Final[dict[str, list[Any]]] = {
    "positive_share": [None, Interval(Real, 0.0, 1.0, closed="neither")],
    "prior_strength": [None, Interval(Real, 0.0, None, closed="left")],
}


def switch_labels(
    run: TrainingRun,
    labelled: NDArray[np.intp],
    cost: NDArray[np.float64],
    unlabelled_cost: float,
    positives: int,
    start: Expansion,
    *,
    balance: bool = True,
) -> tuple[Expansion, NDArray[np.float64]]:
    """Search for the labels of the unlabelled rows that let the SVM have the widest margin.

    Parameters
    ----------
    run : TrainingRun
    labelled : int array
        Labelled rows.
    cost : float64 array
        Cost of each labelled row's margin error.
    unlabelled_cost : float
        Final cost of an unlabelled row's margin error, C*.
    positives : int
        Number of unlabelled rows with a positive label, kept throughout.
    start : Expansion
        The SVM on the labelled rows.
    balance : bool, default True
        Whether positive unlabelled rows cost (u - positives) / positives times as much.

    Returns
    -------
    (Expansion, labels of the unlabelled rows)

    Notes
    -----
    Joachims 1999, as its author's SVMlight does it, except that every pair that may be switched (the i-th lowest
    positive with the i-th highest negative one) is switched at once, as in SVMlin: the fixed points are the same.
    """
    unlabelled = run.unlabelled
    rows = np.concatenate([labelled, unlabelled])
    labels = np.where(top_rows(run.scores(start, unlabelled), positives), 1.0, -1.0)
    ratio = (len(unlabelled) - positives) / positives if balance else 1.0
    model = start
    level = _FIRST_LEVEL
    while True:
        for _ in range(_MAX_TRAININGS_OF_A_LEVEL):
            y = np.concatenate([run.y[labelled], labels])
            soft = np.where(labels > 0, ratio, 1.0) * (unlabelled_cost * level * run.cost[unlabelled])
            # a dual stays where the label did
            model = run.train(rows, y, np.concatenate([cost, soft]), model)
            if run.ended:
                return model, labels
            scores = run.approximate_scores(model, unlabelled)
            above, below = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
            above = above[np.argsort(scores[above], kind="stable")][: len(below)]
            below = below[np.argsort(-scores[below], kind="stable")][: len(above)]
            # both have a margin error and together more than 2: switching them lessens the errors
            switch = (scores[above] < 1) & (scores[below] > -1) & (scores[above] < scores[below] - _SWITCH_TOLERANCE)
            count = len(switch) if switch.all() else int(np.argmin(switch))
            if count == 0:
                break
            labels[above[:count]] = -1.0
            labels[below[:count]] = 1.0
        if level >= 1:
            return model, labels
        grown = min(1.0, level * _GROWTH)
        model = _with_larger_duals(model, unlabelled, grown / level)
        level = grown


def _with_larger_duals(model: Expansion, rows: NDArray[np.intp], factor: float) -> Expansion:
    """The start for larger costs of some rows: their duals grow as the costs do.

    Most of them are at their bound, and stay there; otherwise each would have to be moved to the new one.
    """
    if model.duals is None:
        return model
    duals = model.duals.copy()
    duals[rows] *= factor
    # the scores are no longer those of the duals: the solver forms them anew
    return replace(model, duals=duals, sums=None)


class TSVM(SemiSupervisedClassifier):
    """Transductive SVM: finds labels of the unlabelled rows that give the widest margin (label switching).

    Parameters
    ----------
    C_unlabeled : float, optional
        Final cost of a margin error of an unlabelled row; by default C · (labelled / unlabelled rows).
    positive_share : float, optional
        Share of positives among the unlabelled rows; by default that of the labelled ones.
    prior_strength : float, optional
        With it, `positive_share` is a prior worth this many labelled rows.
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
    Joachims, "Transductive inference for text classification using support vector machines", ICML 1999; SVMlight.
    """

    _algorithm: ClassVar[str] = "tsvm"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        **SHARE_CONSTRAINTS,
        "C_unlabeled": [None, Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        C_unlabeled: float | None = None,
        positive_share: float | None = None,
        prior_strength: float | None = None,
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
        self.C_unlabeled = C_unlabeled
        self.positive_share = positive_share
        self.prior_strength = prior_strength
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
        unlabelled = len(run.unlabelled)
        final = self.C_unlabeled
        if final is None:
            final = self._labelled_cost(run) * len(labelled) / unlabelled
        positives = positives_among(unlabelled, run.y[labelled], self.positive_share, self.prior_strength)
        start = self._train_svm(run, labelled)
        return switch_labels(run, labelled, self._labelled_cost(run) * run.cost[labelled], final, positives, start)[0]
