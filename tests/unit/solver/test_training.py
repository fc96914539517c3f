"""Training from a data set and a request: honest rows, honest reports, errors that the user can mend."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import confusion_matrix

from solver.algorithms import ALGORITHMS, ParamError, validate_params
from solver.estimators import PSVM, SVM
from solver.evaluation import WORTH_FOR_INTERVALS, ConfusionCounts, measures, wilson
from solver.features import Column, FeatureError, MatrixData, Table
from solver.model_file import read_model, write_model
from solver.operating_point import Objective
from solver.report import Classes, Judgement, Refit, RowCounts
from solver.retuning import chosen_point
from solver.training import Progress, TrainedModel, TrainingError, TrainingRequest, train
from solver.training.several_classes import train as train_any
from solver.training.two_classes import _another_method, _measured_method

Labels = NDArray[np.object_]


def objects(values: list[Any]) -> Labels:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def blobs(
    n: int = 60, unlabelled: int = 20, seed: int = 0, names: tuple[str, str] = ("no", "yes")
) -> tuple[Table, Labels]:
    """Two overlapping clouds with a category that tells them apart half of the time; the last rows are unlabelled."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    labels = objects([names[t] for t in truth])
    labels[n - unlabelled :] = None
    table = Table(
        {
            "x": Column("x", "number", rng.normal(size=n) + 2.0 * truth),
            "y": Column("y", "number", rng.normal(size=n)),
            "c": Column("c", "text", objects([["a", "b"][t if rng.random() < 0.7 else 1 - t] for t in truth])),
            "target": Column("target", "text", labels.copy()),
        }
    )
    return table, labels


def request(**changes: Any) -> TrainingRequest:
    return TrainingRequest(**({"algorithm": "svm", "positive": "yes", "target": "target"} | changes))


def test_the_report_counts_rows_and_holds_every_part() -> None:
    table, labels = blobs(200, 100)
    labels[3] = "?"
    labels[5] = "  "
    result = train(table, labels, request(algorithm="psvm", unlabeled=["?"], test_fraction=0.2, refit=False, seed=3))
    report = result.report
    json.dumps(report.to_dict(), allow_nan=False)
    assert report.rows == RowCounts(
        total=200, labelled=98, positive=48, negative=50, unlabelled=102, test=20, dropped=0
    )
    assert report.test.n == 20
    assert report.test.true_positives + report.test.false_negatives == 10
    assert report.calibration.n == 78
    assert report.classes == Classes("no", "yes")
    assert report.algorithm == "psvm"
    assert report.params["C_soft"] == 0.1
    assert report.objective == {"kind": "f1"}
    assert set(report.timings) == {"features", "training", "evaluating"}
    assert report.peak_memory_bytes > 10_000_000
    assert report.threshold == result.model.decision.threshold
    assert {name: control.test.n for name, control in report.controls.items()} == {
        "no_unlabelled": 20,
        "plain_svm": 20,
    }
    assert report.controls["plain_svm"].threshold == 0.0
    assert result.model.curve is not None
    assert result.model.curve.to_dict() == report.curve.to_dict()
    assert len(report.rounds) >= 1


def test_target_and_excluded_columns_are_no_features() -> None:
    table, labels = blobs()
    result = train(table, labels, request(exclude=["y"]))
    assert result.model.columns == [{"name": "x", "kind": "number"}, {"name": "c", "kind": "category"}]
    assert train(table, labels, request(include=["x"])).model.columns == [{"name": "x", "kind": "number"}]
    with pytest.raises(TrainingError, match="'target' cannot be a feature"):
        train(table, labels, request(include=["x", "target"]))


def test_test_rows_touch_nothing_but_the_test_measures() -> None:
    table, labels = blobs(120, 40)
    before = train(table, labels, request(algorithm="psvm", test_fraction=0.25, refit=False, seed=5))
    # which rows were held out shows when a row's values change nothing but the measures on test rows
    model, calibration, held_out = before.model.decision, before.report.calibration, []
    for row in np.flatnonzero(labels != None)[:30]:  # noqa: E711 (element by element)
        x = table.columns["x"].values.copy()
        x[row] = 1e4
        changed = Table({**table.columns, "x": Column("x", "number", x)})
        after = train(changed, labels, request(algorithm="psvm", test_fraction=0.25, refit=False, seed=5))
        if after.report.calibration == calibration and after.model.decision.threshold == model.threshold:
            np.testing.assert_array_equal(after.model.decision.dual_coef, model.dual_coef)
            state, same_state = after.model.features.state()[0], before.model.features.state()[0]  # type: ignore[union-attr]
            for name, array in state.items():
                np.testing.assert_array_equal(array, same_state[name])
            held_out.append(row)
    assert 3 <= len(held_out) <= 13  # a quarter of 30, more or less: 7.5 ± 2.5 standard deviations


