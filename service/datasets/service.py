"""What can be done with data sets."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import ColumnElement, Row
from sqlalchemy.orm import Session

from service.access.repository import QuotaRepository
from service.blobs.store import BlobNotFoundError, BlobStore
from service.blobs.streams import BlobStreams
from service.datasets.errors import (
    DamagedDataset,
    DatasetInUse,
    DatasetNotFound,
    DatasetUsed,
    ReaderLost,
    UnreadableDataset,
    UploadTooLarge,
    full_storage_told,
)
from service.datasets.readers import Readers
from service.datasets.repository import DatasetRepository, up_to, with_columns
from service.datasets.schemas import MOST_TOLD, Column, Dataset, DatasetSummary
from service.db import idempotency
from service.db.session import AWAY, Database
from service.db.tables import DatasetRow
from service.errors import InvalidRequest, Problem, StorageFull
from service.faults import fault
from service.identifiers import new_id
from service.ingest.errors import IngestError
from service.ingest.options import FORMATS, Kind, guess_format, parse_options
from service.ingest.run import IngestResult, ReadingChildKilledError, ingest
from service.leaving import Gone, unless_gone
from service.models.errors import ModelNotFound
from service.models.repository import ModelRepository
from service.paging import Cursor, as_page
from service.schemas import Page
from service.settings import Settings

Result = TypeVar("Result")

logger = logging.getLogger("prefsvm.datasets")

OPERATION = "createDataset"
"""Operation id under which idempotency keys of uploads are kept."""
MAX_SURROUNDINGS = 1 << 20
"""What multipart may add to a file: boundaries, headers and text parts."""
MAX_NAME_LENGTH = 255


@dataclass(frozen=True)
class UploadDetails:
    """What a client says about an upload, not yet checked. `where` is the place for error messages."""

    where: str
    name: str | None
    filename: str | None
    format: str | None
    media_type: str | None
    options: dict[str, Any]

    @classmethod
    def of(
        cls, where: str, said: Mapping[str, str], options: dict[str, Any], filename: str | None, media_type: str | None
    ) -> UploadDetails:
        """Return details with the name and format that were `said`; an empty one was not said."""
        name, form = said.get("name") or None, said.get("format") or None
        return cls(where, name, filename or None, form, media_type or None, options)


class Upload(Protocol):
    """An upload that is still arriving."""

    declared_bytes: int | None
    """Length of the request as its header says, with what surrounds the file; None if it does not say."""
    counts_as_stored: bool
    """Whether its bytes count among those that the project stores before there is a data set."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file."""

    def details(self) -> UploadDetails:
        """Return what was said about it; complete after `chunks` has ended."""


@dataclass(frozen=True)
class _Stored:
    bytes: int
    sha256: str


