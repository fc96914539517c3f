"""Rows of a data set that are named by their keys, so that nobody has to send their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.blobs.store import BlobNotFoundError, BlobStore
from service.datasets.errors import DamagedDataset
from service.db.tables import DatasetRow
from service.feedback.errors import FeedbackDoesNotFit
from service.ingest.keys import InexactKeyError
from service.models.repository import ModelShape
from solver.features import FeatureError, meant_table
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
    # Loaded where it is used: it takes a tenth of a second and 30 MB.
    import pyarrow as pa

    from service.ingest.columnar import TooManyBytesError, find_rows

    if model.key is None or dataset.layout != "table":
        message = "needs a model that was trained with a `key`, the column that names the rows; send rows instead"
        raise FeedbackDoesNotFit.of("body.keys", message)
    there = {column["name"] for column in dataset.columns}
    lacking = [name for name in (model.key, *(column["name"] for column in model.columns)) if name not in there]
    if lacking:
        raise FeedbackDoesNotFit.of("body.dataset", f"lacks columns of the model: {', '.join(map(repr, lacking))}")
    names = [column["name"] for column in model.columns]
    # Each row is kept with the names of its columns, so a list of keys can ask for much more than it has bytes.
    most = max_bytes // sum(len(name) + VALUE_BYTES for name in names)
    too_many = FeedbackDoesNotFit.of(
        "body.keys",
        f"rows of {len(names)} columns are too large to take {len(keys)} of them at once; name fewer keys at a time"
        + (f", at most {most}" if 0 < most < len(keys) else ""),
    )
    if len(keys) > most:
        raise too_many
    try:
        with blobs.local_path(dataset.columnar_key) as path:
            found, table = find_rows(path, model.key, frozenset(keys), names, max_bytes)
    except TooManyBytesError:
        raise too_many from None
    except BlobNotFoundError:
        raise FeedbackDoesNotFit.of("body.dataset", "there is no such data set") from None
    except InexactKeyError as error:
        raise FeedbackDoesNotFit.of("body.dataset", str(error)) from None
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the disk; Arrow gives no number
        raise DamagedDataset("the stored rows of the data set are damaged; upload the file again") from None
    for position, key in enumerate(keys):
        rows = len(found.get(key, ()))
        if rows != 1:
            message = f"the data set has {rows or 'no'} row{'s' * (rows > 1)} of this key, and needs one"
            raise FeedbackDoesNotFit.of(f"body.keys.{position}", message)
    readings = {name: Reading.from_json(reading) for name, reading in model.readings.items()}
    try:
        made, meant = meant_table(table, model.columns, readings)
    except FeatureError as error:
        raise FeedbackDoesNotFit.of("body.dataset", f"does not fit the model: {error}") from None
    return [made[found[key][0]] for key in keys], meant
