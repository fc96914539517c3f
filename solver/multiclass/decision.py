"""The fitted decision between several classes, as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.decision import DecisionState
from solver.kernels.values import KernelColumns
from solver.multiclass.calibration import Calibration
from solver.multiclass.problems import Scheme, highest, votes
from solver.multiclass.rule import ClassRule
from solver.typing import FloatArray, IndexArray, Matrix

_BLOCK_ELEMENTS: Final = 1 << 19
_SCORES_AT_ONCE: Final = 1 << 20
"""Rows times problems: 8 MB."""
_SMALL: Final = 1 << 16
_TIMES_STORED: Final = 8
"""A matrix is held with its zeros where it is small, or takes no more elements than so many times those stored."""


@dataclass(frozen=True)
class SharedExpansion:
    """Scores of several problems of two classes, which have kernel and support vectors in common.

    Attributes
    ----------
    kind : str
        `rbf`, `linear`, `poly` or `sigmoid`.
    gamma, degree, coef0 : float, int, float
        Parameters of the kernel, as numbers.
    support_vectors : dense array or CSR matrix of shape (m, d)
        Those of any of them.
    coefficients : CSR matrix of shape (problems, m), float64
        A pair has none of other classes' rows: with its zeros it would take half as many times the memory as there are
        classes.
    intercepts : float64 array of shape (problems,)
    """

    kind: str
    gamma: float
    degree: int
    coef0: float
    support_vectors: Matrix
    coefficients: sparse.csr_array
    intercepts: FloatArray

    def scores(self, X: Matrix) -> FloatArray:
        """Scores of rows, (n, problems)."""
        planes = self._planes
        if planes is not None:
            return np.asarray(X @ planes + self.intercepts, dtype=np.float64)
        n, step = X.shape[0], max(1, _BLOCK_ELEMENTS // max(1, self.coefficients.shape[1]))
        scores = np.empty((n, len(self.intercepts)))
        for start in range(0, n, step):
            scores[start : start + step] = self._sums(self._columns.block(X[start : start + step]))
        scores += self.intercepts
        return scores

    @property
    def prepared_nbytes(self) -> int:
        """What scoring adds at most: coefficients or planes with their zeros, support vectors with their lengths."""
        most = max(_SMALL, _TIMES_STORED * (self.coefficients.nnz + int(np.prod(self.support_vectors.shape))))
        shapes = self.coefficients.shape, (self.support_vectors.shape[1], len(self.intercepts))
        held = max(min(most, int(rows) * int(columns)) for rows, columns in shapes)
        return 8 * (held + 2 * int(self.support_vectors.shape[0]))

    @cached_property
    def _planes(self) -> FloatArray | None:
        return planes_of(self.coefficients, self.support_vectors) if self.kind == "linear" else None

    @cached_property
    def _sums(self) -> Sums:
        return Sums(self.coefficients)

    @cached_property
    def _columns(self) -> KernelColumns:
        return KernelColumns(self.support_vectors, self.kind, self.gamma, self.degree, self.coef0)


class Sums:
    """Sums of kernel values by the coefficients of all problems.

    Parameters
    ----------
    coefficients : CSR matrix of shape (problems, m)
    """

    def __init__(self, coefficients: sparse.csr_array) -> None:
        self._coefficients = coefficients
        # products with zeros are quicker than finding those without
        self._dense: FloatArray | None = None
        if _is_worth_its_zeros(coefficients.shape, coefficients.nnz):
            self._dense = np.ascontiguousarray(coefficients.toarray().T)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Scores without intercepts, (n, problems), of kernel values, (n, m)."""
        if self._dense is not None:
            return values @ self._dense
        return np.asarray((self._coefficients @ np.ascontiguousarray(values.T)).T)


