"""What a fitted model of two classes says of the test rows and of unlabelled ones, and what is odd about that."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from solver import percents
from solver.abstention import abstained_on
from solver.choices import FEWEST_OF_A_CLASS
from solver.decision import DecisionState
from solver.evaluation import confusion, measures
from solver.model_file import Model
from solver.operating_point import Objective
from solver.report import Abstention, DecidedUnlabelled, Measures, SpreadScores
from solver.training.target import NEGATIVE, POSITIVE, UNLABELLED
from solver.training.task import TrainingTask
from solver.typing import BoolArray, FloatArray, IndexArray

_HURRIED_SECONDS: Final = 1.0
_HURRIED_ROWS: Final = 1024
"""What measuring on the test rows may take of a training that has to stop, and how many rows are taken at once."""
_DECIDED_ROWS: Final = 4096
"""Unlabelled rows that are decided on for the report."""
_SCORE_BARS: Final = 64
"""Parts that their scores are counted in."""
_OTHER_MIX: Final = 0.1
"""How far the shares of rows called positive may differ, labelled and unlabelled ones, without a warning."""


def measure_on_test(
    model: Model,
    task: TrainingTask,
    controls: Mapping[str, DecisionState],
    chosen: Abstention | None,
    *,
    in_a_hurry: bool,
) -> tuple[dict[str, Measures], Abstention | None]:
    """Measures on the test rows, of the model (under `""`) and of each control; empty without test rows.

    Besides, the labels that they are given by a model that leaves rows undecided.

    In a hurry, on as many of them, drawn at random, as take about a second.
    """
    test_rows = task.test_rows
    if len(test_rows) == 0:
        return {}, None
    if in_a_hurry:
        test_rows = np.random.default_rng(task.request.seed).permutation(test_rows)
    codes = task.target.codes[test_rows]
    states = {"": model.decision, **controls}
    costs = task.objective.costs
    positive: dict[str, list[BoolArray]] = {name: [] for name in states}
    give_up = time.monotonic() + _HURRIED_SECONDS
    of_model: list[FloatArray] = []
    measured = 0
    step = _HURRIED_ROWS if in_a_hurry else len(test_rows)
    while measured < len(test_rows) and (measured == 0 or time.monotonic() < give_up):
        X, _ = model.feature_matrix(
            task.corrected.data.take(test_rows[measured : measured + step]), refuse_unreadable=False
        )
        scored: list[tuple[DecisionState, FloatArray]] = []
        for name, state in states.items():
            # a control often is the same expansion with another threshold
            scores = next((values for other, values in scored if state.scores_like(other)), None)
            if scores is None:
                scores = state.decision_function(X)
                scored.append((state, scores))
            positive[name].append(scores > state.threshold)
        of_model.append(scored[0][1])
        measured += X.shape[0]
    said = None
    if chosen is not None:
        said = abstained_on(chosen, np.concatenate(of_model), codes[:measured] == POSITIVE)
    made = {
        name: measures(confusion(codes[:measured], np.concatenate(decided)), costs=costs)
        for name, decided in positive.items()
    }
    return made, said


def some_unlabelled(task: TrainingTask, in_a_hurry: bool) -> IndexArray:
    """Unlabelled ones of the rows that are trained on, of which some are drawn if there are many."""
    rows = np.flatnonzero(task.train_codes == UNLABELLED)
    most = _HURRIED_ROWS if in_a_hurry else _DECIDED_ROWS
    return np.sort(np.random.default_rng(task.request.seed).permutation(rows)[:most])


def decided_unlabelled(model: Model, scores: FloatArray, task: TrainingTask) -> DecidedUnlabelled | None:
    """How many of the unlabelled rows with these scores the model calls positive."""
    if len(scores) == 0:
        return None
    called, called_negative = model.decision.says(scores)
    positive = int(np.count_nonzero(called))
    labelled = task.target.count(POSITIVE) + task.target.count(NEGATIVE)
    return DecidedUnlabelled(
        rows=int(np.count_nonzero(task.train_codes == UNLABELLED)),
        measured=len(scores),
        positive=positive,
        undecided=len(scores) - positive - int(np.count_nonzero(called_negative)),
        share=positive / len(scores),
        labelled_share=task.target.count(POSITIVE) / labelled,
        scores=_spread(scores),
    )


def _spread(scores: FloatArray) -> SpreadScores | None:
    """Count scores in equal parts; None where they do not differ by what a float can part."""
    least, greatest = float(scores.min()), float(scores.max())
    width = (greatest - least) / _SCORE_BARS
    if not 2 * np.spacing(max(abs(least), abs(greatest))) < width < math.inf:
        return None
    counts, _ = np.histogram(scores, _SCORE_BARS, (least, greatest))
    return SpreadScores(least=least, greatest=greatest, counts=counts.tolist())


def another_mix(
    unlabelled: DecidedUnlabelled | None,
    calibration: Measures | None,
    objective: Objective,
    chosen: Abstention | None,
) -> list[str]:
    """Say that a precision was measured on rows of another mix than the unlabelled ones, as far as the model tells."""
    is_precision = objective.precision_target > 0 or objective.abstain is not None
    if unlabelled is None or calibration is None or not calibration.n or not is_precision:
        return []
    called = (calibration.predicted_positives if chosen is None else chosen.positive.rows) / calibration.n
    share, n, m = unlabelled.share, unlabelled.measured, calibration.n
    pooled = (share * n + called * m) / (n + m)
    spread = math.sqrt(max(pooled * (1 - pooled), 1e-12) * (1 / n + 1 / m))
    if abs(share - called) < max(_OTHER_MIX, 4 * spread):
        return []
    model, labelled, positive = map(percents.measured, (share, called, unlabelled.labelled_share))
    return [
        f"the model calls {model} of the unlabelled rows positive, and {labelled} of the labelled ones that its "
        f"precision was measured on ({positive} of the labelled rows are positive): these are different mixes, and "
        "among rows like the unlabelled ones the precision is another; label some of those"
    ]


def one_sided(measured: Measures | None, classes: tuple[str, str]) -> list[str]:
    """A warning when every row that was measured is predicted alike; few measures would show it plainly."""
    if measured is None or not measured.n or measured.predicted_positives not in (0, measured.n):
        return []
    predicted = classes[measured.predicted_positives > 0]
    return [f"all {measured.n} rows that the model was measured on are predicted {predicted!r}"]


def _why_not_tested(task: TrainingTask, code: int) -> str:
    """Say why the test rows hold none of a class."""
    name, labelled = task.target.classes[code], int(np.count_nonzero(task.target.codes == code))
    are_enough = labelled > FEWEST_OF_A_CLASS and task.request.test_fraction * labelled >= 0.5
    if task.groups is not None and are_enough:
        return (
            f"the test rows hold none of {name!r}: what belongs together by {task.request.groups!r} is tested whole, "
            "and nothing with such rows fits into the share of test rows"
        )
    return f"too few labelled rows of {name!r}: the test rows hold none"


def warnings_of_test_rows(task: TrainingTask, measured: Measures | None) -> list[str]:
    """What is odd about the test rows, or about what was measured on them."""
    if task.request.test_fraction == 0 or task.target.positives_only:
        return []
    target, rows = task.target, task.test_rows
    warnings = [
        _why_not_tested(task, code) for code in range(len(target.classes)) if not np.any(target.codes[rows] == code)
    ]
    if measured is not None and measured.n != len(rows):
        warnings.append(f"the training was stopped: {measured.n} of the {len(rows)} test rows were measured on")
    return [*warnings, *([] if target.is_of_several else one_sided(measured, target.pair))]
