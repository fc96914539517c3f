"""The cache of float32 kernel rows, and the memory it lives in."""

from __future__ import annotations

import threading
import weakref
from typing import Final

import numpy as np

from solver.arrays import available_memory
from solver.kernels.aligned import aligned_empty
from solver.typing import FloatArray, IndexArray

_ROW_ALIGNMENT: Final = 16

# in place of the time when a row was last used
_RELEASED: Final = -1


class Arena:
    """One large float32 buffer of this process, lent to one row cache at a time.

    The first touch of fresh memory can cost more than the computation that fills it (measured here: 1.2 to 2.2 ms
    per MB), so a long-lived process touches it once and reuses it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffer: FloatArray | None = None
        self._lent = False

    def take(self, elements: int) -> tuple[FloatArray, bool]:
        """Lend a buffer of at least so many elements; the flag tells whether it has to be given back."""
        with self._lock:
            if self._lent:
                return aligned_empty(elements, np.float32), False
            if self._buffer is None or self._buffer.size < elements:
                self._buffer = None  # free before allocating: never both at once
                self._buffer = aligned_empty(elements, np.float32)
            self._lent = True
            return self._buffer, True

    def give_back(self) -> None:
        """End the loan."""
        with self._lock:
            self._lent = False

    def touch(self, n_bytes: int) -> None:
        """Have the first `n_bytes` backed by real memory now."""
        with self._lock:
            if self._lent:
                return
            if self._buffer is None or self._buffer.nbytes < n_bytes:
                self._buffer = aligned_empty(max(1, n_bytes // 4), np.float32)
            self._buffer[: n_bytes // 4 : 1024] = 0.0


arena = Arena()


def default_cache_bytes() -> int:
    """Memory for kernel rows when the caller names none: a third of what is available, at most 2 GiB."""
    return min(2 << 30, max(16 << 20, available_memory() // 3))


class RowCache:
    """Least recently used cache of kernel rows over a growing set of columns.

    Rows are found by column number (every sample of the pool is a column). When columns are appended, the rows kept
    so far stay valid for the columns they have; `filled` says up to where. A row that was released is still found,
    but its memory is the first to be given to another one: before memory that was never touched.

    Parameters
    ----------
    max_bytes : int
        Limit of the rows' memory.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.stride = 0
        self.capacity = 0
        self.used = 0
        self.buffer: FloatArray = np.empty(0, np.float32)
        self.slot_of: IndexArray = np.empty(0, np.int64)
        self.column_of: IndexArray = np.empty(0, np.int64)
        self.filled: IndexArray = np.empty(0, np.int64)
        self._used_at: IndexArray = np.empty(0, np.int64)
        self._clock = 0

    def grow(self, n_columns: int, n_samples: int) -> None:
        """Make room for rows of `n_columns` columns, of `n_samples` at most; keeps the rows there are."""
        self.slot_of = np.concatenate([self.slot_of, np.full(n_columns - self.slot_of.size, -1)])
        if n_columns <= self.stride:
            return
        wanted = n_columns if self.stride == 0 else min(n_samples, max(n_columns, self.stride * 3 // 2))
        stride = -(-wanted // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
        budget = self.max_bytes // 4
        if self.buffer.size == 0:
            # address space for the whole budget is asked for once; pages become real as rows fill them
            self.buffer, lent = arena.take(max(budget, stride))
            if lent:
                weakref.finalize(self, arena.give_back)
        # the arena may lend more than was asked for
        capacity = min(min(budget, self.buffer.size) // stride, n_samples)
        kept = min(self.used, capacity)
        self.slot_of[self.column_of[kept : self.used]] = -1
        for slot in range(kept - 1, -1, -1):  # from the last, which moves furthest
            length = self.filled[slot]
            start = slot * self.stride
            self.buffer[slot * stride : slot * stride + length] = self.buffer[start : start + length].copy()
        extra = capacity - kept
        self.column_of = np.concatenate([self.column_of[:kept], np.full(extra, -1)])
        self.filled = np.concatenate([self.filled[:kept], np.zeros(extra, np.int64)])
        self._used_at = np.concatenate([self._used_at[:kept], np.zeros(extra, np.int64)])
        self.stride, self.capacity, self.used = stride, capacity, kept

    def lookup(self, columns: IndexArray) -> IndexArray:
        """Slots of the rows of these columns (-1 where there is none), marked as just used."""
        slots = self.slot_of[columns]
        self._clock += 1
        self._used_at[slots[slots >= 0]] = self._clock
        return slots

    def release(self, columns: IndexArray) -> None:
        """Let the rows of these columns, which are not worth memory of their own, be overwritten first."""
        slots = self.slot_of[columns]
        self._used_at[slots[slots >= 0]] = _RELEASED

    def assign(self, columns: IndexArray, n_filled: int) -> IndexArray:
        """Slots for new rows; as many as the capacity allows.

        First those of released rows, then fresh ones, then those of the rows used least recently; rows marked as used
        by the last `lookup` are not given up.
        """
        before = self.used
        slots = np.flatnonzero(self._used_at[:before] == _RELEASED)[: len(columns)]
        free = min(len(columns) - len(slots), self.capacity - before)
        self.used += free
        missing = len(columns) - len(slots) - free
        if missing:
            old = np.flatnonzero((self._used_at[:before] < self._clock) & (self._used_at[:before] != _RELEASED))
            if len(old) > missing:
                old = np.sort(old[np.argsort(self._used_at[old], kind="stable")[:missing]])
            slots = np.concatenate([slots, old])
        self.slot_of[self.column_of[slots]] = -1
        slots = np.concatenate([slots, np.arange(before, before + free)])
        taken = columns[: len(slots)]
        self.slot_of[taken] = slots
        self.column_of[slots] = taken
        self.filled[slots] = n_filled
        self._used_at[slots] = self._clock
        return slots

    def starts(self, slots: IndexArray) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """Where the rows begin in the flat buffer."""
        return (slots * self.stride).astype(np.uint64)
