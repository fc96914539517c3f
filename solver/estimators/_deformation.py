"""The kernel of the Laplacian SVM: a kernel deformed along the data's neighbourhood graph.

k̃(x, z) = k(x, z) - k_x' (I + M G)⁻¹ M k_z, where k_x holds the kernel values of x with the n rows of the graph, G those
among them, and M is a multiple of the graph's Laplacian. Neither way below needs G as a whole. Both end early,
unfinished, once the run is exhausted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from scipy import linalg, sparse

from solver.arrays import require_memory
from solver.estimators._run import TrainingRun
from solver.kernels.kernel import Kernel
from solver.kernels.parallel import for_ranges
from solver.kernels.sparse_loops import multiply_rows
from solver.typing import FloatArray, IndexArray, Matrix

# up to this many unknowns of a column the linear system is solved directly
DIRECT_SIZE: Final = 2000
_CG_TOLERANCE: Final = 1e-6
_CG_STEPS: Final = 1000
_BLOCK_ROWS: Final = 512
# elements of one block of columns: 32 MB
_BLOCK_ELEMENTS: Final = 1 << 22

# multiplications of a sparse product from which on the compiled loop on all threads is worth being loaded
_THREADED_PRODUCT: Final = 1 << 24
_ROWS_A_RANGE: Final = 512

Product = Callable[[FloatArray], FloatArray]


class Deformation(Protocol):
    """The deformed kernel among the labelled rows, and what turns their coefficients into an expansion.

    Attributes
    ----------
    kernel : float64 array of shape (labelled, labelled)
    """

    kernel: FloatArray

    def correction(self, signed: FloatArray) -> FloatArray:
        """Coefficients of the graph's rows that stand beside the labelled rows' coefficients `signed`."""
        ...


class LinearDeformation:
    """For the linear kernel: k̃(x, z) = x' A⁻¹ z with A = I + X' M X.

    The system is of the size of the features (directly, or by conjugate gradients with sparse products): no kernel
    value of unlabelled rows is ever computed.

    Parameters
    ----------
    run : TrainingRun
    graph_rows, labelled : int arrays, ascending
        Rows of the run; the latter are among the former.
    M : sparse matrix of shape (graph_rows, graph_rows)
    """

    def __init__(self, run: TrainingRun, graph_rows: IndexArray, labelled: IndexArray, M: sparse.csr_matrix) -> None:
        self._run, self._M = run, M
        self._X, self._labelled = run.X[graph_rows], run.X[labelled]
        size = int(self._X.shape[1])
        # by rows, as threads share the rows of a product
        self._transposed: Matrix = sparse.csr_matrix(self._X.T) if sparse.issparse(self._X) else self._X.T
        self._factor = None
        if size <= DIRECT_SIZE:
            product = self._X.T @ (M @ self._X)
            A = np.asarray(product.toarray() if sparse.issparse(product) else product, dtype=np.float64)
            self._factor = linalg.cho_factor((A + A.T) / 2 + np.eye(size))
        require_memory(
            8 * len(labelled) ** 2,
            "LaplacianSVM",
            f"a kernel matrix of the {len(labelled)} labelled rows",
            "fewer labelled rows",
        )
        self.kernel: FloatArray = np.empty((len(labelled), len(labelled)))
        for columns in _blocks(len(labelled), max(size, len(graph_rows))):
            if run.is_exhausted():
                return
            self.kernel[:, columns] = self._labelled @ self._solve(_dense(self._labelled[columns]).T)
        self.kernel = (self.kernel + self.kernel.T) / 2

    def correction(self, signed: FloatArray) -> FloatArray:
        """Coefficients of the graph's rows that stand beside the labelled rows' coefficients `signed`."""
        w = self._solve(np.asarray(self._labelled.T @ signed, dtype=np.float64)[:, None])
        return np.asarray(-(self._M @ (self._X @ w))[:, 0])

    def _solve(self, right: FloatArray) -> FloatArray:
        if self._factor is not None:
            return np.asarray(linalg.cho_solve(self._factor, right))
        return solve_by_conjugate_gradients(
            lambda v: v, lambda v: multiply(self._transposed, self._M @ multiply(self._X, v)), right, self._run
        )


class KernelDeformation:
    """For any kernel, by (I + M G) Z = M K, with K the kernel values of the graph's rows with the labelled ones.

    Z, of shape (graph, labelled), is kept. Beyond `DIRECT_SIZE` rows the system is solved by conjugate gradients, some
    columns at a time; G is then computed in blocks, of which as many are kept as the run's cache may hold.

    Parameters
    ----------
    run, graph_rows, labelled, M
        As for `LinearDeformation`.
    """

    def __init__(self, run: TrainingRun, graph_rows: IndexArray, labelled: IndexArray, M: sparse.csr_matrix) -> None:
        n = len(graph_rows)
        require_memory(
            8 * (n + len(labelled)) * len(labelled),
            "LaplacianSVM",
            f"a number for each of {n} rows and each of {len(labelled)} labelled ones",
            "fewer rows or kernel='linear'",
        )
        self._Z = np.empty((n, len(labelled)))
        self.kernel: FloatArray = run.kernel.matrix(labelled, labelled)
        gram = BlockwiseGram(run.kernel, graph_rows, run.cache_bytes)
        system = np.eye(n) + M @ run.kernel.matrix(graph_rows, graph_rows) if n <= DIRECT_SIZE else None
        for columns in _blocks(len(labelled), n):
            if run.is_exhausted():
                return
            right = M @ run.kernel.matrix(graph_rows, labelled[columns])
            if system is not None:
                self._Z[:, columns] = np.asarray(np.linalg.solve(system, right))
            else:
                self._Z[:, columns] = solve_by_conjugate_gradients(gram, lambda v: M @ v, right, run)
            for rows in _blocks(len(labelled), n):
                self.kernel[rows, columns] -= run.kernel.matrix(labelled[rows], graph_rows) @ self._Z[:, columns]
        self.kernel = (self.kernel + self.kernel.T) / 2

    def correction(self, signed: FloatArray) -> FloatArray:
        """Coefficients of the graph's rows that stand beside the labelled rows' coefficients `signed`."""
        return np.asarray(-self._Z @ signed)


class BlockwiseGram:
    """Products with the kernel matrix of some rows, of which as many blocks as fit into `keep_bytes` are kept."""

    def __init__(self, kernel: Kernel, rows: IndexArray, keep_bytes: int) -> None:
        self._kernel, self._rows = kernel, rows
        self._room = keep_bytes // (8 * _BLOCK_ROWS * len(rows))
        self._kept: list[FloatArray] = []

    def __call__(self, V: FloatArray) -> FloatArray:
        """G V for V of shape (rows, columns)."""
        result = np.empty_like(V)
        for number, start in enumerate(range(0, len(self._rows), _BLOCK_ROWS)):
            if number < len(self._kept):
                block = self._kept[number]
            else:
                block = self._kernel.matrix(self._rows[start : start + _BLOCK_ROWS], self._rows)
                if number < self._room:
                    self._kept.append(block)
            np.matmul(block, V, out=result[start : start + _BLOCK_ROWS])
        return result


def solve_by_conjugate_gradients(gram: Product, laplacian: Product, right: FloatArray, run: TrainingRun) -> FloatArray:
    """Solve Z + laplacian(gram(Z)) = right for all columns at once.

    The operator is self-adjoint and positive in the inner product ⟨x, z⟩ = x' gram(z), so conjugate gradients in that
    product apply; each step takes one product with gram for all columns. A run that is exhausted ends it, and one that
    does not converge is marked as `solver_limit`.
    """
    Z = np.zeros_like(right)
    residual = np.array(right)
    G_residual = gram(residual)
    direction, G_direction = residual.copy(), G_residual.copy()
    squared: FloatArray = np.einsum("ij,ij->j", residual, G_residual)
    enough = (_CG_TOLERANCE**2) * squared
    for _ in range(_CG_STEPS):
        if np.all(squared <= enough):
            return Z
        run.progress(run.fraction)
        if run.is_exhausted():
            break
        image = direction + laplacian(G_direction)
        curvature = np.einsum("ij,ij->j", G_direction, image)
        step = np.divide(squared, curvature, out=np.zeros_like(squared), where=(curvature > 0) & (squared > enough))
        Z += step * direction
        residual -= step * image
        G_residual = gram(residual)
        new: FloatArray = np.einsum("ij,ij->j", residual, G_residual)
        ratio = np.divide(new, squared, out=np.zeros_like(new), where=squared > 0)
        direction = residual + ratio * direction
        G_direction = G_residual + ratio * G_direction
        squared = new
    run.ended = run.ended or "solver_limit"
    return Z


def multiply(X: Matrix, V: FloatArray) -> FloatArray:
    """X V for V of few columns; a large sparse product on all threads, with the same bits whatever their number."""
    columns = V.shape[1]
    if not sparse.issparse(X) or X.nnz * columns < _THREADED_PRODUCT:
        return np.asarray(X @ V)
    V, result = np.ascontiguousarray(V), np.empty((X.shape[0], columns))
    for_ranges(
        lambda s, e: multiply_rows(X.indptr, X.indices, X.data, V, result, s, e),
        X.shape[0], _ROWS_A_RANGE, work=1e-9 * X.nnz * columns,
    )  # fmt: skip
    return result


def normalised_laplacian(neighbours: sparse.csr_matrix) -> sparse.csr_matrix:
    """I - D^(-1/2) A D^(-1/2) of the graph made symmetric, A = max(N, Nᵀ)."""
    A = sparse.csr_matrix(neighbours.maximum(neighbours.T))
    scale = sparse.diags(1 / np.sqrt(np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1e-12)))
    return sparse.csr_matrix(sparse.eye(A.shape[0]) - scale @ A @ scale)


def _blocks(count: int, height: int) -> list[slice]:
    """Slices of `count` columns, so many at a time that a block of this height stays small."""
    width = max(16, _BLOCK_ELEMENTS // max(1, height))
    return [slice(start, min(start + width, count)) for start in range(0, count, width)]


def _dense(X: Matrix) -> FloatArray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
