"""Which workers live, and what they compute: so that one can share a job's parts with others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from service.db.tables import WorkerRow

FORGET_LEASES = 20
"""A worker that has not been seen for so many leases is forgotten."""


@dataclass(frozen=True)
class Worker:
    """A worker process as others see it."""

    id: str
    slots: int
    numerics: str


def lives(lease_seconds: float) -> ColumnElement[bool]:
    """Tell whether a worker was seen within a lease."""
    # Nobody has been seen in the future: there the clock has gone back, and whoever lives says so again soon.
    return WorkerRow.seen_at.between(func.now() - timedelta(seconds=lease_seconds), func.now())


@dataclass(frozen=True)
class WorkerRegistry:
    """The list of the workers that live.

    Parameters
    ----------
    lease_seconds : float
        Whoever was not seen for this long does not live any more, as far as others know.
    """

    lease_seconds: float

    def say_alive(self, session: Session, worker: Worker) -> None:
        """Note that a worker lives; forget those that have not done so for long."""
        values = vars(worker) | {"seen_at": func.now()}
        session.execute(upsert(WorkerRow).values(**values).on_conflict_do_update(index_elements=["id"], set_=values))
        long_ago = func.now() - timedelta(seconds=FORGET_LEASES * self.lease_seconds)
        forgotten = or_(
            WorkerRow.seen_at < long_ago, WorkerRow.seen_at > func.now() + timedelta(seconds=self.lease_seconds)
        )
        session.execute(delete(WorkerRow).where(forgotten))

    def say_gone(self, session: Session, worker_id: str) -> None:
        """Note that a worker shuts down."""
        session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id))

    def others(self, session: Session, worker: Worker) -> int:
        """Return how many other workers live that compute the same bits."""
        statement = select(func.count()).select_from(WorkerRow)
        same = (WorkerRow.id != worker.id, WorkerRow.numerics == worker.numerics, lives(self.lease_seconds))
        return int(session.scalar(statement.where(*same)) or 0)
