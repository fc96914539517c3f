"""Data sets that come as one matrix (svmlight, NPZ) → a feature matrix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features.columns import FeatureCounts
from solver.features.errors import BadValue, FeatureError, StateError
from solver.features.matrix_scales import MATRIX_ARRAYS, MatrixScales, see_columns
from solver.features.wild_values import wild_warnings
from solver.typing import FloatArray, IndexArray

# longer feature numbers in a row are not looked at: no matrix is that wide
MAX_INDEX_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class MatrixData:
    """Rows whose columns have numbers instead of names.

    Attributes
    ----------
    X : csr_array or ndarray, shape (rows, columns)
        Any numeric dtype.
    first_index : int, default 1
        The number that the caller knows column 0 by: 1 for svmlight files, 0 where they count from zero.
    """

    X: sparse.csr_array | NDArray[Any]
    first_index: int = 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def take(self, rows: IndexArray) -> MatrixData:
        """Those rows, in that order, as a matrix of its own."""
        return MatrixData(self.X[rows], self.first_index)


class MatrixFeatures:
    """Divides each column by its standard deviation over the fitted rows and cuts it, so that zeros stay zeros.

    A value is cut at `CUT` standard deviations from the mean. The mean is not taken off, so that a sparse matrix stays
    sparse; where zero itself is beyond the cut, the cut is. A column of two values (0 and 1, above all) is divided by
    its largest absolute value instead. Wild values (`find_wild`) have no part in these figures.

    The matrix keeps its form (CSR or dense) and width. Columns that the fitted rows have only zeros in, and excluded
    ones, become all zero: the classifier has learned nothing about them. Entries that are not finite count as zero.

    Parameters
    ----------
    include : sequence of str, optional
        The only columns that may become features, as the numbers the caller knows them by. Default: all.
    exclude : sequence of str, default ()
        Columns that never become features.

    Attributes
    ----------
    n_features : int
        Width of the fitted matrix.
    first_index : int
        Number of column 0, see `MatrixData`.
    sparse : bool
        Whether the fitted matrix was CSR; `transform` gives the same form.
    warnings : list of str
        What `fit` noticed.
    """

    kind: Literal["matrix"] = "matrix"
    columns: Sequence[dict[str, Any]] = ()
    """No named columns are needed; an entry that is not given is zero."""

    def __init__(self, *, include: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> None:
        self.include = None if include is None else tuple(include)
        self.exclude = tuple(exclude)
        self.warnings: list[str] = []

    def fit(self, data: MatrixData) -> Self:
        """Learn the scale of each column from these rows.

        Raises
        ------
        FeatureError
            If `include` or `exclude` names a column that is not there, or no column is left.
        """
        self.first_index = data.first_index
        self.sparse = not isinstance(data.X, np.ndarray)
        self.n_features = int(data.X.shape[1])
        self.warnings = []
        X, n_replaced = _finite(data.X)
        if n_replaced:
            self.warnings.append(f"{n_replaced} entries are not finite and count as zero")
        if self.n_features == 0 or X.shape[0] == 0:
            raise FeatureError("the matrix is empty")
        seen = see_columns(X)
        used = seen.largest > 0
        if self.include is not None:
            chosen = np.zeros_like(used)
            chosen[self._positions(self.include)] = True
            used &= chosen
        used[self._positions(self.exclude)] = False
        if not used.any():
            raise FeatureError("no column is left as a feature: all are excluded or zero in the training rows")
        self._scales = MatrixScales.of(seen, used)
        n_left_out = int(np.count_nonzero(self._scales.factor == 0))
        if n_left_out:
            self.warnings.append(f"{n_left_out} of {self.n_features} matrix columns are excluded or zero in training")
        self.warnings += wild_warnings(
            [
                (str(self.first_index + at), wild, self._scales.limit_of(at, wild.furthest))
                for at, wild in seen.wild.items()
                if self._scales.factor[at] > 0
            ]
        )
        return self

    def _positions(self, names: Sequence[str]) -> list[int]:
        positions = [_position(name, self.first_index, self.n_features) for name in names]
        unknown = [name for name, position in zip(names, positions, strict=True) if position is None]
        if unknown:
            raise FeatureError(f"no such column: {', '.join(repr(name) for name in unknown)}")
        return [position for position in positions if position is not None]

    def transform(self, data: MatrixData) -> tuple[FloatArray | sparse.csr_array, FeatureCounts]:
        """Scale rows. A narrower matrix is filled up with zeros, columns beyond the fitted width are ignored.

        Returns
        -------
        X : ndarray of float64 (C order) or csr_array, shape (rows, n_features)
            In the form that was fitted.
        counts : FeatureCounts
        """
        X, extra = _finite(data.X)
        n, width = X.shape[0], self.n_features
        if X.shape[1] > width:
            beyond = X[:, width:]
            extra += int(np.count_nonzero(beyond if isinstance(beyond, np.ndarray) else beyond.data))
            X = X[:, :width]
        counts = FeatureCounts(extra=extra)
        if not self.sparse:
            dense = np.zeros((n, width))
            dense[:, : X.shape[1]] = X if isinstance(X, np.ndarray) else X.toarray()
            self._scales.scale_dense(dense, self.first_index, counts)
            return dense, counts
        narrow = sparse.csr_array(X)
        scaled = sparse.csr_array(
            (narrow.data.astype(np.float64), narrow.indices, narrow.indptr), shape=(n, width), copy=True
        )
        scaled.sum_duplicates()
        self._scales.scale_sparse(scaled, self.first_index, counts)
        scaled.eliminate_zeros()
        return scaled, counts

    @property
    def feature_names(self) -> list[str]:
        """The columns' numbers as text."""
        return [str(self.first_index + j) for j in range(self.n_features)]

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What was fitted, as arrays and as JSON-ready values; `from_state` takes both."""
        limits = {"limits": True} if self._scales.has_limits else {}
        return self._scales.state(), {"sparse": self.sparse, "first_index": self.first_index} | limits

    @staticmethod
    def array_types(meta: Mapping[str, Any]) -> dict[str, str]:
        """Names and types of the arrays that `from_state` needs, by what `meta` says of them."""
        return dict.fromkeys(MATRIX_ARRAYS if meta.get("limits") is True else MATRIX_ARRAYS[:1], "float64")

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Rebuild from `state`, believing nothing.

        Raises
        ------
        StateError
            If a part is not possible.
        """
        self = cls()
        self._scales = MatrixScales.from_state(arrays)
        if not isinstance(meta.get("sparse"), bool):
            raise StateError("matrix features: 'sparse' must be true or false")
        first_index = meta.get("first_index")
        if type(first_index) is not int or first_index not in (0, 1):
            raise StateError("matrix features: 'first_index' must be 0 or 1")
        self.n_features, self.sparse, self.first_index = len(self._scales.factor), meta["sparse"], first_index
        return self

    @property
    def limits(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What each column is multiplied by, where it is cut then, and what is taken off at last."""
        scales = self._scales
        return scales.factor, scales.limit_low, scales.limit_high, scales.offset


def matrix_from_rows(
    rows: Sequence[Mapping[str, Any]], first_index: int, n_features: int
) -> tuple[MatrixData, list[str]]:
    """Make a sparse matrix of JSON rows such as `{"3": 0.5, "17": 1}`.

    Parameters
    ----------
    rows : sequence of mappings
        Column number, as text, to a finite number; what is not named is zero.
    first_index : int
        Number of the first column.
    n_features : int
        Width of the matrix.

    Returns
    -------
    data : MatrixData
        In CSR form.
    extra : list of str
        Names that are no column of the matrix, sorted.

    Raises
    ------
    BadValue
        For the first value that is not a finite number.
    """
    data: list[float] = []
    indices: list[int] = []
    ends = [0]
    extra: set[str] = set()
    for i, row in enumerate(rows):
        for name, value in row.items():
            position = _position(name, first_index, n_features)
            if position is None:
                extra.add(name)
                continue
            if type(value) not in (int, float, bool):
                raise BadValue(i, name, "a finite number")
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if not math.isfinite(number):
                raise BadValue(i, name, "a finite number")
            data.append(number)
            indices.append(position)
        ends.append(len(data))
    X = sparse.csr_array(
        (np.array(data, dtype=np.float64), np.array(indices, dtype=np.int64), np.array(ends, dtype=np.int64)),
        shape=(len(rows), n_features),
    )
    X.sort_indices()
    return MatrixData(X, first_index), sorted(extra)


def matrix_rows(data: MatrixData) -> list[dict[str, float]]:
    """Return the rows of a matrix as JSON has them: what `matrix_from_rows` takes."""
    X = sparse.csr_array(data.X)
    made = []
    for start, end in itertools.pairwise(X.indptr.tolist()):
        entries = zip((X.indices[start:end] + data.first_index).tolist(), X.data[start:end].tolist(), strict=True)
        made.append({str(column): value for column, value in entries if value and math.isfinite(value)})
    return made


def _position(name: str, first_index: int, n_features: int) -> int | None:
    """Place of a column that is named by its number, None if there is none; `"07"` names no column."""
    if not (name.isascii() and name.isdigit() and len(name) <= MAX_INDEX_DIGITS) or (name[0] == "0" and name != "0"):
        return None
    position = int(name) - first_index
    return position if 0 <= position < n_features else None


def _finite(X: sparse.csr_array | NDArray[Any]) -> tuple[sparse.csr_array | NDArray[Any], int]:
    """The matrix with zeros where it is not finite (copied only then), and how many those were."""
    entries = X if isinstance(X, np.ndarray) else X.data
    finite = np.isfinite(entries)
    n_replaced = int(entries.size - np.count_nonzero(finite))
    if n_replaced == 0:
        return X, 0
    replaced = np.where(finite, entries, 0)
    if isinstance(X, np.ndarray):
        return replaced, n_replaced
    return sparse.csr_array((replaced, X.indices, X.indptr), shape=X.shape), n_replaced
