"""Samples and kernel rows in the memory of a device: the counterpart of kernels/pools for the GPU engine.

A pool numbers the samples it has seen 0, 1, 2 …; these are its columns. A kernel row runs over all columns and is
float32. Blocks among the chosen variables of many problems are computed together.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from solver.kernels.kernel import LARGEST_FLOAT32_EXPONENT, FeatureKernel, Kernel
from solver.kernels.pools.pool import Columns
from solver.smo.gpu_device import KINDS, THREADS, Device, canonical_csr
from solver.typing import FloatArray, IndexArray

# of the free memory: kernel rows, and one array of products on the way to them
_ROWS_SHARE: Final = 0.6
_PRODUCTS_SHARE: Final = 0.1
_LARGEST_PRODUCTS: Final = 1 << 30

# kernel rows computed and folded in at once
_MOST_ROWS: Final = 1024

# samples whose mean becomes the origin of the features, and bytes copied to the device at once
_ORIGIN_SAMPLES: Final = 4096
_COPY_BYTES: Final = 64 << 20


@dataclass
class ProblemBatch:
    """The variables of several problems on the device, one problem after the other.

    Attributes
    ----------
    start : (problems + 1,) int32 on the device
    column : (variables,) int32 on the device
        Column of each variable's sample.
    problem_of : (variables,) int32 on the device
    sizes : (problems,) int64
        Variables of each problem.
    """

    start: Any
    column: Any
    problem_of: Any
    sizes: IndexArray


@dataclass
class Change:
    """What is to be folded into v: coefficients of columns, problem after problem.

    Attributes
    ----------
    problems : (k,) int64
        The problems, ascending.
    counts : (k,) int64
        Entries of each.
    columns, coefficients : (entries,) int64 and float64
    """

    problems: IndexArray
    counts: IndexArray
    columns: IndexArray
    coefficients: FloatArray


class DevicePool(Columns):
    """Columns of a kernel on a device."""

    def __init__(self, device: Device, n_samples: int) -> None:
        super().__init__(n_samples)
        self.device = device

    def blocks(self, columns: IndexArray) -> Any:
        """Kernel values among the columns of each of several sets, (sets, q, q) float32 or float64."""
        raise NotImplementedError

    def block_bytes(self, q: int) -> int:
        """Memory that `blocks` takes for one set of q columns."""
        return 16 * q * q

    def update(self, batch: ProblemBatch, change: Change, v: Any) -> IndexArray:
        """`v -= Σ_j coefficients_j K(columns_j, ·)` for each problem; returns the kernel rows computed for each."""
        raise NotImplementedError


class _Features:
    """The features of a pool's columns on the device, and inner products between them."""

    def __init__(self, device: Device, kernel: FeatureKernel) -> None:
        self.device, self.n_samples = device, kernel.n_samples
        self.kind = np.int32(KINDS[kernel.kind])
        largest = float(kernel.gamma * np.abs(kernel.squared_norms).max(initial=0.0)) if kernel.kind == "rbf" else 0.0
        wide = kernel.kind == "linear" or largest > LARGEST_FLOAT32_EXPONENT
        self.dtype: Any = np.float64 if wide else np.float32
        self.precision = "float64" if wide else "float32"
        self.item_bytes = 8 if wide else 4
        self._parameters = (np.float64(kernel.gamma), np.int32(kernel.degree), np.float64(kernel.coef0))
        self.squares = device.xp.zeros(0, np.float64)  # of the columns

    def extend(self, samples: IndexArray) -> None:
        """Append columns."""
        raise NotImplementedError

    def products(self, columns: IndexArray, begin: int) -> Any:
        """Inner products of some columns with the columns from `begin` on, C-contiguous."""
        raise NotImplementedError

    def row_bytes(self) -> int:
        """Memory that `products` takes for one row."""
        raise NotImplementedError

    def blocks(self, columns: IndexArray) -> Any:
        """Inner products among the columns of each of several sets."""
        raise NotImplementedError

    def block_bytes(self, q: int) -> int:
        """Memory that `blocks` takes for one set of q columns."""
        raise NotImplementedError

    def parameters(self) -> tuple[Any, ...]:
        """Arguments that turn inner products into kernel values, as the device's kernels take them."""
        return self.squares, self.kind, *self._parameters