def test_unlabelled_rows_take_part_in_the_statistics_of_features() -> None:
    table, labels = blobs()
    with_them = train(table, labels, request(algorithm="psvm")).model.features
    labelled = np.flatnonzero([label is not None for label in labels])
    without = train(table.take(labelled), labels[labelled], request(algorithm="svm")).model.features
    assert with_them is not None
    assert without is not None
    assert with_them.state()[0]["mean"].tolist() != without.state()[0]["mean"].tolist()
    x = table.columns["x"].values
    np.testing.assert_allclose(with_them.state()[0]["mean"][0], x.mean(), rtol=1e-12)


def test_test_measures_are_those_of_the_model_on_the_rows_it_did_not_see() -> None:
    n = 400
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    truth = X[:, 0] + 0.7 * rng.normal(size=n) > 0
    labels = objects(["1" if t else "0" for t in truth])
    X[:, 2] = np.arange(n)  # tells the rows apart
    result = train(MatrixData(X), labels, TrainingRequest(algorithm="svm", test_fraction=0.3, refit=False, seed=2))
    report = result.report.test
    # drawn again here, from the documented rule: stratified, by the seed
    draw = np.random.default_rng(2)
    rows = []
    for label in ("0", "1"):
        members = draw.permutation(np.flatnonzero(labels == label))
        rows.append(members[: int(np.floor(0.3 * len(members) + 0.5))])
    test_rows = np.sort(np.concatenate(rows))
    made = result.model.predict(MatrixData(X[test_rows]))
    tn, fp, fn, tp = confusion_matrix(labels[test_rows].tolist(), made.labels, labels=["0", "1"]).ravel()
    assert (
        report.true_negatives,
        report.false_positives,
        report.false_negatives,
        report.true_positives,
    ) == (
        tn,
        fp,
        fn,
        tp,
    )


def test_intervals_of_rows_that_chose_the_threshold_are_wider() -> None:
    table, labels = blobs(200, 40)
    costs = {"kind": "cost", "false_negative": 3, "false_positive": 1}
    report = train(table, labels, request(objective=costs, test_fraction=0.25, refit=False)).report
    for measured, worth in ((report.calibration, WORTH_FOR_INTERVALS), (report.test, 1.0)):
        assert measured is not None
        counts = ConfusionCounts(
            measured.true_positives, measured.false_positives, measured.true_negatives, measured.false_negatives
        )
        assert measured == measures(counts, costs=(3.0, 1.0), worth=worth)
    # and so they are when another is chosen
    point = chosen_point(report, Objective())
    assert point is not None
    assert point.calibration is not None
    assert point.calibration.recall is not None
    hits, positives = point.calibration.true_positives, point.calibration.true_positives
    positives += point.calibration.false_negatives
    assert (point.calibration.recall.low, point.calibration.recall.high) == wilson(
        hits, positives, worth=WORTH_FOR_INTERVALS
    )


def test_same_seed_same_model_other_seed_other_split() -> None:
    table, labels = blobs(100, 40)
    first, again, other = (
        train(table, labels, request(algorithm="psvm", test_fraction=0.2, refit=False, seed=seed)) for seed in (1, 1, 2)
    )
    assert first.model.predict(table).scores.tobytes() == again.model.predict(table).scores.tobytes()
    without_time = [replace(made.report, timings={}, peak_memory_bytes=None, rounds=[]) for made in (first, again)]
    assert without_time[0] == without_time[1]
    assert first.model.predict(table).scores.tobytes() != other.model.predict(table).scores.tobytes()


# -- labels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("negative", "positive"), [("0", "1"), ("-1", "1"), ("-1", "+1")])
def test_numeric_labels_need_no_positive(negative: str, positive: str) -> None:
    table, labels = blobs(names=(negative, positive))
    result = train(table, labels, request(positive=None))
    assert result.model.classes == (negative, positive)
    turned = train(table, labels, request(positive=negative))
    assert turned.model.classes == (positive, negative)


