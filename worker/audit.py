"""The child's half of an audit: score a data set, draw the rows to look at, and write what the model sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from scipy.special import expit

from service.ingest.columnar import Layout, column_names, count_rows, read_blocks, read_labels
from service.ingest.errors import IngestError
from service.ingest.keys import InexactKeyError, key_texts
from solver.audits import Draws, draw_rows, target_of
from solver.features import FeatureCounts, FeatureError, MatrixData, Table, TableFeatures, matrix_rows, meant_table
from solver.model_file import Model
from solver.typing import BoolArray, FloatArray
from worker.dataset_file import dataset_file
from worker.predict import BLOCK_ROWS, ROWS_FILE, decisions, model_of, rows_for
from worker.protocol import AUDIT_FILE, JobSpec, Reporter, Result, UnrunnableJobError

MOST_BYTES = 64 << 20
"""That the rows of an audit may take. Where they would take more, fewer are drawn: each beginning of a draw is one."""


def run(job: JobSpec, reporter: Reporter) -> Result:
    """Draw the rows of the audit of the job.

    Raises
    ------
    UnrunnableJobError
        For what the user can mend.
    """
    model = model_of(job)
    layout = cast("Layout", job.layout)
    reporter.progress("reading", 0.0)
    try:
        with dataset_file(job) as path:
            rows = rows_for(job, path, layout, model, ROWS_FILE)
            scores, probabilities, warnings = _scores(model, rows, layout, reporter)
            open_ = _unlabelled(path, layout, job.request)
            draws = _draw(job, model, scores, probabilities, open_)
            contents = _contents(model, rows, layout, np.flatnonzero(open_)[draws.row])
    except FeatureError as error:
        raise UnrunnableJobError("rows_do_not_fit", f"the data set does not fit the model: {error}") from error
    except InexactKeyError as error:
        raise UnrunnableJobError("inexact_key", str(error)) from error
    places = np.flatnonzero(open_)[draws.row][: len(contents)]
    with Path(job.scratch, AUDIT_FILE).open("wb") as file:
        for place, stratum, (key, content) in zip(places, draws.stratum, contents, strict=False):
            probability = None if probabilities is None else float(probabilities[place])
            drawn = [int(place), int(stratum), float(scores[place]), probability, key, content.decode()]
            file.write(orjson.dumps(drawn) + b"\n")
    called = scores > model.decision.threshold
    report = {
        "rows": int(open_.sum()),
        "called_positive": int((called & open_).sum()),
        "labelled": int((~open_).sum()),
        "drawn": len(contents),
        "threshold": float(model.decision.threshold),
        "positive": str(model.classes[1]),
        "negative": str(model.classes[0]),
        "warnings": warnings,
        "strata": [{"called": s.called, "rows": s.rows, "share": s.share} for s in draws.strata],
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


def _draw(job: JobSpec, model: Model, scores: FloatArray, probabilities: FloatArray | None, open_: BoolArray) -> Draws:
    """Decide which of the unlabelled rows are looked at; their places are those among them."""
    if not open_.any():
        raise UnrunnableJobError(
            "no_unlabelled_rows",
            f"each row of the data set has a label in column {job.request['target']!r}: an audit needs rows that "
            "nobody has labelled yet",
        )
    distances = scores[open_] - model.decision.threshold
    if probabilities is None:  # where to look is all that they decide
        chances: FloatArray = expit(2 * distances / max(float(distances.std()), 1e-9))
    else:
        chances = probabilities[open_]
    target, most = target_of(job.request["objective"]), job.request["rows"]
    try:
        return draw_rows(chances, distances > 0, target, most, job.request["seed"])
    except ValueError as error:
        raise UnrunnableJobError(
            "nothing_called_positive",
            f"the model calls none of the {int(open_.sum())} unlabelled rows {model.classes[1]}: there is no precision",
        ) from error


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
