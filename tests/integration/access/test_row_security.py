"""The second wall: what Postgres itself shows and allows the roles that the processes work as.

The tests go through all tables there are. One that is new fails them until its migration calls
``migrations.row_security.protect`` and ``service/db/roles.py`` says who may do what with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from access_support import make_tenant
from api_support import api_client, store_model
from database_roles import as_api
from psycopg.errors import InsufficientPrivilege
from psycopg.types.json import Jsonb
from sqlalchemy import text

from service.db import roles
from service.db.session import Database, acting_for
from service.db.tables import DEFAULT_PROJECT, Base, ModelRow
from service.local.servers import ROLE
from service.models.repository import ModelRepository

OTHER = "prj_" + 32 * "1"
NAMES = {DEFAULT_PROJECT: "ours", OTHER: "theirs"}
"""Project to the ids of its rows."""
OF_NO_PROJECT = {"workers"}
"""Tables that hold nothing of users'."""
TABLES = {table.name: table for table in Base.metadata.sorted_tables if table.name not in OF_NO_PROJECT}
VALUES = {
    "text": "'x'",
    "jsonb": "'{}'",
    "bigint": "1",
    "integer": "1",
    "double precision": "1",
    "bytea": "decode(repeat('00', 32), 'hex')",
    "timestamp with time zone": "now()",
    "date": "current_date",
    "boolean": "false",
}
CHOICES = {("datasets", "layout"): "'table'"}
"""Where a constraint wants another value than that of the type."""
Connect = Callable[..., "contextmanager[psycopg.Connection]"]


def fill(owner: psycopg.Connection) -> None:
    """Put one row of each project into each table, parents first."""
    for project, name in NAMES.items():
        for table in TABLES.values():
            if (table.name, project) == ("projects", DEFAULT_PROJECT):
                continue  # it is there from the start
            required = owner.execute(
                "SELECT column_name, data_type FROM information_schema.columns"
                " WHERE table_name = %s AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'",
                (table.name,),
            ).fetchall()
            given = {}
            for column, kind in required:
                if column == "project_id" or (table.name, column) == ("projects", "id"):
                    given[column] = f"'{project}'"
                elif column in ("id", "name") or table.columns[column].foreign_keys:
                    given[column] = f"'{name}'"
                else:
                    given[column] = CHOICES.get((table.name, column), VALUES[kind])
            owner.execute(f"INSERT INTO {table.name} ({', '.join(given)}) VALUES ({', '.join(given.values())})")


@pytest.fixture
def connect(postgres_server, database_url: str) -> Connect:
    """Connect as a role to a database with a row of each of two projects in every table; nothing done there lasts."""
    name = database_url.partition("?")[0].rpartition("/")[2]

    @contextmanager
    def as_role(role: str, project: str | None = None) -> Iterator[psycopg.Connection]:
        address = postgres_server.url(name, role).replace("+psycopg", "")
        with closing(psycopg.connect(address)) as connection:
            if project is not None:
                act_for(connection, project)
            yield connection

    with as_role("postgres") as superuser:
        roles.make(superuser, ROLE)  # rights to a database are not copied with it
        superuser.commit()
    with as_role(ROLE) as owner:
        fill(owner)
        owner.commit()
    return as_role


def act_for(connection: psycopg.Connection, project: str) -> None:
    connection.execute("SELECT set_config('prefsvm.project', %s, true)", (project,))


def rows(connection: psycopg.Connection, table: str) -> list[dict]:
    return [row for (row,) in connection.execute(f"SELECT to_jsonb(t) FROM {table} t")]


