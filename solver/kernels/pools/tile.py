"""Pools of kernel rows over dense features, laid out in tiles: all products, or only those of what is not 0."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.kernels import tile_loops
from solver.kernels.aligned import aligned_zeros
from solver.kernels.parallel import for_ranges, scratch
from solver.kernels.pools.pool import FORMS, LOG2_E, TILE_ELEMENTS, CachedPool, Growing, RowDestination
from solver.kernels.simd import LANES, ROWS_AT_ONCE
from solver.typing import FloatArray, IndexArray

# With more features than this, half of the products and mirroring them cost less than all products.
_SYMMETRY_PAYS: Final = 56


def contiguous_rows(X: Any, samples: IndexArray) -> tuple[FloatArray, IndexArray]:
    """A C-contiguous array and the places in it of some rows of X; a copy of these only if X is not contiguous."""
    if X.flags.c_contiguous:
        return read_only(np.asarray(X)), samples
    return read_only(np.ascontiguousarray(X[samples])), np.arange(samples.size)


def read_only(X: FloatArray) -> FloatArray:
    """A view that may not be written to. Numba compiles a function twice if it is given both kinds of arrays."""
    view = X.view()
    view.flags.writeable = False
    return view


class _TilePool(CachedPool):
    """Rows of dense features, whose columns are laid out by feature, `LANES` side by side: a tile.

    A product of a row with a tile keeps its sums in registers (`solver.kernels.simd`); `factor` times it, plus a term
    of the row's and one of the column's (for the exponential their squared norms), is what the kernel's function gets.
    """

    def __init__(
        self, n_samples: int, n_features: int, squares: FloatArray, kind: str, gamma: float, degree: int, coef0: float
    ) -> None:
        super().__init__(n_samples)
        self._n_features = n_features
        self._rbf = kind == "rbf"
        self._form = FORMS[kind]
        self._degree = degree
        scale = gamma * LOG2_E if self._rbf else gamma
        self._factor = np.float32(2 * scale if self._rbf else scale)
        # what each sample adds to its products, as a row and as a column
        if self._rbf:
            self._row_terms = self._sample_terms = (-scale * squares).astype(np.float32)
        else:
            self._row_terms = np.full(n_samples, coef0, np.float32)
            self._sample_terms = np.zeros(n_samples, np.float32)
        self._dense = Growing(-(-n_samples // LANES), n_features * LANES, np.float32)
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
            # The first tile may hold columns from before: only the others are zeroed.
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
        """Columns that k rows are computed for at a time: whole tiles, so few that they stay in cache."""
        return max(LANES, min(1024, TILE_ELEMENTS // k) // LANES * LANES)

    def _rows(self, columns: IndexArray, coef: FloatArray, to: RowDestination) -> None:
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
            tile_loops.lay_out(X, rows, self._used, self._centre, first + s, dense)

    def _width(self, k: int) -> int:
        # few rows are computed at once, so it is the features of the columns that have to stay in cache
        return LANES * max(1, min(8, 256 // max(1, self._n_features)))

    def _left(self, columns: IndexArray) -> tuple[FloatArray, FloatArray]:
        """The features of some columns as rows, and their terms; padded to whole groups of rows."""
        k = len(columns)
        W = np.zeros((-(-k // ROWS_AT_ONCE) * ROWS_AT_ONCE, self._n_features), np.float32)
        tile_loops.take_out(self._tiles, columns, W)
        terms = np.zeros(len(W), np.float32)
        terms[:k] = self._row_terms[self.samples[columns]]
        return W, terms

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        q, symmetric = len(columns), self._n_features > _SYMMETRY_PAYS
        X, terms = self._left(columns)
        W, column_terms = X * self._factor, self._terms_of(self.samples[columns])
        for_ranges(
            lambda s, e: tile_loops.dense_block(
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
        return functools.partial(tile_loops.dense_rows, W, len(columns), terms)


# The features are worked off in parts of so many: the tile of one part, 61 kB, stays in cache for all rows.
_FEATURES_A_PART: Final = 240


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
        # the smaller type where it does; code is compiled for both
        self.indices: NDArray[Any] = np.empty(int(counts.sum()), np.uint16 if used.size <= 1 << 16 else np.uint32)
        self.values: FloatArray = np.empty(self.indices.size, np.float32)
        self.squares: FloatArray = np.empty(n)
        rows = read_only(X)

        def fill(s: int, e: int) -> None:
            tile_loops.nonzeros_of(
                rows, used, s, e, _FEATURES_A_PART, self.bounds, self.indices, self.values, self.squares
            )

        for_ranges(fill, n, 256, work=1e-9 * n * used.size)

    @property
    def arrays(self) -> tuple[IndexArray, NDArray[Any], FloatArray]:
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
        tile_loops.spread(*self._nonzeros.arrays, samples, first, dense)

    def _fill_block(self, columns: IndexArray, out: FloatArray) -> None:
        samples = self.samples[columns]
        q, d = samples.size, self._n_features
        row_terms, column_terms = self._row_terms[samples], self._terms_of(samples)

        def fill(begin: int, end: int) -> None:
            space = scratch((d + q) * LANES)
            dense, products = space[: d * LANES].reshape(1, d, LANES), space[d * LANES :]
            for s in range(begin, end):
                tile_loops.mostly_zero_block(
                    *self._nonzeros.arrays, samples, self._factor, row_terms, column_terms, out, s * LANES, self._form,
                    self._degree, dense, products,
                )  # fmt: skip

        for_ranges(fill, -(-q // LANES), 1, work=0.6 * self.seconds_an_element * q * q)
        if self._rbf:
            np.fill_diagonal(out, 1.0)

    def _tile_loop(self, columns: IndexArray) -> Callable[..., None]:
        samples = self.samples[columns]
        return functools.partial(
            tile_loops.mostly_zero_rows, *self._nonzeros.arrays, samples, self._factor, self._row_terms[samples]
        )
