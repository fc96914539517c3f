"""Stratified splits of labelled rows, the same for the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from solver.typing import IndexArray


def stratified_halves(y: ArrayLike, seed: int | np.random.Generator = 0) -> tuple[IndexArray, IndexArray]:
    """Two halves of the rows with the same share of each class.

    Each class is shuffled and dealt alternately; the class that comes second starts where the first one stopped, so the
    halves' sizes differ by at most one.

    Parameters
    ----------
    y : array of shape (n,)
        Positive where > 0.
    seed : int or numpy Generator, default 0

    Returns
    -------
    (first, second) : sorted index arrays that share no row and cover all rows
    """
    truth = np.asarray(y) > 0
    rng = np.random.default_rng(seed)
    dealt = np.concatenate([rng.permutation(np.flatnonzero(truth)), rng.permutation(np.flatnonzero(~truth))])
    return np.sort(dealt[::2]), np.sort(dealt[1::2])


def stratified_folds(y: ArrayLike, folds: int, seed: int | np.random.Generator = 0) -> IndexArray:
    """Fold number of every row, with the rows of each class dealt evenly over the folds.

    Parameters
    ----------
    y : array of shape (n,)
        Positive where > 0.
    folds : int
        At least 2, at most the number of rows of the smaller class (so that every fold holds both classes).
    seed : int or numpy Generator, default 0

    Returns
    -------
    int array of shape (n,), values in [0, folds)
    """
    truth = np.asarray(y) > 0
    smaller = int(min(np.count_nonzero(truth), np.count_nonzero(~truth)))
    if not 2 <= folds <= smaller:
        raise ValueError(f"folds must lie between 2 and the size of the smaller class ({smaller}), got {folds}")
    rng = np.random.default_rng(seed)
    fold = np.empty(len(truth), dtype=np.intp)
    for members in (np.flatnonzero(truth), np.flatnonzero(~truth)):
        # positives are dealt from fold 0 up, negatives from the last fold down: the fold sizes stay within one
        dealt = np.arange(len(members)) % folds
        fold[rng.permutation(members)] = dealt if truth[members[0]] else folds - 1 - dealt
    return fold
