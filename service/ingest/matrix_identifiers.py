"""Which columns of a sparse matrix number or name the rows, by the rule of `service.ingest.identifiers`.

Such a column has whole numbers that all differ, so an entry in every row but one at most, and no value twice. Nearly
all columns fail that in the first rows; what is looked at after them costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from service.ingest.identifiers import FEWEST_ROWS, MOST_NUMBERS, identifier

MOST_CANDIDATES: Final = 64
"""Columns whose values are looked at as a whole, the first ones; tables of real numbers have one or two."""
MOST_VALUES: Final = 40_000_000
"""Values that are in memory at once."""

Entries = tuple[NDArray[np.int64], NDArray[np.integer[Any]], NDArray[Any]]
"""Entries of each row of a block; the column and the value of each entry."""


class MatrixIdentifiers:
    """Keeps the columns that may be identifiers while the rows pass by."""

    def __init__(self) -> None:
        self._rows = 0
        self._seen = np.zeros(0, np.int64)
        """Entries by column; of the first rows of all columns, later of the candidates only."""
        self._is_candidate: NDArray[np.bool_] | None = None
        self._place = np.zeros(0, np.int32)
        """Of each column that is a candidate: which one."""

    def add(self, counts: NDArray[np.int64], indices: NDArray[np.integer[Any]], values: NDArray[Any]) -> None:
        """Take a block of rows into account; costs their entries, and once the width of the matrix.

        Parameters
        ----------
        counts : ndarray of int64, shape (rows,)
        indices, values : ndarray, shape (sum of counts,)
            Each column at most once a row.
        """
        self._rows += len(counts)
        if self._is_candidate is None:
            width = max(len(self._seen), int(indices.max()) + 1 if len(indices) else 0)
            seen = np.bincount(indices, minlength=width)
            seen[: len(self._seen)] += self._seen
            self._seen = seen
            if self._rows < FEWEST_ROWS:
                return
            self._keep(np.flatnonzero(self._seen >= self._rows - 1))
            self._look(indices, values, count=False)
        elif len(self._seen):
            self._look(indices, values, count=True)

    def _keep(self, candidates: NDArray[np.intp]) -> None:
        """Go on with these columns only."""
        width = int(candidates[-1]) + 1 if len(candidates) else 0
        self._seen = self._seen[candidates] if self._is_candidate is None else self._seen[self._place[candidates]]
        self._is_candidate = np.zeros(width, bool)
        self._is_candidate[candidates] = True
        self._place = np.zeros(width, np.int32)
        self._place[candidates] = np.arange(len(candidates))

    def _look(self, indices: NDArray[np.integer[Any]], values: NDArray[Any], *, count: bool) -> None:
        """Drop the candidates that lack more than one entry, or have one that is not whole, or twice."""
        assert self._is_candidate is not None  # noqa: S101 (for the type checker)
        inside = indices < len(self._is_candidate)
        inside[inside] = self._is_candidate[indices[inside]]
        place, found = self._place[indices[inside]], values[inside]
        n = len(self._seen)
        if count:
            self._seen += np.bincount(place, minlength=n)
        good = self._seen >= self._rows - 1
        good[place[found != np.floor(found)]] = False
        of_good = good[place]
        place, found = place[of_good], found[of_good]
        order = np.lexsort((found, place))
        place, found = place[order], found[order]
        good[place[1:][(place[1:] == place[:-1]) & (found[1:] == found[:-1])]] = False
        if not good.all():
            self._keep(np.flatnonzero(self._is_candidate)[good])

    def candidates(self) -> list[int]:
        """Return the columns that may be identifiers, as far as the rows until now tell."""
        if self._is_candidate is None:
            return []
        return [int(column) for column in np.flatnonzero(self._is_candidate)[:MOST_CANDIDATES]]

    def reasons(self, blocks: Iterator[Entries] | Iterable[Entries]) -> dict[int, str]:
        """Return why columns are taken for identifiers, see `service.ingest.identifiers.identifier`.

        Parameters
        ----------
        blocks : iterable
            All rows again; may be iterated several times.
        """
        found: dict[int, str] = {}
        candidates = self.candidates()
        rows = min(self._rows, MOST_NUMBERS)
        at_once = max(1, MOST_VALUES // max(1, rows))
        for start in range(0, len(candidates), at_once):
            columns = candidates[start : start + at_once]
            for column, values in zip(columns, _columns(blocks, columns, rows), strict=True):
                reason = identifier(str(column), pa.array(values))
                if reason is not None:
                    found[column] = reason
        return found


def _columns(blocks: Iterable[Entries], columns: list[int], rows: int) -> NDArray[np.float64]:
    """Return the values of some columns in the first rows."""
    values = np.zeros((len(columns), rows))
    known = np.array(columns)
    first = 0
    for counts, indices, entries in blocks:
        if first >= rows:
            break
        place = np.minimum(np.searchsorted(known, indices), len(known) - 1)
        inside = known[place] == indices
        row = first + np.repeat(np.arange(len(counts)), counts)[inside]
        wanted = row < rows
        values[place[inside][wanted], row[wanted]] = entries[inside][wanted]
        first += len(counts)
    return values
