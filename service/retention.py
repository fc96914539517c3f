"""Deletes what is older than its owner wants to keep: nothing unless a setting says so, but old idempotency keys.

Every API process runs a `Keeper`; an advisory lock of Postgres lets one of them work at a time.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Protocol, cast

from anyio import sleep, to_thread
from sqlalchemy import CursorResult, text

from service.blobs.store import BlobStore
from service.db.session import AWAY, Database, trouble_of
from service.settings import Settings

log = logging.getLogger("prefsvm.retention")

LOCK = text("SELECT pg_try_advisory_xact_lock(hashtext('prefsvm.retention'))")

# What a statement returns are the keys of the blobs that go with its rows.
EVENTS = text(
    """
    DELETE FROM job_events USING jobs
     WHERE jobs.id = job_events.job_id AND jobs.finished_at < now() - CAST(:age AS interval)
    """
)
MODELS = text(
    """
    DELETE FROM models
     WHERE created_at < now() - CAST(:age AS interval)
       AND NOT EXISTS (SELECT FROM aliases WHERE models.id IN (aliases.model_id, aliases.shadow_id))
       AND NOT EXISTS (
             SELECT FROM audits
              WHERE audits.project_id = models.project_id AND audits.model_id = models.id
                AND audits.answered > 0 AND audits.sealed_at IS NULL)
    """
)
AUDITS = text(
    """
    DELETE FROM audits
     WHERE created_at < now() - CAST(:age AS interval) AND (sealed_at IS NOT NULL OR answered = 0)
    """
)
JOBS = text("DELETE FROM jobs WHERE finished_at < now() - CAST(:age AS interval) RETURNING result ->> 'blob_key'")
DATASETS = text(
    """
    DELETE FROM datasets
     WHERE created_at < now() - CAST(:age AS interval)
       AND NOT EXISTS (
             SELECT FROM jobs
              WHERE datasets.id IN (jobs.dataset_id, jobs.labels_dataset_id)
                AND (jobs.finished_at IS NULL OR jobs.finished_at >= now() - CAST(:age AS interval)))
    RETURNING blob_key, columnar_key
    """
)
VECTORS = text("DELETE FROM text_vectors WHERE used_at < now() - CAST(:age AS interval)")
FEEDBACK = text(
    """
    DELETE FROM feedback
     WHERE created_at < now() - CAST(:age AS interval)
       AND NOT EXISTS (
             SELECT FROM jobs
              WHERE jobs.project_id = feedback.project_id AND jobs.status IN ('queued', 'running')
                AND jobs.feedback_until >= feedback.seq AND jobs.request ->> 'alias' = feedback.alias)
    """
)
FEEDBACK_LOCK = text(
    """
    SELECT FROM aliases
     WHERE EXISTS (
             SELECT FROM feedback
              WHERE feedback.project_id = aliases.project_id AND feedback.alias = aliases.name
                AND feedback.created_at < now() - CAST(:age AS interval))
     ORDER BY project_id, name
       FOR UPDATE
    """
)
"""Before old feedback is deleted, see `service.feedback.repository.FeedbackRepository.keep`."""
IDEMPOTENCY_KEYS = text("DELETE FROM idempotency_keys WHERE created_at < now() - CAST(:age AS interval)")


class Keeper:
    """Applies the ``retain_…_days`` of the settings.

    Parameters
    ----------
    settings : Settings
    database : Database
    blobs : BlobStore
        Where the bytes of data sets are.
    """

    def __init__(self, settings: Settings, database: Database, blobs: BlobStore) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs

    def sweep(self) -> dict[str, int]:
        """Delete what is too old, unless another process is at it or Postgres is away.

        Returns
        -------
        dict
            How many rows of each kind were deleted; kinds with none are left out.
        """
        settings = self._settings
        # Models before the jobs that made them, data sets after the jobs that used them, and last what others wait for.
        rules = (
            ("events", EVENTS, settings.retain_events_days),
            ("audits", AUDITS, settings.retain_jobs_days),
            ("models", MODELS, settings.retain_models_days),
            ("jobs", JOBS, settings.retain_jobs_days),
            ("datasets", DATASETS, settings.retain_datasets_days),
            ("text_vectors", VECTORS, settings.retain_datasets_days),
            ("idempotency_keys", IDEMPOTENCY_KEYS, settings.retain_idempotency_keys_days),
            ("feedback", FEEDBACK, settings.retain_feedback_days),
        )
        deleted: dict[str, int] = {}
        blobs: list[str] = []
        try:
            with self._database.transaction() as session:
                if not session.scalar(LOCK):
                    return {}
                for kind, statement, days in rules:
                    if days is None:
                        continue
                    age = {"age": timedelta(days=days)}
                    if statement is FEEDBACK:
                        session.execute(FEEDBACK_LOCK, age)
                    result = cast(CursorResult[Any], session.execute(statement, age))
                    gone = result.all() if result.returns_rows else []
                    blobs += [key for row in gone for key in row if key is not None]
                    count = len(gone) if result.returns_rows else result.rowcount
                    if count:
                        deleted[kind] = count
        except AWAY as error:
            log.warning(trouble_of(error))
            return {}
        # After the commit: bytes without a row cost space, a row without its bytes would be a lie.
        self._blobs.discard(*blobs)
        if deleted:
            log.info("deleted what was too old", extra={"fields": deleted})
        return deleted


class Sweeper(Protocol):
    """Something that looks for what can go."""

    def sweep(self) -> object:
        """Look once."""


async def sweep_forever(keeper: Sweeper, seconds: float) -> None:
    """Sweep now and every `seconds`, until cancelled."""
    while True:
        try:
            await to_thread.run_sync(keeper.sweep, abandon_on_cancel=True)
        except Exception:
            log.exception("nothing was deleted")  # a defect here must not end the API
        await sleep(seconds)
