"""From a data set and a request to a model and an honest report."""

from __future__ import annotations

import math
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.abstention import abstained_on
from solver.algorithms import ALGORITHMS, AUTO, POSITIVES_ONLY, AlgorithmSpec, ParamError, Parameter, validate_params
from solver.arrays import BackendUnavailableError
from solver.choices import DEFAULT_SCHEME
from solver.classes_report import MulticlassReport
from solver.content_hashes import hashes_of_rows
from solver.corrections import Corrected, Corrections, Rules, apply_corrections
from solver.decision import DecisionState
from solver.evaluation import OperatingCurve, confusion, measures
from solver.explaining import MOST_WEIGHED, weights_of
from solver.features import (
    MISSING_POLICIES,
    Encoder,
    FeatureError,
    MatrixData,
    MatrixFeatures,
    MissingPolicy,
    Table,
    TableFeatures,
    TextOptions,
    missing_values,
)
from solver.kinds import identifier_warning
from solver.labelled_rows import CALLED_NEGATIVE, LEARNED, LabelledRows, fingerprints
from solver.labelling_queue import QueueInput, queue_of
from solver.labels import (
    all_but,
    counted,
    folded,
    folding,
    keep_labels,
    lone_negative,
    spelling_warning,
    unclear_labels,
)
from solver.model_file import AnyModel, Model
from solver.multiclass import MOST_CLASSES, ClassObjective, ClassObjectiveError, Scheme
from solver.nearest import KeptRows
from solver.operating_point import Objective, ObjectiveError
from solver.parts import ALONE, PartExecutor, PartsOfRun
from solver.peak_memory import peak_memory_bytes
from solver.positives_only import share_below, told_at
from solver.promise import promise_of, promised_status
from solver.repeated_rows import Cases, told_of_repeats
from solver.report import (
    Abstention,
    Classes,
    DecidedUnlabelled,
    ExcludedColumn,
    FeedbackReport,
    LabellingQueue,
    Measures,
    ModelColumn,
    Refit,
    Report,
    ReportedEncoder,
    RowCounts,
    SpreadScores,
    Weights,
    few_of_a_kind,
    json_ready,
)
from solver.retuning import abstention_of, status_with
from solver.telling import telling_columns
from solver.typing import BoolArray, FloatArray, IndexArray

__all__ = [
    "ALGORITHMS",
    "AUTO",
    "BINARY_LABELS",
    "POSITIVES_ONLY",
    "AlgorithmSpec",
    "Corrections",
    "ParamError",
    "Parameter",
    "Progress",
    "TestedRows",
    "TrainedModel",
    "TrainingError",
    "TrainingRequest",
    "many_labels",
    "share_below",
    "train",
    "validate_params",
]

MAX_LABEL_CHARACTERS: Final = 256
FEWEST_OF_A_CLASS: Final = 2
KEEP_OF_SEVERAL: Final = "labels are kept of two classes only: name one in `positive`, or blank the others yourself"
"""Labelled rows of each class that must stay for training."""
NO_ABSTAINING: Final = "`abstain` needs labelled rows of both classes, and no negative ones measure; leave it out"

_HURRIED_SECONDS: Final = 1.0
_HURRIED_ROWS: Final = 1024
"""What measuring on the test rows may take of a training that has to stop, and how many rows are taken at once."""

_DECIDED_ROWS: Final = 4096
"""Unlabelled rows that are decided on for the report."""
_SCORE_BARS: Final = 64
"""Parts that their scores are counted in."""
_OTHER_MIX: Final = 0.1
"""How far the shares of rows called positive may differ, labelled and unlabelled ones, without a warning."""

_AnyReport = TypeVar("_AnyReport", Report, MulticlassReport)
_IS_KEY: Final = "is the key, which names the rows"
_FEATURES_DONE: Final = 0.15
_FITTED: Final = 0.8
"""Share of the work on features that is done when they are fitted; then they are applied."""
_TRAINING_DONE: Final = 0.95
_MEASURED: Final = 0.5
"""Share of the call that is done when the test rows have measured a model and it is trained once more."""
_REFITTING: Final = "refitting"
"""Phase, and name of the run, in which the model is trained once more, on the test rows too."""
_POSITIVE: Final = 1
_NEGATIVE: Final = 0
_UNLABELLED: Final = -1
BINARY_LABELS: Final[tuple[dict[str, int], ...]] = ({"0": 0, "1": 1}, {"-1": 0, "1": 1}, {"-1": 0, "+1": 1})
"""Pairs of labels that need no `positive`."""
_PLAIN_POSITIVES: Final = ("1", "+1")


