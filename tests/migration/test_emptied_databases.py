"""What one test leaves in its database the next one doesn't find, although it may get the same files."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from databases import Databases

from service.db.tables import DEFAULT_PROJECT
from service.local.servers import PostgresServer


@pytest.fixture
def own(postgres_server: PostgresServer) -> Iterator[Databases]:
    opened = Databases(postgres_server)
    yield opened
    opened.close()


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def files_of(connection: psycopg.Connection) -> int:
    """Return what its folder is called, whatever it is called itself."""
    found = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert found is not None
    return int(found[0])


ALL = "SELECT id, name, (SELECT count(*) FROM alias_changes), nextval('alias_changes_id_seq') FROM projects ORDER BY id"
CHANGED = """
UPDATE projects SET name = 'other';
INSERT INTO projects (id, name) VALUES ('prj_1', 'one');
INSERT INTO alias_changes (project_id, name, model_id) VALUES ('prj_1', 'a', 'b');
"""


def test_rows_counters_and_connections_are_gone_and_what_the_template_has_is_back(own: Databases) -> None:
    with own.one() as first:
        left_open = connect(first)
        before = left_open.execute(ALL).fetchall()
        left_open.execute(CHANGED)
        assert left_open.execute(ALL).fetchall() != before
        files = files_of(left_open)
    with pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    left_open.close()
    with own.one() as second, connect(second) as connection:
        assert files_of(connection) == files
        assert connection.execute(ALL).fetchall() == before
        assert before[0][0] == DEFAULT_PROJECT
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        connect(first)


SIZES = """
SELECT relname, relpages, reltuples, pg_relation_size(oid) FROM pg_class WHERE oid >= 16384 AND relkind = 'r' ORDER BY 1
"""


def test_queries_are_planned_as_in_a_new_one(own: Databases) -> None:
    """Where a table is known to be empty, rows that came since are looked for one after another: a model took 30 s."""
    with own.one() as first, connect(first) as connection:
        before, files = connection.execute(SIZES).fetchall(), files_of(connection)
        connection.execute(CHANGED)
    with own.one() as second, connect(second) as connection:
        assert files_of(connection) == files
        assert connection.execute(SIZES).fetchall() == before


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE jobs RENAME TO hidden",
        "ALTER TABLE jobs ALTER COLUMN status SET DEFAULT 'x'",
        "ALTER TABLE jobs DROP COLUMN status CASCADE",
        "CREATE TABLE other (id int)",
        "CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "REVOKE SELECT ON jobs FROM prefsvm_api",
        "DROP POLICY of_project ON models",
    ],
)
def test_one_whose_tables_or_rights_were_changed_is_no_longer_used(own: Databases, change: str) -> None:
    with own.one() as first, connect(first) as connection:
        connection.execute(change)  # type: ignore[arg-type]
        files = files_of(connection)
    with own.one() as second, connect(second) as connection:
        assert files_of(connection) != files
