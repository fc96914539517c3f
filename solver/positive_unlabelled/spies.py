"""Positive rows that are hidden among the unlabelled ones, to see where a scorer puts them.

Rows that are the same, or belong together, are hidden together: one whose copies are known to be positive tells of
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from solver.evaluation.splits import is_grouped
from solver.labelled_rows import fingerprints
from solver.row_groups import joined_groups
from solver.typing import FloatArray, IndexArray, Matrix

Cut = Literal["lee-liu", "prior"]
_FOLDS: Final = 5
# with fewer of the spies above it, a cut rests on too few
_LEAST_RECALL: Final = 0.3


@dataclass(frozen=True)
class SpyRanks:
    """Where the spies came among the unlabelled rows.

    Attributes
    ----------
    above : float64 array
        For each spy, the share of the unlabelled rows that score at least as high.
    auc : float
        Mean share of the unlabelled rows that a spy scores higher than, equal ones for a half.
    """

    above: FloatArray
    auc: float


def spy_ranks(
    score: Callable[[IndexArray], FloatArray],
    positive: IndexArray,
    unlabelled: IndexArray,
    seed: int,
    groups: IndexArray | None = None,
) -> SpyRanks:
    """Score each positive row by a model of the others, in up to five folds, and find its rank.

    Ranks of different folds may be pooled, scores may not.

    Parameters
    ----------
    score : callable
        Gets positive rows to learn from; returns scores of all rows.
    positive, unlabelled : int arrays
        At least two and one.
    seed : int
        Of the folds.
    groups : int array, optional
        Of the positive rows in ascending order, see `groups_of_positives`.
    """
    above, auc = [], []
    for spies in _folds(np.sort(positive), groups, np.random.default_rng(seed)):
        scores = score(np.setdiff1d(positive, spies))
        theirs, u = np.sort(scores[unlabelled]), len(unlabelled)
        below, not_above = (np.searchsorted(theirs, scores[spies], side) for side in ("left", "right"))
        above.append((u - below) / u)
        auc.append((below + not_above) / (2 * u))
    return SpyRanks(np.concatenate(above), float(np.mean(np.concatenate(auc))))


def groups_of_positives(X: Matrix, positive: IndexArray, groups: IndexArray | None = None) -> IndexArray | None:
    """Which positive rows, in ascending order, are hidden together; None where that is each by itself.

    Parameters
    ----------
    X : dense or CSR matrix
    positive : int array
        Rows of it.
    groups : int array, optional
        Number of the group that each row of X belongs to.
    """
    rows = np.sort(positive)
    _, same = np.unique(fingerprints(X, rows), return_inverse=True)
    together = same if groups is None else joined_groups(same, groups[rows])
    return together if is_grouped(together) and together.max() > 0 else None


def _folds(positive: IndexArray, groups: IndexArray | None, rng: np.random.Generator) -> list[IndexArray]:
    """Positive rows in ascending order, in up to five folds of whole groups."""
    if groups is None:
        return np.array_split(rng.permutation(positive), min(_FOLDS, len(positive)))
    drawn = rng.permutation(groups.max() + 1)
    return [positive[np.isin(groups, part)] for part in np.array_split(drawn, min(_FOLDS, len(drawn)))]


def retained_share(above: FloatArray, n_unlabelled: int, cut: Cut = "lee-liu") -> float:
    """Which share of the unlabelled rows to take for positive.

    Parameters
    ----------
    above : float64 array
        See `SpyRanks`.
    n_unlabelled : int
    cut : {"lee-liu", "prior"}
        `lee-liu`: where recall² over the share is largest, which is proportional to precision · recall. `prior`: the
        share of positives among the unlabelled rows, estimated by the cut that bounds it most, a standard error of the
        recall allowed for.

    Notes
    -----
    The estimate of the prior is .4 off from 10 positive rows, and .1 or less from 30 on (measured on three collections
    of texts).

    References
    ----------
    Lee and Liu, "Learning with positive and unlabeled examples using weighted logistic regression", ICML 2003.
    """
    n = np.sort(above)
    recall = np.arange(1, len(n) + 1) / len(n)
    n, recall = n[recall >= _LEAST_RECALL], recall[recall >= _LEAST_RECALL]
    n = np.maximum(n, 1 / n_unlabelled)
    if cut == "lee-liu":
        return float(n[np.argmax(recall**2 / n)])
    lower = recall - np.sqrt(recall * (1 - recall) / len(above))
    return float(min(1.0, np.min(n[lower > 0] / lower[lower > 0])))
