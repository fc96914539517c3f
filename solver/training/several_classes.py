"""From a data set and a request to a model of several classes and its report.

`train` here is for whoever does not know how many classes there are: it trains two as `two_classes` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.algorithms import ALGORITHMS, AUTO
from solver.class_points import promise_of_classes
from solver.class_queue import ClassQueueInput, class_queue_of
from solver.classes_report import (
    ClassesFigures,
    ClassesQueue,
    DecidedByClass,
    MulticlassControl,
    MulticlassReport,
    MulticlassRows,
)
from solver.corrections import Corrections
from solver.estimators import OneVsOne, OneVsRest
from solver.features import MatrixData, MatrixFeatures, Table, TableFeatures
from solver.method_limits import auto_is_svm
from solver.multiclass import (
    ClassesDecision,
    ClassesReport,
    ClassObjective,
    ProblemScores,
    figures_of,
    number_of_problems,
)
from solver.multiclass.file import ClassesModel
from solver.parts import ALONE, PartExecutor
from solver.peak_memory import peak_memory_bytes
from solver.report import ModelColumn, Refit, few_of_a_kind
from solver.row_model import producer
from solver.training.fitted_features import encoder_of, fit_features
from solver.training.measuring import some_unlabelled, warnings_of_test_rows
from solver.training.refitting import train_twice
from solver.training.request import Progress, TrainingError, TrainingRequest, refused_by_estimators
from solver.training.result import TrainedClasses, TrainedModel
from solver.training.stopwatch import TRAINING_DONE, Stopwatch
from solver.training.target import UNLABELLED
from solver.training.task import TrainingTask, prepare
from solver.training.two_classes import train_two_classes
from solver.typing import FloatArray, IndexArray

_CONTROLLED: Final = 0.9
"""Share of the training that is done when the model is fitted, and its control is not."""
_PLAIN_SVM: Final = "plain_svm"


def train(
    data: Table | MatrixData,
    labels: NDArray[Any],
    request: TrainingRequest,
    *,
    corrections: Corrections | None = None,
    progress: Callable[[Progress], bool | None] | None = None,
    parts: PartExecutor = ALONE,
) -> TrainedModel | TrainedClasses:
    """Train a model of two classes, or of several where there are three labels or more and none is named as positive.

    Parameters and errors are those of `solver.training.train`.
    """
    watch = Stopwatch(progress)
    task = prepare(data, labels, request, corrections)
    if task.class_objective is None:
        return train_two_classes(task, parts, watch)
    return _train_classes(task, task.class_objective, watch)


def _train_classes(task: TrainingTask, objective: ClassObjective, watch: Stopwatch) -> TrainedClasses:
    """Train problems of two classes on the rows of a task, measure on its test rows, and learn from those too."""
    if not (task.request.refit and len(task.test_rows)):
        trained = _train_once(task, objective, watch)
    else:
        trained, _ = train_twice(
            task,
            watch,
            lambda part: _train_once(task, objective, part),
            lambda part: _refit(task, objective, part),
            lambda again, before, seconds: _measured_before(again, before, task, seconds),
        )
    watch.report(1.0)
    return trained


def _refit(task: TrainingTask, objective: ClassObjective, watch: Stopwatch) -> TrainedClasses | None:
    """The model of all rows; None where it was stopped before the end, as the one before is there."""
    try:
        return _train_once(task.of_all_rows(), objective, watch)
    except TrainingError:
        if not watch.stopped:
            raise
        return None


def _measured_before(
    again: TrainedClasses, measured: TrainedClasses, task: TrainingTask, seconds: dict[str, float]
) -> TrainedClasses:
    """The model trained again, with what the test rows said of the one before."""
    before, report = measured.report, again.report
    controls = {
        name: replace(each, test=before.controls[name].test) if name in before.controls else each
        for name, each in report.controls.items()
    }
    report = replace(
        report,
        rows=replace(report.rows, test=before.rows.test),
        feedback=before.feedback,
        test=before.test,
        controls=controls,
        refit=Refit(labelled=report.rows.labelled, measured=task.learned_labels),
        timings=seconds,
        warnings=list(dict.fromkeys([*report.warnings, *warnings_of_test_rows(task, None)])),
    )
    return replace(again, report=report)


def _train_once(task: TrainingTask, objective: ClassObjective, watch: Stopwatch) -> TrainedClasses:
    """Train on the rows that are to be trained on, and measure on the test rows, if there are any."""
    with watch.phase("features"):
        features, X, feature_warnings = fit_features(task, watch)
    with watch.phase("training"):
        estimator = _fit(task, X, _estimator(task), objective, _within(watch, 0.0, _CONTROLLED))
        control = _fit(task, X, _plain_svm(task), None, _within(watch, _CONTROLLED, 1.0))
    with watch.phase("evaluating"):
        watch.report(TRAINING_DONE)
        model = _model_of(task, objective, features, estimator)
        fitted: ClassesReport = estimator.report_
        some = some_unlabelled(task, in_a_hurry=watch.stopped)
        said = model.decision.says(model.scores(X[some]))
        costs = objective.cost_matrix(list(task.target.classes)) if objective.kind == "cost" else None
        # of one that was stopped the scores are 0, and figures would be those of no SVM
        # a model that is trained once more has the queue of that training
        has_queue = not watch.stopped and not (task.request.refit and len(task.test_rows))
        queue = _queue(task, model, X, some, estimator) if has_queue else None
        has_control = control.report_.status != "stopped"
        controls = {_PLAIN_SVM: (control.scores_, control.decision_)} if has_control else {}
        tests = _on_test(task, model, controls, costs)
        report = MulticlassReport(
            algorithm=task.spec.name,
            scheme=fitted.scheme,
            params=task.params,
            objective=objective.to_dict(),
            status=fitted.status,
            status_reason=fitted.status_reason,
            promise=promise_of_classes(fitted.figures, fitted.floors, objective),
            classes=list(task.target.classes),
            rows=_counted(task),
            calibration=fitted.figures,
            test=tests.get(""),
            controls=_controls(fitted, control.report_, tests, costs),
            floors=fitted.floors,
            log_loss=fitted.log_loss,
            share_log_loss=fitted.share_log_loss,
            methods=_methods(estimator),
            unlabelled=_decided(task, said),
            features=features.n_features,
            encoder=encoder_of(model),
            columns=[ModelColumn(**column) for column in model.columns],
            curves=fitted.curves,
            queue=queue,
            feedback=task.feedback(),
            excluded=task.excluded,
            timings=watch.seconds,
            peak_memory_bytes=peak_memory_bytes(),
            warnings=[
                *few_of_a_kind([*task.warnings(), *feature_warnings]),
                *few_of_a_kind(fitted.warnings),
                *warnings_of_test_rows(task, None),
                *_worthless(fitted),
            ],
        )
    left_out = estimator._left_out
    return TrainedClasses(model, report, None if left_out is None else left_out.chosen_by)


def _queue(
    task: TrainingTask, model: ClassesModel, X: FloatArray | sparse.csr_array, some: IndexArray, estimator: Any
) -> ClassesQueue | None:
    """Which rows to label next, and which labels look wrong; see `ClassQueueInput`."""
    left_out = estimator._left_out
    if left_out is None:
        return None
    codes = task.train_codes
    rows = np.flatnonzero(codes >= 0)[left_out.rows]
    return class_queue_of(ClassQueueInput(model, X, codes, task.numbers, some, rows, left_out.own, task.is_original))


def _within(watch: Stopwatch, begin: float, end: float) -> Callable[[float, Mapping[str, Any]], bool]:
    """A callback of estimators whose training is this share of the phase.

    A function, as scikit-learn copies what estimators hold, and functions are their own copies.
    """

    def callback(fraction: float, details: Mapping[str, Any]) -> bool:
        return watch.training(begin + (end - begin) * fraction, details)

    return callback


# -- estimators --------------------------------------------------------------------------------------------------------


def _estimator(task: TrainingTask) -> Any:
    """The estimator of a problem of two classes.

    `auto` is the SVM where it would try nothing else for any problem: then all are trained together.
    """
    params, codes, seconds = task.params, task.train_codes, task.request.max_seconds
    by_class = np.sort(np.bincount(codes[codes >= 0], minlength=len(task.target.classes)))
    of_pairs = task.request.scheme == "one_vs_one"
    fewest = int(by_class[:2].sum() if of_pairs else by_class.sum())
    problems = number_of_problems(len(by_class), task.request.scheme)
    unlabelled = int(np.count_nonzero(codes == UNLABELLED))
    is_plain = task.spec.name == AUTO and auto_is_svm(
        fewest, unlabelled, None if seconds is None else seconds / problems
    )
    spec = ALGORITHMS["svm"] if is_plain else task.spec
    taken = {each.name for each in spec.parameters}
    return spec.load()(
        **{each: value for each, value in params.items() if each in taken},
        objective=task.objective,
        random_state=task.request.seed % 2**32,
    ).within(seconds)


def _plain_svm(task: TrainingTask) -> Any:
    """The supervised SVM with the same kernel."""
    spec = ALGORITHMS["svm"]
    names = ("C", "kernel", "gamma", "degree", "coef0", "class_weight", "tol", "max_iter", "cache_size", "device")
    params = {name: task.params[name] for name in names if name in task.params}
    return spec.load()(**params, objective=task.objective, random_state=task.request.seed % 2**32)


def _fit(
    task: TrainingTask,
    X: FloatArray | sparse.csr_array,
    estimator: Any,
    objective: ClassObjective | None,
    callback: Callable[[float, Mapping[str, Any]], bool],
) -> OneVsOne | OneVsRest:
    """The fitted classifier of several classes; raises `TrainingError`."""
    estimator.set_params(callback=callback)
    scheme = OneVsOne if task.request.scheme == "one_vs_one" else OneVsRest
    labels = np.array([*task.target.classes, None], dtype=object)[task.train_codes]
    with refused_by_estimators():
        rows = task.train_weights, task.train_unmeasured, task.train_groups
        return scheme(estimator, objective=objective).fit(X, labels, *rows)  # type: ignore[no-any-return]


def _methods(estimator: OneVsOne | OneVsRest) -> dict[str, int]:
    """What decides how many of the problems, where that was chosen."""
    taken: Counter[str] = Counter()
    for each in estimator.estimators_:
        chosen = each.report_.judge or each.report_.comparison
        if chosen is not None:
            taken[chosen.returned] += 1
    return dict(taken)


def _model_of(
    task: TrainingTask,
    objective: ClassObjective,
    features: TableFeatures | MatrixFeatures,
    estimator: OneVsOne | OneVsRest,
) -> ClassesModel:
    return ClassesModel(
        algorithm=task.spec.name,
        params=task.params,
        objective=objective.to_dict(),
        classes=task.target.classes,
        scores=estimator.scores_,
        decision=estimator.decision_,
        features=features,
        key=task.request.key,
        producer=producer(),
    )


# -- what it reached ---------------------------------------------------------------------------------------------------


def _counted(task: TrainingTask) -> MulticlassRows:
    codes, corrected = task.target.codes, task.corrected
    return MulticlassRows(
        total=task.n_rows,
        labelled=int(np.count_nonzero(codes != UNLABELLED)),
        by_class=np.bincount(codes[codes >= 0], minlength=len(task.target.classes)).tolist(),
        unlabelled=task.target.count(UNLABELLED),
        test=len(task.test_rows),
        dropped=task.n_rows - corrected.data.n_rows,
        feedback=None if corrected.report is None else int(np.count_nonzero(corrected.changed)),
    )


def _on_test(
    task: TrainingTask,
    model: ClassesModel,
    controls: Mapping[str, tuple[ProblemScores, ClassesDecision]],
    costs: FloatArray | None,
) -> dict[str, ClassesFigures]:
    """Figures on the test rows, of the model (under `""`) and of each control; empty without test rows."""
    if not len(task.test_rows):
        return {}
    X, _ = model.feature_matrix(task.corrected.data.take(task.test_rows), refuse_unreadable=False)
    codes, labels = task.target.codes[task.test_rows].astype(np.intp), list(task.target.classes)
    deciders = {"": (model.scores, model.decision), **controls}
    made = {
        name: figures_of(codes, decision.says(scores(X)), labels, costs)
        for name, (scores, decision) in deciders.items()
    }
    largest = int(np.argmax(np.bincount(task.train_codes[task.train_codes >= 0])))
    return made | {"majority": figures_of(codes, np.full(len(codes), largest), labels, costs)}


def _controls(
    fitted: ClassesReport, plain: ClassesReport, tests: Mapping[str, ClassesFigures], costs: FloatArray | None
) -> dict[str, MulticlassControl]:
    """The largest class of every row, and the supervised SVM."""
    majority = fitted.controls.get("majority")
    control = plain.figures
    if control is not None and costs is not None:
        table = np.array(control.confusion)
        decided = table[:, :-1]
        control = replace(control, cost=float((decided * costs).sum() / max(1, decided.sum())))
    return {
        "majority": MulticlassControl(calibration=majority, test=tests.get("majority")),
        _PLAIN_SVM: MulticlassControl(calibration=control, test=tests.get(_PLAIN_SVM)),
    }


def _decided(task: TrainingTask, said: IndexArray) -> DecidedByClass | None:
    """What the model says of the unlabelled rows, some of which it was asked about."""
    if not len(said):
        return None
    return DecidedByClass(
        rows=int(np.count_nonzero(task.train_codes == UNLABELLED)),
        measured=len(said),
        said=np.bincount(said[said >= 0], minlength=len(task.target.classes)).tolist(),
        undecided=int(np.count_nonzero(said < 0)),
    )


def _worthless(fitted: ClassesReport) -> list[str]:
    """Say that the probabilities tell no more than the classes' shares."""
    if fitted.log_loss is None or fitted.share_log_loss is None or fitted.log_loss < fitted.share_log_loss:
        return []
    return [
        "on left-out rows the probabilities tell no more than the shares of the classes: the columns may not tell them "
        "apart, or there are too few labels"
    ]
