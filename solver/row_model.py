"""What models of two and of several classes have in common: they take raw rows, which their features make a matrix of.

How such features stand in a model file is here too, as both kinds of files hold them alike.
"""

from __future__ import annotations

import copy
import importlib.metadata
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, Self, TypeVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from solver.features import (
    Encoder,
    EncoderIdentity,
    FeatureCounts,
    FeatureError,
    MatrixData,
    MatrixFeatures,
    Table,
    TableFeatures,
    matrix_from_rows,
    table_from_rows,
)
from solver.features.encoded import TextDigests
from solver.file_fields import Fields, ModelFileError, Tensors
from solver.reading import Reading
from solver.typing import FloatArray

FittedFeatures = TableFeatures | MatrixFeatures
Said = TypeVar("Said")
"""What a model says of rows."""

_FEATURE_PREFIX: Final = "features."
_FEATURE_KINDS: Final[dict[str, type[TableFeatures] | type[MatrixFeatures]]] = {
    "table": TableFeatures,
    "matrix": MatrixFeatures,
}
# characters of the name of a column, what a request may hold
_MAX_KEY: Final = 1000
OVERFLOW_IS_FOUND: Final = np.errstate(over="ignore", invalid="ignore")
"""Around a decision: NumPy need not warn of overflow to infinity, as a score that is not finite is refused."""


