"""Rows that belong together, such as mails of one thread, lie on one side of every split, and each is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from solver.corrections import Corrections, Rules, apply_corrections
from solver.estimators import PSVM, SVM, BiasedSVM, OneVsOne, OneVsRest
from solver.evaluation.splits import grouped_folds, holds_all_classes, most_grouped_folds
from solver.features import Column, Table
from solver.repeated_rows import Cases
from solver.row_groups import groups_of, joined_groups, told_of_groups
from solver.training import TrainingRequest
from solver.training.measuring import warnings_of_test_rows
from solver.training.several_classes import train
from solver.training.task import prepare

THREADS, OTHERS = 40, 60


def threaded(seed: int, classes: int = 2) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows of threads of one to five, which resemble each other; labels are drawn at random by thread."""
    rng = np.random.default_rng(seed)
    thread = rng.permutation(np.repeat(np.arange(THREADS), rng.integers(1, 6, THREADS)))
    centres, lot = rng.normal(size=(THREADS, 6)), rng.integers(0, classes, THREADS)
    X = np.concatenate([centres[thread] + 0.3 * rng.normal(size=(len(thread), 6)), rng.normal(size=(OTHERS, 6))])
    y = np.append(lot[thread], np.full(OTHERS, -1))
    return X, y, np.append(thread, THREADS + np.arange(OTHERS))


def mails_of(seed: int, classes: int = 2, unlabelled: int = OTHERS) -> tuple[Table, NDArray[Any], list[str]]:
    """Mails of threads: half of the words are those of the thread; each names itself and the one that it answers."""
    _, y, group = threaded(seed, classes)
    rng = np.random.default_rng(seed)
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
    of_thread = [rng.choice(words, 8) for _ in range(group.max() + 1)]
    bodies = [" ".join([*rng.choice(of_thread[each], 4), *rng.choice(words, 4)]) for each in group]
    last: dict[int, str] = {}
    links = []
    for row, each in enumerate(group.tolist()):
        before = last.get(each)
        links.append(f"id{row}" if before is None else f"id{row} {before}")
        last[each] = f"id{row}"
    kept = slice(len(y) - OTHERS + unlabelled)
    columns = {"body": bodies[kept], "thread": links[kept]}
    table = Table({name: Column(name, "text", np.array(each, dtype=object)) for name, each in columns.items()})
    return table, np.array([None if code < 0 else f"c{code}" for code in y[kept]], dtype=object), links


def is_chance(values: list[float], chance: float, allowed: float) -> bool:
    return float(np.mean(values)) < chance + allowed * float(np.std(values, ddof=1)) / len(values) ** 0.5


# -- which belong together ---------------------------------------------------------------------------------------------


def test_rows_that_share_a_word_and_those_that_others_link_are_of_one_group() -> None:
    links = ["a", "b a", None, "c", "", "d b", "e", "c e", "  "]
    assert groups_of(links).tolist() == [0, 0, 1, 2, 3, 0, 2, 2, 4]
    assert groups_of([]).tolist() == []
    round_and_round = ["a b", "b c", "c a"]
    assert groups_of(round_and_round).tolist() == [0, 0, 0]


def test_a_chain_of_very_many_and_a_row_of_very_many_words_end() -> None:
    n = 20_000
    chain = [f"{i} {i + 1}" for i in np.random.default_rng(0).permutation(n)]
    assert groups_of(chain).max() == 0
    greedy = [" ".join(map(str, range(5000))), *map(str, range(5000))]
    assert np.bincount(groups_of(greedy)).max() < 20  # no row can draw all others together


def test_groups_are_joined_by_what_they_have_in_common() -> None:
    assert joined_groups(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 3])).tolist() == [0, 0, 0, 0, 1]


def test_copies_in_two_threads_make_one_side_of_them() -> None:
    prints = np.array([1, 2, 3, 1, 4, 5, 6], dtype=np.uint64)
    cases = Cases.of(prints, [1, 1, 0, 1, 0, 0, 1], groups=np.array([0, 0, 1, 2, 2, 3, 4]))
    assert np.count_nonzero(cases.stands) == 6
    assert cases.beside(np.array([1])).tolist() == [True, True, False, True, True, False, False]


