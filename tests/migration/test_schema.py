"""The migrations build exactly the tables of `service.db.tables`, go down again, and run one at a time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from service.db import migrate
from service.db.tables import Base


@pytest.fixture
def engine(empty_database_url: str):
    engine = create_engine(empty_database_url, poolclass=NullPool)
    yield engine
    engine.dispose()


def test_up_gives_the_tables_of_the_code(engine, empty_database_url):
    migrate.upgrade(empty_database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        assert migrate.current(connection) == migrate.head()


def test_down_leaves_nothing_and_up_works_again(engine, empty_database_url):
    migrate.upgrade(empty_database_url)
    migrate.downgrade(empty_database_url, "base")
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    with engine.connect() as connection:
        assert migrate.current(connection) is None
    migrate.upgrade(empty_database_url)
    assert set(Base.metadata.tables) <= set(inspect(engine).get_table_names())


def test_three_replicas_at_once(engine, empty_database_url):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: migrate.upgrade(empty_database_url), range(3)))
    with engine.connect() as connection:
        assert migrate.current(connection) == migrate.head()
        locks = connection.execute(text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")).scalar_one()
        assert locks == 0


def test_a_kill_in_the_middle_leaves_a_whole_revision(engine, empty_database_url):
    # The process dies, without a word to Postgres, after the first migration has made its tables and before it commits.
    killed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys\n"
            "from sqlalchemy import event\n"
            "from sqlalchemy.engine import Engine\n"
            "from service.db import migrate\n"
            "@event.listens_for(Engine, 'after_cursor_execute')\n"
            "def die(connection, cursor, statement, *rest):\n"
            "    if 'CREATE TABLE model_chunks' in statement:\n"
            "        os._exit(9)\n"
            "migrate.upgrade(sys.argv[1])\n",
            empty_database_url,
        ],
        check=False,
        timeout=60,
    )
    assert killed.returncode == 9
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    migrate.upgrade(empty_database_url)
    with engine.connect() as connection:
        assert migrate.current(connection) == migrate.head()


def test_rows_that_break_the_rules_are_refused(engine, empty_database_url):
    migrate.upgrade(empty_database_url)
    columns = "INSERT INTO jobs (project_id, id, max_attempts, request, max_seconds"
    values = "VALUES ('prj_0', 'j', 3, '{}', 1"
    wrong = [
        f"{columns}, status) {values}, 'lost')",
        # running without a lease, and finished without a time
        f"{columns}, status) {values}, 'running')",
        f"{columns}, status) {values}, 'succeeded')",
        f"{columns}, progress) {values}, 1.5)",
    ]
    for statement in wrong:
        with pytest.raises(Exception, match="violates check constraint"), engine.begin() as connection:
            connection.execute(text(statement))