def producer() -> dict[str, str]:
    """Versions of what trains a model."""
    return {
        "prefsvm": importlib.metadata.version("prefsvm"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


class RowModel(ABC, Generic[Said]):
    """A trained classifier that takes raw rows.

    Attributes
    ----------
    features : TableFeatures, MatrixFeatures or None
        None: the model takes feature matrices as they are.
    """

    features: FittedFeatures | None

    @property
    def columns(self) -> list[dict[str, Any]]:
        """`{"name", "kind"}` of the raw columns that `predict` needs; empty for matrices, whose gaps are zeros."""
        return [] if self.features is None else list(self.features.columns)

    @property
    def encoder(self) -> EncoderIdentity | None:
        """Which encoder makes vectors of the texts of rows; None where none is needed."""
        return self.features.encoded.identity if isinstance(self.features, TableFeatures) else None

    def encoding_by(self, encoder: Encoder) -> Self:
        """The same model with an encoder at hand, which is the one that it was trained with."""
        if not isinstance(self.features, TableFeatures):
            return self
        features = _with_encoder(self.features, encoder)
        return cast("Self", replace(cast("Any", self), features=features))

    def parse_rows(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Table | MatrixData, list[str]]:
        """Turn JSON rows into what `predict` takes.

        Returns
        -------
        data : Table or MatrixData
        extra : list of str
            Names in the rows that the model does not use.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows` and `matrix_from_rows`.
        """
        if self.features is None:
            raise FeatureError("this model takes feature matrices, not rows")
        if isinstance(self.features, TableFeatures):
            return table_from_rows(rows, self.features.columns, self.features.readings)
        return matrix_from_rows(rows, self.features.first_index, self.features.n_features)

    @OVERFLOW_IS_FOUND
    def feature_matrix(
        self, data: Table | MatrixData, *, refuse_unreadable: bool = True
    ) -> tuple[FloatArray | sparse.csr_array, FeatureCounts]:
        """What the decision function sees of rows, and what had to be bridged.

        Parameters
        ----------
        data : Table or MatrixData
        refuse_unreadable : bool, default True
            See `TableFeatures.transform`.

        Raises
        ------
        FeatureError
            If `data` has not the columns that training had, or holds what cannot be read.
        """
        if isinstance(self.features, TableFeatures) and isinstance(data, Table):
            return self.features.transform(data, refuse_unreadable=refuse_unreadable)
        if isinstance(self.features, MatrixFeatures) and isinstance(data, MatrixData):
            return self.features.transform(data)
        expected = "a feature matrix" if self.features is None else f"a {self.features.kind}"
        raise FeatureError(f"the model takes {expected}, got {type(data).__name__}")

    def telling_matrix(self, data: Table | MatrixData) -> FloatArray | sparse.csr_array:
        """What tells rows apart, for `solver.labelled_rows.fingerprints`: their features, whatever is unreadable.

        Of a text that is encoded the text counts instead of its vector: no encoder makes the same bits each time.
        """
        identity = self.encoder
        model = self if identity is None else self.encoding_by(TextDigests(identity.dimensions))
        return model.feature_matrix(data, refuse_unreadable=False)[0]

    def texts_of_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the different texts of JSON rows that have to be encoded; raises as `parse_rows`."""
        return self.features.texts_of_rows(rows) if isinstance(self.features, TableFeatures) else []

    def read_again(self, held: Mapping[str, Reading]) -> dict[str, Reading]:
        """Return the columns of a file whose texts are needed, see `TableFeatures.read_again`."""
        return self.features.read_again(held) if isinstance(self.features, TableFeatures) else {}

    def predict(self, data: Table | MatrixData) -> Said:
        """Label rows.

        Raises
        ------
        FeatureError
            If `data` has not the columns that training had, or a score leaves the range of float64.
        """
        X, counts = self.feature_matrix(data)
        return self.decide(X, counts)

    @OVERFLOW_IS_FOUND
    def matrix_of_rows(
        self, rows: Sequence[Mapping[str, Any]], encoder: Encoder | None = None
    ) -> tuple[FloatArray | sparse.csr_array, FeatureCounts, list[str]]:
        """What the decision function sees of JSON rows, what had to be bridged, and names that are not used.

        Parameters and errors are those of `predict_rows`.
        """
        if isinstance(self.features, TableFeatures):
            return self.features.transform_rows(rows, encoder)
        data, extra = self.parse_rows(rows)
        return *self.feature_matrix(data), extra

    def predict_rows(self, rows: Sequence[Mapping[str, Any]], encoder: Encoder | None = None) -> tuple[Said, list[str]]:
        """Label JSON rows: what `parse_rows` and `predict` do, sooner.

        Parameters
        ----------
        rows : sequence of mappings
        encoder : Encoder, optional
            For these rows alone, instead of that of `encoding_by`.

        Returns
        -------
        predictions
        extra : list of str
            Names in the rows that the model does not use.

        Raises
        ------
        FeatureError
            As `parse_rows` and `predict`.
        """
        X, counts, extra = self.matrix_of_rows(rows, encoder)
        return self.decide(X, counts), extra

    @abstractmethod
    def decide(self, X: FloatArray | sparse.csr_array, counts: FeatureCounts) -> Said:
        """Label what `feature_matrix` gave; raises `FeatureError` if a score leaves the range of float64."""


def _with_encoder(features: TableFeatures, encoder: Encoder) -> TableFeatures:
    made = copy.copy(features)
    made.encoder = encoder
    return made


# -- in files ----------------------------------------------------------------------------------------------------------


def feature_tensors(features: FittedFeatures | None) -> dict[str, NDArray[Any]]:
    """The arrays of fitted features in a file."""
    return {} if features is None else {_FEATURE_PREFIX + name: array for name, array in features.state()[0].items()}


def feature_manifest(features: FittedFeatures | None) -> dict[str, Any] | None:
    """The JSON part of fitted features in a file."""
    return None if features is None else {"kind": features.kind, **features.state()[1]}


def read_features(fields: Fields | None, tensors: Tensors, n_features: int) -> FittedFeatures | None:
    """The features of a file whose support vectors have so many; raises `ModelFileError`, `FeatureError`."""
    if fields is None:
        return None
    cls = _FEATURE_KINDS[fields.choice("kind", tuple(_FEATURE_KINDS))]
    types = cls.array_types(fields.values)
    arrays = {name: tensors.take(_FEATURE_PREFIX + name, (type_,)) for name, type_ in types.items()}
    features = cls.from_state(arrays, fields.values)
    if features.n_features != n_features:
        raise ModelFileError(f"the features are {features.n_features} wide, the support vectors {n_features}")
    return features


def read_key(value: Any) -> str | None:
    """Return the column that names the rows; models of before know of none."""
    if value is None or (type(value) is str and 0 < len(value) <= _MAX_KEY):
        return value
    raise ModelFileError(f"manifest: 'key' must be null or text of at most {_MAX_KEY} characters")
