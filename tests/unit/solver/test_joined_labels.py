"""Labels of another table find their rows by keys, and what does not fit is counted or refused."""

from __future__ import annotations

import time

import pytest

from solver.joined_labels import JoinError, join_labels
from solver.report import JoinedLabelsReport

NAMES = ("id", "patient")


def test_each_row_gets_the_label_of_its_key():
    made = join_labels(["c", "a", "b", "e\u0301", "z"], ["a", "b", "\u00e9", "c"], ["x", "y", "x", None], names=NAMES)
    assert made.labels.tolist() == [None, "x", "y", "x", None]
    assert made.warnings == []
    assert made.report.labelled == 3


def test_what_finds_no_partner_is_counted_and_named():
    keys = ["a", None, "a", "b", " "]
    made = join_labels(
        keys, ["a", "a", "q", None, "r", "b"], ["x", "x", "y", "y", "y", "?"], names=NAMES, unlabeled=["?"]
    )
    assert made.labels.tolist() == ["x", None, "x", None, None]
    assert made.report == JoinedLabelsReport(
        labelled=2, unmatched=2, repeated=1, without_key=1, rows_without_key=2, shared=1,
    )  # fmt: skip
    assert made.warnings == [
        "labels: 2 labelled key(s) are not in the data set ('q', 'r')",
        "labels: 1 row(s) of the labels repeat a key and its label",
        "labels: 1 row(s) of the labels have a label and no key in column 'patient'",
        "labels: 2 row(s) have no key in column 'id' and count as unlabelled",
        "labels: 1 row(s) have their label together with an earlier row of the same key ('a')",
    ]


def test_a_key_with_two_labels_is_refused_with_the_rows():
    with pytest.raises(JoinError) as refused:
        join_labels(["a", "b"], ["a", "b", "b", "a"], ["x", "Yes", "yes ", "y"], names=NAMES)
    assert refused.value.code == "conflicting_labels"
    assert str(refused.value) == (
        "2 row(s) of the labels contradict an earlier row of the same key in column 'patient': 'b' is 'Yes' in row 2 "
        "and 'yes ' in row 3; 'a' is 'x' in row 1 and 'y' in row 4; leave one label a key"
    )
    made = join_labels(["a", "b"], ["a", "b", "b"], ["x", "Yes", "yes "], names=NAMES, fold=True)
    assert (made.labels.tolist(), made.report.repeated) == (["x", "Yes"], 1)
    # "Not known" contradicts nobody, in whatever capitals where those do not count.
    made = join_labels(["a"], ["a", "a"], ["x", "NA "], names=NAMES, fold=True, unlabeled=["na"])
    assert made.labels.tolist() == ["x"]


def test_no_key_in_common_is_refused_with_keys_of_both():
    with pytest.raises(JoinError) as refused:
        join_labels(["007", "008", "", "009", "010"], ["7", "8"], ["x", "y"], names=NAMES)
    assert refused.value.code == "no_matching_key"
    assert "column 'patient' of the labels ('7', '8')" in str(refused.value)
    assert "column 'id' of the rows ('007', '008', '009', …); keys are compared as texts" in str(refused.value)
    assert join_labels(["a"], ["a"], [None], names=NAMES).labels.tolist() == [None]  # training says what is missing


def test_it_costs_rows_and_not_their_product():
    def seconds(rows: int) -> float:
        keys = [f"key {i}" for i in range(rows)]
        begun = time.process_time()
        join_labels(keys, keys[::-1], ["x"] * rows, names=NAMES)
        return time.process_time() - begun

    few = min(seconds(20_000) for _ in range(3))
    # ten times for the rows, a hundred times for their product
    assert min(seconds(200_000) for _ in range(2)) < 60 * few
