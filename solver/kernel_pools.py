"""Pools of float32 kernel rows over a growing set of samples: one class for each way of computing rows.

A pool numbers the samples it has seen 0, 1, 2 …; these are its columns. A kernel row runs over all columns.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from solver import kernel_tiles as tiles
from solver.aligned import aligned_empty, aligned_zeros
from solver.parallel import for_ranges, scratch, single_threaded_blas
from solver.row_cache import RowCache
from solver.simd import LANES, ROWS_AT_ONCE
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

__all__ = [
    "LOG2_E",
    "AugmentedPool",
    "BinaryPool",
    "CachedPool",
    "DensePool",
    "ExactPool",
    "LinearPool",
    "MatrixPool",
    "MostlyZeroPool",
    "Nonzeros",
    "Pool",
    "SparseLinearPool",
    "SparsePool",
    "contiguous_rows",
]

LOG2_E = math.log2(math.e)
_NO_STARTS = np.empty(0, np.uint64)
_FORMS = {"rbf": tiles.EXP2, "linear": tiles.PLAIN, "poly": tiles.POLYNOMIAL, "sigmoid": tiles.TANH}
# with more features half of the products and a mirror image cost less than all products
_SYMMETRY_PAYS = 56
# a tile of this many float32 elements (512 kB) stays in the second-level cache
_TILE_ELEMENTS = 1 << 17


class Pool:
    """Columns of a kernel and what the working-set engine does with them.

    Attributes
    ----------
    samples : (m,) int64
        Sample of each column.
    rows_computed : int
        Kernel rows computed since the pool was made.
    """

    # working sets beyond this cost more for their block than they save
    largest_set = 1024

    # about what an element of a kernel row costs in float32, on one thread; 0 where many rows cost no more than one
    seconds_an_element = 4e-10

    def __init__(self, n_samples: int) -> None:
        self.n_samples = n_samples
        self.samples: IndexArray = np.empty(0, np.int64)
        self._column_of: IndexArray = np.full(n_samples, -1)
        self.rows_computed = 0

    def prepare(self, samples: IndexArray, cache_bytes: int) -> None:  # noqa: ARG002
        """Append the samples that are not columns yet; a pool with a row cache gives it ``cache_bytes``."""
        new = samples[self._column_of[samples] < 0]
        if new.size:
            _, first = np.unique(new, return_index=True)
            new = new[np.sort(first)]
            self._column_of[new] = np.arange(self.samples.size, self.samples.size + new.size)
            self.samples = np.concatenate([self.samples, new])
            self._append(new)

    def suits(self, samples: IndexArray) -> bool:
        """Whether these samples, no two the same, would be half of the pool at least."""
        return self.samples.size + int(np.count_nonzero(self._column_of[samples] < 0)) <= 2 * samples.size

    def columns(self, samples: IndexArray) -> IndexArray:
        """Columns of samples that have been prepared."""
        return self._column_of[samples]

    def _append(self, new: IndexArray) -> None:
        """Take in the features of new columns."""

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float32 or float64."""
        raise NotImplementedError

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """``F[begin:] += Σ_j coefficients_j K(columns_j, begin:)``; ``keep`` marks rows worth caching."""
        raise NotImplementedError


class Destination(NamedTuple):
    """Where computed rows go.

    Attributes
    ----------
    F : (n,) float64
        Coefficients times rows are added to it, from column ``begin`` on.
    begin : int
    stored : int
        So many of the rows, the first ones, are kept as well.
    starts : (stored,) uint64
        Where column 0 of each of these lies in the cache.
    cache : flat float32
    before : callable
        ``before(begin, end)``, called for each range of columns before anything is computed for it.
    work_before : float
        Estimated seconds of that, for all columns.
    """

    F: FloatArray
    begin: int
    stored: int
    starts: npt.NDArray[np.uint64]
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

    def _rows(self, columns: IndexArray, coef: FloatArray, to: Destination) -> None:
        """Compute the kernel rows of some columns."""
        raise NotImplementedError

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        """Compute the kernel values among some columns into ``out``."""
        raise NotImplementedError

    def compute_block(self, columns: IndexArray, out: FloatArray | None = None) -> FloatArray:
        """Compute the kernel values among some columns, (q, q) float32, in ``out`` if that is given."""
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
        _gather(cache.buffer, cache.starts(slots[have]), columns, have, out)
        if missing.size:
            out[np.ix_(missing, have)] = out[np.ix_(have, missing)].T
            out[np.ix_(missing, missing)] = self.compute_block(columns[missing])
        return out

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """``F[begin:] += Σ_j coefficients_j K(columns_j, begin:)``; ``keep`` marks rows worth caching."""
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
            tiles.accumulate_cached(starts, c, cache.buffer, F, s, e)

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
            to = Destination(F, begin, len(new), cache.starts(new), cache.buffer)
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
            to = Destination(np.zeros(m), int(length), count, cache.starts(slots[part]), cache.buffer)
            self._rows(columns[part], np.zeros(count, np.float32), to)
            cache.filled[slots[part]] = m


