"""The transductive SVM by label switching."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores, exact_scores
from solver.estimators._semi_supervised import SemiSupervisedClassifier, positives_among, top_rows
from solver.estimators.parameters import CostParameters, EngineParameter, ShareParameters
from solver.typing import FloatArray, IndexArray

# SVMlight: the unlabelled rows' cost starts at this share of its final value and grows by this factor
_FIRST_LEVEL: Final = 1e-5
_GROWTH: Final = 1.5
# a pair is switched when it violates the margins by more than this
_SWITCH_TOLERANCE: Final = 1e-4
# with different costs of the two classes the objective need not fall at each switch, so switching is capped
_MAX_TRAININGS_OF_A_LEVEL: Final = 200


def switch_labels(
    run: TrainingRun,
    labelled: IndexArray,
    cost: FloatArray,
    unlabelled_cost: float,
    positives: int,
    start: Expansion,
    *,
    balance: bool = True,
) -> tuple[Expansion, FloatArray]:
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
    labels = np.where(top_rows(exact_scores(run, start, unlabelled), positives), 1.0, -1.0)
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
            scores = approximate_scores(run, model, unlabelled)
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


def _with_larger_duals(model: Expansion, rows: IndexArray, factor: float) -> Expansion:
    """The start for larger costs of some rows: their duals grow as the costs do.

    Most of them are at their bound, and stay there; otherwise each would have to be moved to the new one.
    """
    if model.duals is None:
        return model
    duals = model.duals.copy()
    duals[rows] *= factor
    # the scores are no longer those of the duals: the solver forms them anew
    return replace(model, duals=duals, sums=None)


@dataclass(kw_only=True, eq=False, repr=False)
class TSVM(ShareParameters, EngineParameter, CostParameters, SemiSupervisedClassifier):
    """Transductive SVM: finds labels of the unlabelled rows that give the widest margin (label switching).

    Parameters
    ----------
    C_unlabeled : float, optional
        Final cost of a margin error of an unlabelled row; by default C · (labelled / unlabelled rows).

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    References
    ----------
    Joachims, "Transductive inference for text classification using support vector machines", ICML 1999; SVMlight.
    """

    declaration: ClassVar = ALGORITHMS["tsvm"]

    C_unlabeled: float | None = declaration.defaults["C_unlabeled"]

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        unlabelled = len(run.unlabelled)
        final = self.C_unlabeled
        if final is None:
            final = self._labelled_cost(run) * len(labelled) / unlabelled
        positives = positives_among(unlabelled, run.y[labelled], self.positive_share, self.prior_strength)
        start = self._train_svm(run, labelled)
        return switch_labels(run, labelled, self._labelled_cost(run) * run.cost[labelled], final, positives, start)[0]
