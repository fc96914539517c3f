"""What can be done with keys, projects and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from service.access.caller import Caller
from service.access.errors import Forbidden, KeyNotFound, KeyNotLive, ProjectExists, ProjectNotFound
from service.access.keys import ApiKey
from service.access.repository import KeyRepository, ProjectRepository, QuotaRepository
from service.access.schemas import (
    CreateKey,
    CreateProject,
    Key,
    Limits,
    LimitsAnswer,
    LimitsBody,
    NewKey,
    Project,
    Retention,
    Usage,
)
from service.db import idempotency
from service.db.session import Database
from service.db.tables import ApiKeyRow, ProjectRow
from service.errors import IdempotencyConflict
from service.identifiers import is_id, new_id
from service.paging import as_page
from service.schemas import Page


class _Administration:
    """What a caller may do with a project, and with others if he runs the installation.

    Parameters
    ----------
    database : Database
        Shows the caller's project.
    system : Database
        Shows all projects: for callers who run the installation.
    """

    def __init__(self, database: Database, system: Database) -> None:
        self._database = database
        self._system = system

    @contextmanager
    def _open_project(self, caller: Caller, project_id: str) -> Iterator[tuple[Session, ProjectRow]]:
        """Open a transaction with a project that the caller may see; raises `ProjectNotFound`."""
        database = self._system if caller.runs_installation else self._database
        with database.transaction() as session:
            may_see = is_id(project_id, "prj") and (caller.runs_installation or project_id == caller.project_id)
            row = ProjectRepository(session).get(project_id) if may_see else None
            if row is None:
                raise ProjectNotFound
            yield session, row


class KeyService(_Administration):
    """Makes, lists, rotates and revokes keys of the caller's project."""

    def create(self, caller: Caller, body: CreateKey, idempotency_key: str | None = None) -> NewKey:
        """Make a key; its text is in this answer and nowhere else.

        Raises
        ------
        ProjectNotFound
            If it is for a project that is not there, or not the caller's to manage.
        IdempotencyConflict
            If the `Idempotency-Key` came before.
        """
        project_id = caller.project_id if body.project is None else body.project
        expires_at = None
        if body.expires_in_days is not None:
            expires_at = datetime.now(UTC) + timedelta(days=body.expires_in_days)
        with self._open_project(caller, project_id) as (session, _):
            key = ApiKey.new()
            _claim(session, caller.project_id, "createKey", idempotency_key, body.model_dump(), key)
            scopes = sorted(set(body.scopes))
            return _add(KeyRepository(session, project_id), key, project_id, body.name, scopes, expires_at)

    def list(self, project_id: str, cursor: str | None, limit: int) -> Page[Key]:
        """Return a page of keys, newest first."""
        with self._database.transaction() as session:
            rows = KeyRepository(session, project_id).list(cursor, limit)
        return as_page(rows, limit, _key)

    def rotate(self, project_id: str, key_id: str, grace_seconds: float, idempotency_key: str | None = None) -> NewKey:
        """Make a key like another one, which then works for `grace_seconds` more.

        Raises
        ------
        KeyNotFound
            If the project has no such key.
        KeyNotLive
            If it was revoked or has expired.
        IdempotencyConflict
            If the `Idempotency-Key` came before.
        """
        key = ApiKey.new()
        with self._database.transaction() as session:
            keys = KeyRepository(session, project_id)
            row, live = keys.lock(key_id)
            asked = {"key": key_id, "grace_seconds": grace_seconds}
            _claim(session, project_id, "rotateKey", idempotency_key, asked, key)
            if not live:
                raise KeyNotLive("the key was revoked or has expired; make a new one")
            expires_at = None
            if row.expires_at is not None:
                expires_at = datetime.now(UTC) + (row.expires_at - row.created_at)
            made = _add(keys, key, project_id, row.name, row.scopes, expires_at)
            keys.expire_within(key_id, grace_seconds)
            return made

    def revoke(self, project_id: str, key_id: str) -> None:
        """End a key; requests with it are refused within 5 seconds. Raises `KeyNotFound`."""
        with self._database.transaction() as session:
            if not KeyRepository(session, project_id).revoke(key_id):
                raise KeyNotFound


