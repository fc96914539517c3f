"""The objective `false_positive_rate`, or `ham_loss`: threshold, certificate, promise, words, and audits of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from solver import percents
from solver.audits import AuditTarget, draw_rows, judge, target_of
from solver.estimators import SVM
from solver.evaluation import ConfusionCounts, OperatingCurve, confusion, measures
from solver.operating_point import Objective, choose_from_curve, choose_threshold
from solver.promise import promise_of
from solver.retuning import chosen_point

LOST = {"kind": "ham_loss", "at_most": 0.001}
SPAM_SHARE, SHIFT = 0.3, 2.0


def scored(rng: np.random.Generator, n: int, shift: float = SHIFT) -> tuple[Any, Any]:
    y = np.where(rng.random(n) < SPAM_SHARE, 1, -1)
    return rng.normal(size=n) + shift * (y > 0), y


def test_both_words_are_one_thing() -> None:
    scores, y = scored(np.random.default_rng(0), 400)
    one, other = (
        choose_threshold(scores, y, Objective.parse({"kind": kind, "at_most": 0.05}))
        for kind in ("ham_loss", "false_positive_rate")
    )
    assert one == other


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=3, max_size=25),
    st.sampled_from([0.05, 0.25, 1 / 3, 0.5]),
)
def test_the_best_f1_under_it_is_the_brute_force_optimum(rows: list[tuple[int, bool]], most: float) -> None:
    scores = np.array([value for value, _ in rows], dtype=float)
    y = np.array([1 if spam else -1 for _, spam in rows])
    y[:2] = 1, -1
    point = choose_threshold(scores, y, Objective.parse({"kind": "ham_loss", "at_most": most}), "f1max")
    assert point.counts == confusion(y, scores > point.threshold)
    decisions = [confusion(y, scores > at) for at in [*np.unique(scores), scores.min() - 1]]
    some = [each for each in decisions if each.true_positives > 0]
    within = [each for each in some if each.false_positives <= most * each.negatives + 1e-9]
    if within:
        assert point.status == "met"
        assert point.counts.f1 == pytest.approx(max(each.f1 for each in within))
    else:
        assert point.status == "preference_unmet"
        assert f"at most {percents.asked(most)} was asked" in point.reason
        assert point.counts.false_positives == min(each.false_positives for each in some)


def test_it_does_not_move_with_the_share_of_spam() -> None:
    """A precision does: of the same two classes with a third of the spam it is another one."""
    rng = np.random.default_rng(1)
    scores, y = scored(rng, 40_000)
    asked = {"precision": {"kind": "precision", "target": 0.95}, "lost": {"kind": "ham_loss", "at_most": 0.02}}
    at = {name: choose_threshold(scores, y, Objective.parse(each)).threshold for name, each in asked.items()}
    fewer = (y < 0) | (rng.random(len(y)) < 0.3)
    before, now = (measures(confusion(y[kept], scores[kept] > at["lost"])) for kept in (slice(None), fewer))
    assert before.false_positive_rate is not None
    assert before.false_positive_rate == now.false_positive_rate
    assert before.false_positive_rate.value <= 0.02
    assert confusion(y[fewer], scores[fewer] > at["precision"]).precision < 0.9


@pytest.mark.parametrize("shift", [0.0, SHIFT])
def test_a_certificate_is_seldom_false(shift: float) -> None:
    """Also of scores that say nothing, as where labels were drawn at random. The true rate is that of a Gaussian."""
    rng, draws, confidence = np.random.default_rng(2), 300, 0.9
    objective = Objective.parse({"kind": "ham_loss", "at_most": 0.05, "confidence": confidence})
    met = false = 0
    for _ in range(draws):
        scores, y = scored(rng, 300, shift)
        reference, _ = scored(rng, 1000, shift)
        point = choose_threshold(
            scores, y, objective, "fixed-sequence", reference_scores=reference, positive_share=SPAM_SHARE
        )
        met += point.status == "met"
        false += point.status == "met" and norm.sf(point.threshold) > 0.05
    assert met > 0.9 * draws  # 210 rows that are no spam would bear six of them above the threshold
    assert false <= binom.ppf(0.999, draws, 1 - confidence)


def test_no_certificate_without_enough_good_mail() -> None:
    """Of 0.001 at 0.9 it takes 2,302 without an error: with 2,301 nothing is certified, whatever the scores."""
    for good, status in ((2301, "cannot_certify"), (2302, "met")):
        scores = np.concatenate([np.linspace(0, 1, good), np.linspace(2, 3, 100)])
        y = np.repeat([-1, 1], [good, 100])
        objective = Objective.parse({**LOST, "confidence": 0.9})
        point = choose_threshold(scores, y, objective, "fixed-sequence", positive_share=0.1)
        assert point.status == status
        assert point.counts.true_positives >= 95  # the grid has steps of a tenth
        # rounded to the nearest, it would read as if nothing were missing
        missed = "The calibration rows support ham loss 0.11% at confidence 90%, where at most 0.1% was asked."
        assert point.reason == (missed if status == "cannot_certify" else "")


@pytest.mark.parametrize("draws", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_labels_at_random_promise_no_more_than_is_so(draws: int) -> None:
    """A threshold that flags nearly nothing loses nearly nothing: what is claimed of it must be so on new rows."""
    rng = np.random.default_rng(3)
    claimed = kept = 0
    for draw in range(draws):
        X = rng.normal(size=(700, 4))
        y = (rng.random(700) < 0.4).astype(int)
        y[300:] = -1
        asked: dict[str, Any] = {"kind": "ham_loss", "at_most": 0.05}
        if draw % 2:
            asked["confidence"] = 0.9
        model = SVM(objective=asked, random_state=draw).fit(X, y)
        point = chosen_point(model.report_, Objective.parse(asked))
        assert point is not None
        if point.status == "met":
            claimed += 1
            kept += bool((model.decision_function(rng.normal(size=(5000, 4))) > point.threshold).mean() <= 0.05)
    assert claimed >= 0.8 * draws
    assert kept >= 0.75 * claimed


def promise(*counts: int, objective: Any = None, **more: Any) -> Any:
    return promise_of(Objective.parse(objective or LOST), ConfusionCounts(*counts), "spam", **more)


def test_a_hundred_labels_promise_no_thousandth() -> None:
    made = promise(20, 0, 74, 6, unlabelled=3000, called=700)
    assert made.level == "open"
    assert made.bounds.keys() == {"false_positive_rate"}
    assert 0.05 < made.bounds["false_positive_rate"] < 0.07
    assert made.needs.random_labels == pytest.approx(2995 * 100 / 74 - 100, rel=0.01)
    assert made.needs.checked_rows == 700  # every mail that it calls spam: no other can be lost
    assert made.sentence == (
        "74 labelled rows that are not 'spam' are too few to promise a ham loss of at most 0.1% (chance "
        "19%); what you can count on is a ham loss of at most 6.3%. To prove a ham loss of at "
        "most 0.1%, check the unlabelled rows that it calls 'spam', all of them if need be, in an audit."
    )


@pytest.mark.parametrize(
    ("counts", "more", "level", "said"),
    [
        (
            (20, 3, 71, 6),
            {},
            "missed",
            "reach ham loss 4.1%, where a ham loss of at",
        ),
        ((500, 0, 4000, 6), {}, "likely", "of at most 0.1% is likely to hold on new rows"),
        ((500, 0, 4000, 6), {"is_proven": True}, "proven", "A ham loss of at most 0.1% is proven for new"),
        ((20, 0, 0, 6), {}, "missed", "rows reach"),
        ((40, 0, 74, 6), {"objective": {**LOST, "at_most": 1e-5}}, "open", "more than 10,000 labels to prove it: ask"),
        (
            (40, 0, 74, 6),
            {"test": ConfusionCounts(9, 2, 30, 1)},
            "open",
            "The test rows reach ham loss 6.2%, too much to promise",
        ),
    ],
)
def test_levels_and_words(counts: tuple[int, ...], more: dict[str, Any], level: str, said: str) -> None:
    made = promise(*counts, **more)
    assert made.level == level
    assert said in made.sentence


@pytest.mark.parametrize(("kind", "word"), [("ham_loss", "ham loss"), ("false_positive_rate", "false positive rate")])
def test_what_was_asked_for_keeps_its_name(kind: str, word: str) -> None:
    objective = {"kind": kind, "at_most": 0.01}
    missed = promise(20, 3, 71, 6, objective=objective).sentence
    assert f"reach {word} 4.1%, where a {word} of at most 1% was asked. What you can count on is a {word} of" in missed
    assert f"ask for a higher {word}" in missed.replace("Ask", "ask")
    curve = OperatingCurve.from_scores(np.array([2.0, 1.0]), np.array([False, True]))
    reason = choose_from_curve(curve, Objective.parse(objective)).reason
    assert reason == f"The calibration rows have a {word} of 100% where at most 1% was asked."


def test_a_stored_curve_serves_it() -> None:
    scores, y = scored(np.random.default_rng(4), 2000)
    curve = OperatingCurve.from_dict(OperatingCurve.from_scores(scores, y).to_dict())
    assert curve.specificity[0] == 1.0
    assert curve.specificity[-1] == 0.0


# --- audits ----------------------------------------------------------------------------------------------------------


def pool(rng: np.random.Generator, n: int = 2000) -> tuple[Any, Any, Any]:
    positive = rng.random(n) < SPAM_SHARE
    scores = rng.normal(size=n) + 3 * positive
    return positive, scores > 2.2, 1 / (1 + np.exp(-2 * (scores - 1.5)))


def test_an_audit_is_about_what_both_words_ask() -> None:
    for kind in ("ham_loss", "false_positive_rate"):
        assert target_of({"kind": kind, "at_most": 0.01}) == AuditTarget("false_positive_rate", 0.01)


def test_all_answers_give_the_rate_itself() -> None:
    positive, called, chances = pool(np.random.default_rng(5))
    target = AuditTarget("false_positive_rate", 0.05)
    draws = draw_rows(chances, called, target, len(called), seed=1)
    told = judge(draws, positive[draws.row].astype(int), target, 0.95)
    rate = (called & ~positive).sum() / (~positive).sum()
    assert told.standing == "proven"
    assert told.estimate == pytest.approx(rate)
    assert rate <= told.bound <= rate + 1e-3


def test_who_looks_at_every_flagged_mail_and_finds_no_good_one_has_proved_it() -> None:
    positive, called, chances = pool(np.random.default_rng(6))
    called &= positive
    target = AuditTarget("false_positive_rate", 0.0005)
    draws = draw_rows(chances, called, target, len(called), seed=2)
    told = judge(draws, positive[draws.row].astype(int), target, 0.95)
    assert told.standing == "proven"
    assert told.decided_at is not None
    assert told.decided_at <= 1.2 * called.sum()


@pytest.mark.parametrize("audits", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_proofs_are_false_no_more_often_than_they_may_be(audits: int) -> None:
    """Of what is just not so, at any moment, whether scores tell the classes apart or are drawn at random."""
    rng, confidence = np.random.default_rng(7), 0.9
    proven = 0
    for number in range(audits):
        positive, called, chances = pool(rng, 800)
        if number % 2:
            called, chances = rng.permutation(called), rng.permutation(chances)
        lost, good = int((called & ~positive).sum()), int((~positive).sum())
        if lost == 0:
            continue
        target = AuditTarget("false_positive_rate", (lost - 0.5) / good)
        draws = draw_rows(chances, called, target, 500, number)
        proven += judge(draws, positive[draws.row].astype(int), target, confidence).standing == "proven"
    assert proven <= binom.ppf(0.999, audits, 1 - confidence)
