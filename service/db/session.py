"""Connections and transactions. The only ``commit`` of the product is in ``Database.transaction``.

Postgres is told in each transaction of the API whose rows it may show (row level security, ``docs/security.md``). What
it is told comes from the gate that looked at the key, and not from the code that builds the query: two walls, and
neither leans on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import psycopg
from psycopg.errors import DiskFull, IdleInTransactionSessionTimeout, QueryCanceled, ReadOnlySqlTransaction
from psycopg.pq import Escaping, ExecStatus
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine, ExceptionContext
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

AWAY: tuple[type[Exception], ...] = (OperationalError, InterfaceError, PoolTimeoutError)
"""What a call raises while Postgres is away, or has no connection to spare: the same call may work a moment later."""
TROUBLE: tuple[type[Exception], ...] = (DBAPIError, PoolTimeoutError)
"""`AWAY`, and whatever else Postgres may answer: for those who go on in any case, as nobody would start them again, or
as to try again costs less than to give up."""
ALSO_AWAY = (IdleInTransactionSessionTimeout, ReadOnlySqlTransaction)
"""psycopg takes these for defects. The first ends a transaction that stood still; the second comes from a replica, or
while the server's owner lets nobody write."""
STATEMENT_SECONDS = 30.0
"""What one statement for a caller of the API may take: the slowest that are needed take a second or two."""
_project: ContextVar[str | None] = ContextVar("project", default=None)


def is_disk_full(error: BaseException) -> bool:
    """Tell whether Postgres answered that its disk is full. psycopg takes that for one way of being away."""
    return isinstance(error.orig if isinstance(error, DBAPIError) else error, DiskFull)


def trouble_of(error: BaseException) -> str:
    """Say for a log what is wrong with the database."""
    if is_disk_full(error):
        return "the disk of the database is full"
    if isinstance(error.orig if isinstance(error, DBAPIError) else error, QueryCanceled):
        return "the database ended a statement that took too long"
    return f"the database does not answer ({type(error).__name__})"


class acting_for:  # noqa: N801 (a context manager by its use; a generator's costs twice as much, in every request)
    """Let the transactions of this block, and of the threads and tasks that it starts, be for one project."""

    __slots__ = ("_project_id", "_token")

    def __init__(self, project_id: str) -> None:
        self._project_id = project_id

    def __enter__(self) -> None:
        self._token = _project.set(self._project_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _project.reset(self._token)


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
    one_project : bool, default=False
        Every transaction is for the project of `acting_for`, and to begin one outside of that is a defect.
    statement_seconds : float, optional
        The server ends a statement that takes longer, also after whoever asked is gone; by default it ends none. The
        answer is `AWAY`: a server may also be slow for a moment.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        application_name: str = "prefsvm",
        idle_transaction_seconds: float = 30.0,
        one_project: bool = False,
        statement_seconds: float | None = None,
    ) -> None:
        self._one_project = one_project
        self._closed = False
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
        limits = {"idle_in_transaction_session_timeout": idle_transaction_seconds}
        if statement_seconds is not None:
            limits["statement_timeout"] = statement_seconds

        # Not among the options of the connection: those of the address would be lost.
        @event.listens_for(self.engine, "connect")
        def limit_times(connection: Any, _: object) -> None:
            for name, seconds in limits.items():
                connection.execute(f"SET {name} = {max(1, int(seconds * 1000))}")
            connection.commit()

        @event.listens_for(self.engine, "checkin")
        def close_late_ones(_: object, record: ConnectionPoolEntry) -> None:
            if self._closed:
                record.invalidate()

        @event.listens_for(self.engine, "handle_error")
        def say_away(context: ExceptionContext) -> None:
            if isinstance(context.original_exception, ALSO_AWAY):
                raise OperationalError(context.statement, None, context.original_exception, hide_parameters=True)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a session in a transaction: committed at the end of the block, rolled back on any exception.

        Raises
        ------
        RuntimeError
            If transactions are for one project each, and it is not said which.
        """
        project_id = _project.get() if self._one_project else None
        if self._one_project and project_id is None:
            raise RuntimeError("transactions here are for one project each; say with acting_for() for which")
        with Session(self.engine, expire_on_commit=False) as session:
            try:
                if project_id is not None:
                    _name_project(session, project_id)
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
        """Close all connections of the pool; those that a thread still uses, once it gives them back."""
        self._closed = True
        self.engine.dispose()


def _name_project(session: Session, project_id: str) -> None:
    """Begin the transaction and tell Postgres whose it is, in one message: it costs no further round trip."""
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)  # noqa: S101 (for the type checker)
    server = connection.pgconn
    project = Escaping(server).escape_literal(project_id.encode())
    result = server.exec_(b"BEGIN; SELECT set_config('prefsvm.project', " + project + b", true)")
    if result.status != ExecStatus.TUPLES_OK:
        error = psycopg.OperationalError(result.get_error_message())
        session.invalidate()
        raise OperationalError("BEGIN", None, error, hide_parameters=True)
