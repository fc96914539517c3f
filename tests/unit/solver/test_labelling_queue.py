"""Which rows are to be labelled next, and which labels look wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from solver.corrections import Corrections
from solver.estimators import SVM
from solver.evaluation import Sigmoid
from solver.features import Column, Table
from solver.labelling_queue import MOST, chance_order, doubted_labels, rows_to_label
from solver.report import LabellingQueue, Report, json_ready
from solver.training import TrainingRequest, train


def clouds(n: int, seed: int, labelled: int, distance: float = 4.0) -> tuple[Table, np.ndarray, np.ndarray]:
    """Two classes; labels of the first rows, and of all."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, 3)) + distance / math.sqrt(3) * y[:, None]
    truth = np.array(["no", "yes"], dtype=object)[y]
    table = Table({name: Column(name, "number", X[:, j]) for j, name in enumerate("abc")})
    return table, np.where(np.arange(n) < labelled, truth, None), truth


def queue_after(table: Table, labels: np.ndarray, **changes: object) -> LabellingQueue:
    queue = train(table, labels, TrainingRequest(**{"positive": "yes", "algorithm": "svm", **changes})).report.queue
    assert queue is not None
    return queue


def test_rows_by_turns_of_those_without_a_label() -> None:
    table, labels, _ = clouds(400, 0, 60)
    report = train(table, labels, TrainingRequest(positive="yes", algorithm="svm", test_fraction=0.25)).report
    improve = report.queue.improve
    assert improve.reasons[:6:2] == ["random"] * 3
    assert "random" not in improve.reasons[1:6:2]
    assert len(improve.rows) == len({*improve.rows}) <= MOST
    assert all(labels[row] is None for row in improve.rows)
    assert Report.from_dict(json_ready(report)).queue == report.queue
    assert [improve.rows, improve.scores] == [*vars(queue_after(table, labels).improve).values()][:2]


def test_chance_draws_the_same_rows_whatever_was_labelled_meanwhile() -> None:
    """Who labels what a model is unsure of takes no row out of the sample."""
    table, labels, truth = clouds(400, 1, 40)
    first = queue_after(table, labels).improve
    drawn = [row for row, reason in zip(first.rows, first.reasons, strict=True) if reason == "random"]
    chosen = [row for row in first.rows if row not in drawn]
    order, reserved = chance_order(np.arange(400))
    assert drawn == [row for row in order.tolist() if reserved[row] and row >= 40][: len(drawn)]
    assert not reserved[chosen].any()
    labels[chosen[:50]], labels[drawn[:5]] = truth[chosen[:50]], truth[drawn[:5]]
    again = queue_after(table, labels).improve
    assert [row for row, why in zip(again.rows, again.reasons, strict=True) if why == "random"][:20] == drawn[5:25]
    assert 0.2 < chance_order(np.arange(100_000))[1].mean() < 0.3


def test_rows_that_were_added_or_dropped_do_not_shift_the_numbers() -> None:
    table, labels, truth = clouds(200, 2, 60)
    table.columns["a"].values[:7] = np.nan
    flipped = [20, 30, 40]
    labels[flipped] = np.where(truth[flipped] == "yes", "no", "yes")
    corrections = Corrections([{"a": 9.0, "b": 9.0, "c": 9.0}], ["no"], random=[True])
    request = TrainingRequest(positive="yes", algorithm="svm", missing="drop")
    report = train(table, labels, request, corrections=corrections).report
    assert {*flipped} <= {*report.queue.suspicious.rows[:6]}
    assert max(report.queue.suspicious.rows) < 60 <= min(report.queue.improve.rows)
    assert max(report.queue.improve.rows) < 200
    # who has said again what a row is has looked at it
    row = {name: float(column.values[30]) for name, column in table.columns.items()}
    again = train(table, labels, request, corrections=Corrections([row], [labels[30]])).report
    assert 30 not in again.queue.suspicious.rows
    assert 20 in again.queue.suspicious.rows


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_crowd_without_labels_is_asked_for_once(kernel: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 20)) * 0.1
    X[:30, 0] += 1
    X[30:, 1] += 1
    y = np.repeat([1, 0], 30)
    model = SVM(kernel=kernel, random_state=0).fit(X, y)
    crowd = rng.normal(size=(50, 20)) * 0.05
    crowd[:, 2:4] += 1
    unlabelled = np.vstack([X[::3] + 0.01, crowd])
    for rows in (unlabelled, sparse.csr_array(unlabelled)):
        chosen = rows_to_label(model.decision_state(), rows, model.decision_function(unlabelled), X)
        assert chosen[0].place >= 20
        assert chosen[0].covers >= 45
        # once one of them is chosen the others say little more
        assert sum(each.covers for each in chosen[1:3]) < 60
        assert len({each.place for each in chosen}) == len(chosen)


def test_flipped_labels_stand_first() -> None:
    table, labels, truth = clouds(600, 4, 200)
    flipped = np.arange(0, 200, 20)
    labels[flipped] = np.where(truth[flipped] == "yes", "no", "yes")
    suspicious = queue_after(table, labels, algorithm="auto").suspicious
    assert suspicious.better_than_chance
    assert suspicious.judged == 200
    assert np.isin(flipped, suspicious.rows[:20]).mean() >= 0.6
    assert [labels[row] == "yes" for row in suspicious.rows] == suspicious.positive


def test_labels_drawn_at_random_are_not_doubted() -> None:
    """Such a model knows nothing, so it contradicts nobody; where chance fools it, it is not certain."""
    fooled = 0
    for seed in range(12):
        table, labels, truth = clouds(160, seed, 80)
        labels[:80] = np.random.default_rng(seed).permutation(truth[:80])
        report = train(table, labels, TrainingRequest(positive="yes", algorithm="svm")).report
        doubted = report.queue.suspicious
        assert doubted.judged == 80
        assert bool(doubted.rows) == doubted.better_than_chance
        fooled += doubted.better_than_chance
        probability = Sigmoid(report.probability.slope, report.probability.offset)(np.array(doubted.scores))
        assert (np.where(doubted.positive, 1 - probability, probability) < 0.9).all()
    assert fooled <= 3


def test_what_there_is_little_of() -> None:
    decision = SVM(random_state=0).fit(np.eye(8), np.arange(8) % 2).decision_state()
    assert rows_to_label(decision, np.zeros((0, 8)), np.zeros(0), np.eye(8)) == []
    # rows like labelled ones teach nothing
    assert rows_to_label(decision, np.eye(8)[:2], np.zeros(2), np.eye(8)) == []
    rows = np.arange(3)
    nothing = doubted_labels(rows, np.array([True, True, False]), np.zeros(3), None)
    assert (nothing.rows, nothing.better_than_chance) == ([], False)
    table, labels, truth = clouds(60, 5, 60)
    labels = truth
    assert queue_after(table, labels).improve.rows == []
    in_sample = queue_after(table, labels, params={"labeled_split": "full"}).suspicious
    assert (in_sample.judged, in_sample.rows) == (0, [])


def test_a_near_copy_of_a_labelled_row_is_known_to_be_close() -> None:
    """It may be chosen, where nothing else tells more; but it is not unlike the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    svm = SVM(kernel="rbf", gamma=0.5, C=1.0, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    decision = svm.decision_state()
    copies, apart = X[:5] + 1e-3, np.array([[30.0, 30.0]])
    rows = np.vstack([copies, apart])
    found = rows_to_label(decision, rows, svm.decision_function(rows), X)
    by_place = {each.place: each.nearest for each in found}
    assert by_place.pop(5) < 0.01
    assert all(nearest > 0.999 for nearest in by_place.values())