def test_other_labels_need_a_positive() -> None:
    table, labels = blobs()
    with pytest.raises(TrainingError, match="say which one is positive") as caught:
        train(table, labels, request(positive=None))
    assert caught.value.code == "positive_needed"
    labels[:4] = "maybe"
    with pytest.raises(TrainingError, match="name it in `positive`") as caught:
        train(table, labels, request(positive=None))
    assert caught.value.code == "objective"
    with pytest.raises(TrainingError, match="several_classes") as caught:
        train(table, labels, request(positive=None, objective={"kind": "macro_f1"}))
    assert caught.value.code == "positive_needed"


def test_more_than_two_labels_are_positive_against_the_rest_with_a_warning() -> None:
    table, labels = blobs()
    labels[:6:2] = "maybe"
    result = train(table, labels, request())
    assert result.model.classes == ("not yes", "yes")
    assert result.report.rows.negative == 20
    said = "3 different labels: 'yes' is told from all others together ('maybe', 'no')"
    assert any(warning.startswith(said) for warning in result.report.warnings)
    assert set(result.model.predict(table).labels) == {"not yes", "yes"}


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        (["no"] * 30 + [None] * 30, "one_class"),
        (["yes"] * 30 + [None] * 30, "one_class"),
        ([None] * 60, "no_labels"),
        (["?"] * 60, "no_labels"),
        (["no"] * 30 + ["yes"] + [None] * 29, "too_few_labelled"),
        (["no"] + ["yes"] * 30 + [None] * 29, "too_few_labelled"),
        (["no"] * 30 + ["ja"] * 30, "unknown_positive"),
        (["no"] * 30 + ["yes"] * 29 + ["x" * 257], "label_text"),
        (["no"] * 30 + ["yes"] * 29 + ["a\nb"], "label_text"),
        (["no"] * 30 + ["yes"] * 29 + ["\x00"], "label_text"),
        (["no"] * 30 + ["yes"] * 29 + ["\ud800"], "label_text"),
        (["no"] * 30 + ["yes"] * 30, "no_unlabelled"),
    ],
)
def test_what_the_user_can_mend_is_a_training_error(labels: list[str | None], code: str) -> None:
    table, _ = blobs()
    algorithm = "psvm" if code == "no_unlabelled" else "svm"
    table = Table({name: column for name, column in table.columns.items() if name != "target"})
    with pytest.raises(TrainingError) as caught:
        train(table, objects(labels), request(algorithm=algorithm, unlabeled=["?"]))
    assert caught.value.code == code
    assert str(caught.value) == caught.value.message
    assert "\x00" not in caught.value.message


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"algorithm": "magic"}, "params"),
        ({"params": {"C": -1}}, "params"),
        ({"params": {"threshold_rule": "paper"}, "objective": {"kind": "f_beta", "beta": 2}}, "not_trainable"),
        ({"params": {"device": "cuda"}}, "device"),
        ({"objective": {"kind": "precision"}}, "objective"),
        ({"exclude": ["nobody"]}, "features"),
        ({"exclude": ["x", "y", "c"]}, "features"),
        ({"test_fraction": 1.0}, "test_fraction"),
        ({"test_fraction": float("nan")}, "test_fraction"),
    ],
)
def test_a_request_that_cannot_be_met_is_a_training_error(changes: dict[str, Any], code: str) -> None:
    table, labels = blobs()
    with pytest.raises(TrainingError) as caught:
        train(table, labels, request(**changes))
    assert caught.value.code == code


def test_lengths_must_agree() -> None:
    table, labels = blobs()
    with pytest.raises(ValueError, match="60 rows but 59 labels"):
        train(table, labels[1:], request())


def test_a_test_share_leaves_two_rows_of_each_class_for_training() -> None:
    table, labels = blobs(40, 10)
    few = np.flatnonzero(labels == "yes")[3:]
    labels[few] = None
    result = train(table, labels, request(algorithm="psvm", test_fraction=0.9))
    assert result.report.rows.test == 1 + 13
    labels[np.flatnonzero(labels == "yes")[2:]] = None
    result = train(table, labels, request(algorithm="psvm", test_fraction=0.5))
    assert result.report.test.recall is None
    assert any("too few labelled rows of 'yes'" in warning for warning in result.report.warnings)


