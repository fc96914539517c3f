"""Wait for the database, bring it to this version, and see that somebody has a key where one is needed.

This is the step of the local stack before its own processes start. Given the address of a superuser, it also makes the
roles that they work as; who brings a database of his own gives none.

It is a process of its own, so that its imports run while Postgres starts, and so that who starts it stays small.
"""

from __future__ import annotations

import sys
import time

import psycopg

from service.access.bootstrap import check_reachable
from service.db import migrate, roles
from service.local.servers import ROLE
from service.settings import ConfigurationError, Settings

PATIENCE_SECONDS = 30.0


def main(superuser: str | None) -> None:
    """Migrate the configured database as soon as it takes connections."""
    settings = Settings()
    url = settings.database_url
    if url is None:
        raise SystemExit("PREFSVM_DATABASE_URL is not set")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            psycopg.connect(_address(url), connect_timeout=10).close()
            break
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    if superuser is not None:
        with psycopg.connect(_address(superuser)) as connection:
            roles.make(connection, ROLE)
    migrate.upgrade(url)
    try:
        check_reachable(settings)
    except ConfigurationError as error:
        raise SystemExit(f"prefsvm: {error}") from None


def _address(url: str) -> str:
    """Return an address of SQLAlchemy as psycopg takes it."""
    return url.replace("postgresql+psycopg://", "postgresql://")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
