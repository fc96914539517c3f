"""Data sets → feature matrices. What was fitted is plain arrays and JSON, so that a model file can hold it."""

from solver import lean_scipy  # noqa: F401  # before anything loads SciPy
from solver.features.columns import FEATURE_KINDS, Column, FeatureCounts, FeatureKind, Table
from solver.features.encoded import Encoder, EncoderIdentity, EncoderNeeded, KnownVectors
from solver.features.errors import BadRow, BadValue, FeatureError, MissingColumns, StateError
from solver.features.matrix import MatrixData, MatrixFeatures, matrix_from_rows, matrix_rows
from solver.features.missing import MISSING_POLICIES, MissingPolicy, missing_values
from solver.features.rows import meant_rows, meant_table, table_from_rows
from solver.features.table import TableFeatures
from solver.features.texts import TextOptions

__all__ = [
    "FEATURE_KINDS",
    "MISSING_POLICIES",
    "BadRow",
    "BadValue",
    "Column",
    "Encoder",
    "EncoderIdentity",
    "EncoderNeeded",
    "FeatureCounts",
    "FeatureError",
    "FeatureKind",
    "KnownVectors",
    "MatrixData",
    "MatrixFeatures",
    "MissingColumns",
    "MissingPolicy",
    "StateError",
    "Table",
    "TableFeatures",
    "TextOptions",
    "matrix_from_rows",
    "matrix_rows",
    "meant_rows",
    "meant_table",
    "missing_values",
    "table_from_rows",
]