class ProjectService(_Administration):
    """Shows projects, and lets admins of the default project make and limit them.

    Parameters
    ----------
    database, system : Database
        As for the keys.
    retention : Retention, optional
        How long the service keeps things; for ever by default.
    """

    def __init__(self, database: Database, system: Database, retention: Retention | None = None) -> None:
        super().__init__(database, system)
        self._retention = retention or Retention()

    def create(self, caller: Caller, body: CreateProject, idempotency_key: str | None = None) -> Project:
        """Make a project.

        Raises
        ------
        Forbidden
        ProjectExists
            If the name is taken.
        IdempotencyConflict
            If the key came before with another body.
        """
        _require_operator(caller)
        limits = (body.limits or LimitsBody()).model_dump()
        project_id = new_id("prj")
        with self._system.transaction() as session:
            projects = ProjectRepository(session)
            claimed = caller.project_id, "createProject", idempotency_key, body.model_dump()
            made = idempotency.claim(session, *claimed, project_id)
            # Nobody can delete a project.
            row = projects.add(project_id, body.name, limits) if made is None else projects.get(made)
        if row is None:
            raise ProjectExists("another project has this name")
        return _project(row)

    def get(self, caller: Caller, project_id: str) -> Project:
        """Return a project that the caller may see; raises `ProjectNotFound`."""
        with self._open_project(caller, project_id) as (_, row):
            return _project(row)

    def list(self, caller: Caller, cursor: str | None, limit: int) -> Page[Project]:
        """Return a page of the projects that the caller may see, newest first."""
        if not caller.runs_installation:
            return Page(items=[self.get(caller, caller.project_id)], next_cursor=None)
        with self._system.transaction() as session:
            rows = ProjectRepository(session).list(cursor, limit)
        return as_page(rows, limit, _project)

    def change(self, caller: Caller, project_id: str, limits: LimitsBody) -> Project:
        """Replace the limits of a project; raises `Forbidden` or `ProjectNotFound`."""
        _require_operator(caller)
        known = is_id(project_id, "prj")
        with self._system.transaction() as session:
            row = ProjectRepository(session).set_limits(project_id, limits.model_dump()) if known else None
        if row is None:
            raise ProjectNotFound
        return _project(row)

    def limits(self, project_id: str) -> LimitsAnswer:
        """Return what a project may use and what it uses."""
        with self._database.transaction() as session:
            project = ProjectRepository(session).get(project_id)
            if project is None:
                raise ProjectNotFound
            quota = QuotaRepository(session, project_id)
            usage = Usage(
                queued_jobs=quota.queued_jobs(), running_jobs=quota.running_jobs(), stored_bytes=quota.stored_bytes()
            )
        limits = Limits(**project.limits)
        return LimitsAnswer(project_id=project_id, limits=limits, usage=usage, retention=self._retention)


def _claim(
    session: Session, project_id: str, operation: str, idempotency_key: str | None, request: dict[str, Any], key: ApiKey
) -> None:
    """Tie an `Idempotency-Key` to a new key; the text of one that it has made before is nowhere to be had."""
    made = idempotency.claim(session, project_id, operation, idempotency_key, request, key.id)
    if made is not None:
        raise IdempotencyConflict(
            f"this Idempotency-Key has made the key {made}, which cannot be shown again; revoke that one if nobody has "
            "it, and use a new Idempotency-Key"
        )


def _add(
    keys: KeyRepository,
    key: ApiKey,
    project_id: str,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
) -> NewKey:
    row = keys.add(
        ApiKeyRow(
            id=key.id,
            project_id=project_id,
            name=name,
            secret_sha256=key.sha256,
            scopes=list(scopes),
            expires_at=expires_at,
        )
    )
    return NewKey(**_key(row).model_dump(), key=key.text)


def _key(row: ApiKeyRow) -> Key:
    return Key.model_validate(row, extra="ignore")


def _require_operator(caller: Caller) -> None:
    if not caller.runs_installation:
        raise Forbidden("only an admin of the default project may do this")


def _project(row: ProjectRow) -> Project:
    return Project(id=row.id, name=row.name, limits=Limits(**row.limits), created_at=row.created_at)
