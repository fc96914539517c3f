"""Several classes as problems of two: each class against the rest, or each against each, and what their scores say."""

from __future__ import annotations

from itertools import combinations
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from solver.typing import FloatArray, IndexArray

Scheme = Literal["one_vs_rest", "one_vs_one"]

_BLOCK_ELEMENTS: Final = 1 << 20

UNLABELLED: Final = -1
NO_PART: Final = -2
"""In a problem of two classes: a row without a label, and one that has no part in it."""


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """The pairs (0, 1), (0, 2), …, (1, 2), … of so many classes."""
    return list(combinations(range(classes), 2))


def two_class_problems(codes: IndexArray, classes: int, scheme: Scheme) -> list[NDArray[np.int8]]:
    """The problems of two classes: 1, 0, -1 for an unlabelled row, -2 for one that takes no part.

    Parameters
    ----------
    codes : int array of shape (n,)
        Class of each row, -1 for an unlabelled one.
    classes : int
        How many there are; two are one problem, with the second class as its positive one.
    scheme : {"one_vs_rest", "one_vs_one"}
    """
    if scheme == "one_vs_one":
        return [
            np.select([codes < 0, codes == i, codes == j], [UNLABELLED, 0, 1], NO_PART).astype(np.int8)
            for i, j in pairs_of(classes)
        ]
    sought = range(classes) if classes > 2 else (1,)
    return [np.where(codes < 0, UNLABELLED, codes == k).astype(np.int8) for k in sought]


def votes(scores: FloatArray, classes: int) -> FloatArray:
    """How many pairs each class wins, (n, classes), and less than half a vote that tells apart those with as many.

    Classes with as many votes are told apart by the scores that they have against each other, each no more than 1 and
    no less than -1.

    Parameters
    ----------
    scores : float64 array of shape (n, pairs)
        Above 0 for the second class of a pair.
    classes : int
    """
    of_values = np.empty((len(scores), classes))
    step = max(1, _BLOCK_ELEMENTS // classes**2)
    first, second = np.triu_indices(classes, 1)  # in the order of `pairs_of`
    for start in range(0, len(scores), step):
        part = scores[start : start + step]
        # at (i, j): whether j wins against i, and by how much
        wins = np.zeros((len(part), classes, classes))
        wins[:, first, second] = part > 0
        wins[:, second, first] = part <= 0
        won = wins.sum(axis=1)
        by = np.zeros_like(wins)
        clipped = np.clip(part, -1, 1)
        by[:, first, second] = clipped
        by[:, second, first] = -clipped
        by *= won[:, :, None] == won[:, None, :]
        among_equals = by.sum(axis=1)
        # in the same order, but less than half a vote
        of_values[start : start + step] = won + among_equals / (3 * (1 + np.abs(among_equals)))
    return of_values


def highest(values: FloatArray, counts: IndexArray) -> IndexArray:
    """The class of the highest value of each row, among equals the one with more labelled rows, then the first."""
    by_size = np.argsort(-counts, kind="stable")
    chosen: IndexArray = by_size[np.argmax(values[:, by_size], axis=1)]
    return chosen
