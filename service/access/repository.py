"""All SQL about keys, projects and their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, delete, extract, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased

from service.access.errors import KeyNotFound, QueueFull, StorageQuotaExceeded
from service.access.keys import is_key_id
from service.db.repository import Repository, ResourceRepository
from service.db.tables import (
    ApiKeyRow,
    AuditRow,
    DatasetRow,
    FeedbackRow,
    JobRow,
    ModelRow,
    ProjectRow,
    SessionRow,
    UploadRow,
)
from service.paging import page_of


@dataclass(frozen=True, slots=True)
class LiveKey:
    """What a request with a key is checked against."""

    id: str
    project_id: str
    secret_sha256: bytes
    scopes: Sequence[Any]
    seconds_left: float | None
    """Until it expires, by the clock of the database; None: never."""
    limits: dict[str, Any]
    """Those of its project."""


class KeyDirectory:
    """Keys of all projects, for telling who calls; in the transaction of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def live(self, key_id: str) -> LiveKey | None:
        """Return a key that is neither revoked nor expired."""
        statement = select(
            ApiKeyRow.id,
            ApiKeyRow.project_id,
            ApiKeyRow.secret_sha256,
            ApiKeyRow.scopes,
            extract("epoch", ApiKeyRow.expires_at - func.now()),
            ProjectRow.limits,
        ).join(ProjectRow, ProjectRow.id == ApiKeyRow.project_id)
        found = self._session.execute(statement.where(ApiKeyRow.id == key_id, _is_live())).one_or_none()
        if found is None:
            return None
        seconds_left = None if found[4] is None else float(found[4])
        return LiveKey(found[0], found[1], found[2], found[3], seconds_left, found[5])

    def note_use(self, key_id: str) -> None:
        """Write down that a key was used, at most once a minute."""
        minute = func.date_trunc("minute", func.now())
        stale = or_(ApiKeyRow.last_used_at.is_(None), ApiKeyRow.last_used_at < minute)
        # In its first minute, a key was not used before it was made.
        values = {"last_used_at": func.greatest(minute, ApiKeyRow.created_at)}
        self._session.execute(update(ApiKeyRow).where(ApiKeyRow.id == key_id, stale).values(values))

    def any_admin(self) -> bool:
        """Tell whether anybody holds a live key with the scope admin."""
        statement = select(ApiKeyRow.id).where(_is_live(), ApiKeyRow.scopes.contains(["admin"]))
        return self._session.scalar(statement.limit(1)) is not None


class SessionDirectory:
    """Sessions of all projects, for telling who calls; in the transaction of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, session_id: str, project_id: str, key_id: str, seconds: float) -> None:
        """Insert a session that lasts so long, and delete those that have ended."""
        self._session.execute(delete(SessionRow).where(SessionRow.expires_at <= func.now()))
        end = func.now() + timedelta(seconds=seconds)
        values = {"id": session_id, "project_id": project_id, "key_id": key_id, "expires_at": end}
        self._session.execute(insert(SessionRow).values(values))

    def key_of(self, session_id: str) -> str | None:
        """Return the id of the key that a session began with; None if there is none, or it has ended."""
        lasts = SessionRow.expires_at > func.now()
        return self._session.scalar(select(SessionRow.key_id).where(SessionRow.id == session_id, lasts))

    def delete(self, session_id: str) -> None:
        """End a session."""
        self._session.execute(delete(SessionRow).where(SessionRow.id == session_id))

    def delete_of_key(self, key_id: str) -> None:
        """End all sessions that began with a key."""
        self._session.execute(delete(SessionRow).where(SessionRow.key_id == key_id))


class KeyRepository(ResourceRepository[ApiKeyRow]):
    """Keys of one project, in the transaction of `session`."""

    table = ApiKeyRow
    not_found = KeyNotFound

    def lock(self, key_id: str) -> tuple[ApiKeyRow, bool]:
        """Return a key that nobody else can change before this transaction ends, and whether it is live.

        Raises
        ------
        KeyNotFound
        """
        statement = select(ApiKeyRow, _is_live()).where(self._mine(key_id)).with_for_update()
        found = self._session.execute(statement).one_or_none() if self._may_be(key_id) else None
        if found is None:
            raise KeyNotFound
        return found[0], found[1]

    def expire_within(self, key_id: str, seconds: float) -> None:
        """Let a key expire after this time, if it would not before."""
        end = func.now() + timedelta(seconds=seconds)
        values = {"expires_at": func.least(func.coalesce(ApiKeyRow.expires_at, end), end)}
        self._session.execute(update(ApiKeyRow).where(self._mine(key_id)).values(values))

    def revoke(self, key_id: str) -> bool:
        """Revoke a key; the first time counts. False if there is none."""
        values = {"revoked_at": func.coalesce(ApiKeyRow.revoked_at, func.now())}
        revoked = update(ApiKeyRow).where(self._mine(key_id)).values(values)
        return self._may_be(key_id) and self._changes_one(revoked)

    def _may_be(self, row_id: str) -> bool:
        return is_key_id(row_id)


class ProjectRepository:
    """Projects, in the transaction of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, project_id: str, name: str, limits: dict[str, Any]) -> ProjectRow | None:
        """Insert a project; None if another has the name."""
        made = insert(ProjectRow).values(id=project_id, name=name, limits=limits).on_conflict_do_nothing()
        return self._session.scalars(made.returning(ProjectRow)).one_or_none()

    def get(self, project_id: str) -> ProjectRow | None:
        """Return a project."""
        return self._session.get(ProjectRow, project_id)

    def list(self, cursor: str | None, limit: int) -> Sequence[ProjectRow]:
        """Return up to ``limit + 1`` projects, newest first."""
        return self._session.scalars(page_of(select(ProjectRow), ProjectRow, cursor, limit)).all()

    def set_limits(self, project_id: str, limits: dict[str, Any]) -> ProjectRow | None:
        """Replace the limits of a project; None if there is none."""
        changed = update(ProjectRow).where(ProjectRow.id == project_id).values(limits=limits).returning(ProjectRow)
        return self._session.scalars(changed).one_or_none()


