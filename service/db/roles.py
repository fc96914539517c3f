"""The roles of Postgres that the processes of the product work as, and what each of them may do.

They are ordinary roles without a right of their own. Somebody with the right to do so makes them: the local stack for
itself, ``deploy/postgres/10-roles.sh`` for the compose file, an operator elsewhere. ``prefsvm migrate``, as the owner
of the tables, gives those that are there what is listed here. Where none is there, all processes work as the owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the supervisor of the local stack needs the names only, and stays small
    import psycopg
    from sqlalchemy.engine import Connection

API = "prefsvm_api"
"""What the API does for a caller. The policies of row level security show it one project at a time."""
SYSTEM = "prefsvm_system"
"""What the API does for no caller in particular, and for those who run the installation."""
DISPATCHER = "prefsvm_dispatcher"
"""The dispatcher, with the sender of webhooks."""
WORKER = "prefsvm_worker"
"""Workers. They have no business with keys."""
ROLES = (API, SYSTEM, DISPATCHER, WORKER)
FOR_ALL_PROJECTS = (SYSTEM, DISPATCHER, WORKER)
"""Roles that see the rows of all projects."""

ALL = "SELECT, INSERT, UPDATE, DELETE"
LOCK = "UPDATE (created_at)"
"""Who locks a row must have the right to change a column of it."""
LOCK_ALIAS = "UPDATE (updated_at)"

RIGHTS: dict[str, dict[str, str]] = {
    "alembic_version": {API: "SELECT", SYSTEM: "SELECT"},
    "projects": {
        API: f"SELECT, {LOCK}",
        SYSTEM: "SELECT, INSERT, UPDATE",
        DISPATCHER: "SELECT",
        WORKER: f"SELECT, {LOCK}",
    },
    "api_keys": {API: "SELECT, INSERT, UPDATE", SYSTEM: "SELECT, INSERT, UPDATE"},
    "sessions": {API: "SELECT", SYSTEM: "SELECT, INSERT, DELETE"},
    "datasets": {API: ALL, SYSTEM: "SELECT, DELETE", WORKER: "SELECT"},
    "uploads": {API: ALL, SYSTEM: "SELECT, UPDATE, DELETE"},
    "upload_parts": {API: ALL, SYSTEM: "SELECT, DELETE"},
    "jobs": {API: ALL, SYSTEM: "SELECT, DELETE", DISPATCHER: "SELECT, UPDATE", WORKER: "SELECT, UPDATE"},
    "job_events": {API: ALL, SYSTEM: "SELECT, DELETE", DISPATCHER: "SELECT, INSERT", WORKER: "SELECT, INSERT"},
    "job_parts": {API: "SELECT", DISPATCHER: "SELECT, UPDATE, DELETE", WORKER: ALL},
    "workers": {DISPATCHER: "SELECT", WORKER: ALL},
    "webhooks": {API: ALL, DISPATCHER: "SELECT", WORKER: "SELECT (id, project_id)"},
    "webhook_deliveries": {API: ALL, DISPATCHER: "SELECT, INSERT, UPDATE", WORKER: "SELECT, INSERT"},
    "models": {API: ALL, SYSTEM: "SELECT, DELETE", WORKER: "SELECT, INSERT, UPDATE"},
    "model_chunks": {API: "SELECT", WORKER: "SELECT, INSERT"},
    "model_statistics": {API: ALL},
    "text_encoders": {API: "SELECT", WORKER: f"SELECT, INSERT, DELETE, {LOCK}"},
    "text_vectors": {API: "SELECT", SYSTEM: "SELECT, DELETE", WORKER: ALL},
    "operating_points": {API: ALL, WORKER: "SELECT, INSERT"},
    "aliases": {API: ALL, SYSTEM: f"SELECT, {LOCK_ALIAS}", WORKER: "SELECT, INSERT, UPDATE"},
    "alias_changes": {API: ALL, WORKER: "SELECT, INSERT"},
    "feedback": {API: ALL, SYSTEM: "SELECT, DELETE", WORKER: "SELECT"},
    "audits": {API: ALL, SYSTEM: "SELECT, DELETE", WORKER: "SELECT, UPDATE"},
    "audit_rows": {API: ALL, WORKER: "SELECT, INSERT"},
    "shadow_statistics": {API: ALL, WORKER: "SELECT, INSERT, UPDATE"},
    "shadow_disagreements": {API: ALL},
    "idempotency_keys": {API: ALL, SYSTEM: "SELECT, INSERT, DELETE"},
}
"""Table to role to rights. What is deleted along with a row, by a foreign key, needs none."""

DRAW = {"alias_requests": (API,)}
"""Sequence to the roles that draw numbers from it."""


def make(superuser: psycopg.Connection, owner: str) -> None:
    """Make the roles that are missing, and leave nobody but the owner of a database the right to make tables in it.

    Parameters
    ----------
    superuser : psycopg.Connection
        To the database.
    owner : str
        Role that owns it.
    """
    with superuser.transaction():
        there = {name for (name,) in superuser.execute("SELECT rolname FROM pg_roles")}
        database = superuser.info.dbname
        statements = [f"CREATE ROLE {role} LOGIN" for role in ROLES if role not in there]
        statements += [
            f'REVOKE ALL ON DATABASE "{database}" FROM PUBLIC',
            f'GRANT CONNECT ON DATABASE "{database}" TO {", ".join(ROLES)}',
            "REVOKE ALL ON SCHEMA public FROM PUBLIC",
            f"GRANT CREATE, USAGE ON SCHEMA public TO {owner}",
            f"GRANT USAGE ON SCHEMA public TO {', '.join(ROLES)}",
        ]
        superuser.execute(";\n".join(statements).encode())


def grant(owner: Connection) -> None:
    """Give the roles that are there their rights to the tables that are there, and take from them all others.

    Parameters
    ----------
    owner : sqlalchemy.Connection
        As the owner of the tables; commits.
    """
    there = set(owner.exec_driver_sql("SELECT rolname FROM pg_roles").scalars())
    roles = [role for role in ROLES if role in there]
    if not roles:
        return
    tables = owner.exec_driver_sql(
        """
        SELECT c.relname, c.relrowsecurity, array_remove(array_agg(r.rolname::text), NULL)
          FROM pg_class c
          LEFT JOIN pg_policy p ON p.polrelid = c.oid AND p.polname = 'all_projects'
          LEFT JOIN pg_roles r ON r.oid = ANY(p.polroles)
         WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
         GROUP BY c.relname, c.relrowsecurity
        """
    ).all()
    statements = []
    for table, has_policies, seeing_all in tables:
        if table not in RIGHTS:
            continue
        statements.append(f"REVOKE ALL ON {table} FROM {', '.join(roles)}")
        rights = {role: rights for role, rights in RIGHTS[table].items() if role in roles}
        statements += [f"GRANT {rights} ON {table} TO {role}" for role, rights in rights.items()]
        see_all = [role for role in FOR_ALL_PROJECTS if role in rights]
        # To change a policy locks the table against everybody, and this runs at every start.
        if has_policies and set(see_all) != set(seeing_all):
            statements.append(f"DROP POLICY IF EXISTS all_projects ON {table}")
            if see_all:
                statements.append(f"CREATE POLICY all_projects ON {table} TO {', '.join(see_all)} USING (true)")
    for sequence, drawing in DRAW.items():
        if owner.exec_driver_sql("SELECT to_regclass(%s)", (sequence,)).scalar() is not None:
            statements += [f"GRANT USAGE ON SEQUENCE {sequence} TO {role}" for role in drawing if role in roles]
    owner.exec_driver_sql(";\n".join(statements))
    owner.commit()