def planes_of(coefficients: sparse.csr_array, vectors: Matrix) -> FloatArray | None:
    """The planes of a linear kernel, (d, problems); None where they are much larger than what they are made of.

    Parameters
    ----------
    coefficients : CSR matrix of shape (problems, m)
    vectors : dense array or CSR matrix of shape (m, d)
    """
    stored = coefficients.nnz + (vectors.nnz if sparse.issparse(vectors) else vectors.size)
    if not _is_worth_its_zeros((vectors.shape[1], coefficients.shape[0]), stored):
        return None
    products = coefficients @ vectors
    return np.ascontiguousarray(products.toarray().T if sparse.issparse(products) else products.T, np.float64)


def _is_worth_its_zeros(shape: tuple[int, ...], stored: int) -> bool:
    """Whether a matrix has few elements, or few zeros; a small file that names a large shape makes no large one."""
    return shape[0] * shape[1] <= max(_SMALL, _TIMES_STORED * stored)


@dataclass(frozen=True)
class ProblemScores:
    """Scores of all problems of two classes, those with a kernel in common together.

    Attributes
    ----------
    expansions : tuple of SharedExpansion
    places : tuple of int arrays
        Of each: which problems it scores.
    """

    expansions: tuple[SharedExpansion, ...]
    places: tuple[IndexArray, ...]

    @classmethod
    def of_one(cls, expansion: SharedExpansion) -> ProblemScores:
        """Problems that have all in common."""
        return cls((expansion,), (np.arange(len(expansion.intercepts)),))

    @classmethod
    def of_states(cls, states: Sequence[DecisionState], subtracted: Sequence[float]) -> ProblemScores:
        """The scores of fitted decisions, less a number each; support vectors that several have are kept once."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, state in enumerate(states):
            is_sparse = sparse.issparse(state.support_vectors)
            kernel = (state.kind, state.gamma, state.degree, state.coef0, is_sparse, state.support_vectors.dtype.str)
            groups.setdefault(kernel, []).append(place)
        expansions = []
        for (kind, gamma, degree, coef0, *_), places in groups.items():
            vectors, rows = _without_repeats([states[place].support_vectors for place in places])
            ends = np.cumsum([0, *map(len, rows)])
            each = np.concatenate([states[place].dual_coef for place in places])
            coefficients = sparse.csr_array((each, np.concatenate(rows), ends), shape=(len(places), vectors.shape[0]))
            coefficients.sum_duplicates()
            intercepts = np.array([states[place].intercept - subtracted[place] for place in places])
            expansions.append(SharedExpansion(kind, gamma, degree, coef0, vectors, coefficients, intercepts))
        return cls(tuple(expansions), tuple(np.array(places) for places in groups.values()))

    @property
    def problems(self) -> int:
        """How many there are."""
        return sum(map(len, self.places))

    def __call__(self, X: Matrix) -> FloatArray:
        """Scores of rows, (n, problems)."""
        if len(self.expansions) == 1:
            return self.expansions[0].scores(X)
        scores = np.empty((X.shape[0], self.problems))
        for expansion, places in zip(self.expansions, self.places, strict=True):
            scores[:, places] = expansion.scores(X)
        return scores

    def of_problem(self, problem: int, sign: float = 1.0) -> DecisionState:
        """The score of one problem alone, or less that score, with the support vectors that it has.

        Parameters
        ----------
        problem : int
        sign : {1.0, -1.0}
        """
        for expansion, places in zip(self.expansions, self.places, strict=True):
            (found,) = np.nonzero(places == problem)
            if len(found):
                row = expansion.coefficients[found, :].tocsr()
                return DecisionState(
                    expansion.kind, expansion.gamma, expansion.degree, expansion.coef0,
                    expansion.support_vectors[row.indices], sign * row.data,
                    sign * float(expansion.intercepts[found[0]]), 0.0,
                )  # fmt: skip
        raise ValueError(f"there is no problem {problem}")

    def mapped(self, X: Matrix, of_scores: Callable[[FloatArray], NDArray[Any]]) -> NDArray[Any]:
        """What a function makes of the scores of rows, (n, problems), which are never all in memory at once.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        of_scores : callable
            Takes the scores of some rows, and gives as many values, or lines of values.
        """
        step = max(1, _SCORES_AT_ONCE // max(1, self.problems))
        if X.shape[0] <= step:
            return of_scores(self(X))
        return np.concatenate([of_scores(self(X[start : start + step])) for start in range(0, X.shape[0], step)])


def _without_repeats(matrices: Sequence[Matrix]) -> tuple[Matrix, list[IndexArray]]:
    """All different rows of some matrices, and which of these are those of each."""
    known: dict[bytes, int] = {}
    firsts: list[list[int]] = [[] for _ in matrices]
    rows: list[IndexArray] = []
    for number, matrix in enumerate(matrices):
        own = np.empty(matrix.shape[0], dtype=np.intp)
        for row in range(matrix.shape[0]):
            if sparse.issparse(matrix):
                part = slice(matrix.indptr[row], matrix.indptr[row + 1])
                key = matrix.indices[part].astype(np.int64).tobytes() + b"|" + matrix.data[part].tobytes()
            else:
                key = matrix[row].tobytes()
            if key not in known:
                known[key] = len(known)
                firsts[number].append(row)
            own[row] = known[key]
        rows.append(own)
    return stacked([matrix[first] for matrix, first in zip(matrices, firsts, strict=True)]), rows


def stacked(matrices: Sequence[Any]) -> Matrix:
    """Matrices of one kind, one below the other."""
    if isinstance(matrices[0], np.ndarray):
        return np.vstack(matrices)
    below = sparse.csr_array(sparse.vstack(matrices))
    below.sort_indices()
    return below


@dataclass(frozen=True)
class ClassesDecision:
    """From scores of problems of two classes to probabilities and a class.

    Attributes
    ----------
    scheme : {"one_vs_rest", "one_vs_one"}
    counts : int array of shape (classes,)
        Labelled rows: among equals the larger class is said, then the first one.
    calibration : Calibration or None
    rule : ClassRule or None
        None: the class of the highest score, or of the most votes, is said.
    """

    scheme: Scheme
    counts: IndexArray
    calibration: Calibration | None
    rule: ClassRule | None

    def of_classes(self, scores: FloatArray) -> FloatArray:
        """A value of each class, (n, classes), the highest of which wins, from scores, (n, problems)."""
        if len(self.counts) == 2:
            return np.column_stack([-scores[:, 0], scores[:, 0]])
        return votes(scores, len(self.counts)) if self.scheme == "one_vs_one" else scores

    def says(self, scores: FloatArray) -> IndexArray:
        """Class of each row, -1 for one that is left undecided."""
        if self.rule is not None and self.calibration is not None:
            return self.rule.says(self.calibration(scores))
        if len(self.counts) == 2:
            return (scores[:, 0] > 0).astype(np.intp)
        return highest(self.of_classes(scores), self.counts)

    def best_two(self, scores: FloatArray) -> tuple[IndexArray, IndexArray]:
        """The class of each row that is said, or would be if it were sure enough, and the one that comes next."""
        if self.rule is not None and self.calibration is not None:
            values = self.rule.worth(self.calibration(scores))
        else:
            values = np.array(self.of_classes(scores))
        first = highest(values, self.counts)
        values[np.arange(len(values)), first] = -np.inf
        return first, highest(values, self.counts)

    def between(self, first: int, second: int) -> list[tuple[int, float]]:
        """The problems whose scores say how much a class is ahead of another, with the sign that each has.

        Of pairs it is the problem of these two, against the rest the one of each.
        """
        if self.scheme == "one_vs_rest":
            return [(first, 1.0), (second, -1.0)]
        low, high = sorted((first, second))
        classes = len(self.counts)
        place = low * (2 * classes - low - 1) // 2 + high - low - 1
        return [(place, 1.0 if first == high else -1.0)]

    def labels(self, said: IndexArray, classes: NDArray[Any]) -> NDArray[Any]:
        """Labels of classes that are said: an array of objects with None where some may be undecided."""
        labels: NDArray[Any] = classes[np.maximum(said, 0)]
        if self.rule is not None and self.rule.may_leave_undecided:
            labels = labels.astype(object)
            labels[said < 0] = None
        return labels