@pytest.mark.parametrize(("unlabelled", "tried"), [(0, 0), (20, 0), (60, 4)])
def test_auto_tries_other_methods_where_there_are_unlabelled_rows_enough(unlabelled: int, tried: int) -> None:
    table, labels = blobs(120, unlabelled)
    report = train(table, labels, request(algorithm="auto")).report
    assert report.algorithm == "auto"
    assert (report.judge is None) == (unlabelled == 0)
    assert tried == 0 or len(report.judge.methods) == tried
    assert not any("does not learn from" in each for each in report.warnings)


def test_svm_says_that_it_leaves_unlabelled_rows_aside() -> None:
    table, labels = blobs()
    warnings = train(table, labels, request()).report.warnings
    assert any(each.startswith("svm does not learn from the 20 unlabelled rows; auto tries") for each in warnings)


def test_a_model_that_always_says_the_same_is_warned_about() -> None:
    table, labels = blobs()
    assert not any("are predicted" in warning for warning in train(table, labels, request()).report.warnings)
    # precision and recall of a model that finds nothing are easily read over
    nothing = request(objective={"kind": "precision", "target": 1.0}, params={"C": 1e-6, "threshold_rule": "zero"})
    few_positives = objects([None if label == "yes" and row > 6 else label for row, label in enumerate(labels)])
    assert any(
        warning.endswith("rows that the model was measured on are predicted 'no'")
        for warning in train(table, few_positives, nothing).report.warnings
    )


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_rises_through_the_phases() -> None:
    table, labels = blobs(200, 100)
    seen: list[Progress] = []
    train(table, labels, request(algorithm="psvm", test_fraction=0.1), progress=lambda p: seen.append(p))
    fractions = [p.fraction for p in seen]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert list(dict.fromkeys(p.phase for p in seen)) == ["features", "training", "evaluating", "refitting"]
    assert len({p.fraction for p in seen if p.phase == "refitting"}) > 8
    # looking at each column, then fitting them, then applying that
    assert len({p.fraction for p in seen if p.phase == "features"}) >= len(table.columns) + 3
    rounds = [p.details for p in seen if "round" in p.details]
    assert rounds
    json.dumps([p.details for p in seen], allow_nan=False)


def test_progress_moves_while_texts_and_dates_are_encoded() -> None:
    n = 6000
    texts = np.array([f"word{i % 700} word{i % 31} {'prize' if i % 2 else 'report'}" for i in range(n)], dtype=object)
    dates = np.array([f"2026-{i % 12 + 1:02d}-{i % 28 + 1:02d}T{i % 24:02d}:00:00Z" for i in range(n)], dtype=object)
    for kind, values in (("text", texts), ("date", dates)):
        table = Table({"x": Column("x", "text", values)})
        labels = np.array([("spam" if i % 2 else "ham") if i < 200 else None for i in range(n)], dtype=object)
        seen: list[Progress] = []
        wish = request(algorithm="svm", positive="spam", kinds={"x": kind}, test_fraction=0.1)
        train(table, labels, wish, progress=lambda p, seen=seen: seen.append(p))
        begin, *told = [p.fraction for p in seen if p.phase == "features"]
        steps = np.diff([begin, *told])
        # No step is more than a quarter of the phase: what takes long is told piece by piece.
        assert steps.max() <= 0.25 * (told[-1] - begin), (kind, told)
        assert len(told) > 8


