"""Bring a database to this version of the product (``prefsvm migrate``)."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

import migrations
from service.db import roles
from service.db.revision import current, head

__all__ = ["current", "downgrade", "head", "upgrade"]

# Any fixed number of our own; `pg_locks` shows it while a migration runs.
ADVISORY_LOCK = 7_337_786_861
LOCK_WAIT_SECONDS = 120
TABLE_LOCK_MILLISECONDS = 500
"""While a migration waits for a table, all that come after it wait, too. And it must be the one that gives way: after a
second of waiting, Postgres looks for deadlocks, and might end a transaction of the API."""
AGAIN_SECONDS = 0.5
IN_USE = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)

_logger = logging.getLogger(__name__)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


def _under_lock(url: str, action: str, revision: str) -> None:
    engine = create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10})
    with engine.connect() as lock, engine.connect() as connection:
        # A session lock on a connection of its own: a migration that commits must not let it go.
        lock = lock.execution_options(isolation_level="AUTOCOMMIT")
        lock.execute(text(f"SET lock_timeout = '{LOCK_WAIT_SECONDS}s'"))
        lock.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
        try:
            connection.execute(text(f"SET lock_timeout = '{TABLE_LOCK_MILLISECONDS}ms'"))
            connection.commit()
            _until_tables_are_free(connection, action, revision)
        finally:
            lock.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})


def _until_tables_are_free(connection: Connection, action: str, revision: str) -> None:
    give_up = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            getattr(command, action)(_config(connection), revision)
            if action == "upgrade":
                roles.grant(connection)
            return
        except OperationalError as error:
            # What is left is a whole revision, so that it can begin again from there.
            connection.rollback()
            if not isinstance(error.orig, IN_USE) or time.monotonic() > give_up:
                raise
            _logger.info("a table is in use; the migration is tried again")
        time.sleep(AGAIN_SECONDS)


def upgrade(url: str) -> None:
    """Run all migrations that are due, one process at a time, and give `service.db.roles` their rights.

    Several replicas may call this at once: one runs, the others wait for the advisory lock (at most two minutes, then
    `sqlalchemy.exc.OperationalError`) and find nothing left to do. A kill leaves the database at a whole revision.

    Processes of the product may be at work meanwhile. A migration that does not get a table at once takes itself back,
    lets them go on, and begins again, for at most two minutes.

    Parameters
    ----------
    url : str
        SQLAlchemy address, ``postgresql+psycopg://…``.
    """
    _under_lock(url, "upgrade", "head")


def downgrade(url: str, revision: str) -> None:
    """Run the migrations down to `revision` (``base`` for an empty database), one process at a time."""
    _under_lock(url, "downgrade", revision)
