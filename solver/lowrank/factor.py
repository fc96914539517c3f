"""The factor: a narrow matrix G with G Gᵀ close to the kernel matrix, in memory or in a file."""

from __future__ import annotations

import functools
import tempfile
import time
import weakref
from collections.abc import Callable
from typing import IO, Any, Final, Literal

import numpy as np
import scipy.linalg

from solver.arrays import available_memory
from solver.engine_choice import DEFAULT_RANK, landmarks_that_fit
from solver.kernels.kernel import Kernel
from solver.kernels.parallel import for_ranges, single_threaded_blas, thread_count
from solver.lowrank.landmarks import choose_landmarks, stop_if_due
from solver.lowrank.loops import accumulate, dots, squares
from solver.smo.stopping import NO_LIMITS, Budget
from solver.typing import FloatArray, IndexArray

_LEAST_IN_TIME: Final = 32

# directions of the landmarks' kernel matrix below this share of the strongest one are rounding errors
_TRUNCATION: Final = 1e-8

# rows of one kernel block: with 1024 landmarks 4 MB of float64
_BLOCK_ROWS: Final = 512
_BLOCKS_A_LOOK: Final = 8

# float32 elements of a chunk, the unit in which the factor is read: 64 MB
_CHUNK_ELEMENTS: Final = 1 << 24

# share of the remaining time that may go into the factor
_SHARE_OF_TIME: Final = 0.3


