"""A new model beside the one that its alias points at: on which rows both are judged, and when the alias moves."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver.compared_rows import compared, decisions_of_older
from solver.evaluation import ConfusionCounts, measures
from solver.features import Column, Table
from solver.labelled_rows import (
    _MOST,
    CALLED_NEGATIVE,
    CALLED_POSITIVE,
    LEARNED,
    UNKNOWN,
    UNLABELLED,
    LabelledRows,
    fingerprints,
)
from solver.operating_point import Objective
from solver.promise import promise_of
from solver.report import Classes, ComparedRows, ReportedPoint, Succession
from solver.succession import FEW_ROWS, Standing, decide, f_beta
from solver.training import Corrections, TrainedModel, TrainingRequest, train

PRECISION = {"kind": "precision", "target": 0.9}


def table(X: np.ndarray) -> Table:
    return Table({name: Column(name, "number", X[:, j].copy()) for j, name in enumerate("abc")})


def states_of(trained: TrainedModel, data: Table) -> np.ndarray:
    return trained.labelled.states(fingerprints(trained.model.feature_matrix(data)[0]))


def test_a_row_is_known_again_however_its_features_are_stored() -> None:
    X = np.random.default_rng(0).normal(size=(40, 6))
    X[X < -0.5] = 0
    X[3] = X[2]
    prints = fingerprints(X)
    np.testing.assert_array_equal(prints, fingerprints(sparse.csr_array(X)))
    np.testing.assert_array_equal(prints, fingerprints(X * (1 + 1e-15)))
    assert len(np.unique(prints)) == 39
    np.testing.assert_array_equal(prints[[5, 2]], fingerprints(X, np.array([5, 2])))
    states = np.arange(40) % 3
    states[[2, 3]] = CALLED_POSITIVE, LEARNED
    kept = LabelledRows.from_bytes(LabelledRows.of(prints, states).to_bytes())
    states[2] = LEARNED  # an equal row was
    np.testing.assert_array_equal(kept.states(prints), states)
    assert set(kept.states(fingerprints(X + 1))) == {UNLABELLED}
    some = np.array([1, 4, 7])
    states[some] = CALLED_NEGATIVE, CALLED_POSITIVE, CALLED_NEGATIVE
    again = kept.called(np.append(prints[some], fingerprints(X[:1] + 1)), np.array([False, True, False, True]))
    np.testing.assert_array_equal(again.states(prints), states)
    assert set(LabelledRows.of(prints[:0], states[:0]).states(prints)) == {UNLABELLED}


def test_of_very_many_rows_some_are_kept_and_nothing_is_said_of_the_others() -> None:
    prints = np.random.default_rng(0).integers(0, 2**64, size=_MOST + 1000, dtype=np.uint64)
    kept = LabelledRows.of(prints, np.full(len(prints), LEARNED))
    assert set(kept.states(prints)) == {LEARNED, UNKNOWN}
    assert np.count_nonzero(kept.states(prints) == UNKNOWN) == 1000
    assert UNLABELLED in kept.states(prints + np.uint64(4))


def test_a_training_keeps_which_rows_it_learned_and_what_its_test_rows_were_called() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(150) % 2
    X = rng.normal(size=(150, 3)) + y[:, None]
    labels = np.array([*np.array(["no", "yes"])[y[:100]], *[None] * 49, "yes"], dtype=object)
    request = TrainingRequest(positive="yes", test_fraction=0.3, algorithm="svm")
    twin = train(table(X), labels, request).tested.rows[0]
    assert twin != 149
    X[149] = X[twin]  # one of the two is tested on, and is learned all the same
    data = table(X)
    for refit in (True, False):
        made = train(data, labels, replace(request, refit=refit))
        states, tested = states_of(made, data), made.tested
        assert np.all(states[100:149] == UNLABELLED)
        assert np.all(states[tested.rows] == CALLED_NEGATIVE + (tested.scores > tested.report.threshold))
        others = np.setdiff1d(np.flatnonzero([label is not None for label in labels]), tested.rows)
        assert np.all(states[others] == LEARNED)
        np.testing.assert_array_equal(tested.truth, labels[tested.rows] == "yes")
        assert not {twin, 149} & {*tested.rows}
        assert len(tested.rows) == made.report.test.n - 1
    assert train(data, labels, replace(request, test_fraction=0.0)).tested is None


def test_what_was_relabelled_since_is_tested_where_it_was() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 3))
    labels = np.array(["no", "yes"], dtype=object)[(X[:, 0] > 0).astype(int)]
    request = TrainingRequest(positive="yes", test_fraction=0.25, algorithm="svm")
    before = train(table(X), labels, request)
    rows = [dict(zip("abc", map(float, X[i]), strict=True)) for i in range(12)]
    again = train(
        table(X), labels, request, corrections=Corrections(rows, ["no" if x == "yes" else "yes" for x in labels[:12]])
    )
    np.testing.assert_array_equal(again.tested.rows, before.tested.rows)
    assert again.report.feedback.held_out == np.count_nonzero(before.tested.rows < 12)
    # One whose labels were nearly all wrong still leaves enough of each class to learn from.
    few = train(table(X), labels, request, corrections=Corrections(rows[:1], ["no" if labels[0] == "yes" else "yes"]))
    assert min(few.report.rows.positive, few.report.rows.negative) > 2


def test_of_labels_drawn_at_random_no_model_seems_to_know_any() -> None:
    """The older one has learned its test rows since, and both are judged by what was said before."""
    rights: dict[str, list[float]] = {"before": [], "now": [], "cheating": []}
    compared_rows = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        data, labels = table(rng.normal(size=(160, 3))), rng.choice(np.array(["no", "yes"], dtype=object), 160)
        first = labels.copy()
        first[100:] = None
        request = TrainingRequest(positive="yes", test_fraction=0.3, algorithm="svm", params={"C": 1e3, "gamma": 5.0})
        older, newer = train(data, first, request), train(data, labels, replace(request, seed=seed))
        tested = newer.tested
        X, _ = older.model.feature_matrix(data.take(tested.rows))
        called = older.model.decision.predict_positive(X)
        states = older.labelled.states(fingerprints(X))
        usable, says = decisions_of_older(states, called, is_retuned=False)
        assert set(states[usable]) <= {UNLABELLED, CALLED_NEGATIVE, CALLED_POSITIVE}
        assert np.count_nonzero(states == UNLABELLED) > 5 < np.count_nonzero(usable & (states != UNLABELLED))
        told = compared(
            tested.truth[usable], says[usable], (tested.scores > tested.report.threshold)[usable],
            states[usable] == UNLABELLED, Objective(kind="f1"),
        )  # fmt: skip
        assert (told.n, told.before.n, told.now.n) == (usable.sum(),) * 3
        compared_rows += told.n
        for name, measured in (("before", told.before), ("now", told.now)):
            rights[name].append((measured.true_positives + measured.true_negatives) / measured.n)
        learned = older.model.decision.decision_function(X)[~usable] > 0
        rights["cheating"].append(np.mean(learned == tested.truth[~usable]))
        assert not decisions_of_older(states, called, is_retuned=True)[0][states > LEARNED].any()
    for name in ("before", "now"):
        assert np.mean(rights[name]) < 0.5 + 2.5 * 0.5 / np.sqrt(compared_rows)
    assert np.mean(rights["cheating"]) > 0.9  # which is what it says of rows that it has learned


# -- the decision ------------------------------------------------------------------------------------------------------


def standing(
    counts: tuple[int, int, int, int],
    objective: dict[str, Any] = PRECISION,
    positive: str = "spam",
    status: str = "met",
) -> Standing:
    parsed = Objective.parse(objective)
    cells = ConfusionCounts(*counts)
    promise = promise_of(parsed, cells, positive)
    point = ReportedPoint(
        promise=promise, objective=objective, status=status, status_reason="", threshold=0.0,
        calibration=measures(cells, costs=parsed.costs),
    )  # fmt: skip
    return Standing(classes=Classes("ham", positive), point=point)


GOOD, WEAK, BAD = (390, 2, 600, 8), (28, 1, 600, 2), (50, 50, 500, 50)


def rows(low: float, high: float, n: int = 60) -> ComparedRows:
    counted = measures(ConfusionCounts(20, 5, 30, 5))
    return ComparedRows(n=n, new=3, before=counted, now=counted, value="F1", gain=(low + high) / 2, low=low, high=high)


def told(
    now: Standing, before: Standing | None, on: ComparedRows | None = None, policy: str = "if_not_worse", why: str = ""
) -> Succession:
    older = None if before is None else "mdl_old"
    draft = Succession(alias="filter", policy=policy, moved=False, model=older, rows=on, sentence="")
    return decide(draft, "mdl_new", now, before, why)


@pytest.mark.parametrize(
    ("now", "before", "on", "is_moved", "said"),
    [
        (standing(BAD), None, None, True, "it pointed at no model before"),
        (standing(GOOD), standing(GOOD), rows(-0.1, 0.02), True, r"worse \(60 common rows cannot tell: precision 80%"),
        (standing(GOOD), standing(GOOD), rows(-0.1, -0.02), False, "worse on 60 common rows: precision 80% → 80%"),
        (standing(GOOD), standing(GOOD), rows(-1.0, -1.0, n=1), True, r"worse \(1 common row cannot tell"),
        (standing(GOOD), standing(GOOD), rows(0.02, 0.1), True, "mdl_old: better on 60 common rows: precision"),
        (standing(WEAK), standing(GOOD), rows(0.0, 0.1), False, "promises less .*'open', and 'likely' of the older"),
        (standing(GOOD), standing(WEAK), None, True, "no common rows to compare on .there are none"),
        (standing(BAD), standing(BAD), None, True, "no common rows"),
        (standing(BAD, positive="ham"), standing(GOOD), None, True, "it looks for 'ham', the older one for 'spam'"),
        (
            standing(BAD, {"kind": "recall", "target": 0.9}), standing(GOOD), None, True,
            "asked for recall 90%, the older one for precision 90%",
        ),
        (
            standing(BAD, {"kind": "recall", "target": 0.9}), replace(standing(GOOD), applied_meanwhile=True), None,
            False, "the older one for precision 90%, by an operating point that was applied while",
        ),
    ],
)  # fmt: skip
def test_an_alias_moves_unless_the_new_model_is_worse(
    now: Standing, before: Standing | None, on: ComparedRows | None, is_moved: bool, said: str
) -> None:
    found = told(now, before, on, why="there are none")
    assert found.moved is is_moved
    assert re.search(said, found.sentence), found.sentence
    how = 'stays at mdl_old: .*; to use this model: PUT /aliases/filter with {"model": "mdl_new"}'
    assert bool(re.search(how, found.sentence)) is not is_moved
    assert told(now, before, on, "always").moved
    assert found.promise == (None if before is None else before.point.promise)


def test_what_an_audit_has_proven_of_the_older_model_is_not_given_up() -> None:
    audited = replace(standing(WEAK), proven_by="aud_1")
    found = told(standing(GOOD), audited)
    assert not found.moved
    assert "(the target is 'likely', and 'proven' of the older one by aud_1)" in found.sentence
    assert told(standing(GOOD), audited, policy="always").moved


@pytest.mark.parametrize("kind", ["f1", "cost"])
def test_without_a_target_the_calibration_rows_count_where_there_are_few_common_ones(kind: str) -> None:
    objective = {"kind": "f1"} if kind == "f1" else {"kind": "cost", "false_negative": 5, "false_positive": 1}
    good, bad = standing(GOOD, objective), standing(BAD, objective)
    kept = told(bad, good)
    assert not kept.moved
    assert "on its calibration rows is" in kept.sentence
    assert told(good, bad).moved
    assert told(good, good).moved
    assert not told(bad, good, rows(0.0, 0.1, FEW_ROWS - 1)).moved
    assert told(bad, good, rows(0.0, 0.1, FEW_ROWS)).moved  # its rows were harder ones, maybe
    assert not told(bad, good, rows(-0.1, 0.1, FEW_ROWS)).moved


def test_f_beta_is_compared_by_itself_and_not_by_f1() -> None:
    objective = {"kind": "f_beta", "beta": 3.0}
    finds_all, finds_half = standing((390, 400, 200, 10), objective), standing((230, 5, 595, 170), objective)
    first, second = (each.point.calibration for each in (finds_all, finds_half))
    assert first.f1.value < second.f1.value
    found = told(finds_half, finds_all)
    assert not found.moved
    assert "its F3 on its calibration rows is 60% (" in found.sentence
    assert told(finds_all, finds_half).moved
    assert "F3 80% → 80%" in told(finds_all, finds_all, rows(-0.1, 0.1)).sentence


@pytest.mark.parametrize(("kind", "word"), [("ham_loss", "ham loss"), ("false_positive_rate", "false positive rate")])
def test_a_rate_of_false_positives_is_called_as_it_was_asked_for(kind: str, word: str) -> None:
    asked = standing(GOOD, {"kind": kind, "at_most": 0.01})
    assert f"{word} 14.3% → 14.3%" in told(asked, asked, rows(-0.1, 0.1)).sentence


def test_a_figure_that_one_of_the_two_has_not_is_left_out() -> None:
    none_there, flags_none = measures(ConfusionCounts(0, 0, 1, 0)), measures(ConfusionCounts(0, 0, 30, 5))
    alone = replace(rows(-1.0, -1.0, n=1), before=none_there, now=none_there)
    assert "(1 common row cannot tell)" in told(standing(GOOD), standing(GOOD), alone).sentence
    silent = replace(rows(-0.2, -0.1), now=flags_none)
    assert "worse on 60 common rows: F1 80% → 0%; to use" in told(standing(GOOD), standing(GOOD), silent).sentence


@pytest.mark.parametrize("beta", [0.5, 2.0, 3.0])
def test_the_interval_of_f_beta_holds(beta: float) -> None:
    rng = np.random.default_rng(3)
    share = np.array([0.15, 0.05, 0.75, 0.05])
    truth = ConfusionCounts(*(share * 1e6).astype(int).tolist()).f_beta(beta)
    inside = 0
    for _ in range(400):
        cells = ConfusionCounts(*rng.multinomial(200, share).tolist())
        estimate = f_beta(measures(cells), beta)
        assert estimate is not None
        assert estimate.value == pytest.approx(cells.f_beta(beta))
        inside += estimate.low <= truth <= estimate.high
    assert inside >= 0.93 * 400
    nothing = f_beta(measures(ConfusionCounts(0, 3, 90, 7)), beta)
    assert nothing is not None
    assert nothing.value == nothing.low == 0 < nothing.high < 1
    assert f_beta(measures(ConfusionCounts(0, 0, 90, 7)), beta) is None


def test_if_met_follows_the_status_alone() -> None:
    assert told(standing(GOOD), standing(GOOD), rows(-0.1, -0.02), "if_met").moved
    open_ = standing(WEAK, status="cannot_certify")
    assert (
        "its status is cannot_certify (the calibration rows reach what was asked, but are too few to make it likely on "
        "new rows), and alias_policy is if_met" in told(open_, standing(GOOD), None, "if_met").sentence
    )
    fresh = told(open_, None, None, "if_met")
    assert not fresh.moved
    assert fresh.sentence.startswith("there is no alias filter: its status")


def test_points_of_old_have_no_promise_and_are_compared_by_their_status() -> None:
    def old(status: str) -> Standing:
        made = standing(GOOD, status=status)
        return replace(made, point=replace(made.point, promise=None))

    assert not told(old("cannot_certify"), old("met")).moved
    assert told(old("met"), old("preference_unmet")).moved
    assert told(old("stopped"), old("met")).moved  # nothing is known of it
