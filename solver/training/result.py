"""What a training gives: a model of two classes, or of several, with its report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.classes_report import MulticlassReport
from solver.labelled_rows import LabelledRows
from solver.model_file import Model
from solver.multiclass.choosing import LeftOutProbabilities
from solver.multiclass.file import ClassesModel
from solver.nearest import KeptRows
from solver.report import Report
from solver.typing import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True)
class TestedRows:
    """The test rows that are like no row that was learned, as the model saw them that they measured.

    Attributes
    ----------
    rows : int array
        In the data set, ascending.
    prints : uint64 array
        Their fingerprints, as the model that is kept sees them.
    truth : bool array
        Which are positive.
    scores : float64 array
    report : Report
        Of that model.
    """

    rows: IndexArray
    prints: NDArray[np.uint64]
    truth: BoolArray
    scores: FloatArray
    report: Report


@dataclass(frozen=True)
class TrainedModel:
    """Result of `train`.

    Attributes
    ----------
    model : Model
    report : Report
    labelled : LabelledRows or None
        The rows that had a label. None for a training that was stopped.
    tested : TestedRows or None
        None without test rows, and for a training that was stopped.
    kept : KeptRows or None
        Labelled rows for others to be compared with. None for a training that was stopped.
    """

    model: Model
    report: Report
    labelled: LabelledRows | None = None
    tested: TestedRows | None = None
    kept: KeptRows | None = None


@dataclass(frozen=True)
class TrainedClasses:
    """Result of `train` where there are several classes.

    Attributes
    ----------
    model : ClassesModel
    report : MulticlassReport
    left_out : LeftOutProbabilities or None
        What another rule is chosen by later.
    """

    model: ClassesModel
    report: MulticlassReport
    left_out: LeftOutProbabilities | None = None
