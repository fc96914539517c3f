"""The fixtures that every other test stands on."""

from __future__ import annotations

import redis
from sqlalchemy import text

from service.db import migrate
from service.db.session import Database
from service.settings import Settings


def test_database_is_at_the_newest_revision(database: Database) -> None:
    with database.engine.connect() as connection:
        assert migrate.current(connection) == migrate.head()


def test_each_test_has_a_database_of_its_own(database: Database, settings: Settings) -> None:
    with database.transaction() as session:
        session.execute(text("CREATE TABLE mark (n int)"))
        name = session.scalar(text("SELECT current_database()"))
    assert settings.database_url is not None
    assert f"/{name}?" in settings.database_url


def test_the_next_test_sees_nothing_of_it(database: Database) -> None:
    with database.transaction() as session:
        assert session.scalar(text("SELECT to_regclass('mark')")) is None


def test_broker_answers(settings: Settings) -> None:
    assert settings.broker_url is not None
    assert settings.broker_url.startswith("redis+socket:///")
    with redis.Redis(unix_socket_path=settings.broker_url.removeprefix("redis+socket://")) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_broker_is_emptied_between_tests(broker_url: str) -> None:
    with redis.Redis(unix_socket_path=broker_url.removeprefix("redis+socket://")) as client:
        assert client.dbsize() == 0
