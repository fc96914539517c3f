"""Wait for the database, bring it to this version, and see that somebody has a key where one is needed.

This is the step of the local stack before its own processes start.

It is a process of its own, so that its imports run while Postgres starts, and so that the supervisor stays small.
"""

from __future__ import annotations

import time

import psycopg

from service.access.bootstrap import check_reachable
from service.access.errors import ConfigurationError
from service.db import migrate
from service.settings import Settings

PATIENCE_SECONDS = 30.0


def main() -> None:
    """Migrate the configured database as soon as it takes connections."""
    settings = Settings()
    url = settings.database_url
    if url is None:
        raise SystemExit("PREFSVM_DATABASE_URL is not set")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://"), connect_timeout=10).close()
            break
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    migrate.upgrade(url)
    try:
        check_reachable(settings)
    except ConfigurationError as error:
        raise SystemExit(f"prefsvm: {error}") from None


if __name__ == "__main__":
    main()
