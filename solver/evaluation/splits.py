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


def grouped_folds(codes: ArrayLike, groups: IndexArray, folds: int, seed: int | np.random.Generator = 0) -> IndexArray:
    """Fold number of every row, with all rows of a group in one fold and the rows of each class dealt evenly.

    Groups of several classes are dealt first, then the largest ones, each to the fold that lacks most of its classes,
    among those to the one that has fewest rows of its rarest class; rows that are a group of their own fill up what is
    left. So two folds hold rows of two classes each wherever that can be.

    Parameters
    ----------
    codes : int array of shape (n,)
        Classes of the rows.
    groups : int array of shape (n,)
    folds : int
        At least 2.
    seed : int or numpy Generator, default 0

    Returns
    -------
    int array of shape (n,), values in [0, folds)
        A fold may lack a class, or be empty, where there are too few groups, see `holds_all_classes`.
    """
    _, codes = np.unique(np.asarray(codes), return_inverse=True)
    _, groups = np.unique(groups, return_inverse=True)
    rng = np.random.default_rng(seed)
    totals = np.bincount(codes)
    sizes = np.bincount(groups)
    table = np.zeros((folds, len(totals)), dtype=np.intp)
    fold = np.full(len(codes), -1, dtype=np.intp)
    several = np.flatnonzero(sizes > 1)
    mixture = np.bincount(np.unique(groups * len(totals) + codes) // len(totals), minlength=len(sizes))
    order = several[np.lexsort((rng.random(len(several)), -sizes[several], -mixture[several]))]
    by_group = np.argsort(groups, kind="stable")
    ends = np.cumsum(sizes)
    for group in order.tolist():
        rows = by_group[ends[group] - sizes[group] : ends[group]]
        counts = np.bincount(codes[rows], minlength=len(totals))
        present = np.flatnonzero(counts)
        lacking = np.count_nonzero(table[:, present] == 0, axis=1)
        rarest = present[np.argmin(totals[present])]
        chosen = np.lexsort((table.sum(axis=1), table[:, rarest], -lacking))[0]
        fold[rows] = chosen
        table[chosen] += counts
    for code in range(len(totals)):
        rows = rng.permutation(np.flatnonzero((codes == code) & (fold < 0)))
        fold[rows] = _filled_up(table[:, code], len(rows), backwards=bool(code % 2))
    return fold


def holds_all_classes(fold: IndexArray, codes: ArrayLike, folds: int) -> bool:
    """Whether each of so many folds has rows of each class."""
    present, codes = np.unique(np.asarray(codes), return_inverse=True)
    return len(np.unique(fold * len(present) + codes)) == folds * len(present)


def most_grouped_folds(
    codes: ArrayLike, groups: IndexArray, most: int, seed: int | np.random.Generator = 0
) -> IndexArray | None:
    """As `grouped_folds`, in as many folds as hold rows of all classes, at least 2; None where not even those do."""
    for folds in range(most, 1, -1):
        fold = grouped_folds(codes, groups, folds, seed)
        if holds_all_classes(fold, codes, folds):
            return fold
    return None


def is_grouped(groups: IndexArray | None) -> bool:
    """Whether any group has several rows."""
    return groups is not None and len(groups) > 0 and len(np.unique(groups)) < len(groups)


def _filled_up(there: IndexArray, more: int, *, backwards: bool) -> IndexArray:
    """Folds of so many further rows, by which all have as nearly the same number as can be."""
    order = np.arange(len(there))
    levels = (there[:, None] + np.arange(more)).ravel()
    ties = np.repeat(order[::-1] if backwards else order, more)
    return np.lexsort((ties, levels))[:more] // max(more, 1)
