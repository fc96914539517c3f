"""One table says what came of a training, to the card, the pages and the commands."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from service.outcomes import LEFT_OUT_ROWS, STATUSES, status_words

ROOT = Path(__file__).resolve().parents[3]
RECALL = {"kind": "recall", "target": 0.9}
FLOORS = {"kind": "macro_f1", "floors": {"urgent": {"recall": 0.9}}}


@pytest.mark.parametrize(
    ("objective", "status", "said"),
    [
        (RECALL, "met", "met on the calibration rows"),
        (RECALL, "preference_unmet", "not reached on the calibration rows"),
        (RECALL, "cannot_certify", "reached on the calibration rows, too few to promise it"),
        (RECALL | {"confidence": 0.95}, "met", "certified at confidence 95%"),
        (RECALL | {"confidence": 0.95}, "cannot_certify", "not certified at confidence 95%"),
        (RECALL | {"confidence": 0.95}, "stopped", "stopped early, the best so far"),
        ({"kind": "f1"}, "met", ""),
        ({"kind": "f1"}, "solver_limit", "the solver met its limit first"),
        ({"kind": "f1", "abstain": {"precision": 0.98}}, "cannot_certify", "a class is said of no row"),
    ],
)
def test_two_classes(objective: dict[str, Any], status: str, said: str) -> None:
    assert status_words(objective, status) == said


@pytest.mark.parametrize(
    ("objective", "status", "said"),
    [
        (FLOORS, "preference_unmet", "not reached on the left-out rows"),
        (FLOORS | {"confidence": 0.9}, "met", "met on the left-out rows"),  # nothing of a class is ever certified
        ({"kind": "accuracy"}, "met", ""),
        ({"kind": "accuracy"}, "unmeasured", "not measured: no rows were left out"),
    ],
)
def test_several_classes(objective: dict[str, Any], status: str, said: str) -> None:
    assert status_words(objective, status, LEFT_OUT_ROWS) == said


def test_nobody_has_a_table_of_their_own() -> None:
    for path in sorted((ROOT / "service").rglob("*.py")):
        tree = ast.parse(path.read_text())
        tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict) and _words(node) >= 2]
        assert not tables or path.name == "outcomes.py", path


def _words(table: ast.Dict) -> int:
    """Count the statuses that a table has words for."""
    return sum(isinstance(key, ast.Constant) and key.value in STATUSES for key in table.keys)
