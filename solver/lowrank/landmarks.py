"""Landmarks: the few samples that all kernel rows are expressed by."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.linalg import solve_triangular

from solver.kernels.kernel import Kernel
from solver.kernels.parallel import for_ranges
from solver.smo.stopping import Budget
from solver.typing import FloatArray, IndexArray

# landmarks are looked for among so many random samples per landmark
_CANDIDATES_A_LANDMARK: Final = 10

# landmarks chosen from one distribution before it is made anew
_BLOCK: Final = 64

# rows of the samples that are worked on at a time, whatever the number of threads
_ROWS: Final = 1024

# a sample whose kernel row the landmarks give up to this share of the largest diagonal element adds nothing
_NEGLIGIBLE: Final = 1e-9


class Interrupted(Exception):  # noqa: N818  # no error: the caller asked for it
    """Raised when a limit was met or the callback cancelled; its argument is the status."""


def stop_if_due(budget: Budget) -> None:
    """Raise `Interrupted` when a limit is met or the callback cancels."""
    reason = budget.reason_to_stop(np.inf)
    if reason is not None:
        raise Interrupted(reason)


def choose_landmarks(kernel: Kernel, rank: int, random: np.random.Generator, budget: Budget) -> IndexArray:
    """Choose samples by a randomly pivoted Cholesky decomposition of the kernel matrix.

    A sample is drawn with a probability proportional to its residual, the part of its kernel row that the landmarks so
    far do not explain [1]_; a whole block is drawn at a time and thinned out greedily [2]_.

    Parameters
    ----------
    kernel : Kernel
    rank : int
        Most landmarks. Fewer come back when they explain everything.
    random : numpy Generator
    budget : Budget

    Returns
    -------
    (m,) int64
        In the order they were chosen: the first ones are a good choice too.

    Raises
    ------
    Interrupted
        If a limit was met.

    References
    ----------
    .. [1] Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky: practical approximation
       of a kernel matrix with few entry evaluations", Communications on Pure and Applied Mathematics 78, 2025.
    .. [2] Y. Dong, C. Chen, P.-G. Martinsson and K. Pearce, "Robust blockwise random pivoting", 2023.
    """
    n = kernel.n_samples
    if rank >= n:
        return np.arange(n)
    samples = np.sort(random.permutation(n)[: min(n, _CANDIDATES_A_LANDMARK * rank)])
    residual = np.maximum(kernel.diagonal(samples), 0.0)
    negligible = _NEGLIGIBLE * float(residual.max(initial=0.0))
    rows = np.empty((samples.size, rank))
    chosen: list[int] = []
    while len(chosen) < rank and residual.max(initial=0.0) > negligible:
        stop_if_due(budget)
        k = len(chosen)
        size = min(_BLOCK, rank - k)
        drawn = np.unique(random.choice(samples.size, size, p=residual / residual.sum()))
        block = _unexplained(kernel, samples, drawn, rows[:, :k])
        pivots, triangle = _thin_out(block[drawn], negligible)
        if not pivots:
            residual[drawn] = 0.0
            continue
        new = rows[:, k : k + len(pivots)]
        _solve_for_rows(triangle, block, pivots, new)
        chosen.extend(drawn[pivots].tolist())
        residual = np.maximum(residual - np.einsum("ij,ij->i", new, new), 0.0)
        residual[chosen] = 0.0
    return samples[np.array(chosen, dtype=np.int64)]


def _unexplained(kernel: Kernel, samples: IndexArray, drawn: IndexArray, rows: FloatArray) -> FloatArray:
    """Kernel values of the samples with some of them, less what the landmarks so far explain."""
    block, columns, explained = np.empty((samples.size, drawn.size)), samples[drawn], rows[drawn].T

    def fill(start: int, stop: int) -> None:
        for s in range(start, stop, _ROWS):
            part = slice(s, min(stop, s + _ROWS))
            np.subtract(kernel.matrix(samples[part], columns), rows[part] @ explained, out=block[part])

    for_ranges(fill, samples.size, _ROWS, work=1e-10 * block.size * (rows.shape[1] + 100))
    return block


def _solve_for_rows(triangle: FloatArray, block: FloatArray, pivots: list[int], new: FloatArray) -> None:
    """Fill `new` with what `triangle` makes of the block's columns at the pivots."""
    inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True).T

    def fill(start: int, stop: int) -> None:
        for s in range(start, stop, _ROWS):
            part = slice(s, min(stop, s + _ROWS))
            new[part] = block[part][:, pivots] @ inverse

    for_ranges(fill, len(block), _ROWS, work=1e-10 * new.size * (len(pivots) + 20))


def _thin_out(H: FloatArray, negligible: float) -> tuple[list[int], FloatArray]:
    """Pivots of a block, largest residual first, until they explain most of it; and their Cholesky factor."""
    size = len(H)
    L = np.zeros((size, size))
    residual = H.diagonal().copy()
    enough = max(negligible, float(residual.sum()) / size) if size > 1 else negligible
    pivots: list[int] = []
    while len(pivots) < size:
        best = int(residual.argmax())
        if residual[best] <= negligible or (pivots and residual[residual > 0].sum() <= enough):
            break
        k = len(pivots)
        L[:, k] = (H[:, best] - L[:, :k] @ L[best, :k]) / np.sqrt(residual[best])
        residual -= np.square(L[:, k])
        residual[best] = -np.inf
        pivots.append(best)
    return pivots, np.tril(L[pivots, : len(pivots)])
