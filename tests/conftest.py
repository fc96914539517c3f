"""Real servers for all tests: one Postgres and one Valkey or Redis a session, one database a test.

Both end with pytest, even if it is killed: the kernel sends them their death signal.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import psycopg
import pytest
import redis
from databases import TEMPLATE, Databases
from examples import ALL, examples
from server_support import wait_ready

from service.db import migrate, roles
from service.db.session import Database
from service.local.servers import (
    ROLE,
    PostgresServer,
    RedisServer,
    postgres_account,
)
from service.settings import Settings

# jsonschema would build 38 grammars for addresses in other scripts, of which no schema of ours speaks: 1.5 s a process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# How long one example takes depends on what else the machine does; tests of speed measure it themselves. The quick
# tests try the same examples each time, as a run that is red shall say something of what was changed.
hypothesis.settings.register_profile("any machine", deadline=None, max_examples=examples(100), derandomize=not ALL)
hypothesis.settings.load_profile("any machine")

# Thousands of tests and their modules are made once and stay to the end. None of that is garbage while it is made, and
# Python need not look at it again and again afterwards: a third of what it took to collect the tests was that.
gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage only among what comes after the tests were collected."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    """Settings of the person who runs the tests must not reach them."""
    ours = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PREFSVM_")}
    kept = {name: value for name, value in ours.items() if name == "PREFSVM_SHARED_DATA"}
    os.environ.update(kept)
    yield
    os.environ.update(ours)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder with a short path (sockets need one) that nobody else can enter; in memory if there is room."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    folder = Path(tempfile.mkdtemp(prefix="prefsvm-test-", dir=memory if roomy else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def module_dir() -> Iterator[Path]:
    """A `temporary_folder` of the test module's own."""
    with temporary_folder() as folder:
        yield folder


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A `temporary_folder` of the test's own."""
    with temporary_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's Postgres. Its database `TEMPLATE` is at the newest revision."""
    with temporary_folder() as folder:
        server = PostgresServer(
            folder / "home", folder / "postgres", log=folder / "log", account=postgres_account(), durable=False
        )
        try:
            server.start()
            wait_ready(server)
            with psycopg.connect(server.url(role="postgres").replace("+psycopg", ""), autocommit=True) as connection:
                # Databases that tests have left are emptied at once; and queries are planned alike, whoever was there.
                connection.execute("ALTER SYSTEM SET autovacuum = off")
                connection.execute("SELECT pg_reload_conf()")
                connection.execute(f"CREATE DATABASE {TEMPLATE} OWNER {ROLE}")  # type: ignore[arg-type]
            with psycopg.connect(server.url(TEMPLATE, "postgres").replace("+psycopg", "")) as superuser:
                roles.make(superuser, ROLE)
                superuser.execute(f"GRANT pg_signal_backend TO {ROLE}")  # tests end connections of others
            migrate.upgrade(server.url(TEMPLATE))
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """Address of the session's Postgres (an empty database of it)."""
    return postgres_server.url()


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer) -> Iterator[Databases]:
    """Databases of the session's Postgres."""
    opened = Databases(postgres_server)
    yield opened
    opened.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Address of a database at the newest revision, with nothing of another test in it."""
    with databases.one() as url:
        yield url


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """Address of a fresh database that no migration has touched."""
    with databases.empty() as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A `Database` on a fresh database."""
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The session's Valkey or Redis."""
    with temporary_folder() as folder:
        server = RedisServer(folder, log=folder / "log")
        try:
            server.start()
            wait_ready(server)
            yield server
        finally:
            server.kill()


@pytest.fixture
def broker_url(redis_server: RedisServer) -> str:
    """Address of the session's broker, emptied."""
    with redis.Redis(unix_socket_path=str(redis_server.socket)) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    """Settings on the real servers, with a data folder of the test's own."""
    return Settings(database_url=database_url, broker_url=broker_url, data_dir=tmp_path / "data")


@pytest.fixture(scope="module")
def module_settings(databases: Databases, redis_server: RedisServer, module_dir: Path) -> Iterator[Settings]:
    """Settings as `settings`, on a database and a data folder that the tests of a module share."""
    with databases.one() as url:
        yield Settings(database_url=url, broker_url=redis_server.url, data_dir=module_dir / "data")
