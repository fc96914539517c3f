"""What a pool of kernel rows is, and one that keeps its rows in a cache.

A pool numbers the samples it has seen 0, 1, 2 …; these are its columns. A kernel row runs over all columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from solver.kernels import tile_loops
from solver.kernels.aligned import aligned_empty
from solver.kernels.parallel import for_ranges
from solver.kernels.row_cache import RowCache
from solver.typing import BoolArray, FloatArray, IndexArray

LOG2_E: Final = math.log2(math.e)
FORMS: Final = {
    "rbf": tile_loops.EXP2,
    "linear": tile_loops.PLAIN,
    "poly": tile_loops.POLYNOMIAL,
    "sigmoid": tile_loops.TANH,
}
# a tile of this many float32 elements (512 kB) stays in the second-level cache
TILE_ELEMENTS: Final = 1 << 17


class Columns:
    """Numbers the samples it sees 0, 1, 2 …

    Attributes
    ----------
    samples : (m,) int64
        Sample of each column.
    """

    def __init__(self, n_samples: int) -> None:
        self.n_samples = n_samples
        self.samples: IndexArray = np.empty(0, np.int64)
        self._column_of: IndexArray = np.full(n_samples, -1)

    def add(self, samples: IndexArray) -> None:
        """Append the samples that are not columns yet."""
        new = samples[self._column_of[samples] < 0]
        if new.size:
            _, first = np.unique(new, return_index=True)
            new = new[np.sort(first)]
            self._column_of[new] = np.arange(self.samples.size, self.samples.size + new.size)
            self.samples = np.concatenate([self.samples, new])
            self._append(new)

    def columns(self, samples: IndexArray) -> IndexArray:
        """Columns of samples that have been added."""
        return self._column_of[samples]

    def _append(self, new: IndexArray) -> None:
        """Take in the features of new columns, the last ones of `samples`."""


class Pool(Columns):
    """Columns of a kernel and what the working-set engine does with them.

    Attributes
    ----------
    rows_computed : int
        Kernel rows computed since the pool was made.
    """

    # working sets beyond this cost more for their block than they save
    largest_set = 1024

    # about what an element of a kernel row costs in float32, on one thread; 0 where many rows cost no more than one
    seconds_an_element = 4e-10

    def __init__(self, n_samples: int) -> None:
        super().__init__(n_samples)
        self.rows_computed = 0

    def prepare(self, samples: IndexArray, cache_bytes: int) -> None:
        """Append the samples that are not columns yet; a pool with a row cache gives it `cache_bytes`."""
        self.add(samples)

    def suits(self, samples: IndexArray) -> bool:
        """Whether these samples, no two the same, would be half of the pool at least."""
        return self.samples.size + int(np.count_nonzero(self._column_of[samples] < 0)) <= 2 * samples.size

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float32 or float64."""
        raise NotImplementedError

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """`F[begin:] += Σ_j coefficients_j K(columns_j, begin:)`; `keep` marks rows worth caching."""
        raise NotImplementedError


class RowDestination(NamedTuple):
    """Where computed rows go.

    Attributes
    ----------
    F : (n,) float64
        Coefficients times rows are added to it, from column `begin` on.
    begin : int
    stored : int
        So many of the rows, the first ones, are kept as well.
    starts : (stored,) uint64
        Where column 0 of each of these lies in the cache.
    cache : flat float32
    before : callable
        `before(begin, end)`, called for each range of columns before anything is computed for it.
    work_before : float
        Estimated seconds of that, for all columns.
    """

    F: FloatArray
    begin: int
    stored: int
    starts: NDArray[np.uint64]
    cache: FloatArray
    before: Callable[[int, int], None] = lambda _begin, _end: None
    work_before: float = 0.0


