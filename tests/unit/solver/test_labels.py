"""Labels: words for missing values are no negatives, spellings can be folded, labels can be blanked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from solver.features import Column, Table
from solver.labels import folded, folding, is_missing_word, keep_labels, spelling_warning, spellings, unclear_labels
from solver.training import Corrections, TrainedModel, TrainingError, TrainingRequest, train

WORDS = ["NA", "N/A", "n/a", "nan", "NaN", "NULL", "None", "-", "?", "unknown", " Unknown ", "\\N", "<NA>", "\u00a0NA"]


def trained(labels: list[str | None], corrections: Corrections | None = None, **changes: Any) -> TrainedModel:
    rng = np.random.default_rng(0)
    shift = np.array([label is not None and label.lower().startswith("y") for label in labels])
    x = rng.normal(size=len(labels)) + shift
    values: NDArray[np.object_] = np.array([*labels, None], dtype=object)[:-1]
    request = TrainingRequest(algorithm="svm", **{"positive": "yes", **changes})
    return train(Table({"x": Column("x", "number", x)}), values, request, corrections=corrections)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_for_a_missing_value_is_no_label_unless_somebody_says_so(word: str) -> None:
    assert is_missing_word(word.strip())
    for others in ([], ["no"] * 30):
        labels: list[str | None] = [*["yes"] * 30, *others, *[word] * 40]
        with pytest.raises(TrainingError) as caught:
            trained(labels)
        assert caught.value.code == "unclear_labels"
        assert f"40 row(s) of {word!r}" in caught.value.message
        assert '"unlabeled"' in caught.value.message
        assert '"negative"' in caught.value.message
        report = trained(labels, negative=[word, "no"]).report
        assert report.rows.negative == 40 + len(others)
    assert trained(labels, unlabeled=[word]).report.rows.unlabelled == 40


def test_minus_one_beside_zero_and_one() -> None:
    labels: list[str | None] = [*["0"] * 20, *["1"] * 20, *["-1"] * 60]
    with pytest.raises(TrainingError) as caught:
        trained(labels, positive="1")
    assert "60 row(s) of '-1'" in caught.value.message
    assert "scikit-learn" in caught.value.message
    assert trained(labels, positive="1", unlabeled=["-1"]).report.rows.unlabelled == 60
    assert trained(labels, positive=None, unlabeled=["-1"]).report.rows.unlabelled == 60
    assert trained(labels, positive="1", negative=["-1", "0"]).report.rows.negative == 80
    assert trained(["-1", "1"] * 20, positive=None).report.rows.negative == 20


def test_the_positive_class_may_be_such_a_word() -> None:
    assert trained(["unknown", "known"] * 20, positive="unknown").report.rows.positive == 20


def test_negative_names_all_or_is_refused() -> None:
    assert unclear_labels({"yes": 3, "no": 4, "maybe": 5}, "yes", [], ["no"]) is not None
    assert unclear_labels({"yes": 3, "no": 4, "maybe": 5}, "yes", ["maybe"], ["no"]) is None
    assert unclear_labels({"0": 3, "1": 4}, None, [], ["0"]) is None
    assert "1 row(s) of 'NA'" in (unclear_labels({"0": 3, "NA": 1}, None, [], []) or "")


def test_spellings_are_said_and_folded_on_request() -> None:
    labels: list[str | None] = [*["Yes", "yes ", "YES", "yes"] * 6, *["no", "NO"] * 9, None]
    report = trained(labels).report
    assert report.rows.positive == 6
    (said,) = [warning for warning in report.warnings if "fold" in warning]
    assert "'YES', 'Yes', 'yes', 'yes '" in said
    made = trained(labels, Corrections([{"x": 5.0}], ["YES"]), fold=True)
    assert made.model.classes == ("NO", "yes")
    assert (made.report.rows.positive, made.report.rows.negative) == (25, 18)
    assert not [warning for warning in made.report.warnings if "fold" in warning]
    assert made.report.feedback.added == 1


@pytest.mark.parametrize(
    "same",
    [
        ("10%", "10 %", " 10\u00a0% "),
        ("1,000", "1000", "1 000", "1'000", "1\u2019000"),
        ("1,234,567.50", "1234567.50"),
        ("$5", "$ 5", "5 $"),
        ("-3 \u20ac", "-\u20ac3"),
        ("USD 5", "usd5"),
    ],
)
def test_ways_to_write_a_number_are_said_and_folded_on_request(same: tuple[str, ...]) -> None:
    assert len({*map(folded, same)}) == 1
    assert spellings([*same, "other"]) == [sorted(same)]
    warning = spelling_warning(same[:2])
    assert warning is not None
    assert warning.startswith("labels that differ in capitals, blanks or how a number is written only are different")


def test_other_numbers_stay_other_labels() -> None:
    labels = [
        "1",
        "01",
        "1.0",
        "10",
        "10%",
        "1,00",
        "1,0000",
        "0,100",
        "0100",
        "1.000",
        "1000",
        "1,000 m",
        "10 % off",
        "+1",
    ]
    assert len({*map(folded, labels)}) == len(labels)


def test_a_folded_label_is_spelt_as_the_request_does_or_most_often() -> None:
    assert folding({"Yes": 3, "YES ": 5, "no": 1, "No": 1}, []) == {"yes": "YES", "no": "No"}
    assert folding({"Yes": 3, "YES": 5}, ["yEs"]) == {"yes": "yEs"}


@given(st.integers(2, 40), st.integers(2, 40), st.data())
def test_kept_labels(negatives: int, positives: int, data: st.DataObject) -> None:
    truth = np.random.default_rng(1).permutation(np.arange(negatives + positives) < positives)
    keep = data.draw(st.integers(4, negatives + positives))
    labelled = np.append(np.ones(len(truth), dtype=bool), np.zeros(5, dtype=bool))
    positive = np.append(truth, np.zeros(5, dtype=bool))
    kept = keep_labels(positive, labelled, keep, 3)
    assert kept.sum() == keep
    assert (kept & positive).sum() >= 2
    assert (kept & ~positive).sum() >= 2
    assert not kept[~labelled].any()
    exact = keep * positives / len(truth)
    if exact - 1 >= 2 and exact + 1 <= keep - 2:
        assert abs((kept & positive).sum() - exact) <= 0.5
    np.testing.assert_array_equal(kept, keep_labels(positive, labelled, keep, 3))


def test_blanked_labels_take_part_as_unlabelled_rows() -> None:
    labels: list[str | None] = ["yes", "no", "no"] * 40
    rows = trained(labels, keep=30, keep_seed=1).report.rows
    assert (rows.positive, rows.negative, rows.unlabelled) == (10, 20, 90)
    # a label that no row kept may still be given by feedback
    labels = ["yes", *["no"] * 60, *["yes"] * 60, "never"]
    made = trained(labels, Corrections([{"x": 9.0}], ["never"]), keep=10, keep_seed=1)
    assert made.report.feedback.refused == []
    with pytest.raises(TrainingError, match="1000 labels are to be kept, and there are 122"):
        trained(labels, keep=1000)
    assert trained(labels, keep=4).report.rows == trained(labels, keep=4).report.rows
