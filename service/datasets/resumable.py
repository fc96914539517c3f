"""Uploads that arrive in parts and go on after either side was lost.

What arrives is cut into blobs of some MiB. A blob counts from the moment at which a transaction has moved `received`
of its upload beyond it, so nothing that was acknowledged is lost, and nothing counts twice. A complete upload waits in
the database until some process has read it; one that dies while it reads is followed by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from anyio import CancelScope

from service.access.repository import QuotaRepository
from service.blobs.store import BlobStore
from service.blobs.streams import BlobStreams
from service.datasets.errors import (
    DatasetInUse,
    DatasetNotFound,
    TooManyUploads,
    UploadConflict,
    UploadNotFound,
    UploadTooLarge,
    full_storage_told,
)
from service.datasets.repository import DatasetRepository
from service.datasets.schemas import ResumableUpload, UploadStatus
from service.datasets.service import DatasetService, UploadDetails
from service.datasets.upload_repository import UploadQueue, UploadRepository
from service.db.session import AWAY, Database, acting_for, trouble_of
from service.db.tables import UploadRow
from service.errors import Problem
from service.identifiers import new_id
from service.paging import as_page
from service.schemas import Page
from service.settings import Settings

PART_BYTES = 16 << 20
"""What is lost at most when this process is killed while a part arrives."""
MAX_UNFINISHED = 100
"""Uploads of a project that wait for more."""
LEASE = timedelta(seconds=30)
RENEW_SECONDS = 10.0
LOOK_SECONDS = 5.0
"""How often the database is asked for uploads that nobody reads."""

logger = logging.getLogger("prefsvm.uploads")


class ResumableUploads:
    """Takes files in parts, and hands them to the data sets when they are complete.

    Parameters
    ----------
    database : Database
        Shows the project that is acted for.
    system : Database
        Shows all projects.
    blobs : BlobStore
    settings : Settings
    datasets : DatasetService
    """

    def __init__(
        self, database: Database, system: Database, blobs: BlobStore, settings: Settings, datasets: DatasetService
    ) -> None:
        self._database = database
        self._system = system
        self._blobs = blobs
        self._streams = BlobStreams(blobs)
        self._datasets = datasets
        self.max_bytes = settings.max_upload_bytes
        self._lifetime = timedelta(seconds=settings.upload_expire_seconds)
        self._arrived = asyncio.Event()

    def create(self, project_id: str, size: int, details: UploadDetails, metadata: dict[str, str]) -> ResumableUpload:
        """Begin an upload of `size` bytes; `metadata` is what `details` were read from.

        Raises
        ------
        InvalidRequest
            If name, format or options cannot be used.
        UploadTooLarge
        TooManyUploads
        StorageQuotaExceeded
        """
        if size > self.max_bytes:
            raise UploadTooLarge(f"an upload may have at most {self.max_bytes} bytes")
        self._datasets.check_details(details)
        with self._database.transaction() as session:
            QuotaRepository(session, project_id).make_room_for_bytes(size)
            uploads = UploadRepository(session, project_id)
            if uploads.lock_and_count_unfinished() >= MAX_UNFINISHED:
                raise TooManyUploads(
                    f"the project has {MAX_UNFINISHED} uploads that wait for more, as many as it may: see "
                    "GET /uploads?status=receiving, and go on with one of them, or DELETE what nobody will go on with"
                )
            kept = {**asdict(details), "metadata": metadata}
            row = UploadRow(id=new_id("up"), project_id=project_id, bytes=size, details=kept)
            made = _upload(uploads.begin(row, self._lifetime))
            uploads.complete(row.id)  # one without bytes
        if size == 0:
            self._arrived.set()
        return made

    def get(self, project_id: str, upload_id: str) -> ResumableUpload:
        """Return an upload; raises `UploadNotFound`."""
        with self._database.transaction() as session:
            return _upload(UploadRepository(session, project_id).require(upload_id))

    def list(
        self, project_id: str, status: UploadStatus | None, cursor: str | None, limit: int
    ) -> Page[ResumableUpload]:
        """Return a page of uploads, newest first."""
        with self._database.transaction() as session:
            rows = UploadRepository(session, project_id).list(cursor, limit, status=status)
        return as_page(rows, limit, _upload)

    async def append(
        self, project_id: str, upload_id: str, offset: int, chunks: AsyncIterator[bytes], declared: int | None
    ) -> ResumableUpload:
        """Take bytes from `offset` on, and keep those that have arrived whatever happens then.

        Raises
        ------
        UploadNotFound
            Also if it is deleted while bytes arrive.
        UploadConflict
            If the upload does not end at `offset`, or somebody else appends to it at the same time.
        UploadTooLarge
            If there are more bytes than the upload was said to have; those that fit may have been kept.
        StorageFull
            If there is no room for them.
        """
        with full_storage_told():
            return await self._append(project_id, upload_id, offset, chunks, declared)

    async def _append(
        self, project_id: str, upload_id: str, offset: int, chunks: AsyncIterator[bytes], declared: int | None
    ) -> ResumableUpload:
        upload = await self._streams.run(self.get, project_id, upload_id)
        if upload.status != "receiving" or upload.received != offset:
            raise UploadConflict(f"the next byte that the upload takes is at {upload.received}")
        room = upload.bytes - offset
        too_large = UploadTooLarge(f"the upload has {upload.bytes} bytes, of which {room} are missing")
        if declared is not None and declared > room:
            raise too_large
        at_end = False
        while not at_end:
            key = f"parts/{new_id('blob')}"
            lost: BaseException | None = None
            async with self._streams.writer(key) as out:
                try:
                    while out.bytes < PART_BYTES:
                        chunk = await anext(chunks, None)
                        if chunk is None:
                            at_end = True
                            break
                        if out.bytes + len(chunk) > room:
                            raise too_large
                        await out.write(chunk)
                except BaseException as error:  # the client has gone, or this process is asked to end
                    lost = error
            with CancelScope(shield=True):
                await self._streams.run(self._add_part, project_id, upload_id, offset, out.bytes, key)
            if lost is not None:
                raise lost
            offset += out.bytes
            room -= out.bytes
        return await self._streams.run(self._completed, project_id, upload_id)

    def _add_part(self, project_id: str, upload_id: str, offset: int, size: int, key: str) -> None:
        added = False
        try:
            if size:
                with self._database.transaction() as session:
                    uploads = UploadRepository(session, project_id)
                    added = uploads.add_part(upload_id, offset, size, key, self._lifetime)
                    is_there = added or uploads.get(upload_id) is not None
                if not is_there:
                    raise UploadNotFound("the upload was deleted, or has expired, while these bytes arrived")
                if not added:
                    raise UploadConflict("somebody else appends to this upload; ask for its offset")
        except AWAY:
            added = True  # maybe: the answer to the COMMIT may be lost. A blob that no row names is swept some day.
            raise
        finally:
            if not added:
                self._blobs.discard(key)

    def _completed(self, project_id: str, upload_id: str) -> ResumableUpload:
        with self._database.transaction() as session:
            UploadRepository(session, project_id).complete(upload_id)
        upload = self.get(project_id, upload_id)
        if upload.status == "received":
            self._arrived.set()
        return upload

    def delete(self, project_id: str, upload_id: str) -> None:
        """Throw an upload away, whatever happens to it at the moment. A data set that was made of it stays.

        Bytes that are on their way have nowhere to go then, and one that is being read becomes no data set.

        Raises
        ------
        UploadNotFound
        """
        with self._database.transaction() as session:
            uploads = UploadRepository(session, project_id)
            keys = uploads.delete_with_parts(uploads.lock(upload_id).id)
        self._blobs.discard(*keys)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def read_forever(self) -> None:
        """Make data sets of complete uploads, and throw expired ones away, until cancelled."""
        reading: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._arrived.clear()
                try:
                    self._blobs.discard(*await self._streams.run(self._delete_expired))
                    while (row := await self._streams.run(self._claim)) is not None:
                        with acting_for(row.project_id):
                            task = asyncio.create_task(self._read_claimed(row))
                        reading.add(task)
                        task.add_done_callback(reading.discard)
                except AWAY as error:
                    logger.warning(trouble_of(error))
                except Exception:
                    logger.exception("no upload was read")  # a defect here must not end the API
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), LOOK_SECONDS)
        finally:
            for task in reading:
                task.cancel()
            # Shielded: what cancels this goes on cancelling, and the loop must not close before their readers are gone.
            with CancelScope(shield=True):
                await asyncio.gather(*reading, return_exceptions=True)

    def _delete_expired(self) -> Sequence[str]:
        with self._system.transaction() as session:
            return [
                key
                for row in UploadQueue(session).expired()
                for key in UploadRepository(session, row.project_id).delete_with_parts(row.id)
            ]

    def _claim(self) -> UploadRow | None:
        with self._system.transaction() as session:
            row = UploadQueue(session).next_received(LEASE)
            if row is not None:
                UploadRepository(session, row.project_id).renew(row.id, LEASE)
            return row

    async def _read_claimed(self, row: UploadRow) -> None:
        """Read an upload that this process has claimed, and note how that ended."""
        reading = asyncio.create_task(self._read(row))
        ended: dict[str, Any] | None = None
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=RENEW_SECONDS)
                if not reading.done() and not await self._is_still_there(row):
                    reading.cancel()
            ended = None if reading.cancelled() else reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            with CancelScope(shield=True), contextlib.suppress(*AWAY):
                await self._streams.run(self._end, row, ended)

    async def _is_still_there(self, row: UploadRow) -> bool:
        """Keep an upload to this process for a while more, unless it was deleted."""
        try:
            return await self._streams.run(self._renew, row)
        except AWAY:
            return True  # nobody knows

    async def _read(self, row: UploadRow) -> dict[str, Any] | None:
        """Make a data set of an upload, and return how that ended; None: it is to be tried again."""
        try:
            keys = await self._streams.run(self._parts, row)
            # The key of the upload makes at most one data set, also if a process dies right after it has made it.
            dataset = await self._datasets.create(
                row.project_id, _UploadedParts(self._streams, keys, row), row.id, _never
            )
        except Problem as problem:
            # What is full or away now may be there later.
            return {"status": "failed", "error": _as_error(problem)} if problem.status < 500 else None
        except Exception:
            if await self._is_still_there(row):  # else its parts went away meanwhile
                logger.exception("an upload could not be read", extra={"fields": {"upload": row.id}})
            return None
        return {"status": "ready", "dataset_id": dataset.id}

    def _parts(self, row: UploadRow) -> Sequence[str]:
        with self._database.transaction() as session:
            return UploadRepository(session, row.project_id).parts(row.id)

    def _end(self, row: UploadRow, ended: dict[str, Any] | None) -> None:
        with self._database.transaction() as session:
            uploads = UploadRepository(session, row.project_id)
            if ended is None:
                uploads.renew(row.id, timedelta(0))
                return
            made = ended.get("dataset_id")
            if made is not None and DatasetRepository(session, row.project_id).lock_for_use(made) is None:
                ended["dataset_id"] = None  # somebody was quick to delete it
            keys = uploads.finish(row.id, self._lifetime, **ended)
        if keys is not None:
            self._blobs.discard(*keys)
        elif ended.get("dataset_id") is not None:  # deleted while it was read; a job that was quicker keeps it
            with contextlib.suppress(DatasetNotFound, DatasetInUse):
                self._datasets.delete(row.project_id, ended["dataset_id"])

    def _renew(self, row: UploadRow) -> bool:
        with self._database.transaction() as session:
            return UploadRepository(session, row.project_id).renew(row.id, LEASE)


class _UploadedParts:
    """A complete upload, as the data sets want it."""

    counts_as_stored = True

    def __init__(self, streams: BlobStreams, keys: Sequence[str], row: UploadRow) -> None:
        self.declared_bytes: int | None = row.bytes
        self._streams = streams
        self._keys = keys
        self._details = UploadDetails(**{name: value for name, value in row.details.items() if name != "metadata"})

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of all parts in order."""
        for key in self._keys:
            async for chunk in self._streams.read(key):
                yield chunk

    def details(self) -> UploadDetails:
        """Return what was said when the upload began."""
        return self._details


def _upload(row: UploadRow) -> ResumableUpload:
    shown = {name: getattr(row, name) for name in ResumableUpload.model_fields if name != "metadata"}
    return ResumableUpload(**shown, metadata=row.details.get("metadata", {}))


async def _never() -> None:
    """Nobody waits for the answer, so nobody can leave."""
    await asyncio.Event().wait()


def _as_error(problem: Problem) -> dict[str, Any]:
    errors = [{"field": each.field, "message": each.message} for each in problem.errors]
    shown = {"type": problem.type, "title": problem.title, "status": problem.status, "detail": problem.detail}
    return {**shown, "errors": errors, **problem.extensions}
