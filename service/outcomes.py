"""What came of what was asked of a model, in words: the card, the reports and the commands all take them from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver import percents
from solver.choices import TARGET_KINDS

CALIBRATION_ROWS, LEFT_OUT_ROWS = "the calibration rows", "the left-out rows"
"""Which rows the outcome was seen on: of a model of two classes, and of one of several."""
STATUSES: Mapping[str, str] = {
    "met": "met on {rows}",
    "preference_unmet": "not reached on {rows}",
    "cannot_certify": "reached on {rows}, too few to promise it",
    "solver_limit": "the solver met its limit first",
    "stopped": "stopped early, the best so far",
    "unmeasured": "not measured: no rows were left out",
}
WITH_CONFIDENCE: Mapping[str, str] = {
    "met": "certified at confidence {confidence}",
    "cannot_certify": "not certified at confidence {confidence}",
}
"""Of targets that are asked for with a confidence. What single classes must reach is never certified."""
WITHOUT_TARGET: Mapping[str, str] = {
    "met": "",
    "preference_unmet": "",
    "cannot_certify": "a class is said of no row",
}
"""Of objectives that are as good as can be: only of rows left undecided there is something to say."""


def status_words(objective: Mapping[str, Any], status: str, rows: str = CALIBRATION_ROWS) -> str:
    """Say what came out without promising more than was seen; empty where there was no target to reach.

    Parameters
    ----------
    objective : mapping of str to any
        What was asked for.
    status : str
        What came of it, as reports call it.
    rows : str, default "the calibration rows"
        Which rows it was seen on.
    """
    words = STATUSES.get(status, status)
    if objective.get("kind") in TARGET_KINDS:
        confidence = objective.get("confidence")
        if confidence is not None:
            words = WITH_CONFIDENCE.get(status, words)
        return words.format(rows=rows, confidence="" if confidence is None else percents.asked(confidence))
    if not objective.get("floors"):
        words = WITHOUT_TARGET.get(status, words)
    return words.format(rows=rows)
