"""What to label next where several classes are told apart: rows between two of them; and labels that look wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.class_queue import doubted_classes
from solver.classes_report import ClassesQueue, MulticlassReport
from solver.features import MatrixData
from solver.labelling_queue import chance_order
from solver.training import TrainedClasses, TrainingRequest
from solver.training.several_classes import train

CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
CLASSES = ["a", "b", "c"]
LABELLED, ROWS = 90, 390


def clouds() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, ROWS)
    X = rng.normal(size=(ROWS, 2)) + CENTRES[codes]
    labels = np.array(CLASSES, dtype=object)[codes]
    labels[LABELLED:] = None
    return X, codes, labels


@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_a_training_lists_rows_between_classes_and_labels_that_are_wrong(scheme: Any) -> None:
    X, codes, labels = clouds()
    of_a = np.flatnonzero(codes[:LABELLED] == 0)
    wrong = of_a[np.argsort(np.square(X[of_a]).sum(axis=1))[:3]]
    labels[wrong] = "c"
    request = TrainingRequest(
        algorithm="svm", objective={"kind": "accuracy", "floors": {"a": {"precision": 0.9}}}, scheme=scheme
    )
    made = train(MatrixData(X), labels, request)
    assert isinstance(made, TrainedClasses)
    report = made.report
    assert MulticlassReport.from_dict(report.to_dict()) == report
    queue = report.queue
    assert isinstance(queue, ClassesQueue)

    improve = queue.improve
    rows = np.array(improve.rows)
    assert len(set(improve.rows)) == len(rows) > 100
    assert rows.min() >= LABELLED
    by_chance = np.array(improve.reasons) == "random"
    assert chance_order(rows)[1].tolist() == by_chance.tolist()
    # what is said is what the model says, and rows of which it is unsure are those between two classes
    said = made.model.predict(MatrixData(X[rows])).labels
    assert said == [None if code < 0 else CLASSES[code] for code in improve.said]
    ahead = np.array(improve.probabilities) - np.array(improve.following_probabilities)
    unsure = np.array(improve.reasons) == "unsure"
    assert unsure.any()
    assert ahead[unsure].max() < np.median(ahead[by_chance])
    assert all(one != other for one, other in zip(improve.best, improve.following, strict=True))

    doubted = queue.suspicious
    assert doubted.better_than_chance
    assert doubted.judged == LABELLED
    assert {*wrong.tolist()} <= {*doubted.rows[:5]}
    assert doubted.probabilities == sorted(doubted.probabilities)
    first = doubted.rows.index(int(wrong[0]))
    assert (doubted.labels[first], doubted.instead[first]) == (2, 0)


def lists_of_labels_at_random(draws: int) -> int:
    """In how many of these draws labels that were drawn at random are doubted, by models that were trained on them."""
    X, _, _ = clouds()
    doubted = 0
    for seed in range(draws):
        labels = np.array([None] * ROWS, dtype=object)
        labels[:LABELLED] = np.random.default_rng(seed).permutation(np.array(CLASSES, dtype=object)[np.arange(90) % 3])
        request = TrainingRequest(
            algorithm="svm", objective={"kind": "macro_f1"}, scheme="one_vs_rest", test_fraction=0, seed=seed
        )
        made = train(MatrixData(X), labels, request)
        assert isinstance(made, TrainedClasses)
        assert made.report.queue is not None
        doubted += bool(made.report.queue.suspicious.rows)
    return doubted


def test_labels_at_random_are_doubted_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # What models left out has the shares of what they learned: by probabilities that told more than the shares of the
    # classes, 14 of 18 lists were not empty.
    assert lists_of_labels_at_random(12) <= 2
    monkeypatch.setattr("solver.class_queue._agrees_more_than_chance", lambda *_: True)
    assert lists_of_labels_at_random(2) == 2  # each model contradicts some; that it knows nothing is what empties them


def test_of_no_labels_none_is_doubted() -> None:
    assert doubted_classes(np.empty(0, int), np.empty(0, int), np.empty((0, 3))).rows == []