class DatasetService:
    """Takes uploads in, has them read, and keeps them."""

    def __init__(self, database: Database, blobs: BlobStore, settings: Settings) -> None:
        self._database = database
        self._blobs = blobs
        self._settings = settings
        self._readers = Readers(settings.ingest_slots)
        self._streams = BlobStreams(blobs)

    async def create(self, project_id: str, upload: Upload, idempotency_key: str | None, gone: Gone) -> Dataset:
        """Store an upload, read it and make it usable. Whatever goes wrong, nothing is left of it.

        Parameters
        ----------
        project_id : str
            Whose it will be.
        upload : Upload
            Stored as it arrives, with about 2 MiB of memory.
        idempotency_key : str or None
        gone : function
            Awaited once the upload has arrived; ends when the client has hung up.

        Raises
        ------
        UploadTooLarge
            If it has more than ``max_upload_bytes``.
        InvalidRequest
            If format, name or options cannot be used.
        UnreadableDataset
            If the reader of its format refuses it.
        StorageFull
            If there is no room for it.
        IdempotencyConflict
            If the key came before with another upload.
        StorageQuotaExceeded
            If the project may not store so much.
        ClientGone
            If the client hung up.
        """
        if (
            idempotency_key is None
        ):  # with a key, this very file may have been stored before, and be what takes up the room
            await self._streams.run(self.check_room, project_id, (upload.declared_bytes or 0) - MAX_SURROUNDINGS)
        upload_key, columnar_key = f"uploads/{new_id('blob')}", f"columnar/{new_id('blob')}"
        handed_over = False
        try:
            stored = await self._store(upload, upload_key)
            details = upload.details()
            name, format_ = _name(details), _format(details)
            asked = [
                stored.sha256,
                name,
                format_,
                details.options,
            ]  # with these alike, two uploads are the same request
            earlier = await self._streams.run(self._find_earlier, project_id, idempotency_key, asked)
            if earlier is not None:
                return earlier
            reading = self._read(project_id, upload_key, format_, details.options, columnar_key, where=details.where)
            result, columnar_sha256 = await unless_gone(reading, gone)
            row = DatasetRow(
                id=new_id("ds"),
                project_id=project_id,
                name=name,
                format=format_,
                layout=result.layout,
                bytes=stored.bytes,
                sha256=stored.sha256,
                rows=result.rows,
                columns=result.columns,
                warnings=result.warnings,
                options=details.options,
                duplicate_rows=result.duplicate_rows,
                dropped_rows=result.dropped_rows,
                lines=None if result.lines is None else result.lines.model_dump(),
                blob_key=upload_key,
                left_out=result.left_out,
                columnar_key=columnar_key,
                columnar_sha256=columnar_sha256,
            )
            handed_over = True
            room = 0 if upload.counts_as_stored else row.bytes
            return await self._streams.run(self._save, row, idempotency_key, asked, room)
        finally:
            if not handed_over:
                await asyncio.shield(self._streams.run(self._blobs.discard, upload_key, columnar_key))

    def get(self, project_id: str, dataset_id: str, first_column: int = 0, most: int = MOST_TOLD) -> Dataset:
        """Return a data set with so many of its columns, from one on; raises `DatasetNotFound`."""
        with self._database.transaction() as session:
            return _dataset(_told(DatasetRepository(session, project_id), dataset_id, first_column, most))

    def column_names(self, project_id: str, dataset_id: str) -> Sequence[str]:
        """Return the names of all columns."""
        with self._database.transaction() as session:
            return DatasetRepository(session, project_id).column_names(dataset_id)

    def columns_named(self, project_id: str, dataset_id: str, names: Sequence[str]) -> Sequence[Column]:
        """Return the columns of these names, in the order of the file, without those that are not there."""
        with self._database.transaction() as session:
            found = DatasetRepository(session, project_id).columns_named(dataset_id, names)
        return [Column(**column) for column in found]

    def likely_targets(self, project_id: str, dataset_id: str, most: int) -> Sequence[Column]:
        """Return some columns that may hold labels, those that look most like it first."""
        with self._database.transaction() as session:
            found = DatasetRepository(session, project_id).likely_targets(dataset_id, most)
        return [Column(**column) for column in found]

    def list(self, project_id: str, cursor: str | None, limit: int, fits: str | None = None) -> Page[DatasetSummary]:
        """Return a page of data sets, newest first; of those that a model can decide on, if one is named.

        A page of those may hold fewer than `limit`, or none, and go on: it looks at so many columns and no more.

        Raises
        ------
        InvalidRequest
            If there is no such model.
        """
        with self._database.transaction() as session:
            datasets = DatasetRepository(session, project_id)
            last = None
            wanted = [] if fits is None else [_fitting(session, project_id, fits)]
            if wanted and (last := datasets.last_looked_at(cursor)) is not None:
                wanted.append(up_to(last))
            rows = datasets.summaries(cursor, limit, *wanted)
        page = as_page(rows, limit, DatasetSummary.model_validate)
        if page.next_cursor is None and last is not None:
            return page.model_copy(update={"next_cursor": Cursor(last.created_at, last.id).encode()})
        return page

    async def correct(self, project_id: str, dataset_id: str, kinds: dict[str, Kind]) -> Dataset:
        """Change what columns are taken for, by reading the upload once more.

        Raises
        ------
        DatasetNotFound
            If there is none of this id.
        DatasetUsed
            If a job has used it, or somebody else has changed it meanwhile.
        InvalidRequest
            If it has no such column, or its columns have no kinds.
        UnreadableDataset
            If a value does not fit the new kind of its column.
        """
        row = await self._streams.run(self._unused, project_id, dataset_id)
        if row.layout != "table":
            raise InvalidRequest.of("body.columns", "the columns of a sparse matrix are numbers and cannot be changed")
        options = row.options | {"columns": row.options.get("columns", {}) | kinds}
        columnar_key = f"columnar/{new_id('blob')}"
        kept = False
        try:
            result, columnar_sha256 = await self._read(
                project_id, row.blob_key, row.format, options, columnar_key, where="body", sha256=row.sha256
            )
            changes = {
                "columns": result.columns,
                "warnings": result.warnings,
                "left_out": result.left_out,
                "options": options,
                "columnar_key": columnar_key,
                "columnar_sha256": columnar_sha256,
            }
            dataset = await self._streams.run(self._change, row, changes)
            kept = True
            return dataset
        finally:
            if not kept:
                await asyncio.shield(self._streams.run(self._blobs.discard, columnar_key))

    def _unused(self, project_id: str, dataset_id: str) -> DatasetRow:
        with self._database.transaction() as session:
            datasets = DatasetRepository(session, project_id)
            row = datasets.lock_for_delete(dataset_id)
            if datasets.is_used(dataset_id):
                raise DatasetUsed("a job has used this data set; upload it again to read it in another way")
            return row

    def _change(self, read: DatasetRow, changes: dict[str, Any]) -> Dataset:
        """Put another reading in the place of the one that `read` shows."""
        with self._database.transaction() as session:
            datasets = DatasetRepository(session, read.project_id)
            row = datasets.lock_for_delete(read.id)
            if row.columnar_key != read.columnar_key or datasets.is_used(read.id):
                raise DatasetUsed("the data set was used or changed meanwhile; look at it again")
            for name, value in changes.items():
                setattr(row, name, value)
            session.flush()
            changed = _dataset(_told(datasets, row.id))
        self._blobs.discard(read.columnar_key)
        return changed

    def delete(self, project_id: str, dataset_id: str) -> None:
        """Delete a data set and its bytes. Jobs and models that came from it stay.

        Raises
        ------
        DatasetNotFound
            If there is none of this id.
        DatasetInUse
            If a job that has not ended reads it.
        """
        with self._database.transaction() as session:
            datasets = DatasetRepository(session, project_id)
            row = datasets.lock_for_delete(dataset_id)
            job = datasets.job_that_reads(dataset_id)
            audit = None if job is None else datasets.audit_of(job)
            if audit is not None:
                raise DatasetInUse(
                    f"{audit} draws its rows from it: wait until they are drawn, or delete the audit (DELETE "
                    f"/audits/{audit}), and then delete the data set again"
                )
            if job is not None:
                raise DatasetInUse(
                    f"{job} has not ended and reads it: wait, or cancel it (POST /jobs/{job}/cancel; of a batch "
                    f"POST /batches/{job}/cancel), and then delete the data set again"
                )
            datasets.delete(row.id)
        self._blobs.discard(row.blob_key, row.columnar_key)

    async def _store(self, upload: Upload, key: str) -> _Stored:
        """Write an upload to the blob store as it arrives."""
        limit = self._settings.max_upload_bytes
        too_large = UploadTooLarge(f"an upload may have at most {limit} bytes")
        if upload.declared_bytes is not None and upload.declared_bytes > limit + MAX_SURROUNDINGS:
            raise too_large
        with full_storage_told():
            async with self._streams.writer(key) as out:
                async for chunk in upload.chunks():
                    if out.bytes + len(chunk) > limit:
                        raise too_large
                    await out.write(chunk)
        return _Stored(out.bytes, out.sha256)

    async def _read(
        self,
        project_id: str,
        upload_key: str,
        format_: str,
        options: dict[str, Any],
        columnar_key: str,
        *,
        where: str,
        sha256: str | None = None,
    ) -> tuple[IngestResult, str]:
        """Have an upload read in a child process, and store what it made of it; also return the checksum of that.

        With `sha256`, bytes that have changed since they arrived are refused as `DamagedDataset`.
        """
        opened = ExitStack()
        async with self._readers.slot(project_id):
            try:
                with full_storage_told():
                    folder = await self._streams.run(opened.enter_context, self._blobs.scratch())
                    path = await self._streams.run(opened.enter_context, self._blobs.local_path(upload_key))
                    if sha256 is not None and await self._streams.run(_sha256, path) != sha256:
                        raise DamagedDataset("the stored upload is not what was sent; upload the file again")
                    output = folder / "columnar"
                    result = await self._ingest(path, format_, options, output)
                    digest = await self._streams.run(_sha256, output)
                    await self._streams.run(self._blobs.put_file, columnar_key, output)
                    return result, digest
            except IngestError as error:
                raise _refused(error, where) from None
            except BlobNotFoundError:
                raise DamagedDataset("the stored upload is gone; upload the file again") from None
            finally:
                await asyncio.shield(self._streams.run(opened.close))

    async def _ingest(self, path: Path, format_: str, options: dict[str, Any], output: Path) -> IngestResult:
        """Read an upload, once more where something from outside has ended the reader."""
        with suppress(ReadingChildKilledError):
            return await ingest(self._settings, path, format_, options, output=output)
        try:
            return await ingest(self._settings, path, format_, options, output=output)
        except ReadingChildKilledError:
            raise ReaderLost("the process that read the upload was killed twice; the machine may lack memory") from None

    def _find_earlier(self, project_id: str, key: str | None, asked: Any) -> Dataset | None:
        """Return the data set that this key made before, so that its copy need not be read."""
        with self._database.transaction() as session:
            made = idempotency.find(session, project_id, OPERATION, key, asked)
            return None if made is None else _existing(DatasetRepository(session, project_id), made)

    def check_details(self, details: UploadDetails) -> None:
        """Refuse a name, format or options that cannot be used; raises `InvalidRequest`."""
        _name(details)
        try:
            parse_options(_format(details), details.options)
        except IngestError as error:
            raise _refused(error, details.where) from None

    def check_room(self, project_id: str, size: int) -> None:
        """Refuse an upload before it is read, if it could not be kept."""
        with self._database.transaction() as session:
            QuotaRepository(session, project_id).make_room_for_bytes(max(size, 0))

    def _save(self, row: DatasetRow, key: str | None, asked: Any, room: int) -> Dataset:
        """Insert the row, for which the project needs so much room, or return the data set of an equal request.

        The blobs of the row are deleted unless it is there. If the answer to the COMMIT is lost, it may be.
        """
        kept = inserted = False
        try:
            with self._database.transaction() as session:
                datasets = DatasetRepository(session, row.project_id)
                made = idempotency.claim(session, row.project_id, OPERATION, key, asked, row.id)
                if made is not None:
                    return _existing(datasets, made)
                QuotaRepository(session, row.project_id).make_room_for_bytes(room)
                datasets.insert(row)
                saved = _dataset(_told(datasets, row.id))
                inserted = True
                fault("upload_before_commit")
            fault("upload_after_commit")
            kept = True
            return saved
        finally:
            if not kept and not (inserted and self._may_be_there(row)):
                self._blobs.discard(row.blob_key, row.columnar_key)

    def _may_be_there(self, row: DatasetRow) -> bool:
        """Tell whether a data set was saved after all; True if the database cannot be asked."""
        try:
            with self._database.transaction() as session:
                return DatasetRepository(session, row.project_id).is_there_for_good(row.id)
        except AWAY:
            logger.warning("blobs may be left behind", extra={"fields": {"dataset": row.id}})
            return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _told(datasets: DatasetRepository, dataset_id: str, first_column: int = 0, most: int = MOST_TOLD) -> Row[Any]:
    found = datasets.profile(dataset_id, first_column, most)
    if found is None:
        raise DatasetNotFound
    return found


