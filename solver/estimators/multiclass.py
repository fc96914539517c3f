"""More than two classes: one classifier against the rest or for each pair, with the unlabelled rows in every one."""

from __future__ import annotations

from abc import abstractmethod
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from solver.estimators._labels import encode_classes
from solver.typing import FloatArray, IndexArray, Matrix

_FEWEST_OF_A_CLASS: Final = 2
_UNLABELLED: Final = -1


class _SemiSupervisedMultiClass(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Fits classifiers of two classes, each on some of the labelled rows and on all unlabelled ones."""

    def __init__(self, estimator: Any, *, unlabeled: Any = None) -> None:
        self.estimator = estimator
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Train a classifier for every two-class problem.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
            Labelled and unlabelled rows, finite numbers.
        y : array of shape (n,)
            Labels; a row is unlabelled when its label is None or NaN, or equals `unlabeled` (by default -1).
        sample_weight : float array of shape (n,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are fewer than two classes, or fewer than two labelled rows of one.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        codes, self.classes_ = encode_classes(y, unlabeled=self.unlabeled)
        if len(codes) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(codes)}")
        self._counts = np.bincount(codes[codes >= 0], minlength=len(self.classes_))
        if len(self.classes_) < 2:
            raise ValueError(f"the labelled rows hold only one class ({self.classes_.tolist()[0]!r}); need two or more")
        if self._counts.min() < _FEWEST_OF_A_CLASS:
            fewest = int(np.argmin(self._counts))
            raise ValueError(
                f"need at least {_FEWEST_OF_A_CLASS} labelled rows of each class, got {self._counts[fewest]} of "
                f"{self.classes_.tolist()[fewest]!r}"
            )
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.estimators_ = [self._fit_one(X, problem, weight) for problem in self._problems(codes)]
        return self

    def _fit_one(self, X: Matrix, problem: NDArray[np.int8], weight: FloatArray | None) -> Any:
        """Fit a classifier on the rows that are 1, 0 or unlabelled; any other number leaves a row out."""
        takes_part = problem >= _UNLABELLED
        classifier = clone(self.estimator).set_params(positive=1, unlabeled=_UNLABELLED)
        if weight is None:
            return classifier.fit(X[takes_part], problem[takes_part])
        return classifier.fit(X[takes_part], problem[takes_part], sample_weight=weight[takes_part])

    @abstractmethod
    def _problems(self, codes: IndexArray) -> list[NDArray[np.int8]]:
        """The two-class problems: 1, 0, -1 for an unlabelled row, less for one that takes no part."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score, among equals the one with more labelled rows, then the first."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            labels: NDArray[Any] = self.classes_[(scores > 0).astype(np.intp)]
            return labels
        by_size = np.argsort(-self._counts, kind="stable")
        chosen: NDArray[Any] = self.classes_[by_size[np.argmax(scores[:, by_size], axis=1)]]
        return chosen

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of shape (n, classes); with two classes of shape (n,), positive for the second one.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, d)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if len(self.classes_) == 2:
            (classifier,) = self.estimators_
            scores: FloatArray = classifier.decision_function(X) - classifier.threshold_
            return scores
        return self._scores(X)

    @abstractmethod
    def _scores(self, X: Matrix) -> FloatArray:
        """Scores of at least three classes, by row."""

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
        Its `positive` and `unlabeled` are set for it.
    unlabeled : label, optional
        The value that marks an unlabelled row, beside None and NaN; None stands for scikit-learn's -1.

    Attributes
    ----------
    classes_ : array
    estimators_ : list
        By class; with two classes the second one's only.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    def _problems(self, codes: IndexArray) -> list[NDArray[np.int8]]:
        sought = range(len(self.classes_)) if len(self.classes_) > 2 else (1,)
        return [np.where(codes < 0, _UNLABELLED, codes == k).astype(np.int8) for k in sought]

    def _scores(self, X: Matrix) -> FloatArray:
        return np.column_stack([classifier.decision_function(X) for classifier in self.estimators_])


class OneVsOne(_SemiSupervisedMultiClass):
    """A classifier for each pair of classes, which vote; unlabelled rows have a part in each.

    Parameters
    ----------
    estimator : classifier of this package
        Its `positive` and `unlabeled` are set for it.
    unlabeled : label, optional
        The value that marks an unlabelled row, beside None and NaN; None stands for scikit-learn's -1.

    Attributes
    ----------
    classes_ : array
    estimators_ : list
        By pair: (0, 1), (0, 2), …, (1, 2), …
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Classes with as many votes are told apart by the scores that they have against each other, each no more than 1 and
    no less than -1, then by their labelled rows. The sum over all classes, as scikit-learn's `OneVsOneClassifier` takes
    it, was measured to be worse.
    """

    def _problems(self, codes: IndexArray) -> list[NDArray[np.int8]]:
        no_part = _UNLABELLED - 1
        return [
            np.select([codes < 0, codes == i, codes == j], [_UNLABELLED, 0, 1], no_part).astype(np.int8)
            for i, j in combinations(range(len(self.classes_)), 2)
        ]

    def _scores(self, X: Matrix) -> FloatArray:
        classes = len(self.classes_)
        pairs = list(combinations(range(classes), 2))
        scores = [classifier.decision_function(X) - classifier.threshold_ for classifier in self.estimators_]
        votes = np.zeros((X.shape[0], classes))
        for (i, j), score in zip(pairs, scores, strict=True):
            votes[:, i] += score <= 0
            votes[:, j] += score > 0
        among_equals = np.zeros_like(votes)
        for (i, j), score in zip(pairs, scores, strict=True):
            counted = np.where(votes[:, i] == votes[:, j], np.clip(score, -1, 1), 0.0)
            among_equals[:, i] -= counted
            among_equals[:, j] += counted
        # less than half a vote, in the same order
        return np.asarray(votes + among_equals / (3 * (1 + np.abs(among_equals))))
