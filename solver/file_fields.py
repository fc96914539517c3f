"""What a model file says, read field by field and array by array, trusting nothing of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.kernels.values import KINDS
from solver.typing import Matrix

FORMAT: Final = "prefsvm-model"
FLOATS: Final = ("float64", "float32")
INTEGERS: Final = ("int64", "int32")
MAX_LABEL: Final = 512
"""Characters of a class label in a file: what training allows, with room for a word before it."""
_MAX_FEATURES: Final = 1 << 24
_MAX_DEGREE: Final = 100


class ModelFileError(ValueError):
    """The bytes are no model file, are damaged, or lie; its text says what was found and what was expected."""


class Fields:
    """Typed access to one JSON object, with errors that name the place."""

    def __init__(self, place: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise ModelFileError(f"{place} must be a JSON object")
        self.place = place
        self.values: dict[str, Any] = value

    def get(self, name: str, kind: type[Any]) -> Any:
        """A value of just this type."""
        value = self.values.get(name)
        if type(value) is not kind:
            raise ModelFileError(f"{self.place}: {name!r} must be there and be of type {kind.__name__}")
        return value

    def number(self, name: str) -> float:
        """A finite number."""
        value = self.values.get(name)
        if type(value) is int and abs(value) < 1 << 53:
            value = float(value)
        if type(value) is not float or not math.isfinite(value):
            raise ModelFileError(f"{self.place}: {name!r} must be a finite number")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """A whole number within these bounds."""
        value: int = self.get(name, int)
        if not low <= value <= high:
            raise ModelFileError(f"{self.place}: {name!r} must lie between {low} and {high}")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these texts."""
        value: str = self.get(name, str)
        if value not in choices:
            raise ModelFileError(f"{self.place}: {name!r} must be one of {', '.join(choices)}")
        return value

    def object(self, name: str) -> Fields:
        """The fields of an object."""
        return Fields(f"{self.place}.{name}", self.values.get(name))

    def object_or_null(self, name: str) -> Fields | None:
        """The same, or None for null or nothing."""
        return None if self.values.get(name) is None else self.object(name)


class Tensors:
    """Typed access to the arrays; each is taken once, and none may be left over."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.arrays = arrays

    def take(self, name: str, kinds: Sequence[str], shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """One array of one of the dtypes, finite, of the given shape (default: any one-dimensional)."""
        array = self.arrays.pop(name, None)
        if array is None:
            raise ModelFileError(f"array {name!r} is missing")
        if array.dtype.name not in kinds:
            raise ModelFileError(f"array {name!r}: expected {' or '.join(kinds)}, found {array.dtype}")
        if (array.ndim != 1) if shape is None else (array.shape != shape):
            raise ModelFileError(f"array {name!r}: expected shape {shape or '(n,)'}, found {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"array {name!r} holds NaN or infinity")
        return array


def csr_matrix(tensors: Tensors, n: int, d: int, name: str = "support_vectors") -> sparse.csr_array:
    """SciPy's loops trust indices, so all are checked: in range, and ascending within each row."""
    data = tensors.take(f"{name}.data", FLOATS)
    indptr = tensors.take(f"{name}.indptr", INTEGERS, (n + 1,))
    indices = tensors.take(f"{name}.indices", INTEGERS, data.shape)
    if indices.dtype != indptr.dtype:
        raise ModelFileError(f"{name}: indices and indptr must be of one type")
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise ModelFileError(f"{name}.indptr must ascend from 0 to the number of entries")
    if len(indices) and (indices.min() < 0 or indices.max() >= d):
        raise ModelFileError(f"{name}.indices must lie between 0 and {d - 1}")
    falls = np.flatnonzero(indices[1:] <= indices[:-1]) + 1
    if not np.isin(falls, indptr).all():
        raise ModelFileError(f"{name}.indices must ascend within each row")
    return sparse.csr_array((data, indices, indptr), shape=(n, d))


def is_label(value: object) -> bool:
    """Whether a value can be the label of a class."""
    if type(value) is str:
        return len(value) <= MAX_LABEL
    return type(value) in (bool, float) or (type(value) is int and abs(value) < 1 << 63)


def kernel_of(fields: Fields) -> tuple[str, float, int, float]:
    """Kind, gamma, degree and coef0 of a kernel."""
    gamma = fields.number("gamma")
    if gamma <= 0:
        raise ModelFileError(f"{fields.place}: 'gamma' must be above 0")
    return fields.choice("kernel", KINDS), gamma, fields.integer("degree", 1, _MAX_DEGREE), fields.number("coef0")


def support_vectors(fields: Fields, tensors: Tensors, rows: int) -> Matrix:
    """So many of them, dense or sparse."""
    width = fields.integer("n_features", 1, _MAX_FEATURES)
    if fields.choice("layout", ("dense", "csr")) == "dense":
        return tensors.take("support_vectors", FLOATS, (rows, width))
    return csr_matrix(tensors, rows, width)


def read_producer(manifest: Fields) -> dict[str, str]:
    """Versions of what trained a model."""
    producer = manifest.object("producer").values
    if not all(isinstance(value, str) for value in producer.values()):
        raise ModelFileError("manifest.producer must map text to text")
    return producer