class QuotaRepository(Repository):
    """What one project uses of what it may, in the transaction of `session`.

    Where there is a limit the checks lock the row of the project: of two transactions that would both still fit, the
    second waits for the first to end and then counts what that has added.

    Parameters
    ----------
    session : Session
    project_id : str
    limits : mapping, optional
        Those of the project, where this transaction has read them; otherwise they are read when first needed.
    """

    def __init__(self, session: Session, project_id: str, limits: Mapping[str, Any] | None = None) -> None:
        super().__init__(session, project_id)
        self._limits = limits
        self._is_locked = False

    def queued_jobs(self) -> int:
        """Count the jobs that wait."""
        return self._count_jobs("queued")

    def running_jobs(self) -> int:
        """Count the jobs that run."""
        return self._count_jobs("running")

    def stored_bytes(self) -> int:
        """Add up data sets, models, results of batches, rows of feedback and audits, and uploads in parts as wholes."""
        uploads = select(func.coalesce(func.sum(DatasetRow.bytes), 0)).where(DatasetRow.project_id == self._project_id)
        models = select(func.coalesce(func.sum(ModelRow.bytes), 0)).where(ModelRow.project_id == self._project_id)
        arriving = select(func.coalesce(func.sum(UploadRow.bytes), 0)).where(
            UploadRow.project_id == self._project_id,
            or_(
                and_(UploadRow.status == "receiving", UploadRow.expires_at > func.now()),
                UploadRow.status == "received",
            ),
        )
        results = select(func.coalesce(func.sum(JobRow.result["bytes"].astext.cast(BigInteger)), 0)).where(
            JobRow.project_id == self._project_id, JobRow.result.is_not(None)
        )
        feedback = select(func.coalesce(func.sum(FeedbackRow.bytes), 0)).where(
            FeedbackRow.project_id == self._project_id
        )
        audits = select(func.coalesce(func.sum(AuditRow.bytes), 0)).where(AuditRow.project_id == self._project_id)
        parts = (uploads, arriving, models, results, feedback, audits)
        return sum(int(self._session.scalar(part) or 0) for part in parts)

    def make_room_in_queue(self) -> None:
        """Let this transaction insert one queued job.

        Raises
        ------
        QueueFull
            If as many wait as the project's limits allow.
        """
        limit = self._locked_limit("queued_jobs")
        if limit is not None and self.queued_jobs() >= limit:
            raise QueueFull(f"the project may have {limit} jobs in the queue; wait for one to start, or cancel one")

    def make_room_for_bytes(self, size: int) -> None:
        """Let this transaction store `size` bytes more, or with 0 only if there is room left.

        Raises
        ------
        StorageQuotaExceeded
            If the project would then store more than its limits allow.
        """
        limit = self._locked_limit("stored_bytes")
        if limit is not None and self.stored_bytes() + size > limit:
            raise StorageQuotaExceeded(
                f"the project may store {limit} bytes, and this would be more; delete data sets, models or unfinished "
                "uploads"
            )

    def make_room_to_run(self) -> bool:
        """Tell whether one of the project's jobs may start to run in this transaction."""
        limit = self._locked_limit("running_jobs")
        return limit is None or self.running_jobs() < limit

    def _locked_limit(self, name: str) -> int | None:
        statement = select(ProjectRow.limits).where(ProjectRow.id == self._project_id)
        if self._limits is None:
            self._limits = self._session.execute(statement).scalar_one()
        limit: int | None = self._limits.get(name)
        if limit is not None and not self._is_locked:
            self._session.execute(statement.with_for_update(key_share=True))
            self._is_locked = True
        return limit

    def _count_jobs(self, status: str) -> int:
        statement = select(func.count()).where(JobRow.project_id == self._project_id, JobRow.status == status)
        return self._session.execute(statement).scalar_one()


def may_run() -> ColumnElement[bool]:
    """Return the condition on a query of projects that one more of their jobs may run."""
    running = aliased(JobRow)
    count = select(func.count()).where(running.project_id == ProjectRow.id, running.status == "running")
    limit = ProjectRow.limits["running_jobs"].astext.cast(BigInteger)
    return or_(limit.is_(None), limit > count.correlate(ProjectRow).scalar_subquery())


def _is_live() -> ColumnElement[bool]:
    unexpired = or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now())
    return and_(ApiKeyRow.revoked_at.is_(None), unexpired)
