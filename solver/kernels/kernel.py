"""Kernel functions, kernels over a pool of samples, and the pools of kernel rows that the engines read.

Two precisions live side by side. `matrix` and `products` are float64 and exact to rounding: small problems,
verification and prediction use them. A `Pool` gives float32 rows quickly and keeps them; the working-set engine
lives on it and has its result checked with the former.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from solver.kernels import tile_loops
from solver.kernels.parallel import for_ranges, single_threaded_blas
from solver.kernels.pools.binary import BinaryPool
from solver.kernels.pools.exact import AugmentedPool, ExactPool, MatrixPool
from solver.kernels.pools.linear import LinearPool, SparseLinearPool
from solver.kernels.pools.pool import LOG2_E, CachedPool, Pool
from solver.kernels.pools.sparse import SparsePool
from solver.kernels.pools.tile import DensePool, MostlyZeroPool, Nonzeros, contiguous_rows, read_only
from solver.kernels.row_cache import arena
from solver.kernels.values import (
    KINDS,
    check_matrix,
    finish,
    inner_products,
    squared_norms,
)
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

# With a larger exponent, too many digits of |x|² + |w|² - 2 x·w cancel in float32: rows, or products on a GPU, are then
# computed in float64.
LARGEST_FLOAT32_EXPONENT: Final = 500.0

# where fewer values than this are not 0, leaving out products of 0 beats a dense matrix product (measured: from a half)
_MOSTLY_ZERO: Final = 0.4
_LEAST_FEATURES: Final = 64

# A problem on less than a quarter of the samples has a pool of its own, with no kernel values of the other samples.
FEW: Final = 4

# elements of one float64 block of kernel values: 4 MB keeps it in cache
_BLOCK_ELEMENTS: Final = 1 << 19
_COLUMNS_A_BLOCK: Final = 512
_ROWS_A_STRIP: Final = 128

_LARGEST: Final = float(np.finfo(np.float64).max)


class Kernel(Protocol):
    """What the solver asks of a kernel over a pool of `n_samples` samples."""

    n_samples: int

    def diagonal(self, samples: IndexArray) -> FloatArray:
        """K(s, s) in float64."""
        ...

    def matrix(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Kernel values between samples, (rows, columns) float64."""
        ...

    def products(self, rows: IndexArray, coefficients: FloatArray, columns: IndexArray) -> FloatArray:
        """`Σ_j coefficients_j K(rows_j, column)` in float64 for every column."""
        ...

    def pool(self, samples: IndexArray, cache_bytes: int) -> Pool:
        """The pool of float32 kernel rows, extended to hold these samples as columns."""
        ...