def allowed(connection: psycopg.Connection, statement: str) -> bool:
    """Tell whether the role may do something; what it did is undone."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)
    except InsufficientPrivilege:
        return False
    return True


def test_every_table_shows_the_rows_of_one_project_only(connect):
    with connect(ROLE) as owner:
        both = {table: rows(owner, table) for table in TABLES}
    assert {table: len(found) for table, found in both.items()} == dict.fromkeys(TABLES, 2)
    with connect(roles.API) as connection:
        assert {table: rows(connection, table) for table in TABLES} == {table: [] for table in TABLES}
    for project in NAMES:
        with connect(roles.API, project) as connection:
            shown = {table: rows(connection, table) for table in TABLES}
            assert [table for table, found in shown.items() if len(found) != 1] == []
            # The end of the transaction ends what was said for it.
            connection.commit()
            assert rows(connection, "models") == []
        for table, (row,) in shown.items():
            assert row.get("project_id", project) == project
            for column in TABLES[table].columns:
                if column.foreign_keys and column.name != "project_id" and row[column.name] is not None:
                    assert row[column.name] == NAMES[project]
            both[table].remove(row)
    assert both == {table: [] for table in TABLES}


def test_rows_of_another_project_cannot_be_changed_deleted_or_made(connect):
    writable = [table for table in TABLES if roles.RIGHTS[table][roles.API] == roles.ALL]
    assert len(writable) > 10
    with connect(roles.API, OTHER) as connection:
        theirs = {table: rows(connection, table)[0] for table in TABLES}
    for table in writable:
        copy = f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_record(NULL::{table}, %s)"
        with connect(roles.API, DEFAULT_PROJECT) as connection:
            # The wall is asked before the primary key, which is taken.
            with pytest.raises(InsufficientPrivilege, match="row-level security"), connection.transaction():
                connection.execute(copy, (Jsonb(theirs[table]),))
            if "project_id" in TABLES[table].columns:
                with pytest.raises(InsufficientPrivilege, match="row-level security"), connection.transaction():
                    connection.execute(f"UPDATE {table} SET project_id = '{OTHER}'")
            last = list(TABLES[table].columns)[-1].name
            assert connection.execute(f"UPDATE {table} SET {last} = {last}").rowcount == 1
            those = (f"DELETE FROM {table} WHERE to_jsonb({table}) = %s", (Jsonb(theirs[table]),))
            assert connection.execute(*those).rowcount == 0


def test_each_role_may_do_what_is_listed_and_no_more(connect):
    assert set(roles.RIGHTS) == {*TABLES, *OF_NO_PROJECT, "alembic_version"}, (
        "say in service/db/roles.py who may do what with a table"
    )
    for role in roles.ROLES:
        with connect(role) as connection:
            found = {
                (table, right)
                for table in roles.RIGHTS
                for right in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
                if connection.execute("SELECT has_table_privilege(%s, %s)", (table, right)).fetchone()[0]
            }
            listed = {
                (table, right.strip())
                for table, rights in roles.RIGHTS.items()
                for right in rights.get(role, "").split(",")
                if right.strip() and "(" not in right and ")" not in right
            }
            assert found == listed
            for statement in (
                "CREATE TABLE new (id int)",
                "CREATE TEMPORARY TABLE new (id int)",
                "CREATE SCHEMA new",
                "CREATE FUNCTION new() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "ALTER TABLE models ADD COLUMN new int",
                "ALTER TABLE models DISABLE ROW LEVEL SECURITY",
                "CREATE POLICY new ON models USING (true)",
                "DROP POLICY of_project ON models",
                "DROP TABLE models",
                "TRUNCATE models",
                "CREATE ROLE new",
                "SET ROLE prefsvm",
                "COPY models TO PROGRAM 'cat'",
            ):
                assert not allowed(connection, statement), f"{role}: {statement}"


def test_workers_cannot_read_keys_nor_the_secrets_of_webhooks(connect):
    with connect(roles.WORKER) as worker:
        assert len(rows(worker, "jobs")) == 2
        assert not allowed(worker, "SELECT id FROM api_keys")
        assert not allowed(worker, "UPDATE api_keys SET revoked_at = NULL")
        assert not allowed(worker, "SELECT secret FROM webhooks")
        assert allowed(worker, "SELECT id FROM webhooks")
        # To lock a project is not to change its limits.
        assert allowed(worker, "SELECT id FROM projects FOR NO KEY UPDATE")
        assert not allowed(worker, "UPDATE projects SET limits = '{}'")


def test_roles_for_all_projects_see_all_that_they_may_see(connect):
    for role in roles.FOR_ALL_PROJECTS:
        with connect(role) as connection:
            for table in TABLES:
                if roles.RIGHTS[table].get(role, "").startswith("SELECT,") or roles.RIGHTS[table].get(role) == "SELECT":
                    assert len(rows(connection, table)) == 2, (role, table)


def test_a_transaction_is_for_the_project_that_is_acted_for(postgres_server, connect, database_url):
    name = database_url.partition("?")[0].rpartition("/")[2]
    database = Database(postgres_server.url(name, roles.API), one_project=True)
    models = text("SELECT id FROM models")
    try:
        with pytest.raises(RuntimeError, match="acting_for"), database.transaction():
            pass
        for project in (DEFAULT_PROJECT, OTHER, DEFAULT_PROJECT):
            with acting_for(project), database.transaction() as session:
                assert session.scalars(models).all() == [NAMES[project]]
        with acting_for("it's \\nobody"), database.transaction() as session:
            assert session.scalars(models).all() == []
        # A connection that broke while nobody used it is no error; the pool looks at it before.
        with connect("postgres") as superuser:
            superuser.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'prefsvm_api'")
        with acting_for(OTHER), database.transaction() as session:
            assert session.scalars(models).all() == ["theirs"]
    finally:
        database.close()


def test_a_query_that_forgets_the_project_finds_nothing_of_others(settings, database, tmp_path, monkeypatch):
    monkeypatch.setattr(ModelRepository, "_is", lambda _, model_id: ModelRow.id == model_id)
    theirs, asking = make_tenant(database, "theirs"), make_tenant(database, "asking")
    model = store_model(database, tmp_path, project_id=theirs.project_id)
    with api_client(settings, keys_required=True) as client:
        assert client.get(f"/models/{model}", headers=theirs.headers()).status_code == 200
        assert client.get(f"/models/{model}", headers=asking.headers()).status_code == 404
        assert client.delete(f"/models/{model}", headers=asking.headers()).status_code == 404
        assert client.get(f"/models/{model}", headers=theirs.headers()).status_code == 200
    # What is lost where there is one role only: it owns the tables, and Postgres holds nothing back from it.
    with api_client(settings, keys_required=True, database_url=settings.database_url) as client:
        assert client.get(f"/models/{model}", headers=asking.headers()).status_code == 200


def test_readiness_says_when_the_role_for_all_projects_is_missing(settings):
    url = as_api(settings)["database_url"]
    with api_client(settings, database_url=url, system_database_url=None) as client:
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "PREFSVM_SYSTEM_DATABASE_URL" in answer.text