class CachedPool(Pool):
    """A pool that computes rows by tiles and keeps them in a row cache."""

    # whether computing an element costs more than fetching it from a cached row
    costly = False

    def __init__(self, n_samples: int) -> None:
        super().__init__(n_samples)
        self._cache: RowCache | None = None
        self._solves = 0

    def prepare(self, samples: IndexArray, cache_bytes: int) -> None:
        """Append the samples that are not columns yet; the first call fixes the cache's size."""
        if self._cache is None:
            self._cache = RowCache(cache_bytes)
        super().prepare(samples, cache_bytes)
        self._cache.grow(self.samples.size, self.n_samples)
        self._solves += 1

    def _rows(self, columns: IndexArray, coef: FloatArray, to: RowDestination) -> None:
        """Compute the kernel rows of some columns."""
        raise NotImplementedError

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        """Compute the kernel values among some columns into `out`."""
        raise NotImplementedError

    def compute_block(self, columns: IndexArray, out: FloatArray | None = None) -> FloatArray:
        """Compute the kernel values among some columns, (q, q) float32, in `out` if that is given."""
        if out is None:
            out = aligned_empty((len(columns), len(columns)), np.float32)
        self._fill_block(columns, out)
        return out

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float32; taken from cached rows where that is cheaper."""
        cache = self._cache
        if cache is None or not self.costly:
            return self.compute_block(columns)
        slots = cache.slot_of[columns]
        known = (slots >= 0) & (cache.filled[slots] == self.samples.size)
        have, missing = np.flatnonzero(known), np.flatnonzero(~known)
        if not have.size:
            return self.compute_block(columns)
        out = aligned_empty((len(columns), len(columns)), np.float32)
        gather(cache.buffer, cache.starts(slots[have]), columns, have, out)
        if missing.size:
            out[np.ix_(missing, have)] = out[np.ix_(have, missing)].T
            out[np.ix_(missing, missing)] = self.compute_block(columns[missing])
        return out

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """`F[begin:] += Σ_j coefficients_j K(columns_j, begin:)`; `keep` marks rows worth caching."""
        cache = self._cache
        if cache is None:
            raise RuntimeError("prepare has to be called before update")
        m = self.samples.size
        coef = coefficients.astype(np.float32)
        # one solve seldom comes back to a bounded variable; its successors on the same samples do
        keep_all = self._solves > 1 and cache.capacity >= m
        slots = cache.lookup(columns)
        hit = slots >= 0
        missing = np.flatnonzero(~hit)
        starts, c = cache.starts(slots[hit]), coef[hit]
        work = 2e-10 * (m - begin) * len(c)

        def fold(s: int, e: int) -> None:
            tile_loops.accumulate_cached(starts, c, cache.buffer, F, s, e)

        if len(c):
            self._complete(cache, columns[hit], slots[hit])
            if not missing.size:
                for_ranges(lambda s, e: fold(begin + s, begin + e), m - begin, 4096, work=work)
            if not keep_all:
                cache.release(columns[hit & ~keep])
        if missing.size:
            # rows to keep come first; a part of a row is not kept
            wanted = np.zeros_like(keep) if begin else keep | keep_all
            missing = missing[np.argsort(~wanted[missing], kind="stable")]
            new = cache.assign(columns[missing[: np.count_nonzero(wanted[missing])]], m)
            to = RowDestination(F, begin, len(new), cache.starts(new), cache.buffer)
            if len(c):
                # in one go, as waking threads takes time: what is released above is read, column by column, before
                # a new row may take its place
                to = to._replace(before=fold, work_before=work)
            self._rows(columns[missing], coef[missing], to)
            self.rows_computed += missing.size

    def _complete(self, cache: RowCache, columns: IndexArray, slots: IndexArray) -> None:
        """Compute what cached rows lack because columns were appended after they were stored."""
        m = self.samples.size
        filled = cache.filled[slots]
        if filled.min() == m:
            return
        for length in np.unique(filled[filled < m]):
            part = filled == length
            count = int(np.count_nonzero(part))
            to = RowDestination(np.zeros(m), int(length), count, cache.starts(slots[part]), cache.buffer)
            self._rows(columns[part], np.zeros(count, np.float32), to)
            cache.filled[slots[part]] = m


def gather(cache: FloatArray, starts: Any, columns: IndexArray, rows: IndexArray, out: FloatArray) -> None:
    """`out[rows]` = the rows that begin at `starts` in a flat array, at `columns`."""
    order = np.argsort(columns, kind="stable")
    ascending, places = columns[order].astype(np.uint64), order.astype(np.uint64)
    for_ranges(
        lambda s, e: tile_loops.gather_rows(cache, starts, ascending, places, rows, out, s, e),
        len(starts), 16, work=3e-9 * len(starts) * len(columns),
    )  # fmt: skip


def tile_width(k: int) -> int:
    """Columns to be worked on at a time for k rows, so that what is in use stays in cache."""
    return max(64, min(1024, TILE_ELEMENTS // max(1, k) // 16 * 16))


class Growing:
    """An array whose rows are appended to; address space for all is reserved at once, memory is taken as rows come."""

    def __init__(self, capacity: int, width: int, dtype: DTypeLike) -> None:
        self._data = aligned_empty((capacity, width), dtype)
        self.size = 0

    def extend(self, count: int) -> NDArray[Any]:
        """Append `count` rows and return them for filling."""
        self.size += count
        return self._data[self.size - count : self.size]

    @property
    def view(self) -> NDArray[Any]:
        """The rows so far."""
        return self._data[: self.size]
