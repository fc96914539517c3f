"""k-means on labelled and unlabelled rows: clusterings that do not look at labels, and what labels make of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import f_classif
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.sparsefuncs import inplace_csr_column_scale, mean_variance_axis
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from solver.kernels.parallel import single_threaded_blas
from solver.method_limits import CLUSTERED_ROWS, PROJECTED_ROWS
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_CANDIDATE_COMPONENTS: Final = 10
_SHARE_OF_F: Final = 0.8
_STARTS: Final = 3
_STEPS_AT_A_TIME: Final = 5
_MOST_STEPS: Final = 100
_BLOCK_ROWS: Final = 2_000


@dataclass(frozen=True)
class Clustering:
    """One run of k-means.

    Attributes
    ----------
    number : int array
        Cluster of each row.
    distances : float64 array of shape (k, k)
        Between the centres.
    """

    number: IndexArray
    distances: FloatArray

    def labels(
        self, labelled: IndexArray, positive: BoolArray, seed: np.random.Generator
    ) -> tuple[BoolArray, BoolArray]:
        """Whether each row's cluster is positive, and whether a labelled row says so.

        A cluster takes the majority of its labelled rows, of a tie a random one, and without any the label of the
        nearest centre that has some.

        Parameters
        ----------
        labelled : int array
            Places of the labelled rows among all.
        positive : bool array
            Their labels.
        seed : numpy Generator
        """
        counts = self._counts(labelled, positive)
        has_some = counts.sum(axis=1) > 0
        of_cluster = counts[:, 1] > counts[:, 0]
        tied = has_some & (counts[:, 1] == counts[:, 0])
        of_cluster[tied] = seed.random(np.count_nonzero(tied)) < 0.5
        of_cluster = of_cluster[self._nearest(has_some)]
        return of_cluster[self.number], has_some[self.number]

    def leave_one_out(self, labelled: IndexArray, positive: BoolArray) -> float:
        """Share of labelled rows that the others of their cluster tell right.

        A row that is alone is told by the nearest other cluster that has some; ties count half. As k-means does not
        look at labels, this is as good as a set of rows held out.
        """
        counts = self._counts(labelled, positive)
        own = self.number[labelled]
        others = counts[own]
        others[np.arange(len(own)), positive.astype(np.intp)] -= 1
        alone = np.flatnonzero(others.sum(axis=1) == 0)
        if len(alone):
            distances = np.where(counts.sum(axis=1) > 0, self.distances, np.inf)
            np.fill_diagonal(distances, np.inf)
            nearest = distances.argmin(axis=1)
            others[alone] = np.where(
                np.isfinite(distances.min(axis=1))[own[alone], None], counts[nearest[own[alone]]], [[-1, -1]]
            )
        right = np.where(positive, others[:, 1] - others[:, 0], others[:, 0] - others[:, 1])
        known = others[:, 0] >= 0
        return float(np.mean(np.where(known, 0.5 * (np.sign(right) + 1), 0.0)))

    def _counts(self, labelled: IndexArray, positive: BoolArray) -> IndexArray:
        """Labelled rows of each cluster: negative, positive."""
        k = len(self.distances)
        return np.column_stack(
            [np.bincount(self.number[labelled[positive == sign]], minlength=k) for sign in (False, True)]
        )

    def _nearest(self, among: BoolArray) -> IndexArray:
        """For each cluster the one of some that is nearest: itself if it is one of them."""
        distances = np.where(among, self.distances, np.inf)
        own = np.flatnonzero(among)
        distances[own, own] = -1.0
        nearest: IndexArray = distances.argmin(axis=1)
        return nearest


def cluster(Z: Matrix, k: int, seed: np.random.Generator, is_over: Callable[[], bool]) -> Clustering | None:
    """The best of three runs of k-means; None if time was over before the first one had ended.

    Centres are those of at most `CLUSTERED_ROWS` rows, drawn at random.

    Parameters
    ----------
    Z : dense or CSR matrix
    k : int
        At most as many as rows.
    seed : numpy Generator
    is_over : callable
        Asked every few steps.
    """
    sample = Z
    if Z.shape[0] > CLUSTERED_ROWS:
        sample = Z[np.sort(seed.permutation(Z.shape[0])[:CLUSTERED_ROWS])]
    best: KMeans | None = None
    with _one_thread(), warnings.catch_warnings():
        # of equal rows, which make fewer clusters than were asked for
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(_STARTS):
            if best is not None and is_over():
                break
            found = _converged(sample, k, int(seed.integers(2**31)), is_over)
            if found is None:
                break
            if best is None or found.inertia_ < best.inertia_:
                best = found
        if best is None:
            return None
        return Clustering(best.predict(Z).astype(np.intp), euclidean_distances(best.cluster_centers_))


def _converged(Z: Matrix, k: int, seed: int, is_over: Callable[[], bool]) -> KMeans | None:
    """One run of k-means from random centres; a few steps at a time, so that it can be ended."""
    means = KMeans(k, init="k-means++", n_init=1, max_iter=_STEPS_AT_A_TIME, random_state=seed).fit(Z)
    for _ in range(_MOST_STEPS // _STEPS_AT_A_TIME - 1):
        if means.n_iter_ < _STEPS_AT_A_TIME:
            break
        if is_over():
            return None
        means = KMeans(k, init=means.cluster_centers_, n_init=1, max_iter=_STEPS_AT_A_TIME, random_state=seed).fit(Z)
    return means


@contextmanager
def _one_thread() -> Iterator[None]:
    """With several, scikit-learn's k-means adds up its sums in the order in which they end."""
    with single_threaded_blas(), threadpool_limits(limits=1, user_api="openmp"):
        yield


