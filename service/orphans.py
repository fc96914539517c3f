"""Deletes blobs that no row names: what a process left that was killed between writing a blob and its row."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import islice
from uuid import UUID

from sqlalchemy import text

from service.blobs.store import BlobStore
from service.db.session import AWAY, Database, trouble_of
from service.identifiers import is_id

FOLDERS = ("uploads", "columnar", "parts", "batches")
AT_ONCE = 500

log = logging.getLogger("prefsvm.retention")

NAMED = text(
    """
    SELECT blob_key FROM datasets WHERE blob_key = ANY(:keys)
     UNION ALL SELECT columnar_key FROM datasets WHERE columnar_key = ANY(:keys)
     UNION ALL SELECT blob_key FROM upload_parts WHERE blob_key = ANY(:keys)
     UNION ALL SELECT result ->> 'blob_key' FROM jobs WHERE result ->> 'blob_key' = ANY(:keys)
    """
)


class OrphanSweeper:
    """Looks through the blob store.

    Parameters
    ----------
    database : Database
    blobs : BlobStore
    older_than_seconds : float
        Younger blobs stay: their row may be about to be written. Choose more than the longest upload takes.
    """

    def __init__(self, database: Database, blobs: BlobStore, older_than_seconds: float) -> None:
        self._database = database
        self._blobs = blobs
        self._seconds = older_than_seconds

    def sweep(self) -> int:
        """Delete old blobs without a row, and return how many; none if Postgres is away."""
        deleted = 0
        try:
            for folder in FOLDERS:
                old = self._old_keys(folder)
                while keys := list(islice(old, AT_ONCE)):
                    with self._database.transaction() as session:
                        named = set(session.scalars(NAMED, {"keys": keys}))
                    for key in set(keys) - named:
                        self._blobs.delete(key)
                        deleted += 1
        except AWAY as error:
            log.warning(trouble_of(error))
        if deleted:
            log.info("deleted blobs without a row", extra={"fields": {"blobs": deleted}})
        return deleted

    def _old_keys(self, folder: str) -> Iterator[str]:
        oldest = time.time() - self._seconds
        for key in self._blobs.keys(folder):
            name = key.rpartition("/")[2]
            # Ids begin with the time at which they were made, and a blob is never written twice.
            if is_id(name, "blob") and (UUID(name.removeprefix("blob_")).int >> 80) / 1000 < oldest:
                yield key
