"""Trainings of several classes: what they decide, what they tell, what they refuse, and their files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from solver.algorithms import validate_params
from solver.class_succession import decide_of_classes
from solver.classes_report import MulticlassControl, MulticlassReport, any_report
from solver.estimate import estimate_classes
from solver.explaining import explain
from solver.features import Column, MatrixData, Table, TableFeatures
from solver.model_file import ClassesModel, ModelFileError, read_any_model, write_model
from solver.multiclass import ProblemScores
from solver.multiclass.decision import SharedExpansion
from solver.report import CurvePoints, Report, Succession
from solver.training import Corrections, TrainedClasses, TrainingError, TrainingRequest
from solver.training.several_classes import train

CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
NAMES = ["a", "b", "c"]


def clouds(n: int = 120, unlabelled: int = 30, seed: int = 0, *, tell: bool = True) -> tuple[Table, NDArray[Any]]:
    """Rows of three classes with a category and a text; with `tell` false the labels are drawn at random."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + CENTRES[codes]
    if not tell:  # as many of each class, so that chance is a third
        codes = np.concatenate([rng.permutation(np.arange(each) % 3) for each in (n - unlabelled, unlabelled)])
    labels = np.array(NAMES, dtype=object)[codes]
    labels[n - unlabelled :] = None
    job = np.array(["clerk", "cook"], dtype=object)[(X[:, 0] > 1).astype(int)]
    columns = {
        "x": Column("x", "number", X[:, 0]),
        "y": Column("y", "number", X[:, 1]),
        "job": Column("job", "text", job),
    }
    return Table(columns), labels


def asked(**changes: Any) -> TrainingRequest:
    return TrainingRequest(
        **({"algorithm": "svm", "objective": {"kind": "macro_f1"}, "scheme": "one_vs_rest"} | changes)
    )


def trained(*data: Any, corrections: Corrections | None = None, **changes: Any) -> TrainedClasses:
    made = train(*data, asked(**changes), corrections=corrections)
    assert isinstance(made, TrainedClasses)
    return made


@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
@pytest.mark.parametrize("algorithm", ["auto", "self-training"])
def test_the_report_counts_rows_and_comes_back_from_its_json(scheme: str, algorithm: str) -> None:
    table, labels = clouds()
    made = trained(table, labels, scheme=scheme, algorithm=algorithm, test_fraction=0.2)
    report = made.report
    stored = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert any_report(stored) == report
    assert (report.classes, report.scheme, report.rows.labelled) == (NAMES, scheme, 90)
    assert report.calibration is not None
    assert report.calibration.n == 90
    assert [sum(line) for line in report.calibration.confusion] == report.rows.by_class
    assert report.test is not None
    assert report.test.n == report.rows.test == 18
    assert report.refit is not None
    assert report.refit.measured == 72
    assert report.unlabelled is not None
    assert sum(report.unlabelled.said) + report.unlabelled.undecided == 30
    # the report says of the unlabelled rows what the model says
    said = made.model.predict(table).labels
    assert [said[90:].count(name) for name in NAMES] == report.unlabelled.said
    assert np.mean([a == b for a, b in zip(said[:90], labels[:90], strict=True)]) > 0.85


def test_a_stored_report_of_two_classes_stays_one_of_two() -> None:
    table, labels = clouds()
    two = train(table, labels, TrainingRequest(algorithm="svm", positive="a"))
    assert isinstance(any_report(json.loads(json.dumps(two.report.to_dict()))), Report)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_with_labels_at_random_the_claimed_figures_are_those_of_chance(scheme: str) -> None:
    claimed: dict[str, list[float]] = {"accuracy": [], "macro_f1": []}
    above = dict.fromkeys(claimed, 0)
    for seed in range(12):
        table, labels = clouds(150, 30, seed, tell=False)
        figures = trained(table, labels, scheme=scheme, algorithm="self-training", seed=seed).report.calibration
        assert figures is not None
        for name, values in claimed.items():
            found = getattr(figures, name)
            values.append(found.value)
            above[name] += found.low > 1 / 3
    for name, values in claimed.items():
        error = np.std(values) / np.sqrt(len(values))
        assert np.mean(values) < 1 / 3 + 3 * error, name
        assert above[name] <= 2, name  # of intervals of 95 % one in forty should lie above


