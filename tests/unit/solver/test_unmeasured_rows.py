"""Labelled rows that are learned from and that nothing is measured or chosen on."""

from __future__ import annotations

import numpy as np
import pytest

from solver.estimators import PSVM, SVM, SelfTraining


@pytest.fixture(scope="module")
def rows():
    """Two overlapping classes of 200 rows, of which 60 are marked: hard ones, all of one class."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 3)) + y[:, None]
    marked = np.zeros(200, dtype=bool)
    marked[np.argsort(np.where(y == 1, X.sum(axis=1), np.inf))[:60]] = True
    return X, y, marked


@pytest.mark.parametrize("split", ["xfit", "part", "full"])
def test_they_train_and_do_not_calibrate(rows, split):
    X, y, marked = rows
    model = SVM(labeled_split=split, random_state=0).fit(X, y, unmeasured=marked)
    calibration = model.report_.calibration
    measured = 140 if split != "part" else 70
    assert calibration.n == measured
    assert calibration.true_positives + calibration.false_negatives == (40 if split != "part" else 20)
    assert model.report_.controls["plain_svm"].calibration.n == 140
    assert model.report_.curve.positives == calibration.true_positives + calibration.false_negatives
    assert model.report_.rows.labelled == 200
    if split != "part":  # learned from as every other row
        same = SVM(labeled_split=split, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
        assert same.report_.calibration.n == 200


def test_a_certificate_rests_on_none_of_them(rows):
    X, y, marked = rows
    objective = {"kind": "precision", "target": 0.6, "confidence": 0.9}
    model = SVM(objective=objective, random_state=0).fit(X, y, unmeasured=marked)
    assert model.report_.calibration.n == 70
    assert len(model.report_.warnings) == len(SVM(objective=objective, random_state=0).fit(X, y).report_.warnings)


def test_c_is_chosen_without_them(rows):
    X, y, marked = rows
    cells = [
        SVM(tune="C", random_state=0).fit(*given).report_.tuning.cells
        for given in ((X, y, None, marked), (X[~marked], y[~marked]))
    ]
    # gamma is of all rows, so that the utilities are near each other and no more
    np.testing.assert_allclose(*[[cell.utility for cell in each] for each in cells], atol=0.05)


@pytest.mark.parametrize("method", [PSVM, SelfTraining])
def test_beside_unlabelled_rows(rows, method):
    X, y, marked = rows
    labels = np.where(np.arange(200) % 4 == 0, -1, y)
    model = method(random_state=0).fit(X, labels, unmeasured=marked)
    assert model.report_.calibration.n == np.count_nonzero((labels >= 0) & ~marked)


def test_two_others_of_each_class_are_needed(rows):
    X, y, marked = rows
    with pytest.raises(ValueError, match="need at least 2 labelled of each class, got 0 of the positive class"):
        SVM().fit(X, y, unmeasured=y == 1)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVM().fit(X, y, unmeasured=marked[:-1])