def _gather(cache: FloatArray, starts: Any, columns: IndexArray, rows: IndexArray, out: FloatArray) -> None:
    """``out[rows]`` = the rows that begin at ``starts`` in a flat array, at ``columns``."""
    order = np.argsort(columns, kind="stable")
    ascending, places = columns[order].astype(np.uint64), order.astype(np.uint64)
    for_ranges(
        lambda s, e: tiles.gather_rows(cache, starts, ascending, places, rows, out, s, e),
        len(starts), 16, work=3e-9 * len(starts) * len(columns),
    )  # fmt: skip


def _tile_width(k: int) -> int:
    return max(64, min(1024, _TILE_ELEMENTS // max(1, k) // 16 * 16))


class _Growing:
    """An array whose rows are appended to; address space for all is reserved at once, memory is taken as rows come."""

    def __init__(self, capacity: int, width: int, dtype: npt.DTypeLike) -> None:
        self._data = aligned_empty((capacity, width), dtype)
        self.size = 0

    def extend(self, count: int) -> npt.NDArray[Any]:
        """Append ``count`` rows and return them for filling."""
        self.size += count
        return self._data[self.size - count : self.size]

    @property
    def view(self) -> npt.NDArray[Any]:
        return self._data[: self.size]


def contiguous_rows(X: Any, samples: IndexArray) -> tuple[FloatArray, IndexArray]:
    """A C-contiguous array and the places in it of some rows of X; a copy of these only if X is not contiguous."""
    if X.flags.c_contiguous:
        return np.asarray(X), samples
    return np.ascontiguousarray(X[samples]), np.arange(samples.size)


class _TilePool(CachedPool):
    """Rows of dense features, whose columns are laid out by feature, ``LANES`` side by side: a tile.

    A product of a row with a tile keeps its sums in registers (`solver.simd`); ``factor`` times it, plus a term of the
    row's and one of the column's (for the exponential their squared norms), is what the kernel's function gets.
    """

    def __init__(
        self, n_samples: int, n_features: int, squares: FloatArray, kind: str, gamma: float, degree: int, coef0: float
    ) -> None:
        super().__init__(n_samples)
        self._n_features = n_features
        self._rbf = kind == "rbf"
        self._form = _FORMS[kind]
        self._degree = degree
        scale = gamma * LOG2_E if self._rbf else gamma
        self._factor = np.float32(2 * scale if self._rbf else scale)
        # of every sample, as a row and as a column
        if self._rbf:
            self._row_terms = self._sample_terms = (-scale * squares).astype(np.float32)
        else:
            self._row_terms = np.full(n_samples, coef0, np.float32)
            self._sample_terms = np.zeros(n_samples, np.float32)
        self._dense = _Growing(-(-n_samples // LANES), n_features * LANES, np.float32)
        self._column_terms: FloatArray = np.empty(0, np.float32)

    def _lay_out(self, samples: IndexArray, first: int, dense: FloatArray) -> None:
        """Write samples as columns first, first + 1, … of zeroed tiles."""
        raise NotImplementedError

    def _append(self, new: IndexArray) -> None:
        before = self.samples.size - new.size
        self._dense.extend(-(-self.samples.size // LANES) - self._dense.size)
        self._column_terms = self._terms_of(self.samples)
        dense = self._tiles

        def fill(s: int, e: int) -> None:
            # whole tiles, but for columns that the first of them had already
            fresh = s if s * LANES >= before else s + 1
            dense[fresh:e] = 0
            begin, end = max(before, s * LANES), min(self.samples.size, e * LANES)
            self._lay_out(new[begin - before : end - before], begin, dense)

        first = before // LANES
        for_ranges(lambda s, e: fill(first + s, first + e), len(dense) - first, 1, work=5e-10 * dense[first:].size)

    def _terms_of(self, samples: IndexArray) -> FloatArray:
        """The terms of some columns, whole tiles of them."""
        terms = aligned_zeros(-(-samples.size // LANES) * LANES, np.float32)
        terms[: samples.size] = self._sample_terms[samples]
        return terms

    @property
    def _tiles(self) -> FloatArray:
        """The columns, (tiles, features, LANES)."""
        return self._dense.view.reshape(self._dense.size, self._n_features, LANES)

    def _tile_loop(self, samples: IndexArray) -> Callable[..., None]:
        """What computes rows of some samples, over columns begin … end, by tiles of a width: see `_rows`."""
        raise NotImplementedError

    def _width(self, k: int) -> int:
        """Columns to be worked on at a time for k rows, whole tiles of them, so that what is in use stays in cache."""
        return max(LANES, min(1024, _TILE_ELEMENTS // k) // LANES * LANES)

    def _rows(self, columns: IndexArray, coef: FloatArray, to: Destination) -> None:
        k, m = len(columns), self.samples.size
        width = self._width(k)
        compute = self._tile_loop(columns)
        aligned = to.begin // LANES * LANES

        def fill(s: int, e: int) -> None:
            begin, end = max(to.begin, aligned + s), aligned + e
            to.before(begin, end)
            compute(
                self._tiles, self._column_terms, coef, to.F, begin, end, self._form, self._degree, to.stored, to.starts,
                to.cache, width, scratch(max(k, ROWS_AT_ONCE) * width),
            )  # fmt: skip

        work = self.seconds_an_element * k * (m - aligned) + to.work_before
        for_ranges(fill, m - aligned, width, work=work)


class DensePool(_TilePool):
    """Rows by float32 products of all features."""

    def __init__(
        self, X: FloatArray, used: IndexArray, centre: FloatArray | None, squares: FloatArray, kind: str,
        gamma: float, degree: int, coef0: float,
    ) -> None:  # fmt: skip
        super().__init__(X.shape[0], used.size, squares, kind, gamma, degree, coef0)
        self._X, self._used = X, used
        self._centre = np.zeros(X.shape[1]) if centre is None else centre
        self.costly = used.size > 256
        self.seconds_an_element = 2e-11 * used.size + 3e-10

    def _lay_out(self, samples: IndexArray, first: int, dense: FloatArray) -> None:
        for s in range(0, samples.size, 256):
            X, rows = contiguous_rows(self._X, samples[s : s + 256])
            tiles.lay_out(X, rows, self._used, self._centre, first + s, dense)

    def _width(self, k: int) -> int:  # noqa: ARG002
        # of few rows at once: it is the columns' features that have to stay in cache
        return LANES * max(1, min(8, 256 // max(1, self._n_features)))

    def _left(self, columns: IndexArray) -> tuple[FloatArray, FloatArray]:
        """The features of some columns as rows, times the factor, and the terms of these; padded."""
        k = len(columns)
        W = np.zeros((-(-k // ROWS_AT_ONCE) * ROWS_AT_ONCE, self._n_features), np.float32)
        tiles.take_out(self._tiles, columns, W)
        terms = np.zeros(len(W), np.float32)
        terms[:k] = self._row_terms[self.samples[columns]]
        return W, terms

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        q, symmetric = len(columns), self._n_features > _SYMMETRY_PAYS
        X, terms = self._left(columns)
        W, column_terms = X * self._factor, self._terms_of(self.samples[columns])
        for_ranges(
            lambda s, e: tiles.dense_block(
                W, terms, X, column_terms, out, s, e, symmetric, self._form, self._degree,
                scratch((len(W) + self._n_features) * LANES),
            ),
            -(-q // LANES), 1, work=(0.6 if symmetric else 1.0) * self.seconds_an_element * q * q,
        )  # fmt: skip
        if self._rbf:
            np.fill_diagonal(out, 1.0)

    def _tile_loop(self, columns: IndexArray) -> Callable[..., None]:
        W, terms = self._left(columns)
        W *= self._factor
        return functools.partial(tiles.dense_rows, W, len(columns), terms)


# features of a part whose products are summed up before the next part's: its tile, 61 kB, is read again and again
_FEATURES_A_PART = 240


class Nonzeros:
    """What dense features hold besides 0, row by row, without the features that are the same in all rows.

    Parameters
    ----------
    X : (n, d) float array
    used : (features,) int64
        The features to be taken.
    counts : (n,) int64
        At least as many as each row has values besides 0.
    """

    def __init__(self, X: FloatArray, used: IndexArray, counts: IndexArray) -> None:
        n = X.shape[0]
        self.n_features = used.size
        self.bounds: IndexArray = np.zeros((n, 1 + max(1, -(-used.size // _FEATURES_A_PART))), np.int64)
        self.bounds[1:, 0] = np.cumsum(counts)[:-1]
        # no more bytes than needed; compiled code is another for each of the two types
        self.indices: npt.NDArray[Any] = np.empty(int(counts.sum()), np.uint16 if used.size <= 1 << 16 else np.uint32)
        self.values: FloatArray = np.empty(self.indices.size, np.float32)
        self.squares: FloatArray = np.empty(n)

        def fill(s: int, e: int) -> None:
            tiles.nonzeros_of(X, used, s, e, _FEATURES_A_PART, self.bounds, self.indices, self.values, self.squares)

        for_ranges(fill, n, 256, work=1e-9 * n * used.size)

    @property
    def arrays(self) -> tuple[IndexArray, npt.NDArray[Any], FloatArray]:
        """Where the parts of rows begin and end, indices, values."""
        return self.bounds, self.indices, self.values


class MostlyZeroPool(_TilePool):
    """Rows of features most of which are 0: products of what is 0 are left out, others come in the same order."""

    costly = True

    def __init__(self, nonzeros: Nonzeros, kind: str, gamma: float, degree: int, coef0: float) -> None:
        super().__init__(len(nonzeros.bounds), nonzeros.n_features, nonzeros.squares, kind, gamma, degree, coef0)
        self._nonzeros = nonzeros
        self.seconds_an_element = 4e-11 * nonzeros.values.size / max(1, self.n_samples) + 1e-9

    def _lay_out(self, samples: IndexArray, first: int, dense: FloatArray) -> None:
        tiles.spread(*self._nonzeros.arrays, samples, first, dense)

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        samples = self.samples[columns]
        q, d = samples.size, self._n_features
        row_terms, column_terms = self._row_terms[samples], self._terms_of(samples)

        def fill(begin: int, end: int) -> None:
            space = scratch((d + q) * LANES)
            dense, products = space[: d * LANES].reshape(1, d, LANES), space[d * LANES :]
            for s in range(begin, end):
                tiles.mostly_zero_block(
                    *self._nonzeros.arrays, samples, self._factor, row_terms, column_terms, out, s * LANES, self._form,
                    self._degree, dense, products,
                )  # fmt: skip

        for_ranges(fill, -(-q // LANES), 1, work=0.6 * self.seconds_an_element * q * q)
        if self._rbf:
            np.fill_diagonal(out, 1.0)

    def _tile_loop(self, columns: IndexArray) -> Callable[..., None]:
        samples = self.samples[columns]
        return functools.partial(
            tiles.mostly_zero_rows, *self._nonzeros.arrays, samples, self._factor, self._row_terms[samples]
        )


class BinaryPool(CachedPool):
    """Rows of the RBF kernel for features that are 0 or 1, packed into words: distances are counts of bits, exactly."""

    def __init__(self, X: Matrix, gamma: float) -> None:
        super().__init__(X.shape[0])
        self._X = X
        self._scale = gamma * LOG2_E
        self._words = _Growing(X.shape[0], -(-X.shape[1] // 64), np.uint64)
        self.seconds_an_element = 3e-10 * -(-X.shape[1] // 64)
        self._by_word: npt.NDArray[np.uint64] = np.empty((0, 0), np.uint64)

    def _append(self, new: IndexArray) -> None:
        rows = self._words.extend(new.size)
        width = rows.shape[1] * 64
        step = max(1, (1 << 20) // width)
        for s in range(0, new.size, step):
            part = self._X[new[s : s + step]]
            bits = np.zeros((part.shape[0], width), np.uint8)
            bits[:, : part.shape[1]] = part.toarray() if sp.issparse(part) else part
            rows[s : s + step] = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
        self._by_word = np.ascontiguousarray(self._words.view.T)
        self._column_ones = np.bitwise_count(self._words.view).sum(axis=1).astype(np.float32)

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        q = len(columns)
        W = self._words.view[columns]
        Wt = np.ascontiguousarray(W.T)
        ones = self._column_ones[columns]
        for_ranges(
            lambda s, e: tiles.binary_block(W, Wt, ones, self._scale, out, s, e),
            q, 16, work=self.seconds_an_element * q * q,
        )  # fmt: skip

    def _rows(self, columns: IndexArray, coef: FloatArray, to: Destination) -> None:
        W, ones = self._words.view[columns], self._column_ones[columns]
        k, m = len(columns), self.samples.size
        width = _tile_width(k)

        def fill(s: int, e: int) -> None:
            to.before(to.begin + s, to.begin + e)
            tiles.binary_rows(
                W, ones, self._by_word, self._column_ones, self._scale, coef, to.F, to.begin + s, to.begin + e,
                to.stored, to.starts, to.cache, width, scratch(k * width),
            )  # fmt: skip

        work = self.seconds_an_element * k * (m - to.begin) + to.work_before
        for_ranges(fill, m - to.begin, width, work=work)


class SparsePool(CachedPool):
    """Rows of CSR features: a batch of rows is laid out densely by feature, every column stays sparse."""

    def __init__(self, X: Any, squares: FloatArray, kind: str, gamma: float, degree: int, coef0: float) -> None:
        super().__init__(X.shape[0])
        self._X, self._squares = X, squares
        self._data = X.data.astype(np.float32, copy=False)
        index_type = np.int32 if X.nnz < 2**31 else np.int64  # one compiled loop for the common case
        self._indices = X.indices.astype(index_type, copy=False)
        self._indptr = X.indptr.astype(index_type, copy=False)
        self._rbf = kind == "rbf"
        self._form = _FORMS[kind]
        self._degree = degree
        self._scale = gamma * LOG2_E if self._rbf else gamma
        self._coef0 = coef0
        per_row = X.nnz / max(1, X.shape[0])
        self.costly = per_row > 64
        self.seconds_an_element = 2e-10 * per_row + 5e-10
        self._batch = 64

    def _left(self, columns: IndexArray) -> tuple[FloatArray, npt.NDArray[np.int32], FloatArray]:
        """Lay rows out by feature: flat (features that occur, k), their lookup, what is added to a row's products."""
        samples = self.samples[columns]
        part = self._X[samples].tocoo()
        lookup = np.zeros(self._X.shape[1], np.int32)
        lookup[part.col] = 1
        present = np.flatnonzero(lookup)
        lookup[present] = np.arange(1, present.size + 1)
        Wt = np.zeros((present.size + 1, len(columns)), np.float32)
        Wt[lookup[part.col], part.row] = (2.0 if self._rbf else 1.0) * self._scale * part.data
        terms = -self._scale * self._squares[samples] if self._rbf else np.full(len(columns), self._coef0)
        return Wt.reshape(-1), lookup, terms.astype(np.float32)

    @property
    def features(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], FloatArray]:
        """Row ends, indices and float32 values of all samples."""
        return self._indptr, self._indices, self._data

    def _column_terms(self) -> FloatArray:
        if self._rbf:
            return (-self._scale * self._squares[self.samples]).astype(np.float32)
        return np.zeros(self.samples.size, np.float32)

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        rows = self.samples[columns]
        q = rows.size
        entries = int((self._indptr[rows + 1] - self._indptr[rows]).sum())
        begins = np.zeros(self._X.shape[1] + 1, np.int64)
        lists = begins, np.empty(entries, np.int32), np.empty(entries, np.float32)
        tiles.list_by_feature(self._indptr, self._indices, self._data, rows, *lists)
        terms = self._column_terms()[columns]
        own = terms if self._rbf else np.full(q, self._coef0, np.float32)
        factor = np.float32((2.0 if self._rbf else 1.0) * self._scale)
        # each entry meets its list, on average half of it
        work = 5e-10 * float((np.diff(begins).astype(np.float64) ** 2).sum())
        for_ranges(
            lambda s, e: tiles.sparse_block(
                self._indptr, self._indices, self._data, rows, *lists, factor, own, terms, out, s, e, self._form,
                self._degree,
            ),
            q, 32, work=work,
        )  # fmt: skip
        if self._rbf:
            np.fill_diagonal(out, 1.0)

    def _rows(self, columns: IndexArray, coef: FloatArray, to: Destination) -> None:
        m = self.samples.size
        column_terms = self._column_terms()
        for r in range(0, len(columns), self._batch):
            Wt, lookup, row_terms = self._left(columns[r : r + self._batch])
            k = row_terms.size
            width = _tile_width(k)
            kept = max(0, min(k, to.stored - r))

            def fill(
                s: int, e: int, r: int = r, k: int = k, Wt: Any = Wt, lookup: Any = lookup, own: Any = row_terms,
                kept: int = kept, width: int = width,
            ) -> None:  # fmt: skip
                if r == 0:
                    to.before(to.begin + s, to.begin + e)
                tiles.sparse_rows(
                    Wt, lookup, k, self._indptr, self._indices, self._data, self.samples, own, column_terms,
                    coef[r : r + k], to.F, to.begin + s, to.begin + e, self._form, self._degree, kept,
                    to.starts[r : r + k], to.cache, width, scratch(k * width),
                )  # fmt: skip

            work = self.seconds_an_element * k * (m - to.begin) + (0.0 if r else to.work_before)
            for_ranges(fill, m - to.begin, width, work=work)


class ExactPool(CachedPool):
    """Rows computed in float64 and rounded once: for any kernel, and where float32 products would cancel.

    Parameters
    ----------
    n_samples : int
    matrix : callable
        ``matrix(rows, columns)``: float64 kernel values between samples.
    """

    def __init__(self, n_samples: int, matrix: Callable[[IndexArray, IndexArray], FloatArray]) -> None:
        super().__init__(n_samples)
        self._matrix = matrix
        self.costly = True
        self.seconds_an_element = 2e-8

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        samples = self.samples[columns]
        for s in range(0, samples.size, 512):
            out[s : s + 512] = self._matrix(samples[s : s + 512], samples)

    def _rows(self, columns: IndexArray, coef: FloatArray, to: Destination) -> None:
        samples = self.samples[columns]
        to.before(to.begin, self.samples.size)
        for s in range(to.begin, self.samples.size, 1024):
            part = self._matrix(samples, self.samples[s : s + 1024])
            to.F[s : s + 1024] += coef.astype(np.float64) @ part
            for r in range(to.stored):
                start = int(to.starts[r]) + s
                to.cache[start : start + part.shape[1]] = part[r]


class MatrixPool(Pool):
    """Rows of a kernel matrix that is at hand, which nobody changes: pools in several threads may share it.

    Parameters
    ----------
    n_samples : int
    samples : (m,) int64
        The samples that the matrix is about; all of them are columns from the start.
    K : (m, m) float32 or float64, C-contiguous
    compute_block : callable, optional
        Computes the kernel values among some columns for less than it costs to collect them from the matrix.
    """

    def __init__(
        self,
        n_samples: int,
        samples: IndexArray,
        K: FloatArray,
        compute_block: Callable[[IndexArray], FloatArray] | None = None,
    ) -> None:
        super().__init__(n_samples)
        self._compute_block = compute_block
        self.samples = samples
        self._column_of[samples] = np.arange(samples.size)
        self._type = K.dtype
        self._flat: FloatArray = np.asarray(K).reshape(-1)

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q)."""
        if self._compute_block is not None:
            return self._compute_block(columns)
        q = len(columns)
        out = np.empty((q, q), self._type)
        _gather(self._flat, (columns * self.samples.size).astype(np.uint64), columns, np.arange(q), out)
        return out

    def update(
        self,
        columns: IndexArray,
        coefficients: FloatArray,
        F: FloatArray,
        keep: BoolArray,  # noqa: ARG002
        begin: int = 0,
    ) -> None:
        """``F[begin:] += Σ_j coefficients_j K(columns_j, begin:)``."""
        self.rows_computed += len(columns)
        m = self.samples.size
        starts, coef = (columns * m).astype(np.uint64), coefficients.astype(self._type)
        for_ranges(
            lambda s, e: tiles.accumulate_cached(starts, coef, self._flat, F, begin + s, begin + e),
            m - begin, 4096, work=4e-10 * (m - begin) * len(columns),
        )  # fmt: skip


class AugmentedPool(Pool):
    """A pool with more columns at its end, whose rows are given.

    Parameters
    ----------
    base : Pool
    rows : (m, n + m) float64
        Kernel values of the m further samples with all of the n that the base knows and with each other.
    """

    def __init__(self, base: Pool, rows: FloatArray) -> None:
        n = base.n_samples
        super().__init__(n + len(rows))
        self.largest_set, self.seconds_an_element = base.largest_set, base.seconds_an_element
        self._base, self._size = base, base.samples.size
        self.samples = np.concatenate([base.samples, np.arange(n, n + len(rows))])
        self._column_of[self.samples] = np.arange(self.samples.size)
        self._rows: FloatArray = rows[:, self.samples]

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float64."""
        own = columns < self._size
        out = np.empty((len(columns), len(columns)))
        out[np.ix_(own, own)] = self._base.block(columns[own])
        new = self._rows[columns[~own] - self._size][:, columns]
        out[~own] = new
        out[:, ~own] = new.T
        return out

    def update(
        self, columns: IndexArray, coefficients: FloatArray, F: FloatArray, keep: BoolArray, begin: int = 0
    ) -> None:
        """``F[begin:] += Σ_j coefficients_j K(columns_j, begin:)``; ``keep`` marks rows worth caching."""
        own = columns < self._size
        old, new = columns[own], columns[~own] - self._size
        if old.size:
            if begin < self._size:
                before = self._base.rows_computed
                self._base.update(old, coefficients[own], F[: self._size], keep[own], begin)
                self.rows_computed += self._base.rows_computed - before
            late = max(begin, self._size)
            with single_threaded_blas():  # on several it sums in another order, here and below
                F[late:] += self._rows[late - self._size :, old] @ coefficients[own]
        if new.size:
            with single_threaded_blas():
                F[begin:] += coefficients[~own] @ self._rows[new, begin:]


class LinearPool(Pool):
    """The linear kernel without kernel rows: a change of alpha changes w, and F changes by X · (change of w)."""

    largest_set = 512
    seconds_an_element = 0.0

    def __init__(self, X: Matrix) -> None:
        super().__init__(X.shape[0])
        self._X = X
        self._columns: Matrix = X

    def _append(self, new: IndexArray) -> None:  # noqa: ARG002
        in_order = self.samples.size == self.n_samples and np.array_equal(self.samples, np.arange(self.n_samples))
        self._columns = self._X if in_order else self._X[self.samples]

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float64."""
        rows = np.asarray(self._columns[columns], dtype=np.float64)
        return np.asarray(rows @ rows.T)

    def update(
        self,
        columns: IndexArray,
        coefficients: FloatArray,
        F: FloatArray,
        keep: BoolArray,  # noqa: ARG002
        begin: int = 0,
    ) -> None:
        """``F[begin:] += X (Xᵀ coefficients)``."""
        part = self._columns[begin:] if begin else self._columns
        F[begin:] += part @ np.asarray(self._columns[columns].T @ coefficients)


class SparseLinearPool(LinearPool):
    """As ``LinearPool`` for CSR features, by the same loops in float32 that make the blocks."""

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self._blocks = SparsePool(X, np.empty(0), "linear", 1.0, 1, 0.0)
        self._change = np.zeros(X.shape[1])  # of w; kept, as fresh memory is dear

    def _append(self, new: IndexArray) -> None:  # noqa: ARG002
        self._blocks.samples = self.samples

    def block(self, columns: IndexArray) -> FloatArray:
        """Kernel values among some columns, (q, q) float32."""
        return self._blocks.compute_block(columns)

    def update(
        self,
        columns: IndexArray,
        coefficients: FloatArray,
        F: FloatArray,
        keep: BoolArray,  # noqa: ARG002
        begin: int = 0,
    ) -> None:
        """``F[begin:] += X (Xᵀ coefficients)``."""
        features, w, m = self._blocks.features, self._change, self.samples.size
        w[:] = 0.0
        tiles.add_sparse_rows(*features, self.samples[columns], coefficients, w)
        for_ranges(
            lambda s, e: tiles.add_sparse_scores(*features, self.samples, w, F, begin + s, begin + e),
            m - begin, 1024, work=1.5e-9 * features[0][-1] * (m - begin) / max(1, self.n_samples),
        )  # fmt: skip
