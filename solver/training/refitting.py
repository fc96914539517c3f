"""Training twice: once to measure on the test rows, then once more to learn from them too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from solver.classes_report import MulticlassReport
from solver.report import Report
from solver.training.result import TrainedClasses, TrainedModel
from solver.training.stopwatch import Stopwatch
from solver.training.task import TrainingTask

_NO_TIME: Final = "there was no time to train the model once more, on the test rows too"
_STOPPED: Final = "the training was stopped before the model had learned from the test rows too"
_MEASURED: Final = 0.5
"""Share of the call that is done when the test rows have measured a model and it is trained once more."""
REFITTING: Final = "refitting"
"""Phase, and name of the run, in which the model is trained once more, on the test rows too."""

_AnyReport = TypeVar("_AnyReport", Report, MulticlassReport)
_Trained = TypeVar("_Trained", TrainedModel, TrainedClasses)


def train_twice(
    task: TrainingTask,
    watch: Stopwatch,
    train_once: Callable[[Stopwatch], _Trained],
    refit: Callable[[Stopwatch], _Trained | None],
    measured_before: Callable[[_Trained, _Trained, dict[str, float]], _Trained],
) -> tuple[_Trained, _Trained]:
    """Train and measure on the test rows, then once more on those too.

    What is found first is kept where the training has to stop before the end: it was measured.

    Parameters
    ----------
    task : TrainingTask
    watch : Stopwatch
    train_once : callable
        Trains, and measures on the test rows.
    refit : callable
        Trains on all rows; None where it was stopped.
    measured_before : callable
        Adds to the model of all rows what the test rows said of the one before; takes both, and the seconds of each
        phase.

    Returns
    -------
    trained, measured
        The model to keep, and the one that the test rows measured.
    """
    most = task.request.max_seconds
    began = time.monotonic()
    measured = train_once(watch.part(0.0, _MEASURED))
    seconds = time.monotonic() - began
    again = None
    if not watch.stopped and (most is None or 2 * seconds < most):
        with watch.phase(REFITTING):
            again = refit(watch.part(_MEASURED, 1.0, within=REFITTING))
    if again is None or watch.stopped:
        return replace(measured, report=_not_refitted(measured.report, stopped=watch.stopped)), measured
    return measured_before(again, measured, watch.seconds), measured


def _not_refitted(report: _AnyReport, *, stopped: bool) -> _AnyReport:
    """That of the model that the test rows measured: there was no time for another, or the training was stopped."""
    if not stopped:
        return replace(report, warnings=[*report.warnings, _NO_TIME])
    reason = f"{_STOPPED[0].upper()}{_STOPPED[1:]}."
    return replace(report, status="stopped", status_reason=reason, warnings=[*report.warnings, _STOPPED])