class TrainingError(Exception):
    """The data or the request are such that nothing can be trained; the user can mend it.

    Attributes
    ----------
    code : str
        Stable name of the reason, such as `"one_class"`.
    message : str
        What was wrong and what was expected.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Progress:
    """How far `train` is.

    Attributes
    ----------
    phase : str
        `features`, `training`, `evaluating` or `refitting`.
    fraction : float
        Share of the whole call that is done, 0 to 1; it never falls.
    details : dict
        JSON-ready news of the phase, such as the measures of a round that ended.
    """

    phase: str
    fraction: float
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingRequest:
    """What shall be trained.

    Attributes
    ----------
    algorithm : str, default "auto"
    params : dict
        Parameters of the algorithm, see `ALGORITHMS`; missing ones take their default.
    objective : dict, default F1
        See `solver.operating_point.Objective`; of several classes `solver.multiclass.ClassObjective`.
    positive : str, optional
        The label that precision, recall and costs speak of. Needed of two labels unless they are 0/1 or -1/+1. With
        more than two labels, all others together are the negative class; without it all are told apart.
    scheme : {"one_vs_one", "one_vs_rest"}, default "one_vs_one"
        How several classes become problems of two.
    unlabeled : sequence of str
        Labels that mark an unlabelled row, as a missing or blank one always does.
    negative : sequence of str
        All labels of the negative class, where they are known; any other one is then refused. Without it, words
        for a missing value, such as `NA`, and -1 beside 0 and 1 are refused as labels.
    fold : bool, default False
        Whether labels that differ in capitals or blanks only are one label.
    keep : int, optional
        How many labels shall be known, for experiments; the others are blanked, see `solver.labels.keep_labels`.
    keep_seed : int, default 0
        Seed of the choice of these.
    include, exclude : sequence of str
        The columns that may become features (default: all), and those that must not.
    kinds : mapping of str to str
        What columns of a table are, where the guess is not wanted, see `TableFeatures`.
    guessed : mapping of str to str
        What an upload took columns of text for, likewise.
    missing : MissingPolicy, default "indicate"
        What becomes of missing values.
    text : mapping of str to int
        How texts become terms, see `TextOptions`; missing entries take their default.
    text_weights : mapping of str to float
        See `TableFeatures`.
    encoder : Encoder, optional
        Makes vectors of texts, which stand beside their terms.
    encode_together : sequence of sequences of str
        See `TableFeatures`.
    keep_words : bool, default True
        Whether the report, and what explains predictions, may name words of the rows.
    identifiers : mapping of str to str
        Columns that number or name the rows, each with what shows it (the end of a sentence). They are left out,
        unless `include` or `kinds` names them.
    target : str, optional
        The column that the labels came from; it never becomes a feature.
    key : str, optional
        The column that names the rows; it never becomes a feature, and the model remembers it.
    test_fraction : float, default 0
        Share of the labelled rows of each class that is held out of everything and only measured on.
    refit : bool, default True
        Whether the model is trained once more after that, on the test rows too.
    seed : int, default 0
        At least 0.
    max_seconds : float, optional
        When the caller will stop the training: which engine `auto` takes depends on it.
    """

    algorithm: str = AUTO
    params: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=lambda: {"kind": "f1"})
    positive: str | None = None
    scheme: Scheme = DEFAULT_SCHEME
    unlabeled: Sequence[str] = ()
    negative: Sequence[str] = ()
    fold: bool = False
    keep: int | None = None
    keep_seed: int = 0
    include: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    guessed: Mapping[str, str] = field(default_factory=dict)
    missing: MissingPolicy = "indicate"
    text: Mapping[str, int] = field(default_factory=dict)
    encoder: Encoder | None = None
    text_weights: Mapping[str, float] = field(default_factory=dict)
    encode_together: Sequence[Sequence[str]] = ()
    keep_words: bool = True
    identifiers: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    key: str | None = None
    test_fraction: float = 0.0
    refit: bool = True
    seed: int = 0
    max_seconds: float | None = None


@dataclass(frozen=True)
class TestedRows:
    """The test rows that are like no row that was learned, as the model saw them that they measured.

    Attributes
    ----------
    rows : int array
        In the data set, ascending.
    prints : uint64 array
        Their fingerprints, as the model that is kept sees them.
    truth : bool array
        Which are positive.
    scores : float64 array
    report : Report
        Of that model.
    """

    rows: IndexArray
    prints: NDArray[np.uint64]
    truth: BoolArray
    scores: FloatArray
    report: Report


@dataclass(frozen=True)
class TrainedModel:
    """Result of `train`.

    Attributes
    ----------
    model : Model
    report : Report
    labelled : LabelledRows or None
        The rows that had a label. None for a training that was stopped.
    tested : TestedRows or None
        None without test rows, and for a training that was stopped.
    kept : KeptRows or None
        Labelled rows for others to be compared with. None for a training that was stopped.
    """

    model: Model
    report: Report
    labelled: LabelledRows | None = None
    tested: TestedRows | None = None
    kept: KeptRows | None = None


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
    watch = _Stopwatch(progress)
    task = _prepare(data, labels, request, corrections)
    if task.class_objective is not None:
        said = f"there are {len(task.target.classes)} labels: say which one is positive"
        raise TrainingError("positive_needed", f"{said}, or train them with solver.class_training")
    return _train_prepared(task, parts, watch)


def _train_prepared(task: _Task, parts: PartExecutor, watch: _Stopwatch) -> TrainedModel:
    """Train two classes on what was read and checked."""
    request = task.request
    if not (request.refit and len(task.test_rows)):
        trained = measured = _train_once(task, parts, watch)
    elif parts.is_sought_in(_REFITTING):
        trained = measured = _refit(task, parts, watch)
    else:
        # What is found first is kept where the training has to stop before the end: it was measured.
        began = time.monotonic()
        trained = measured = _train_once(task, parts, watch.part(0.0, _MEASURED))
        seconds = time.monotonic() - began
        again = None
        if not watch.stopped and (request.max_seconds is None or 2 * seconds < request.max_seconds):
            with watch.phase(_REFITTING):
                again = _refit(task, parts, watch.part(_MEASURED, 1.0, within=_REFITTING))
        if again is None or watch.stopped:
            trained = replace(trained, report=_not_refitted(trained.report, stopped=watch.stopped))
        else:
            trained = _measured_before(again, trained, task, watch.seconds)
    if not watch.stopped:
        trained = _with_rows(trained, measured, task)
    watch.report(1.0)
    return trained


def _with_rows(trained: TrainedModel, measured: TrainedModel, task: _Task) -> TrainedModel:
    """The model with what later ones need to be compared with it: its labelled rows, and what the test rows said."""
    data, codes, test_rows = task.corrected.data, task.target.codes, task.test_rows
    takes_part = task.is_trained_on
    takes_part[test_rows] = True
    labelled = np.flatnonzero((codes != _UNLABELLED) & takes_part)
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
    truth = codes[test_rows] == _POSITIVE
    return replace(
        trained,
        labelled=kept,
        tested=TestedRows(rows[apart], prints[places[apart]], truth[apart], tested[apart], measured.report),
    )


def _train_once(task: _Task, parts: PartExecutor, watch: _Stopwatch) -> TrainedModel:
    """Train on the rows that are to be trained on, and measure on the test rows, if there are any."""
    request = task.request
    with watch.phase("features"):
        features, X, feature_warnings = _features_of(task, watch)
    with watch.phase("training"):
        estimator = _fit(task, X, parts, watch.training)
    with watch.phase("evaluating"):
        watch.report(_TRAINING_DONE)
        fitted: Report = estimator.report_
        decision: DecisionState = estimator.decision_state()
        told = replace(fitted, algorithm=task.spec.name, classes=Classes(*task.target.pair), rows=task.counted())
        chosen = abstention_of(told, task.objective, decision.threshold)
        decision = replace(decision, band=None if chosen is None else chosen.band)
        model = _model_of(task, features, decision, fitted)
        some = _some_unlabelled(task, watch.stopped)
        scores = model.decision.decision_function(X[some])
        unlabelled = _decided_unlabelled(model, scores, task)
        # A model that is trained once more has the queue of that training.
        has_queue = not watch.stopped and not (request.refit and len(task.test_rows))
        queue = _queue(task, decision, X, some, scores, estimator.left_out_scores_) if has_queue else None
        weights, kept = _explained(task, model, features, X) if has_queue else (None, None)
        column_warnings = [] if watch.stopped else telling_columns(*_learned_from(task, features), request.seed)
        measured, said_on_test = _measure_on_test(
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
        encoder=_encoder_of(model),
        columns=[ModelColumn(**column) for column in model.columns],
        excluded=task.excluded,
        timings=watch.seconds,
        peak_memory_bytes=peak_memory_bytes(),
        warnings=[
            *few_of_a_kind([*task.warnings(), *feature_warnings, *column_warnings]),
            *fitted.warnings,
            *_another_mix(unlabelled, fitted.calibration, task.objective, chosen),
            *_test_warnings(task, measured.get("")),
            *([] if measured else _one_sided(fitted.calibration, task.target.pair)),
        ],
    )
    return TrainedModel(model, report, kept=kept)


def _features_of(
    task: _Task, watch: _Stopwatch
) -> tuple[TableFeatures | MatrixFeatures, FloatArray | sparse.csr_array, list[str]]:
    """The fitted features, the matrix of the rows that are trained on, and warnings; the kernel is chosen by them."""
    watch.report(0.0)
    features, X, warnings = _fit_features(task, watch.features)
    if task.params["kernel"] == AUTO:
        # Measured on mails and newsgroups: texts are told apart as well or better by a plane, and sooner.
        has_text = isinstance(features, TableFeatures) and features.has_text
        task.params["kernel"] = "linear" if has_text else "rbf"
    watch.report(_FEATURES_DONE, features=features.n_features)
    return features, X, [*warnings, *told_of_repeats(X, task.train_codes, task.target.classes)]


def _queue(
    task: _Task,
    decision: DecisionState,
    X: FloatArray | sparse.csr_array,
    some: IndexArray,
    scores: FloatArray,
    left_out: FloatArray,
) -> LabellingQueue:
    """Which rows to label next, and which labels look wrong; see `QueueInput`."""
    return queue_of(QueueInput(decision, X, task.train_codes, task.numbers, some, scores, left_out, task.is_original))


def _explained(
    task: _Task, model: Model, features: TableFeatures | MatrixFeatures, X: FloatArray | sparse.csr_array
) -> tuple[Weights | None, KeptRows]:
    """What weighs most in the scores of the labelled rows, and labelled rows for others to be compared with."""
    labelled = np.flatnonzero(task.train_codes != _UNLABELLED)
    drawn = labelled[np.random.default_rng(task.request.seed).permutation(len(labelled))[:MOST_WEIGHED]]
    rows = task.corrected.data.take(task.train_rows[drawn])
    knows = None if task.target.positives_only else model.curve is not None and model.curve.is_better_than_chance
    positive = task.train_codes[labelled] == _POSITIVE
    return (
        weights_of(model.decision, features, X, drawn, rows, knows=knows),
        KeptRows.of(X, labelled, positive, task.numbers[labelled], task.n_given, task.request.seed),
    )


def _model_of(task: _Task, features: TableFeatures | MatrixFeatures, decision: DecisionState, fitted: Report) -> Model:
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


def _encoder_of(model: AnyModel) -> ReportedEncoder | None:
    identity = model.encoder
    if identity is None or not isinstance(model.features, TableFeatures):
        return None
    return ReportedEncoder(identity.model, identity.dimensions, model.features.encoded.columns)


def _promised(
    fitted: Report, task: _Task, test: Measures | None, unlabelled: DecidedUnlabelled | None
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
        certificate=task.spec.certificate(task.target.count(_UNLABELLED)),
        unlabelled=task.target.count(_UNLABELLED),
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


def _refit(task: _Task, parts: PartExecutor, watch: _Stopwatch) -> TrainedModel:
    """Train on all rows, as if none had been held out to test on."""
    return _train_once(_of_all_rows(task), PartsOfRun(parts, _REFITTING), watch)


def _of_all_rows(task: _Task) -> _Task:
    """The same with the test rows among those that are trained on."""
    none = np.empty(0, dtype=task.test_rows.dtype)
    every = np.arange(len(task.target.codes), dtype=task.train_rows.dtype)
    request = replace(task.request, test_fraction=0.0)
    return replace(task, request=request, params={**task.params}, test_rows=none, train_rows=every)


def _not_refitted(report: _AnyReport, *, stopped: bool) -> _AnyReport:
    """That of the model that the test rows measured: there was no time for another, or the training was stopped."""
    said = "there was no time to train the model once more, on the test rows too"
    if stopped:
        said = "the training was stopped before the model had learned from the test rows too"
        report = replace(report, status="stopped", status_reason=f"{said[0].upper()}{said[1:]}.")
    return replace(report, warnings=[*report.warnings, said])


def _measured_before(
    again: TrainedModel, measured: TrainedModel, task: _Task, seconds: dict[str, float]
) -> TrainedModel:
    """The model trained again, with what the test rows said of the one before."""
    before, report = measured.report, again.report
    method = _measured_method(report, before)
    warnings = [*report.warnings, *_test_warnings(task, before.test), *_another_method(report, before, method)]
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


@dataclass(frozen=True)
class _Task:
    """What is trained: rows, labels and request, read and checked.

    Attributes
    ----------
    request : TrainingRequest
        With what is left out among its `exclude`, and one spelling of each label.
    corrected : Corrected
        The rows that take part.
    n_rows : int
        Those that there were before incomplete ones were dropped.
    dropped : list of str
        What to say of those.
    identifiers : dict of str to str
        Columns that the request does not name, each with what shows that it numbers or names the rows.
    target, spec, params, objective
        `params` lacks nothing but the choice of a kernel, where that is "auto".
    class_objective : ClassObjective or None
        None for two classes; with it, `objective` is that of each problem of two.
    test_rows, train_rows : int arrays
        Ascending. Copies of test rows are in neither of them.
    complete : int array or None
        Which rows of all take part; None where all do.
    n_given : int
        Rows of the data set; those behind them were added.
    """

    request: TrainingRequest
    corrected: Corrected
    n_rows: int
    dropped: list[str]
    identifiers: dict[str, str]
    target: _Target
    spec: AlgorithmSpec
    params: dict[str, Any]
    objective: Objective
    class_objective: ClassObjective | None
    test_rows: IndexArray
    train_rows: IndexArray
    complete: IndexArray | None
    n_given: int

    @property
    def numbers(self) -> IndexArray:
        """Of the rows that are trained on, in the data set; those that were added go on from there."""
        return self.train_rows if self.complete is None else self.complete[self.train_rows]

    @property
    def is_original(self) -> BoolArray:
        """Which of the rows that are trained on are rows of the data set whose label nobody has looked at since."""
        return (self.numbers < self.n_given) & ~self.corrected.looked_at[self.train_rows]

    @property
    def train_codes(self) -> NDArray[np.int8]:
        """Codes of the labels of the rows that are trained on."""
        return self.target.codes[self.train_rows]

    @property
    def train_data(self) -> Table | MatrixData:
        """The rows that are trained on."""
        return self.corrected.data.take(self.train_rows) if len(self.test_rows) else self.corrected.data

    @property
    def is_trained_on(self) -> BoolArray:
        """Which of the rows that take part are trained on before the test rows are."""
        marked = np.zeros(len(self.target.codes), dtype=bool)
        marked[self.train_rows] = True
        return marked

    @property
    def learned_labels(self) -> int:
        """How many labels are learned before those of the test rows are."""
        return int(np.count_nonzero(self.train_codes != _UNLABELLED))

    @property
    def excluded(self) -> list[ExcludedColumn]:
        """The columns that were left out without being asked for."""
        key = {} if self.request.key is None else {self.request.key: _IS_KEY}
        return [ExcludedColumn(name, reason) for name, reason in (self.identifiers | key).items()]

    def counted(self) -> RowCounts:
        """How many rows there are of each kind."""
        target = self.target
        return RowCounts(
            total=self.n_rows,
            labelled=int(np.count_nonzero(target.codes != _UNLABELLED)),
            positive=target.count(_POSITIVE),
            negative=target.count(_NEGATIVE),
            unlabelled=target.count(_UNLABELLED),
            test=len(self.test_rows),
            dropped=self.n_rows - self.corrected.data.n_rows,
            feedback=None if self.corrected.report is None else int(np.count_nonzero(self.corrected.changed)),
        )

    def feedback(self) -> FeedbackReport | None:
        """What became of the corrected rows; None for a training without feedback."""
        made = self.corrected.report
        held_out = int(np.count_nonzero(self.corrected.changed[self.test_rows]))
        return None if made is None else replace(made, held_out=held_out)

    def warnings(self) -> list[str]:
        """What was odd before anything was learned."""
        refused = [] if self.corrected.report is None else self.corrected.report.refused
        return [
            *self.dropped,
            *(identifier_warning(name, reason) for name, reason in self.identifiers.items()),
            *(f"feedback: {part.rows} row(s) are not used: {part.reason}" for part in refused),
            *self.target.warnings,
            *_plan_warnings(self.target, self.spec),
            *_negatives_warnings(self.target, self.spec, self.params),
        ]


def _prepare(
    data: Table | MatrixData, labels: NDArray[Any], request: TrainingRequest, corrections: Corrections | None
) -> _Task:
    """Read and check what is to be trained; raises `TrainingError`."""
    if len(labels) != data.n_rows:
        raise ValueError(f"{data.n_rows} rows but {len(labels)} labels")
    identifiers = _identifiers(request)
    key = [] if request.key is None else [request.key]
    request = replace(request, exclude=[*request.exclude, *identifiers, *key])
    if request.fold:
        labels, request, corrections = _fold(labels, request, corrections)
    unclear = unclear_labels(counted(labels), request.positive, request.unlabeled, request.negative)
    if unclear is not None:
        raise TrainingError("unclear_labels", unclear)
    known_labels = labels
    if request.keep is not None:
        labels = _keep(labels, request, request.keep)
    corrected = _correct(data, labels, request, corrections, known_labels)
    n_rows = corrected.data.n_rows
    before = np.append(labels, np.full(n_rows - len(labels), None))
    complete, dropped = _complete(corrected.data, request)
    if complete is not None:
        corrected, before = corrected.take(complete), before[complete]
    target = _read_labels(corrected.labels, corrected.unmeasured, request)
    return _Task(
        request, corrected, n_rows, dropped, identifiers, target,
        *_plan(request, target), *_split(target, corrected, before, request), complete, data.n_rows,
    )  # fmt: skip


def _fit(
    task: _Task,
    X: FloatArray | sparse.csr_array,
    parts: PartExecutor,
    callback: Callable[[float, Mapping[str, Any]], bool],
) -> Any:
    """The fitted estimator."""
    estimator = task.spec.load()(
        **task.params,
        objective=replace(task.objective, abstain=None),  # the threshold is the same without it
        positive=_POSITIVE,
        unlabeled=_UNLABELLED,
        random_state=task.request.seed % 2**32,
        callback=callback,
    )
    unmeasured = task.corrected.unmeasured[task.train_rows]
    if task.target.positives_only:
        unmeasured = unmeasured | (task.train_codes == _NEGATIVE)
    weights = None if task.corrected.weights is None else task.corrected.weights[task.train_rows]
    try:
        estimator = estimator.within(task.request.max_seconds).share(parts)
        return estimator.fit(X, task.train_codes, weights, unmeasured=unmeasured)
    except ValueError as error:  # the estimators' word for input that they cannot learn from
        raise TrainingError("not_trainable", str(error)) from error
    except BackendUnavailableError as error:
        raise TrainingError("device", str(error)) from error


# -- corrections -------------------------------------------------------------------------------------------------------


def _correct(
    data: Table | MatrixData,
    labels: NDArray[Any],
    request: TrainingRequest,
    corrections: Corrections | None,
    known_labels: NDArray[Any],
) -> Corrected:
    """The rows with what was corrected since; as they are if nothing was."""
    if corrections is None:
        unchanged = np.zeros(len(labels), dtype=bool)
        return Corrected(data, labels, unchanged, unchanged, unchanged, None)
    rules = Rules(
        target=request.target,
        include=None if request.include is None else frozenset(request.include),
        exclude=frozenset(request.exclude),
        positive=request.positive,
        unlabeled=request.unlabeled,
        missing=request.missing,
        negative=request.negative,
    )
    return apply_corrections(data, labels, corrections, rules, known_labels)


def _identifiers(request: TrainingRequest) -> dict[str, str]:
    """The identifiers that the request does not name."""
    spoken_of = {request.target, request.key, *(request.include or ()), *request.exclude, *request.kinds}
    return {name: reason for name, reason in request.identifiers.items() if name not in spoken_of}


# -- labels ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    """Encoded labels: the code of each row's class, -1 for unlabelled, the names of the classes, and what was odd.

    Of two classes the negative one comes first. Where `positives_only`, too few negative rows measure for a threshold
    to be chosen on them.
    """

    codes: NDArray[np.int8]
    classes: tuple[str, ...]
    warnings: list[str]
    positives_only: bool = False

    @property
    def is_of_several(self) -> bool:
        """Whether there are more classes than two."""
        return len(self.classes) > 2

    @property
    def pair(self) -> tuple[str, str]:
        """The negative and the positive class of two."""
        negative, positive = self.classes
        return negative, positive

    def count(self, code: int) -> int:
        return int(np.count_nonzero(self.codes == code))

    def code_of(self, label: str) -> int:
        """The class of a label; of two classes every other label than the positive one is negative."""
        if self.is_of_several:  # a class of which corrections have left no row stands nowhere
            return self.classes.index(label) if label in self.classes else 0
        return _POSITIVE if label == self.pair[1] else _NEGATIVE


def _fold(
    labels: NDArray[Any], request: TrainingRequest, corrections: Corrections | None
) -> tuple[NDArray[Any], TrainingRequest, Corrections | None]:
    """The same with one spelling for labels that differ in capitals or blanks only."""
    wanted = [*request.negative, *request.unlabeled, *([] if request.positive is None else [request.positive])]
    chosen = folding(counted(labels), wanted)

    def spelt(label: str | None) -> str | None:
        return None if label is None else chosen.get(folded(label), label)

    known = {label: spelt(label) for label in set(labels.tolist())}
    same = np.array([*(known[label] for label in labels.tolist()), None], dtype=object)[:-1]
    request = replace(
        request,
        positive=spelt(request.positive),
        unlabeled=[chosen[folded(label)] for label in request.unlabeled],
        negative=[chosen[folded(label)] for label in request.negative],
    )
    if corrections is not None:
        corrections = replace(corrections, labels=[spelt(label) or label for label in corrections.labels])
    return same, request, corrections


def _keep(labels: NDArray[Any], request: TrainingRequest, keep: int) -> NDArray[Any]:
    """The labels of so many rows; the others are blanked."""
    values = labels.tolist()
    unlabelled = {None, *request.unlabeled}
    codes, classes, _ = _classes(
        sorted(label for label in set(values) - unlabelled if not _is_blank(label)), request.positive
    )
    if len(classes) > 2:
        raise TrainingError("keep", KEEP_OF_SEVERAL)
    coded = np.fromiter((codes.get(value, _UNLABELLED) for value in values), np.int8, len(values))
    try:
        kept = keep_labels(coded == _POSITIVE, coded != _UNLABELLED, keep, request.keep_seed)
    except ValueError as error:
        raise TrainingError("keep", str(error)) from error
    known = labels.copy()
    known[~kept] = None
    return known


def _read_labels(labels: NDArray[Any], unmeasured: BoolArray, request: TrainingRequest) -> _Target:
    values = labels.tolist()
    unlabelled = {None, *request.unlabeled}
    found = sorted(label for label in set(values) - unlabelled if not _is_blank(label))
    for label in found:
        if len(label) > MAX_LABEL_CHARACTERS:
            raise TrainingError("label_text", f"a label has {len(label)} characters; at most 256 are allowed")
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in label):
            raise TrainingError("label_text", f"a label holds a control character: {label!a}")
    classes: tuple[str, ...]
    if len(found) == 1:
        codes_by_label, classes, warnings = _one_class(found[0], values, request)
    else:
        codes_by_label, classes, warnings = _classes(found, request.positive)
    if request.negative:  # then the request names them all
        warnings = []
    if (said := spelling_warning(found)) is not None:
        warnings = [*warnings, said]
    codes = np.fromiter((codes_by_label.get(value, _UNLABELLED) for value in values), np.int8, len(values))
    target = _Target(codes, classes, warnings)
    few = {name: int(np.count_nonzero(codes[~unmeasured] == code)) for code, name in enumerate(classes)}
    alone = len(classes) == 2 and may_lack_negatives(request.algorithm) and target.count(_UNLABELLED) > 0
    if alone and few[classes[0]] < FEWEST_OF_A_CLASS:
        target, few = replace(target, positives_only=True), {classes[1]: few[classes[1]]}
    too_few = too_few_labelled(few, " besides feedback" if unmeasured.any() else "")
    if too_few is not None:
        raise TrainingError("too_few_labelled", too_few)
    return target


def may_lack_negatives(algorithm: str) -> bool:
    """Whether an algorithm can learn from positive and unlabelled rows alone."""
    return algorithm in ALGORITHMS and not ALGORITHMS[algorithm].needs_negatives


def no_unlabelled(algorithm: str) -> str:
    """Say that there is nothing to learn from without labels."""
    return f"{algorithm} learns from unlabelled rows, and there are none; use svm"


def too_few_labelled(counts: Mapping[str, int], besides: str = "") -> str | None:
    """What to say where a class has too few labelled rows to be learned; `counts` are those of each class."""
    if min(counts.values()) >= FEWEST_OF_A_CLASS:
        return None
    few = counts if len(counts) <= 2 else {name: n for name, n in counts.items() if n < FEWEST_OF_A_CLASS}
    counted = _listed([f"{n} of {name!r}" for name, n in few.items()])
    if len(counts) == 1:
        return f"need at least {FEWEST_OF_A_CLASS} labelled positive rows{besides}, got {counted}"
    return f"need at least {FEWEST_OF_A_CLASS} labelled rows of each class{besides}, got {counted}"


def _is_blank(label: Any) -> bool:
    if not isinstance(label, str):
        raise TypeError(f"labels must be str or None, got {type(label).__name__}")
    return not label.strip()


def _classes(found: list[str], positive: str | None) -> tuple[dict[str, int], tuple[str, ...], list[str]]:
    """Code of each label, the names of the classes, and warnings."""
    if not found:
        raise TrainingError("no_labels", "no row has a label")
    if positive is not None and positive not in found:
        raise TrainingError("unknown_positive", f"positive is {positive!r}, but the labels are {_quoted(found)}")
    if positive is None:
        for codes in BINARY_LABELS:
            if set(found) == codes.keys():
                negative, positive = codes
                return codes, (negative, positive), []
        if len(found) > 2:
            too_many = many_classes(len(found))
            if too_many is not None:
                raise TrainingError("many_classes", too_many)
            return {label: code for code, label in enumerate(found)}, tuple(found), []
        raise TrainingError(
            "positive_needed",
            f"the labels are {_quoted(found)}: say which one is positive; only 0/1 and -1/+1 need no telling",
        )
    rest = [label for label in found if label != positive]
    codes = {label: _POSITIVE if label == positive else _NEGATIVE for label in found}
    if len(rest) == 1:
        return codes, (rest[0], positive), []
    return codes, (all_but(positive), positive), [many_labels(positive, rest)]


def _one_class(
    label: str, values: Sequence[str | None], request: TrainingRequest
) -> tuple[dict[str, int], tuple[str, str], list[str]]:
    """Code of the only label, the class names, and no warnings; raises `TrainingError` if nothing can be learned."""
    unlabelled = sum(value != label for value in values)
    wrong = one_class(label, request.positive, request.algorithm, unlabelled)
    if wrong is not None:
        raise TrainingError("one_class", wrong)
    return {label: _POSITIVE}, (lone_negative(label, request.negative), label), []


def one_class(label: str, positive: str | None, algorithm: str, unlabelled: int | None) -> str | None:
    """Say why nothing can be learned from labelled rows that all have this label; None if something can.

    `unlabelled` is the number of the other rows, None where it is not known.
    """
    said = f"all labelled rows have the label {label!r}"
    if positive is None and label not in _PLAIN_POSITIVES:
        return f"{said}; if they are the positive class, name it in `positive`; else label rows of another class, too"
    if positive not in (None, label):
        return f"{said}, and positive is {positive!r}; label some rows that are, too"
    if unlabelled == 0:
        return f"{said}, and no row is without a label; add rows without a label, or rows of another class"
    if not may_lack_negatives(algorithm):
        able = ", ".join(name for name in ALGORITHMS if may_lack_negatives(name))
        return f"{said}, and {algorithm} needs two classes; {able} learn from positive and unlabelled rows alone"
    return None


def many_labels(positive: str, others: Sequence[str]) -> str:
    """What to say where more than one label is there beside the positive one."""
    return (
        f"{len(others) + 1} different labels: {positive!r} is told from all others together ({_quoted(others)}); if "
        "one of them means 'not known', list it in `unlabeled`"
    )


def many_classes(count: int) -> str | None:
    """What to say of more classes than can be told apart."""
    if count <= MOST_CLASSES:
        return None
    return (
        f"{count} different labels: at most {MOST_CLASSES} classes are told apart; name one in `positive`, merge some, "
        "or list those that mean 'not known' in `unlabeled`"
    )


def _quoted(labels: Sequence[str]) -> str:
    return _listed(list(map(repr, labels)))


def _listed(texts: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


# -- plan --------------------------------------------------------------------------------------------------------------


def _plan(
    request: TrainingRequest, target: _Target
) -> tuple[AlgorithmSpec, dict[str, Any], Objective, ClassObjective | None]:
    some_unlabelled = target.count(_UNLABELLED) > 0
    name = request.algorithm
    try:
        params = validate_params(name, request.params)
        objective, class_objective = _objectives(request, target)
    except ParamError as error:
        raise TrainingError("params", str(error)) from error
    except (ObjectiveError, ClassObjectiveError) as error:
        raise TrainingError("objective", str(error)) from error
    spec = ALGORITHMS[name]
    if spec.needs_unlabelled and not some_unlabelled:
        raise TrainingError("no_unlabelled", no_unlabelled(name))
    if target.positives_only and objective.abstain is not None:
        raise TrainingError("objective", NO_ABSTAINING)
    if class_objective is not None and params["labeled_split"] != "xfit":
        raise TrainingError("params", left_out_needed(params["labeled_split"]))
    return spec, params, objective, class_objective


def left_out_needed(split: str) -> str:
    """Say that several classes are decided by scores of rows that were left out."""
    return f"labeled_split {split!r} is for two classes: several are told apart by scores of left-out rows, 'xfit'"


def _objectives(request: TrainingRequest, target: _Target) -> tuple[Objective, ClassObjective | None]:
    """That of two classes, and where there are more theirs: each problem of two then has F1."""
    if not target.is_of_several:
        return Objective.parse(request.objective), None
    objective = ClassObjective.parse(request.objective)
    objective.check_classes(list(target.classes))
    return Objective("f1"), objective


def _split(
    target: _Target, corrected: Corrected, before: NDArray[Any], request: TrainingRequest
) -> tuple[IndexArray, IndexArray]:
    """Test rows and all other rows, both ascending: from each class the asked share, as far as enough stay.

    Of rows that are the same as they were read one is drawn at most; the others are neither tested nor trained on then.

    What corrections have relabelled is drawn by the labels `before`: the test rows are then those of a training without
    them, and what both measured can be compared. Rows that have a first label by chance are drawn apart, likewise.
    """
    if not 0 <= request.test_fraction < 1:
        raise TrainingError("test_fraction", "test_fraction must be at least 0 and below 1")
    if target.positives_only:  # left-out rows measure it
        return np.empty(0, dtype=np.intp), np.arange(len(target.codes))
    measurable = ~corrected.unmeasured
    as_before = target.codes.copy()
    moved = np.flatnonzero(corrected.looked_at & measurable)
    as_before[moved] = [target.code_of(label) for label in before[moved].tolist()]
    by_chance = corrected.changed & ~corrected.looked_at & measurable
    labelled = np.flatnonzero(target.codes != _UNLABELLED)
    cases = _cases(labelled, as_before, measurable, by_chance, corrected, request)
    drawable = measurable.copy()
    drawable[labelled[~cases.stands]] = False
    held_out = _drawn(as_before, drawable & ~by_chance, request) | _drawn(as_before, by_chance & drawable, request)
    if _stay_too_few(target, drawable & ~held_out):
        held_out = _drawn(target.codes, drawable, request)
    aside = np.zeros(len(held_out), dtype=bool)
    if held_out.any():
        aside[labelled] = cases.same_as(held_out[labelled])
    return np.flatnonzero(held_out), np.flatnonzero(~(held_out | aside))


def _cases(
    labelled: IndexArray,
    codes: NDArray[np.int8],
    measurable: BoolArray,
    by_chance: BoolArray,
    corrected: Corrected,
    request: TrainingRequest,
) -> Cases:
    """Which labelled rows are the same as they were read; those that chance added stand for no others."""
    if request.test_fraction == 0:
        return Cases(np.arange(len(labelled)), np.arange(len(labelled)))
    exclude = [*request.exclude, *([] if request.target is None else [request.target])]
    hashes = hashes_of_rows(corrected.data.take(labelled), request.include, exclude)
    # the lot of a row does not depend on which other rows have labels, nor on rows that were added
    lot = np.random.default_rng(request.seed).random(len(codes))
    preference = np.where(measurable, 2.0 - by_chance, 0.0) + lot
    return Cases.of(hashes, codes[labelled], preference=preference[labelled])


def _stay_too_few(target: _Target, stay: BoolArray) -> bool:
    """Whether these rows are too few of a class to train on."""
    counts = [np.count_nonzero(target.codes[stay] == code) for code in range(len(target.classes))]
    return bool(min(counts) < FEWEST_OF_A_CLASS)


def _drawn(codes: NDArray[np.int8], measurable: BoolArray, request: TrainingRequest) -> BoolArray:
    """Which rows are drawn to test on."""
    rng = np.random.default_rng(request.seed)
    held_out = np.zeros(len(codes), dtype=bool)
    for code in range(int(codes.max(initial=_POSITIVE)) + 1):
        rows = rng.permutation(np.flatnonzero((codes == code) & measurable))
        wanted = math.floor(request.test_fraction * len(rows) + 0.5)
        held_out[rows[: max(0, min(wanted, len(rows) - FEWEST_OF_A_CLASS))]] = True
    return held_out


def _plan_warnings(target: _Target, spec: AlgorithmSpec) -> list[str]:
    n_unlabelled = target.count(_UNLABELLED)
    if not n_unlabelled or spec.needs_unlabelled or spec.name == AUTO:
        return []
    return [
        f"{spec.name} does not learn from the {n_unlabelled} unlabelled rows; auto tries methods that do, and takes "
        "one where it is shown to be better"
    ]


def _negatives_warnings(target: _Target, spec: AlgorithmSpec, params: Mapping[str, Any]) -> list[str]:
    """Say what becomes of negative rows that are too few to measure, and of a share that enough of them make idle."""
    negatives = target.count(_NEGATIVE)
    if not target.positives_only:
        if spec.needs_negatives or params.get("positive_share") is None:
            return []
        return [f"positive_share is of no effect: {negatives} negative rows are labelled, and they measure"]
    if not negatives:
        return []
    learned = "it is learned" if negatives == 1 else "they are learned"
    if spec.name not in (AUTO, POSITIVES_ONLY):
        learned = f"{spec.name} leaves them out"
    return [
        f"{negatives} negative row(s) are labelled, too few of them drawn by chance to measure: {learned}; the "
        f"threshold still rests on positive and unlabelled rows, until {FEWEST_OF_A_CLASS} that chance has drawn (of "
        "an audit, say) have a label"
    ]


def _test_warnings(task: _Task, measured: Measures | None) -> list[str]:
    """What is odd about the test rows, or about what was measured on them."""
    if task.request.test_fraction == 0 or task.target.positives_only:
        return []
    target, rows = task.target, task.test_rows
    warnings = [
        f"too few labelled rows of {name!r}: the test rows hold none"
        for code, name in enumerate(target.classes)
        if not np.any(target.codes[rows] == code)
    ]
    if measured is not None and measured.n != len(rows):
        warnings.append(f"the training was stopped: {measured.n} of the {len(rows)} test rows were measured on")
    return [*warnings, *([] if target.is_of_several else _one_sided(measured, target.pair))]


def _learned_from(
    task: _Task, features: TableFeatures | MatrixFeatures
) -> tuple[Table | MatrixData, list[dict[str, Any]], NDArray[np.int8]]:
    """What `telling_columns` looks at: the columns that are features, and the labels of all but the test rows."""
    codes = task.target.codes.copy()
    codes[~task.is_trained_on] = _UNLABELLED
    return task.corrected.data, list(features.columns) if isinstance(features, TableFeatures) else [], codes


def _some_unlabelled(task: _Task, in_a_hurry: bool) -> IndexArray:
    """Unlabelled ones of the rows that are trained on, of which some are drawn if there are many."""
    rows = np.flatnonzero(task.train_codes == _UNLABELLED)
    most = _HURRIED_ROWS if in_a_hurry else _DECIDED_ROWS
    return np.sort(np.random.default_rng(task.request.seed).permutation(rows)[:most])


def _decided_unlabelled(model: Model, scores: FloatArray, task: _Task) -> DecidedUnlabelled | None:
    """How many of the unlabelled rows with these scores the model calls positive."""
    if len(scores) == 0:
        return None
    called, called_negative = model.decision.says(scores)
    positive = int(np.count_nonzero(called))
    labelled = task.target.count(_POSITIVE) + task.target.count(_NEGATIVE)
    return DecidedUnlabelled(
        rows=int(np.count_nonzero(task.train_codes == _UNLABELLED)),
        measured=len(scores),
        positive=positive,
        undecided=len(scores) - positive - int(np.count_nonzero(called_negative)),
        share=positive / len(scores),
        labelled_share=task.target.count(_POSITIVE) / labelled,
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


def _another_mix(
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
    return [
        f"the model calls {share:.0%} of the unlabelled rows positive, and {called:.0%} of the labelled ones that its "
        f"precision was measured on ({unlabelled.labelled_share:.0%} of the labelled rows are positive): these are "
        "different mixes, and among rows like the unlabelled ones the precision is another; label some of those"
    ]


def _one_sided(measured: Measures | None, classes: tuple[str, str]) -> list[str]:
    """A warning when every row that was measured is predicted alike; few measures would show it plainly."""
    if measured is None or not measured.n or measured.predicted_positives not in (0, measured.n):
        return []
    predicted = classes[measured.predicted_positives > 0]
    return [f"all {measured.n} rows that the model was measured on are predicted {predicted!r}"]


# -- features and measures ---------------------------------------------------------------------------------------------


def _fit_features(
    task: _Task, progress: Callable[[float], object]
) -> tuple[TableFeatures | MatrixFeatures, FloatArray | sparse.csr_array, list[str]]:
    """The fitted pipeline, the feature matrix of the same rows, and what was left out."""
    request, data, target = task.request, task.train_data, task.request.target
    if target is not None and request.include is not None and target in request.include:
        raise TrainingError("target_is_feature", f"the target column {target!r} cannot be a feature")
    exclude = list(request.exclude)
    try:
        if isinstance(data, Table):
            if target is not None and target in data.columns and target not in exclude:
                exclude.append(target)
            excluded = frozenset(exclude)
            table_features = TableFeatures(
                include=request.include,
                exclude=exclude,
                kinds={name: kind for name, kind in request.kinds.items() if name not in excluded},
                guessed=request.guessed,
                missing=request.missing,
                text=TextOptions(**request.text),
                text_weights=request.text_weights,
                encoder=request.encoder,
                encode_together=request.encode_together,
                keep_words=request.keep_words,
            ).fit(data, lambda share: progress(_FITTED * share), np.flatnonzero(task.train_codes != _UNLABELLED))
            X, _ = table_features.transform(
                data, refuse_unreadable=False, progress=lambda share: progress(_FITTED + (1 - _FITTED) * share)
            )
            return table_features, X, table_features.warnings
        matrix_features = MatrixFeatures(include=request.include, exclude=exclude).fit(data)
        return matrix_features, matrix_features.transform(data)[0], matrix_features.warnings
    except FeatureError as error:
        raise TrainingError("features", str(error)) from error


def _complete(data: Table | MatrixData, request: TrainingRequest) -> tuple[IndexArray | None, list[str]]:
    """The rows that take part by the policy for missing values, None for all, and a warning if those are not all."""
    if request.missing not in MISSING_POLICIES:
        raise TrainingError("features", f"missing must be one of {', '.join(MISSING_POLICIES)}")
    if request.missing not in ("drop", "error"):
        return None, []
    exclude = [*request.exclude, *([] if request.target is None else [request.target])]
    incomplete, counts = missing_values(data, request.include, exclude)
    n_incomplete = int(np.count_nonzero(incomplete))
    if n_incomplete == 0:
        return None, []
    places = [f"{n} in {name!r}" for name, n in counts.items()]
    where = ", ".join(places[:10]) + (f" and {len(places) - 10} more columns" if len(places) > 10 else "")
    said = f"{n_incomplete} of {data.n_rows} rows lack a value ({where})"
    if request.missing == "error" or n_incomplete == data.n_rows:
        raise TrainingError(
            "missing_values", f"{said}; leave such columns out, or let missing values be indicated or imputed"
        )
    return np.flatnonzero(~incomplete), [f"{said} and take no part"]


def _measure_on_test(
    model: Model,
    task: _Task,
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
        said = abstained_on(chosen, np.concatenate(of_model), codes[:measured] == _POSITIVE)
    made = {
        name: measures(confusion(codes[:measured], np.concatenate(decided)), costs=costs)
        for name, decided in positive.items()
    }
    return made, said


# -- time and memory ---------------------------------------------------------------------------------------------------


class _Stopwatch:
    """Times the phases, passes progress on, and remembers that the caller wants to stop."""

    def __init__(self, progress: Callable[[Progress], bool | None] | None) -> None:
        self._progress = progress
        self._phase = ""
        self._fraction = 0.0
        self.stopped = False
        self.seconds: dict[str, float] = {}

    def part(self, begin: float, end: float, within: str | None = None) -> _Stopwatch:
        """One for a run that is this share of the call; `within` a phase of this one, it tells none of its own."""

        def pass_on(news: Progress) -> bool:
            if within is None:
                self._phase = news.phase
            # Rounds and the like are those of the run before, not news of this one's.
            self.report(begin + (end - begin) * news.fraction, **({} if within else news.details))
            return self.stopped

        part = _Stopwatch(pass_on)
        if within is None:
            part.seconds = self.seconds
        return part

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._phase = name
        started = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - started

    def report(self, fraction: float, **details: Any) -> None:
        self._fraction = max(self._fraction, fraction)
        if self._progress is not None and self._progress(Progress(self._phase, self._fraction, json_ready(details))):
            self.stopped = True

    def features(self, fraction: float) -> None:
        """The callback of the features."""
        self.report(_FEATURES_DONE * fraction)

    def training(self, fraction: float, details: Mapping[str, Any]) -> bool:
        """The callback of the estimators."""
        self.report(_FEATURES_DONE + (_TRAINING_DONE - _FEATURES_DONE) * fraction, **details)
        return self.stopped