def average_precision(curve: CurvePoints) -> float:
    """Of a class against all others: precision at each step of the recall."""
    found, wrong = np.array(curve.true_positives), np.array(curve.false_positives)
    precision = found / np.maximum(found + wrong, 1)
    return float(np.sum(np.diff(found) * precision[1:]) / curve.positives)


def test_each_class_has_a_curve_of_left_out_rows() -> None:
    table, labels = clouds()
    report = trained(table, labels, test_fraction=0.2).report
    assert report.calibration is not None
    for curve, rows in zip(report.curves, report.rows.by_class, strict=True):
        assert (curve.positives, curve.negatives) == (rows, 90 - rows)
        assert (curve.true_positives[-1], curve.false_positives[-1]) == (rows, 90 - rows)
        assert 0.6 < average_precision(curve) < 1  # rows that were learned would be told apart without a fault
    assert CurvePoints.from_dict(report.to_dict()["curves"][1]) == report.curves[1]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_with_labels_at_random_curves_are_those_of_chance(scheme: str) -> None:
    found = []
    for seed in range(12):
        table, labels = clouds(150, 30, seed, tell=False)
        found += [average_precision(curve) for curve in trained(table, labels, scheme=scheme, seed=seed).report.curves]
    # chance is a third, and of 40 rows the average precision some hundredths above it
    assert np.mean(found) < 1 / 3 + 0.05


def test_probabilities_that_tell_nothing_are_said_to() -> None:
    table, labels = clouds(150, 30, 3, tell=False)
    assert any("tell no more than the shares" in each for each in trained(table, labels).report.warnings)
    assert not any("tell no more" in each for each in trained(*clouds()).report.warnings)


def test_floors_leave_rows_undecided_and_are_measured_so() -> None:
    table, labels = clouds(300, 60)
    floors = {name: {"precision": 0.97} for name in NAMES}
    made = trained(table, labels, objective={"kind": "macro_f1", "floors": floors}, test_fraction=0.2)
    figures = made.report.calibration
    assert figures is not None
    assert figures.undecided > 0
    assert {floor.label for floor in made.report.floors} == set(NAMES)
    assert made.report.status == ("met" if all(floor.met for floor in made.report.floors) else "preference_unmet")
    promise = made.report.promise
    assert promise is not None
    assert promise.level in ("open", "missed")
    assert promise.chance is None
    assert "without a label, which counts as wrong" in promise.sentence
    said = made.model.predict(table)
    assert None in said.labels
    undecided = [i for i, label in enumerate(said.labels) if label is None]
    assert said.probabilities is not None
    assert said.winning_probabilities is not None
    assert np.isin(said.winning_probabilities[undecided], said.probabilities[undecided]).all()


