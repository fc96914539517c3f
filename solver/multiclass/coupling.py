"""Probabilities of several classes from those of two-class problems."""

from __future__ import annotations

from typing import Final

import numpy as np

from solver.typing import FloatArray

_LEAST: Final = 1e-7
"""A pair is never surer than this, so that the system below has one solution (LIBSVM's bound)."""
_BLOCK_ELEMENTS: Final = 1 << 19


def normalised(each: FloatArray) -> FloatArray:
    """Probabilities of each class against the rest, (n, classes), divided by their sum."""
    total = each.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(each, total, out=np.full(each.shape, 1.0 / each.shape[1]), where=total > 0))


def coupled(pairwise: FloatArray, classes: int) -> FloatArray:
    """Couple the probabilities of pairs, by the second method of Wu, Lin and Weng.

    Parameters
    ----------
    pairwise : float64 array of shape (n, pairs)
        For the pair (i, j): how probable class j is where it is one of the two; pairs as in `pairs_of`.
    classes : int

    Returns
    -------
    float64 array of shape (n, classes)
        Each row sums to 1.

    Notes
    -----
    The p that makes Σ_i Σ_{j≠i} (r_ji p_i - r_ij p_j)² least on the simplex solves a linear system; it is solved for
    many rows at once.

    References
    ----------
    Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", JMLR 5, 2004.
    """
    n = len(pairwise)
    coupled_ = np.empty((n, classes))
    step = max(1, _BLOCK_ELEMENTS // (classes + 1) ** 2)
    first, second = np.triu_indices(classes, 1)  # in the order of `pairs_of`
    right = np.zeros((classes + 1, 1))
    right[-1] = 1.0
    each = np.arange(classes)
    for start in range(0, n, step):
        of_second = np.clip(pairwise[start : start + step], _LEAST, 1 - _LEAST)
        # r_ji at (i, j): how probable j is where it is i or j
        of_other = np.zeros((len(of_second), classes, classes))
        of_other[:, first, second] = of_second
        of_other[:, second, first] = 1 - of_second
        system = np.zeros((len(of_second), classes + 1, classes + 1))
        system[:, :-1, :-1] = -of_other * of_other.transpose(0, 2, 1)
        system[:, each, each] = np.square(of_other).sum(axis=2)
        system[:, -1, :-1] = system[:, :-1, -1] = 1.0
        solved = np.linalg.solve(system, np.broadcast_to(right, (len(of_second), classes + 1, 1)))[:, :-1, 0]
        coupled_[start : start + step] = normalised(np.maximum(solved, 0.0))
    return coupled_
