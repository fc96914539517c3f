"""What can be done with batches: whole data sets that a worker predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from service.batches.errors import BatchFinished, BatchNotFinished, ResultGone
from service.batches.repository import KIND, BatchRepository
from service.batches.schemas import MEDIA_TYPES, Batch, BatchRequest
from service.blobs.store import BlobNotFoundError, BlobStore
from service.datasets.repository import DatasetRepository
from service.db import idempotency
from service.db.session import Database
from service.db.tables import DatasetRow, JobRow
from service.errors import FieldError, InvalidRequest
from service.identifiers import new_id
from service.jobs.queueing import put_in_queue
from service.jobs.repository import JobRepository
from service.jobs.schemas import JobStatus
from service.models.repository import ModelFile, ModelFileRepository, ModelRepository
from service.paging import as_page
from service.predictions.errors import RowsDoNotFit
from service.schemas import Page
from service.settings import Settings
from solver.features import MissingColumns

OPERATION = "createBatch"
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class ResultFile:
    """A result, ready to be sent."""

    media_type: str
    file_name: str
    size: int
    sha256: str
    pieces: Iterator[bytes]


class BatchService:
    """Accepts batches, tells how they go, and gives out what they made."""

    def __init__(self, database: Database, blobs: BlobStore, settings: Settings) -> None:
        self._database = database
        self._blobs = blobs
        self._settings = settings

    def create(self, project_id: str, body: BatchRequest, idempotency_key: str | None) -> Batch:
        """Put a batch into the queue.

        Raises
        ------
        InvalidRequest
            If there is no such model or data set.
        RowsDoNotFit
            If the data set lacks columns that the model needs.
        IdempotencyConflict
            If the key came before with another body.
        QueueFull, StorageQuotaExceeded
            If the project has used up its limits.
        """
        with self._database.transaction() as session:
            batches = BatchRepository(session, project_id)
            batch_id = new_id("job")
            made = idempotency.claim(session, project_id, OPERATION, idempotency_key, body.model_dump(), batch_id)
            if made is not None:
                return _as_accepted(idempotency.existing(batches.get(made), "batch"))
            model = ModelFileRepository(session, project_id).find(body.model)
            # Locked, so that nobody deletes the data set between this check and the insert.
            dataset = DatasetRepository(session, project_id).lock_for_use(body.dataset)
            errors = []
            if model is None:
                errors.append(FieldError("body.model", "no model has this id, and no alias this name"))
            if dataset is None:
                errors.append(FieldError("body.dataset", "there is no such data set"))
            if model is None or dataset is None:
                raise InvalidRequest(f"{errors[0].field}: {errors[0].message}", errors=errors)
            check_columns(dataset, ModelRepository(session, project_id).columns(model.model_id))
            request: dict[str, Any] = {
                "model": model.model_id,
                "sha256": model.sha256,
                **model.decides_by,
                "dataset": dataset.id,
                "format": body.format,
            }
            shadow = _shadow(session, model, body.model)
            # Where a lost attempt is the last one, a shadow that is too large for the worker would end the batch.
            if shadow is not None and self._settings.max_attempts > 1:
                request["shadow"] = shadow
            row = put_in_queue(
                session,
                JobRow(
                    id=batch_id,
                    project_id=project_id,
                    kind=KIND,
                    max_attempts=self._settings.max_attempts,
                    request=request,
                    dataset_id=dataset.id,
                    max_seconds=self._settings.job_max_seconds,
                ),
            )
            return _batch(row)

    def get(self, project_id: str, batch_id: str) -> Batch:
        """Return a batch; raises `BatchNotFound`."""
        return _batch(self._row(project_id, batch_id))

    def list(self, project_id: str, cursor: str | None, limit: int) -> Page[Batch]:
        """Return a page of batches, newest first."""
        with self._database.transaction() as session:
            rows = BatchRepository(session, project_id).list(cursor, limit)
        return as_page(rows, limit, _batch)

    def cancel(self, project_id: str, batch_id: str) -> Batch:
        """End a queued batch at once, or ask the worker of a running one to stop.

        Asking twice is fine. Raises `BatchNotFound`, or `BatchFinished` if it ended in another way.
        """
        with self._database.transaction() as session:
            BatchRepository(session, project_id).require(batch_id)
            done = JobRepository(session, project_id).cancel(batch_id, keep_best=False)
        batch = self.get(project_id, batch_id)
        if not done and batch.status is not JobStatus.CANCELLED:
            raise BatchFinished(f"the batch has ended as {batch.status}")
        return batch

    def result(self, project_id: str, batch_id: str) -> ResultFile:
        """Open the file that a batch has made.

        Raises
        ------
        BatchNotFound
        BatchNotFinished
            If it has not succeeded.
        ResultGone
            If the file was deleted.
        """
        row = self._row(project_id, batch_id)
        if row.result is None:
            raise BatchNotFinished(f"the batch is {row.status}, and only one that succeeded has a result")
        form = row.request["format"]
        try:
            file = self._blobs.open(row.result["blob_key"])
        except BlobNotFoundError:
            raise ResultGone("the file of this result was deleted") from None

        def pieces() -> Iterator[bytes]:
            with file:
                while piece := file.read(PIECE_BYTES):
                    yield piece

        return ResultFile(
            media_type=MEDIA_TYPES[form],
            file_name=f"{batch_id}.{form}",
            size=row.result["bytes"],
            sha256=row.result["sha256"],
            pieces=pieces(),
        )

    def _row(self, project_id: str, batch_id: str) -> JobRow:
        with self._database.transaction() as session:
            return BatchRepository(session, project_id).require(batch_id)


def _shadow(session: Session, model: ModelFile, alias: str) -> dict[str, Any] | None:
    """Return which model is to decide on the same rows, without a say in them; None if `alias` is none with one."""
    if model.shadow_id is None:
        return None
    file = ModelFileRepository(session, model.project_id).find(model.shadow_id)
    if file is None:
        return None
    return {"alias": alias, "model": file.model_id, "sha256": file.sha256, **file.decides_by}


def check_columns(dataset: DatasetRow, needed: Sequence[Mapping[str, Any]]) -> None:
    """Raise `RowsDoNotFit` if a table lacks columns, or has other vectors; the job finds out what else may not fit."""
    if dataset.layout != "table":
        return
    there = {column["name"]: column for column in dataset.columns}
    missing = [column["name"] for column in needed if column["name"] not in there]
    if missing:
        raise RowsDoNotFit.of("body.dataset", str(MissingColumns(missing)))
    for column in needed:
        wanted, found = _shape(column), _shape(there[column["name"]])
        if wanted != found:
            message = f"column {column['name']!r} holds {found} there, and {wanted} in the model"
            raise RowsDoNotFit.of("body.dataset", message)


def _shape(column: Mapping[str, Any]) -> str:
    return f"vectors of {column['length']} numbers" if column["kind"] == "vector" else "single values"


def _batch(row: JobRow) -> Batch:
    request = row.request
    fields = {name: getattr(row, name) for name in Batch.model_fields if name not in request and name != "result"}
    fields |= {name: request[name] for name in ("model", "dataset", "format", "threshold")}
    result = None if row.result is None else {name: row.result[name] for name in row.result if name != "blob_key"}
    return Batch(**fields, result=result)


def _as_accepted(row: JobRow) -> Batch:
    """Return the answer that the first of several equal requests got, whatever became of the batch since."""
    accepted = {"status": JobStatus.QUEUED, "phase": None, "progress": 0.0, "attempt": 0, "result": None}
    never = dict.fromkeys(("started_at", "finished_at", "cancel_requested_at", "error"))
    return _batch(row).model_copy(update=accepted | never)
