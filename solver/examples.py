"""Small real data sets that everybody can try the product on: those that come with scikit-learn."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from solver.typing import FloatArray

TARGET: Final = "diagnosis"
POSITIVE: Final = "malignant"
NEGATIVE: Final = "benign"


@dataclass(frozen=True)
class Example:
    """Rows to train on, most of their labels removed, and rows to test on.

    Attributes
    ----------
    training_csv : str
        Header and training rows; an empty cell in the target column, the last one, is a removed label.
    rows : int
        Training rows.
    labelled : int
        Training rows that keep their label.
    training_labels : list of str
        What each training row is, also where the label is removed.
    test_rows : list of dict
        The held-out rows, column name to measurement.
    test_labels : list of str
        Their labels.
    """

    training_csv: str
    rows: int
    labelled: int
    training_labels: list[str]
    test_rows: list[dict[str, float]]
    test_labels: list[str]


def breast_tumours(seed: int = 0, *, test_share: float = 0.3, labelled: float | int = 0.1) -> Example:
    """Split the Wisconsin breast cancer data and remove most of the training labels.

    569 breast tumours, 30 measurements each. The target is `diagnosis`: `malignant` or `benign`.

    Parameters
    ----------
    seed : int, default=0
        Of the split and of the choice of labels to remove. Both are stratified by class.
    test_share : float, default=0.3
        Share of all rows that is held out, with labels.
    labelled : float or int, default=0.1
        Share, or number, of the other rows that keep their label.
    """
    bunch = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in bunch.feature_names]
    labels = np.where(bunch.target == 0, POSITIVE, NEGATIVE)
    return _example(names, bunch.data, TARGET, labels, seed, test_share, labelled)


def handwritten_digits(seed: int = 0, *, test_share: float = 0.3, labelled: float | int = 0.1) -> Example:
    """Split the 357 pictures of a handwritten 3 or 8, 8 x 8 pixels each, and remove most of the training labels.

    The target is `digit`: `3` or `8`. Parameters as of `breast_tumours`.
    """
    bunch = load_digits()
    wanted = np.isin(bunch.target, (3, 8))
    names = [str(name) for name in bunch.feature_names]
    return _example(names, bunch.data[wanted], "digit", bunch.target[wanted].astype(str), seed, test_share, labelled)


def _example(
    names: Sequence[str],
    values: FloatArray,
    target: str,
    labels: NDArray[np.str_],
    seed: int,
    test_share: float,
    labelled: float | int,
) -> Example:
    train, test = train_test_split(np.arange(len(labels)), test_size=test_share, stratify=labels, random_state=seed)
    kept, _ = train_test_split(train, train_size=labelled, stratify=labels[train], random_state=seed)
    known = set(kept.tolist())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, target])
    for row in train.tolist():
        writer.writerow([*values[row].tolist(), labels[row] if row in known else ""])
    return Example(
        training_csv=text.getvalue(),
        rows=len(train),
        labelled=len(known),
        training_labels=labels[train].tolist(),
        test_rows=[dict(zip(names, values[row].tolist(), strict=True)) for row in test.tolist()],
        test_labels=labels[test].tolist(),
    )
