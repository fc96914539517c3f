"""Rows that belong together, such as the mails of one thread: they lie on one side of every split.

Unlike rows that are the same (`solver.repeated_rows`) each of them is measured: they are several observations, but
what is learned of one tells something of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver.typing import BoolArray, IndexArray

FEWEST_GROUPS: Final = 2
"""Of a class, which its rows can be left out by."""
_MOST_WORDS: Final = 16
"""That are looked at of what a row is linked by."""
_LARGE: Final = 0.5
"""Of the labelled rows of a class, as a share, in one group: that is said."""
_MANY: Final = 0.1
"""Of all labelled rows, as a share, beside others of their group: that is said."""


def groups_of(links: ArrayLike) -> IndexArray:
    """Number of the group of each row: rows that share a word are of one, and so are those that others link.

    Parameters
    ----------
    links : array of str or None, shape (n,)
        Words between blanks; a row without any is a group of its own.

    Returns
    -------
    int array of shape (n,)
    """
    texts = np.asarray(links, dtype=object).tolist()
    return _united(
        len(texts), ((row, word) for row, text in enumerate(texts) if text for word in text.split()[:_MOST_WORDS])
    )


def joined_groups(first: IndexArray, second: IndexArray) -> IndexArray:
    """Number of each row's group where rows of one group by either belong together, and those that they link."""
    by_both = chain(enumerate(first.tolist()), enumerate((-1 - second).tolist()))
    return _united(len(first), by_both)


def _united(n: int, links: Iterable[tuple[int, Hashable]]) -> IndexArray:
    """Number of the group of each of n rows, which what it is linked by has in common with others (union-find)."""
    parent = list(range(n))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    first: dict[Hashable, int] = {}
    for row, link in links:
        one, other = root(first.setdefault(link, row)), root(row)
        parent[max(one, other)] = min(one, other)
    return np.unique([root(row) for row in range(n)], return_inverse=True)[1]


def without_lone_classes(
    groups: IndexArray, codes: NDArray[np.integer], counted: BoolArray
) -> tuple[IndexArray, tuple[int, ...]]:
    """The groups with those of classes taken apart whose rows are all in one, and these classes.

    A row of such a class is a group of its own: otherwise nothing could be left out.

    Parameters
    ----------
    groups : int array of shape (n,)
    codes : int array of shape (n,)
        Classes of the rows.
    counted : bool array of shape (n,)
        Which of them are measured on.
    """
    pairs = np.unique(np.stack([codes[counted], groups[counted]]), axis=1)
    classes, in_groups = np.unique(pairs[0], return_counts=True)
    of_class = {code: int(np.count_nonzero(codes[counted] == code)) for code in classes.tolist()}
    lone = [
        code
        for code, several in zip(classes.tolist(), in_groups.tolist(), strict=True)
        if several < FEWEST_GROUPS and of_class[code] > several
    ]
    if lone:
        apart = np.isin(codes, lone)
        groups = np.where(apart, groups.max() + 1 + np.arange(len(groups)), groups)
        groups = np.unique(groups, return_inverse=True)[1]
    return groups, tuple(lone)


def told_of_groups(groups: IndexArray, codes: ArrayLike, classes: tuple[str, ...], column: str) -> list[str]:
    """Say that many labelled rows belong together, and what becomes of them.

    Parameters
    ----------
    groups : int array of shape (n,)
    codes : int array of shape (n,)
        Classes of the rows; negative without a label.
    classes : tuple of str
        The classes' names.
    column : str
        By which they belong together.
    """
    codes = np.asarray(codes)
    labelled = codes >= 0
    groups, codes = groups[labelled], codes[labelled]
    said = []
    for code in np.unique(codes).tolist():
        times = np.unique(groups[codes == code], return_counts=True)[1]
        rows = int(times.sum())
        if len(times) < FEWEST_GROUPS and rows > 1:
            said.append(
                f"all labelled rows of {classes[code]!r} belong together by {column!r}: each is left out by itself, so "
                "that the others tell of it and all figures are too good"
            )
        elif times.max() > max(_LARGE * rows, 1):
            said.append(
                f"{times.max():,} of {rows:,} labelled rows of {classes[code]!r} belong together by {column!r}: where "
                "they are left out little is learned of it, and its figures rest on few groups"
            )
    times = np.unique(groups, return_inverse=True, return_counts=True)[2]
    beside = int(times[times > 1].sum())
    if beside > _MANY * len(groups):
        said.append(
            f"{beside:,} of {len(groups):,} labelled rows belong together with others by {column!r}: each group lies "
            f"on one side of every split, of which there are {len(times):,}"
        )
    return said