class _BlockedProducts:
    """Products by blocks of float64 kernel values, for kernels without a shorter way."""

    def matrix(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        raise NotImplementedError

    def _rows_a_block(self) -> int:
        return _BLOCK_ELEMENTS

    def products(self, rows: IndexArray, coefficients: FloatArray, columns: IndexArray) -> FloatArray:
        """`Σ_j coefficients_j K(rows_j, column)` in float64 for every column."""
        result = np.zeros(len(columns))
        if not len(rows):
            return result
        height = max(1, min(_BLOCK_ELEMENTS // _COLUMNS_A_BLOCK, self._rows_a_block()))

        def add(begin: int, end: int) -> None:
            for s in range(begin, end, _COLUMNS_A_BLOCK):
                there = slice(s, min(end, s + _COLUMNS_A_BLOCK))
                for r in range(0, len(rows), height):
                    result[there] += coefficients[r : r + height] @ self.matrix(rows[r : r + height], columns[there])

        # which also holds BLAS to one thread: on several it sums in another order
        for_ranges(add, len(columns), _COLUMNS_A_BLOCK, work=5e-9 * len(rows) * len(columns))
        return result


class FeatureKernel(_BlockedProducts):
    """A kernel between the rows of a feature matrix.

    One object owns the cache of kernel rows, keyed by sample: pass the same object to successive calls of the solver
    and they share rows. Not to be used by two threads at once.

    Parameters
    ----------
    X : (n_samples, n_features) float array or CSR matrix
        Kept, not copied (except to become float); must not be changed afterwards.
    kind : {"rbf", "linear", "poly", "sigmoid"}, default "rbf"
    gamma : float
        Positive; needed by all kinds but `linear`.
    degree : int, default 3
        Of `poly`, at least 1.
    coef0 : float, default 0
        Of `poly` and `sigmoid`.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix, a parameter is out of its range, or the kernel values would overflow.
    """

    def __init__(
        self, X: Any, kind: str = "rbf", gamma: float | None = None, degree: int = 3, coef0: float = 0.0
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown kernel {kind!r}: expected one of {', '.join(KINDS)}")
        if kind != "linear" and (gamma is None or not np.isfinite(gamma) or gamma <= 0):
            raise ValueError(f"gamma must be a positive number for the {kind} kernel; got {gamma}")
        if kind == "poly" and (degree != int(degree) or degree < 1):
            raise ValueError(f"degree must be an integer of at least 1; got {degree}")
        if not np.isfinite(coef0):
            raise ValueError(f"coef0 must be finite; got {coef0}")
        self.X: Matrix = check_matrix("X", X)
        self.kind = kind
        self.gamma = 1.0 if gamma is None else float(gamma)
        self.degree = int(degree)
        self.coef0 = float(coef0)
        self.n_samples: int = self.X.shape[0]
        self._centre: FloatArray | None = None
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with the row
            if kind == "rbf" and not sp.issparse(self.X) and self.n_samples:
                self._centre = self.X.mean(axis=0, dtype=np.float64)
            self._squares = self._shifted_squares()
            diagonal = self.diagonal(np.arange(self.n_samples))
        if not (np.isfinite(self._squares).all() and (np.abs(diagonal) < 1e30).all()):
            raise ValueError(f"the {kind} kernel overflows on these features{self._largest_value()}")
        self._pool: Pool | None = None
        self._small_pool: Pool | None = None

    @property
    def centre(self) -> FloatArray | None:
        """What is subtracted from all samples before products are formed; None for nothing."""
        return self._centre

    @property
    def squared_norms(self) -> FloatArray:
        """Squared norm of each sample, after the centre was subtracted; float64."""
        return self._squares

    def _largest_value(self) -> str:
        """Say where the value lies that is to blame for an overflow, and what helps."""
        values = self.X.tocoo() if sp.issparse(self.X) else self.X
        data = values.data if sp.issparse(values) else values.reshape(-1)
        lower = ", or take a smaller degree or coef0" if self.kind == "poly" else ""
        if not data.size:
            return lower
        at = int(np.argmax(np.abs(data)))
        row, column = (values.row[at], values.col[at]) if sp.issparse(values) else divmod(at, values.shape[1])
        return f": row {row} holds {data[at]:.3g} in column {column}; scale them or drop what is no real value{lower}"

    def _shifted_squares(self) -> FloatArray:
        if self._centre is None:
            return squared_norms(self.X)
        squares, centre = np.empty(self.n_samples), self._centre

        def fill(s: int, e: int) -> None:
            X, rows = contiguous_rows(self.X, np.arange(s, e))
            tile_loops.centred_squares(X, rows, centre, squares[s:e])

        for_ranges(fill, self.n_samples, 256, work=5e-10 * self.n_samples * int(self.X.shape[1]))
        return squares

    def _part(self, samples: IndexArray) -> Matrix:
        """Rows of X in float64, shifted to their centre if that is of use."""
        part = self.X[samples]
        if self._centre is not None:
            part = part.astype(np.float64, copy=False)
            part -= self._centre
        return part

    def diagonal(self, samples: IndexArray) -> FloatArray:
        """K(s, s) in float64."""
        if self.kind == "rbf":
            return np.ones(len(samples))
        with np.errstate(over="ignore"):
            squares = self._squares[samples].astype(np.float64)
            if self.kind == "linear":
                return squares
            argument = self.gamma * squares + self.coef0
            return argument**self.degree if self.kind == "poly" else np.tanh(argument)

    def matrix(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Kernel values between samples, (rows, columns) float64."""
        A = self._part(rows)
        same = rows is columns
        B = A if same else self._part(columns)
        block = finish(
            inner_products(A, B),
            self._squares[rows],
            self._squares[columns],
            self.kind,
            self.gamma,
            self.degree,
            self.coef0,
        )
        if same and self.kind == "rbf":
            np.fill_diagonal(block, 1.0)
        return block

    def whole_matrix(self) -> FloatArray:
        """Kernel values among all samples, (n, n) float64, each computed once: half the work of `matrix`."""
        every = np.arange(self.n_samples)
        if sp.issparse(self.X):
            return self.matrix(every, every)
        A: FloatArray = np.asarray(self._part(every), dtype=np.float64)
        K = np.empty((self.n_samples, self.n_samples))
        scale = min(self.gamma * LOG2_E, _LARGEST)

        def fill(begin: int, end: int) -> None:
            for r in range(begin, end, _ROWS_A_STRIP):
                s, e = r, min(end, r + _ROWS_A_STRIP)
                np.matmul(A[s:e], A[s:].T, out=K[s:e, s:])
                if self.kind == "rbf":
                    tile_loops.mirrored_gaussians(K, s, e, self._squares, scale)
                else:
                    parameters = (self._squares[s:e], self._squares[s:], self.kind, self.gamma, self.degree)
                    finish(K[s:e, s:], *parameters, self.coef0)
                    K[e:, s:e] = K[s:e, e:].T

        for_ranges(fill, self.n_samples, _ROWS_A_STRIP, work=1e-9 * self.n_samples**2 * (2 + self.X.shape[1] / 25))
        return K

    def _rows_a_block(self) -> int:
        # the features of a block's rows in float64: 1 MB
        return max(64, (1 << 17) // max(1, int(self.X.shape[1])))

    def products(self, rows: IndexArray, coefficients: FloatArray, columns: IndexArray) -> FloatArray:
        """`Σ_j coefficients_j K(rows_j, column)` in float64 for every column."""
        if self.kind == "rbf":
            return self._rbf_products(rows, coefficients, columns)
        if self.kind != "linear":
            return super().products(rows, coefficients, columns)
        with single_threaded_blas():
            w = np.asarray(self.X[rows].T @ coefficients, dtype=np.float64)
            if len(columns) == self.n_samples and np.array_equal(columns, np.arange(self.n_samples)):
                return np.asarray(self.X @ w, dtype=np.float64)
            return np.asarray(self.X[columns] @ w, dtype=np.float64)

    def _rbf_products(self, rows: IndexArray, coefficients: FloatArray, columns: IndexArray) -> FloatArray:
        height = max(1, min(_BLOCK_ELEMENTS // _COLUMNS_A_BLOCK, self._rows_a_block()))
        weights = np.asarray(coefficients, dtype=np.float64)
        scale = min(self.gamma * LOG2_E, _LARGEST)
        work = 1e-9 * len(rows) * len(columns) * (2 + self.X.shape[1] / 25)

        def add(r: int, right: Matrix, b: FloatArray, sums: FloatArray) -> None:
            """Add what the rows from r on, `height` of them, give."""
            here = rows[r : r + height]
            dots = np.ascontiguousarray(inner_products(self._part(here), right))
            tile_loops.exact_sums(dots, self._squares[here], b, scale, weights[r : r + height], sums)

        if len(columns) <= _COLUMNS_A_BLOCK:
            # too few columns to share out: threads take rows, whose sums are added up in order
            right, b = self._part(columns), self._squares[columns]
            parts = np.zeros((-(-len(rows) // height), len(columns)))

            def add_rows(begin: int, end: int) -> None:
                for r in range(begin, end, height):
                    add(r, right, b, parts[r // height])

            for_ranges(add_rows, len(rows), height, work=work)
            return np.asarray(parts.sum(axis=0))
        result = np.zeros(len(columns))

        def add_columns(begin: int, end: int) -> None:
            for s in range(begin, end, _COLUMNS_A_BLOCK):
                there = columns[s : min(end, s + _COLUMNS_A_BLOCK)]
                right, b = self._part(there), self._squares[there]
                for r in range(0, len(rows), height):
                    add(r, right, b, result[s : s + len(there)])

        for_ranges(add_columns, len(columns), _COLUMNS_A_BLOCK, work=work)
        return result

    def pool(self, samples: IndexArray, cache_bytes: int) -> Pool:
        """The pool of float32 kernel rows, extended to hold these samples as columns.

        Few samples out of a pool of many get one of their own: rows over all its columns would cost more. The next few
        samples get the same one if they are most of it.
        """
        if self._pool is None:
            self._pool = self._new_pool()
        elif samples.size * FEW < self._pool.samples.size:
            if self._small_pool is None or not self._small_pool.suits(samples):
                self._small_pool = self._new_pool()
            self._small_pool.prepare(samples, cache_bytes)
            return self._small_pool
        self._pool.prepare(samples, cache_bytes)
        return self._pool

    def forget_rows(self) -> None:
        """Give back the memory of all kernel rows."""
        self._pool = self._small_pool = None

    def private(self) -> FeatureKernel:
        """The same kernel with a pool of its own, for another thread."""
        twin = copy.copy(self)
        twin._pool = twin._small_pool = None
        return twin

    def shared_rows(self, samples: IndexArray) -> SharedRows:
        """The same kernel with all rows of some samples computed now, to be read by several threads."""
        pool = self._new_pool()
        if not isinstance(pool, CachedPool):
            raise TypeError("a linear kernel has no rows")
        pool.prepare(samples, 0)
        return SharedRows(self, samples, pool)

    def _new_pool(self) -> Pool:
        return self._pool_maker()

    @functools.cached_property
    def _pool_maker(self) -> Callable[[], Pool]:
        X = self.X
        if self.kind == "linear":
            return functools.partial(SparseLinearPool if sp.issparse(X) else LinearPool, X)
        if self.kind == "rbf":
            if self.gamma * float(self._squares.max(initial=0.0)) > LARGEST_FLOAT32_EXPONENT:
                return functools.partial(ExactPool, self.n_samples, self.matrix)
            if self._is_binary():
                return functools.partial(BinaryPool, X, self.gamma)
        parameters = (self._squares, self.kind, self.gamma, self.degree, self.coef0)
        if sp.issparse(X):
            return functools.partial(SparsePool, X, *parameters)
        used, filled = self._look_at_features()
        if filled.sum() < _MOSTLY_ZERO * used.size * self.n_samples and used.size >= _LEAST_FEATURES:
            nonzeros = Nonzeros(X, used, filled)
            # without the common shift squared norms are larger: not by so much that float32 products cancel more
            if self.kind != "rbf" or self.gamma * nonzeros.squares.max() < max(
                16, 2 * self.gamma * self._squares.max()
            ):
                return functools.partial(MostlyZeroPool, nonzeros, *parameters[1:])
        return functools.partial(DensePool, X, used, self._centre, *parameters)

    def _look_at_features(self) -> tuple[IndexArray, IndexArray]:
        """The features that matter, and how many of each row are not 0."""
        n, d = self.X.shape
        parts = -(-n // 256)
        differs, filled = np.zeros((parts, d), np.uint8), np.empty(n, np.int64)
        X = read_only(np.asarray(self.X))

        def look(s: int, e: int) -> None:
            tile_loops.look_at_features(X, s, e, differs[s // 256], filled)

        for_ranges(look, n, 256, work=5e-10 * n * d)
        # a constant feature adds nothing to a distance
        used = np.flatnonzero(differs.any(axis=0)) if self.kind == "rbf" and n else np.arange(d)
        return used, filled

    def _is_binary(self) -> bool:
        """Tell whether all features are 0 or 1, and packing them into words would make rows cheaper."""
        if sp.issparse(self.X):
            words = -(-self.X.shape[1] // 64)
            return bool(self.X.nnz > words * self.n_samples and np.all(self.X.data == 1))
        step = max(1, _BLOCK_ELEMENTS // max(1, self.X.shape[1]))
        parts = (self.X[s : s + step] for s in range(0, self.n_samples, step))
        return all(bool(np.all((part == 0) | (part == 1))) for part in parts)


class SharedRows:
    """A kernel whose float32 rows over some samples are all computed, so that any number of threads may read them.

    Made by `FeatureKernel.shared_rows`.
    """

    def __init__(self, kernel: FeatureKernel, samples: IndexArray, pool: CachedPool) -> None:
        self.n_samples = kernel.n_samples
        self._kernel, self._samples = kernel, samples
        m = samples.size
        buffer, lent = arena.take(m * m)
        if lent:
            weakref.finalize(self, arena.give_back)
        self._K: FloatArray = buffer[: m * m].reshape(m, m)
        with single_threaded_blas():
            pool.compute_block(np.arange(m), self._K)
        self._compute_block = None if pool.costly else pool.compute_block

    def diagonal(self, samples: IndexArray) -> FloatArray:
        """K(s, s) in float64."""
        return self._kernel.diagonal(samples)

    def matrix(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Kernel values between samples, (rows, columns) float64."""
        return self._kernel.matrix(rows, columns)

    def products(self, rows: IndexArray, coefficients: FloatArray, columns: IndexArray) -> FloatArray:
        """`Σ_j coefficients_j K(rows_j, column)` in float64 for every column."""
        return self._kernel.products(rows, coefficients, columns)

    def pool(self, samples: IndexArray, cache_bytes: int) -> Pool:  # noqa: ARG002
        """A pool for one thread over the shared rows."""
        return MatrixPool(self.n_samples, self._samples, self._K, self._compute_block)


class AugmentedKernel:
    """A kernel with more samples, which are weighted sums of its own in the kernel's feature space.

    They follow the kernel's samples: with n of those, the first one is sample n. Means of classes and the like are such
    samples; a row of kernel values is kept for each.

    Parameters
    ----------
    kernel : FeatureKernel
        Shares its kernel rows with this one.
    weights : (m, n) array_like
        Weights of the kernel's samples in each of the new ones.
    """

    def __init__(self, kernel: FeatureKernel, weights: ArrayLike) -> None:
        W = np.asarray(weights, dtype=np.float64)
        n = kernel.n_samples
        if W.ndim != 2 or W.shape[1] != n or not np.isfinite(W).all():
            raise ValueError(f"weights must be finite and of shape (new samples, {n}); got shape {W.shape}")
        self._kernel = kernel
        self.n_samples = n + len(W)
        every = np.arange(n)
        used = [np.flatnonzero(w) for w in W]
        # (m, n + m): kernel values of the new samples with all
        sums = np.array([kernel.products(u, w[u], every) for u, w in zip(used, W, strict=True)]).reshape(len(W), n)
        with single_threaded_blas():  # on several it sums in another order
            self._rows: FloatArray = np.hstack([sums, sums @ W.T])

    def _split(self, samples: IndexArray) -> tuple[BoolArray, IndexArray, IndexArray]:
        """Which of the samples are the kernel's, those, and the numbers of the new ones."""
        n = self._kernel.n_samples
        own = samples < n
        return own, samples[own], samples[~own] - n

    def diagonal(self, samples: IndexArray) -> FloatArray:
        """K(s, s) in float64."""
        own, old, new = self._split(samples)
        result = np.empty(len(samples))
        result[own] = self._kernel.diagonal(old)
        result[~own] = self._rows[new, self._kernel.n_samples + new]
        return result

    def matrix(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Kernel values between samples, (rows, columns) float64."""
        own_row, old_rows, new_rows = self._split(rows)
        own_column, old_columns, new_columns = self._split(columns)
        result = np.empty((len(rows), len(columns)))
        result[np.ix_(own_row, own_column)] = self._kernel.matrix(old_rows, old_columns)
        result[~own_row] = self._rows[np.ix_(new_rows, columns)]
        result[:, ~own_column] = self._rows[np.ix_(new_columns, rows)].T
        return result

    def products(self, rows: IndexArray, coefficients: FloatArray, columns: IndexArray) -> FloatArray:
        """`Σ_j coefficients_j K(rows_j, column)` in float64 for every column."""
        own_row, old_rows, new_rows = self._split(rows)
        own_column, old_columns, new_columns = self._split(columns)
        with single_threaded_blas():
            result = coefficients[~own_row] @ self._rows[np.ix_(new_rows, columns)]
            result[own_column] += self._kernel.products(old_rows, coefficients[own_row], old_columns)
            result[~own_column] += self._rows[np.ix_(new_columns, old_rows)] @ coefficients[own_row]
        return np.asarray(result)

    def pool(self, samples: IndexArray, cache_bytes: int) -> Pool:
        """The kernel's pool with the new samples as its last columns."""
        _, old, _ = self._split(samples)
        return AugmentedPool(self._kernel.pool(old, cache_bytes), self._rows)


class PrecomputedKernel(_BlockedProducts):
    """A kernel given as a matrix.

    Parameters
    ----------
    K : (n, n) float32 or float64 array
        Symmetric. Kept, and not copied when its elements lie side by side by rows or by columns; may be
        memory-mapped, whole rows are read.

    Raises
    ------
    ValueError
        If it is not a square matrix of finite numbers or the diagonal shows that values overflow float32.
    """

    def __init__(self, K: Any) -> None:
        K = np.asanyarray(K)
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(f"K must be a square matrix; got shape {K.shape}")
        if K.dtype not in (np.float32, np.float64):
            K = K.astype(np.float64)
        if K.flags.f_contiguous:
            K = K.T
        elif not K.flags.c_contiguous:
            K = np.ascontiguousarray(K)
        for s in range(0, len(K), 1024):
            if tile_loops.count_not_below(np.asarray(K[s : s + 1024]).reshape(-1), 1e30):
                raise ValueError(f"K holds NaN, infinity or values above 1e30 in rows {s} … {s + 1023}")
        self.K: FloatArray = K
        self.n_samples: int = len(K)

    def diagonal(self, samples: IndexArray) -> FloatArray:
        """K(s, s) in float64."""
        return self.K[samples, samples].astype(np.float64)

    def matrix(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Kernel values between samples, (rows, columns) float64."""
        return np.asarray(self.K[np.ix_(rows, columns)], dtype=np.float64)

    def pool(self, samples: IndexArray, cache_bytes: int) -> Pool:  # noqa: ARG002
        """A pool whose rows are the matrix's."""
        return MatrixPool(self.n_samples, np.arange(self.n_samples), self.K)