@pytest.mark.parametrize("algorithm", ["svm", "psvm"])
def test_the_model_learns_from_the_test_rows_once_they_have_measured_it(algorithm: str) -> None:
    table, labels = blobs(160, 60)
    wish = request(algorithm=algorithm, test_fraction=0.25, seed=5)
    both, measured = train(table, labels, wish), train(table, labels, replace(wish, refit=False))
    every = train(table, labels, replace(wish, test_fraction=0.0))
    assert measured.report.refit is None
    taken = [
        replace(
            measured.report,
            judge=Judgement(mode="safe", returned=method, log_loss=0.5, sharpness=0.5, methods=[], sentence=""),
        )
        for method in ("lapsvm", "svm")
    ]
    method = _measured_method(*taken)
    assert (method, _measured_method(taken[1], taken[1])) == ("svm", None)
    (said,) = _another_method(*taken, method)
    assert said.startswith(
        "the test rows measured svm: once they were learned, too, auto took lapsvm, which they have not measured"
    )
    # the model is the one that all labels make, to the bit
    assert both.report.refit == Refit(labelled=100, measured=74)
    assert both.model.decision.dual_coef.tobytes() == every.model.decision.dual_coef.tobytes()
    assert both.report.threshold == every.report.threshold == both.model.decision.threshold
    assert both.report.calibration == every.report.calibration
    # what the test says is of the model that has not seen its rows
    assert both.report.rows == measured.report.rows
    assert both.report.test == measured.report.test
    for name, control in both.report.controls.items():
        assert control.test == measured.report.controls[name].test
        assert control.calibration == every.report.controls[name].calibration


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_threshold_of_the_training_promises_the_same_when_it_is_chosen_again(
    refit: bool, confidence: float | None
) -> None:
    table, labels = blobs(400, 100)
    objective = {"kind": "precision", "target": 0.8, **({} if confidence is None else {"confidence": confidence})}
    report = train(table, labels, request(objective=objective, test_fraction=0.25, refit=refit)).report
    point = chosen_point(report, Objective.parse(objective))
    assert point is not None
    if point.threshold == report.threshold:
        assert (point.promise, point.status) == (report.promise, report.status)
    else:
        assert confidence is not None  # a certificate tests its own grid


@pytest.mark.parametrize("stop_in", ["training", "refitting"])
def test_a_training_that_stops_before_it_learned_from_the_test_rows_keeps_the_measured_model(stop_in: str) -> None:
    table, labels = blobs(160, 60)
    wish = request(algorithm="psvm", test_fraction=0.25, seed=5)
    result = train(table, labels, wish, progress=lambda p: p.phase == stop_in)
    assert result.report.refit is None
    assert result.report.status == "stopped"
    assert "the training was stopped before the model had learned from the test rows too" in result.report.warnings
    assert not any("no time" in said for said in result.report.warnings)
    if stop_in == "refitting":
        measured = train(table, labels, replace(wish, refit=False))
        assert result.model.decision.dual_coef.tobytes() == measured.model.decision.dual_coef.tobytes()
        assert result.report.promise == measured.report.promise
    hurried = train(table, labels, replace(wish, max_seconds=1e-9))
    assert hurried.report.refit is None
    assert hurried.report.status != "stopped"
    assert "there was no time to train the model once more, on the test rows too" in hurried.report.warnings


def test_warnings_of_the_test_rows_are_said_of_a_model_that_learned_from_them_too() -> None:
    table, labels = blobs(60, 20)
    labels[4:][labels[4:] == "yes"] = None  # two of them, which stay for training
    warnings = train(table, labels, request(test_fraction=0.2)).report.warnings
    assert "too few labelled rows of 'yes': the test rows hold none" in warnings


@pytest.mark.parametrize("stop_in", ["features", "training"])
def test_stopping_keeps_the_best_model_so_far(stop_in: str) -> None:
    table, labels = blobs(300, 200)
    result = train(
        table,
        labels,
        request(algorithm="psvm", test_fraction=0.1, params={"max_rounds": 40, "max_add": 2}),
        progress=lambda p: p.phase == stop_in,
    )
    assert result.report.status == "stopped"
    assert result.report.status_reason
    assert len(result.report.rounds) <= 1
    json.dumps(result.report.to_dict(), allow_nan=False)
    assert len(result.model.predict(table).labels) == 300
    assert result.report.test.n == 10


def test_a_training_stopped_in_its_first_solve_has_a_model_with_a_threshold() -> None:
    table, labels = blobs(3000, 0)
    objective = {"kind": "precision", "target": 0.95}
    wish = request(algorithm="svm", test_fraction=0.2, objective=objective, params={"tune": "C-gamma"})
    stopped = train(table, labels, wish, progress=lambda _: True).report
    assert stopped.status == "stopped"
    assert stopped.solver.support_vectors > 0
    assert stopped.labeled_split == "full"
    assert stopped.calibration.precision.value >= 0.95
    assert stopped.test.precision.value > 0.9
    assert any("measures are optimistic" in warning for warning in stopped.warnings)