@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
@pytest.mark.parametrize("algorithm", ["svm", "self-training"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_lead_of_a_class_is_explained_by_what_makes_it(scheme: str, algorithm: str, kernel: str) -> None:
    table, labels = clouds()
    model = trained(table, labels, scheme=scheme, algorithm=algorithm, params={"kernel": kernel}).model
    X, _ = model.feature_matrix(table)
    scores = model.scores(X)
    said = model.predict(table)
    first, second = model.decision.best_two(scores)
    assert first.tolist() == said.winners.tolist()
    assert not np.any(first == second)
    pairs = {(0, 1): 0, (0, 2): 1, (1, 2): 2}
    for row in range(0, len(X), 7):
        a, b = int(first[row]), int(second[row])
        if scheme == "one_vs_rest":
            lead = scores[row, a] - scores[row, b]
        else:  # above 0 for the second of a pair
            lead = scores[row, pairs[min(a, b), max(a, b)]] * (1 if a > b else -1)
        between = [model.scores.of_problem(*each) for each in model.decision.between(a, b)]
        assert sum(float(each.decision_function(X[row : row + 1])[0]) for each in between) == pytest.approx(lead)
        assert isinstance(model.features, TableFeatures)
        (told,) = explain(between, model.features, X[row : row + 1], [], 10)
        if kernel == "linear":
            assert told.rest is not None
            parts = sum(change for _, change in told.changes) + told.rest
            assert parts + sum(each.intercept for each in between) == pytest.approx(lead)
        for part, change in told.changes[:2]:
            without = dict(table.columns)
            if part.column == "job":
                continue
            mean = np.nanmean(np.asarray(table.columns[part.column].values, dtype=float))
            without[part.column] = Column(part.column, "number", np.full(len(X), mean))
            changed, _ = model.feature_matrix(Table(without))
            rest = sum(float(each.decision_function(changed[row : row + 1])[0]) for each in between)
            assert lead - rest == pytest.approx(change, abs=0.05 * max(1, abs(change)))


def test_a_problem_without_support_vectors_is_its_intercept() -> None:
    empty = SharedExpansion("rbf", 0.5, 3, 0.0, np.zeros((1, 2)), sparse.csr_array((3, 1)), np.array([0.1, 0.2, 0.3]))
    alone = ProblemScores.of_one(empty).of_problem(2, -1.0)
    assert alone.decision_function(np.ones((4, 2))).tolist() == [-0.3] * 4


def test_costs_move_what_is_said() -> None:
    table, labels = clouds(300, 60, 1)
    plain = trained(table, labels, objective={"kind": "accuracy"})
    dear = trained(table, labels, objective={"kind": "cost", "costs": {"a": {"b": 50, "c": 50}}})
    of_a = [each.model.predict(table).labels.count("a") for each in (plain, dear)]
    assert of_a[1] > of_a[0]
    assert dear.report.calibration is not None
    assert dear.report.calibration.cost is not None
    control = dear.report.controls["plain_svm"].calibration
    assert control is not None
    assert control.cost is not None
    assert control.cost > dear.report.calibration.cost


def test_corrected_rows_are_learned_and_not_measured_on() -> None:
    table, labels = clouds()
    rows = [{"x": float(table.columns["x"].values[i]), "y": float(table.columns["y"].values[i])} for i in (90, 0)]
    corrections = Corrections(rows, ["b", "c"])
    made = trained(table, labels, corrections=corrections, test_fraction=0.2)
    assert made.report.feedback is not None
    assert (made.report.feedback.newly_labelled, made.report.rows.labelled) == (1, 91)
    assert made.report.calibration is not None
    assert made.report.calibration.n == 90


def test_rows_of_a_matrix() -> None:
    table, labels = clouds()
    values = np.column_stack([table.columns[name].values for name in ("x", "y")]).astype(float)
    made = trained(MatrixData(sparse.csr_array(values), first_index=1), labels)
    assert made.model.predict_rows([{"1": 3.2, "2": 0.1}])[0].labels == ["b"]


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"objective": {"kind": "f1"}}, "objective", "name it in `positive`"),
        ({"objective": {"kind": "macro_f1", "floors": {"z": {"recall": 0.9}}}}, "objective", "none of the classes"),
        ({"params": {"labeled_split": "full"}}, "params", "left-out rows"),
        ({"keep": 20}, "keep", "two classes only"),
        ({"positive": "a"}, "objective", "macro_f1"),
        ({"unlabeled": ["c"]}, "positive_needed", "say which one is positive"),
    ],
)
def test_what_does_not_go_with_several_classes(changes: dict[str, Any], code: str, said: str) -> None:
    table, labels = clouds()
    with pytest.raises(TrainingError, match=said) as caught:
        train(table, labels, asked(**changes))
    assert caught.value.code == code


def test_too_few_rows_and_too_many_classes() -> None:
    table, labels = clouds()
    labels[0] = "alone"
    with pytest.raises(TrainingError, match="1 of 'alone'") as caught:
        train(table, labels, asked())
    assert caught.value.code == "too_few_labelled"
    wide = Table({"x": Column("x", "number", np.arange(210.0))})
    with pytest.raises(TrainingError, match="at most 100 classes") as caught:
        train(wide, np.array([f"kind {i % 101}" for i in range(210)], dtype=object), asked())
    assert caught.value.code == "many_classes"


def test_a_training_that_is_stopped_gives_what_it_had_measured() -> None:
    table, labels = clouds()
    refitting = []

    def stop(news: Any) -> bool:
        refitting.append(news.phase == "refitting")
        return refitting[-1]

    made = train(table, labels, asked(algorithm="self-training", test_fraction=0.2), progress=stop)
    assert isinstance(made, TrainedClasses)
    assert any(refitting)
    assert made.report.refit is None
    assert made.report.status == "stopped"
    assert any("stopped before the model had learned from the test rows" in each for each in made.report.warnings)
    with pytest.raises(TrainingError, match="stopped"):
        train(table, labels, asked(algorithm="self-training"), progress=lambda _: True)


