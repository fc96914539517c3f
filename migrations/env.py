"""Alembic environment. `service.db.migrate` hands in the connection that already holds the advisory lock."""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection

from service.db.tables import Base


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_server_default=True,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


connection = context.config.attributes.get("connection")
if connection is not None:
    _run(connection)
else:  # alembic's own command line, used by developers to write a new revision
    with create_engine(
        os.environ["PREFSVM_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
    ).connect() as own:
        _run(own)
