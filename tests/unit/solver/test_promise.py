"""What a threshold promises: levels, chances and bounds in order, what would prove it, and the words."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver import percents
from solver.audits import AuditTarget, Draws, Stratum, judge, rows_to_prove
from solver.chances import LIKELY
from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import clopper_pearson_lower, cost_interval
from solver.operating_point import Objective
from solver.promise import promise_of, promised_status
from solver.report import Abstention, CalledRows, Promise

PRECISION = {"kind": "precision", "target": 0.95}


def promise(objective: Any, *counts: int, **more: Any) -> Promise:
    """Of counts in the order true positive, false positive, true negative, false negative."""
    return promise_of(Objective.parse(objective), ConfusionCounts(*counts), "spam", **more)


def test_ten_spam_labels_promise_little() -> None:
    made = promise(PRECISION, 10, 0, 90, 5)
    assert (made.level, made.confidence) == ("open", 0.95)
    assert made.bounds["precision"] == pytest.approx(0.638, abs=0.001)
    assert made.needs is not None
    assert made.needs.checked_rows == 62  # of an audit; a test of a fixed number takes 59, as 0.95^59 is below 0.05
    assert made.needs.random_labels == 59 * 105 / 10 - 105 + 0.5
    assert made.sentence == (
        "10 labelled rows called 'spam' are too few to promise precision 95% (chance 49%); what you can count on is a "
        "precision of 63.7%. To prove precision 95%, check 62 of the unlabelled rows that it calls 'spam', in an audit."
    )


@pytest.mark.parametrize(
    ("objective", "asked"),
    [({"kind": "ham_loss", "at_most": 1e-300}, "at most 1%"), ({"kind": "recall", "target": 1.0}, "99%")],
)
def test_no_error_at_all_is_never_proven(objective: dict[str, Any], asked: str) -> None:
    assert f"that there is no error at all: ask for {asked}, say." in promise(objective, 80, 0, 90, 0).sentence


@pytest.mark.parametrize(
    ("objective", "counts", "more", "level", "said"),
    [
        (PRECISION, (100, 2, 200, 5), {}, "likely", "is likely to hold on new rows (chance 80%), not proven"),
        (
            PRECISION,
            (100, 9, 200, 5),
            {},
            "missed",
            "rows reach precision 91.7%, where precision 95% was",
        ),
        ({**PRECISION, "confidence": 0.9}, (60, 0, 80, 4), {"is_proven": True}, "proven", "with confidence 90%."),
        ({"kind": "recall", "target": 0.9}, (20, 4, 80, 0), {}, "likely", "Label 47 more rows, drawn at random"),
        ({"kind": "recall", "target": 0.7}, (90, 4, 80, 2), {}, "likely", "Ask for it with a confidence"),
        (
            {"kind": "recall", "target": 0.9},
            (20, 4, 80, 2),
            {},
            "open",
            "No number of labels would prove it, so near to the target: ask for a lower target",
        ),
        (PRECISION, (20, 0, 3, 1), {}, "open", "3 labelled rows that are not 'spam' are too few"),
        (PRECISION, (90, 0, 80, 1), {"has_seen": True}, "open", "Nothing can be promised"),
        (
            {"kind": "precision_recall", "precision": 0.7, "recall": 0.8},
            (95, 4, 80, 4),
            {},
            "likely",
            "and a recall of",
        ),
        (
            PRECISION,
            (20, 0, 80, 1),
            {"test": ConfusionCounts(20, 4, 80, 1)},
            "open",
            "test rows reach only precision 83.3%",
        ),
        ({"kind": "precision", "target": 1}, (90, 0, 80, 1), {}, "open", "never prove that there is no error"),
        ("f1", (40, 4, 80, 1), {}, None, "What you can count on is an F1 of 84%."),
        ({"kind": "f_beta", "beta": 2}, (40, 4, 80, 1), {}, None, "an F-beta of 87%."),
        ({"kind": "cost", "false_negative": 10, "false_positive": 1}, (40, 4, 80, 1), {}, None, "at most 0.58 a row"),
    ],
)
def test_levels_and_words(objective: Any, counts: tuple[int, ...], more: Any, level: str | None, said: str) -> None:
    made = promise(objective, *counts, **more)
    assert made.level == level
    assert said in made.sentence
    assert (made.chance is None) == (level is None or "has_seen" in more)
    assert Promise.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made


@pytest.mark.parametrize(
    ("objective", "counts"),
    [
        (PRECISION, (10, 0, 90, 5)),
        (PRECISION, (100, 9, 200, 5)),
        ({"kind": "recall", "target": 0.9}, (20, 4, 80, 2)),
        ({"kind": "ham_loss", "at_most": 0.001}, (20, 0, 74, 6)),
    ],
)
def test_of_what_an_audit_has_proven_no_further_proof_is_advised(objective: Any, counts: tuple[int, ...]) -> None:
    made = promise(objective, *counts)
    said = made.without_advice
    assert len(said) < len(made.sentence)
    assert made.sentence.startswith(said)
    (bound,) = made.bounds.values()
    assert said.endswith(
        f"at most {percents.at_most(bound)}." if objective["kind"] == "ham_loss" else f"{percents.at_least(bound)}."
    )
    assert "o prove" not in said


def test_a_promise_of_before_has_no_advice_of_its_own() -> None:
    stored = promise(PRECISION, 10, 0, 90, 5).to_dict()
    assert stored["advice"]
    assert stored["advice"] == stored["advice"].strip()
    assert f" {stored['advice']}" in stored["sentence"]
    before = stored | {"advice": f" {stored['advice']}"}  # as it was stored once
    assert Promise.from_dict(before).without_advice == Promise.from_dict(stored).without_advice
    del stored["advice"]
    assert Promise.from_dict(stored).without_advice == stored["sentence"]


def test_what_is_said_of_both_labels_stays() -> None:
    chosen = Abstention(
        precision=0.9,
        lower=0.0,
        upper=1.0,
        rows=105,
        positive=CalledRows(label="spam", rows=10, right=10),
        negative=CalledRows(label="ham", rows=5, right=5),
    )
    made = promise(PRECISION, 10, 0, 90, 5, abstained=chosen)
    said = made.without_advice
    assert "audit" in made.sentence
    assert "audit" not in said
    assert " Of the rows called 'spam' " in said
    assert said.endswith(made.sentence[-60:])


@given(hits=st.integers(0, 300), misses=st.integers(0, 60), target=st.floats(0.05, 0.99))
def test_chance_bound_and_level_agree(hits: int, misses: int, target: float) -> None:
    made = promise({"kind": "precision", "target": target}, hits, misses, 50, 5)
    assert made.chance is not None
    assert 0 <= made.chance <= 1
    # the bound is what holds with the confidence
    assert (made.bounds["precision"] >= target) == (made.chance >= 0.95) or abs(made.chance - 0.95) < 1e-6
    if made.level == "likely":
        assert made.chance >= LIKELY
    if made.level == "missed":
        assert hits < target * (hits + misses) or hits == 0
    more = promise({"kind": "precision", "target": target}, hits + 10, misses, 50, 5)
    assert more.chance is not None
    assert more.chance >= made.chance - 1e-12
    if made.needs is not None and made.needs.checked_rows is not None:
        # whoever may look after each row needs more than a test of a number that is fixed beforehand
        rows = made.needs.checked_rows
        wrong = int((1 - hits / (hits + misses)) * rows + 0.5)  # a half is rounded as the product does
        assert clopper_pearson_lower(rows - wrong, rows, 0.95) >= target


@pytest.mark.parametrize(("each", "rows"), [(1000, 62), (60, 258)])
def test_an_audit_proves_by_as_many_rows_as_is_promised(each: int, rows: int) -> None:
    assert rows_to_prove(0.95, 1 - 1 / each, 0.95, 1000) == rows
    draws = Draws((Stratum(True, 10**9, 1.0),), np.zeros(400, dtype=np.int64), np.arange(400))
    answers = (np.arange(400) % each != each // 2 - 1).astype(int)
    assert judge(draws, answers, AuditTarget("precision", 0.95), 0.95).decided_at == rows


@given(chance=st.floats(0.011, 0.99), target=st.floats(0.5, 0.99))
def test_what_is_not_likely_is_not_said_to_be_as_likely_as_that(chance: float, target: float) -> None:
    made = promise({"kind": "precision", "target": target}, round(200 * chance), 10, 50, 5)
    said = re.search(r"chance (\d+)%", made.sentence)
    assert said is None or (int(said[1]) >= 100 * LIKELY) == (made.level == "likely")


def test_untouched_rows_count_whole() -> None:
    alone, with_test = (
        promise(PRECISION, 50, 0, 50, 2),
        promise(PRECISION, 50, 0, 50, 2, test=ConfusionCounts(50, 0, 50, 2)),
    )
    assert alone.chance is not None
    assert with_test.chance is not None
    assert with_test.chance > alone.chance
    assert promise(PRECISION, 9, 0, 50, 2, test=ConfusionCounts(5, 0, 50, 2)).sentence.startswith("14 labelled rows")
    refuted = promise(PRECISION, 50, 0, 50, 2, test=ConfusionCounts(40, 10, 50, 2))
    assert refuted.level == "open"


def test_met_is_said_of_what_is_likely_only() -> None:
    likely, unlikely = promise(PRECISION, 100, 2, 200, 5), promise(PRECISION, 10, 0, 90, 5)
    assert promised_status("met", "", likely) == ("met", "")
    assert promised_status("met", "", unlikely) == ("cannot_certify", unlikely.sentence)
    assert promised_status("preference_unmet", "why", unlikely) == ("preference_unmet", "why")
    assert promised_status("met", "", promise("f1", 1, 9, 9, 1)) == ("met", "")


def test_where_half_of_the_labels_certify_twice_as_many_are_needed():
    counts = ConfusionCounts(20, 0, 20, 0)
    objective = Objective.parse({"kind": "recall", "target": 0.95, "confidence": 0.9})
    whole, half = (
        promise_of(objective, counts, "spam", labelled=labelled, certificate=certificate)
        for labelled, certificate in ((40, "cross_fitted"), (80, "strict"))
    )
    assert half.needs.random_labels == pytest.approx(2 * whole.needs.random_labels, abs=1)
    # so it is before a confidence was asked for: all rows calibrate, and half of them would test
    asked = Objective.parse({"kind": "recall", "target": 0.95})
    needs = [promise_of(asked, counts, "spam", certificate=each).needs for each in ("cross_fitted", "strict")]
    assert [each.random_labels for each in needs] == [2 * 59 - 40, 4 * 59 - 40]


@pytest.mark.parametrize("counts", [ConfusionCounts(15, 24, 0, 0), ConfusionCounts(0, 0, 24, 15)])
def test_where_all_rows_are_decided_alike_a_cost_is_that_of_the_one_error_that_there_is(counts):
    objective = Objective.parse({"kind": "cost", "false_negative": 200.0, "false_positive": 1.0})
    most = 1.0 if counts.false_positives else 200.0
    assert promise_of(objective, counts, "malignant").bounds["cost"] <= most
    low, high = cost_interval(counts, (200.0, 1.0))
    assert low < high <= most


def test_no_more_rows_are_asked_for_than_there_are():
    """A file of labels only, or of few rows, got advice that `POST /audits` refused."""
    none, few, some, enough = (
        promise(PRECISION, 10, 0, 90, 5, unlabelled=n, called=called)
        for n, called in ((0, 0), (90, 40), (90, None), (900, 70))
    )
    assert none.sentence.endswith(
        "There is no unlabelled row that it calls 'spam': to prove precision 95%, upload more rows, and check 62 that "
        "it calls so, in an audit."
    )
    assert (none.needs.checked_rows, none.needs.checkable) == (62, 0)
    assert few.sentence.endswith("check the unlabelled rows that it calls 'spam', all of them if need be, in an audit.")
    assert (few.needs.checked_rows, some.needs.checked_rows, enough.needs.checked_rows) == (40, 62, 62)
    assert "check 62 of the unlabelled rows" in enough.sentence
    asked = {"kind": "recall", "target": 0.9}
    said = [promise(asked, 20, 4, 80, 0, unlabelled=n).sentence for n in (0, 40, 47)]
    assert said[0].endswith("to prove recall 90%: each row that there is has a label, so upload more.")
    assert said[1].endswith("to prove recall 90%: only 40 are without a label, so upload more.")
    assert said[2].endswith("to prove recall 90%.")


@pytest.mark.parametrize(
    ("counts", "more", "by_audit"),
    [
        ((10, 0, 90, 5), {}, True),
        ((20, 0, 3, 1), {}, False),  # first of all there are too few negatives
        ((20, 0, 80, 1), {"test": ConfusionCounts(20, 2, 80, 1)}, False),
        ((100, 2, 200, 5), {}, False),  # fewer labels do
    ],
)
def test_an_audit_is_said_to_be_advised_where_the_sentence_advises_it(counts, more, by_audit):
    made = promise(PRECISION, *counts, **more)
    assert ("in an audit" in made.sentence) == by_audit == (made.needs is not None and made.needs.by_audit)


@pytest.mark.parametrize(
    ("counts", "more"),
    [((20, 4, 80, 2), {}), ((20, 9, 80, 9), {}), ((60, 0, 80, 2), {"test": ConfusionCounts(9, 9, 80, 9)})],
)
def test_where_no_number_of_rows_would_do_it_is_said_what_would(counts, more):
    asked = {"kind": "recall", "target": 0.9}
    said = promise(asked, *counts, **more, unlabelled=9).sentence
    assert said.lower().endswith(
        "sk for a lower target, or label the rows that teach most (`prefsvm queue`) and train again."
    )
    assert promise(asked, *counts, **more, unlabelled=0).sentence.endswith("or label more rows and train again.")


def test_a_cost_stands_beside_that_of_deciding_all_rows_alike():
    asked = {"kind": "cost", "false_negative": 10, "false_positive": 1}
    assert promise(asked, 40, 4, 80, 1).sentence.endswith(
        "at most 0.58 a row; with all of the labelled rows called 'spam' it is 0.672, with none 3.28."
    )
    all_, none = promise(asked, 15, 24, 0, 0), promise(asked, 0, 0, 99, 1)
    assert all_.sentence == "All labelled rows are called 'spam', which costs 0.615 a row; none: 3.85."
    assert none.sentence == "None of the labelled rows is called 'spam', which costs 0.1 a row; all: 0.99."
