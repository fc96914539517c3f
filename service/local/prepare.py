"""Wait for the database and bring it to this version: the step of the local stack before its own processes start.

It is a process of its own, so that its imports run while Postgres starts, and so that the supervisor stays small.
"""

from __future__ import annotations

import time

import psycopg

from service.db import migrate
from service.settings import Settings

PATIENCE_SECONDS = 30.0


def main() -> None:
    """Migrate the configured database as soon as it takes connections."""
    url = Settings().database_url
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


if __name__ == "__main__":
    main()
