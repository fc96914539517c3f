"""What all classifiers here share: labels, kernel, threshold, controls, report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from solver.choices import EngineName, Mode, ThresholdRule, Tune
from solver.decision import DecisionState
from solver.estimators._calibration import CalibrationPlan, calibration_scores, make_plan
from solver.estimators._guard import Comparison, compare, difference_between, wins
from solver.estimators._labels import BinaryLabels, encode_labels
from solver.estimators._run import Expansion, KernelParameters, SolverLimits, TrainingRun
from solver.estimators._tuning import SHARE_OF_FIT, Tuning, tune
from solver.estimators.parameters import SharedParameters
from solver.evaluation.counts import ConfusionCounts, confusion
from solver.evaluation.curves import OperatingCurve
from solver.evaluation.measures import measures
from solver.evaluation.probability import Sigmoid, brier_score, fit_sigmoid, reliability_curve
from solver.evaluation.splits import stratified_halves
from solver.operating_point import (
    Objective,
    OperatingPoint,
    check_rule,
    choose_threshold,
)
from solver.parts import ALONE, Parts
from solver.report import Classes, CurvePoints, ProbabilityReport, Report, Rows, SolverReport
from solver.report import Control as ControlReport
from solver.smo import Solution
from solver.typing import Matrix

_CURVE_POINTS: Final = 4000
_BLOCK_ELEMENTS: Final = 1 << 20
_FEWEST_OF_A_CLASS: Final = 2
_WARN_BELOW: Final = 10


@dataclass(frozen=True)
class Learned:
    """What learning on a calibration plan gives, before a threshold is chosen.

    Attributes
    ----------
    model, scores : Expansion, float64 array
        The method's model and its scores of the plan's calibration rows (NaN where not scored).
    supervised, supervised_scores : Expansion, float64 array
        The same without unlabelled rows: the SVM on the plan's training rows.
    rounds : list of dict
        The trace of an iterative method.
    """

    model: Expansion
    scores: NDArray[np.float64]
    supervised: Expansion
    supervised_scores: NDArray[np.float64]
    rounds: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Control:
    """A decision that stands beside the method's own in every report."""

    model: Expansion
    threshold: float
    counts: ConfusionCounts | None


@dataclass(frozen=True)
class Fitted:
    """A fit's result.

    Attributes
    ----------
    plan : CalibrationPlan
    learned : Learned
    model : Expansion
        The one that is returned: the method's or the control's.
    rows, scores : arrays
        Rows that the threshold was chosen on, and the model's scores of them (NaN where not scored).
    point : OperatingPoint
    controls : dict of Control
    comparison : Comparison or None
    """

    plan: CalibrationPlan
    learned: Learned
    model: Expansion
    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    point: OperatingPoint
    controls: dict[str, Control]
    comparison: Comparison | None


def _has_probability(estimator: Any) -> bool:
    """Whether `predict_proba` is there: out-of-fold scores will be or were to be had."""
    state = getattr(estimator, "_state", None)
    if state is None:
        return bool(estimator.labeled_split != "full")
    return state.probability is not None


