"""Labelled rows that a row is like: those that a model keeps for that, and how like two rows are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.decision import DecisionState
from solver.features.errors import StateError
from solver.features.strings import pack_strings, unpack_strings
from solver.file_fields import FLOATS, ModelFileError, Tensors, csr_matrix
from solver.kernels.values import KernelColumns, prepared_nbytes
from solver.tensor_file import TensorFileError, read_tensors, write_tensors
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

# bytes of the features that are kept; of more labelled rows, some are drawn
MOST_BYTES: Final = 4 << 20
# a longer key is not kept: it is looked up by the number of the row
_MOST_OF_A_KEY: Final = 1000
_ADDED: Final = -1
_OF_X: Final = ("data", "indices", "indptr")


class KeptRowsError(ValueError):
    """The bytes are not those of rows that were kept."""


@dataclass(frozen=True)
class KeptRows:
    """Labelled rows as a model saw them, to be compared with others.

    Attributes
    ----------
    numbers : int64 array of shape (rows,)
        In the data set of the training; -1 of rows that only feedback had.
    positive : bool array of shape (rows,)
        Their labels.
    X : float32 matrix of shape (rows, features)
    labelled : int
        How many there were: these, or these were drawn from them at random.
    keys : list of str or None
        What names them, where the training had a key.
    """

    numbers: NDArray[np.int64]
    positive: BoolArray
    X: Matrix
    labelled: int
    keys: list[str | None]

    @classmethod
    def of(
        cls, X: Matrix, labelled: IndexArray, positive: BoolArray, numbers: IndexArray, given: int, seed: int
    ) -> Self:
        """Keep as many of the labelled rows as fit into `MOST_BYTES`, at least one.

        Parameters
        ----------
        X : matrix
            Features of all rows.
        labelled : int array
            Which of them have a label.
        positive : bool array
            Of these, their labels.
        numbers : int array
            Of these, in the data set.
        given : int
            Rows of the data set: larger numbers are of rows that were added.
        seed : int
        """
        order = np.random.default_rng(seed).permutation(len(labelled))
        if sparse.issparse(X):
            sizes = 8 * np.diff(X.indptr)[labelled[order]].astype(np.int64) + 8
        else:
            sizes = np.full(len(order), 4 * X.shape[1], dtype=np.int64)
        kept = np.sort(order[: max(1, int(np.searchsorted(np.cumsum(sizes), MOST_BYTES, side="right")))])
        own = numbers[kept].astype(np.int64)
        with np.errstate(over="ignore"):
            some = X[labelled[kept]].astype(np.float32)
        return cls(np.where(own < given, own, _ADDED), positive[kept], some, len(labelled), [None] * len(kept))

    def named_by(self, keys: Sequence[str | None]) -> KeptRows:
        """The same with the keys of the rows, of which `keys` has all of the data set."""
        named = [None if number == _ADDED else keys[number] for number in self.numbers.tolist()]
        short = [None if key is None or len(key) > _MOST_OF_A_KEY else key for key in named]
        return replace(self, keys=short)

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        keys = sum(len(key) + 64 for key in self.keys if key is not None)
        return _nbytes(self.X) + self.numbers.nbytes + keys + (1 << 12)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `read` reads."""
        text, ends = pack_strings([key or "" for key in self.keys])
        tensors: dict[str, NDArray[Any]] = {
            "numbers": self.numbers,
            "positive": self.positive.astype(np.uint8),
            "key_text": text,
            "key_ends": ends,
            "has_key": np.array([key is not None for key in self.keys], dtype=np.uint8),
            "shape": np.array([*self.X.shape, self.labelled], dtype=np.int64),
        }
        if sparse.issparse(self.X):
            tensors |= {"data": self.X.data, "indices": self.X.indices.astype(np.int32)}
            tensors["indptr"] = self.X.indptr.astype(np.int64)
        else:
            tensors["data"] = np.ascontiguousarray(self.X)
        write_tensors(path, tensors, {})

    @classmethod
    def read(cls, stored: bytes) -> Self:
        """Read what `write` wrote; raises `KeptRowsError` where the parts contradict each other."""
        try:
            stored_arrays, _ = read_tensors(stored)
            if "indptr" in stored_arrays:  # of the type of the indices, as SciPy wants them
                stored_arrays["indptr"] = stored_arrays["indptr"].astype(np.int32)
            arrays = Tensors({f"X.{name}" if name in _OF_X else name: each for name, each in stored_arrays.items()})
            rows, width, labelled = arrays.take("shape", ("int64",), (3,)).tolist()
            is_sparse = "X.indptr" in arrays.arrays
            X = csr_matrix(arrays, rows, width, "X") if is_sparse else arrays.take("X.data", FLOATS, (rows, width))
            keys = unpack_strings(arrays.take("key_text", ("uint8",)), arrays.take("key_ends", ("int64",)))
            has_key = arrays.take("has_key", ("uint8",), (rows,)).astype(bool).tolist()
            numbers = arrays.take("numbers", ("int64",), (rows,))
            positive = arrays.take("positive", ("uint8",), (rows,)).astype(bool)
        except (TensorFileError, StateError, ModelFileError) as error:
            raise KeptRowsError(f"the kept rows cannot be read: {error}") from error
        if not len(keys) == rows <= labelled:
            raise KeptRowsError("the kept rows need a number, a label and a key each")
        named = [key if there else None for key, there in zip(keys, has_key, strict=True)]
        return cls(numbers, positive, X, labelled, named)


