"""Labelled rows that are the same lie on one side of every split and are measured once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import roc_auc_score

from solver import labelled_rows
from solver.content_hashes import hashes_of_rows
from solver.estimators import PSVM, SVM, AutoClassifier, OneVsOne, OneVsRest
from solver.features import Column, MatrixData, Table
from solver.labelled_rows import fingerprints
from solver.repeated_rows import Cases, told_of_repeats
from solver.training import TrainingRequest
from solver.training.several_classes import train as train_any
from solver.training.task import prepare

CASES, OTHERS = 40, 60


def repeated(seed: int, classes: int = 2) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows, each labelled one two to five times, the same each time; labels are drawn at random by case."""
    rng = np.random.default_rng(seed)
    X, lot = rng.normal(size=(CASES + OTHERS, 6)), rng.integers(0, classes, CASES)
    rows = rng.permutation(np.repeat(np.arange(CASES), rng.integers(2, 6, CASES)))
    return X[np.append(rows, np.arange(CASES, CASES + OTHERS))], np.append(lot[rows], np.full(OTHERS, -1))


def table_of(X: NDArray[np.float64]) -> Table:
    return Table({f"x{j}": Column(f"x{j}", "number", values) for j, values in enumerate(X.T)})


def kinds_of_data(X: NDArray[np.float64], kind: str) -> Table | MatrixData:
    if kind == "table":
        return table_of(X)
    if kind == "dense":
        return MatrixData(X)
    if kind == "sparse":
        return MatrixData(sparse.csr_array(np.where(X > 0, X, 0.0)))
    words = np.array([" ".join(f"word{chr(97 + int(8 * abs(v)) % 26)}" for v in row) for row in X], dtype=object)
    if kind == "text":
        return Table({"body": Column("body", "text", words)})
    subjects = np.array([text[:11] for text in words], dtype=object)
    return Table({"subject": Column("subject", "text", subjects), "body": Column("body", "text", words)})


def is_chance(values: list[float], chance: float, allowed: float) -> bool:
    return float(np.mean(values)) < chance + allowed * float(np.std(values, ddof=1)) / len(values) ** 0.5


# -- cases -------------------------------------------------------------------------------------------------------------


def test_equal_rows_are_a_case_and_one_of_them_stands_for_it() -> None:
    prints = np.array([7, 9, 7, 8, 9, 7], dtype=np.uint64)
    cases = Cases.of(prints, [1, 0, 1, 0, 0, 1, ][:6], seed=3)  # fmt: skip
    assert cases.alike_classes == (1,)  # the three rows of class 1 are one: each counts, as nothing is left otherwise
    cases = Cases.of(np.append(prints, [5]).astype(np.uint64), [1, 0, 1, 0, 0, 1, 1])
    assert cases.alike_classes == ()
    assert len(cases.stands_for) == 4
    assert cases.case[0] == cases.case[2] == cases.case[5] != cases.case[1] == cases.case[4]
    assert np.count_nonzero(cases.stands) == 4
    assert cases.beside(np.array([2])).tolist() == [True, False, True, False, False, True, False]


def test_what_is_preferred_stands_for_its_case() -> None:
    prints = np.repeat(np.arange(20, dtype=np.uint64), 3)
    preferred = np.tile([False, True, False], 20)
    for seed in range(3):
        cases = Cases.of(prints, np.repeat(np.arange(20) % 2, 3), seed, preferred)
        assert preferred[cases.stands_for].all()
    lots = {tuple(Cases.of(prints, np.repeat(np.arange(20) % 2, 3), seed).stands_for) for seed in range(3)}
    assert len(lots) == 3
    assert len({tuple(Cases.of(prints, np.repeat(np.arange(20) % 2, 3), 1).stands_for) for _ in range(3)}) == 1


def test_a_case_of_two_labels_is_one_case_and_its_lot_no_choice_of_a_label() -> None:
    prints = np.append(np.arange(40), [0, 0, 0]).astype(np.uint64)
    codes = np.append(np.arange(40) % 2, [1, 1, 0])
    assert Cases.of(prints, codes).by_chance  # of the repeated rows all differ in their labels
    further = np.arange(1, 6)
    prints, codes = np.append(prints, further).astype(np.uint64), np.append(codes, further % 2)
    picked = []
    for seed in range(60):
        cases = Cases.of(prints, codes, seed)
        assert not cases.by_chance
        (stands,) = set(cases.stands_for.tolist()) & {0, 40, 41, 42}
        picked.append(int(codes[stands]))
    assert 15 < sum(picked) < 45


def test_a_row_copied_500_times_is_one_case_among_the_others() -> None:
    prints = np.append(np.arange(50), np.zeros(500)).astype(np.uint64)
    cases = Cases.of(prints, np.append(np.arange(50) % 2, np.zeros(500)))
    assert len(cases.stands_for) == 50
    assert np.count_nonzero(cases.case == cases.case[0]) == 501


