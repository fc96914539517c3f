"""Databases for tests. One that a test has left is emptied and used again: a fifth of what it takes to make one anew.

What does not come back are rows, counters of sequences, connections, and the name, under which somebody whom the test
has left behind may still look for it. A test that changes more than that (a table, a right, a trigger) leaves a
database that nobody gets.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from service.local.servers import ROLE, PostgresServer

TEMPLATE = "template_prefsvm"
"""Was built by the real migrations."""
_numbers = itertools.count(1)

# What changes when a table, a function, a right or the like is made, changed or dropped, and not with the rows.
_SHAPE = """
SELECT concat_ws(';',
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_class WHERE oid >= 16384),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_attribute WHERE attrelid >= 16384),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_constraint WHERE oid >= 16384),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_proc WHERE oid >= 16384),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_trigger),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_policy),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_namespace),
  (SELECT (datacl, datallowconn, datconnlimit)::text FROM pg_database WHERE datname = current_database()))
"""
_USED = """
SELECT oid::regclass::text FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0 ORDER BY 1
"""
_FORGET_SIZES = "UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0 WHERE oid = ANY(%s::regclass[])"
_COUNT_AGAIN = "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'"


class Databases:
    """Databases of a server with a `TEMPLATE`, each used by one test at a time."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._administrator = self._connect("postgres")
        self._free: dict[str, str] = {}
        with self._connect(TEMPLATE) as connection:
            self._first = {table: _rows(connection, table) for table in _used(connection)}

    def close(self) -> None:
        """Close the connection to the server; the databases end with it."""
        self._administrator.close()

    @contextmanager
    def one(self) -> Iterator[str]:
        """Yield the address of a database with the tables and rows of the template."""
        if self._free:
            name, shape = self._free.popitem()
        else:
            name = self._make(TEMPLATE)
            with self._connect(name) as connection:
                shape = _shape(connection)
        yield self._server.url(name)
        if emptied := self._emptied(name, shape):
            renamed = _new_name()
            self._run(f"ALTER DATABASE {name} RENAME TO {renamed}")
            self._free[renamed] = emptied
        else:
            self._drop(name)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """Yield the address of a database that no migration has touched."""
        name = self._make("template0")
        yield self._server.url(name)
        self._drop(name)

    def _emptied(self, name: str, shape: str) -> str | None:
        """Empty a database and return its shape; None where it had another one, or cannot be made what it was."""
        self._run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
        with suppress(psycopg.Error), self._connect(name) as connection:
            if _shape(connection) == shape and self._empty(connection):
                return _shape(connection)
        return None

    def _empty(self, connection: psycopg.Connection) -> bool:
        used = _used(connection)
        changed = [
            table for table in used if table not in self._first or _rows(connection, table) != self._first[table]
        ]
        if changed:
            connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
            for table in changed:
                connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
            # Rows to come stand in the order in which they come, as in new tables; and queries are planned as there,
            # not as for tables that are known to be empty.
            connection.execute(f"VACUUM (INDEX_CLEANUP ON) {', '.join(changed)}")  # type: ignore[arg-type]
            connection.execute(_FORGET_SIZES, [changed])  # type: ignore[arg-type]
        for table in set(changed) & set(self._first):
            insert = f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, %s)"
            connection.execute(insert, [self._first[table]])  # type: ignore[arg-type]
        connection.execute(_COUNT_AGAIN)
        return set(_used(connection)) == set(self._first)

    def _make(self, template: str) -> str:
        name = _new_name()
        # Older ones know no other way. To write each page into the log takes twice the processor time.
        strategy = "STRATEGY file_copy" if self._administrator.info.server_version >= 15_00_00 else ""
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} {strategy} OWNER {ROLE}")
        return name

    def _drop(self, name: str) -> None:
        """Drop a database whoever is still connected."""
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        self._administrator.execute(statement)  # type: ignore[arg-type]

    def _connect(self, database: str) -> psycopg.Connection:
        url = self._server.url(database, "postgres").replace("+psycopg", "")
        return psycopg.connect(url, autocommit=True)


def _new_name() -> str:
    return f"test_{os.getpid()}_{next(_numbers)}"


def _shape(connection: psycopg.Connection) -> str:
    found = connection.execute(_SHAPE).fetchone()  # type: ignore[arg-type]
    assert found is not None
    return str(found[0])


def _used(connection: psycopg.Connection) -> list[str]:
    """Names of the tables that have a page."""
    return [table for (table,) in connection.execute(_USED)]


def _rows(connection: psycopg.Connection, table: str) -> str:
    """Return the rows of a table, as JSON."""
    found = connection.execute(f"SELECT json_agg(t ORDER BY t::text)::text FROM {table} t").fetchone()  # type: ignore[arg-type]
    assert found is not None
    return str(found[0])
