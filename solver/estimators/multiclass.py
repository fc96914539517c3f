"""More than two classes: one classifier against the rest or for each pair, with the unlabelled rows in every one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from solver.choices import FEWEST_OF_A_CLASS
from solver.estimators._labels import encode_classes
from solver.estimators._left_out import Cross, class_report, cross_decided, linear_control
from solver.estimators._together import can_train_together, train_together
from solver.estimators.parameters import checked_weights, numbered_groups
from solver.kernels.parallel import single_threaded_blas
from solver.labelled_rows import fingerprints
from solver.multiclass import (
    Calibration,
    ClassesDecision,
    ClassesReport,
    ClassObjective,
    LeftOutProblemScores,
    ProblemScores,
    Scheme,
    each_two_class_problem,
    number_of_problems,
    own_rows,
)
from solver.multiclass.problems import pairs_of
from solver.multiclass.rule import dealt_by_case
from solver.repeated_rows import Cases
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_FOLDS: Final = 5
_UNLABELLED: Final = -1
_IN_NO_FOLD: Final = -1
"""Of a row that is learned from and never left out."""
_LEAST_SHARE: Final = 1e-9
"""Of an unlabelled row in a pair of classes; less is none."""
_FEW_ROWS: Final = 4096
"""With no more, the threads of BLAS would wait for each other longer than they compute."""


def _has_probability(classifier: Any) -> bool:
    """Whether `predict_proba` is there: left-out scores will be or were to be had."""
    decision = getattr(classifier, "decision_", None)
    if decision is None:
        return getattr(classifier.estimator, "labeled_split", None) == "xfit"
    return decision.calibration is not None


@dataclass(frozen=True)
class _PartOfAll:
    """What the callback of an estimator hears of the training of one of several problems."""

    callback: Any
    number: int
    problems: int

    def __call__(self, fraction: float, details: Mapping[str, Any]) -> bool:
        told = {**details, "problem": self.number + 1, "problems": self.problems}
        return bool(self.callback((self.number + fraction) / self.problems, told))

    def of(self, seconds: float | None) -> float | None:
        """Its share of the seconds that all may take."""
        return None if seconds is None else seconds / self.problems


class _SemiSupervisedMultiClass(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Fits classifiers of two classes, each on some of the labelled rows and on all unlabelled ones."""

    _scheme: ClassVar[Scheme]

    def __init__(self, estimator: Any, *, unlabeled: Any = None, objective: Any = None, controls: bool = False) -> None:
        self.estimator = estimator
        self.unlabeled = unlabeled
        self.objective = objective
        self.controls = controls

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        unmeasured: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Any:
        """Train a classifier for every two-class problem, then choose how their scores become a class.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
            Labelled and unlabelled rows, finite numbers.
        y : array of shape (n,)
            Labels; a row is unlabelled when its label is None or NaN, or equals `unlabeled` (by default -1).
        sample_weight : float array of shape (n,), optional
            Factors on C, at least 0. Rows of weight 0 are left out.
        unmeasured : bool array of shape (n,), optional
            Labelled rows to learn from that no probability, rule or figure is to rest on, as of the estimators of two
            classes.
        groups : array of shape (n,), optional
            Rows that belong together, likewise.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are fewer than two classes, fewer than two labelled rows of one, or the objective is wrong.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        codes, self.classes_ = encode_classes(y, unlabeled=self.unlabeled)
        if len(codes) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(codes)}")
        self._unmeasured = np.zeros(len(codes), dtype=bool)
        if unmeasured is not None:
            self._unmeasured = column_or_1d(unmeasured).astype(bool)
            check_consistent_length(codes, self._unmeasured)
        self._groups = numbered_groups(groups, codes)
        weight = None
        if sample_weight is not None:
            weight = checked_weights(sample_weight, X)
            kept = weight > 0
            X, codes, self._unmeasured, weight = X[kept], codes[kept], self._unmeasured[kept], weight[kept]
            self._groups = None if self._groups is None else self._groups[kept]
        self._counts = np.bincount(codes[codes >= 0], minlength=len(self.classes_))
        self._check_classes()
        objective = self._objective()
        with single_threaded_blas() if len(codes) <= _FEW_ROWS else nullcontext():
            labelled = np.flatnonzero(codes >= 0)
            is_measured = ~self._unmeasured[labelled]
            own = None if self._groups is None else self._groups[labelled]
            cases = Cases.of(fingerprints(X, labelled), codes[labelled], preference=is_measured, groups=own)
            left_out = self._train(X, codes, weight, cases)
            if left_out is not None and cases.is_repeated:
                left_out = left_out.only_of(cases.stands & is_measured)
            self._decide(X, codes, left_out, objective, cases)
        return self

    def _check_classes(self) -> None:
        """Whether there are classes, and rows of each."""
        if len(self.classes_) < 2:
            raise ValueError(f"the labelled rows hold only one class ({self.classes_.tolist()[0]!r}); need two or more")
        if self._counts.min() < FEWEST_OF_A_CLASS:
            fewest = int(np.argmin(self._counts))
            raise ValueError(
                f"need at least {FEWEST_OF_A_CLASS} labelled rows of each class, got {self._counts[fewest]} of "
                f"{self.classes_.tolist()[fewest]!r}"
            )

    def _objective(self) -> ClassObjective | None:
        """The objective in force; raises ValueError for one that nothing can be chosen by."""
        if self.objective is None:
            return None
        objective = ClassObjective.parse(self.objective)
        objective.check_classes(self.classes_.tolist())
        if getattr(self.estimator, "labeled_split", None) != "xfit":
            raise ValueError("an objective is chosen on left-out scores: it needs labeled_split='xfit'")
        return objective

    def _train(
        self, X: Matrix, codes: IndexArray, weight: FloatArray | None, cases: Cases
    ) -> LeftOutProblemScores | None:
        """Train all classifiers; the left-out scores of the labelled rows, if there are any."""
        self.estimators_: list[Any] = []
        labelled, classes = np.flatnonzero(codes >= 0), len(self.classes_)
        if classes > 2 and can_train_together(self.estimator):
            fold = None
            if self.estimator.labeled_split == "xfit":
                seed = check_random_state(self.estimator.random_state).randint(2**31)
                fold = dealt_by_case(codes[labelled], _FOLDS, np.random.default_rng(seed), cases)
                fold[~cases.beside(~self._unmeasured[labelled])] = _IN_NO_FOLD
            every = np.ones(len(labelled)) if weight is None else weight[labelled]
            rows = X if len(labelled) == len(codes) else X[labelled]
            trained = train_together(self.estimator, rows, codes[labelled], classes, self._scheme, every, fold)
            self.scores_, self._ended = ProblemScores.of_one(trained.expansion), trained.ended
            return trained.left_out
        self._ended = ""
        problems = each_two_class_problem(codes, classes, self._scheme)
        count = number_of_problems(classes, self._scheme)
        weights = self._weights_of_pairs(X, codes, weight)
        self.estimators_ = []
        for number, problem in enumerate(problems):
            own = weight if weights is None else weights(number)
            part = _PartOfAll(self.estimator.callback, number, count)
            self.estimators_.append(self._fit_one(X, problem, own, part))
        if any(classifier.status_ == "stopped" for classifier in self.estimators_):
            self._ended = "stopped"
        self.scores_ = ProblemScores.of_states(
            [classifier.decision_state() for classifier in self.estimators_],
            [self._subtracted(classifier) for classifier in self.estimators_],
        )
        return self._left_out_scores(X, codes, labelled) if self.estimator.labeled_split == "xfit" else None

    def _weights_of_pairs(
        self, X: Matrix, codes: IndexArray, weight: FloatArray | None
    ) -> Callable[[int], FloatArray] | None:
        """What rows count in each pair of several classes, where the estimator can tell whose the unlabelled ones are.

        They count as far as they are of the pair: those of a third class would draw it away. None: in each as they are.
        """
        memberships = getattr(self.estimator, "class_memberships", None)
        if memberships is None or self._scheme != "one_vs_one" or len(self.classes_) < 3 or codes.min() >= 0:
            return None
        shares = memberships(X, codes, weight)
        pairs = pairs_of(len(self.classes_))

        def of(number: int) -> FloatArray:
            within = shares[:, pairs[number]].sum(axis=1)
            within[(codes < 0) & (within < _LEAST_SHARE)] = 0.0
            return np.where(codes >= 0, 1.0, within) * (1.0 if weight is None else weight)

        return of

    def _left_out_scores(self, X: Matrix, codes: IndexArray, labelled: IndexArray) -> LeftOutProblemScores:
        """What the classifiers said of their own rows when they were left out, and what they say of the others."""
        own = own_rows(codes[labelled], len(self.classes_), self._scheme)
        scores = np.empty(len(own.rows))
        for number, classifier in enumerate(self.estimators_):
            part = own.of(number)
            # a classifier has its rows in ascending order
            scores[part.start + np.argsort(own.rows[part])] = classifier.left_out_scores_ - self._subtracted(classifier)
        by_row = sparse.csc_array((scores, own.rows, own.starts), shape=(len(labelled), own.problems)).tocsr()

        def of_rows(rows: IndexArray) -> FloatArray:
            known = by_row[rows].tocoo()
            every = np.empty(known.shape) if len(self.classes_) == 2 else self.scores_(X[labelled[rows]])
            every[known.row, known.col] = known.data
            return every

        return LeftOutProblemScores(own, scores, of_rows)

    def _fit_one(self, X: Matrix, problem: NDArray[np.int8], weight: FloatArray | None, part: _PartOfAll) -> Any:
        """Fit a classifier on the rows that are 1, 0 or unlabelled; any other number leaves a row out."""
        takes_part: BoolArray = problem >= _UNLABELLED
        rows: Matrix = X  # not copied for each class
        unmeasured, groups = self._unmeasured, self._groups
        if not takes_part.all():
            rows, problem, unmeasured = X[takes_part], problem[takes_part], unmeasured[takes_part]
            groups = None if groups is None else groups[takes_part]
            weight = None if weight is None else weight[takes_part]
        classifier = clone(self.estimator).set_params(positive=1, unlabeled=_UNLABELLED)
        if self.estimator.callback is not None:
            classifier.set_params(callback=part)
        classifier.within(part.of(self.estimator.planned_seconds))
        if unmeasured.any() or groups is not None:
            return classifier.fit(rows, problem, weight, unmeasured, groups)
        return classifier.fit(rows, problem) if weight is None else classifier.fit(rows, problem, sample_weight=weight)

    def _decide(
        self,
        X: Matrix,
        codes: IndexArray,
        left_out: LeftOutProblemScores | None,
        objective: ClassObjective | None,
        cases: Cases,
    ) -> None:
        """Choose the rule, and say what it reaches."""
        known = codes[codes >= 0]
        plain = ClassesDecision(self._scheme, self._counts, None, None)
        labels = self.classes_.tolist()
        crossed: Cross | None = None
        if left_out is not None:
            crossed = cross_decided(left_out, known, plain, objective, labels, cases.groups)
        self.decision_ = plain if crossed is None else crossed.decision
        seed = self.estimator.random_state
        self._left_out = None if crossed is None else crossed.kept(seed if isinstance(seed, int) else 0)
        if crossed is None and objective is not None:
            raise ValueError("the training was stopped before rows were left out: no class can be chosen by them")
        controls = {}
        if crossed is not None and self.controls:
            labelled = codes >= 0
            controls = linear_control(X[labelled], known, labels, self._scheme, crossed, cases)
        self.report_: ClassesReport = class_report(
            declaration=getattr(self.estimator, "declaration", None), decision=self.decision_, objective=objective,
            labels=labels, unlabelled=int(np.count_nonzero(codes < 0)), crossed=crossed, controls=controls,
            ended=self._ended,
        )  # fmt: skip

    def predict(self, X: Any) -> NDArray[Any]:
        """The class that the objective's rule says of each row, None for a row that it leaves undecided.

        Without an objective that of the highest score or the most votes; among equals the one with more labelled rows,
        then the first.
        """
        said = self._of_scores(X, self.decision_.says)
        return self.decision_.labels(said, self.classes_)

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, of shape (n, classes).

        A sigmoid for each problem, fitted to scores of left-out rows; those against the rest are divided by their sum,
        those of pairs are coupled by the second method of Wu, Lin and Weng.
        """
        check_is_fitted(self)
        if len(self.classes_) == 2 and self.objective is None:
            of_two: FloatArray = self.estimators_[0].predict_proba(X)
            return of_two
        calibration: Calibration | None = self.decision_.calibration
        if calibration is None:
            raise ValueError("this model gives no probabilities")
        return self._of_scores(X, calibration)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of shape (n, classes); with two classes of shape (n,), positive for the second one.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
        """
        if len(self.classes_) == 2:
            return self._of_scores(X, lambda scores: scores[:, 0])
        return self._of_scores(X, self.decision_.of_classes)

    def _of_scores(self, X: Any, of_scores: Callable[[FloatArray], NDArray[Any]]) -> NDArray[Any]:
        """What a function makes of the scores of the problems, (n, problems)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if len(self.classes_) > 2:
            return self.scores_.mapped(X, of_scores)
        (classifier,) = self.estimators_  # to the bit what the one classifier gives
        return of_scores((classifier.decision_function(X) - self._subtracted(classifier))[:, None])

    def _subtracted(self, classifier: Any) -> float:
        """What of a classifier's score makes 0 its border: nothing against the rest, where scores are compared."""
        return 0.0 if self._scheme == "one_vs_rest" and len(self.classes_) > 2 else float(classifier.threshold_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class OneVsRest(_SemiSupervisedMultiClass):
    """A classifier for each class against all others, of any number of classes, labelled and unlabelled rows.

    scikit-learn's `OneVsRestClassifier` does the same for labelled rows alone; it would take the mark of an unlabelled
    row for a class.

    Parameters
    ----------
    estimator : classifier of this package
        Its `positive` and `unlabeled` are set for it. The problems of a plain `SVM` are trained together, on the same
        kernel rows.
    unlabeled : label, optional
        The value that marks an unlabelled row, beside None and NaN; None stands for scikit-learn's -1.
    objective : str, dict or ClassObjective, optional
        `macro_f1`, `accuracy`, or `cost` with `costs`, and `floors` of precision or recall by class, see
        `solver.multiclass.ClassObjective`. By default the class of the highest score is said.
    controls : bool, default False
        Whether a linear SVM is measured on the same rows, beside the larger class.

    Attributes
    ----------
    classes_ : array
    estimators_ : list
        By class; with two classes the second one's only. Empty where the problems were trained together.
    scores_ : ProblemScores
        The scores of the problems, as plain arrays.
    decision_ : ClassesDecision
        How scores become probabilities and a class.
    report_ : ClassesReport
        Confusion matrix and figures with intervals, of rows that no model, probability or rule has seen.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    _scheme = "one_vs_rest"


class OneVsOne(_SemiSupervisedMultiClass):
    """A classifier for each pair of classes, which vote; unlabelled rows have a part in each.

    Parameters
    ----------
    estimator, unlabeled, objective, controls
        As in `OneVsRest`.

    Attributes
    ----------
    classes_ : array
    estimators_ : list
        By pair: (0, 1), (0, 2), …, (1, 2), …; empty where the problems were trained together.
    scores_, decision_, report_, n_features_in_, feature_names_in_
        As in `OneVsRest`.

    Notes
    -----
    Classes with as many votes are told apart by the scores that they have against each other, each no more than 1 and
    no less than -1, then by their labelled rows. The sum over all classes, as scikit-learn's `OneVsOneClassifier` takes
    it, was measured to be worse.
    """

    _scheme = "one_vs_one"
