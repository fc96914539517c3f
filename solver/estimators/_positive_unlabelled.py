"""Base of the methods that learn from positive and unlabelled rows only."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from solver.decision import DecisionState
from solver.estimators._base import STOPPED, measured_once
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._choosing import Fit, Fitted
from solver.estimators._expansion import Expansion
from solver.estimators._labels import BinaryLabels, encode_labels, encode_positives
from solver.estimators._reporting import asked_and_ended
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores, decision_state
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.evaluation.matching import matched_scores
from solver.operating_point import Objective
from solver.planes import Plane
from solver.positive_unlabelled.left_out import FoundCurve, LeftOutScores, left_out_scores
from solver.positive_unlabelled.share import ShareEstimate, estimate_share
from solver.positives_only import OnlyPositives, choose_place, point_of, reached, warnings_of
from solver.report import Report
from solver.typing import BoolArray, FloatArray, IndexArray

_MOST_RULER_ROWS: Final = 4096
"""Unlabelled rows among which scores of folds are ranked."""


class PositiveUnlabelledClassifier(SemiSupervisedClassifier):
    """A method that learns from positive and unlabelled rows.

    Labelled negative rows have no part in that: the threshold is chosen on them, and they calibrate and measure.
    Without any, positive rows that are left out tell the recall of a threshold, and with the share of positives among
    the unlabelled rows (`positive_share`, or an estimate) the rest follows, see `solver.positives_only`;
    `report_.positives_only` has the figures. With `labeled_split="full"` the threshold is 0 then, which is where the
    method itself draws the line, and nothing is measured.
    """

    positive_share: float | None
    _method_state: DecisionState
    _is_alone: bool = False
    """Whether no negative row measures in the fit at hand."""

    @abstractmethod
    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        """Train on these rows; `share` is that of positives among labelled rows, or the known one without negatives."""

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        unmeasured: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Any:
        """Train; then choose the threshold for the objective, if there are labelled negative rows.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
            Labelled and unlabelled rows, finite numbers.
        y : array of shape (n,)
            Labels of two classes, or of the positive one alone. A row is unlabelled when its label is None or NaN, or
            equals `unlabeled` (by default -1, also beside 1 alone).
        sample_weight, unmeasured, groups : arrays of shape (n,), optional
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
        self._is_alone = y is not None and self.lacks_negatives(y, unmeasured)
        if not self._is_alone:
            return super().fit(X, y, sample_weight, unmeasured, groups)
        self._validate_params()
        objective = self._objective()
        run, extra = self._start(X, y, sample_weight, unmeasured, groups)
        run.seed = int(check_random_state(self.random_state).randint(2**31))
        positive = np.flatnonzero(run.y > 0)
        if len(positive) == 0 or len(run.unlabelled) == 0:
            raise ValueError("need at least one positive and one unlabelled row, of weights greater than 0")
        self._tuning = None
        model = self._separate(run, positive, run.unlabelled, self.positive_share)
        rounds = list(run.trace)
        measured, others, case = measured_once(run, extra)
        scores = self._left_out(run, np.intersect1d(measured, positive), np.intersect1d(others, positive), model, case)
        run.trace[:] = rounds
        self._finish_alone(run, objective, model, scores)
        return self

    @property
    def _learns_negatives(self) -> bool:
        """Whether negative rows that measure nothing are there to be learned from."""
        return self._is_alone

    def lacks_negatives(self, y: ArrayLike, unmeasured: ArrayLike | None) -> bool:
        """Whether no negative row is labelled that could measure, and some positive one is."""
        if self._encode_positives(y) is not None:
            return True
        if unmeasured is None:
            return False
        encoded = encode_labels(y, unlabeled=self.unlabeled, positive=self.positive, supervised=False).y
        apart = np.asarray(unmeasured, dtype=bool)
        return bool(len(apart) == len(encoded) and not (encoded[~apart] < 0).any() and (encoded[~apart] > 0).any())

    def _class_factors(self, encoded: FloatArray) -> FloatArray:
        if self._is_alone and not isinstance(self.class_weight, Mapping):  # there is nothing to balance
            return np.ones(len(encoded))
        return super()._class_factors(encoded)

    def _refuse_few(self, counts: Mapping[int, int], classes: NDArray[Any]) -> None:
        if not self._is_alone:
            super()._refuse_few(counts, classes)

    def _left_out(
        self,
        run: TrainingRun,
        measured: IndexArray,
        always: IndexArray,
        model: Expansion,
        case: IndexArray | None,
    ) -> LeftOutScores | None:
        """Scores of rows that were left out; None where nothing is to be measured, or the run was over before.

        Of the positive rows only the measured ones are left out; the others are learned in each fold that leaves out
        no row of the same `case`, nor one that they belong to. Each score is the one that `model` gives at the same
        rank among unlabelled rows, as each fold has a scale of its own.
        """
        if self.labeled_split == "full" or len(measured) < 2 or len(run.unlabelled) < 2:
            return None
        together = case if run.groups is None else run.groups
        ruler = np.random.default_rng(run.seed).permutation(run.unlabelled)[:_MOST_RULER_ROWS]
        common = approximate_scores(run, model, ruler)

        def train(of_positive: IndexArray, of_unlabelled: IndexArray) -> Callable[[IndexArray], FloatArray] | None:
            if run.is_exhausted() or run.progress(run.fraction + 0.1 * (1 - run.fraction)):
                return None
            beside = always
            if together is not None:
                beside = always[~np.isin(together[always], together[np.setdiff1d(measured, of_positive)])]
            fold = self._separate(run, np.union1d(of_positive, beside), of_unlabelled, self.positive_share)
            if run.is_exhausted():
                return None
            reference, resolution = approximate_scores(run, fold, ruler), run.limits.tol

            def score(rows: IndexArray) -> FloatArray:
                return matched_scores(approximate_scores(run, fold, rows), reference, common, resolution)

            return score

        return left_out_scores(run.X, measured, run.unlabelled, train, run.seed, run.groups)

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

    def _finish_alone(
        self, run: TrainingRun, objective: Objective, model: Expansion, scores: LeftOutScores | None
    ) -> None:
        """Set the fitted attributes where no negative row measures."""
        self._method_state = decision_state(run, model, 0.0)
        self.control_states_ = {}
        self.threshold_, self.n_iter_ = 0.0, max(1, run.iterations)
        self.left_out_scores_ = np.full(len(run.labelled), np.nan)
        self.status_, self.status_reason_ = "cannot_certify", "No negative row is labelled, so nothing was measured."
        told, promise, warnings = None, None, _warnings_of(run.trace)
        if scores is not None:
            estimated = estimate_share(scores)
            share = estimated if self.positive_share is None else ShareEstimate.given(float(self.positive_share))
            rule = self.threshold_rule
            known = OnlyPositives(FoundCurve.of(scores, [0.0] if rule == "zero" else []), share, len(run.unlabelled))
            place = choose_place(known, objective, rule)
            self.threshold_ = float(known.curve.thresholds[place])
            told, promise = point_of(known, place, objective, str(self.classes_[1]))
            self.status_, self.status_reason_ = reached(promise, objective)
            if self.tune != "none":
                warnings.append("tune is of no effect: no negative row is labelled that could choose C or gamma")
            warnings += warnings_of(known, place, estimated, scores.copies)
        if run.ended == "stopped":
            self.status_, self.status_reason_ = "stopped", STOPPED
        self._state = decision_state(run, model, self.threshold_)
        self.report_ = Report(
            **asked_and_ended(self, run, objective),
            promise=promise,
            calibration=None,
            positives_only=told,
            threshold_rule=self.threshold_rule,
            labeled_split="full" if told is None else "xfit",
            rounds=run.trace,
            warnings=warnings,
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
