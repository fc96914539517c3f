"""A small real data set that everybody can try the product on."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

TARGET = "diagnosis"
POSITIVE = "malignant"
NEGATIVE = "benign"


@dataclass(frozen=True)
class BreastTumours:
    """569 breast tumours, 30 measurements each, most labels of the training rows removed.

    Attributes
    ----------
    training_csv : str
        Header and training rows; an empty cell in column ``diagnosis`` is a removed label.
    labelled : int
        Training rows that keep their label.
    test_rows : list of dict
        The held-out rows, column name to measurement.
    test_labels : list of str
        Their diagnoses, ``malignant`` or ``benign``.
    """

    training_csv: str
    labelled: int
    test_rows: list[dict[str, float]]
    test_labels: list[str]


def breast_tumours(seed: int = 0, *, test_share: float = 0.3, labelled_share: float = 0.1) -> BreastTumours:
    """Split scikit-learn's bundled Wisconsin breast cancer data and remove most of the training labels.

    Parameters
    ----------
    seed : int, default=0
        Of the split and of the choice of labels to remove. Both are stratified by class.
    test_share : float, default=0.3
        Share of all rows that is held out, with labels.
    labelled_share : float, default=0.1
        Share of the other rows that keeps its label.

    Returns
    -------
    BreastTumours
    """
    bunch = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in bunch.feature_names]
    labels = np.where(bunch.target == 0, POSITIVE, NEGATIVE)
    train, test = train_test_split(np.arange(len(labels)), test_size=test_share, stratify=labels, random_state=seed)
    kept, _ = train_test_split(train, train_size=labelled_share, stratify=labels[train], random_state=seed)
    known = set(kept.tolist())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, TARGET])
    for row in train.tolist():
        writer.writerow([*bunch.data[row].tolist(), labels[row] if row in known else ""])
    return BreastTumours(
        training_csv=text.getvalue(),
        labelled=len(known),
        test_rows=[dict(zip(names, bunch.data[row].tolist(), strict=True)) for row in test.tolist()],
        test_labels=labels[test].tolist(),
    )