# -- splits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("folds", [2, 5])
def test_folds_of_groups_are_whole_and_even(seed: int, folds: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.append(rng.integers(0, 60, 200), np.arange(100, 200))
    codes = np.where(rng.random(300) < 0.1, 1 - groups % 2, groups % 2)
    fold = grouped_folds(codes, groups, folds, seed)
    assert all(len(set(fold[groups == each])) == 1 for each in set(groups))
    assert holds_all_classes(fold, codes, folds)
    for code in (0, 1):
        counts = np.bincount(fold[codes == code], minlength=folds)
        assert counts.max() - counts.min() <= 4
    assert (fold == grouped_folds(codes, groups, folds, seed)).all()


def test_two_folds_hold_both_classes_wherever_two_groups_of_each_are_there() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        groups = rng.integers(0, rng.integers(2, 6), rng.integers(4, 30))
        codes = np.where(rng.random(len(groups)) < rng.random(), groups % 2, rng.integers(0, 2, len(groups)))
        codes[:2] = 0, 1
        enough = all(len(set(groups[codes == code])) > 1 for code in (0, 1))
        fold = most_grouped_folds(codes, groups, 5, 0)
        assert (fold is not None) == enough
        if fold is not None:
            assert holds_all_classes(fold, codes, int(fold.max()) + 1)


@pytest.mark.parametrize("classes", [2, 3])
def test_mails_of_a_tested_thread_are_not_trained_on(classes: int) -> None:
    table, labels, links = mails_of(1, classes)
    several = {"positive": "c1"} if classes == 2 else {"objective": {"kind": "macro_f1"}}
    task = prepare(table, labels, TrainingRequest(test_fraction=0.3, groups="thread", **several), None)
    group = groups_of(links)
    labelled = np.flatnonzero(labels != None)  # noqa: E711
    tested, learned = set(group[task.test_rows]), set(group[np.intersect1d(task.train_rows, labelled)])
    assert not tested & learned
    assert 0.2 * len(labelled) < len(task.test_rows) <= 0.3 * len(labelled) + 2
    for each in tested:  # whole threads
        assert set(np.intersect1d(np.flatnonzero(group == each), labelled)) <= set(task.test_rows)
    assert "thread" in task.request.exclude


@pytest.mark.parametrize("split", ["xfit", "part"])
@pytest.mark.parametrize("certifies", [False, True])
def test_no_fold_learns_of_a_group_that_it_leaves_out(split: str, certifies: bool) -> None:
    X, y, groups = threaded(2)
    X[5], groups_of_copy = X[6], {groups[5], groups[6]}
    seen: list[Any] = []

    class Spying(SVM):
        def _learn(self, run: Any, plan: Any, *args: Any) -> Any:
            seen.append(plan)
            return super()._learn(run, plan, *args)

    objective = {"kind": "precision", "target": 0.6, "confidence": 0.9, "certificate": "strict"}
    unmeasured = np.arange(len(y)) % 7 == 0
    settings = {"labeled_split": split, "objective": objective if certifies else None}
    Spying(**settings).fit(X[y >= 0], y[y >= 0], unmeasured=unmeasured[y >= 0], groups=groups[y >= 0])
    (plan,) = seen
    sides = [(plan.training_rows, plan.rows)] if plan.split == "part" else plan.folds
    for training_rows, held_out in sides:
        learned, left_out = set(groups[training_rows]), set(groups[held_out])
        assert not learned & left_out
        assert not (learned & groups_of_copy and left_out & groups_of_copy)
    if not certifies and split == "xfit":
        assert len(plan.rows) == np.count_nonzero(~unmeasured & (y >= 0)) - 1  # all but the copy are measured


def without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.training.task.groups_of", lambda links: np.arange(len(links)))


def areas_of(draws: int, algorithm: str, test_fraction: float = 0.0) -> list[float]:
    areas = []
    for seed in range(draws):
        table, labels, _ = mails_of(seed)
        request = TrainingRequest(
            algorithm=algorithm, positive="c1", seed=seed, groups="thread", kinds={"body": "text"},
            test_fraction=test_fraction, refit=False,
        )  # fmt: skip
        made = train(table, labels, request)
        curve = made.report.curve
        found = np.array(curve.true_positives) / curve.positives
        areas.append(float(np.trapezoid(found, np.array(curve.false_positives) / curve.negatives)))
    return areas


@pytest.mark.parametrize("algorithm", ["svm", pytest.param("psvm", marks=pytest.mark.slow)])
def test_labels_drawn_at_random_by_thread_are_not_foretold(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = 6 if algorithm == "svm" else 40
    assert is_chance(areas_of(draws, algorithm), 0.5, 2.5)
    without_groups(monkeypatch)
    assert np.mean(areas_of(2, algorithm)) > 0.6  # so it finds what it looks for


@pytest.mark.parametrize(
    ("algorithm", "scheme"), [("svm", "one_vs_one"), pytest.param("mean-s3vm", "one_vs_rest", marks=pytest.mark.slow)]
)
def test_several_classes_drawn_at_random_by_thread_are_not_foretold(
    algorithm: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claims(draws: int) -> list[float]:
        found = []
        for seed in range(draws):
            table, labels, _ = mails_of(seed, 3)
            asked = {"objective": {"kind": "macro_f1"}, "scheme": scheme, "groups": "thread", "seed": seed}
            request = TrainingRequest(algorithm=algorithm, kinds={"body": "text"}, **asked)
            report = train(table, labels, request).report
            found.append(report.calibration.macro_f1.value)
        return found

    assert is_chance(claims(4), 1 / 3, 2.5)
    without_groups(monkeypatch)
    assert np.mean(claims(2)) > 0.5


@pytest.mark.parametrize("cls", [OneVsOne, OneVsRest])
def test_several_classes_are_left_out_by_groups(cls: type[Any]) -> None:
    X, y, groups = threaded(3, 3)
    grouped = cls(SVM(random_state=0), objective="macro_f1").fit(X, y, groups=groups).report_.figures
    alone = cls(SVM(random_state=0), objective="macro_f1").fit(X, y).report_.figures
    assert alone.macro_f1.value > 0.65  # by the other rows of each group
    assert grouped.macro_f1.value < 0.55


@pytest.mark.parametrize("params", [{}, {"labeled_split": "part", "tune": "C"}], ids=str)
def test_left_out_rows_of_groups_are_not_foretold_by_others_of_theirs(params: dict[str, Any]) -> None:
    claims = []
    for seed in range(4):
        X, y, groups = threaded(seed)
        model = SVM(random_state=seed, **params).fit(X, y, groups=groups)
        scores, truth = model.left_out_scores_, y[y >= 0]
        measured = np.isfinite(scores)
        claims.append(roc_auc_score(truth[measured], scores[measured]))
    assert is_chance(claims, 0.5, 2.5)


def test_positive_rows_alone_are_left_out_with_the_unlabelled_ones_of_their_group() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 4)
    X = rng.normal(size=(60, 5))[group] + 0.1 * rng.normal(size=(240, 5))
    y = np.where((np.arange(240) % 4 < 2) & (group < 20), 1, -1)  # two of four have a label, of some threads
    learned: list[tuple[set[int], set[int]]] = []

    class Spying(BiasedSVM):
        def _separate(self, run: Any, positive: Any, unlabelled: Any, share: float | None) -> Any:
            learned.append((set(group[positive]), set(group[unlabelled])))
            return super()._separate(run, positive, unlabelled, share)

    Spying(random_state=0).fit(X, y, groups=group)
    whole, *folds = learned
    assert len(folds) == 5
    for positive, unlabelled in folds:
        assert not (whole[0] - positive) & unlabelled  # nothing of a thread that is left out is learned


def test_a_class_that_is_one_thread_is_left_out_by_rows_and_that_is_said() -> None:
    X, y, groups = threaded(4)
    y[:] = np.where(y < 0, y, 0)
    y[groups == 0] = 1
    assert np.count_nonzero(groups == 0) > 2
    model = SVM(random_state=0).fit(X, y, groups=groups)
    assert model.report_.calibration.n == np.count_nonzero(y >= 0)
    (said, *_) = told_of_groups(groups, y, ("no", "yes"), "thread")
    assert said.startswith("all labelled rows of 'yes' belong together by 'thread'")
    assert "too good" in said


def test_people_are_told_of_large_threads_and_of_many() -> None:
    groups = np.concatenate([np.zeros(12), np.arange(1, 9), np.arange(20, 40)]).astype(int)
    codes = np.append(np.zeros(20), np.ones(20)).astype(int)
    large, many = told_of_groups(groups, codes, ("no", "yes"), "thread")
    assert large.startswith("12 of 20 labelled rows of 'no' belong together by 'thread'")
    assert many.startswith("12 of 40 labelled rows belong together with others by 'thread'")
    assert many.endswith("of which there are 29")
    assert told_of_groups(np.arange(40), codes, ("no", "yes"), "thread") == []
    assert told_of_groups(groups, np.full(40, -1), ("no", "yes"), "thread") == []


def test_where_no_thread_is_small_enough_to_be_tested_on_that_is_the_reason() -> None:
    names = np.array([f"word{row}" for row in range(42)], dtype=object)
    threads = np.array(["a", "b"] * 20 + ["c", "d"], dtype=object)
    labels = np.array(["ham", "ham", "spam", "spam"] * 10 + [None, None], dtype=object)
    table = Table({name: Column(name, "text", each) for name, each in (("body", names), ("thread", threads))})
    asked = TrainingRequest(positive="spam", test_fraction=0.2, groups="thread")
    said = warnings_of_test_rows(prepare(table, labels, asked, None), None)
    assert len(said) == 2
    assert all("by 'thread' is tested whole" in each for each in said)
    labels[8:] = None
    said = warnings_of_test_rows(prepare(table, labels, replace(asked, test_fraction=0.1), None), None)
    assert said[0] == "too few labelled rows of 'ham': the test rows hold none"


@pytest.mark.parametrize("cls", [SVM, PSVM])
def test_groups_of_one_row_each_change_nothing(cls: type[Any]) -> None:
    X, y, _ = threaded(5)
    plain, grouped = (cls(random_state=1).fit(X, y, groups=each) for each in (None, np.arange(len(y))[::-1]))
    assert plain.report_.curve == grouped.report_.curve
    assert (plain.left_out_scores_ == grouped.left_out_scores_).all()


def test_as_many_groups_as_rows_are_wanted() -> None:
    X, y, groups = threaded(6)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVM().fit(X, y, groups=groups[1:])


# -- feedback ----------------------------------------------------------------------------------------------------------


def test_rows_of_feedback_belong_to_the_threads_of_the_data_set() -> None:
    table = Table(
        {
            "body": Column("body", "text", np.array(["one", "two", "three"], dtype=object)),
            "thread": Column("thread", "text", np.array(["a", "b a", None], dtype=object)),
        }
    )
    rows = [
        {"body": "four", "thread": "c b"},
        {"body": "five"},
        {"body": "three", "thread": "c"},  # is there, and keeps what was known of it
        {"body": "six", "thread": None},
    ]
    rules = Rules("label", None, ["thread"], "yes", (), "indicate", groups="thread")
    labels = np.array(["yes", "no", "no"], dtype=object)
    corrected = apply_corrections(table, labels, Corrections(rows, ["yes", "no", "yes", "no"]), rules)
    assert corrected.data.columns["thread"].values.tolist() == ["a", "b a", None, "c b", None, None]
    assert groups_of(corrected.data.columns["thread"].values).tolist() == [0, 0, 1, 0, 2, 3]


def test_feedback_is_not_learned_where_a_mail_of_its_thread_is_tested() -> None:
    table, labels, links = mails_of(7)
    rows = [
        {"body": f"{table.columns['body'].values[row]} more", "thread": f"new{row} {links[row]}"} for row in range(30)
    ]
    corrections = Corrections(rows, [labels[row] for row in range(30)])
    task = prepare(table, labels, TrainingRequest(test_fraction=0.3, groups="thread", positive="c1"), corrections)
    assert task.groups is not None
    learned = np.intersect1d(task.train_rows, np.flatnonzero(task.target.codes >= 0))
    assert not set(task.groups[task.test_rows]) & set(task.groups[learned])
    assert np.count_nonzero(learned >= len(labels)) not in (0, 30)
