"""Corrected labels become part of the rows of a training, and bend no figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver.corrections import Corrections, Rules, apply_corrections
from solver.features import Column, MatrixData, Table
from solver.report import ConcludedFeedback, FeedbackReport, RefusedFeedback
from solver.training import TrainingError, TrainingRequest, train


def rules(**changes: Any) -> Rules:
    plain = {"target": "label", "include": None, "exclude": (), "positive": "spam", "unlabeled": ("?",)}
    return Rules(**plain | {"missing": "indicate"} | changes)


def texts(*values: str | None) -> np.ndarray:
    return np.array([*values, None], dtype=object)[:-1]


@pytest.fixture
def table() -> Table:
    label = texts("spam", "ham", None, "ham", "?")
    return Table(
        {
            "id": Column("id", "number", np.arange(5.0)),
            "age": Column("age", "number", np.array([30, 41, 30, np.nan, -0.0])),
            "job": Column("job", "text", texts("clerk", "cook", "clerk", None, "cook")),
            "label": Column("label", "text", label),
        }
    )


def apply(table: Table, rows: list[dict[str, Any]], labels: list[str], **changes: Any):
    labelled = table.columns["label"].values
    return apply_corrections(table, labelled, Corrections(rows, labels), rules(**changes))


def test_a_row_of_the_data_set_gets_its_right_label(table: Table) -> None:
    made = apply(
        table, [{"age": 30, "job": "clerk"}, {"age": None, "job": None}, {"age": 0, "job": "cook"}], 3 * ["ham"]
    )
    assert made.labels.tolist() == ["ham", "ham", "ham", "ham", "ham"]
    # The label of the data set keeps its place among what is measured on; one that was not there is learned from only.
    assert made.unmeasured.tolist() == [False, False, True, False, True]
    assert made.changed.tolist() == [True, False, True, True, True]
    assert made.data is table
    assert made.report == FeedbackReport(
        rows=3, added=0, relabelled=3, newly_labelled=2, confirmed=1, superseded=0, held_out=0, refused=[]
    )
    assert table.columns["label"].values.tolist() == ["spam", "ham", None, "ham", "?"]


def test_more_columns_mean_fewer_rows(table: Table) -> None:
    made = apply(table, [{"id": 2, "age": 30, "job": "clerk", "unknown": 1}], ["ham"])
    assert made.labels.tolist() == ["spam", "ham", "ham", "ham", "?"]
    # A column that is no feature does not tell rows apart.
    made = apply(table, [{"id": 2, "age": 30, "job": "clerk"}], ["ham"], exclude=("id",))
    assert made.labels.tolist() == ["ham", "ham", "ham", "ham", "?"]


def test_other_rows_are_added_for_training_only(table: Table) -> None:
    made = apply(table, [{"age": 31, "job": "clerk"}, {"age": 30.5, "job": "cook"}], ["spam", "not spam"])
    assert made.labels.tolist()[5:] == ["spam", "ham"]
    assert made.unmeasured.tolist() == [False] * 5 + [True] * 2
    assert made.data.columns["age"].values.tolist()[5:] == [31, 30.5]
    assert made.data.columns["job"].values.tolist()[5:] == ["clerk", "cook"]
    assert np.isnan(made.data.columns["id"].values[5:]).all()
    assert made.report.added == 2


def test_the_last_word_counts(table: Table) -> None:
    made = apply(
        table, [{"age": 9, "job": "x"}, {"age": 8, "job": "x"}, {"age": 9.0, "job": "x"}], ["spam", "ham", "ham"]
    )
    assert made.labels.tolist()[5:] == ["ham", "ham"]
    assert (made.report.rows, made.report.added, made.report.superseded) == (3, 2, 1)


def test_what_cannot_be_used_is_refused_and_counted(table: Table) -> None:
    good = {"age": 1, "job": "x"}
    given = [good, good, {"age": "old", "job": "x"}, {"age": 1e999, "job": "x"}, {"age": 1, "job": [1]}, {"other": 1}]
    made = apply(table, given, ["eggs", "?", *4 * ["ham"]])
    assert made.labels.tolist() == ["spam", "ham", None, "ham", "?"]
    assert {part.reason: part.rows for part in made.report.refused} == {
        "the data set has no such label": 2,
        "column 'age': expected a finite number or null": 2,
        "column 'job': expected text, a number, true, false or null": 1,
        "none of its columns is a feature of this training": 1,
    }
    # Such rows would be left out again, or end the training.
    made = apply(table, [{"age": 1, "job": None}, {"age": 1}], ["ham", "ham"], missing="drop", exclude=("id",))
    assert made.report.refused == [
        RefusedFeedback("a value is missing, and this training takes no rows with missing values", 2)
    ]


@pytest.mark.parametrize("dense", [False, True])
def test_rows_of_a_matrix(dense: bool) -> None:
    X = np.array([[0, 1.5, 0], [2, 0, 0], [0, 1.5, 7], [0, 0, 0]])
    data = MatrixData(X if dense else sparse.csr_array(X))
    given = [{"2": 1.5, "1": 0}, {"1": 2.5}, {}, {"3": "x"}]
    labels = texts("1", "-1", None, "-1")
    made = apply_corrections(
        data, labels, Corrections(given, ["-1", "1", "1", "1"]), rules(target="y", exclude=("3",), positive=None)
    )
    assert made.labels.tolist() == ["-1", "-1", "-1", "1", "1"]
    assert made.unmeasured.tolist() == [False, False, True, False, True]
    added = made.data.X[[4]]
    assert (added if dense else added.toarray()).tolist() == [[2.5, 0, 0]]
    assert made.report.refused == [RefusedFeedback("column '3': expected a finite number", 1)]


def test_a_column_of_numbers_that_is_a_category_to_the_model(table: Table) -> None:
    assert apply(table, [{"id": "1"}], ["spam"]).labels[1] == "spam"


def blobs(n: int = 200) -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 2)) + 2 * y[:, None]
    columns = {name: Column(name, "number", X[:, j]) for j, name in enumerate("ab")}
    return Table(columns), np.array(["no", "yes"], dtype=object)[y]


def test_training_learns_them_and_measures_on_what_it_would_without() -> None:
    data, labels = blobs()
    request = TrainingRequest(positive="yes", test_fraction=0.25, seed=3)
    corrections = Corrections([{"a": -9 + 0.01 * i, "b": -9} for i in range(30)], ["yes"] * 30)
    without = train(data, labels, request)
    made = train(data, labels, request, corrections=corrections)
    assert made.report.test.n == without.report.test.n == 50
    assert made.report.calibration.n == without.report.calibration.n == 200
    assert made.report.rows == replace(without.report.rows, total=230, labelled=230, positive=130, feedback=30)
    assert made.report.feedback == FeedbackReport(
        rows=30, added=30, relabelled=0, newly_labelled=0, confirmed=0, superseded=0, refused=[], held_out=0
    )
    row = [{"a": -8.9, "b": -9.0}]
    assert without.model.predict_rows(row)[0].labels == ["no"]
    assert made.model.predict_rows(row)[0].labels == ["yes"]
    assert without.report.feedback is None is without.report.rows.feedback
    again = train(data, labels, request, corrections=corrections)
    assert again.model.decision.threshold == made.model.decision.threshold
    np.testing.assert_array_equal(again.model.decision.dual_coef, made.model.decision.dual_coef)


def test_a_correction_wins_over_the_label_of_the_data_set_wherever_the_row_is() -> None:
    data, labels = blobs()
    wrong = labels.copy()
    wrong[:20] = np.where(labels[:20] == "yes", "no", "yes")
    rows = [{name: float(column.values[i]) for name, column in data.columns.items()} for i in range(20)]
    request = TrainingRequest(positive="yes", test_fraction=0.25, seed=3)
    mended = train(data, wrong, request, corrections=Corrections(rows, labels[:20].tolist()))
    right = train(data, labels, request)
    assert mended.report.feedback.relabelled == 20
    assert mended.report.calibration == right.report.calibration
    # The test rows are those of the training without corrections: what both measured can be compared.
    before = train(data, wrong, request)
    np.testing.assert_array_equal(mended.tested.rows, before.tested.rows)
    np.testing.assert_array_equal(mended.tested.truth, labels[mended.tested.rows] == "yes")
    assert 0 < mended.report.feedback.held_out < 20


def test_rows_with_missing_values_are_dropped_with_their_marks() -> None:
    data, labels = blobs()
    data.columns["a"].values[:7] = np.nan
    corrections = Corrections([{"a": 0.5, "b": 1.0}, {"a": 0.5, "b": None}], ["yes", "yes"])
    made = train(data, labels, TrainingRequest(positive="yes", missing="drop"), corrections=corrections)
    assert made.report.rows.dropped == 7
    assert made.report.rows.feedback == 1
    assert made.report.calibration.n == 193
    assert any(w.startswith("feedback: 1 row(s) are not used: a value is missing") for w in made.report.warnings)


def test_feedback_alone_is_no_base_for_figures() -> None:
    data, labels = blobs(20)
    labels[labels == "yes"] = None
    labels[1] = "yes"
    corrections = Corrections([{"a": 2.0 + i, "b": 2.0} for i in range(9)], ["yes"] * 9)
    with pytest.raises(
        TrainingError, match=r"labelled rows of each class besides feedback, got 10 of 'no', 1 of 'yes'"
    ):
        train(data, labels, TrainingRequest(positive="yes"), corrections=corrections)


def test_a_row_that_chance_chose_is_measured_on_and_counts_once(table: Table) -> None:
    labelled = table.columns["label"].values.copy()
    labelled[0] = None  # like row 2 in what corrections give
    clerk, cook, new = {"age": 30, "job": "clerk"}, {"age": 0, "job": "cook"}, {"age": 9, "job": "x"}
    given = Corrections([clerk, clerk, cook, new, new], 5 * ["ham"], random=[True, False, False, False, True])
    made = apply_corrections(table, labelled, given, rules(), table.columns["label"].values)
    # of its copies the others stay as they are: models that learned from them would measure it
    assert made.labels.tolist() == ["ham", "ham", None, "ham", "ham", "ham"]
    assert made.unmeasured.tolist() == [False, False, False, False, True, False]
    assert made.report.random == 2


def test_what_was_looked_at_because_a_model_was_unsure_moves_no_figure() -> None:
    """Two thirds of the rows have no label; those that chance draws bend nothing, those near the boundary would."""
    claims: dict[str, list[float]] = {"random": [], "chosen": [], "chosen as random": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = np.arange(300) % 2
        X = rng.normal(size=(300, 2)) + 1.2 * y[:, None]
        data = Table({name: Column(name, "number", X[:, j]) for j, name in enumerate("ab")})
        truth = np.array(["no", "yes"], dtype=object)[y]
        known = np.where(np.arange(300) < 60, truth, None)
        by_chance = rng.permutation(np.arange(60, 300))[:60]
        near = 60 + np.argsort(np.abs(X[60:].sum(axis=1) - 1.2))[:60]
        for name, rows, drawn in (
            ("random", by_chance, True),
            ("chosen", near, False),
            ("chosen as random", near, True),
        ):
            sent = [{"a": float(X[row, 0]), "b": float(X[row, 1])} for row in rows]
            corrections = Corrections(sent, truth[rows].tolist(), random=[drawn] * len(rows))
            request = TrainingRequest(positive="yes", algorithm="svm")
            report = train(data, known, request, corrections=corrections).report
            assert report.calibration.n == (120 if drawn else 60)
            claims[name].append(report.calibration.f1.value)
    mean = {name: float(np.mean(values)) for name, values in claims.items()}
    # the best possible F1 is .80; what was chosen for being difficult would say much less
    assert abs(mean["random"] - 0.80) < 0.04
    assert abs(mean["chosen"] - 0.80) < 0.05
    assert mean["chosen as random"] < 0.74


def test_what_nobody_said_changes_no_label_that_is_there(table: Table) -> None:
    clerk, cook, new = {"age": 30, "job": "clerk"}, {"age": 41, "job": "cook"}, {"age": 9, "job": "x"}
    sources, weights = ["trap", "trap", "person", "trap"], [0.5, 0.5, 1.0, 0.5]
    given = Corrections([clerk, cook, new, new], ["ham", "ham", "ham", "spam"], sources=sources, weights=weights)
    labelled = table.columns["label"].values
    made = apply_corrections(table, labelled, given, rules())
    assert made.labels.tolist() == ["spam", "ham", "ham", "ham", "?", "ham"]
    assert made.weights is not None
    assert made.weights.tolist() == [1, 1, 0.5, 1, 1, 1]
    assert made.report is not None
    assert made.report.concluded == [ConcludedFeedback("trap", 3, 0.5)]
    assert (made.report.superseded, made.report.confirmed, made.report.relabelled) == (2, 1, 1)
    assert not made.looked_at[: len(labelled)].any()  # nor has anybody looked at a row of which a rule says the same
    by_somebody = Corrections([clerk], ["ham"], sources=["person"], weights=[1.0])
    assert apply_corrections(table, labelled, by_somebody, rules()).weights is None


def test_what_a_trap_concludes_is_learned_and_never_measured_on() -> None:
    """Wrong labels among them would be seen at once: the classes lie two standard deviations apart."""
    data, labels = blobs()
    wrong = [{"a": 3.0 + i / 50, "b": 3.0} for i in range(60)]
    concluded = Corrections(wrong, ["no"] * 60, sources=["trap"] * 60, weights=[1.0] * 60)
    request = TrainingRequest(positive="yes", test_fraction=0.25, seed=3)
    without, made = (train(data, labels, request, corrections=given) for given in (None, concluded))
    assert made.report.feedback.concluded == [ConcludedFeedback("trap", 60, 1.0)]
    for part in ("calibration", "test"):
        before, now = getattr(without.report, part), getattr(made.report, part)
        assert (now.n, now.true_positives + now.false_negatives) == (
            before.n,
            before.true_positives + before.false_negatives,
        )
    assert made.report.curve.positives + made.report.curve.negatives == 200
    assert made.report.curve.negatives == 100
    moved = made.model.predict(data).scores - without.model.predict(data).scores
    assert np.abs(moved).max() > 0.1  # it has learned from them


def test_rows_that_weigh_nearly_nothing_change_nearly_nothing() -> None:
    data, labels = blobs()
    wrong = [{"a": 3.0 + i / 50, "b": 3.0} for i in range(60)]

    def trained(weight: float | None) -> np.ndarray:
        corrections = None
        if weight is not None:
            corrections = Corrections(wrong, ["no"] * 60, sources=["trap"] * 60, weights=[weight] * 60)
        request = TrainingRequest(positive="yes", algorithm="svm", params={"C": 1.0, "kernel": "linear"})
        made = train(data, labels, request, corrections=corrections)
        if weight is not None:
            assert made.report.feedback.added == 60
        return np.asarray(made.model.predict(data).scores)

    without = trained(None)
    light, heavy = (float(np.abs(trained(weight) - without).max()) for weight in (1e-6, 1.0))
    assert light < 0.1 * heavy  # rows that are there at all move how columns are scaled
