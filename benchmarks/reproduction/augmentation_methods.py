"""What the dissertation on data augmentation compares: who claims which unlabelled rows, and SVMs trained on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from solver.estimators import SVM, AugmentedClassifier
from solver.estimators._semi_supervised import top_rows
from solver.positive_unlabelled.bayesian_sets import Items, rank_by_set
from solver.positive_unlabelled.roc import grow_negatives, reliable_negatives
from solver.positive_unlabelled.spy_em import spy_em
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

PAPERS_C: Final = 2.0
"""Strength of the prior of Bayesian Sets."""
PAPERS_NOISE: Final[dict[str, Any]] = {"noise": 0.2, "noise_of": "unlabelled"}
"""Of Spy-EM: gives what table 4.2 prints."""
_PLAIN: Final[dict[str, Any]] = {
    "kernel": "linear",
    "C": 1.0,
    "threshold_rule": "zero",
    "labeled_split": "full",
    "random_state": 0,
    "unlabeled": 0,
}
_ITERATIVE_ROWS: Final = 30
_MOST_ITERATIONS: Final = 50
_SMALLEST_VARIANCE: Final = 1e-12


@dataclass(frozen=True)
class Rows:
    """The same rows in the forms that the methods take.

    Attributes
    ----------
    marks : CSR matrix of 0 and 1
        For Bayesian Sets, Spy-EM and the autoscaled SVM.
    weights : dense or CSR matrix
        For Roc-SVM: TF-IDF, of length 1.
    unit : CSR matrix
        The marks, each row of length 1: for a linear SVM that is right for texts.
    y : int array
        Classes.
    train, test : int arrays
    """

    marks: Any
    weights: Matrix
    unit: Matrix
    y: IndexArray
    train: IndexArray
    test: IndexArray

    @classmethod
    def of_counts(cls, X: Any, y: IndexArray, train: IndexArray, test: IndexArray) -> Rows:
        """Of counts of terms, or of marks."""
        counts = sparse.csr_matrix(X, dtype=np.float32)
        marks = counts.copy()
        marks.data = (marks.data > 0).astype(np.float32)
        weights = TfidfTransformer().fit(counts[train]).transform(counts)
        return cls(marks, weights, normalize(marks), y, train, test)


Claim = Callable[[Rows, IndexArray, IndexArray, int, int], BoolArray]
"""Gets rows, the labelled rows of a class, the unlabelled rows, how many of those to expect in it, and a seed; returns
which unlabelled rows it takes."""


def by_spy_em(rows: Rows, members: IndexArray, unlabelled: IndexArray, expected: int, seed: int) -> BoolArray:
    """Spy-EM with the settings that give table 4.2."""
    del expected
    return spy_em(rows.marks, members, unlabelled, seed=seed, **PAPERS_NOISE).claimed


def by_set(rows: Rows, members: IndexArray, unlabelled: IndexArray, expected: int, seed: int) -> BoolArray:
    """Bayesian Sets, cut at what is expected."""
    del seed
    ranked = rank_by_set(rows.marks, members, unlabelled, 0.0, c=PAPERS_C)
    return top_rows(ranked.scores, expected)


def by_iterated_set(rows: Rows, members: IndexArray, unlabelled: IndexArray, expected: int, seed: int) -> BoolArray:
    """Algorithm 3.2: the first 30 of the ranking, which holds the query itself, join the query until none is new."""
    del seed
    every = np.union1d(members, unlabelled)
    items, query = Items(rows.marks, every), np.sort(members)
    for _ in range(_MOST_ITERATIONS):
        scores = items.scores(items.plane(query, PAPERS_C))
        grown = np.union1d(query, every[top_rows(scores[every], _ITERATIVE_ROWS)])
        if len(grown) == len(query):
            break
        query = grown
    return top_rows(scores[unlabelled], expected)


def by_roc_svm(rows: Rows, members: IndexArray, unlabelled: IndexArray, expected: int, seed: int) -> BoolArray:
    """Roc-SVM on TF-IDF."""
    del expected
    return roc_svm(rows.weights, members, unlabelled, seed)


def roc_svm(X: Matrix, members: IndexArray, unlabelled: IndexArray, seed: int) -> BoolArray:
    """Unlabelled rows that Roc-SVM takes; the clusters' rule may take any row, as in the dissertation's program."""

    def train(negative: BoolArray, before: LinearSVC | None) -> tuple[LinearSVC, FloatArray, FloatArray]:
        del before
        chosen = np.concatenate([members, unlabelled[negative]])
        y = np.concatenate([np.ones(len(members)), -np.ones(np.count_nonzero(negative))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # theorems, of which no plane tells the classes
            model = LinearSVC(random_state=0).fit(X[chosen], y)
        return model, *(model.decision_function(X[part]) for part in (members, unlabelled))

    reliable = reliable_negatives(X, members, unlabelled, scope="unlabelled", seed=seed)
    grown = grow_negatives(reliable, train)
    claimed: BoolArray = grown.model.decision_function(X[unlabelled]) > 0
    return claimed


Classifier = Callable[[Rows, IndexArray, IndexArray], IndexArray]
"""Gets rows, those to train on and their classes; returns the classes of the test rows."""


def autoscaled(rows: Rows, chosen: IndexArray, y: IndexArray) -> IndexArray:
    """The dissertation's linear SVM: MATLAB's `svmtrain` moves every column to mean 0 and variance 1.

    C = 1, times half the rows over the rows of the class. What is taken off a column only changes the intercept, so
    that the rows stay sparse.
    """
    mean = np.asarray(rows.marks[chosen].mean(axis=0), dtype=np.float64).ravel()
    variance = (mean - np.square(mean)) * len(chosen) / (len(chosen) - 1)  # of marks
    scale = np.zeros(len(mean))
    np.divide(1.0, np.sqrt(np.maximum(variance, 0.0)), out=scale, where=variance > _SMALLEST_VARIANCE)
    scaled = rows.marks.multiply(scale.astype(np.float32)).tocsr()
    model = SVM(class_weight="balanced", **_PLAIN).fit(scaled[chosen], y)
    return np.asarray(model.predict(scaled[rows.test]))


def of_unit_length(rows: Rows, chosen: IndexArray, y: IndexArray) -> IndexArray:
    """This product's linear SVM, C = 1, on rows of length 1."""
    return np.asarray(SVM(**_PLAIN).fit(rows.unit[chosen], y).predict(rows.unit[rows.test]))


def product_default(rows: Rows, labelled: IndexArray, unlabelled: IndexArray) -> IndexArray:
    """This product's `augment` as it comes, with the same kernel and C; returns the classes of the test rows."""
    both = np.concatenate([labelled, unlabelled])
    y = np.concatenate([rows.y[labelled], np.zeros(len(unlabelled), dtype=np.intp)])
    return np.asarray(AugmentedClassifier(**_PLAIN).fit(rows.unit[both], y).predict(rows.unit[rows.test]))