def test_rows_that_are_all_the_same_count_each() -> None:
    cases = Cases.of(np.zeros(30, dtype=np.uint64), np.zeros(30))
    assert not cases.is_repeated
    assert cases.alike_classes == (0,)
    mixed = Cases.of(np.zeros(30, dtype=np.uint64), np.arange(30) % 2)
    assert not mixed.is_repeated
    assert mixed.by_chance


@pytest.mark.parametrize("seed", range(5))
def test_cases_stay_whole_beside_classes_whose_rows_are_all_the_same(seed: int) -> None:
    """Whatever falls apart, each case has one row of its own that stands for it."""
    rng = np.random.default_rng(seed)
    prints = rng.integers(0, 12, 60).astype(np.uint64)
    codes = (prints > 8).astype(int)
    prints[codes == 1] = 99
    prints[:2], codes[:2] = 99, 0  # two of the other class are the same as these
    cases = Cases.of(prints, codes, seed)
    assert (cases.case[cases.stands_for] == np.arange(len(cases.stands_for))).all()
    assert set(cases.case.tolist()) == set(range(len(cases.stands_for)))
    alone = np.flatnonzero(codes == 1)
    assert cases.alike_classes == (1,)
    assert len(set(cases.case[alone].tolist())) == len(alone)


@pytest.mark.parametrize("kind", ["table", "dense", "sparse", "text", "mail"])
def test_rows_are_found_equal_as_they_were_read(kind: str) -> None:
    X, _ = repeated(0)
    data = kinds_of_data(X, kind)
    hashes = hashes_of_rows(data)
    rows = [row.tobytes() for row in X] if kind in ("table", "dense") else [repr(each) for each in contents(data)]
    assert len(set(hashes.tolist())) == len(set(rows))
    assert len({*zip(hashes.tolist(), rows, strict=True)}) == len(set(rows))
    assert len(set(hashes_of_rows(data, exclude=names_of(data)).tolist())) == 1


def names_of(data: Table | MatrixData) -> list[str]:
    return list(data.columns) if isinstance(data, Table) else [str(j + 1) for j in range(data.X.shape[1])]


def contents(data: Table | MatrixData) -> list[Any]:
    if isinstance(data, MatrixData):
        return [row.tolist() for row in data.X.toarray()]
    return list(zip(*(column.values.tolist() for column in data.columns.values()), strict=True))


# -- splits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["table", "dense", "sparse", "text", "mail"])
@pytest.mark.parametrize("classes", [2, 3])
def test_copies_of_test_rows_are_not_trained_on(kind: str, classes: int) -> None:
    X, y = repeated(1, classes)
    labels = np.array([None if code < 0 else f"c{code}" for code in y], dtype=object)
    several = {"positive": "c1"} if classes == 2 else {"objective": {"kind": "macro_f1"}}
    task = prepare(kinds_of_data(X, kind), labels, TrainingRequest(test_fraction=0.3, **several), None)
    rows = [row.tobytes() for row in X] if kind in ("table", "dense") else contents(kinds_of_data(X, kind))
    rows = [str(row) for row in rows]
    tested = [rows[row] for row in task.test_rows]
    learned = {rows[row] for row in task.train_rows if y[row] >= 0}
    assert len(tested) == len(set(tested)) > 5  # each case once
    assert not learned & set(tested)
    assert task.learned_labels == sum(rows[row] not in tested for row in np.flatnonzero(y >= 0))


@pytest.mark.parametrize("split", ["xfit", "part"])
@pytest.mark.parametrize("certifies", [False, True])
def test_no_fold_learns_a_copy_of_what_it_leaves_out(split: str, certifies: bool) -> None:
    X, y = repeated(2)
    seen: list[tuple[Any, Any]] = []

    class Spying(SVM):
        def _learn(self, run: Any, plan: Any, *args: Any) -> Any:
            seen.append((run, plan))
            return super()._learn(run, plan, *args)

    objective = {"kind": "precision", "target": 0.6, "confidence": 0.9, "certificate": "strict"}
    unmeasured = np.arange(len(y)) % 7 == 0
    Spying(labeled_split=split, objective=objective if certifies else None).fit(X, y, unmeasured=unmeasured)
    ((run, plan),) = seen
    sides = [(plan.training_rows, plan.rows)] if plan.split == "part" else plan.folds
    assert sides
    for training_rows, held_out in sides:
        learned, left_out = ({run.X[row].tobytes() for row in rows} for rows in (training_rows, held_out))
        assert not learned & left_out
        assert len(left_out) == len(held_out)
    if not certifies and split == "xfit":
        assert len(plan.rows) == len({run.X[row].tobytes() for row in np.flatnonzero(~unmeasured & (y >= 0))})
        assert len(plan.training_rows) == np.count_nonzero(y >= 0)  # all are learned in the end


