"""What the command line makes of its arguments and of CSV files."""

from __future__ import annotations

import pytest

from service import client
from service.client import cell, parse_objective, parse_params
from service.ingest import numbers


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("recall=0.95", {"kind": "recall", "target": 0.95}),
        ("precision=1", {"kind": "precision", "target": 1.0}),
        ("precision_recall=0.9:0.8", {"kind": "precision_recall", "precision": 0.9, "recall": 0.8}),
        ("f1", {"kind": "f1"}),
        ("f_beta=2", {"kind": "f_beta", "beta": 2.0}),
        ("cost=5:1", {"kind": "cost", "false_negative": 5.0, "false_positive": 1.0}),
    ],
)
def test_objectives(text, objective):
    assert parse_objective(text) == objective


@pytest.mark.parametrize(
    "text", ["", "recall", "recall=", "recall=high", "f1=0.5", "f1=", "cost=5", "cost=1:2:3", "auc"]
)
def test_what_is_no_objective_names_the_known_forms(text):
    with pytest.raises(ValueError, match="is none of precision="):
        parse_objective(text)


def test_a_confidence_goes_with_a_target():
    assert parse_objective("recall=0.9", 0.95) == {"kind": "recall", "target": 0.9, "confidence": 0.95}
    with pytest.raises(ValueError, match="a confidence goes with"):
        parse_objective("f1", 0.95)


def test_parameters_are_json_where_they_can_be():
    assert parse_params(["C=10", "gamma=scale", "shrinking=true", "name=a=b"]) == {
        "C": 10,
        "gamma": "scale",
        "shrinking": True,
        "name": "a=b",
    }
    with pytest.raises(ValueError, match="'C' has no '='"):
        parse_params(["C"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("39", 39),
        ("-4", -4),
        ("0", 0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("clerk", "clerk"),
        ("01234", "01234"),
        ("+1", "+1"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1e999", "1e999"),
        ("0x10", "0x10"),
    ],
)
def test_cells(text, value):
    found = cell(text)
    assert found == value
    assert type(found) is type(value)


def test_numbers_are_what_they_are_to_an_upload():
    assert f"^{client.PLAIN_NUMBER.pattern}$" == numbers.PLAIN_NUMBER