class ThresholdClassifier(ClassifierMixin, SharedParameters):
    """Base of the classifiers: a kernel expansion from a subclass, a threshold from an objective."""

    # who computes what falls into parts; no parameter, as it has no say in the result
    _parts: Parts = ALONE
    # what the fit will be given, if somebody else will stop it then
    _seconds: float | None = None

    # parameters that not every method has, and what holds without them
    C: float
    tune: Tune = "none"
    mode: Mode = "method"
    solver: EngineName = "exact"

    # fitted
    classes_: NDArray[Any]
    threshold_: float
    status_: str
    status_reason_: str
    report_: Report
    control_states_: dict[str, DecisionState]
    n_iter_: int
    _tuning: Tuning | None

    @property
    def _supervised(self) -> bool:
        """Whether unlabelled rows are left out, and -1 beside one other label is a class."""
        return not self.declaration.uses_unlabelled

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, unmeasured: ArrayLike | None = None
    ) -> Any:
        """Train, then choose the threshold for the objective.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
            Labelled and unlabelled rows, finite numbers.
        y : array of shape (n,)
            Labels of two classes. A row is unlabelled when its label is None or NaN, or equals `unlabeled` (by default
            -1, as in scikit-learn; with the labels -1 and +1 set `unlabeled`).
        sample_weight : float array of shape (n,), optional
            Factors on C, at least 0. Rows of weight 0 are left out.
        unmeasured : bool array of shape (n,), optional
            Labelled rows to learn from that no parameter, threshold, probability or figure is to rest on, because they
            are not drawn like the others: chosen for being difficult, for one. 2 others of each class are needed.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are fewer than 2 labelled rows of a class, not exactly two classes, or a parameter is wrong.
        """
        self._validate_params()
        objective = self._objective()
        rule = self._effective_rule(objective)
        run, extra = self._start(X, y, sample_weight, unmeasured)
        run.seed = int(check_random_state(self.random_state).randint(2**31))
        seed = np.random.default_rng(run.seed)
        labelled = np.setdiff1d(run.labelled, extra, assume_unique=True)
        truth = run.y[labelled]
        smaller = int(min(np.count_nonzero(truth > 0), np.count_nonzero(truth < 0)))
        warnings: list[str] = []
        if smaller < _WARN_BELOW:
            warnings.append(f"Only {smaller} labelled rows of the rarer class: the threshold is uncertain.")
        certificate = None
        if rule == "fixed-sequence" and smaller >= 2 * _FEWEST_OF_A_CLASS:
            first, second = stratified_halves(truth, seed)
            certificate = CalibrationPlan("part", labelled[first], labelled[second])
            plan = certificate if self._supervised else make_plan(run.y, labelled[first], "xfit", seed)
        else:
            plan = make_plan(run.y, labelled, self.labeled_split, seed)
        run, plan = self._tune(run, plan, objective, seed)
        plan = plan.with_unmeasured(extra)
        if certificate is not None:
            fitted = self._fit_certified(run, objective, plan, certificate.with_unmeasured(extra))
        else:
            fitted = self._fit_calibrated(run, plan, objective, rule, warnings)
        self._finish(run, objective, rule, fitted, warnings)
        return self

    def _fit_calibrated(
        self,
        run: TrainingRun,
        plan: CalibrationPlan,
        objective: Objective,
        rule: ThresholdRule,
        warnings: list[str],
    ) -> Fitted:
        """Learn, and choose the threshold on the calibration scores."""
        if plan.split != self.labeled_split:
            warnings.append("Too few labelled rows of a class for two halves: cross-fitted scores are used instead.")
        if plan.split == "full" and rule != "zero":
            warnings.append("The threshold was chosen on rows that trained the model, so its measures are optimistic.")
        scored_rule: ThresholdRule = "f1max" if rule == "fixed-sequence" else rule
        learned = self._learn(run, plan, objective, scored_rule)
        if run.ended == "stopped" and not np.isfinite(learned.scores).any():
            plan, learned = self._best_when_stopped(run, plan, learned, warnings)
        point = self._choose(run, plan, learned.scores, objective, scored_rule)
        control = point
        if learned.supervised_scores is not learned.scores:
            control = self._choose(run, plan, learned.supervised_scores, objective, scored_rule)
        comparison = self._compare(run, plan, learned, (point, control), objective)
        model, scores = learned.model, learned.scores
        if comparison is not None and comparison.returned == "no_unlabelled":
            model, scores, point = learned.supervised, learned.supervised_scores, control
        if rule == "fixed-sequence":
            point = replace(
                point,
                status="cannot_certify",
                reason=f"A certificate needs at least {2 * _FEWEST_OF_A_CLASS} labelled rows of each class.",
            )
        controls = {"no_unlabelled": Control(learned.supervised, control.threshold, control.counts)}
        return Fitted(plan, learned, model, plan.rows, scores, point, controls, comparison)

    @staticmethod
    def _best_when_stopped(
        run: TrainingRun, plan: CalibrationPlan, learned: Learned, warnings: list[str]
    ) -> tuple[CalibrationPlan, Learned]:
        """What to keep of a run that was stopped before the method's model was scored.

        That is the model without unlabelled rows if that one was scored; else what there is, with scores of rows that
        trained it.
        """
        best, scores = learned.supervised, learned.supervised_scores
        if np.isfinite(scores).any():
            warnings.append("Training was stopped before the unlabelled rows had a part in it.")
        else:
            scores = run.scores_in_time(best, plan.rows)
            plan = replace(plan, split="full", folds=())
            warnings.append(
                "Training was stopped before any left-out row was scored: the threshold was chosen on rows that "
                "trained the model, so its measures are optimistic."
            )
        return plan, Learned(best, scores, best, scores, learned.rounds)

    def _tune(
        self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, seed: np.random.Generator
    ) -> tuple[TrainingRun, CalibrationPlan]:
        """Choose C and gamma if that is asked for; the run goes on with them.

        Rows that measure have no say in them: those of another half are not looked at, and each fold has a C and gamma
        of its own, chosen by the rows that it does not leave out.
        """
        self._tuning = None
        if self.tune == "none":
            return run, plan
        certain = replace(objective, confidence=None)
        self._tuning = tune(run, plan.training_rows, certain, self.tune, self.C, seed, plan.fold)
        run = replace(run, before=SHARE_OF_FIT, **run.tuned(self._tuning.C, self._tuning.gamma))
        return run, replace(plan, tuned=self._tuning.folds if plan.folds else ())

    def _fit_certified(
        self,
        run: TrainingRun,
        objective: Objective,
        inner: CalibrationPlan,
        plan: CalibrationPlan,
    ) -> Fitted:
        """Learn on one half of the labelled rows; certify the result on the other half, which nothing has seen."""
        uncertified = replace(objective, confidence=None)
        learned = self._learn(run, inner, uncertified, "f1max")
        comparison = None
        model = learned.model
        if not self._supervised:
            points = (
                self._choose(run, inner, learned.scores, uncertified, "f1max"),
                self._choose(run, inner, learned.supervised_scores, uncertified, "f1max"),
            )
            comparison = self._compare(run, inner, learned, points, uncertified)
            if comparison is not None and comparison.returned == "no_unlabelled":
                model = learned.supervised
        positive_share = float(np.mean(run.y[np.setdiff1d(plan.training_rows, plan.unmeasured)] > 0))

        def certify(candidate: Expansion) -> tuple[NDArray[np.float64], OperatingPoint]:
            scores = run.scores_in_time(candidate, plan.rows)
            scored = np.isfinite(scores)
            truth = run.y[plan.rows][scored]
            if not (truth > 0).any():
                reason = "Training was stopped before a positive row was scored."
                return scores, OperatingPoint(0.0, confusion(truth, scores[scored] > 0), "cannot_certify", reason)
            use_reference = len(run.unlabelled) > 0 and run.ended != "stopped"
            point = choose_threshold(
                scores[scored],
                truth,
                objective,
                "fixed-sequence",
                reference_scores=run.approximate_scores(candidate, run.unlabelled) if use_reference else None,
                positive_share=positive_share,
                resolution=self.tol,
            )
            return scores, point

        scores, point = certify(model)
        control = point if learned.supervised is model else certify(learned.supervised)[1]
        controls = {"no_unlabelled": Control(learned.supervised, control.threshold, control.counts)}
        return Fitted(plan, learned, model, plan.rows, scores, point, controls, comparison)

    def _compare(
        self,
        run: TrainingRun,
        plan: CalibrationPlan,
        learned: Learned,
        points: tuple[OperatingPoint, OperatingPoint],
        objective: Objective,
    ) -> Comparison | None:
        """The method against the control without unlabelled rows; None for a method that uses none."""
        scored = np.isfinite(learned.scores) & np.isfinite(learned.supervised_scores)
        if self._supervised or not scored.any():
            return None
        point, control = points
        return compare(
            run.y[plan.rows][scored],
            learned.scores[scored] > point.threshold,
            learned.supervised_scores[scored] > control.threshold,
            objective,
            self.mode,
        )

    def share(self, parts: Parts) -> Any:
        """Say who computes the parts of the next `fit`; the result is the same.

        Parameters
        ----------
        parts : Parts

        Returns
        -------
        self
        """
        self._parts = parts
        return self

    def within(self, seconds: float | None) -> Any:
        """Say how many seconds the next `fit` will be given by whoever stops it then; `solver="auto"` chooses by that.

        Unlike `max_seconds` it ends nothing, and the choice does not depend on the clock.

        Parameters
        ----------
        seconds : float or None

        Returns
        -------
        self
        """
        self._seconds = seconds
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores; a row is predicted positive when its score is strictly above `threshold_`.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)

        Returns
        -------
        float64 array of shape (n,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._state.decision_function(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels, as they were given to `fit`."""
        positive = self.decision_function(X) > self.threshold_
        labels: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the negative and the positive class, of shape (n, 2).

        Fitted to scores of calibration rows (`labeled_split` other than `full`). A probability never decides: `predict`
        compares the score with `threshold_`.
        """
        scores = self.decision_function(X)
        positive = self._state.probabilities(scores)
        return np.column_stack([1 - positive, positive])

    def decision_state(self) -> DecisionState:
        """The fitted decision as plain arrays, for model files."""
        check_is_fitted(self)
        return self._state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _learn(self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, rule: ThresholdRule) -> Learned:
        """Train on the plan's training rows and score its calibration rows."""

    def _train_svm(self, run: TrainingRun, rows: NDArray[np.intp], start: Expansion | None = None) -> Expansion:
        """The C-SVC on labelled rows."""
        return run.train(rows, run.y[rows], self._labelled_cost(run) * run.cost[rows], start)

    def _learn_supervised(self, run: TrainingRun, plan: CalibrationPlan) -> tuple[Expansion, NDArray[np.float64]]:
        """The SVM without unlabelled rows: model and calibration scores."""
        model = self._train_svm(run, plan.training_rows)
        return model, calibration_scores(run, plan, model, lambda own, _, rows: self._train_svm(own, rows))

    def _labelled_cost(self, run: TrainingRun) -> float:
        """C of the labelled rows."""
        return self.C if run.tuned_C is None else run.tuned_C

    def _objective(self) -> Objective:
        """The objective in force."""
        return Objective.parse("f1" if self.objective is None else self.objective)

    def _effective_rule(self, objective: Objective) -> ThresholdRule:
        """The rule in force: a confidence turns the default rule into the one that certifies."""
        rule = self.threshold_rule
        if objective.confidence is not None and rule == "f1max":
            rule = "fixed-sequence"
        check_rule(rule, objective)
        return rule

    def _start(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, unmeasured: ArrayLike | None = None
    ) -> tuple[TrainingRun, NDArray[np.intp]]:
        """Check the input and set up the run on it; also return its labelled rows that are only learned from."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        labels = self._encode(y)
        if len(labels.y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(labels.y)}")
        weight = np.ones(len(labels.y))
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        only_trained = np.zeros(len(labels.y), dtype=bool)
        if unmeasured is not None:
            only_trained = column_or_1d(unmeasured).astype(bool)
            check_consistent_length(labels.y, only_trained)
        keep = weight > 0
        if self._supervised:
            keep &= labels.y != 0
        if not keep.all():
            X, weight = X[keep], weight[keep]
        encoded, only_trained = labels.y[keep], only_trained[keep]
        counts = {int(sign): int(np.count_nonzero(encoded[~only_trained] == sign)) for sign in (-1, 1)}
        if (labels.y < 0).any() and min(counts.values()) < _FEWEST_OF_A_CLASS:
            negative, positive = labels.classes.tolist()
            raise ValueError(
                f"need at least {_FEWEST_OF_A_CLASS} labelled of each class, got {counts[1]} of the positive class "
                f"{positive!r} and {counts[-1]} of the negative class {negative!r}"
            )
        self.classes_ = labels.classes
        cost = weight * self._class_factors(encoded)
        run = TrainingRun(
            X=X,
            y=encoded,
            cost=cost,
            kernel_parameters=KernelParameters(self.kernel, self._gamma(X), int(self.degree), float(self.coef0)),
            limits=SolverLimits(
                tol=float(self.tol),
                max_iter=None if self.max_iter == -1 else int(self.max_iter),
                max_seconds=self.max_seconds,
                planned_seconds=self._seconds,
                cache_bytes=None if self.cache_size is None else int(self.cache_size * 2**20),
                backend=self.device,
                solver=self.solver,
            ),
            callback=self.callback,
            parts=self._parts,
        )
        return run, np.flatnonzero(only_trained & (encoded != 0))

    def _encode(self, y: ArrayLike) -> BinaryLabels:
        """Two classes and the unlabelled rows."""
        return encode_labels(y, unlabeled=self.unlabeled, positive=self.positive, supervised=self._supervised)

    def _class_factors(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class weight of each row; 1 for unlabelled rows."""
        factors = np.ones(len(encoded))
        if self.class_weight is None:
            return factors
        labelled = encoded != 0
        weights = self.class_weight
        if isinstance(weights, Mapping):
            named = list(weights)
            unknown = [label for label in named if label not in self.classes_.tolist()]
            if unknown:
                raise ValueError(f"class_weight names {unknown}, which are none of the labels {self.classes_.tolist()}")
            negative, positive = (float(weights.get(label, 1.0)) for label in self.classes_.tolist())
            if not (negative > 0 and positive > 0):
                raise ValueError("class_weight must be greater than 0 for both classes")
        else:
            negative, positive = compute_class_weight(weights, classes=np.array([-1.0, 1.0]), y=encoded[labelled])
        factors[encoded > 0] = positive
        factors[encoded < 0] = negative
        return factors

    def _gamma(self, X: Matrix) -> float:
        """The number behind gamma: `scale` is 1 / (d · variance of all entries), `auto` is 1 / d."""
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / int(X.shape[1])
        size = X.shape[0] * X.shape[1]
        if sparse.issparse(X):
            mean = float(X.sum(dtype=np.float64)) / size
            variance = float((X.data.astype(np.float64) ** 2).sum()) / size - mean**2
        else:
            variance = _variance(X)
        return 1.0 / (int(X.shape[1]) * variance) if variance > 0 else 1.0

    def _choose(
        self,
        run: TrainingRun,
        plan: CalibrationPlan,
        scores: NDArray[np.float64],
        objective: Objective,
        rule: ThresholdRule,
    ) -> OperatingPoint:
        """The operating point on the calibration rows that were scored; at 0 when no positive one was."""
        scored = np.isfinite(scores)
        truth = run.y[plan.rows][scored]
        if not (truth > 0).any():
            return OperatingPoint(0.0, confusion(truth, scores[scored] > 0), "preference_unmet", "")
        return choose_threshold(scores[scored], truth, objective, rule, resolution=self.tol)

    def _plain_svm(self, run: TrainingRun, plan: CalibrationPlan, learned: Learned) -> Control | None:
        """The SVM on all labelled rows with threshold 0, measured on rows it did not see; None when time is up."""
        if plan.split != "part":
            scored = np.isfinite(learned.supervised_scores)
            counts = confusion(run.y[plan.rows][scored], learned.supervised_scores[scored] > 0)
            return Control(learned.supervised, 0.0, counts if scored.any() else None)
        if run.ended:
            return None
        # the two halves score each other, and together they are where the training on both starts
        one = run.remember_scores(learned.supervised, plan.rows)
        other = run.remember_scores(self._train_svm(run, plan.rows), plan.training_rows)
        model = self._train_svm(run, run.labelled, start=one.added_to(other))
        others = np.setdiff1d(plan.training_rows, plan.unmeasured)
        scores = np.concatenate([run.approximate_scores(one, plan.rows), run.approximate_scores(other, others)])
        truth = np.concatenate([run.y[plan.rows], run.y[others]])
        return Control(model, 0.0, confusion(truth, scores > 0))

    def _add_controls(self, run: TrainingRun, objective: Objective, fitted: Fitted, warnings: list[str]) -> None:
        """Put the other controls beside the first one, and say where one is better than what is returned."""
        plain = self._plain_svm(run, fitted.plan, fitted.learned)
        if plain is not None:
            fitted.controls["plain_svm"] = plain
        scored = np.isfinite(fitted.scores)
        truth = run.y[fitted.rows][scored]
        if len(truth) == 0:
            return
        mine = fitted.scores[scored] > fitted.point.threshold
        decisions: dict[str, NDArray[np.bool_]] = {}
        if fitted.plan.split != "part":
            decisions["plain_svm"] = np.nan_to_num(fitted.learned.supervised_scores[scored]) > 0
        if objective.costs is not None:
            nothing = replace(fitted.learned.supervised, rows=np.zeros(0, dtype=np.intp), coefficients=np.zeros(0))
            for name, threshold in (("all_positive", -1.0), ("all_negative", 1.0)):
                decisions[name] = np.full(len(truth), threshold < 0)
                model = replace(nothing, intercept=0.0)
                fitted.controls[name] = Control(model, threshold, confusion(truth, decisions[name]))
        differences = {
            name: difference_between(truth, decision, mine, objective) for name, decision in decisions.items()
        }
        if fitted.comparison is not None and fitted.comparison.returned == "method":
            differences["no_unlabelled"] = fitted.comparison.difference.reversed()
        warnings += [
            f"The control {name} is better on the calibration rows by {difference.gain:.3f} "
            f"(standard error {difference.standard_error:.3f})."
            for name, difference in differences.items()
            if wins(difference)
        ]

    def _finish(
        self, run: TrainingRun, objective: Objective, rule: ThresholdRule, fitted: Fitted, warnings: list[str]
    ) -> None:
        """Set the fitted attributes."""
        self._add_controls(run, objective, fitted, warnings)
        point, costs = fitted.point, objective.costs
        scored = np.isfinite(fitted.scores)
        scores, truth = fitted.scores[scored], run.y[fitted.rows][scored]
        self.threshold_ = point.threshold
        self.n_iter_ = max(1, run.iterations)
        if run.ended == "stopped":
            self.status_, self.status_reason_ = "stopped", "Training was stopped; this is the best model until then."
        elif run.ended == "solver_limit":
            self.status_ = "solver_limit"
            self.status_reason_ = "The solver reached its limit of iterations, time or precision before it converged."
        else:
            self.status_, self.status_reason_ = point.status, point.reason
        # in-sample scores say nothing about probabilities of new rows
        both = (truth > 0).any() and (truth < 0).any()
        sigmoid = fit_sigmoid(scores, truth) if both and fitted.plan.split != "full" else None
        self._state = replace(run.state(fitted.model, point.threshold), probability=sigmoid)
        self.control_states_ = {name: run.state(c.model, c.threshold) for name, c in fitted.controls.items()}
        self.report_ = Report(
            **self._asked(run, objective),
            threshold=point.threshold,
            threshold_rule=rule,
            labeled_split=fitted.plan.split,
            calibration=measures(point.counts, costs=costs) if scored.any() else None,
            test=None,
            controls={
                name: ControlReport(c.threshold, None if c.counts is None else measures(c.counts, costs=costs))
                for name, c in fitted.controls.items()
            },
            tuning=None if self._tuning is None else self._tuning.report(),
            comparison=None if fitted.comparison is None else fitted.comparison.report(),
            rounds=fitted.learned.rounds,
            curve=_curve(scores, truth, self.tol),
            probability=None if sigmoid is None else _probability(sigmoid, scores, truth),
            solver=self._solved(run, fitted.model.solution),
            warnings=warnings,
        )

    def _asked(self, run: TrainingRun, objective: Objective) -> dict[str, Any]:
        """The fields of every report: what was asked, on which rows, and how it ended."""
        return {
            "algorithm": self.declaration.name,
            "params": {name: _plain(value) for name, value in self.get_params().items() if name != "callback"},
            "objective": objective.to_dict(),
            "status": self.status_,
            "status_reason": self.status_reason_,
            "classes": Classes(*map(str, self.classes_.tolist())),
            "rows": Rows(
                total=len(run.y),
                labelled=len(run.labelled),
                positive=int(np.count_nonzero(run.y > 0)),
                negative=int(np.count_nonzero(run.y < 0)),
                unlabelled=len(run.unlabelled),
            ),
            "timings": {"training": run.seconds},
        }

    def _solved(self, run: TrainingRun, solution: Solution) -> SolverReport:
        return SolverReport(
            gap=float(solution.gap),
            objective=float(solution.objective),
            iterations=run.iterations,
            status=solution.status,
            support_vectors=int(self._state.support_vectors.shape[0]),
            engine=solution.engine,
            lowrank=run.low_rank.report(
                solution, run.y, self._labelled_cost(run) * run.cost, run.limits.tol, compare=not run.ended
            ),
        )


def _curve(scores: NDArray[np.float64], truth: NDArray[np.float64], tol: float) -> CurvePoints | None:
    if not len(scores):
        return None
    return CurvePoints(**OperatingCurve.from_scores(scores, truth, tol).thinned(_CURVE_POINTS).to_dict())


def _probability(sigmoid: Sigmoid, scores: NDArray[np.float64], truth: NDArray[np.float64]) -> ProbabilityReport:
    probabilities = sigmoid(scores)
    return ProbabilityReport(
        slope=sigmoid.slope,
        offset=sigmoid.offset,
        brier=brier_score(truth, probabilities),
        reliability=reliability_curve(truth, probabilities),
    )


def _variance(X: NDArray[Any]) -> float:
    """Variance of all entries; some rows at a time, as X may be mapped from a file."""
    mean = float(X.mean(dtype=np.float64))
    step = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    squares = (np.square(X[s : s + step] - mean, dtype=np.float64).sum() for s in range(0, X.shape[0], step))
    return float(sum(squares)) / X.size


def _plain(value: Any) -> Any:
    """A JSON value for a parameter or a label."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Objective):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(part) for key, part in value.items()}
    if value is None or isinstance(value, str | bool | int | float):
        return cast(Any, value)
    return str(value)