def test_a_control_that_is_stopped_has_no_figures_and_nothing_is_begun_after_it() -> None:
    table, labels = clouds()
    phases = []

    def stop(news: Any) -> bool:
        phases.append(news.phase)
        return "problems" in news.details and "problem" not in news.details  # the control trains them together

    made = train(table, labels, asked(algorithm="self-training", test_fraction=0.2), progress=stop)
    assert isinstance(made, TrainedClasses)
    assert made.report.test is not None
    assert made.report.controls["plain_svm"] == MulticlassControl(calibration=None, test=None)
    assert (made.report.status, "refitting" in phases) == ("stopped", False)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[ClassesModel, bytes, Table]:
    table, labels = clouds()
    path = tmp_path_factory.mktemp("classes") / "model"
    model = trained(table, labels, key="x").model
    write_model(path, model)
    return model, path.read_bytes(), table


def test_a_file_gives_back_the_same_decisions(stored: tuple[ClassesModel, bytes, Table]) -> None:
    model, content, table = stored
    again = read_any_model(content)
    assert isinstance(again, ClassesModel)
    ours, theirs = model.predict(table), again.predict(table)
    assert ours.labels == theirs.labels
    assert np.array_equal(ours.scores, theirs.scores)
    assert (again.key, again.columns, again.manifest) == (model.key, model.columns, model.manifest)
    assert again.nbytes > len(content)


def test_a_damaged_file_is_refused_and_never_another_model(stored: tuple[ClassesModel, bytes, Table]) -> None:
    _, content, _ = stored
    rng = np.random.default_rng(0)
    for cut in rng.integers(0, len(content), 20):
        with pytest.raises(ModelFileError):
            read_any_model(content[:cut])
    length = int.from_bytes(content[:8], "little")
    for place in rng.integers(8, 8 + length, 60):  # in the JSON
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(0, 7))
        try:
            model = read_any_model(bytes(damaged))
        except ModelFileError:
            continue
        assert isinstance(model, ClassesModel)
        assert model.decision.counts.shape == (3,)


# -- estimates ---------------------------------------------------------------------------------------------------------


def needed(**changes: Any) -> Any:
    algorithm = changes.get("algorithm", "svm")
    params = validate_params(algorithm, {}) | {"kernel": "rbf"}
    given = {"rows": 3000, "labelled": 1000, "classes": 10, "scheme": "one_vs_one", "features": 20}
    given |= {"matrix_bytes": 480_000, "algorithm": algorithm, "params": params, "memory_bytes": 8 << 30}
    return estimate_classes(**(given | changes))


def test_estimates_grow_with_classes_and_name_what_helps() -> None:
    assert needed(classes=100).seconds > 5 * needed(classes=10).seconds
    assert needed(classes=100, labelled=3000).least_bytes > needed(classes=10, labelled=3000).least_bytes
    assert needed(classes=100, scheme="one_vs_rest").seconds < needed(classes=100).seconds
    assert "45 problems" in needed().how
    assert "one_vs_rest" in needed().advice
    # with so little time for each, auto is the SVM
    slow, quick = (needed(algorithm="auto", classes=40, labelled=400, max_seconds=each).seconds for each in (1e9, 1e3))
    assert slow > 10 * quick


# -- the model before --------------------------------------------------------------------------------------------------


def test_an_alias_stays_where_the_new_model_is_worse() -> None:
    good = trained(*clouds(300, 60)).report
    bad = trained(*clouds(300, 60, 1, tell=False)).report
    draft = Succession(alias="fruit", policy="if_not_worse", moved=False, model="mdl_old", sentence="")
    kept = decide_of_classes(draft, "mdl_new", bad, good)
    assert not kept.moved
    assert "macro-F1 on left-out rows" in kept.sentence
    assert decide_of_classes(draft, "mdl_new", good, bad).moved
    assert decide_of_classes(replace(draft, policy="always"), "mdl_new", bad, good).moved
    other = replace(bad, objective={"kind": "accuracy"})
    assert "objective is not" in decide_of_classes(draft, "mdl_new", other, good).sentence
    unmet: MulticlassReport = replace(good, status="preference_unmet")
    assert not decide_of_classes(draft, "mdl_new", unmet, good).moved
    assert not decide_of_classes(replace(draft, policy="if_met"), "mdl_new", unmet, None).moved
