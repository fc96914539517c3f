"""Several classes as problems of two: each class against the rest, or each against each, and what their scores say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.choices import Scheme as Scheme
from solver.typing import BoolArray, FloatArray, IndexArray

_BLOCK_ELEMENTS: Final = 1 << 19

UNLABELLED: Final = -1
NO_PART: Final = -2
"""In a problem of two classes: a row without a label, and one that has no part in it."""


def number_of_problems(classes: int, scheme: Scheme) -> int:
    """How many problems of two classes there are; two classes are one."""
    return classes * (classes - 1) // 2 if scheme == "one_vs_one" or classes == 2 else classes


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """The pairs (0, 1), (0, 2), …, (1, 2), … of so many classes."""
    return list(combinations(range(classes), 2))


def two_class_problems(codes: IndexArray, classes: int, scheme: Scheme) -> list[NDArray[np.int8]]:
    """All that `each_two_class_problem` gives."""
    return list(each_two_class_problem(codes, classes, scheme))


def each_two_class_problem(codes: IndexArray, classes: int, scheme: Scheme) -> Iterator[NDArray[np.int8]]:
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
        for i, j in pairs_of(classes):
            yield np.select([codes < 0, codes == i, codes == j], [UNLABELLED, 0, 1], NO_PART).astype(np.int8)
        return
    for k in range(classes) if classes > 2 else (1,):
        yield np.where(codes < 0, UNLABELLED, codes == k).astype(np.int8)


@dataclass(frozen=True)
class OwnRows:
    """The labelled rows of each problem of two classes, one problem after the other.

    Attributes
    ----------
    starts : int array of shape (problems + 1,)
        Where those of each problem begin.
    rows : int array
        Of a pair those of the first class, then those of the second.
    positive : bool array
    """

    starts: IndexArray
    rows: IndexArray
    positive: BoolArray

    @property
    def problems(self) -> int:
        """How many problems there are."""
        return len(self.starts) - 1

    def of(self, problem: int) -> slice:
        """Where the rows of a problem stand."""
        return slice(int(self.starts[problem]), int(self.starts[problem + 1]))

    def kept(self, keep: BoolArray) -> OwnRows:
        """Only some of all that stand here."""
        counts = np.concatenate([[0], np.cumsum(keep)])
        return OwnRows(counts[self.starts], self.rows[keep], self.positive[keep])


def own_rows(codes: IndexArray, classes: int, scheme: Scheme) -> OwnRows:
    """Which labelled rows are in which problem of two classes, as `two_class_problems` says it of all rows.

    Parameters
    ----------
    codes, classes, scheme
        As there.
    """
    labelled = np.flatnonzero(codes >= 0)
    if scheme == "one_vs_rest":
        sought = np.arange(classes) if classes > 2 else np.array([1])
        positive = (codes[labelled] == sought[:, None]).ravel()
        starts = len(labelled) * np.arange(len(sought) + 1)
        return OwnRows(starts, np.tile(labelled, len(sought)), positive)
    of_class = [np.flatnonzero(codes == k) for k in range(classes)]
    sides = [of_class[k] for pair in pairs_of(classes) for k in pair]
    sizes = np.array([len(side) for side in sides])
    positive = np.repeat(np.arange(len(sides)) % 2 == 1, sizes)
    return OwnRows(np.concatenate([[0], np.cumsum(sizes)[1::2]]), np.concatenate(sides), positive)


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
