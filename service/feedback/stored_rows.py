"""Rows of a data set that are named by their keys or numbers, so that nobody has to send their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from service.blobs.store import BlobNotFoundError, BlobStore
from service.datasets.errors import DamagedDataset
from service.db.tables import DatasetRow
from service.feedback.errors import FeedbackDoesNotFit
from service.ingest.keys import InexactKeyError, key_texts
from service.models.repository import ModelShape
from service.shown_vectors import first_numbers
from solver.features import FeatureError, MatrixData, Table, matrix_rows, meant_table
from solver.reading import Reading

VALUE_BYTES = 24
"""Of a number with the signs around it and its name, where rows are kept."""


def keyed_rows(
    blobs: BlobStore, dataset: DatasetRow, model: ModelShape, keys: Sequence[str], max_bytes: int
) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """Return rows of a data set as the model of an alias understands them, and what their columns are to it.

    Parameters
    ----------
    blobs, dataset, model
    keys : sequence of str
        As they stand in the data set, which need not write them as that of the training does: ``01`` is not 1.
    max_bytes : int
        What the rows may take when they are kept.

    Raises
    ------
    FeedbackDoesNotFit
        If the model has no key, the data set not its columns, or not one row of each key; or if the rows take more than
        `max_bytes`.
    DamagedDataset
        If its rows cannot be read.
    """
    from service.ingest.columnar import TooManyBytesError, find_rows

    if model.key is None or dataset.layout != "table":
        message = "needs a model that was trained with a `key`, the column that names the rows; send rows instead"
        raise FeedbackDoesNotFit.of("body.keys", message)
    names = _needed(dataset, model, (model.key,))
    # Each row is kept with the names of its columns, so a list of keys can ask for much more than it has bytes.
    most = max_bytes // _row_bytes(model, names)
    too_many = _too_many("keys", len(keys), len(names), most)
    if len(keys) > most:
        raise too_many
    try:
        with _file_of(blobs, dataset) as path:
            found, table = find_rows(path, model.key, frozenset(keys), names, max_bytes)
    except TooManyBytesError:
        raise too_many from None
    except InexactKeyError as error:
        raise FeedbackDoesNotFit.of("body.dataset", str(error)) from None
    for position, key in enumerate(keys):
        rows = len(found.get(key, ()))
        if rows != 1:
            message = f"the data set has {rows or 'no'} row{'s' * (rows > 1)} of this key, and needs one"
            raise FeedbackDoesNotFit.of(f"body.keys.{position}", message)
    made = _as_meant(model, table)
    return [made[found[key][0]] for key in keys], _meant(model)


def numbered_rows(
    blobs: BlobStore, dataset: DatasetRow, model: ModelShape, numbers: Sequence[int], max_bytes: int
) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """Return rows of a data set by their numbers, from 0, as `keyed_rows` does; also of a matrix.

    Raises
    ------
    FeedbackDoesNotFit
        If the data set has not the columns of the model, or no row of such a number; or if the rows take more than
        `max_bytes`.
    DamagedDataset
        If its rows cannot be read.
    """
    if (dataset.layout == "matrix") != (model.width is not None):
        raise FeedbackDoesNotFit.of("body.dataset", "is not of the form, table or matrix, that the model takes")
    names = _needed(dataset, model)
    for position, number in enumerate(numbers):
        if number >= dataset.rows:
            message = f"the data set has {dataset.rows} rows, with the numbers from 0"
            raise FeedbackDoesNotFit.of(f"body.numbers.{position}", message)
    most = max_bytes // max(1, _row_bytes(model, names))
    too_many = _too_many("numbers", len(numbers), len(names), most)
    if len(numbers) > most:
        raise too_many
    found = contents_at(blobs, dataset, model, list(dict.fromkeys(numbers)), max_bytes)
    if found is None:
        raise too_many
    return [found[number][1] for number in numbers], _meant(model)


def contents_at(
    blobs: BlobStore,
    dataset: DatasetRow,
    model: ModelShape,
    numbers: Sequence[int],
    max_bytes: int,
    *,
    with_keys: bool = False,
) -> dict[int, tuple[str | None, dict[str, Any]]] | None:
    """Return key and what a model sees of rows of a data set that fits it, by their numbers; None if that is too much.

    Raises
    ------
    FeedbackDoesNotFit, DamagedDataset
        As `numbered_rows`.
    """
    from service.ingest.columnar import Layout, TooManyBytesError, rows_at

    key = [model.key] if with_keys and model.key is not None else []
    names = [*key, *(column["name"] for column in model.columns)]
    try:
        with _file_of(blobs, dataset) as path:
            rows = rows_at(path, cast("Layout", dataset.layout), numbers, names, max_bytes)
    except TooManyBytesError:
        return None
    if isinstance(rows, MatrixData):
        return {number: (None, row) for number, row in zip(numbers, matrix_rows(rows), strict=True)}
    keys = key_texts(rows.columns[key[0]]).tolist() if key and key[0] in rows.columns else [None] * len(numbers)
    return dict(zip(numbers, zip(keys, _as_meant(model, rows), strict=True), strict=True))


def shown(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row holds as people want to see it: of a vector the first numbers, as text."""
    return {name: first_numbers(value) if isinstance(value, list) else value for name, value in content.items()}


