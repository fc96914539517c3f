"""All SQL about jobs that the API runs. The worker's half, with the lease, is in ``claims.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import BigInteger, Table, Text, and_, func, insert, literal, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session, defer

from service.db.repository import Repository
from service.db.tables import AliasRow, JobEventRow, JobRow, ModelRow
from service.jobs.doorbell import CHANNEL
from service.paging import page_of
from service.schemas import is_alias
from service.webhooks.outbox import announce_end


class JobRepository(Repository):
    """Jobs of one project, in the transaction of `session`."""

    def enqueue(self, job: JobRow) -> JobRow:
        """Insert a queued job with its first event, and wake the dispatcher when the transaction commits."""
        # Returned as the database has it: whoever asks twice gets the same bytes.
        jobs, events = cast("Table", JobRow.__table__), cast("Table", JobEventRow.__table__)
        given = {name: value for name, value in vars(job).items() if name in jobs.columns}
        row = self._session.execute(insert(jobs).values(given).returning(*jobs.columns)).one()
        queued = insert(events).values(job_id=row.id, attempt=0, kind="queued", data={})
        self._session.execute(queued.returning(func.pg_notify(CHANNEL, "")))
        return JobRow(**row._mapping)

    def get(self, job_id: str) -> tuple[JobRow, str | None] | None:
        """Return a job and the id of the model that it made."""
        found = self._session.execute(self._with_model().where(JobRow.id == job_id)).one_or_none()
        return None if found is None else (found[0], found[1])

    def behind_alias(self, name: str) -> tuple[str, JobRow | None] | None:
        """Return the model of an alias and the training that made it, None for one that was deleted."""
        statement = (
            select(AliasRow.model_id, JobRow)
            .select_from(AliasRow)
            .join(ModelRow, and_(ModelRow.project_id == AliasRow.project_id, ModelRow.id == AliasRow.model_id))
            .outerjoin(JobRow, and_(JobRow.project_id == AliasRow.project_id, JobRow.id == ModelRow.job_id))
            .where(AliasRow.project_id == self._project_id, AliasRow.name == name)
        )
        found = self._session.execute(statement).one_or_none() if is_alias(name) else None
        return None if found is None else (found[0], found[1])

    def list(self, status: str | None, cursor: str | None, limit: int) -> Sequence[tuple[JobRow, str | None, Any]]:
        """Return up to ``limit + 1`` jobs with their models and requests, newest first.

        Features, which may name thousands of columns, are left out of the requests.
        """
        statement = self._with_model().options(defer(JobRow.request, raiseload=True))
        statement = statement.add_columns(JobRow.request.op("-")("features"))
        if status is not None:
            statement = statement.where(JobRow.status == status)
        rows = self._session.execute(page_of(statement, JobRow, cursor, limit))
        return [(row[0], row[1], row[2]) for row in rows]

    def events(self, job_id: str, after: int, limit: int, *, newest: bool = False) -> Sequence[JobEventRow]:
        """Return up to `limit` events with a larger id than `after`, the oldest or the newest ones; oldest first."""
        statement = (
            select(JobEventRow)
            .join(JobRow, JobRow.id == JobEventRow.job_id)
            .where(JobRow.project_id == self._project_id, JobRow.id == job_id, JobEventRow.id > after)
        )
        if newest:
            return self._session.scalars(statement.order_by(JobEventRow.id.desc()).limit(limit)).all()[::-1]
        return self._session.scalars(statement.order_by(JobEventRow.id).limit(limit)).all()

    def last_event(self, job_id: str) -> JobEventRow | None:
        """Return the newest event of a job."""
        statement = (
            select(JobEventRow)
            .join(JobRow, JobRow.id == JobEventRow.job_id)
            .where(JobRow.project_id == self._project_id, JobRow.id == job_id)
        )
        return self._session.scalar(statement.order_by(JobEventRow.id.desc()).limit(1))

    def exists(self, job_id: str) -> bool:
        """Tell whether there is such a job."""
        mine = (JobRow.project_id == self._project_id, JobRow.kind == "train")
        statement = select(JobRow.id).where(*mine, JobRow.id == job_id)
        return self._session.scalar(statement) is not None

    def of_another_kind(self, job_id: str) -> tuple[str, str | None] | None:
        """Return kind and audit of a job that is no training, or None."""
        mine = (JobRow.project_id == self._project_id, JobRow.kind != "train")
        statement = select(JobRow.kind, JobRow.request["audit"].astext).where(*mine, JobRow.id == job_id)
        found = self._session.execute(statement).one_or_none()
        return None if found is None else (found[0], found[1])

    def cancel(self, job_id: str, *, keep_best: bool) -> bool:
        """Cancel a job or batch that waits or runs; False if it has ended."""
        # Queued is asked twice: between the two looks a lost job may have come back into the queue.
        done = self.cancel_queued(job_id) or self.ask_running_to_cancel(job_id, keep_best)
        return done or self.cancel_queued(job_id)

    def cancel_queued(self, job_id: str) -> bool:
        """End a job that no worker has; False if it is not in the queue."""
        return self._cancel(
            update(JobRow)
            .where(JobRow.project_id == self._project_id, JobRow.id == job_id, JobRow.status == "queued")
            .values(status="cancelled", cancel_requested_at=func.now(), finished_at=func.now()),
            kind="finished",
            data={"status": "cancelled"},
        )

    def ask_running_to_cancel(self, job_id: str, keep_best: bool) -> bool:
        """Leave word for the worker, which reads it with its next heartbeat; False if the job is not running.

        The first request says when; a later one without `keep_best` may still turn a soft stop into a hard one.
        """
        return self._cancel(
            update(JobRow)
            .where(JobRow.project_id == self._project_id, JobRow.id == job_id, JobRow.status == "running")
            .values(
                cancel_requested_at=func.coalesce(JobRow.cancel_requested_at, func.now()), cancel_keep_best=keep_best
            ),
            kind="cancelling",
            data={"keep_best": keep_best},
        )

    def _cancel(self, statement: Any, *, kind: str, data: dict[str, Any]) -> bool:
        changed = self._session.execute(statement.returning(JobRow.id, JobRow.attempt)).one_or_none()
        if changed is None:
            return False
        self._session.add(JobEventRow(job_id=changed.id, attempt=changed.attempt, kind=kind, data=data))
        self._session.flush()
        if kind == "finished":
            announce_end(self._session, changed.id, data["status"], self._project_id)
        return True

    def _with_model(self) -> Any:
        statement = select(JobRow, ModelRow.id).outerjoin(ModelRow, ModelRow.job_id == JobRow.id)
        return statement.where(JobRow.project_id == self._project_id, JobRow.kind == "train")


def events_after(session: Session, after: Mapping[str, int], limit: int) -> Sequence[JobEventRow]:
    """Return events of several jobs, of each those with a larger id than `after` says, oldest first.

    Who asks must have seen to it that the jobs may be seen.
    """
    wanted = select(
        func.unnest(literal(list(after), ARRAY(Text))).label("job_id"),
        func.unnest(literal(list(after.values()), ARRAY(BigInteger))).label("after"),
    ).subquery()
    statement = (
        select(JobEventRow)
        .join(wanted, and_(wanted.c.job_id == JobEventRow.job_id, JobEventRow.id > wanted.c.after))
        .order_by(JobEventRow.id)
        .limit(limit)
    )
    return session.scalars(statement).all()
