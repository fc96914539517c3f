"""All SQL about resumable uploads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Update, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from service.datasets.errors import UploadNotFound
from service.db.repository import ResourceRepository
from service.db.tables import ProjectRow, UploadPartRow, UploadRow


class UploadRepository(ResourceRepository[UploadRow]):
    """Resumable uploads of one project, in the transaction of `session`; those that have expired are not there."""

    table = UploadRow
    prefix = "up"
    not_found = UploadNotFound

    def begin(self, row: UploadRow, lifetime: timedelta) -> UploadRow:
        """Insert an upload that expires after `lifetime`."""
        row.expires_at = self._session.execute(select(func.now() + lifetime)).scalar_one()
        return self.add(row)

    def lock_and_count_unfinished(self) -> int:
        """Count the uploads that wait for more; nobody else who does can add one before this transaction ends."""
        project = select(ProjectRow.id).where(ProjectRow.id == self._project_id)
        self._session.execute(project.with_for_update(key_share=True))
        statement = select(func.count()).where(self._mine(), UploadRow.status == "receiving")
        return self._session.scalar(statement) or 0

    def add_part(self, upload_id: str, position: int, size: int, blob_key: str, lifetime: timedelta) -> bool:
        """Append a part, unless the upload does not end at `position`; tell whether it was appended."""
        end = UploadRow.received + size
        added = self._changes_one(
            self._update(upload_id)
            .where(
                UploadRow.status == "receiving",
                UploadRow.received == position,
                end <= UploadRow.bytes,
            )
            .values(received=end, expires_at=func.now() + lifetime)
        )
        if added:
            self._session.add(UploadPartRow(upload_id=upload_id, position=position, bytes=size, blob_key=blob_key))
        return added

    def complete(self, upload_id: str) -> None:
        """Say that the last byte has arrived, if it has."""
        self._session.execute(
            self._update(upload_id)
            .where(
                UploadRow.status == "receiving",
                UploadRow.received == UploadRow.bytes,
            )
            .values(status="received")
        )

    def renew(self, upload_id: str, lease: timedelta) -> bool:
        """Keep other processes from reading an upload for a while; with a lease of 0, let them have it.

        Tells whether the upload is still there.
        """
        return self._changes_one(self._update(upload_id).values(claimed_until=func.now() + lease))

    def parts(self, upload_id: str) -> Sequence[str]:
        """Return the keys of the parts in order."""
        statement = select(UploadPartRow.blob_key).where(UploadPartRow.upload_id == upload_id)
        return self._session.scalars(statement.order_by(UploadPartRow.position)).all()

    def finish(self, upload_id: str, lifetime: timedelta, **values: Any) -> Sequence[str] | None:
        """Note how the reading has ended, and give up the parts; returns their keys, or None without an upload."""
        end = self._update(upload_id).values(claimed_until=None, expires_at=func.now() + lifetime, **values)
        return self._delete_parts(upload_id) if self._changes_one(end) else None

    def lock(self, upload_id: str) -> UploadRow:
        """Return an upload that nobody else can change before this transaction ends; raises `UploadNotFound`."""
        return self.found(self._find(upload_id, {}))

    def delete_with_parts(self, upload_id: str) -> Sequence[str]:
        """Delete an upload, expired or not, and return the keys of its parts."""
        keys = self._delete_parts(upload_id)
        self._session.execute(delete(UploadRow).where(super()._mine(upload_id)))
        return keys

    def _mine(self, row_id: str | None = None) -> ColumnElement[bool]:
        return and_(super()._mine(row_id), _is_kept())

    def _update(self, upload_id: str) -> Update:
        return update(UploadRow).where(super()._mine(upload_id))

    def _delete_parts(self, upload_id: str) -> Sequence[str]:
        parts = delete(UploadPartRow).where(UploadPartRow.upload_id == upload_id)
        return self._session.scalars(parts.returning(UploadPartRow.blob_key)).all()


class UploadQueue:
    """Uploads of all projects that wait for a process to work on them, in the transaction of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def next_received(self, lease: timedelta) -> UploadRow | None:
        """Lock and return an upload that is complete and that no living process reads.

        A claim for longer than `lease`, which they are made for, is of a clock that has gone back. It is cut to that.
        """
        ahead = (UploadRow.status == "received", UploadRow.claimed_until > func.now() + lease)
        cut = update(UploadRow).where(*ahead).values(claimed_until=func.now() + lease)
        self._session.execute(cut.execution_options(synchronize_session=False))
        return self._session.scalar(
            select(UploadRow)
            .where(
                UploadRow.status == "received",
                or_(UploadRow.claimed_until.is_(None), UploadRow.claimed_until < func.now()),
            )
            .order_by(UploadRow.created_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )

    def expired(self) -> Sequence[UploadRow]:
        """Lock and return uploads whose time is over."""
        return self._session.scalars(
            select(UploadRow)
            .where(UploadRow.expires_at <= func.now(), UploadRow.status != "received")
            .limit(100)
            .with_for_update(skip_locked=True)
        ).all()


def _is_kept() -> ColumnElement[bool]:
    """Return the condition that an upload has not expired; one that is complete stays until it was read."""
    return or_(UploadRow.expires_at > func.now(), UploadRow.status == "received")
