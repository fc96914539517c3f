"""Base of the methods that learn from positive and unlabelled rows only."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from solver.decision import DecisionState
from solver.estimators._base import STOPPED
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._choosing import Fit, Fitted
from solver.estimators._expansion import Expansion
from solver.estimators._labels import BinaryLabels, encode_positives
from solver.estimators._reporting import asked_and_ended
from solver.estimators._run import TrainingRun
from solver.estimators._scores import decision_state
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.operating_point import Objective
from solver.planes import Plane
from solver.report import Report
from solver.typing import BoolArray, FloatArray, IndexArray


class PositiveUnlabelledClassifier(SemiSupervisedClassifier):
    """A method that learns from positive and unlabelled rows.

    Labelled negative rows have no part in that: the threshold is chosen on them, and they calibrate and measure.
    Without any, the threshold is 0, which is where the method itself draws the line, and nothing is measured.
    """

    _method_state: DecisionState

    @abstractmethod
    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        """Train on these rows; `share` is that of the positives among the labelled rows, None if all are positive."""

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, unmeasured: ArrayLike | None = None
    ) -> Any:
        """Train; then choose the threshold for the objective, if there are labelled negative rows.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
            Labelled and unlabelled rows, finite numbers.
        y : array of shape (n,)
            Labels of two classes, or of the positive one alone. A row is unlabelled when its label is None or NaN, or
            equals `unlabeled` (by default -1, also beside 1 alone).
        sample_weight, unmeasured : arrays of shape (n,), optional
            As in `SVM.fit`; a weight of 0 leaves a row out, others act on the SVMs only.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are negative rows, but fewer than 2 of a class, if the one class has no positive or no unlabelled
            row left, or if a parameter is wrong.
        """
        if y is None or self._encode_positives(y) is None:
            return super().fit(X, y, sample_weight, unmeasured)
        self._validate_params()
        objective = self._objective()
        run, _ = self._start(X, y, sample_weight, unmeasured)
        run.seed = int(check_random_state(self.random_state).randint(2**31))
        if len(run.labelled) == 0 or len(run.unlabelled) == 0:
            raise ValueError("need at least one positive and one unlabelled row, of weights greater than 0")
        self._tuning = None
        self._finish_unmeasured(run, objective, self._separate(run, run.labelled, run.unlabelled, None))
        return self

    def _encode_positives(self, y: ArrayLike) -> BinaryLabels | None:
        return encode_positives(y, unlabeled=self.unlabeled, positive=self.positive)

    def _encode(self, y: ArrayLike) -> BinaryLabels:
        alone = self._encode_positives(y)
        return super()._encode(y) if alone is None else alone

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        is_positive = run.y[labelled] > 0
        return self._separate(run, labelled[is_positive], run.unlabelled, float(np.mean(is_positive)))

    def _finish(self, fit: Fit, fitted: Fitted) -> None:
        fit.warnings += _warnings_of(fitted.learned.rounds)
        super()._finish(fit, fitted)
        self._method_state = decision_state(fit.run, fitted.learned.model, 0.0)

    def _finish_unmeasured(self, run: TrainingRun, objective: Objective, model: Expansion) -> None:
        """Set the fitted attributes where no negative row is labelled."""
        self._method_state = self._state = decision_state(run, model, 0.0)
        self.control_states_ = {}
        self.threshold_, self.n_iter_ = 0.0, max(1, run.iterations)
        self.status_, self.status_reason_ = "cannot_certify", "No negative row is labelled, so nothing was measured."
        if run.ended == "stopped":
            self.status_, self.status_reason_ = "stopped", STOPPED
        self.report_ = Report(
            **asked_and_ended(self, run, objective),
            calibration=None,
            rounds=run.trace,
            warnings=_warnings_of(run.trace),
        )

    def expand(self, X: Any) -> IndexArray:
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


def _warnings_of(trace: list[dict[str, Any]]) -> list[str]:
    return [entry["warning"] for entry in trace if "warning" in entry]


def should_stop(run: TrainingRun) -> bool:
    """Whether a method shall end with what it has; asks the callback."""
    run.progress(run.fraction)
    if run.is_exhausted():
        run.ended = run.ended or "solver_limit"
        return True
    return False


def in_standard_deviations(
    plane: Plane, scores: FloatArray, claimed: BoolArray | None = None, rounds: int = 1
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