def _row_bytes(model: ModelShape, names: Sequence[str]) -> int:
    """Return about how many bytes a row of these columns takes where it is kept."""
    lengths = {column["name"]: column.get("length") or 1 for column in model.columns}
    return sum(len(name) + VALUE_BYTES * lengths.get(name, 1) for name in names)


def _needed(dataset: DatasetRow, model: ModelShape, more: Sequence[str] = ()) -> list[str]:
    """Return the columns of a model, which the data set must have; raises `FeedbackDoesNotFit`."""
    names = [column["name"] for column in model.columns]
    there = {column["name"] for column in dataset.columns}
    lacking = [name for name in (*more, *names) if name not in there]
    if lacking:
        raise FeedbackDoesNotFit.of("body.dataset", f"lacks columns of the model: {', '.join(map(repr, lacking))}")
    return names


def _too_many(kind: str, given: int, columns: int, most: int) -> FeedbackDoesNotFit:
    hint = f", at most {most}" if 0 < most < given else ""
    message = f"rows of {columns} columns are too large to take {given} of them at once; name fewer {kind} at a time"
    return FeedbackDoesNotFit.of(f"body.{kind}", message + hint)


@contextmanager
def _file_of(blobs: BlobStore, dataset: DatasetRow) -> Iterator[Path]:
    """Give the path of the rows of a data set; raises `FeedbackDoesNotFit`, `DamagedDataset`."""
    # Loaded where they are used: a tenth of a second and 30 MB.
    import pyarrow as pa
    from safetensors import SafetensorError

    try:
        with blobs.local_path(dataset.columnar_key) as path:
            yield path
    except BlobNotFoundError:
        raise FeedbackDoesNotFit.of("body.dataset", "there is no such data set") from None
    except (pa.ArrowInvalid, SafetensorError, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the disk; Arrow gives no number
        raise DamagedDataset("the stored rows of the data set are damaged; upload the file again") from None


def _readings(model: ModelShape) -> dict[str, Reading]:
    return {name: Reading.from_json(reading) for name, reading in model.readings.items()}


def _meant(model: ModelShape) -> dict[str, str]:
    return {name: reading.kind for name, reading in _readings(model).items()}


def _as_meant(model: ModelShape, table: Table) -> list[dict[str, Any]]:
    try:
        return meant_table(table, model.columns, _readings(model))[0]
    except FeatureError as error:
        raise FeedbackDoesNotFit.of("body.dataset", f"does not fit the model: {error}") from None
