"""Data sets → feature matrices. What was fitted is plain arrays and JSON, so that a model file can hold it."""

from solver.features.errors import BadValue, FeatureError, MissingColumns, StateError
from solver.features.matrix import MatrixData, MatrixFeatures, matrix_from_rows
from solver.features.table import Column, FeatureCounts, Table, TableFeatures, table_from_rows

__all__ = [
    "BadValue",
    "Column",
    "FeatureCounts",
    "FeatureError",
    "MatrixData",
    "MatrixFeatures",
    "MissingColumns",
    "StateError",
    "Table",
    "TableFeatures",
    "matrix_from_rows",
    "table_from_rows",
]