@pytest.mark.parametrize(
    ("cls", "draws"),
    [
        (SVM, 12),
        pytest.param(PSVM, 40, marks=pytest.mark.slow),
        pytest.param(AutoClassifier, 60, marks=pytest.mark.slow),
    ],
)
def test_left_out_scores_of_repeated_rows_with_labels_drawn_at_random_are_chance(cls: type[Any], draws: int) -> None:
    areas = []
    for seed in range(draws):
        X, y = repeated(seed)
        model = cls(random_state=seed).fit(X, y)
        scores, truth = model.left_out_scores_, y[y >= 0]
        assert np.isfinite(scores).all()  # copies have the score of the one that was left out with them
        assert model.report_.calibration.n == CASES
        areas.append(roc_auc_score(truth, scores))
    assert is_chance(areas, 0.5, 2.5), areas


@pytest.mark.parametrize("algorithm", ["svm", "mean-s3vm", pytest.param("auto", marks=pytest.mark.slow)])
@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_several_classes_of_repeated_rows_with_labels_drawn_at_random_are_chance(algorithm: str, scheme: str) -> None:
    figures = []
    for seed in range(8):
        X, y = repeated(seed, 3)
        labels = np.array([None if code < 0 else f"c{code}" for code in y], dtype=object)
        asked = {"objective": {"kind": "macro_f1"}, "scheme": scheme}
        report = train_any(table_of(X), labels, TrainingRequest(algorithm=algorithm, seed=seed, **asked)).report
        assert report.calibration.n == CASES
        figures.append(report.calibration.macro_f1.value)
    assert is_chance(figures, 1 / 3, 2.5), figures


@pytest.mark.parametrize("scheme", [OneVsOne, OneVsRest])
@pytest.mark.parametrize("cls", [SVM, PSVM])
def test_without_repeats_folds_are_as_they_were(scheme: type[Any], cls: type[Any], monkeypatch: Any) -> None:
    """To the bit: beside the same training where nothing looks for repeats."""
    X, y = repeated(3, 3)
    _, first = np.unique(X, axis=0, return_index=True)
    X, y = X[np.sort(first)], y[np.sort(first)]
    found = scheme(cls(random_state=1), objective="macro_f1").fit(X, y)
    for place in ("solver.estimators.multiclass.Cases.of", "solver.estimators._base.Cases.of"):
        monkeypatch.setattr(place, lambda prints, *_, **__: Cases(np.arange(len(prints)), np.arange(len(prints))))
    assert found.report_ == scheme(cls(random_state=1), objective="macro_f1").fit(X, y).report_


# -- what is said ------------------------------------------------------------------------------------------------------


def test_people_are_told_what_becomes_of_copies() -> None:
    X, y = repeated(4)
    (said,) = told_of_repeats(X, y, ("no", "yes"))
    assert "each case is measured once" in said
    assert f"rest on {CASES} rows" in said
    assert told_of_repeats(np.unique(X, axis=0), np.arange(CASES + OTHERS) % 3 - 1, ("no", "yes")) == []
    by_chance = np.where(y < 0, y, np.random.default_rng(0).integers(0, 2, len(y)))
    (said,) = told_of_repeats(X, by_chance, ("no", "yes"))
    assert "differ in their labels" in said
    assert "each row counts" in said
    X[y == 1] = X[np.flatnonzero(y == 1)[0]]
    said = told_of_repeats(sparse.csr_array(X), y, ("no", "yes"))
    assert said[0].startswith("all labelled rows of 'yes' are the same")


def test_positive_rows_that_are_all_the_same_are_said_and_trained_on() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    X[:20] = X[0]
    labels = np.array(["yes"] * 20 + ["no"] * 20 + [None] * 50, dtype=object)
    for known in (labels, np.where(labels == "no", None, labels)):  # the second: positive rows alone
        report = train_any(table_of(X), known, TrainingRequest(algorithm="auto", positive="yes")).report
        assert any(said.startswith("all labelled rows of 'yes' are the same") for said in report.warnings)


def test_fingerprints_look_at_each_value_once(monkeypatch: Any) -> None:
    """What grouping costs: the entries of the matrix, not their pairs."""
    looked_at: list[int] = []
    mixed = labelled_rows._mixed
    monkeypatch.setattr(labelled_rows, "_mixed", lambda values: looked_at.append(len(values)) or mixed(values))
    fingerprints(np.ones((5000, 7)))
    assert sum(looked_at) == 2 * 5000 * 7 + 5000
