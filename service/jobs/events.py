"""How events of a job are written; ``feed.py`` reads them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, insert
from sqlalchemy.orm import Session

from service.db.tables import JobEventRow
from service.jobs.doorbell import CHANNEL
from service.webhooks.outbox import announce_end


def add_event(
    session: Session, job_id: str, attempt: int, kind: str, data: dict[str, Any], *, wake: bool = False
) -> None:
    """Write an event; with `wake` the dispatcher is woken, too, when this transaction commits."""
    event = insert(JobEventRow).values(job_id=job_id, attempt=attempt, kind=kind, data=data)
    session.execute(event.returning(func.pg_notify(CHANNEL, "")) if wake else event)
    if kind == "finished":
        announce_end(session, job_id, data["status"])