class DecisionKernel(Protocol):
    """What a decision compares rows by."""

    @property
    def kind(self) -> str:
        """`rbf`, or another one."""

    @property
    def gamma(self) -> float:
        """See `SharedExpansion`, also of the others."""

    @property
    def degree(self) -> int:
        """Of a polynomial."""

    @property
    def coef0(self) -> float:
        """Of polynomials and sigmoids."""


class Likeness:
    """How like rows are to given ones, from 0 to 1.

    By the kernel of a model if it falls with the distance, else by the cosine.

    Parameters
    ----------
    decision : DecisionKernel
    B : matrix
        The given rows, which are prepared once.
    """

    def __init__(self, decision: DecisionKernel, B: Matrix) -> None:
        if decision.kind == "rbf":
            kernel = KernelColumns(B, "rbf", decision.gamma, decision.degree, decision.coef0)
            self._of: Callable[[Matrix], FloatArray] = kernel.block
            self.nbytes = prepared_nbytes(B, "rbf")
        else:
            unit = of_length_one(B)
            self._of = lambda A: cosines(A, unit)
            self.nbytes = _nbytes(unit)

    def __call__(self, A: Matrix) -> FloatArray:
        """Likeness of rows to the given ones, shape (rows of A, given rows)."""
        return self._of(A)


class Neighbours:
    """Labelled rows that are ready to be compared with others as a model does.

    Parameters
    ----------
    kept : KeptRows
    decision : DecisionState

    Attributes
    ----------
    nbytes : int
        About what it takes in memory.
    """

    def __init__(self, kept: KeptRows, decision: DecisionState) -> None:
        self.kept = kept
        self._likeness = Likeness(decision, kept.X)
        self.nbytes = kept.nbytes + self._likeness.nbytes

    def nearest(self, X: Matrix, most: int) -> list[list[tuple[int, float]]]:
        """Of each row of a matrix the places of those most like it, and how like it they are, the most like first."""
        made = []
        for row in self._likeness(X):
            best = np.argsort(-row, kind="stable")[:most]
            made.append(list(zip(best.tolist(), row[best].tolist(), strict=True)))
        return made


def _nbytes(X: Matrix) -> int:
    return sum(part.nbytes for part in ((X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)))


def cosines(A: Matrix, unit: Matrix) -> FloatArray:
    """Cosines of rows with others that `of_length_one` gave; 0 where they are below that."""
    products = of_length_one(A) @ unit.T
    found: FloatArray = products.toarray() if sparse.issparse(products) else np.asarray(products)
    return found.clip(0.0, 1.0)


def of_length_one(X: Matrix) -> Matrix:
    """The rows with a Euclidean length of 1; those of zeros stay such."""
    if sparse.issparse(X):
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ X)
    lengths = np.linalg.norm(X, axis=1)
    return X / np.where(lengths > 0, lengths, 1.0)[:, None]
