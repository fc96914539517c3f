"""Single columns that tell the label, and a precision that nothing supports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from solver.features import Column, MatrixData, Table
from solver.operating_point import FEWEST_NEGATIVES, Objective, choose_threshold
from solver.telling import telling_columns
from solver.training import TrainingRequest, train

N = 200
RNG = np.random.default_rng(0)
CODES: NDArray[np.int8] = np.where(np.arange(N) < 40, np.arange(N) % 2, -1).astype(np.int8)
"""Forty labels, and others that are not known."""
TRUTH = np.arange(N) % 2 == 1


def objects(values: Any) -> NDArray[np.object_]:
    return np.array([*values, None], dtype=object)[:-1]


LEAKS: dict[str, tuple[str, str, NDArray[Any]]] = {
    "a number": ("number", "number", TRUTH * 1.0 + RNG.normal(size=N) * 0.01),
    "a falling number": ("number", "number", TRUTH * -1.0 + RNG.normal(size=N) * 0.01),
    "where a number is missing": ("number", "number", np.where(TRUTH, np.nan, RNG.normal(size=N))),
    "a category": ("text", "category", objects(np.where(TRUTH, "closed", "open"))),
    "one of many categories": ("text", "category", objects(f"{'bc'[int(t)]}{i % 3}" for i, t in enumerate(TRUTH))),
    "a number as a category": ("number", "category", TRUTH * 1.0),
    "where a date is missing": ("text", "date", objects("2026-01-01" if t else None for t in TRUTH)),
    "a date": ("text", "date", objects(f"202{5 + int(t)}-01-{1 + i % 28:02}" for i, t in enumerate(TRUTH))),
    "where a text is missing": ("text", "text", objects("it was so and so" if t else None for t in TRUTH)),
}


@pytest.mark.parametrize("what", LEAKS)
def test_a_column_that_tells_the_label_is_named(what: str) -> None:
    stored, kind, values = LEAKS[what]
    noise = {f"x{j}": Column(f"x{j}", "number", RNG.normal(size=N)) for j in range(30)}
    table = Table({**noise, "leak": Column("leak", "number" if stored == "number" else "text", values)})
    columns = [{"name": name, "kind": "number"} for name in noise] + [{"name": "leak", "kind": kind}]
    (said,) = telling_columns(table, columns, CODES, 0)
    assert said.startswith("column 'leak' alone tells the label of 40 of 40 labelled rows: it may tell what you want")
    assert telling_columns(table, columns[:-1], CODES, 0) == []
    assert telling_columns(table, columns, np.where(np.arange(N) < 6, CODES, -1).astype(np.int8), 0) == []  # by chance


def test_random_labels_are_told_by_no_column_of_very_many() -> None:
    """9,000 columns and 40 labels: numbers, categories of a few and of many values, sparse ones."""
    numbers = RNG.normal(size=(40, 6000))
    levels = [objects(RNG.integers(0, most, 40).astype(str)) for most in (2, 5, 20, 40) for _ in range(750)]
    table = Table(
        {f"x{j}": Column(f"x{j}", "number", numbers[:, j]) for j in range(6000)}
        | {f"c{j}": Column(f"c{j}", "text", values) for j, values in enumerate(levels)}
    )
    columns = [{"name": name, "kind": "number" if name[0] == "x" else "category"} for name in table.columns]
    matrix = MatrixData(sparse.random_array((40, 9000), density=0.5, format="csr", rng=RNG))
    for seed in range(5):
        codes = np.random.default_rng(seed).permutation(np.arange(40) % 2).astype(np.int8)
        assert telling_columns(table, columns, codes, 0) == []
        assert telling_columns(matrix, [], codes, 0) == []


def test_columns_of_a_matrix_have_their_numbers() -> None:
    X = sparse.random_array((N, 50), density=0.3, format="lil", rng=RNG)
    X[:, [7]] = TRUTH.reshape(-1, 1) * 3.0
    for data in (MatrixData(X.tocsr(), first_index=1), MatrixData(X.toarray(), first_index=0)):
        (said,) = telling_columns(data, [], CODES, 0)
        assert repr(str(7 + data.first_index)) in said


def test_few_errors_are_allowed_and_of_many_rows_some_are_looked_at() -> None:
    truth = RNG.random(20_000) < 0.05
    x = truth + RNG.normal(size=len(truth)) * 0.01
    x[np.flatnonzero(truth)[:5]] = 0
    table = Table({"x": Column("x", "number", x)})
    columns = [{"name": "x", "kind": "number"}]
    (said,) = telling_columns(table, columns, truth.astype(np.int8), 0)
    assert "of 2000 labelled rows" in said
    x[np.flatnonzero(truth)[:200]] = 0
    assert telling_columns(table, columns, truth.astype(np.int8), 0) == []


def test_a_training_says_so() -> None:
    labels = objects("yes" if code == 1 else "no" if code == 0 else None for code in CODES)
    table = Table({"x": Column("x", "number", RNG.normal(size=N)), "outcome": Column("outcome", "number", TRUTH * 1.0)})
    made = train(table, labels, TrainingRequest(algorithm="svm", positive="yes"))
    assert any("column 'outcome' alone tells" in warning for warning in made.report.warnings)


@pytest.mark.parametrize("algorithm", ["psvm", "roc-svm", "spy-em", "bayesian-sets", "svm"])
def test_a_precision_without_negative_rows_is_not_met(algorithm: str) -> None:
    """60 positive, 2 negative and 1,000 unlabelled rows of which a tenth are positive: .96 was 'met', .14 is true."""
    rng = np.random.default_rng(7)
    positive = np.concatenate([np.ones(60, bool), np.zeros(2, bool), np.arange(1000) % 10 == 0])
    X = rng.normal(size=(1062, 2)) + np.where(positive, 1, -1)[:, None] * np.array([1, 0.5])
    table = Table({"x": Column("x", "number", X[:, 0]), "y": Column("y", "number", X[:, 1])})
    labels = objects(["p"] * 60 + ["n"] * 2 + [None] * 1000)
    request = TrainingRequest(algorithm=algorithm, positive="p", objective={"kind": "precision", "target": 0.9})
    made = train(table, labels, request)
    report = made.report
    assert report.status != "met", report.status_reason
    unlabelled = report.unlabelled
    scores = made.model.decision.decision_function(made.model.feature_matrix(table.take(np.arange(62, 1062)))[0])
    assert unlabelled.positive == int((scores > made.model.decision.threshold).sum())
    assert (unlabelled.rows, unlabelled.measured, unlabelled.labelled_share) == (1000, 1000, 60 / 62)
    called = report.calibration.true_positives + report.calibration.false_positives
    if abs(unlabelled.share - called / report.calibration.n) > 0.2:
        assert any(f"{unlabelled['share']:.0%} of the unlabelled rows" in warning for warning in report.warnings)


def test_a_precision_takes_some_negative_rows() -> None:
    objective = Objective.parse({"kind": "precision", "target": 0.9})
    for negatives in (0, 1, FEWEST_NEGATIVES - 1, FEWEST_NEGATIVES):
        scores, y = np.arange(60 + negatives), np.append(-np.ones(negatives), np.ones(60))
        status = choose_threshold(scores, y, objective).status
        assert status == ("met" if negatives >= FEWEST_NEGATIVES else "cannot_certify")
    assert choose_threshold([0, 1, 2], [-1, 1, 1], Objective.parse({"kind": "recall", "target": 0.9})).status == "met"
