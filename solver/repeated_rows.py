"""Labelled rows that are the same: each such case is dealt to one side of every split, and is measured once.

A row that is left out, to be measured, is known from its copies if those are learned; and ten copies of a row are one
observation, not ten. So one row of each case is measured, drawn by lot, and all the others of the case are learned
where that one is, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver.evaluation.splits import is_grouped
from solver.labelled_rows import fingerprints
from solver.row_groups import joined_groups, without_lone_classes
from solver.typing import BoolArray, IndexArray, Matrix

FEWEST_CASES: Final = 2
"""Different rows of a class that its rows can be left out by."""
_MOSTLY_MIXED: Final = 0.5
"""Where more of the repeated rows, as a share, are in cases of several labels, they are the same by chance."""
_MANY: Final = 0.1
"""Of so many labelled rows, as a share, that are the same as others, people are told."""


@dataclass(frozen=True)
class Cases:
    """Which of some labelled rows are the same, and which of them is measured.

    Attributes
    ----------
    case : int array of shape (n,)
        Number of the case that each row shows.
    stands_for : int array of shape (cases,)
        The row that stands for a case, where one of them has to.
    by_chance : bool
        Whether there are same rows, but these differ in their labels as those do that have few values: each row then
        is a case of its own.
    alike_classes : tuple of int
        Classes whose rows are all the same, or all but too few: each of these rows then is a case of its own.
    groups : int array of shape (n,) or None
        What lies on one side of every split, where that is more than the rows of a case, see `solver.row_groups`.
    """

    case: IndexArray
    stands_for: IndexArray
    by_chance: bool = False
    alike_classes: tuple[int, ...] = ()
    groups: IndexArray | None = None

    @classmethod
    def of(
        cls,
        prints: NDArray[np.uint64],
        codes: ArrayLike,
        seed: int = 0,
        preference: ArrayLike | None = None,
        groups: IndexArray | None = None,
    ) -> Self:
        """Find the cases of labelled rows.

        Parameters
        ----------
        prints : uint64 array of shape (n,)
            Equal for equal rows, see `fingerprints` and `solver.content_hashes`.
        codes : int array of shape (n,)
            Their classes.
        seed : int, default 0
            Of the lot that draws the row that stands for a case: of one with two labels, this is no choice of a label.
        preference : float or bool array of shape (n,), optional
            The row of the largest number stands for the others of its case; one of a number below 1 is not to be
            measured. Default: 1 for all.
        groups : int array of shape (n,), optional
            Rows of one group belong together, whether they are the same or not.
        """
        found = cls._without_groups(prints, codes, seed, preference)
        if not is_grouped(groups):
            return found
        counted = found.stands
        if preference is not None:
            counted &= np.asarray(preference) >= 1
        joined = joined_groups(found.case, cast("IndexArray", groups))
        return replace(found, groups=without_lone_classes(joined, np.asarray(codes), counted)[0])

    @classmethod
    def _without_groups(
        cls, prints: NDArray[np.uint64], codes: ArrayLike, seed: int, preference: ArrayLike | None
    ) -> Self:
        codes = np.asarray(codes)
        n = len(codes)
        _, case = np.unique(prints, return_inverse=True)
        times = np.bincount(case, minlength=1)
        if n == 0 or times.max() == 1:
            return cls(np.arange(n), np.arange(n))
        if _are_same_by_chance(case, codes, times):
            return cls(np.arange(n), np.arange(n), by_chance=True)
        first = np.ones(n) if preference is None else np.asarray(preference, dtype=np.float64)
        order = np.lexsort((np.random.default_rng(seed).random(n), -first, case))
        stands_for = order[np.flatnonzero(np.diff(case[order], prepend=-1))]
        present, classes = np.unique(codes, return_inverse=True)
        counted = np.bincount(classes[stands_for[first[stands_for] >= 1]], minlength=len(present))
        there = np.bincount(classes[first >= 1], minlength=len(present))
        alike = np.flatnonzero((counted < FEWEST_CASES) & (there > counted))
        if len(alike):
            case, stands_for = _apart(case, stands_for, np.isin(classes, alike))
        return cls(case, stands_for, alike_classes=tuple(present[alike].tolist()))

    @property
    def is_repeated(self) -> bool:
        """Whether any case has several rows."""
        return len(self.stands_for) < len(self.case)

    @property
    def stands(self) -> BoolArray:
        """Which rows stand for their case."""
        marked = np.zeros(len(self.case), dtype=bool)
        marked[self.stands_for] = True
        return marked

    @property
    def sides(self) -> IndexArray:
        """Of each row, the number of what lies on one side of every split with it."""
        return self.case if self.groups is None else self.groups

    def beside(self, rows: IndexArray | BoolArray) -> BoolArray:
        """Which rows lie on one side of every split with one of these, as they show the same case or belong to it."""
        marked = np.zeros(len(self.case), dtype=bool)
        marked[self.sides[rows]] = True
        return marked[self.sides]


def _are_same_by_chance(case: IndexArray, codes: NDArray[np.integer], times: IndexArray) -> bool:
    """Whether most of the repeated rows are in cases of several labels."""
    _, present = np.unique(codes, return_inverse=True)
    pairs = np.unique(case * (present.max() + 1) + present) // (present.max() + 1)
    is_mixed = np.bincount(pairs, minlength=len(times)) > 1
    return bool(times[is_mixed].sum() > _MOSTLY_MIXED * times[times > 1].sum())


def _apart(case: IndexArray, stands_for: IndexArray, alone: BoolArray) -> tuple[IndexArray, IndexArray]:
    """The same with a case of its own for each of these rows; what is left of a case keeps one that stands for it."""
    rows = np.arange(len(case))
    shown = np.where(alone, rows, stands_for[case])
    lost = ~alone & alone[shown]  # of a case of several labels, whose lot fell on one that is alone now
    if lost.any():
        first = np.full(len(stands_for), len(case))
        np.minimum.at(first, case[lost], rows[lost])
        shown[lost] = first[case[lost]]
    kept, numbers = np.unique(shown, return_inverse=True)
    return numbers, kept


def told_of_repeats(X: Matrix, codes: ArrayLike, classes: tuple[str, ...]) -> list[str]:
    """Say that many labelled rows are the same, and what becomes of them.

    Parameters
    ----------
    X : matrix
        Features of the rows.
    codes : int array
        Their classes; negative without a label.
    classes : tuple of str
        The classes' names.
    """
    codes = np.asarray(codes)
    labelled = np.flatnonzero(codes >= 0)
    prints = fingerprints(X, labelled)
    cases = Cases.of(prints, codes[labelled])
    said = [
        f"all labelled rows of {classes[code]!r} are the same: nothing can be learned of them but this one row, and "
        "each of them counts, so that all figures are too good"
        for code in cases.alike_classes
    ]
    _, times = np.unique(prints, return_counts=True)
    same = int(times[times > 1].sum())
    if same < max(_MANY * len(labelled), 1):
        return said
    if cases.by_chance:
        return [
            *said,
            f"{same:,} of {len(labelled):,} labelled rows are the same as others, and most of these differ in their "
            "labels: the columns cannot tell them apart, and each row counts",
        ]
    if cases.is_repeated:
        said.append(
            f"{same:,} of {len(labelled):,} labelled rows are the same as others: each case is measured once, and left "
            f"out with all its copies, so that figures rest on {len(cases.stands_for):,} rows"
        )
    return said
