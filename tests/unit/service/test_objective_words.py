"""Each kind of objective can be written on the command line, and everybody who shows one has words for it."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from service.cli.client import parse_objective
from service.cli.words import objective_words as in_the_terminal
from service.models.objectives import ObjectiveBody
from service.models.words import objective_words
from solver.operating_point import Objective, ObjectiveKind

WRITTEN = {
    "precision": "precision=0.9",
    "recall": "recall=0.9",
    "precision_recall": "precision_recall=0.9:0.8",
    "false_positive_rate": "false_positive_rate=0.01",
    "ham_loss": "ham_loss=0.001",
    "f1": "f1",
    "f_beta": "f_beta=2",
    "cost": "cost=10:1",
}


@pytest.mark.parametrize("kind", get_args(ObjectiveKind))
def test_everybody_has_words_for_a_kind(kind: Any) -> None:
    asked = parse_objective(WRITTEN[kind])
    assert Objective.parse(asked).kind == kind
    stored = TypeAdapter(ObjectiveBody).validate_python(asked).model_dump(exclude_none=True)
    assert stored["kind"] == kind
    assert objective_words(stored) != "Not known"
    assert in_the_terminal(stored) not in ("", kind)


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({"kind": "precision", "target": 0.9999, "confidence": 0.99999}, ("99.99%", "99.999%")),
        ({"kind": "recall", "target": 0.95}, ("95%",)),
        ({"kind": "false_positive_rate", "at_most": 1e-7}, ("0.00001%",)),
    ],
)
def test_no_share_that_was_asked_for_is_rounded(objective: Any, said: tuple[str, ...]) -> None:
    assert tuple(re.findall(r"[\d.e-]+%", objective_words(objective))) == said
