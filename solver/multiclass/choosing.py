"""Rules for an objective, chosen on left-out rows in a training or later, and measured on rows they did not see."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from solver.file_fields import ModelFileError, Tensors
from solver.multiclass.objective import ClassObjective
from solver.multiclass.rule import ClassRule, choose_rule
from solver.tensor_file import TensorFileError, read_tensors, write_tensors
from solver.typing import FloatArray, IndexArray

MOST_VALUES: Final = 1 << 19
"""Probabilities that are kept with a model: 4 MiB."""


class LeftOutError(ValueError):
    """The bytes are not those of probabilities that were kept."""


@dataclass(frozen=True)
class LeftOutProbabilities:
    """Probabilities of labelled rows by models that they did not train: all that a rule is chosen and measured by.

    Attributes
    ----------
    codes : int array of shape (n,)
        Classes of the rows.
    fold : int array of shape (n,)
        Which rows had no say together.
    of_all : float64 array of shape (n, classes)
        Calibrated on all rows.
    of_folds : float64 array of shape (folds, n, classes)
        Calibrated on all rows but those of a fold.
    counts : int array of shape (classes,)
        Labelled rows of each class, as `ClassRule` has them.
    left_out : int
        How many rows there were: these, or these were drawn from them at random.
    """

    codes: IndexArray
    fold: IndexArray
    of_all: FloatArray
    of_folds: FloatArray
    counts: IndexArray
    left_out: int

    @property
    def own(self) -> FloatArray:
        """Probabilities of each row that it had no say in, (n, classes)."""
        return np.asarray(self.of_folds[self.fold, np.arange(len(self.fold))])

    def decided(self, objective: ClassObjective, labels: list[Any]) -> tuple[IndexArray, ClassRule]:
        """What is said of each row by rules that it had no say in, and the rule that all rows choose.

        The first is what the second is to be measured by: that it was chosen costs it there what it costs.

        Parameters
        ----------
        objective : ClassObjective
        labels : list
            In the order of the codes.
        """
        said = np.empty(len(self.codes), dtype=np.intp)
        for number, probabilities in enumerate(self.of_folds):
            learns, judged = self.fold != number, self.fold == number
            if judged.any():
                rule = choose_rule(probabilities[learns], self.codes[learns], objective, labels, self.counts)
                said[judged] = rule.says(probabilities[judged])
        return said, choose_rule(self.of_all, self.codes, objective, labels, self.counts)

    def to_keep(self, seed: int) -> Self:
        """Return as many rows as may be kept, drawn at random in the shares of the classes; one of each at least."""
        most = MOST_VALUES // ((1 + len(self.of_folds)) * len(self.counts))
        n = len(self.codes)
        if n <= most:
            return self
        order = np.random.default_rng(seed).permutation(n)
        order = order[np.argsort(self.codes[order], kind="stable")]
        there = np.bincount(self.codes, minlength=len(self.counts))
        wanted = np.minimum(there, np.maximum(1, there * most // n))
        place = np.arange(n) - np.repeat(np.cumsum(there) - there, there)
        kept = np.sort(order[place < np.repeat(wanted, there)])
        return type(self)(
            self.codes[kept], self.fold[kept], self.of_all[kept], self.of_folds[:, kept], self.counts, self.left_out
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `read` reads."""
        arrays = {
            "codes": self.codes.astype(np.int64),
            "fold": self.fold.astype(np.int64),
            "of_all": self.of_all,
            "of_folds": self.of_folds.ravel(),
            "counts": self.counts.astype(np.int64),
            "left_out": np.array([self.left_out], dtype=np.int64),
        }
        write_tensors(path, arrays, {})

    @classmethod
    def read(cls, stored: bytes) -> Self:
        """Read what `write` wrote; raises `LeftOutError` where the parts contradict each other."""
        try:
            arrays = Tensors(read_tensors(stored)[0])
            counts = arrays.take("counts", ("int64",))
            codes = arrays.take("codes", ("int64",))
            n, classes = len(codes), len(counts)
            fold = arrays.take("fold", ("int64",), (n,))
            of_all = arrays.take("of_all", ("float64",), (n, classes))
            of_folds = arrays.take("of_folds", ("float64",))
            left_out = int(arrays.take("left_out", ("int64",), (1,))[0])
        except (TensorFileError, ModelFileError) as error:
            raise LeftOutError(f"the left-out rows cannot be read: {error}") from error
        if not 1 <= n <= left_out or classes < 1 or len(of_folds) % (n * classes):
            raise LeftOutError("the left-out rows need probabilities each")
        folds = len(of_folds) // (n * classes)
        if min(codes.min(), fold.min()) < 0 or codes.max() >= classes or fold.max() >= folds:
            raise LeftOutError("the left-out rows need a class and a fold each")
        return cls(codes, fold, of_all, of_folds.reshape(folds, n, classes), counts, left_out)
