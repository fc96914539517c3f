"""Values of the kernel functions in float64, for any two sets of samples: all that applying a model needs.

Apart from `solver.kernels.kernel`, because that one needs Numba, which takes half a second and
50 MB at the start of every process: the API only applies models and does without.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from solver.typing import FloatArray, Matrix

KINDS: Final = ("rbf", "linear", "poly", "sigmoid")

_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))


def _float_type(of: np.dtype[Any]) -> type[np.floating[Any]]:
    """The float type that holds all values of a type: float32 for what has at most 16 bits."""
    return np.float32 if of.kind in "biuf" and of.itemsize <= 2 else np.float64


# exponents of fixed samples up to this cannot make infinity of a sum whose other part is minus infinity
_LARGEST_SHIFTED_EXPONENT: Final = 1e150


def check_matrix(name: str, X: Any) -> Matrix:
    """Return `X` as a finite two-dimensional float array or CSR matrix; copies only to change the type.

    Raises
    ------
    ValueError
        If it is not two-dimensional or holds NaN or infinity; names the first such row.
    TypeError
        If it is sparse but not convertible to CSR.
    """
    values: NDArray[Any]
    row_ends = None
    sparse = sp.issparse(X)
    if sparse:
        X = X.tocsr()
        if X.data.dtype not in _FLOATS:
            X = X.astype(_float_type(X.dtype))
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values, row_ends = X.data, X.indptr
    else:
        X = np.asarray(X)
        if X.dtype not in _FLOATS:
            X = X.astype(_float_type(X.dtype))
        if X.ndim != 2:
            raise ValueError(f"{name} must be two-dimensional; got shape {X.shape}")
        values = X
    # a finite sum spares the look at every value; an infinite one may be mere overflow
    if not math.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
        where = int(np.flatnonzero(~np.isfinite(values.reshape(-1)))[0])
        bad = where // X.shape[1] if row_ends is None else int(np.searchsorted(row_ends, where, side="right")) - 1
        raise ValueError(f"{name} holds NaN or infinity (first in row {bad}); expected finite numbers")
    checked: Matrix = X
    return checked


def squared_norms(X: Matrix) -> FloatArray:
    """Squared norm of each row, in float64."""
    if sp.issparse(X):
        squares = sp.csr_array((np.square(X.data, dtype=np.float64), X.indices, X.indptr), shape=X.shape)
        return np.asarray(squares @ np.ones(X.shape[1]))
    dense: FloatArray = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return dense


def inner_products(A: Matrix, B: Matrix) -> FloatArray:
    """A Bᵀ in float64."""
    if sp.issparse(A) or sp.issparse(B):
        if not sp.issparse(A):
            return np.ascontiguousarray(inner_products(B, A).T)
        left = A.astype(np.float64)
        if sp.issparse(B):
            return np.asarray((left @ B.astype(np.float64).T).toarray())
        return np.asarray(left @ np.asarray(B, dtype=np.float64).T)
    return np.asarray(A, dtype=np.float64) @ np.asarray(B, dtype=np.float64).T


def finish(
    dots: FloatArray, a: FloatArray, b: FloatArray, kind: str, gamma: float, degree: int, coef0: float
) -> FloatArray:
    """Turn inner products into kernel values, in place; a, b: squared norms of the rows and of the columns."""
    if kind == "rbf":
        dots *= 2.0
        dots -= a[:, None]
        dots -= b[None, :]
        np.minimum(dots, 0.0, out=dots)
        with np.errstate(over="ignore"):  # beyond all numbers is far enough: the value is 0
            dots *= gamma
        np.exp(dots, out=dots)
    elif kind != "linear":
        dots *= gamma
        dots += coef0
        if kind == "poly":
            dots **= degree
        else:
            np.tanh(dots, out=dots)
    return dots


def prepared_nbytes(Z: Matrix, kind: str) -> int:
    """Bytes that `KernelColumns` takes beside the fixed samples."""
    m, d = int(Z.shape[0]), int(Z.shape[1])
    return 8 * m + (8 * (m * (d + 2) + d) if kind == "rbf" and not sp.issparse(Z) else 0)


class KernelColumns:
    """Kernel values of any samples with fixed ones, which are checked and prepared once.

    Parameters
    ----------
    Z : (m, d) array or CSR matrix
        The fixed samples, the columns of every block.
    kind : {"rbf", "linear", "poly", "sigmoid"}
        `exp(-gamma |x-z|²)`, `x·z`, `(gamma x·z + coef0)^degree`, `tanh(gamma x·z + coef0)`.
    gamma, degree, coef0
        Parameters of the kind; those it does not have are ignored.

    Raises
    ------
    ValueError
        If the kind is unknown or a value is not finite.
    """

    def __init__(self, Z: Any, kind: str, gamma: float = 1.0, degree: int = 3, coef0: float = 0.0) -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown kernel {kind!r}: expected one of {', '.join(KINDS)}")
        self._Z = check_matrix("Z", Z)
        self._parameters = (kind, gamma, degree, coef0)
        self._squares = squared_norms(self._Z)
        self._exponents: FloatArray | None = None
        if kind == "rbf" and not sp.issparse(self._Z):
            m, d = self._Z.shape
            # a common shift leaves distances alone and spares them cancellation
            self._centre = np.asarray(self._Z, dtype=np.float64).mean(axis=0) if m else np.zeros(d)
            shifted = self._Z - self._centre
            squares = squared_norms(shifted)
            with np.errstate(over="ignore"):
                are_moderate = gamma * squares.max(initial=0.0) < _LARGEST_SHIFTED_EXPONENT
            if are_moderate:
                # times a row (x, |x|², 1) this is -gamma |x-z|²: one product instead of five walks over the block
                self._exponents = np.empty((d + 2, m))
                np.multiply(shifted.T, 2 * gamma, out=self._exponents[:d])
                self._exponents[d] = -gamma
                self._exponents[d + 1] = -gamma * squares

    def block(self, X: Any) -> FloatArray:
        """Kernel values, (n, m) float64, of the rows of an (n, d) array or CSR matrix.

        Raises
        ------
        ValueError
            If the number of columns is not that of the fixed samples, or a value is not finite.
        """
        if type(X) is np.ndarray and (one_row := self._one_row(X)) is not None:
            return one_row
        X = check_matrix("X", X)
        n, d = X.shape
        if d != self._Z.shape[1]:
            raise ValueError(f"X has {d} columns but Z has {self._Z.shape[1]}")
        if self._exponents is None or sp.issparse(X):  # which would not be sparse any more after the shift
            return finish(inner_products(X, self._Z), squared_norms(X), self._squares, *self._parameters)
        rows = np.empty((n, d + 2))
        shifted = np.subtract(X, self._centre, out=rows[:, :d])
        np.vecdot(shifted, shifted, out=rows[:, d])
        rows[:, d + 1] = 1.0
        with np.errstate(over="ignore"):
            block: FloatArray = rows @ self._exponents
        np.minimum(block, 0.0, out=block)
        return np.exp(block, out=block)

    def _one_row(self, X: FloatArray) -> FloatArray | None:
        """`block` of one row, with half as many calls of NumPy: these take more time than the arithmetic.

        None if X is anything else than a finite row to which the one product applies.
        """
        d = self._Z.shape[1]
        if self._exponents is None or X.shape != (1, d) or X.dtype != np.float64:
            return None
        row = np.empty(d + 2)
        shifted = row[:d]
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(X[0], self._centre, out=shifted)
            square = float(shifted.dot(shifted))
            if not math.isfinite(square):
                return None
            row[d] = square
            row[d + 1] = 1.0
            block: FloatArray = row.dot(self._exponents)
        np.minimum(block, 0.0, out=block)
        np.exp(block, out=block)
        return block.reshape(1, -1)