def _dataset(row: Row[Any]) -> Dataset:
    return Dataset(**{name: getattr(row, name) for name in Dataset.model_fields})


def _fitting(session: Session, project_id: str, model: str) -> ColumnElement[bool]:
    """Return the condition of data sets whose rows a model can decide on."""
    models = ModelRepository(session, project_id)
    try:
        shape = models.shape(models.id_of(model))
    except ModelNotFound:
        raise InvalidRequest.of("query.fits", "there is no such model") from None
    return with_columns(None if shape.width is not None else [column["name"] for column in shape.columns])


def _existing(datasets: DatasetRepository, dataset_id: str) -> Dataset:
    return _dataset(idempotency.existing(datasets.profile(dataset_id, 0, MOST_TOLD), "data set"))


def _name(details: UploadDetails) -> str:
    if details.name is not None:
        name = unicodedata.normalize("NFC", details.name).strip()
        if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise InvalidRequest.of(
                f"{details.where}.name", f"should be 1 to {MAX_NAME_LENGTH} characters without control characters"
            )
        return name
    base = (details.filename or "").replace("\\", "/").rpartition("/")[2]
    kept = "".join(character for character in unicodedata.normalize("NFC", base) if character.isprintable())
    return kept.strip()[:MAX_NAME_LENGTH] or "upload"


def _format(details: UploadDetails) -> str:
    if details.format is not None:
        if details.format not in FORMATS:
            raise InvalidRequest.of(f"{details.where}.format", f"should be one of {', '.join(FORMATS)}")
        return details.format
    guessed = guess_format(details.filename or details.name, details.media_type)
    if guessed is None:
        reason = "cannot be told from the file name or Content-Type"
        raise InvalidRequest.of(f"{details.where}.format", f"{reason}; send one of {', '.join(FORMATS)}")
    return guessed


def _refused(error: IngestError, where: str) -> Problem:
    if error.code == "bad_option":
        return InvalidRequest.of(f"{where}.options", error.message)
    if error.code == "storage_full":
        return StorageFull(error.message)
    place = {"line": error.line, "column": error.column}
    known = {name: value for name, value in place.items() if value is not None}
    return UnreadableDataset(error.message, extensions={"code": error.code, **known})
