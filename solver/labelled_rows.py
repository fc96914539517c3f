"""Which rows had a label when a model was trained, so that later ones can be found that it has never learned.

Kept are fingerprints of the rows as the model sees them, of their features: a row that was uploaded again, or in
another file, is known again, and two rows that the model cannot tell apart are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from solver.typing import BoolArray, IndexArray, Matrix

LEARNED: Final = 0
"""The model, or the one that its test rows measured, learned the label of such a row."""
CALLED_NEGATIVE: Final = 1
CALLED_POSITIVE: Final = 2
"""A test row, by what the model that it measured said. Nothing that was measured had learned it."""
UNLABELLED: Final = -1
"""No such row had a label."""
UNKNOWN: Final = -2
"""Whether one had was not kept."""

_MOST: Final = 1 << 18
"""Rows that are kept, those of the smallest fingerprints: 2 MiB."""
_STATES: Final = np.uint64(3)
"""The bits of a mark that say what became of the row; the others are its fingerprint."""
_BLOCK_ROWS: Final = 4096


@dataclass(frozen=True)
class LabelledRows:
    """What is kept of the labelled rows of a training.

    Attributes
    ----------
    marks : uint64 array
        Ascending: a fingerprint of each different row and, in the last two bits, what became of it.
    """

    marks: NDArray[np.uint64]

    @classmethod
    def of(cls, prints: NDArray[np.uint64], states: ArrayLike) -> LabelledRows:
        """Keep rows with these fingerprints; of equal ones the smallest state, so `LEARNED` if any was."""
        marks = np.sort((prints & ~_STATES) | np.asarray(states, dtype=np.uint64))
        _, first = np.unique(marks & ~_STATES, return_index=True)
        return cls(marks[first][:_MOST])

    def states(self, prints: NDArray[np.uint64]) -> NDArray[np.int8]:
        """What became of rows with these fingerprints."""
        wanted, kept = prints & ~_STATES, self.marks & ~_STATES
        places = np.minimum(np.searchsorted(kept, wanted), max(len(kept) - 1, 0))
        states = np.full(len(wanted), UNLABELLED, dtype=np.int8)
        if len(kept):
            found = kept[places] == wanted
            states[found] = (self.marks[places[found]] & _STATES).astype(np.int8)
        if len(kept) == _MOST:
            states[wanted > kept[-1]] = UNKNOWN
        return states

    def called(self, prints: NDArray[np.uint64], positive: BoolArray) -> LabelledRows:
        """The same with other decisions on test rows, as those of another threshold; rows that are not kept are not."""
        kept, marks = self.marks & ~_STATES, self.marks.copy()
        states = np.where(positive, CALLED_POSITIVE, CALLED_NEGATIVE).astype(np.uint64)
        is_kept = np.isin(prints & ~_STATES, kept)
        marks[np.searchsorted(kept, prints[is_kept] & ~_STATES)] = (prints[is_kept] & ~_STATES) | states[is_kept]
        return LabelledRows(marks)

    def to_bytes(self) -> bytes:
        """As it is stored."""
        return self.marks.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes) -> LabelledRows:
        """Read what `to_bytes` gave."""
        return cls(np.frombuffer(stored, dtype="<u8").astype(np.uint64))


def fingerprints(X: Matrix, rows: IndexArray | None = None) -> NDArray[np.uint64]:
    """A number for each row of a feature matrix; equal rows have the same, and few others.

    Features count in single precision: what another version of a library rounds otherwise in the last bits is the same.
    """
    every = np.arange(X.shape[0]) if rows is None else rows
    made = [_of_block(X[every[start : start + _BLOCK_ROWS]]) for start in range(0, len(every), _BLOCK_ROWS)]
    return np.concatenate(made) if made else np.empty(0, dtype=np.uint64)


def _of_block(X: Matrix) -> NDArray[np.uint64]:
    entries = sparse.csr_array(X)
    with np.errstate(over="ignore"):
        values = entries.data.astype(np.float32)
    mixed = _mixed(values.view(np.uint32).astype(np.uint64) ^ _mixed(entries.indices.astype(np.uint64) + np.uint64(1)))
    mixed[values == 0] = 0
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return _mixed(sums[entries.indptr[1:]] - sums[entries.indptr[:-1]] + np.uint64(1))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of each number over all of it (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
