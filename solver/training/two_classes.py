"""From a data set and a request to a model of two classes and an honest report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.algorithms import AUTO
from solver.corrections import Corrections
from solver.decision import DecisionState
from solver.evaluation import OperatingCurve
from solver.explaining import MOST_WEIGHED, weights_of
from solver.features import MatrixData, MatrixFeatures, Table, TableFeatures
from solver.labelled_rows import CALLED_NEGATIVE, LEARNED, LabelledRows, fingerprints
from solver.labelling_queue import QueueInput, queue_of
from solver.model_file import Model
from solver.nearest import KeptRows
from solver.parts import ALONE, PartExecutor, PartsOfRun
from solver.peak_memory import peak_memory_bytes
from solver.positives_only import told_at
from solver.promise import promise_of, promised_status
from solver.report import (
    Classes,
    DecidedUnlabelled,
    LabellingQueue,
    Measures,
    ModelColumn,
    Refit,
    Report,
    Weights,
    few_of_a_kind,
)
from solver.retuning import abstention_of, status_with
from solver.telling import telling_columns
from solver.training.fitted_features import encoder_of, fit_features
from solver.training.measuring import (
    another_mix,
    decided_unlabelled,
    measure_on_test,
    one_sided,
    some_unlabelled,
    warnings_of_test_rows,
)
from solver.training.refitting import REFITTING, train_twice
from solver.training.request import Progress, TrainingError, TrainingRequest, refused_by_estimators
from solver.training.result import TestedRows, TrainedModel
from solver.training.stopwatch import TRAINING_DONE, Stopwatch
from solver.training.target import NEGATIVE, POSITIVE, UNLABELLED
from solver.training.task import TrainingTask, prepare
from solver.typing import FloatArray, IndexArray


def train(
    data: Table | MatrixData,
    labels: NDArray[Any],
    request: TrainingRequest,
    *,
    corrections: Corrections | None = None,
    progress: Callable[[Progress], bool | None] | None = None,
    parts: PartExecutor = ALONE,
) -> TrainedModel:
    """Train a model and measure it on rows that nothing was fitted on.

    Rows without a label take part as unlabelled ones. The test rows are drawn from the labelled rows, stratified,
    before anything is fitted: no statistic of a feature, no threshold and no choice ever sees them. They also measure
    the controls: the same without unlabelled rows, and the plain SVM with threshold 0.

    Then the same is trained once more with the test rows among the labelled ones, and that is the model: it is as it
    were without test rows, and what they measured is of a model that learned from fewer labels (`Report.refit`).

    Parameters
    ----------
    data : Table or MatrixData
    labels : array of str or None, shape (rows,)
        As the user wrote them.
    request : TrainingRequest
    corrections : Corrections, optional
        What users have corrected, see `solver.corrections`. Rows that only they give a label are trained on and never
        tested or calibrated on.
    progress : callable, optional
        Called now and then; once it returns True, training stops soon and keeps the best model so far.
    parts : PartExecutor, optional
        Who computes what falls into parts; this call alone by default. The model is the same.

    Raises
    ------
    TrainingError
        For what the user can mend. Its codes: `label_text`, `unclear_labels`, `keep`, `no_labels`,
        `one_class`, `unknown_positive`, `positive_needed`, `too_few_labelled`, `params`, `objective`,
        `no_unlabelled`, `many_classes`, `test_fraction`, `target_is_feature`, `features`, `missing_values`, `device`,
        `not_trainable`.
    """
    watch = Stopwatch(progress)
    task = prepare(data, labels, request, corrections)
    if task.class_objective is not None:
        said = f"there are {len(task.target.classes)} labels: say which one is positive"
        raise TrainingError("positive_needed", f"{said}, or train them with solver.training.several_classes")
    return train_two_classes(task, parts, watch)


def train_two_classes(task: TrainingTask, parts: PartExecutor, watch: Stopwatch) -> TrainedModel:
    """Train two classes on what was read and checked."""
    if not (task.request.refit and len(task.test_rows)):
        trained = measured = _train_once(task, parts, watch)
    elif parts.is_sought_in(REFITTING):
        trained = measured = _refit(task, parts, watch)
    else:
        trained, measured = train_twice(
            task,
            watch,
            lambda part: _train_once(task, parts, part),
            lambda part: _refit(task, parts, part),
            lambda again, before, seconds: _measured_before(again, before, task, seconds),
        )
    if not watch.stopped:
        trained = _with_rows(trained, measured, task)
    watch.report(1.0)
    return trained


def _with_rows(trained: TrainedModel, measured: TrainedModel, task: TrainingTask) -> TrainedModel:
    """The model with what later ones need to be compared with it: its labelled rows, and what the test rows said."""
    data, codes, test_rows = task.corrected.data, task.target.codes, task.test_rows
    takes_part = task.is_trained_on
    takes_part[test_rows] = True
    labelled = np.flatnonzero((codes != UNLABELLED) & takes_part)
    prints = fingerprints(trained.model.telling_matrix(data.take(labelled)))
    states = np.full(len(labelled), LEARNED, dtype=np.int8)
    if len(test_rows) == 0:
        return replace(trained, labelled=LabelledRows.of(prints, states))
    decision = measured.model.decision
    tested = decision.decision_function(measured.model.feature_matrix(data.take(test_rows), refuse_unreadable=False)[0])
    places = np.searchsorted(labelled, test_rows)
    states[places] = CALLED_NEGATIVE + (tested > decision.threshold)
    kept = LabelledRows.of(prints, states)
    apart = kept.states(prints[places]) > LEARNED
    rows = test_rows if task.complete is None else task.complete[test_rows]
    truth = codes[test_rows] == POSITIVE
    return replace(
        trained,
        labelled=kept,
        tested=TestedRows(rows[apart], prints[places[apart]], truth[apart], tested[apart], measured.report),
    )


def _train_once(task: TrainingTask, parts: PartExecutor, watch: Stopwatch) -> TrainedModel:
    """Train on the rows that are to be trained on, and measure on the test rows, if there are any."""
    request = task.request
    with watch.phase("features"):
        features, X, feature_warnings = fit_features(task, watch)
    with watch.phase("training"):
        estimator = _fit(task, X, parts, watch.training)
    with watch.phase("evaluating"):
        watch.report(TRAINING_DONE)
        fitted: Report = estimator.report_
        decision: DecisionState = estimator.decision_state()
        told = replace(fitted, algorithm=task.spec.name, classes=Classes(*task.target.pair), rows=task.counted())
        chosen = abstention_of(told, task.objective, decision.threshold)
        decision = replace(decision, band=None if chosen is None else chosen.band)
        model = _model_of(task, features, decision, fitted)
        some = some_unlabelled(task, watch.stopped)
        scores = model.decision.decision_function(X[some])
        unlabelled = decided_unlabelled(model, scores, task)
        # If a second training on all rows follows, that one makes the queue.
        has_queue = not watch.stopped and not (request.refit and len(task.test_rows))
        queue = _queue(task, decision, X, some, scores, estimator.left_out_scores_) if has_queue else None
        weights, kept = _explained(task, model, features, X) if has_queue else (None, None)
        column_warnings = [] if watch.stopped else telling_columns(*_learned_from(task, features), request.seed)
        measured, said_on_test = measure_on_test(
            model, task, estimator.control_states_, chosen, in_a_hurry=watch.stopped
        )
    report = replace(
        told,
        params=task.params,
        objective=model.objective,
        feedback=task.feedback(),
        queue=queue,
        weights=weights,
        unlabelled=unlabelled,
        abstain=chosen,
        test_abstain=said_on_test,
        **_promised(replace(told, abstain=chosen, test_abstain=said_on_test), task, measured.get(""), unlabelled),
        test=measured.get(""),
        controls={name: replace(each, test=measured.get(name)) for name, each in fitted.controls.items()},
        features=features.n_features,
        encoder=encoder_of(model),
        columns=[ModelColumn(**column) for column in model.columns],
        excluded=task.excluded,
        timings=watch.seconds,
        peak_memory_bytes=peak_memory_bytes(),
        warnings=[
            *few_of_a_kind([*task.warnings(), *feature_warnings, *column_warnings]),
            *fitted.warnings,
            *another_mix(unlabelled, fitted.calibration, task.objective, chosen),
            *warnings_of_test_rows(task, measured.get("")),
            *([] if measured else one_sided(fitted.calibration, task.target.pair)),
        ],
    )
    return TrainedModel(model, report, kept=kept)


def _queue(
    task: TrainingTask,
    decision: DecisionState,
    X: FloatArray | sparse.csr_array,
    some: IndexArray,
    scores: FloatArray,
    left_out: FloatArray,
) -> LabellingQueue:
    """Which rows to label next, and which labels look wrong; see `QueueInput`."""
    return queue_of(QueueInput(decision, X, task.train_codes, task.numbers, some, scores, left_out, task.is_original))


def _explained(
    task: TrainingTask, model: Model, features: TableFeatures | MatrixFeatures, X: FloatArray | sparse.csr_array
) -> tuple[Weights | None, KeptRows]:
    """What weighs most in the scores of the labelled rows, and labelled rows for others to be compared with."""
    labelled = np.flatnonzero(task.train_codes != UNLABELLED)
    drawn = labelled[np.random.default_rng(task.request.seed).permutation(len(labelled))[:MOST_WEIGHED]]
    rows = task.corrected.data.take(task.train_rows[drawn])
    knows = None if task.target.positives_only else model.curve is not None and model.curve.is_better_than_chance
    positive = task.train_codes[labelled] == POSITIVE
    return (
        weights_of(model.decision, features, X, drawn, rows, knows=knows),
        KeptRows.of(X, labelled, positive, task.numbers[labelled], task.n_given, task.request.seed),
    )


def _model_of(
    task: TrainingTask, features: TableFeatures | MatrixFeatures, decision: DecisionState, fitted: Report
) -> Model:
    return Model(
        algorithm=task.spec.name,
        params=task.params,
        objective=task.objective.to_dict(),
        classes=task.target.pair,
        decision=decision,
        features=features,
        key=task.request.key,
        curve=None if fitted.curve is None else OperatingCurve.from_dict(vars(fitted.curve)),
    )


def _promised(
    fitted: Report, task: TrainingTask, test: Measures | None, unlabelled: DecidedUnlabelled | None
) -> dict[str, Any]:
    """What the model promises, with what the test rows add to that, and the status that goes with it."""
    before = fitted.promise
    if before is not None and fitted.positives_only is not None:
        told, promise = told_at(fitted.positives_only, fitted.threshold, task.objective, task.target.classes[1])
        reason = promise.sentence if fitted.status_reason == before.sentence else fitted.status_reason
        return {"promise": promise, "positives_only": told} | _ended(fitted.status, reason)
    if before is None or fitted.calibration is None:
        return _ended(*status_with(fitted.status, fitted.status_reason, fitted.abstain))
    promise = promise_of(
        task.objective,
        fitted.calibration,
        task.target.pair[1],
        is_proven=before.level == "proven",
        has_seen=fitted.labeled_split == "full",
        test=test,
        labelled=fitted.rows.labelled,
        certificate=task.spec.certificate(task.target.count(UNLABELLED)),
        unlabelled=task.target.count(UNLABELLED),
        called=None if unlabelled is None else unlabelled.called,
        abstained=fitted.abstain,
        test_abstained=fitted.test_abstain,
    )
    status, reason = fitted.status, fitted.status_reason
    if reason == before.sentence:
        status, reason = "met", ""
    if status == "met" and fitted.certificate is None:
        return {"promise": promise} | _ended(*status_with(*promised_status("met", reason, promise), fitted.abstain))
    return {"promise": promise} | _ended(status, reason)


def _ended(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "status_reason": reason}


def _refit(task: TrainingTask, parts: PartExecutor, watch: Stopwatch) -> TrainedModel:
    """Train on all rows, as if none had been held out to test on."""
    return _train_once(task.of_all_rows(), PartsOfRun(parts, REFITTING), watch)


def _measured_before(
    again: TrainedModel, measured: TrainedModel, task: TrainingTask, seconds: dict[str, float]
) -> TrainedModel:
    """The model trained again, with what the test rows said of the one before."""
    before, report = measured.report, again.report
    method = _measured_method(report, before)
    warnings = [*report.warnings, *warnings_of_test_rows(task, before.test), *_another_method(report, before, method)]
    report = replace(
        report,
        rows=replace(report.rows, test=before.rows.test),
        feedback=before.feedback,
        test=before.test,
        test_abstain=before.test_abstain,
        controls={
            name: replace(each, test=before.controls[name].test if name in before.controls else None)
            for name, each in report.controls.items()
        },
        refit=Refit(labelled=report.rows.labelled, measured=task.learned_labels, method=method),
        timings=seconds,
        warnings=list(dict.fromkeys(warnings)),
    )
    return replace(again, report=report)


def _measured_method(report: Report, before: Report) -> str | None:
    """The method that `auto` took for the model which the test rows measured, where it is another one."""
    if report.judge is None or before.judge is None or report.judge.returned == before.judge.returned:
        return None
    return before.judge.returned


def _another_method(report: Report, before: Report, method: str | None) -> list[str]:
    """Say that guard or judge decided otherwise with more labels than with those that the test rows left."""
    if method is not None and report.judge is not None:
        return [
            f"the test rows measured {method}: once they were learned, too, auto took {report.judge.returned}, which "
            "they have not measured"
        ]
    now, then = report.comparison, before.comparison
    if now is None or then is None or now.returned == then.returned:
        return []
    with_, without = "uses the unlabelled rows", "does not"
    said, was = (with_, without) if now.returned == "method" else ("does not use the unlabelled rows", "does")
    return [f"trained on all labelled rows the model {said}; the one that the test rows measured {was}"]


def _fit(
    task: TrainingTask,
    X: FloatArray | sparse.csr_array,
    parts: PartExecutor,
    callback: Callable[[float, Mapping[str, Any]], bool],
) -> Any:
    """The fitted estimator."""
    estimator = task.spec.load()(
        **task.params,
        objective=replace(task.objective, abstain=None),  # leaving rows undecided does not change the threshold
        positive=POSITIVE,
        unlabeled=UNLABELLED,
        random_state=task.request.seed % 2**32,
        callback=callback,
    )
    if task.spec.name == AUTO:
        estimator.favour(task.request.favoured)
    unmeasured = task.train_unmeasured
    if task.target.positives_only:
        unmeasured = unmeasured | (task.train_codes == NEGATIVE)
    with refused_by_estimators():
        estimator = estimator.within(task.request.max_seconds).share(parts)
        return estimator.fit(X, task.train_codes, task.train_weights, unmeasured=unmeasured, groups=task.train_groups)


def _learned_from(
    task: TrainingTask, features: TableFeatures | MatrixFeatures
) -> tuple[Table | MatrixData, list[dict[str, Any]], NDArray[np.int8]]:
    """What `telling_columns` looks at: the columns that are features, and the labels of all but the test rows."""
    codes = task.target.codes.copy()
    codes[~task.is_trained_on] = UNLABELLED
    return task.corrected.data, list(features.columns) if isinstance(features, TableFeatures) else [], codes
