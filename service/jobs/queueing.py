"""How a job of any kind comes into the queue."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.access.repository import QuotaRepository
from service.db.tables import JobRow
from service.faults import fault
from service.jobs.repository import JobRepository


def put_in_queue(session: Session, job: JobRow) -> JobRow:
    """Insert a job into its project's queue.

    Raises
    ------
    QueueFull, StorageQuotaExceeded
        If the project has used up its limits.
    """
    quota = QuotaRepository(session, job.project_id)
    quota.make_room_in_queue()
    quota.make_room_for_bytes(0)
    queued = JobRepository(session, job.project_id).enqueue(job)
    fault("accept_before_commit")
    return queued
