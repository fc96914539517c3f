"""Connections and transactions. The only ``commit`` of the product is in ``Database.transaction``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg.errors import IdleInTransactionSessionTimeout, ReadOnlySqlTransaction
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine, ExceptionContext
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

AWAY: tuple[type[Exception], ...] = (OperationalError, InterfaceError, PoolTimeoutError)
"""What a call raises while Postgres is away, or has no connection to spare: the same call may work a moment later."""
ALSO_AWAY = (IdleInTransactionSessionTimeout, ReadOnlySqlTransaction)
"""psycopg takes these for defects. The first ends a transaction that stood still; the second comes from a replica, or
while the server's owner lets nobody write."""


class Database:
    """A pool of connections to one Postgres.

    Parameters
    ----------
    url : str
        SQLAlchemy address, ``postgresql+psycopg://…``.
    pool_size : int
        Connections kept open at most; further ones are opened for bursts of as many again.
    application_name : str
        What ``pg_stat_activity`` shows.
    idle_transaction_seconds : float, default=30
        The server ends a transaction in which nothing was asked for this long. If this process is frozen or its machine
        lost in the middle of one, the rows that it locked are free again after that.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        application_name: str = "prefsvm",
        idle_transaction_seconds: float = 30.0,
    ) -> None:
        self.engine: Engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            # A restarted server must not cost the first caller an error.
            pool_pre_ping=True,
            pool_recycle=1800,
            # Rows hold what users sent; an error message must not carry it into a log.
            hide_parameters=True,
            connect_args={
                "connect_timeout": 5,
                "application_name": application_name,
                # A frozen or unreachable server is noticed within about half a minute.
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 20_000,
            },
        )
        milliseconds = max(1, int(idle_transaction_seconds * 1000))

        # Not among the options of the connection: those of the address would be lost.
        @event.listens_for(self.engine, "connect")
        def limit_idle_transactions(connection: Any, _: object) -> None:
            connection.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
            connection.commit()

        @event.listens_for(self.engine, "handle_error")
        def say_away(context: ExceptionContext) -> None:
            if isinstance(context.original_exception, ALSO_AWAY):
                raise OperationalError(context.statement, None, context.original_exception, hide_parameters=True)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a session in a transaction: committed at the end of the block, rolled back on any exception."""
        with Session(self.engine, expire_on_commit=False) as session:
            try:
                yield session
                session.commit()
            except BaseException:
                session.rollback()
                raise

    def ping(self) -> None:
        """Raise `sqlalchemy.exc.OperationalError` unless the server answers a query."""
        with self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close all connections of the pool."""
        self.engine.dispose()