def test_a_stopped_training_measures_as_many_test_rows_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.training.measuring._HURRIED_SECONDS", 0.0)
    monkeypatch.setattr("solver.training.measuring._HURRIED_ROWS", 30)
    table, labels = blobs(1000, 0)
    wish = request(algorithm="svm", test_fraction=0.2)
    stopped = train(table, labels, wish, progress=lambda p: p.phase == "training").report
    assert stopped.test.n == stopped.controls["plain_svm"].test.n == 30
    assert "the training was stopped: 30 of the 200 test rows were measured on" in stopped.warnings
    assert 5 < stopped.test.true_positives + stopped.test.false_negatives < 25  # drawn at random
    whole = train(table, labels, wish).report
    assert whole.test.n == 200
    assert not any("were measured on" in warning for warning in whole.warnings)


# -- whole way ---------------------------------------------------------------------------------------------------------


def breast_cancer() -> tuple[Table, Labels, Table, Labels]:
    """A training part with nine of ten labels removed, and a held-out part with all of them."""
    data = load_breast_cancer()
    labels = objects(["malignant" if t == 0 else "benign" for t in data.target])
    order = np.random.default_rng(0).permutation(len(labels))
    table = Table(
        {str(name): Column(str(name), "number", data.data[:, j].copy()) for j, name in enumerate(data.feature_names)}
    )
    train_rows, held_out = order[:427], order[427:]
    kept = labels[train_rows]
    kept[np.random.default_rng(1).random(len(kept)) < 0.9] = None
    return table.take(train_rows), kept, table.take(held_out), labels[held_out]


@pytest.fixture(scope="module")
def cancer() -> TrainedModel:
    table, labels, _, _ = breast_cancer()
    return train(
        table,
        labels,
        TrainingRequest(algorithm="psvm", objective={"kind": "recall", "target": 0.95}, positive="malignant"),
    )


def test_breast_cancer_end_to_end(cancer: TrainedModel, tmp_path: Path) -> None:
    _, _, held_out, truth = breast_cancer()
    assert (cancer.report.status, cancer.report.promise.level) == ("cannot_certify", "open")
    assert "labelled 'malignant' rows are too few to promise recall 95%" in cancer.report.status_reason
    assert cancer.report.calibration.recall.value >= 0.95
    assert cancer.report.rows.labelled < 60
    made = cancer.model.predict(held_out)
    positive = np.array(made.labels) == "malignant"
    sick = truth == "malignant"
    assert np.array_equal(positive, made.scores > cancer.model.decision.threshold)
    assert (positive & sick).sum() / sick.sum() >= 0.85  # 0.95 asked, some 16 malignant rows to calibrate on
    assert (positive == sick).mean() >= 0.85
    write_model(tmp_path / "model", cancer.model)
    for source in (tmp_path / "model", (tmp_path / "model").read_bytes()):
        again = read_model(source).predict(held_out)
        assert again.scores.tobytes() == made.scores.tobytes()
        assert again.labels == made.labels


def test_rows_as_json_give_the_scores_of_the_table(cancer: TrainedModel) -> None:
    _, _, held_out, _ = breast_cancer()
    rows = [{name: float(c.values[i]) for name, c in held_out.columns.items()} for i in range(held_out.n_rows)]
    data, extra = cancer.model.parse_rows(rows)
    assert extra == []
    assert cancer.model.predict(data).scores.tobytes() == cancer.model.predict(held_out).scores.tobytes()


def test_sparse_matrix_end_to_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = 150
    X = sparse.random_array((n, 300), density=0.05, rng=rng).tolil()
    truth = np.arange(n) % 2 == 0
    X[np.flatnonzero(truth), rng.integers(0, 5, truth.sum())] = 3.0
    labels = objects(["+1" if t else "-1" for t in truth])
    labels[100:] = "0"
    data = MatrixData(sparse.csr_array(X))
    result = train(data, labels, TrainingRequest(algorithm="psvm", unlabeled=["0"], test_fraction=0.2))
    assert result.model.algorithm == "psvm"
    assert sparse.issparse(result.model.decision.support_vectors)
    write_model(tmp_path / "model", result.model)
    again = read_model(tmp_path / "model").predict(data)
    assert again.scores.tobytes() == result.model.predict(data).scores.tobytes()
    assert np.mean((np.array(again.labels) == "+1") == truth) > 0.8


