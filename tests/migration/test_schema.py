"""The migrations build exactly the tables of `service.db.tables`, go down again, and run one at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

import migrations
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


def test_the_newest_revision_is_known_without_alembic():
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert migrate.head() == ScriptDirectory.from_config(config).get_current_head()


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


def test_a_migration_gives_way_to_whoever_is_at_work(engine, empty_database_url):
    migrate.upgrade(empty_database_url)
    with ThreadPoolExecutor(1) as pool, engine.connect() as busy, engine.connect() as other:
        busy.execute(text("SELECT count(*) FROM aliases"))  # a transaction that holds the table until it ends
        migration = pool.submit(migrate.downgrade, empty_database_url, "0001")
        other.execute(text("SET lock_timeout = '2s'"))
        for _ in range(10):  # gets its turn, though the migration waits for the same table
            time.sleep(0.1)
            other.execute(text("SELECT count(*) FROM aliases"))
            other.commit()
        assert not migration.done()
        busy.commit()
        migration.result(30)
        assert migrate.current(other) == "0001"


KILL_AT_STATEMENT = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from service.db import migrate
left = int(sys.argv[2])
@event.listens_for(Engine, 'after_cursor_execute')
def die(connection, cursor, statement, *rest):
    global left
    if statement.lstrip().split()[0] in ('CREATE', 'ALTER', 'INSERT', 'UPDATE', 'DROP', 'DELETE'):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
migrate.upgrade(sys.argv[1])
"""


def migrating(url: str, killed_at: int) -> subprocess.Popen[bytes]:
    """Start a process that migrates and kills itself after so many statements that change something."""
    return subprocess.Popen([sys.executable, "-c", KILL_AT_STATEMENT, url, str(killed_at)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_at_any_step_leaves_what_can_be_brought_up(engine, empty_database_url):
    known = {path.name[:4] for path in Path(migrations.__file__).parent.joinpath("versions").glob("0*.py")}
    place, kills = 1, 0
    while migrating(empty_database_url, place).wait(60) != 0:
        kills += 1
        with engine.connect() as connection:
            assert migrate.current(connection) in {None, *known}
        place += 2
        migrate.downgrade(empty_database_url, "base")
    assert kills > 20
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.slow
def test_of_three_replicas_one_is_killed_in_the_middle(engine, empty_database_url):
    replicas = [migrating(empty_database_url, killed_at) for killed_at in (12, 10**9, 10**9)]
    statuses = [replica.wait(90) for replica in replicas]
    # The one that is to be killed may have come last and found nothing to do.
    assert statuses[0] in (-signal.SIGKILL, 0)
    assert statuses[1:] == [0, 0]
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


def test_who_refers_to_a_data_set_is_found_by_an_index(engine, empty_database_url):
    """Else each data set that is deleted has all jobs of all projects read, by the foreign key's own check."""
    migrate.upgrade(empty_database_url)
    referring = [
        (table.name, constraint.column_keys[0])
        for table in Base.metadata.sorted_tables
        for constraint in table.foreign_key_constraints
        if constraint.referred_table.name == "datasets"
    ]
    assert len(referring) >= 4
    with engine.connect() as connection:
        connection.execute(text("SET enable_seqscan = off"))
        connection.execute(text("SET enable_bitmapscan = off"))
        for table, column in referring:
            plan = connection.execute(text(f"EXPLAIN SELECT 1 FROM {table} WHERE {column} = 'ds_1'"))
            assert f"Index Cond: ({column} = " in "\n".join(row[0] for row in plan), (table, column)
