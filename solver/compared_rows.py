"""Two models on the same rows, of which neither had learned the label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.evaluation import confusion, measures
from solver.evaluation.significance import paired_bootstrap
from solver.labelled_rows import CALLED_NEGATIVE, CALLED_POSITIVE, UNLABELLED
from solver.operating_point import Objective
from solver.report import ComparedRows
from solver.retuning import chosen_point
from solver.training import TestedRows
from solver.typing import BoolArray


def decisions_on_test(tested: TestedRows, applied: Mapping[str, Any] | None) -> BoolArray:
    """What the measured model says of the test rows: by its own threshold, or one chosen for an objective to apply."""
    report = tested.report
    point = None if applied is None else chosen_point(report, Objective.parse(applied))
    return tested.scores > (report.threshold if point is None else point.threshold)


def decisions_of_older(states: NDArray[np.int8], called: BoolArray, *, is_retuned: bool) -> tuple[BoolArray, BoolArray]:
    """Which rows an older model can be judged by, and what it says of them.

    Of rows that had no label then, what it `called` positive itself. Of its test rows, what the model said that they
    measured, before it learned them; nothing is known of that where another threshold was applied since.

    Parameters
    ----------
    states : int array
        See `solver.labelled_rows`.
    called : bool array
    is_retuned : bool
    """
    is_test = np.isin(states, (CALLED_NEGATIVE, CALLED_POSITIVE)) & (not is_retuned)
    return (states == UNLABELLED) | is_test, np.where(is_test, states == CALLED_POSITIVE, called)


def compared(
    truth: BoolArray, before: BoolArray, now: BoolArray, is_new: BoolArray, objective: Objective
) -> ComparedRows:
    """Compare the decisions of two models on the same rows, at least one.

    Parameters
    ----------
    truth, before, now : bool array
        Which rows are positive, and which each model calls so.
    is_new : bool array
        Those that had no label when the older model was trained.
    objective : Objective
        Of both.
    """
    difference = paired_bootstrap(truth, now, before, objective.utilities)
    costs = objective.costs
    return ComparedRows(
        n=len(truth),
        new=int(np.count_nonzero(is_new)),
        before=measures(confusion(truth, before), costs=costs),
        now=measures(confusion(truth, now), costs=costs),
        value=_value(objective),
        gain=difference.gain,
        low=difference.low,
        high=difference.high,
    )


def _value(objective: Objective) -> str:
    if objective.costs is not None:
        return "saved cost of a row"
    if objective.targets:
        return "F1 less what is missing to the target"
    return "F1" if objective.kind == "f1" else "F-beta"