@settings(deadline=None, max_examples=examples(15))
@given(
    seed=st.integers(0, 2**31),
    kernel=st.sampled_from(["rbf", "linear", "poly", "sigmoid"]),
    objective=st.sampled_from(
        [
            {"kind": "f1"},
            {"kind": "precision", "target": 0.9},
            {"kind": "recall", "target": 1.0},
            {"kind": "cost", "false_negative": 5, "false_positive": 1},
            {"kind": "precision", "target": 0.7, "confidence": 0.9},
        ]
    ),
    test_fraction=st.sampled_from([0.0, 0.3]),
    algorithm=st.sampled_from(["svm", "psvm"]),
)
def test_any_training_survives_storing(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    kernel: str,
    objective: dict[str, Any],
    test_fraction: float,
    algorithm: str,
) -> None:
    table, labels = blobs(80, 30, seed)
    result = train(
        table,
        labels,
        request(
            algorithm=algorithm,
            params={"kernel": kernel, **({"max_rounds": 4} if algorithm == "psvm" else {})},
            objective=objective,
            test_fraction=test_fraction,
            seed=seed,
        ),
    )
    json.dumps(result.report.to_dict(), allow_nan=False)
    path = tmp_path_factory.mktemp("any") / "model"
    write_model(path, result.model)
    before, after = result.model.predict(table), read_model(path).predict(table)
    assert before.scores.tobytes() == after.scores.tobytes()
    assert (before.labels, before.warnings) == (after.labels, after.warnings)


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "estimator"), [("svm", SVM), ("psvm", PSVM)])
def test_the_parameter_tables_fit_the_estimators(name: str, estimator: type) -> None:
    spec = ALGORITHMS[name]
    assert spec.load() is estimator
    signature = inspect.signature(estimator).parameters
    for parameter in spec.parameters:
        assert parameter.name in signature
        if parameter.name not in ("mode", "kernel"):  # the service's defaults are cautious, and look at the features
            assert parameter.default == signature[parameter.name].default
        assert parameter.check(parameter.default) == parameter.default
        assert parameter.help.endswith(".")
        for choice in parameter.choices:
            assert parameter.check(choice) == choice
        for bound in (parameter.minimum, parameter.maximum):
            if bound is not None:
                parameter.check(bound)
    inner = {"objective", "positive", "unlabeled", "random_state", "callback", "max_seconds"}
    assert {p.name for p in spec.parameters} == set(signature) - inner


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"C": 0}, "C"),
        ({"C": "1"}, "C"),
        ({"C": True}, "C"),
        ({"C": float("nan")}, "C"),
        ({"C": float("inf")}, "C"),
        ({"C": 10**400}, "C"),
        ({"C": None}, "C"),
        ({"C": [1]}, "C"),
        ({"gamma": "wide"}, "gamma"),
        ({"gamma": 0}, "gamma"),
        ({"degree": 2.5}, "degree"),
        ({"degree": 11}, "degree"),
        ({"kernel": "precomputed"}, "kernel"),
        ({"kernel": 1}, "kernel"),
        ({"kernel": ["rbf"]}, "kernel"),
        ({"random_state": 1}, "random_state"),
        ({"__class__": 1}, "__class__"),
        ({"max_add": 0}, "max_add"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], name: str) -> None:
    with pytest.raises(ParamError) as caught:
        validate_params("psvm", params)
    assert caught.value.name == name


def test_good_parameters_become_complete() -> None:
    made = validate_params("psvm", {"C": 10, "gamma": 0.5, "degree": 2.0, "max_add": None, "class_weight": "balanced"})
    assert made["C"] == 10.0
    assert (made["degree"], type(made["degree"])) == (2, int)
    assert made["max_rounds"] == 50
    assert set(made) == {parameter.name for parameter in ALGORITHMS["psvm"].parameters}
    assert set(validate_params("auto", {})) == {*validate_params("svm", {}), "mode", "positive_share"}
    with pytest.raises(ParamError) as caught:
        validate_params("auto", {"max_rounds": 3})
    assert caught.value.name == "max_rounds"
    with pytest.raises(ParamError) as caught:
        validate_params("nothing", {})
    assert caught.value.name == "algorithm"


# -- missing values, texts and dates -----------------------------------------------------------------------------------


