"""What the child of a training does: read the data, train, write the model file. `predict` is the same for a batch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from service.encoders.names import AUTO_ENCODER, NO_ENCODER
from service.ingest.columnar import (
    Layout,
    read_column,
    read_columnar,
    read_guesses,
    read_identifiers,
    read_kinds,
    read_labels,
)
from service.ingest.errors import IngestError
from service.ingest.keys import InexactKeyError, key_texts
from service.ingest.labels import composed
from service.ingest.threads import THREAD
from solver.algorithms import ALGORITHMS
from solver.choices import DEFAULT_SCHEME
from solver.class_points import chosen_point_of_classes
from solver.classes_report import MulticlassReport
from solver.compared_rows import decisions_on_test
from solver.corrections import PERSON
from solver.features import Table
from solver.joined_labels import JoinedLabels, JoinError, join_labels
from solver.kernels import parallel
from solver.model_file import write_model
from solver.multiclass import ClassObjective, ClassObjectiveError
from solver.operating_point import Objective
from solver.parts import OnePart, PartComputed, PartExecutor, numerics
from solver.report import Report, ReportedPoint
from solver.retuning import chosen_point
from solver.tensor_file import read_tensors, write_tensors
from solver.training import Corrections, Progress, TrainedClasses, TrainedModel, TrainingError, TrainingRequest
from solver.training.several_classes import train
from solver.warm_up import FIRST, LATER, give_back
from worker.asked_encoder import AskedEncoder
from worker.compiling import keep_nothing, load
from worker.dataset_file import dataset_file, labels_file
from worker.predecessor import succession
from worker.protocol import (
    FEEDBACK_FILE,
    KEPT_ROWS_FILE,
    LABELS_FILE,
    LEFT_OUT_FILE,
    MODEL_FILE,
    PART_FILE,
    JobSpec,
    Reporter,
    Result,
    UnrunnableJobError,
    part_file,
)
from worker.shared_parts import SharedParts

__all__ = ["numerics", "run", "run_part", "start_threads", "training_request", "warm_up"]

SomeReport = TypeVar("SomeReport", Report, MulticlassReport)
NO_LABELS = np.array([], dtype=object)
READING_DONE = 0.05
ENCODING_DONE = 0.5
TRAINING_DONE = 0.97
"""Shares of a job that are done when its rows are read, when its texts are encoded (if they are, that takes longer than
the training as a rule), and when its model is trained."""
WEIGHTS_OF_MAILS = {"subject": 0.5, "from": 0.5, "to": 0.5, "meta": 0.35}
"""What short parts of a mail count beside its body: as much as it, they drown it (`benchmarks/mail.py`)."""
FAVOURED_OF_MAILS = "mean-s3vm"
"""What `auto` takes on mails unless they speak against it: with few labels it has a better F1 than `svm`, above all on
later mails (`benchmarks/results/mail.md`)."""
ENCODED_OF_MAILS = [("subject", "body")]
"""Columns whose texts are encoded as one: whom a mail is from is told by words."""


def warm_up(tell: Callable[[float], None]) -> None:
    """Load every algorithm and the compiled solvers, which are compiled where they are not there yet.

    Parameters
    ----------
    tell : callable
        Gets how much of what has to be compiled is, from 0 to 1; is not called where nothing has to be.
    """
    # Memory for kernel rows is not touched yet: that takes half a second, more than most jobs would win by it, and a
    # process that waits for a job would hold that memory all the time.
    load(FIRST, LATER, tell, meanwhile=_load_algorithms)
    give_back()


def _load_algorithms() -> None:
    for spec in ALGORITHMS.values():
        spec.load()


def start_threads() -> None:
    """Start the threads of the process of one job.

    What is compiled from here on is for this job alone: the process may not write where compiled code is kept for all,
    as pickles. `warm_up` has compiled nearly everything before.
    """
    keep_nothing()
    parallel.start_threads()


def run(job: JobSpec, reporter: Reporter) -> Result:
    """Train the model that the job asks for.

    Raises
    ------
    UnrunnableJobError
        For what the user can mend.
    """
    parts = SharedParts(reporter, Path(job.scratch))
    trained, reading = _train(job, reporter, parts)
    reporter.progress("storing", TRAINING_DONE)
    started = time.monotonic()
    write_model(Path(job.scratch, MODEL_FILE), trained.model)
    if isinstance(trained, TrainedClasses):
        if trained.left_out is not None:
            trained.left_out.write(Path(job.scratch, LEFT_OUT_FILE))
        rule, warnings = _rule(job, trained)
        told = replace(trained.report, warnings=[*trained.report.warnings, *warnings])
        told = told.with_seconds(reading=reading, storing=time.monotonic() - started)
        return Result(trained.model.algorithm, trained.model.manifest, told.to_dict(), rule)
    if trained.labelled is not None:
        labelled, tested = trained.labelled, trained.tested
        if tested is not None:
            labelled = labelled.called(tested.prints, decisions_on_test(tested, job.request.get("operating_point")))
        Path(job.scratch, LABELS_FILE).write_bytes(labelled.to_bytes())
    if trained.kept is not None:
        trained.kept.write(Path(job.scratch, KEPT_ROWS_FILE))
    report = replace(trained.report, parts=parts.report)
    report = report.with_seconds(reading=reading, storing=time.monotonic() - started)
    point, warnings = _operating_point(job, report)
    report = replace(
        report,
        warnings=[*report.warnings, *warnings],
        succession=succession(job, trained, point or report, reporter),
    )
    return Result(
        trained.model.algorithm, trained.model.manifest, report.to_dict(), None if point is None else point.to_dict()
    )


def _operating_point(job: JobSpec, report: Report) -> tuple[ReportedPoint | None, list[str]]:
    """Choose the threshold by the objective that the job wants applied, if any; say so where that cannot be."""
    wanted = job.request.get("operating_point")
    if wanted is None:
        return None, []
    point = chosen_point(report, Objective.parse(wanted))
    if point is None:
        return None, [
            "the operating point asked for was not applied: this model has no curve to choose a threshold from"
        ]
    return point, []


def _rule(job: JobSpec, trained: TrainedClasses) -> tuple[dict[str, Any] | None, list[str]]:
    """Choose the rule of several classes by the objective that the job wants applied, as `_operating_point` does."""
    wanted = job.request.get("operating_point")
    if wanted is None:
        return None, []
    classes = trained.report.classes
    try:
        objective = ClassObjective.parse(wanted)
        objective.check_classes(classes)
    except ClassObjectiveError as error:  # of classes that feedback or joined labels have brought
        return None, [f"the operating point asked for was not applied: {error}"]
    if trained.left_out is None:
        return None, ["the operating point asked for was not applied: no row was left out to choose it on"]
    return chosen_point_of_classes(trained.left_out, objective, classes).to_dict(), []


def run_part(job: JobSpec, reporter: Reporter) -> None:
    """Compute one part of a job that another worker runs, and leave its result at ``PART_FILE``.

    Raises
    ------
    UnrunnableJobError
        If it was told to stop; or for what the user can mend, which the other worker will hear of too.
    """
    wanted = job.details
    scratch = Path(job.scratch)
    known = {
        stage: [read_tensors(scratch / part_file(stage, number))[0] for number in range(count)]
        for stage, count in wanted["known"].items()
    }
    part = OnePart(wanted["stage"], wanted["number"], known, wanted["cache_bytes"])
    try:
        _train(job, reporter, part)
    except PartComputed as computed:
        if computed.result is None or reporter.should_stop:
            raise UnrunnableJobError("stopped", "the part was not finished") from None
        write_tensors(scratch / PART_FILE, computed.result, {})
        return
    raise UnrunnableJobError("no_such_part", f"the training has no stage {wanted['stage']!r}")


def _train(job: JobSpec, reporter: Reporter, parts: PartExecutor) -> tuple[TrainedModel | TrainedClasses, float]:
    """Read the data and train; also return the seconds that reading took."""
    layout = cast("Layout", job.layout)
    reporter.progress("reading", 0.0)
    started = time.monotonic()
    joined = keys = None
    try:
        with dataset_file(job) as path:
            data = read_columnar(path, layout)
            labels = NO_LABELS if job.labels_key is not None else read_labels(path, layout, job.request["target"])
            kinds, guesses = read_kinds(path, layout), read_guesses(path, layout)
            identifiers = read_identifiers(path, layout)
        key = job.request.get("key")
        if key is not None and isinstance(data, Table):
            keys = key_texts(data.columns[key])  # refused now, as no prediction could give such keys back
            if job.labels_key is not None:
                joined = _joined_labels(job, keys)
                labels = joined.labels
        corrections = read_corrections(Path(job.scratch, FEEDBACK_FILE))
    except InexactKeyError as error:
        raise UnrunnableJobError("inexact_key", str(error)) from error
    except IngestError as error:
        raise UnrunnableJobError(error.code, error.message) from error
    except JoinError as error:
        raise UnrunnableJobError(error.code, str(error)) from error
    request = training_request(job.request, kinds, guesses, identifiers)
    if of_mails(job) and isinstance(data, Table) and THREAD in {*data.columns} - {request.target, request.key}:
        request = replace(request, groups=THREAD)
    reading = time.monotonic() - started
    encoding = _Encoding(job, reporter)
    request = replace(request, encoder=encoding.encoder, encode_together=encoding.together)
    if encoding.together:
        request = replace(request, text_weights=WEIGHTS_OF_MAILS, favoured=FAVOURED_OF_MAILS)

    def progress(news: Progress) -> bool:
        fraction = encoding.done + (TRAINING_DONE - encoding.done) * news.fraction
        return reporter.progress(news.phase, fraction, news.details)

    try:
        trained = train(data, labels, request, corrections=corrections, progress=progress, parts=parts)
    except TrainingError as error:
        raise UnrunnableJobError(error.code, error.message) from error
    if isinstance(trained, TrainedModel) and keys is not None and trained.kept is not None:
        trained = replace(trained, kept=trained.kept.named_by(keys.tolist()))
    if joined is not None:
        if isinstance(trained, TrainedClasses):
            return replace(trained, report=_joined_report(trained.report, joined)), reading
        return replace(trained, report=_joined_report(trained.report, joined)), reading
    return trained, reading


def _joined_report(report: SomeReport, joined: JoinedLabels) -> SomeReport:
    """The report with how the labels of another data set found their rows."""
    return replace(report, labels=joined.report, warnings=[*joined.warnings, *report.warnings])


def of_mails(job: JobSpec) -> bool:
    """Tell whether the data set of a job is one of mails."""
    return job.upload is not None and job.upload["format"] == "mail"


class _Encoding:
    """The encoder of a training, if it is to have one, and how far the job is with it.

    Attributes
    ----------
    encoder : AskedEncoder or None
    together : list of tuple of str
        Columns whose texts are encoded as one.
    done : float
        Share of the job that is done before the training as such.
    """

    def __init__(self, job: JobSpec, reporter: Reporter) -> None:
        self._reporter = reporter
        self.done = READING_DONE
        self.encoder: AskedEncoder | None = None
        self.together = ENCODED_OF_MAILS if of_mails(job) else []
        name, wanted = job.details.get("encoder"), wanted_encoder(job.request)
        if wanted is None:
            return
        if wanted not in (AUTO_ENCODER, name):
            has = "this worker has none" if name is None else f"that of this worker is {name!r}"
            raise UnrunnableJobError("no_encoder", f"the encoder {wanted!r} is wanted, and {has}")
        if name is not None:
            self.encoder = AskedEncoder(reporter, Path(job.scratch), name, tell=self._tell, keeps=True)

    def _tell(self, done: int, texts: int) -> None:
        share = READING_DONE + (ENCODING_DONE - READING_DONE) * done / max(1, texts)
        self.done = max(self.done, share)
        self._reporter.progress("encoding", self.done, {"encoded": done, "texts": texts})


def wanted_encoder(body: Mapping[str, Any]) -> str | None:
    """Return the encoder that a training asks for: a name, `AUTO_ENCODER`, or None for words alone."""
    wanted = ((body.get("features") or {}).get("text") or {}).get("encoder", NO_ENCODER[0])
    return None if wanted in NO_ENCODER else str(wanted)


def _joined_labels(job: JobSpec, keys: NDArray[np.object_]) -> JoinedLabels:
    """Return the labels that the data set of the labels has for the rows with these keys."""
    request = job.request
    asked = request["labels"]
    with labels_file(job) as path:
        of_labels = key_texts(read_column(path, asked["key"]))
        labels = read_labels(path, "table", request["target"])
    return join_labels(
        keys.tolist(),
        of_labels.tolist(),
        labels.tolist(),
        names=(request["key"], asked["key"]),
        unlabeled=[composed(label) for label in request["unlabeled"]],
        fold=asked.get("fold", False),
    )


def read_corrections(path: Path) -> Corrections | None:
    """Return what `worker.kinds.training.fetch_feedback` wrote; None if it wrote nothing."""
    if not path.exists():
        return None
    rows: list[dict[str, Any]] = []
    labels: list[str] = []
    meant: list[dict[str, str]] = []
    random: list[bool] = []
    audited: list[bool] = []
    sources: list[str] = []
    weights: list[float] = []
    with path.open("rb") as file:
        for line in file:
            sent = json.loads(line)
            rows += sent["rows"]
            meant += [sent.get("meant", {})] * len(sent["rows"])  # older feedback says nothing of that
            labels += map(composed, sent["labels"])  # older feedback may have another form
            n = len(sent["rows"])
            random += sent.get("audited", [sent.get("drawn") == "random"] * n)
            audited += ["audited" in sent] * n
            sources += [sent.get("source", PERSON)] * n
            weights += [sent.get("weight", 1.0)] * n
    return Corrections(rows, labels, meant, random, audited, sources, weights) if rows else None


def training_request(
    body: dict[str, Any], known_kinds: Mapping[str, str], guessed: Mapping[str, str], identifiers: Mapping[str, str]
) -> TrainingRequest:
    """Return the solver's request for the body of a ``POST /train``, as it is kept with the job.

    Parameters
    ----------
    body : dict
    known_kinds : mapping of str to str
        What columns are by the data set; the body may say otherwise.
    guessed : mapping of str to str
        What the upload took other columns for.
    identifiers : mapping of str to str
        What of them number or name the rows, see `service.ingest.columnar.read_identifiers`.
    """
    features = body.get("features") or {}
    positive = body.get("positive")
    labels = body.get("labels") or {}
    return TrainingRequest(
        algorithm=body["algorithm"],
        params=body["params"],
        objective=body["objective"],
        # A job that waited while the service was updated may have them in another form.
        positive=None if positive is None else composed(positive),
        scheme=body.get("scheme") or DEFAULT_SCHEME,
        unlabeled=[composed(label) for label in body["unlabeled"]],
        negative=[composed(label) for label in body.get("negative") or ()],
        fold=labels.get("fold", False),
        keep=labels.get("keep"),
        keep_seed=body["seed"] if labels.get("seed") is None else labels["seed"],
        include=features.get("include"),
        exclude=features.get("exclude") or (),
        kinds={**known_kinds, **(features.get("kinds") or {})},
        guessed=guessed,
        missing=features.get("missing", "indicate"),
        keep_words=features.get("keep_words", True),
        text={name: value for name, value in (features.get("text") or {}).items() if name != "encoder"},
        identifiers=identifiers,
        target=body["target"],
        key=body.get("key"),
        test_fraction=body["test_fraction"],
        refit=body.get("refit", True),
        seed=body["seed"],
        max_seconds=body.get("max_seconds"),
    )
