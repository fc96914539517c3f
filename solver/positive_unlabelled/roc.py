"""Roc-SVM: reliable negatives by Rocchio's rule and k-means, more of them by one SVM after another.

Li and Liu, "Learning to classify texts using positive and unlabeled data", IJCAI 2003.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from solver.choices import ClusterScope
from solver.planes import indicator, products, row_lengths, weighted_sums
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_ALPHA: Final = 16.0
_BETA: Final = 4.0
_LEAST_RECALL: Final = 0.95
_MOST_ROUNDS: Final = 50
# more move hardly a row, and nothing could stop them
_LLOYD_ROUNDS: Final = 100

Trained = TypeVar("Trained")


def reliable_negatives(
    X: Matrix,
    positive: IndexArray,
    unlabelled: IndexArray,
    *,
    clusters: int = 10,
    scope: ClusterScope = "reliable",
    seed: int = 0,
) -> BoolArray:
    """Unlabelled rows that are surely negative, by the angles between rows; at least one.

    Parameters
    ----------
    X : dense or CSR matrix
        Weights of terms as of tf-idf. Of 0/1 rows hardly any is found.
    positive, unlabelled : int arrays
        Rows, at least one of each.
    clusters : int, default 10
        Of what Rocchio's rule finds, each of which is told from the positive rows by itself; 1: none are formed.
    scope : {"reliable", "unlabelled"}
        Rows that the clusters' rule may take: those that Rocchio's rule has found, or any.
    seed : int
        Of the clusters' start.

    Returns
    -------
    bool array
        In the order of the unlabelled rows.
    """
    weights = 1 / row_lengths(X)
    of_positive = weighted_sums(X, weights * indicator(len(weights), positive)) / len(positive)
    p, n = _prototypes(of_positive, X, weights, unlabelled)
    margin = weights[unlabelled] * (products(X, p, unlabelled) - products(X, n, unlabelled))
    found = margin <= 0
    if not found.any():
        found = margin == margin.min()
    candidates = unlabelled[found]
    if clusters < 2 or len(candidates) < 2:
        return found
    labels = _clusters(normalize(X[candidates], copy=False), min(clusters, len(candidates)), seed)
    asked = candidates if scope == "reliable" else unlabelled
    nearest_positive, nearest_negative = np.full(len(asked), -np.inf), np.full(len(asked), -np.inf)
    for label in np.unique(labels):
        p, n = _prototypes(of_positive, X, weights, candidates[labels == label])
        nearest_positive = np.maximum(nearest_positive, products(X, p, asked))
        nearest_negative = np.maximum(nearest_negative, products(X, n, asked))
    chosen = np.isin(unlabelled, asked[nearest_negative >= nearest_positive], assume_unique=True)
    return chosen if np.count_nonzero(chosen) >= 2 else found


@dataclass(frozen=True)
class Grown(Generic[Trained]):
    """What the trainings ended with.

    Attributes
    ----------
    model
        The last one, or the first one if the last finds less than 95 % of the positive rows.
    negative : bool array
        Unlabelled rows that the last one was trained with as negatives.
    rounds : int
        Trainings.
    kept : {"first", "last"}
    """

    model: Trained
    negative: BoolArray
    rounds: int
    kept: Literal["first", "last"]


def grow_negatives(
    negative: BoolArray,
    train: Callable[[BoolArray, Trained | None], tuple[Trained, FloatArray, FloatArray]],
    is_over: Callable[[], bool] = lambda: False,
) -> Grown[Trained]:
    """Train on the positive rows and the negatives; add what is called negative of the others; go on until none is.

    Parameters
    ----------
    negative : bool array
        Reliable negatives among the unlabelled rows.
    train : callable
        Gets the negatives and the model before, if there is one; returns a model and its scores of the positive and of
        the unlabelled rows.
    is_over : callable
        Asked after each training whether to end.
    """
    negative = negative.copy()
    first, of_positive, of_unlabelled = train(negative, None)
    model, rounds = first, 1
    while rounds < _MOST_ROUNDS and not is_over():
        more = ~negative & (of_unlabelled < 0)
        if not more.any():
            break
        negative |= more
        model, of_positive, of_unlabelled = train(negative, model)
        rounds += 1
    if np.mean(of_positive > 0) >= _LEAST_RECALL:
        return Grown(model, negative, rounds, "last")
    return Grown(first, negative, rounds, "first")


def _prototypes(
    of_positive: FloatArray, X: Matrix, weights: FloatArray, others: IndexArray
) -> tuple[FloatArray, FloatArray]:
    """Rocchio's prototypes of the positive rows and of the others, of length 1."""
    of_others = weighted_sums(X, weights * indicator(len(weights), others)) / len(others)
    return _unit(_ALPHA * of_positive - _BETA * of_others), _unit(_ALPHA * of_others - _BETA * of_positive)


def _unit(vector: FloatArray) -> FloatArray:
    length = float(np.sqrt(np.sum(vector**2)))
    return vector / length if length > 0 else vector


def _clusters(rows: Matrix, count: int, seed: int) -> IndexArray:
    """Cluster of each row; fewer clusters where fewer rows differ."""
    columns = rows
    if sparse.issparse(rows):  # anew, so that the indices are of 32 bits where they can be: KMeans takes no others
        columns = sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    means = KMeans(count, init="random", n_init=1, max_iter=_LLOYD_ROUNDS, copy_x=False, random_state=seed)
    with threadpool_limits(limits=1), warnings.catch_warnings():  # several threads add up in an order of their own
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer rows differ
        labels: IndexArray = means.fit_predict(columns).astype(np.intp)
    return labels