def clusterable(X: Matrix, *, standardise: bool) -> Matrix:
    """The rows as k-means takes them, with columns of variance 1 if that is asked for (constant ones as they are).

    Sparse rows stay sparse: no mean is taken off, which would not change distances.
    """
    if sparse.issparse(X):
        rows = sparse.csr_matrix(X, dtype=np.float64, copy=standardise)
        if rows.nnz < 2**31:
            rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        if standardise:
            means, variance = mean_variance_axis(rows, axis=0)
            inplace_csr_column_scale(rows, _reciprocal_root(variance, means))
        return rows
    dense = np.asarray(X, dtype=np.float64)
    return dense * _reciprocal_root(np.var(dense, axis=0), dense.mean(axis=0)) if standardise else dense


def _reciprocal_root(variance: FloatArray, means: FloatArray) -> FloatArray:
    # what rounding leaves of a constant is no variance
    varies = variance > np.square(1e-12 * means)
    return np.where(varies, 1 / np.sqrt(np.where(varies, variance, 1.0)), 1.0)


def principal_components(X: Matrix, labelled: IndexArray, seed: np.random.Generator) -> FloatArray:
    """Scores of all rows on the ten leading kernel principal components.

    The kernel is RBF, its width the median of the distances between labelled rows. The components are those of at most
    `PROJECTED_ROWS` rows, drawn at random.

    Parameters
    ----------
    X : dense or CSR matrix
    labelled : int array
        Places of the labelled rows, whose labels have no say.
    seed : numpy Generator
    """
    n = X.shape[0]
    some = labelled if len(labelled) <= PROJECTED_ROWS else np.sort(seed.permutation(labelled)[:PROJECTED_ROWS])
    landmarks = np.arange(n) if n <= PROJECTED_ROWS else np.sort(seed.permutation(n)[:PROJECTED_ROWS])
    with _one_thread():
        width = _median_distance(X[some])
        pca = KernelPCA(
            min(_CANDIDATE_COMPONENTS, len(landmarks)),
            kernel="rbf",
            gamma=1 / (2 * width**2),
            eigen_solver="dense",
            remove_zero_eig=True,
        ).fit(X[landmarks])
        return np.vstack([pca.transform(X[start : start + _BLOCK_ROWS]) for start in range(0, n, _BLOCK_ROWS)])


def _median_distance(X: Matrix) -> float:
    """Of the pairs of rows; of equal rows the mean of the others, or 1."""
    if sparse.issparse(X):
        all_pairs = euclidean_distances(X)
        distances = all_pairs[np.triu_indices(len(all_pairs), 1)]
    else:
        distances = pdist(np.asarray(X, dtype=np.float64))
    median = float(np.median(distances))
    if median > 0:
        return median
    apart = distances[distances > 0]
    return float(apart.mean()) if len(apart) else 1.0


def telling_components(scores: FloatArray, positive: BoolArray) -> tuple[int, ...]:
    """The components that tell the classes apart best: the fewest with 80 % of the sum of all F statistics.

    Parameters
    ----------
    scores : float64 array of shape (labelled rows, components)
    positive : bool array
        Their labels, of both classes.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of components on which all rows are alike
        statistics, _ = f_classif(scores, positive)
    statistics = np.nan_to_num(statistics, nan=0.0, posinf=1e12)
    order = np.argsort(-statistics, kind="stable")
    total = float(statistics.sum())
    if not math.isfinite(total) or total <= 0:
        return tuple(range(min(2, len(order))))
    enough = int(np.searchsorted(np.cumsum(statistics[order]), _SHARE_OF_F * total)) + 1
    return tuple(sorted(order[:enough].tolist()))
