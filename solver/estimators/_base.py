"""What all classifiers here share: parameters, labels and kernel before a fit, and what a fitted one can be asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from solver.algorithms import FEWEST_RULER_ROWS
from solver.choices import FEWEST_OF_A_CLASS, EngineName, Mode, ThresholdRule, Tune
from solver.decision import DecisionState
from solver.estimators._calibration import CalibrationPlan, calibration_scores, halves_of, make_plan
from solver.estimators._choosing import (
    Fit,
    Fitted,
    Learned,
    add_controls,
    fit_calibrated,
    fit_certified,
    fit_cross_certified,
)
from solver.estimators._expansion import Expansion
from solver.estimators._labels import BinaryLabels, encode_labels
from solver.estimators._reporting import fitted_report, promise_of_fit
from solver.estimators._run import KernelParameters, SolverLimits, TrainingRun
from solver.estimators._scores import decision_state
from solver.estimators._tuning import SHARE_OF_FIT, Tuning, tune
from solver.estimators.parameters import SharedParameters, checked_weights, numbered_groups
from solver.evaluation.probability import fit_sigmoid
from solver.labelled_rows import fingerprints
from solver.operating_point import Objective, check_rule
from solver.parts import ALONE, PartExecutor
from solver.promise import promised_status
from solver.repeated_rows import Cases
from solver.report import Report
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_BLOCK_ELEMENTS: Final = 1 << 20
_WARN_BELOW: Final = 10
_FLAT: Final = 0.01
"""Probabilities that differ by less say nothing of a row."""
_MOST_RULER_ROWS: Final = 4096
"""Unlabelled rows among which scores are ranked."""

STOPPED: Final = "Training was stopped; this is the best model until then."


def _has_probability(estimator: Any) -> bool:
    """Whether `predict_proba` is there: out-of-fold scores will be or were to be had."""
    state = getattr(estimator, "_state", None)
    if state is None:
        return bool(estimator.labeled_split != "full")
    return state.probability is not None


class ThresholdClassifier(ClassifierMixin, SharedParameters):
    """Base of the classifiers: a kernel expansion from a subclass, a threshold from an objective."""

    # set by `share`; no parameter of the constructor, as the result does not depend on it
    _parts: PartExecutor = ALONE
    # set by `within`
    _seconds: float | None = None

    # Parameters that some methods lack, with the values that hold for those.
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
    left_out_scores_: FloatArray
    control_states_: dict[str, DecisionState]
    n_iter_: int
    _tuning: Tuning | None

    @property
    def _supervised(self) -> bool:
        """Whether unlabelled rows are left out, and -1 beside one other label is a class."""
        return not self.declaration.needs_unlabelled

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        unmeasured: ArrayLike | None = None,
        groups: ArrayLike | None = None,
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
        groups : array of shape (n,), optional
            Rows of the same number or text belong together, as mails of one thread do: they lie on one side of every
            split, so that none is left out while others of its group are learned.

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
        crossed = rule == "fixed-sequence" and objective.certificate != "strict"
        run, extra = self._start(X, y, sample_weight, unmeasured, groups, with_ruler=crossed)
        run.seed = int(check_random_state(self.random_state).randint(2**31))
        seed = np.random.default_rng(run.seed)
        labelled, extra, case = measured_once(run, extra)
        truth = run.y[labelled]
        smaller = int(min(np.count_nonzero(truth > 0), np.count_nonzero(truth < 0)))
        certificate = None
        enough = rule == "fixed-sequence" and smaller >= 2 * FEWEST_OF_A_CLASS
        if enough and run.ruler is not None:
            plan = replace(make_plan(run.y, labelled, "xfit", seed, run.groups), is_ranked=True)
        elif enough and (halves := halves_of(run.y, labelled, seed, run.groups)) is not None:
            certificate = CalibrationPlan("part", *halves)
            chooses = not self._supervised or len(run.unlabelled) > 0
            plan = make_plan(run.y, halves[0], "xfit", seed, run.groups) if chooses else certificate
        else:
            plan = make_plan(run.y, labelled, self.labeled_split, seed, run.groups)
        run, plan = self._tune(run, plan, objective, seed)
        beside = extra
        if certificate is not None:
            certificate = certificate.with_unmeasured(extra, case, run.groups)
            beside = certificate.unmeasured  # copies of rows that certify are not learned from either
        plan = plan.with_unmeasured(beside, case, run.groups)
        mode = None if self._supervised else self.mode
        fit = Fit(run, objective, rule, mode, self._learn, self._train_svm)
        if smaller < _WARN_BELOW:
            fit.warnings.append(f"Only {smaller} labelled rows of the rarer class: the threshold is uncertain.")
        if plan.is_ranked:
            fitted = fit_cross_certified(fit, plan)
        elif certificate is not None:
            if objective.certificate != "strict":
                fit.warnings.append(self._why_strict)
            fitted = fit_certified(fit, plan, certificate)
        else:
            fitted = fit_calibrated(fit, plan, self.labeled_split)
        self._finish(fit, fitted)
        return self

    @property
    def _why_strict(self) -> str:
        """Why only the strict certificate was to be had."""
        why = f"there are fewer than {FEWEST_RULER_ROWS} unlabelled rows to compare the models of its folds by"
        if not self.declaration.can_cross_certify:
            why = f"{self.declaration.name} chooses a round by the left-out scores"
        return f"The certificate is strict, of half of the labelled rows, not cross_fitted: {why}."

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
        run = run.rebuilt(before=SHARE_OF_FIT, **run.tuned(self._tuning.C, self._tuning.gamma))
        return run, replace(plan, tuned=self._tuning.folds if plan.folds else ())

    def share(self, parts: PartExecutor) -> Any:
        """Say who computes the parts of the next `fit`; the result is the same.

        Returns
        -------
        self
        """
        self._parts = parts
        return self

    def within(self, seconds: float | None) -> Any:
        """Say after how many seconds the caller will stop the next `fit`; `solver="auto"` chooses by that.

        Unlike `max_seconds` it ends nothing, and the choice does not depend on the clock.

        Returns
        -------
        self
        """
        self._seconds = seconds
        return self

    @property
    def planned_seconds(self) -> float | None:
        """What `within` was told last."""
        return self._seconds

    def decision_function(self, X: Any) -> FloatArray:
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
    def predict_proba(self, X: Any) -> FloatArray:
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

    def _train_svm(self, run: TrainingRun, rows: IndexArray, start: Expansion | None = None) -> Expansion:
        """The C-SVC on labelled rows."""
        return run.train(rows, run.y[rows], self._labelled_cost(run) * run.cost[rows], start)

    def _learn_supervised(self, run: TrainingRun, plan: CalibrationPlan) -> tuple[Expansion, FloatArray]:
        """The SVM without unlabelled rows: model and calibration scores."""
        model = self._train_svm(run, plan.training_rows)
        return model, calibration_scores(run, plan, model, lambda own, _, rows: self._train_svm(own, rows))

    def learn_beside(self, run: TrainingRun, plan: CalibrationPlan) -> tuple[Expansion, FloatArray]:
        """The method's model and its calibration scores, on a run of another one with at least two unlabelled rows."""
        return self._learn_supervised(run, plan)

    def _labelled_cost(self, run: TrainingRun) -> float:
        """C of the labelled rows."""
        return self.C if run.tuned_C is None else run.tuned_C

    def _objective(self) -> Objective:
        """The objective in force; raises ValueError for one that leaves rows undecided."""
        objective = Objective.parse("f1" if self.objective is None else self.objective)
        if objective.abstain is not None:
            raise ValueError("an estimator gives every row a label; abstain belongs to the trainings of the service")
        return objective

    def _effective_rule(self, objective: Objective) -> ThresholdRule:
        """The rule in force: a confidence turns the default rule into the one that certifies."""
        rule = self.threshold_rule
        if objective.confidence is not None and rule in ("auto", "f1max"):
            rule = "fixed-sequence"
        check_rule(rule, objective)
        return rule

    def _start(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        unmeasured: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        with_ruler: bool = False,
    ) -> tuple[TrainingRun, IndexArray]:
        """Check the input and set up the run on it; also return its labelled rows that are only learned from.

        With a ruler, the run has one if there are unlabelled rows enough for it.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        labels = self._encode(y)
        if len(labels.y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(labels.y)}")
        weight: FloatArray = np.ones(len(labels.y))
        if sample_weight is not None:
            weight = checked_weights(sample_weight, X)
        only_trained = np.zeros(len(labels.y), dtype=bool)
        if unmeasured is not None:
            only_trained = column_or_1d(unmeasured).astype(bool)
            check_consistent_length(labels.y, only_trained)
        belongs = numbered_groups(groups, labels.y)
        keep = weight > 0
        unlabelled = np.flatnonzero(keep & (labels.y == 0))
        certificate = self.declaration.certificate(len(unlabelled))
        ruler = _ruler(X, unlabelled) if with_ruler and certificate == "cross_fitted" else None
        keep = self._takes_part(labels.y, keep)
        if not keep.all():
            X, weight = X[keep], weight[keep]
            belongs = None if belongs is None else belongs[keep]
        encoded, only_trained = labels.y[keep], only_trained[keep]
        counts = {int(sign): int(np.count_nonzero(encoded[~only_trained] == sign)) for sign in (-1, 1)}
        self._refuse_few(counts, labels.classes)
        self.classes_ = labels.classes
        cost = weight * self._class_factors(encoded)
        # the SVM has one kernel whether others are tried beside it or not
        own = X[encoded != 0] if self._supervised and (encoded == 0).any() else X
        run = TrainingRun(
            X=X,
            y=encoded,
            cost=cost,
            kernel_parameters=KernelParameters(self.kernel, self._gamma(own), int(self.degree), float(self.coef0)),
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
            ruler=ruler,
            certificate=certificate,
            groups=belongs,
        )
        return run, np.flatnonzero(only_trained & (encoded != 0))

    def _refuse_few(self, counts: Mapping[int, int], classes: NDArray[Any]) -> None:
        """Refuse labels of which too few of a class measure; `counts` are those of -1 and 1."""
        if min(counts.values()) < FEWEST_OF_A_CLASS:
            negative, positive = classes.tolist()
            raise ValueError(
                f"need at least {FEWEST_OF_A_CLASS} labelled of each class, got {counts[1]} of the positive class "
                f"{positive!r} and {counts[-1]} of the negative class {negative!r}"
            )

    def _takes_part(self, encoded: FloatArray, keep: BoolArray) -> BoolArray:
        """Which of the rows to keep are of any use."""
        return keep & (encoded != 0) if self._supervised else keep

    def _encode(self, y: ArrayLike) -> BinaryLabels:
        """Two classes and the unlabelled rows."""
        return encode_labels(y, unlabeled=self.unlabeled, positive=self.positive, supervised=self._supervised)

    def _class_factors(self, encoded: FloatArray) -> FloatArray:
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

    def _finish(self, fit: Fit, fitted: Fitted) -> None:
        """Set the fitted attributes."""
        add_controls(fit, fitted)
        run, point = fit.run, fitted.point
        scored = np.isfinite(fitted.scores)
        scores, truth = fitted.scores[scored], run.y[fitted.plan.rows][scored]
        promise = promise_of_fit(fit, fitted, str(self.classes_[1])) if scored.any() else None
        self.threshold_ = point.threshold
        self.n_iter_ = max(1, run.iterations)
        if run.ended == "stopped":
            self.status_, self.status_reason_ = "stopped", STOPPED
        elif run.ended == "solver_limit":
            self.status_ = "solver_limit"
            self.status_reason_ = "The solver reached its limit of iterations, time or precision before it converged."
        else:
            self.status_, self.status_reason_ = point.status, point.reason
            # where a certificate was asked for, the tests have decided
            if promise is not None and fitted.certificate is None:
                self.status_, self.status_reason_ = promised_status(point.status, point.reason, promise)
        left_out = np.full(len(run.y), np.nan)
        if fitted.plan.split != "full":
            left_out[fitted.plan.rows] = fitted.scores
            left_out = fitted.plan.with_copies(left_out)
        self.left_out_scores_ = left_out[run.labelled]
        # in-sample scores say nothing about probabilities of new rows
        both = (truth > 0).any() and (truth < 0).any()
        sigmoid = fit_sigmoid(scores, truth) if both and fitted.plan.split != "full" else None
        if sigmoid is not None and np.ptp(sigmoid(scores)) < _FLAT:
            fit.warnings.append(
                f"All probabilities are about {float(sigmoid(scores).mean()):.2f}: the scores of left-out rows did not "
                "tell the classes apart. Label more rows."
            )
        self._state = replace(decision_state(run, fitted.model, point.threshold), probability=sigmoid)
        self.control_states_ = {name: decision_state(run, c.model, c.threshold) for name, c in fitted.controls.items()}
        self.report_ = fitted_report(self, fit, fitted, self._state, promise, self._labelled_cost(run) * run.cost)


def measured_once(run: TrainingRun, extra: IndexArray) -> tuple[IndexArray, IndexArray, IndexArray | None]:
    """The labelled rows that measure, one of each case, and all others, which measure nothing; the case of each row.

    The case is None where no labelled row is repeated. Unlabelled rows have none: -1. The groups of the run go on to be
    those of rows that are the same, too.
    """
    every = run.labelled
    is_measured = ~np.isin(every, extra)
    own = None if run.groups is None else run.groups[every]
    cases = Cases.of(fingerprints(run.X, every), run.y[every] > 0, run.seed, is_measured, own)
    if run.groups is not None:
        run.groups = _groups_of_all(cases, run.groups, every)
    stands = every[cases.stands & is_measured]
    if not cases.is_repeated:
        return stands, extra, None
    case = np.full(len(run.y), -1, dtype=np.intp)
    case[every] = cases.case
    return stands, np.setdiff1d(every, stands, assume_unique=True), case


def _groups_of_all(cases: Cases, groups: IndexArray, labelled: IndexArray) -> IndexArray:
    """What lies on one side of each split, of all rows: an unlabelled one beside labelled ones of its group."""
    found = dict(zip(groups[labelled].tolist(), cases.sides.tolist(), strict=True))
    every = np.array([found.get(group, len(labelled) + group) for group in groups.tolist()], dtype=np.intp)
    every[labelled] = cases.sides
    return every


def _ruler(X: Matrix, unlabelled: IndexArray) -> Matrix:
    """Unlabelled rows to rank scores among."""
    if len(unlabelled) > _MOST_RULER_ROWS:
        unlabelled = np.sort(np.random.default_rng(0).choice(unlabelled, _MOST_RULER_ROWS, replace=False))
    ruler: Matrix = X[unlabelled]
    return ruler


def _variance(X: NDArray[Any]) -> float:
    """Variance of all entries; some rows at a time, as X may be mapped from a file."""
    mean = float(X.mean(dtype=np.float64))
    step = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    squares = (np.square(X[s : s + step] - mean, dtype=np.float64).sum() for s in range(0, X.shape[0], step))
    return float(sum(squares)) / X.size
