"""The child's half of a batch: apply a model to a data set, block by block, and write the predictions to a file."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from service.ingest.columnar import Layout, column_names, column_readings, count_rows, read_blocks
from service.ingest.keys import InexactKeyError, key_texts
from solver.band import Band
from solver.features import BadRow, FeatureCounts, FeatureError, MatrixData, Table
from solver.kernels.parallel import single_threaded_blas, thread_count
from solver.model_file import AnyModel, Model, ModelFileError, Predictions, read_any_model
from solver.multiclass.file import ClassPredictions
from solver.typing import FloatArray
from worker.asked_encoder import SHORT_PATIENCE, with_encoder
from worker.dataset_file import dataset_file, read_again
from worker.protocol import MODEL_FILE, PREDICTIONS_FILE, SHADOW_FILE, JobSpec, Reporter, Result, UnrunnableJobError

log = logging.getLogger("prefsvm.worker")

ROWS_FILE, SHADOW_ROWS_FILE = "rows", "shadow-rows"
BLOCK_ROWS = 16_384
SHADOW_BLOCK_ROWS = 2_048
"""Smaller: a job that is to end has some seconds for that, in which the block at hand must become ready."""
Block = Table | MatrixData
AnyPredictions = Predictions | ClassPredictions
Item = TypeVar("Item")
Computed = TypeVar("Computed")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
FIELDS = [("row", pa.int64()), ("label", pa.string()), ("score", pa.float64()), ("probability", pa.float64())]
Keys = NDArray[np.object_] | None


def model_of(job: JobSpec) -> AnyModel:
    """Return the model that the supervisor has put into the job's folder, with the threshold of its request.

    Raises
    ------
    UnrunnableJobError
        If the file is damaged.
    """
    try:
        return deciding_by(read_any_model(Path(job.scratch, MODEL_FILE)), job.request)
    except ModelFileError as error:
        raise UnrunnableJobError(
            "damaged_model", "the stored model is damaged and cannot be applied; train it again"
        ) from error


def deciding_by(model: AnyModel, asked: Mapping[str, Any]) -> AnyModel:
    """Return the model with what was applied to it, if anything was when the job was asked for."""
    if not isinstance(model, Model):
        return model.with_rule(asked.get("rule"))
    return model.with_threshold(asked["threshold"], Band.from_json(asked.get("abstain")))


def run(job: JobSpec, reporter: Reporter) -> Result:
    """Predict the data set of the job.

    Raises
    ------
    UnrunnableJobError
        For what the user can mend.
    """
    model = with_encoder(model_of(job), job, reporter)
    layout = cast("Layout", job.layout)
    reporter.progress("reading", 0.0)
    labels: Counter[str | None] = Counter()
    counts = FeatureCounts()
    done = 0
    shadow = job.request.get("shadow")
    decided: list[NDArray[np.int8]] = []
    compared: dict[str, Any] = {}
    try:
        with dataset_file(job) as path:
            rows = count_rows(path, layout)
            key = model.key if model.key is not None and model.key in column_names(path, layout) else None
            classes = None if isinstance(model, Model) else [str(label) for label in model.classes]
            with open_writer(job.request["format"], Path(job.scratch, PREDICTIONS_FILE), key, classes) as writer:
                rows_of_model = rows_for(job, path, layout, model, ROWS_FILE)
                for made, met, keys in decisions(model, rows_of_model, layout, BLOCK_ROWS, key):
                    writer.write(done, made, keys)
                    counts.add(met)
                    labels.update(made.labels)
                    done += len(made.labels)
                    if shadow is not None:
                        decided.append(_codes(model, made))
                    if reporter.progress("predicting", done / max(1, rows)) and done < rows:
                        raise UnrunnableJobError("time_limit", "max_seconds was reached before all rows were predicted")
            if shadow is not None:
                compared = {"shadow": _compare(job, path, layout, model, np.concatenate(decided), reporter)}
    except BadRow as error:
        said = f"row {error.row + 1} of the data set, {error.reason}"
        raise UnrunnableJobError("rows_do_not_fit", f"the data set does not fit the model: {said}") from error
    except FeatureError as error:
        raise UnrunnableJobError("rows_do_not_fit", f"the data set does not fit the model: {error}") from error
    except InexactKeyError as error:
        raise UnrunnableJobError("inexact_key", str(error)) from error
    undecided = labels.pop(None, 0)
    report = {
        "rows": done,
        "labels": dict(labels),
        "undecided": undecided,
        **_decides_by(model),
        "warnings": counts.warnings(),
    }
    return Result(model.algorithm, {}, report | compared)


def _decides_by(model: AnyModel) -> dict[str, Any]:
    """What the report says of that; several classes have no threshold."""
    if not isinstance(model, Model):
        return {"threshold": None, "threshold_probability": None, "abstain": None}
    return {
        "threshold": model.decision.threshold,
        "threshold_probability": model.decision.threshold_probability,
        "abstain": model.decision.told_band,
    }


def rows_for(job: JobSpec, path: Path, layout: Layout, model: AnyModel, file_name: str) -> Path:
    """Return where the rows are as the model reads them.

    What the upload made of a file is a guess where its options say nothing: 1.234 may have become one and a bit where
    the model's column has a point for thousands, and 01 the number 1 where it has categories. Then the file is read
    once more, for the texts that stand in it.
    """
    columns = model.read_again(column_readings(path, layout)) if layout == "table" else {}
    if not columns:
        return path
    written = Path(job.scratch, file_name)
    read_again(job, columns, written)
    if count_rows(written, layout) != count_rows(path, layout):
        raise UnrunnableJobError(
            "damaged_dataset", "the data set is not what the file holds that was uploaded; upload it again"
        )
    return written


def decisions(
    model: AnyModel, path: Path, layout: Layout, block_rows: int, key: str | None = None
) -> Iterator[tuple[AnyPredictions, FeatureCounts, Keys]]:
    """Yield what a model says of a data set, block by block, with the keys of the rows.

    An error of a row names it by its place in the whole data set.
    """

    def decide(numbered: tuple[int, Block]) -> tuple[AnyPredictions, FeatureCounts, Keys]:
        first_row, block = numbered
        try:
            keys = key_texts(block.columns[key]) if key is not None and isinstance(block, Table) else None
            X, met = model.feature_matrix(block)
            return model.decide(X, met), met, keys
        except BadRow as error:
            raise BadRow(first_row + error.row, error.reason) from error

    needed = [*(column["name"] for column in model.columns), *([] if key is None else [key])]
    return _map_ahead(decide, _with_first_rows(read_blocks(path, layout, needed, block_rows)))


def _with_first_rows(blocks: Iterator[Block]) -> Iterator[tuple[int, Block]]:
    """Yield blocks with the number of the first row of each."""
    first_row = 0
    for block in blocks:
        yield first_row, block
        first_row += block.n_rows


def _compare(
    job: JobSpec, path: Path, layout: Layout, model: AnyModel, codes: NDArray[np.int8], reporter: Reporter
) -> dict[str, Any]:
    """Let the shadow of the alias decide on the same rows, now that all are predicted, and count what the two said.

    Whatever is wrong with a shadow, it must not concern the batch: the rest of the rows then counts as failed, and as
    dropped if the job is to stop before the shadow is through, or if an attempt before this one was lost, maybe by it.
    """
    pairs: Counter[tuple[str | None, str | None]] = Counter()
    done = failed = 0
    try:
        if job.attempt == 1:
            shadow = deciding_by(read_any_model(Path(job.scratch, SHADOW_FILE)), job.request["shadow"])
            shadow = with_encoder(shadow, job, reporter, patience=SHORT_PATIENCE)
            rows_of_shadow = rows_for(job, path, layout, shadow, SHADOW_ROWS_FILE)
            for made, _, _ in decisions(shadow, rows_of_shadow, layout, SHADOW_BLOCK_ROWS):
                ours, theirs = codes[done : done + len(made.labels)], _codes(shadow, made)
                both, rows = np.unique(np.stack([ours, theirs]), axis=1, return_counts=True)
                for our, their, count in zip(*both.tolist(), rows.tolist(), strict=True):
                    pairs[_label_of(model, our), _label_of(shadow, their)] += count
                done += len(ours)
                if reporter.progress("predicting", 1.0):
                    break
    except Exception:
        log.exception("%s: the shadow failed", job.job_id)
        failed = len(codes) - done
    counted = [[*said, rows] for said, rows in pairs.items() if rows]
    return {"pairs": counted, "dropped": len(codes) - done - failed, "failed": failed}


def _label_of(model: AnyModel, code: int) -> str | None:
    return None if code < 0 else str(model.classes[code])


def _codes(model: AnyModel, made: AnyPredictions) -> NDArray[np.int8]:
    """What a model says of each row, in a byte: the place of the class among its classes, -1 for none."""
    places = {str(label): place for place, label in enumerate(model.classes)}
    return np.fromiter((-1 if label is None else places[label] for label in made.labels), np.int8, len(made.labels))


def _map_ahead(apply: Callable[[Item], Computed], blocks: Iterator[Item]) -> Iterator[Computed]:
    """Yield what `apply` makes of the blocks, in order, while the next ones are in the making.

    Whole blocks side by side, with BLAS held to one thread: threads of BLAS would wait for each other, spinning, in
    every product of a block (measured beside other work: 8 times the processor time).
    """
    threads = thread_count()
    with single_threaded_blas(), ThreadPoolExecutor(threads) as executor:
        coming: deque[Future[Computed]] = deque()
        try:
            for block in blocks:
                coming.append(executor.submit(apply, block))
                if len(coming) > threads:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            # where the caller stops early, because the job is to end, blocks that were not begun are dropped
            executor.shutdown(wait=False, cancel_futures=True)


class PredictionWriter(Protocol):
    """Writes predictions in one format."""

    def write(self, first_row: int, made: AnyPredictions, keys: Keys) -> None:
        """Write the predictions of a block; `first_row` is the number of its first row."""


@contextlib.contextmanager
def open_writer(
    form: str, path: Path, key: str | None, classes: Sequence[str] | None = None
) -> Iterator[PredictionWriter]:
    """Open a file for predictions in ``csv``, ``parquet`` or ``jsonl``, with the column `key` behind ``row`` if any.

    Of several classes there is a score and a probability of each, too: in columns such as ``score.NAME``, in JSON Lines
    in the objects ``scores`` and ``probabilities``.
    """
    of_classes = [(f"{what}.{name}", pa.float64()) for what in ("score", "probability") for name in classes or ()]
    schema = pa.schema([FIELDS[0], *([] if key is None else [(key, pa.string())]), *FIELDS[1:], *of_classes])
    if form == "jsonl":
        with path.open("wb") as file:
            yield _JsonLines(file, key, classes)
    elif form == "parquet":
        with pa.parquet.ParquetWriter(path, schema) as parquet:
            yield _Arrow(parquet, schema)
    else:
        with pa.csv.CSVWriter(path, schema, write_options=pa.csv.WriteOptions(quoting_style="needed")) as csv:
            yield _Arrow(csv, schema, neutralise)


def neutralise(label: str) -> str:
    """Return a label that no spreadsheet takes for a formula; a number, such as -1, is none."""
    if not label.startswith(FORMULA_STARTS):
        return label
    try:
        float(label)
    except ValueError:
        return "'" + label
    return label


class _Arrow:
    """CSV and Parquet, which Arrow writes."""

    def __init__(self, file: Any, schema: pa.Schema, spell: Callable[[str], str] = str) -> None:
        self._file = file
        self._schema = schema
        self._spell = spell

    def write(self, first_row: int, made: AnyPredictions, keys: Keys) -> None:
        spelt = {label: None if label is None else self._spell(label) for label in set(made.labels)}
        scores, probabilities = _of_said(made)
        columns = [
            pa.array(np.arange(first_row, first_row + len(made.labels))),
            # A key is never altered, even if a spreadsheet takes it for a formula: other tables are joined by it.
            *([] if keys is None else [pa.array(keys.tolist(), pa.string())]),
            pa.array([spelt[label] for label in made.labels], pa.string()),
            pa.array(scores),
            pa.nulls(len(made.labels), pa.float64()) if probabilities is None else pa.array(probabilities),
            *(pa.array(column) for matrix in _by_class(made) for column in np.ascontiguousarray(matrix.T)),
        ]
        self._file.write_table(pa.table(columns, schema=self._schema))


class _JsonLines:
    """One JSON object a line, put together by Arrow: that is twice as fast as Python, and lets go of its lock."""

    def __init__(self, file: BinaryIO, key: str | None, classes: Sequence[str] | None = None) -> None:
        self._file = file
        self._names = [orjson.dumps(name).decode() for name in classes or ()]
        self._key = "" if key is None else f",{orjson.dumps(key).decode()}:"

    def write(self, first_row: int, made: AnyPredictions, keys: Keys) -> None:
        scores, probabilities = _of_said(made)
        of_classes: list[Any] = []
        for name, matrix in zip(("scores", "probabilities"), _by_class(made), strict=False):
            starts = [f"{',' if place else ''}{label}:" for place, label in enumerate(self._names)]
            columns = np.ascontiguousarray(matrix.T)
            parts = [
                part for start, column in zip(starts, columns, strict=True) for part in (start, _json_numbers(column))
            ]
            of_classes += [f',"{name}":{{', *parts, "}"]
        spelt = {label: orjson.dumps(label).decode() for label in set(made.labels)}
        lines = pc.binary_join_element_wise(
            '{"row":',
            pa.array(np.arange(first_row, first_row + len(made.labels))).cast(pa.string()),
            self._key,
            "" if keys is None else pa.array([orjson.dumps(key).decode() for key in keys.tolist()], pa.string()),
            ',"label":',
            pa.array([spelt[label] for label in made.labels], pa.string()),
            ',"score":',
            _json_numbers(scores),
            ',"probability":',
            "null" if probabilities is None else _json_numbers(probabilities),
            *of_classes,
            "}\n",
            "",  # what Arrow puts between the parts
        )
        self._file.write("".join(lines.to_pylist()).encode())


def _of_said(made: AnyPredictions) -> tuple[FloatArray, FloatArray | None]:
    """Score and probability of each row; of several classes those of the one that is said, or nearest to it."""
    if isinstance(made, ClassPredictions):
        return made.winning_scores, made.winning_probabilities
    return made.scores, made.probabilities


def _by_class(made: AnyPredictions) -> list[FloatArray]:
    """Scores and probabilities of several classes, (rows, classes) each; NaN where a model has none."""
    if not isinstance(made, ClassPredictions):
        return []
    none = np.full(made.scores.shape, np.nan)
    return [made.scores, none if made.probabilities is None else made.probabilities]


def _json_numbers(values: FloatArray) -> pa.Array:
    """Spell finite numbers in the fewest digits that give them back."""
    texts = pa.array(values).cast(pa.string())
    whole = values == np.rint(values)
    if not whole.any():
        return texts
    # "1" would be a number of another type to some readers
    lacks_point = pc.and_(pa.array(whole), pc.invert(pc.match_substring(texts, "e")))
    return pc.if_else(lacks_point, pc.binary_join_element_wise(texts, ".0", ""), texts)