def test_rows_with_missing_values_can_be_dropped_or_refused() -> None:
    table, labels = blobs()
    x, c = table.columns["x"].values.copy(), table.columns["c"].values.copy()
    x[:5], c[3:9] = np.nan, None
    gaps = Table({**table.columns, "x": Column("x", "number", x), "c": Column("c", "text", c)})
    whole = train(gaps, labels, request(test_fraction=0.2))
    assert whole.report.rows.dropped == 0
    dropped = train(gaps, labels, request(test_fraction=0.2, missing="drop"))
    rows = dropped.report.rows
    assert (rows.total, rows.dropped) == (table.n_rows, 9)
    assert rows.labelled + rows.unlabelled + rows.dropped == rows.total
    assert f"9 of {table.n_rows} rows lack a value (5 in 'x', 6 in 'c') and take no part" in dropped.report.warnings
    kept = train(gaps.take(np.arange(9, table.n_rows)), labels[9:], request(test_fraction=0.2))
    assert dropped.model.predict(table).scores.tobytes() == kept.model.predict(table).scores.tobytes()
    assert dropped.model.predict(gaps).warnings != []
    with pytest.raises(TrainingError, match="9 of") as caught:
        train(gaps, labels, request(missing="error"))
    assert caught.value.code == "missing_values"
    refusing = train(gaps, labels, request(missing="error", exclude=["x", "c"])).model
    with pytest.raises(FeatureError, match="takes no missing"):
        refusing.predict_rows([{"y": None}])
    with pytest.raises(TrainingError, match="missing must be one of"):
        train(gaps, labels, request(missing="magic"))


def test_texts_take_a_linear_kernel_unless_another_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    words = {True: ["win", "prize", "now", "click", "money"], False: ["lunch", "meeting", "report", "see", "you"]}
    truth = rng.random(80) < 0.5
    truth[:4] = [True, True, False, False]
    texts = objects([" ".join([*rng.choice(words[bool(t)], 6), *rng.choice(["the", "and", "our"], 4)]) for t in truth])
    table = Table({"note": Column("note", "text", texts)})
    labels = objects(["spam" if t else "ham" for t in truth])
    asked = {"algorithm": "svm", "positive": "spam", "test_fraction": 0.25, "kinds": {"note": "text"}}
    result = train(table, labels, TrainingRequest(**asked))
    assert result.report.params["kernel"] == result.model.decision.kind == "linear"
    assert result.model.columns == [{"name": "note", "kind": "text"}]
    assert [(each.name, each.kind) for each in result.report.columns] == [("note", "text")]
    assert result.report.test.f1.value > 0.9
    decided, _ = result.model.predict_rows([{"note": "click to WIN money"}, {"note": "lunch"}])
    assert decided.labels == ["spam", "ham"]
    other = train(table, labels, TrainingRequest(**asked, params={"kernel": "rbf"}, text={"words": 2}))
    assert other.model.decision.kind == "rbf"
    assert other.model.features.n_features > result.model.features.n_features
    with pytest.raises(TrainingError, match="words must be"):
        train(table, labels, TrainingRequest(**asked, text={"words": 20}))
    numbers_only, its_labels = blobs()
    assert train(numbers_only, its_labels, request(include=["x"])).report.params["kernel"] == "rbf"


@pytest.mark.parametrize("classes", [2, 3])
def test_many_copies_of_labelled_rows_are_told(classes):
    """Labels by lot, each row ten times: of left-out rows no copy is learned, and figures are those of the cases."""
    rng = np.random.default_rng(3)
    values, lot = rng.normal(size=20), np.arange(20) % classes
    several = {} if classes == 2 else {"objective": {"kind": "macro_f1"}, "scheme": "one_vs_rest"}
    request = TrainingRequest(algorithm="svm", **({"positive": "c1"} if classes == 2 else several))

    def told(x, codes):
        labels = np.array([f"c{code}" for code in codes], dtype=object)
        report = train_any(Table({"x": Column("x", "number", x)}), labels, request).report
        said = [each for each in report.warnings if "are the same as others" in each]
        return report.calibration.n, "".join(said)

    measured, said = told(np.tile(values, 10), np.tile(lot, 10))
    assert measured == 20
    assert "figures rest on 20 rows" in said
    assert told(rng.normal(size=200), np.tile(lot, 10)) == (200, "")
    measured, said = told(np.tile(values, 10), rng.permutation(np.tile(lot, 10)))  # the same by chance: labels differ
    assert measured == 200
    assert "each row counts" in said
