"""Base of the methods that learn from positive and unlabelled rows only."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from solver.decision import DecisionState
from solver.estimators._base import Fitted
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._run import Expansion, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.operating_point import Objective, ThresholdRule
from solver.planes import Plane


class PositiveUnlabelledClassifier(SemiSupervisedClassifier):
    """A method that learns from positive and unlabelled rows.

    Labelled negative rows have no part in that: the threshold is chosen on them, and they calibrate and measure. So
    some are needed, as everywhere. A score of 0 is where the method itself draws the line.
    """

    _method_state: DecisionState

    @abstractmethod
    def _separate(
        self, run: TrainingRun, positive: NDArray[np.intp], unlabelled: NDArray[np.intp], share: float
    ) -> Expansion:
        """Train on these rows; `share` is that of the positives among the labelled rows."""

    def _train(self, run: TrainingRun, labelled: NDArray[np.intp], plan: CalibrationPlan) -> Expansion:
        del plan
        is_positive = run.y[labelled] > 0
        return self._separate(run, labelled[is_positive], run.unlabelled, float(np.mean(is_positive)))

    def _finish(
        self, run: TrainingRun, objective: Objective, rule: ThresholdRule, fitted: Fitted, warnings: list[str]
    ) -> None:
        warnings += [told["warning"] for told in fitted.learned.rounds if "warning" in told]
        super()._finish(run, objective, rule, fitted, warnings)
        self._method_state = run.state(fitted.learned.model, 0.0)

    def expand(self, X: Any) -> NDArray[np.intp]:
        """Rows that the method itself claims for the positive class, whatever the objective.

        That is the method's own decision, also where `mode` returned the model without unlabelled rows.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)

        Returns
        -------
        int array
            Their numbers, ascending.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.flatnonzero(self._method_state.predict_positive(X))


def must_end(run: TrainingRun) -> bool:
    """Whether a method shall end with what it has; asks the callback."""
    run.progress(run.fraction)
    if run.is_exhausted():
        run.ended = run.ended or "solver_limit"
        return True
    return False


def comparable(
    plane: Plane, scores: NDArray[np.float64], claimed: NDArray[np.bool_] | None = None, rounds: int = 1
) -> Expansion:
    """The plane in standard deviations of the unlabelled rows' scores, moved so that what is claimed is above 0.

    The scores of folds, which learned from fewer rows, and those of the whole are then on one scale.

    Parameters
    ----------
    plane : Plane
    scores : float64 array
        Of the unlabelled rows.
    claimed : bool array, optional
        Those with the highest scores; None: those above 0.
    rounds : int
    """
    deviation = float(np.std(scores))
    unit = deviation if deviation > np.finfo(np.float64).eps * float(np.max(np.abs(scores))) else 1.0
    line = 0.0
    if claimed is not None:
        above = float(np.min(scores[claimed])) if claimed.any() else float(np.max(scores)) + 2 * unit
        below = float(np.max(scores[~claimed])) if not claimed.all() else float(np.min(scores)) - 2 * unit
        line = (above + below) / 2
    return Expansion.from_plane(Plane(plane.weights / unit, (plane.intercept - line) / unit), rounds)
