"""Scores of rows by models that they did not train, of all problems of two classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solver.multiclass.problems import OwnRows
from solver.typing import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True)
class LeftOutProblemScores:
    """Scores of each row in its own problems, and on demand in the others.

    All of them would be as many as rows times problems: with 100 classes and 20,000 rows 800 MB.

    Attributes
    ----------
    own : OwnRows
    scores : float64 array
        Of each of these by a model without it; NaN where there is none.
    of_rows : callable
        Scores of some rows, (rows, problems), by models that they did not train.
    """

    own: OwnRows
    scores: FloatArray
    of_rows: Callable[[IndexArray], FloatArray]

    def only_of(self, measured: BoolArray) -> LeftOutProblemScores:
        """The same where only these rows are measured, of those that have labels."""
        return replace(self, scores=np.where(measured[self.own.rows], self.scores, np.nan))
