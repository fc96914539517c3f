"""The child's half of an audit: score a data set, draw the rows to look at, and write what the model sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray
from scipy.special import expit

from service.ingest.columnar import Layout, column_names, count_rows, read_blocks, read_labels
from service.ingest.errors import IngestError
from service.ingest.keys import InexactKeyError, key_texts
from solver.audits import Draws, answers_expected, draw_rows, target_of, thresholds_around
from solver.features import FeatureCounts, FeatureError, MatrixData, Table, TableFeatures, matrix_rows, meant_table
from solver.labelled_rows import fingerprints
from solver.model_file import Model
from solver.typing import BoolArray, FloatArray, IndexArray
from worker.asked_encoder import with_encoder
from worker.dataset_file import dataset_file
from worker.predict import BLOCK_ROWS, ROWS_FILE, decisions, model_of, rows_for
from worker.protocol import AUDIT_FILE, FEEDBACK_FILE, JobSpec, Reporter, Result, UnrunnableJobError

MOST_BYTES = 64 << 20
"""That the rows of an audit may take. Where they would take more, fewer are drawn: each beginning of a draw is one."""


def run(job: JobSpec, reporter: Reporter) -> Result:
    """Draw the rows of the audit of the job.

    Raises
    ------
    UnrunnableJobError
        For what the user can mend.
    """
    found = model_of(job)
    if not isinstance(found, Model):
        raise UnrunnableJobError("several_classes", "a model that tells several classes apart has no audits")
    model = with_encoder(found, job, reporter)
    layout = cast("Layout", job.layout)
    reporter.progress("reading", 0.0)
    try:
        with dataset_file(job) as path:
            rows = rows_for(job, path, layout, model, ROWS_FILE)
            scores, probabilities, warnings = _scores(model, rows, layout, reporter)
            unlabelled = _unlabelled(path, layout, job.request)
            open_ = unlabelled & ~_have_feedback(job, model, rows, layout, unlabelled)
            thresholds = _thresholds(job, model, scores[open_])
            called = _called(job, model, scores) if thresholds is None else _levels(scores, thresholds)
            several = 1 if thresholds is None else len(thresholds)
            draws = _draw(job, model, scores, probabilities, called, several, open_)
            contents = _contents(model, rows, layout, np.flatnonzero(open_)[draws.row])
    except FeatureError as error:
        raise UnrunnableJobError("rows_do_not_fit", f"the data set does not fit the model: {error}") from error
    except InexactKeyError as error:
        raise UnrunnableJobError("inexact_key", str(error)) from error
    places = np.flatnonzero(open_)[draws.row][: len(contents)]
    chances = None if probabilities is None or thresholds is not None else probabilities[places]
    with Path(job.scratch, AUDIT_FILE).open("wb") as file:
        for place, stratum, (key, content) in zip(places, draws.stratum, contents, strict=False):
            probability = None if probabilities is None else float(probabilities[place])
            drawn = [int(place), int(stratum), float(scores[place]), probability, key, content.decode()]
            file.write(orjson.dumps(drawn) + b"\n")
    left_out = int((unlabelled & ~open_).sum())
    if left_out:
        warnings.append(
            f"{left_out:,} rows without a label are left out: they, or rows like them to the model, got feedback"
        )
    report = {
        "rows": int(open_.sum()),
        "called_positive": int(np.count_nonzero((called if thresholds is None else scores > thresholds[0]) & open_)),
        "labelled": int((~unlabelled).sum()),
        "with_feedback": left_out,
        "drawn": len(contents),
        "expected_answers": None if chances is None else _expected(job, draws, chances),
        "threshold": float(model.decision.threshold) if thresholds is None else thresholds[0],
        "thresholds": None
        if thresholds is None
        else [
            {"threshold": each, "called_positive": int(np.count_nonzero(scores[open_] > each))} for each in thresholds
        ],
        "abstain": None if model.decision.band is None else model.decision.band.to_json(),
        "undecided": int((open_ & ~np.logical_or(*model.decision.says(scores))).sum()),
        "positive": str(model.classes[1]),
        "negative": str(model.classes[0]),
        "warnings": warnings,
        **draws.plan(),
        "meant": _meant(model),
    }
    return Result(model.algorithm, {}, report)


def _scores(
    model: Model, path: Path, layout: Layout, reporter: Reporter
) -> tuple[FloatArray, FloatArray | None, list[str]]:
    """Return score and probability of each row, and what is to be said of them."""
    total, done = count_rows(path, layout), 0
    counts = FeatureCounts()
    scores: list[FloatArray] = []
    probabilities: list[FloatArray] = []
    for made, met, _ in decisions(model, path, layout, BLOCK_ROWS):
        scores.append(made.scores)
        counts.add(met)
        if made.probabilities is not None:
            probabilities.append(made.probabilities)
        done += len(made.scores)
        if reporter.progress("predicting", 0.9 * done / max(1, total)) and done < total:
            raise UnrunnableJobError("time_limit", "max_seconds was reached before all rows were scored")
    joined = np.concatenate([*scores, np.empty(0)])
    return joined, np.concatenate(probabilities) if probabilities else None, counts.warnings()


def _unlabelled(path: Path, layout: Layout, request: dict[str, Any]) -> BoolArray:
    """Return which rows have no label: all, where the data set has no column of that name."""
    target = request["target"]
    try:
        labels = None if target is None else read_labels(path, layout, target)
    except IngestError as error:
        if error.code != "unknown_column":
            raise UnrunnableJobError(error.code, error.message) from error
        labels = None
    if labels is None:
        return np.ones(count_rows(path, layout), dtype=bool)
    unknown = {None, *request["unlabeled"]}
    return np.array([label in unknown or not label.strip() for label in labels.tolist()], dtype=bool)


def _have_feedback(job: JobSpec, model: Model, path: Path, layout: Layout, unlabelled: BoolArray) -> BoolArray:
    """Return which unlabelled rows got feedback, or are to the model the same as one that did.

    The next training gives all of these the label, so that a model that came of it has learned them.
    """
    known, found = _fingerprints_of_feedback(job, model), np.zeros(len(unlabelled), dtype=bool)
    if not len(known):
        return found
    start = 0
    for block in read_blocks(path, layout, [column["name"] for column in model.columns], BLOCK_ROWS):
        wanted = np.flatnonzero(unlabelled[start : start + block.n_rows])
        if len(wanted):
            found[start + wanted] = np.isin(fingerprints(model.telling_matrix(block.take(wanted))), known)
        start += block.n_rows
    return found


def _fingerprints_of_feedback(job: JobSpec, model: Model) -> NDArray[np.uint64]:
    """Return what the feedback that the supervisor has written down looks like to the model, where it fits it."""
    prints = [np.empty(0, dtype=np.uint64)]
    with Path(job.scratch, FEEDBACK_FILE).open("rb") as file:
        for line in file:
            rows = orjson.loads(line)["rows"]
            try:
                prints.append(_fingerprints(model, rows))
            except FeatureError:  # one of them is of other columns
                for row in rows:
                    with suppress(FeatureError):
                        prints.append(_fingerprints(model, [row]))
    return np.unique(np.concatenate(prints))


def _fingerprints(model: Model, rows: list[dict[str, Any]]) -> NDArray[np.uint64]:
    return fingerprints(model.telling_matrix(model.parse_rows(rows)[0]))


def _called(job: JobSpec, model: Model, scores: FloatArray) -> BoolArray:
    """Return which rows are called positive: for a precision those that get the label, else those above the threshold.

    Of a model that leaves rows undecided, recall and cost are those of its threshold, as they are in its promise.
    """
    if job.request["objective"]["kind"] == "precision":
        return model.decision.says(scores)[0]
    return scores > model.decision.threshold


def _thresholds(job: JobSpec, model: Model, scores: FloatArray) -> list[float] | None:
    """Return the thresholds that are tried, in that order; None for the one that decides now.

    `scores` are those of the rows that are audited.
    """
    asked, kind = job.request.get("thresholds"), job.request["objective"]["kind"]
    if asked is None or not len(scores):
        return None
    if model.decision.band is not None:
        raise UnrunnableJobError(
            "abstains",
            "the model leaves rows undecided, so that a threshold alone does not say what it calls positive: audit it "
            "without `thresholds`, or apply an operating point without `abstain` first",
        )
    if asked == "curve":
        known = np.empty(0) if model.curve is None else model.curve.thresholds
        return thresholds_around(scores, float(model.decision.threshold), kind, known)
    thresholds = [float(each) for each in asked]
    for each in thresholds:
        if kind == "precision" and not np.any(scores > each):
            raise UnrunnableJobError(
                "nothing_called_positive",
                f"by the threshold {each:g} none of the {len(scores)} unlabelled rows is called "
                f"{str(model.classes[1])!r}: there is no precision",
            )
    return thresholds


def _levels(scores: FloatArray, thresholds: list[float]) -> IndexArray:
    """Return by how many of the thresholds each row is called positive."""
    return np.searchsorted(np.sort(thresholds), scores, side="left")


def _draw(
    job: JobSpec,
    model: Model,
    scores: FloatArray,
    probabilities: FloatArray | None,
    called: BoolArray | IndexArray,
    several: int,
    open_: BoolArray,
) -> Draws:
    """Decide which of the unlabelled rows are looked at; their places are those among them."""
    if not open_.any():
        raise UnrunnableJobError(
            "no_unlabelled_rows",
            f"each row of the data set has a label in column {job.request['target']!r}, or feedback: an audit needs "
            "rows that nobody has labelled yet",
        )
    distances = scores[open_] - model.decision.threshold
    if probabilities is None:  # where to look is all that they decide
        chances: FloatArray = expit(2 * distances / max(float(distances.std()), 1e-9))
    else:
        chances = probabilities[open_]
    target, most = target_of(job.request["objective"]), job.request["rows"]
    try:
        return draw_rows(chances, called[open_], target, most, job.request["seed"], several)
    except ValueError as error:
        raise UnrunnableJobError(
            "nothing_called_positive",
            f"the model calls none of the {int(open_.sum())} unlabelled rows {model.classes[1]}: there is no precision",
        ) from error


def _expected(job: JobSpec, draws: Draws, probabilities: FloatArray) -> int | None:
    """Return after how many answers there is likely a verdict; None where nobody can say so."""
    confidence, n = job.request.get("confidence"), len(probabilities)
    if confidence is None:  # queued by a version that did not say it
        return None
    kept = replace(draws, stratum=draws.stratum[:n], row=draws.row[:n])
    return answers_expected(kept, probabilities, target_of(job.request["objective"]), confidence, job.request["seed"])


def _contents(model: Model, path: Path, layout: Layout, wanted: np.ndarray) -> list[tuple[str | None, bytes]]:
    """Return key and content, as JSON, of rows in the order in which they are wanted; of the first ones, if large."""
    places = {int(row): position for position, row in enumerate(wanted.tolist())}
    key = model.key if model.key is not None and model.key in column_names(path, layout) else None
    needed = [*(column["name"] for column in model.columns), *([] if key is None else [key])]
    found: dict[int, tuple[str | None, bytes]] = {}
    most, size, start = len(places), 0, 0
    for block in read_blocks(path, layout, needed, BLOCK_ROWS):
        rows = np.array(
            [row for row in range(start, start + block.n_rows) if places.get(row, most) < most], dtype=np.int64
        )
        start += block.n_rows
        if not len(rows):
            continue
        for row, made in zip(
            rows.tolist(), _content(model, block.take(rows - (start - block.n_rows)), key), strict=True
        ):
            found[places[row]] = made
            size += len(made[1])
        while size > MOST_BYTES and most > 1:
            most //= 2
            found = {position: made for position, made in found.items() if position < most}
            size = sum(len(content) for _, content in found.values())
    return [found[position] for position in range(most)]


def _content(model: Model, rows: Table | MatrixData, key: str | None) -> Iterator[tuple[str | None, bytes]]:
    if isinstance(rows, MatrixData):
        yield from ((None, orjson.dumps(values)) for values in matrix_rows(rows))
        return
    keys = [None] * rows.n_rows if key is None else key_texts(rows.columns[key]).tolist()
    readings = model.features.readings if isinstance(model.features, TableFeatures) else {}
    made, _ = meant_table(rows, model.columns, readings)
    for name, values in zip(keys, made, strict=True):
        yield name, orjson.dumps(values)


def _meant(model: Model) -> dict[str, str]:
    """Return what the columns are to the model, as feedback says it."""
    if not isinstance(model.features, TableFeatures):
        return {}
    meant = {name: reading.kind for name, reading in model.features.readings.items()}
    formats = model.manifest["features"].get("date_formats", {})
    return meant | {name: form for name, form in formats.items() if meant.get(name) == "text"}