class _DenseFeatures(_Features):
    def __init__(self, device: Device, kernel: FeatureKernel) -> None:
        super().__init__(device, kernel)
        self._X: Any = kernel.X
        self._width = int(self._X.shape[1])
        self._rows = device.xp.empty((0, self._width), self.dtype)
        self._size = 0
        self._origin: Any = None
        if kernel.kind == "rbf":
            # a common shift leaves distances alone and spares float32 cancellation
            self._origin = device.put(self._X[:_ORIGIN_SAMPLES].mean(axis=0, dtype=np.float64), np.float64)

    def extend(self, samples: IndexArray) -> None:
        xp, begin, size = self.device.xp, self._size, self._size + samples.size
        if size > len(self._rows):
            capacity = size if begin == 0 else min(self.n_samples, max(size, begin * 3 // 2))
            rows = xp.empty((capacity, self._width), self.dtype)
            rows[:begin] = self._rows[:begin]
            self._rows = rows
        squares = xp.empty(size, np.float64)
        squares[:begin] = self.squares
        step = max(1, _COPY_BYTES // max(1, 8 * self._width))
        in_order = bool(np.all(np.diff(samples) == 1))
        for s in range(0, samples.size, step):
            e = min(s + step, samples.size)
            part = self._X[samples[s] : samples[s] + e - s] if in_order else self._X[samples[s:e]]
            values = self.device.put(part, part.dtype)
            if self._origin is not None:
                values = values - self._origin
            self._rows[begin + s : begin + e] = values
            # of the rounded values, so that the distance of a sample to itself is nought
            rounded = self._rows[begin + s : begin + e].astype(np.float64)
            squares[begin + s : begin + e] = (rounded * rounded).sum(axis=1)
        self.squares, self._size = squares, size

    def products(self, columns: IndexArray, begin: int) -> Any:
        return self._rows[self.device.put(columns, np.int64)] @ self._rows[begin : self._size].T

    def row_bytes(self) -> int:
        return (self._size + self._width) * self.item_bytes

    def blocks(self, columns: IndexArray) -> Any:
        sets, q = columns.shape
        rows = self._rows[self.device.put(columns.reshape(-1), np.int64)].reshape(sets, q, self._width)
        return self.device.xp.matmul(rows, rows.transpose(0, 2, 1))

    def block_bytes(self, q: int) -> int:
        # the features twice: a batched product wants its transposed operand laid out anew
        return (q * q + 2 * q * self._width) * self.item_bytes

    def change_of(self, weights: Any, columns: Any) -> Any:
        """X (Xᵀ weights) on all columns; weights (columns, problems)."""
        return self._rows[: self._size] @ (self._rows[columns].T @ weights)


class _SparseFeatures(_Features):
    def __init__(self, device: Device, kernel: FeatureKernel) -> None:
        super().__init__(device, kernel)
        self._host = canonical_csr(kernel.X)
        self._width = int(self._host.shape[1])
        self._samples: IndexArray = np.empty(0, np.int64)
        self._matrix: Any = None

    def extend(self, samples: IndexArray) -> None:
        self._samples = np.concatenate([self._samples, samples])
        part = self._host
        if not np.array_equal(self._samples, np.arange(part.shape[0])):
            part = part[self._samples]
        if part.nnz >= 2**31:
            raise self.device.out_of_memory("sparse features of 2³¹ values and more do not fit CUDA's sparse products")
        self._matrix = None  # free before allocating: never both at once
        self._matrix = self.device.put_csr(part, self.dtype)
        rounded = part.data.astype(self.dtype).astype(np.float64)
        squares = sp.csr_matrix((rounded * rounded, part.indices, part.indptr), shape=part.shape)
        self.squares = self.device.put(squares @ np.ones(part.shape[1]), np.float64)

    def products(self, columns: IndexArray, begin: int) -> Any:
        rows = self._matrix[self.device.put(columns, np.int32)].toarray()
        matrix = self._matrix[begin:] if begin else self._matrix
        # sparse times dense gives a Fortran-ordered array, whose transpose is the C-ordered one wanted
        return self.device.xp.ascontiguousarray((matrix @ rows.T).T)

    def row_bytes(self) -> int:
        return (self._samples.size + self._width) * self.item_bytes

    def blocks(self, columns: IndexArray) -> Any:
        xp = self.device.xp
        sets, q = columns.shape
        out = xp.empty((sets, q, q), self.dtype)
        for s in range(sets):
            rows = self._matrix[self.device.put(columns[s], np.int32)]
            out[s] = (rows @ rows.toarray().T).T
        return out

    def block_bytes(self, q: int) -> int:
        return (2 * q * q + q * self._width) * self.item_bytes

    def change_of(self, weights: Any, columns: Any) -> Any:
        """X (Xᵀ weights) on all columns; weights (columns, problems)."""
        return self._matrix @ (self._matrix[columns].T @ weights)


class _RowCache:
    """Least recently used cache of kernel rows in the device's memory: who is where is known on the host."""

    def __init__(self, device: Device, n_samples: int, max_bytes: int) -> None:
        self.stride = -(-n_samples // 32) * 32
        self.capacity = min(n_samples, max_bytes // (4 * self.stride))
        if self.capacity < 1:
            raise device.out_of_memory(f"no room for a kernel row of {4 * self.stride} bytes")
        self.buffer = device.xp.empty((self.capacity, self.stride), np.float32)
        self._slot_of: IndexArray = np.full(n_samples, -1)  # by column
        self._column_of: IndexArray = np.full(self.capacity, -1)
        self.filled: IndexArray = np.zeros(self.capacity, np.int64)
        self._used_at: IndexArray = np.zeros(self.capacity, np.int64)
        self._used = 0
        self._clock = 0

    def find(self, columns: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Slots for the rows of at most `capacity` columns, and which of them hold nothing yet.

        Rows that had to make room for them are gone, those not used for longest first.
        """
        self._clock += 1
        slots = self._slot_of[columns]
        self._used_at[slots[slots >= 0]] = self._clock
        missing = np.flatnonzero(slots < 0)
        if missing.size:
            fresh = min(missing.size, self.capacity - self._used)
            taken = np.arange(self._used, self._used + fresh)
            self._used += fresh
            if fresh < missing.size:
                # those just found have the latest time, and there are few enough of them
                oldest = np.argsort(self._used_at[: self._used - fresh], kind="stable")[: missing.size - fresh]
                self._slot_of[self._column_of[oldest]] = -1
                taken = np.concatenate([taken, oldest])
            slots[missing] = taken
            self._slot_of[columns[missing]] = taken
            self._column_of[taken] = columns[missing]
            self._used_at[taken] = self._clock
            self.filled[taken] = 0
        return slots, missing


class _RowPool(DevicePool):
    """Kernel rows by matrix products on the device, or from the host, kept in a row cache on the device."""

    def __init__(self, device: Device, kernel: Kernel, max_bytes: int | None, scale: float) -> None:
        super().__init__(device, kernel.n_samples)
        # the pool lives as long as its kernel, so it must not keep it alive
        self._kernel = weakref.proxy(kernel)
        self._max_bytes, self._scale = max_bytes, scale
        self._features = _make_features(device, kernel) if isinstance(kernel, FeatureKernel) else None
        self._cache: _RowCache | None = None

    def _append(self, new: IndexArray) -> None:
        if self._features is not None:
            self._features.extend(new)

    def blocks(self, columns: IndexArray) -> Any:
        features = self._features
        if features is None:
            samples = self.samples[columns]
            return self.device.put([self._kernel.matrix(part, part) for part in samples], np.float32)
        block = features.blocks(columns)
        sets, q = columns.shape
        if features.kind != KINDS["linear"]:
            self.device.launch(
                f"finish_block_{features.precision}", sets * q, THREADS, block, self.device.put(columns, np.int32),
                np.int32(q), *features.parameters(),
            )  # fmt: skip
        return block

    def block_bytes(self, q: int) -> int:
        return 4 * q * q if self._features is None else int(self._features.block_bytes(q))

    def update(self, batch: ProblemBatch, change: Change, v: Any) -> IndexArray:
        cache = self._rows()
        computed = np.zeros(change.problems.size, np.int64)
        unique, first, line = np.unique(change.columns, return_index=True, return_inverse=True)
        owner = np.repeat(np.arange(change.problems.size), change.counts)
        most = min(self._most_rows(), cache.capacity)
        for s in range(0, unique.size, most):
            columns = unique[s : s + most]
            slots, missing = cache.find(columns)
            self._complete(cache, columns, slots)
            computed += np.bincount(owner[first[s : s + most][missing]], minlength=computed.size)
            part = np.flatnonzero((line >= s) & (line < s + most))
            self._fold(batch, change, owner[part], slots[line[part] - s], change.coefficients[part], v)
        return computed

    def _rows(self) -> _RowCache:
        if self._cache is None:
            budget = int(_ROWS_SHARE * self.device.free_bytes())
            if self._max_bytes is not None:
                budget = min(budget, self._max_bytes)
            self._cache = _RowCache(self.device, self.n_samples, int(budget * self._scale))
        return self._cache

    def _most_rows(self) -> int:
        budget = min(_LARGEST_PRODUCTS, int(_PRODUCTS_SHARE * self.device.free_bytes())) * self._scale
        row_bytes = 8 * self.samples.size if self._features is None else self._features.row_bytes()
        return int(max(1, min(_MOST_ROWS, budget // max(1, row_bytes))))

    def _complete(self, cache: _RowCache, columns: IndexArray, slots: IndexArray) -> None:
        """Compute what rows lack: all, or what columns appended since they were stored add to them."""
        m = self.samples.size
        filled = cache.filled[slots]
        for begin in np.unique(filled[filled < m]):
            part = np.flatnonzero(filled == begin)
            self._compute(cache, columns[part], slots[part], int(begin))
        cache.filled[slots] = m

    def _compute(self, cache: _RowCache, columns: IndexArray, slots: IndexArray, begin: int) -> None:
        width = self.samples.size - begin
        at = self.device.put(slots, np.int32)
        features = self._features
        if features is None:
            rows = self._kernel.matrix(self.samples[columns], self.samples[begin:])
            cache.buffer[at, begin : begin + width] = self.device.put(rows, np.float32)
            return
        parts = max(1, min(-(-width // (4 * THREADS)), 64))
        self.device.launch(
            f"finish_rows_{features.precision}", len(columns) * parts, THREADS, features.products(columns, begin),
            self.device.put(columns, np.int32), at, np.int32(begin), np.int32(width), np.int32(parts),
            *features.parameters(), cache.buffer, np.int64(cache.stride),
        )  # fmt: skip

    def _fold(
        self,
        batch: ProblemBatch,
        change: Change,
        owner: IndexArray,
        slots: IndexArray,
        coefficients: FloatArray,
        v: Any,
    ) -> None:
        counts = np.bincount(owner, minlength=change.problems.size)
        # as many threads as there are variables: it is memory that bounds this launch
        blocks = blocks_a_problem(batch.sizes[change.problems], 1, 4096)
        put = self.device.put
        self.device.launch(
            "update_v", len(counts) * blocks, THREADS, put(change.problems, np.int32), batch.start, np.int32(blocks),
            batch.column, put(np.concatenate([[0], np.cumsum(counts)]), np.int32), put(slots, np.int32),
            put(coefficients, np.float64), self._rows().buffer, np.int64(self._rows().stride), v,
        )  # fmt: skip


class _LinearPool(DevicePool):
    """The linear kernel without kernel rows: a change of alpha changes w, and v changes by X · (change of w)."""

    def __init__(self, device: Device, kernel: FeatureKernel) -> None:
        super().__init__(device, kernel.n_samples)
        self._features = _make_features(device, kernel)

    def _append(self, new: IndexArray) -> None:
        self._features.extend(new)

    def blocks(self, columns: IndexArray) -> Any:
        return self._features.blocks(columns)

    def block_bytes(self, q: int) -> int:
        return int(self._features.block_bytes(q))

    def update(self, batch: ProblemBatch, change: Change, v: Any) -> IndexArray:
        put = self.device.put
        columns, line = np.unique(change.columns, return_inverse=True)
        weights = np.zeros((columns.size, batch.sizes.size))
        np.add.at(weights, (line, np.repeat(change.problems, change.counts)), change.coefficients)
        moved = self._features.change_of(put(weights, np.float64), put(columns, np.int32))
        v -= moved[batch.column, batch.problem_of]
        return np.zeros(change.problems.size, np.int64)


class DeviceExactPool(DevicePool):
    """Float64 blocks and updates, for the last bits; keeps nothing."""

    def __init__(self, device: Device, kernel: Kernel) -> None:
        super().__init__(device, kernel.n_samples)
        self._kernel = kernel

    def blocks(self, columns: IndexArray) -> Any:
        """Kernel values among the columns of each of several sets, (sets, q, q) float64."""
        xp, kernel, (sets, q) = self.device.xp, self._kernel, columns.shape
        samples = self.samples[columns]
        out = xp.empty((sets, q, q), np.float64)
        for s in range(sets):
            out[s] = exact_matrix(self.device, kernel, samples[s], samples[s])
        return out

    def update(self, batch: ProblemBatch, change: Change, v: Any) -> IndexArray:
        """`v -= Σ_j coefficients_j K(columns_j, ·)` for each problem; returns the kernel rows computed for each."""
        ends = np.cumsum(change.counts)
        starts = np.concatenate([[0], np.cumsum(batch.sizes)])
        column = self.device.get(batch.column)
        for b, end, count in zip(change.problems, ends, change.counts, strict=True):
            part, own = slice(end - count, end), slice(starts[b], starts[b + 1])
            rows, columns = self.samples[change.columns[part]], self.samples[column[own]]
            v[own] -= exact_products(self.device, self._kernel, rows, change.coefficients[part], columns)
        return change.counts.copy()


def _make_pool(device: Device, kernel: Kernel, max_bytes: int | None, scale: float) -> DevicePool:
    """The pool that suits a kernel.

    Parameters
    ----------
    device : Device
    kernel : Kernel
        A `FeatureKernel` is computed on the device; the rows of any other are computed or read on the host.
    max_bytes : int or None
        Limit for kernel rows; by default six tenths of the device's free memory.
    scale : float
        Factor on all memory, below 1 after an attempt that ran out of it.
    """
    if isinstance(kernel, FeatureKernel) and kernel.kind == "linear":
        return _LinearPool(device, kernel)
    return _RowPool(device, kernel, max_bytes, scale)


def blocks_a_problem(sizes: IndexArray, a_thread: int = 4, most: int = 64) -> int:
    """How many blocks of a launch share one problem, at so many variables a thread but no more than `most`."""
    return max(1, min(most, -(-int(sizes.max()) // (a_thread * THREADS))))


def _make_features(device: Device, kernel: FeatureKernel) -> Any:
    return _SparseFeatures(device, kernel) if sp.issparse(kernel.X) else _DenseFeatures(device, kernel)


def exact_matrix(device: Device, kernel: Kernel, rows: IndexArray, columns: IndexArray) -> Any:
    """Kernel values between samples in float64, (rows, columns) on the device."""
    if not isinstance(kernel, FeatureKernel):
        return device.put(kernel.matrix(rows, columns), np.float64)
    xp = device.xp
    same = rows is columns
    if sp.issparse(kernel.X):
        A = device.put_csr(canonical_csr(kernel.X[rows]), np.float64)
        B = A if same else device.put_csr(canonical_csr(kernel.X[columns]), np.float64)
        dots = xp.ascontiguousarray((B @ A.toarray().T).T)
    else:
        origin = kernel.centre
        A = kernel.X[rows] if origin is None else kernel.X[rows] - origin
        A = device.put(A, np.float64)
        B = A if same else device.put(kernel.X[columns] if origin is None else kernel.X[columns] - origin, np.float64)
        dots = A @ B.T
    if kernel.kind == "rbf":
        squares = kernel.squared_norms
        a, b = device.put(squares[rows], np.float64), device.put(squares[columns], np.float64)
        dots = 2.0 * dots - a[:, None] - b[None, :]
        values = xp.exp(kernel.gamma * xp.minimum(dots, 0.0))
        if same:
            at = xp.arange(len(rows))
            values[at, at] = 1.0
        return values
    if kernel.kind == "linear":
        return dots
    argument = kernel.gamma * dots + kernel.coef0
    return argument**kernel.degree if kernel.kind == "poly" else xp.tanh(argument)


def exact_products(
    device: Device, kernel: Kernel, rows: IndexArray, coefficients: FloatArray, columns: IndexArray
) -> Any:
    """`Σ_j coefficients_j K(rows_j, column)` in float64 for every column, on the device."""
    result = device.xp.zeros(len(columns), np.float64)
    if not isinstance(kernel, FeatureKernel) or kernel.kind == "linear":
        return device.put(kernel.products(rows, coefficients, columns), np.float64) if len(rows) else result
    weights = device.put(coefficients, np.float64)
    budget = min(_LARGEST_PRODUCTS, int(_PRODUCTS_SHARE * device.free_bytes()))
    side = max(64, min(4096, int((budget / 32) ** 0.5), budget // max(1, 32 * int(kernel.X.shape[1]))))
    for s in range(0, len(columns), side):
        for r in range(0, len(rows), side):
            block = exact_matrix(device, kernel, rows[r : r + side], columns[s : s + side])
            result[s : s + side] += weights[r : r + side] @ block
    return result


class PoolRegistry:
    """The pools of kernels on devices; a pool goes when its kernel goes, and its memory is given back."""

    def __init__(self) -> None:
        self._pools: dict[int, DevicePool] = {}

    def get(self, device: Device, kernel: Kernel, max_bytes: int | None, scale: float) -> DevicePool:
        """The kernel's pool on the device, made anew if there is none or it is another device's."""
        pool = self._pools.get(id(kernel))
        if pool is None:
            weakref.finalize(kernel, self._forget, id(kernel), device)
        if pool is None or pool.device is not device:
            pool = _make_pool(device, kernel, max_bytes, scale)
            self._pools[id(kernel)] = pool
        return pool

    def drop(self, kernel: Kernel) -> None:
        """Make the kernel's pool anew the next time."""
        self._pools.pop(id(kernel), None)

    def _forget(self, key: int, device: Device) -> None:
        self._pools.pop(key, None)
        device.release()