def default_factor_bytes() -> int:
    """Memory for the factor when the caller names none: half of what is available."""
    return max(64 << 20, available_memory() // 2)


class Factor:
    """`K(s, t) ≈ G_s · G_t` (Nyström): kernel values with landmarks, whitened.

    Rows stand in a random order, so that a run of neighbours is a sample of all, whatever the order of the data.
    Make one by `build`.

    Attributes
    ----------
    kernel : Kernel
    landmarks : (m,) int64
        Samples.
    whitening : (m, rank) float64
        `G_s = K(s, landmarks) @ whitening`.
    place : (n_samples,) int64
        Row of each sample.
    squares : (n_samples,) float64
        Squared norm of each row, in the order of the rows.
    chunk_rows : int
        Rows are read in chunks of so many.
    in_file : bool
    """

    def __init__(
        self, kernel: Kernel, landmarks: IndexArray, whitening: FloatArray, order: IndexArray, *, in_file: bool
    ) -> None:
        self.kernel, self.landmarks, self.whitening = kernel, landmarks, whitening
        self.place = np.empty(order.size, np.int64)
        self.place[order] = np.arange(order.size)
        self.squares = np.zeros(order.size)
        self.chunk_rows = max(1024, _CHUNK_ELEMENTS // max(1, self.rank) // _BLOCK_ROWS * _BLOCK_ROWS)
        self.in_file = in_file
        self._order = order
        self._file: IO[bytes] | None = None
        self._rows: FloatArray = np.empty((0, self.rank), np.float32)
        if in_file and self.rank:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the factor
            weakref.finalize(self, self._file.close)
            self._file.truncate(order.size * self.rank * 4)
        else:
            self._rows = np.empty((order.size, self.rank), np.float32)

    @classmethod
    def build(
        cls,
        kernel: Kernel,
        most_landmarks: int = DEFAULT_RANK,
        *,
        max_bytes: int | None = None,
        seed: int = 0,
        budget: Budget | None = None,
    ) -> Factor:
        """Choose landmarks and compute the factor of all samples of a kernel.

        Parameters
        ----------
        kernel : Kernel
            Read in blocks of rows: its features may be memory-mapped.
        most_landmarks : int, default 1024
            Fewer are taken where the factor would not fit into `max_bytes` (down to 256; then the
            factor goes into a temporary file), or where building it would take too much of the time.
        max_bytes : int, optional
            Memory for the factor, by default half of what is available.
        seed : int, default 0
        budget : Budget, optional
            Of time; steps are not counted.

        Raises
        ------
        Interrupted
            If a limit was met.
        """
        budget = Budget(NO_LIMITS) if budget is None else budget
        memory = default_factor_bytes() if max_bytes is None else max_bytes
        n = kernel.n_samples
        most_landmarks, affordable = landmarks_that_fit(n, most_landmarks, memory)
        random = np.random.default_rng(seed)
        order = random.permutation(n)
        with single_threaded_blas():
            landmarks = choose_landmarks(kernel, most_landmarks, random, budget)
            landmarks = landmarks[: cls._rank_in_time(kernel, landmarks, budget)]
            whitening = _whitening(kernel.matrix(landmarks, landmarks))
            stop_if_due(budget)
            factor = cls(kernel, landmarks, whitening, order, in_file=whitening.shape[1] > affordable)
            factor._compute(budget)
        return factor

    @staticmethod
    def _rank_in_time(kernel: Kernel, landmarks: IndexArray, budget: Budget) -> int:
        """How many landmarks can be afforded by the time that is left, from the time of one block."""
        left = budget.seconds_left
        if left is None or len(landmarks) <= _LEAST_IN_TIME:
            return len(landmarks)
        started = time.perf_counter()
        rows = np.arange(min(_BLOCK_ROWS, kernel.n_samples))
        square = np.zeros((len(landmarks), len(landmarks)))
        kernel.matrix(rows, landmarks) @ square  # what a block costs; the result is of no use
        cost = (time.perf_counter() - started) * kernel.n_samples / rows.size / thread_count()
        # between linear and quadratic in the number of landmarks
        share = min(1.0, _SHARE_OF_TIME * left / max(cost, 1e-9)) ** (2 / 3)
        return max(_LEAST_IN_TIME, int(share * len(landmarks)))

    def _compute(self, budget: Budget) -> None:
        def compute(start: int, stop: int) -> None:
            for s in range(start, stop, _BLOCK_ROWS):
                e = min(stop, s + _BLOCK_ROWS)
                rows = self._view(s, e, "r+")
                # float64 up to here: whitening amplifies errors of the kernel values
                rows[:] = self.kernel.matrix(self._order[s:e], self.landmarks) @ self.whitening
                squares(rows, self.squares[s:e])

        step = _BLOCK_ROWS * _BLOCKS_A_LOOK * thread_count()
        for begin in range(0, self.n_samples, step):
            stop_if_due(budget)
            length = min(step, self.n_samples - begin)
            shifted = functools.partial(_shifted, compute, begin)
            for_ranges(shifted, length, _BLOCK_ROWS, work=1e-7 * length * self.rank)

    def _view(self, start: int, stop: int, mode: Literal["r", "r+"]) -> FloatArray:
        if self._file is None:
            return self._rows[start:stop]
        # mapped a part at a time: address space is limited too
        shape = (stop - start, self.rank)
        mapped: Any = np.memmap(self._file, np.dtype(np.float32), mode, offset=start * self.rank * 4, shape=shape)
        return np.asarray(mapped)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.place.size

    @property
    def rank(self) -> int:
        """Number of columns."""
        return int(self.whitening.shape[1])

    def rows(self, start: int, stop: int) -> FloatArray:
        """Some neighbouring rows, float32; at most a chunk at a time."""
        return self._view(start, stop, "r")

    def gather(self, places: IndexArray) -> FloatArray:
        """A copy of some rows; `places` ascend."""
        copy = np.empty((places.size, self.rank), np.float32)
        for begin in range(0, self.n_samples, self.chunk_rows):
            s, e = np.searchsorted(places, [begin, begin + self.chunk_rows])
            if s < e:
                copy[s:e] = self.rows(begin, min(self.n_samples, begin + self.chunk_rows))[places[s:e] - begin]
        return copy

    def products(self, w: FloatArray) -> FloatArray:
        """`G w` in float64, in the order of the rows."""
        result = np.zeros(self.n_samples)
        if not w.any():
            return result
        self._for_chunks(lambda s, e: dots(self.rows(s, e), w, result[s:e]))
        return result

    def weights(self, coefficients: FloatArray) -> FloatArray:
        """`Gᵀ coefficients` in float64; the coefficients stand in the order of the rows."""
        parts = np.zeros((-(-self.n_samples // self.chunk_rows), self.rank))
        self._for_chunks(lambda s, e: accumulate(self.rows(s, e), coefficients[s:e], parts[s // self.chunk_rows]))
        # one chunk after the other, whatever the number of threads
        return np.asarray(parts.sum(axis=0))

    def _for_chunks(self, body: Callable[[int, int], None]) -> None:
        def chunks(start: int, stop: int) -> None:
            for s in range(start, stop, self.chunk_rows):
                body(s, min(stop, s + self.chunk_rows))

        for_ranges(chunks, self.n_samples, self.chunk_rows, work=1e-9 * self.n_samples * self.rank)


def _shifted(body: Callable[[int, int], None], begin: int, start: int, stop: int) -> None:
    body(begin + start, begin + stop)


def _whitening(K: FloatArray) -> FloatArray:
    """W with `W Wᵀ` the pseudo-inverse of K; a Cholesky factor would not survive nearly dependent landmarks."""
    values, vectors = scipy.linalg.eigh(K, driver="evd", check_finite=False)
    kept = values > max(_TRUNCATION * float(values.max(initial=0.0)), np.finfo(float).tiny)
    return np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept]))
