"""The dispatcher's container health check, against a real Postgres."""

from __future__ import annotations

import pytest

from service import healthcheck
from service.db.session import Database
from service.healthcheck import dispatcher_trouble


def test_no_dispatcher_is_trouble(database: Database) -> None:
    assert dispatcher_trouble(database) == "the dispatcher has no connection to the database"


def test_dispatcher_at_work_is_none(database: Database, database_url: str) -> None:
    dispatcher = Database(database_url, application_name="prefsvm-dispatcher")
    dispatcher.ping()
    assert dispatcher_trouble(database) == ""
    dispatcher.close()


def test_quiet_dispatcher_is_trouble(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = Database(database_url, application_name="prefsvm-dispatcher")
    dispatcher.ping()
    monkeypatch.setattr(healthcheck, "QUIET_SECONDS", 0)
    assert "has done nothing for" in dispatcher_trouble(database)
    dispatcher.close()


def test_dispatcher_of_another_database_does_not_count(database: Database, postgres_url: str) -> None:
    dispatcher = Database(postgres_url, application_name="prefsvm-dispatcher")
    dispatcher.ping()
    assert "no connection" in dispatcher_trouble(database)
    dispatcher.close()


def test_unreachable_database_is_trouble() -> None:
    nowhere = Database("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    assert dispatcher_trouble(nowhere) == "the database does not answer (OperationalError)"
    nowhere.close()
