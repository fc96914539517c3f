"""Vectors, such as those that encoders of texts, images or sounds make → one block of features each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from solver.features.columns import FeatureCounts
from solver.features.errors import StateError
from solver.features.strings import pack_strings, unpack_strings
from solver.typing import FloatArray

# numbers of vectors that are looked at together, of which there are some copies in float64
_BLOCK: Final = 1 << 20
# a centred vector that is shorter than this share of the numbers it is made of is nothing but their rounding
ROUNDING: Final = 1e-6

VectorArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Vectors:
    """What was learned of one column.

    Attributes
    ----------
    name : str
    mean : float64 array of shape (length,)
    weight : float
        Length of each centred vector as a feature.
    low, high : float
        Least and greatest distance from the mean among the fitted rows.
    """

    name: str
    mean: FloatArray
    weight: float
    low: float
    high: float

    @property
    def farthest(self) -> float:
        """Distance from the mean beyond which a vector is far: as with numbers, by the whole range of the fitted."""
        return self.high + (self.high - self.low)

    @property
    def nearest(self) -> float:
        """Likewise the distance below which it is."""
        return self.low - (self.high - self.low)


class VectorColumns:
    """The fitted columns of vectors, and how to apply them.

    A vector is one block: the mean of all fitted rows is taken off, and what is left is brought to one length, the same
    in all rows. Its numbers are never scaled one by one: which of them are large is part of what a vector says. A
    vector of zeros says nothing, and stays zeros; so does one that is the mean.

    Attributes
    ----------
    names : list of str
        The columns.
    lengths : list of int
        How many numbers a vector of each has.
    width : int
        Number of features: all of them.
    """

    def __init__(self, fitted: Sequence[_Vectors]) -> None:
        self._fitted = list(fitted)
        self.names = [each.name for each in fitted]
        self.lengths = [len(each.mean) for each in fitted]
        self.width = sum(self.lengths)

    @classmethod
    def fit(cls, columns: Mapping[str, VectorArray], beside: float, warnings: list[str]) -> Self:
        """Learn means and ranges; a column whose vectors are all the same is left out with a warning.

        Parameters
        ----------
        columns : mapping of str to float32 array of shape (rows, length)
            Finite.
        beside : float
            How much the features that are no vectors have in all, see `weight_beside`.
        warnings : list of str
        """
        fitted = []
        for name, vectors in columns.items():
            mean = _mean(vectors)
            low, high, differs = np.inf, 0.0, False
            for block in _blocks(vectors):
                _, distances, kept = _centred(block, mean)
                low, high = min(low, float(distances.min())), max(high, float(distances.max()))
                differs = differs or bool(kept.any())
            if not differs:
                warnings.append(f"column {name!r} is left out: it has the same vector in all training rows")
                continue
            fitted.append(_Vectors(name, mean, weight_beside(beside), low, high))
        return cls(fitted)

    @property
    def feature_names(self) -> list[str]:
        """Readable names, such as `photo[0]`."""
        return [f"{name}[{j}]" for name, length in zip(self.names, self.lengths, strict=True) for j in range(length)]

    @property
    def feature_columns(self) -> list[str]:
        """The column that each feature is of."""
        return [name for name, length in zip(self.names, self.lengths, strict=True) for _ in range(length)]

    def transform(self, columns: Sequence[VectorArray], counts: FeatureCounts, out: FloatArray) -> None:
        """Write the features of vectors.

        Parameters
        ----------
        columns : sequence of float32 array of shape (rows, length)
            In the order of `names`.
        counts : FeatureCounts
            `distant` and `far_rows` are filled in.
        out : float64 array of shape (rows, width)
        """
        begin = 0
        for fitted, vectors in zip(self._fitted, columns, strict=True):
            far: list[int] = []
            end, row = begin + len(fitted.mean), 0
            for block in _blocks(vectors):
                centred, distances, kept = _centred(block, fitted.mean)
                scale = np.divide(fitted.weight, distances, out=np.zeros(len(block)), where=kept)
                np.multiply(centred, scale[:, None], out=out[row : row + len(block), begin:end])
                is_far = (distances > fitted.farthest) | (distances < fitted.nearest)
                if is_far.any():
                    far += (np.flatnonzero(is_far) + row).tolist()
                row += len(block)
            if far:
                counts.distant[fitted.name] = len(far)
                counts.far_rows = sorted({*counts.far_rows, *far})
            begin = end

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        text, ends = pack_strings(self.names)
        return {
            "vector_text": text,
            "vector_ends": ends,
            "vector_lengths": np.array(self.lengths, dtype=np.int64),
            "vector_mean": np.concatenate([np.zeros(0), *(each.mean for each in self._fitted)]),
            "vector_weight": np.array([each.weight for each in self._fitted], dtype=np.float64),
            "vector_low": np.array([each.low for each in self._fitted], dtype=np.float64),
            "vector_high": np.array([each.high for each in self._fitted], dtype=np.float64),
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `state`, believing nothing.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        names = unpack_strings(arrays["vector_text"], arrays["vector_ends"])
        lengths = arrays["vector_lengths"]
        weight, low, high = (arrays[f"vector_{part}"] for part in ("weight", "low", "high"))
        if any(len(part) != len(names) for part in (lengths, weight, low, high)):
            raise StateError("table features: vectors need one length, weight and range each")
        if (lengths < 1).any() or sum(lengths.tolist()) != len(arrays["vector_mean"]):
            raise StateError("table features: the lengths of the vectors do not add up to their means")
        if (weight <= 0).any() or (low < 0).any() or (low > high).any():
            raise StateError("table features: a vector has a weight above 0, and a range that begins at 0 or above")
        ends = np.cumsum([0, *lengths.tolist()])
        return cls(
            [
                _Vectors(name, arrays["vector_mean"][ends[j] : ends[j + 1]], *map(float, (weight[j], low[j], high[j])))
                for j, name in enumerate(names)
            ]
        )


def weight_beside(others: float) -> float:
    """Return how long a vector is as a feature: as long as all features beside it that are no vectors, together.

    A standardised number has a mean square of 1; a category and a text, each a vector of length 1, have that, too. With
    a length of 1, as one of them, a vector of hundreds of numbers drowns among thirty columns (measured on nine data
    sets, of which two had the choice: area under the ROC curve .60 to .95 beside 30 columns of noise on optdigits, .93
    to .95 on mnist beside 325 columns of use; the price is paid where the vector is noise, .92 to .86).

    Parameters
    ----------
    others : float
        Standardised numbers, parts of dates, categories and texts.
    """
    return math.sqrt(max(1.0, others))


def _blocks(vectors: VectorArray) -> Iterator[VectorArray]:
    step = max(1, _BLOCK // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), step):
        yield vectors[start : start + step]


def _mean(vectors: VectorArray) -> FloatArray:
    """Mean of the rows, summed in float64 whatever BLAS or NumPy would make of them in one piece."""
    total = np.zeros(vectors.shape[1])
    for block in _blocks(vectors):
        total += block.sum(axis=0, dtype=np.float64)
    return total / max(1, len(vectors))


def _centred(vectors: VectorArray, mean: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Vectors without the mean, their distances from it, and which of them say something."""
    values = vectors.astype(np.float64)
    squares = np.einsum("ij,ij->i", values, values)
    values -= mean
    distances = np.sqrt(np.einsum("ij,ij->i", values, values))
    kept = (squares > 0) & (distances > ROUNDING * (np.sqrt(squares) + math.sqrt(float(mean @ mean))))
    return values, distances, kept
