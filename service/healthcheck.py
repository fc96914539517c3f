"""Is the dispatcher of this container at work? ``python -m service.healthcheck`` ends with 0 if so, with 1 if not.

The dispatcher answers no requests, so this asks Postgres: its connections from this address must have done something
lately. A dispatcher that hangs fails this as well as one that is gone or cannot reach the database.
"""

from __future__ import annotations

import sys

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from service.db.session import Database, trouble_of
from service.settings import Settings

QUIET_SECONDS = 30
"""It looks at the queue every ``dispatch_seconds``, half a second by default."""

LAST_SIGN = text(
    """
    SELECT extract(epoch FROM clock_timestamp() - max(state_change))
      FROM pg_stat_activity
     WHERE application_name = 'prefsvm-dispatcher' AND usename = current_user AND datname = current_database()
       AND client_addr IS NOT DISTINCT FROM inet_client_addr()
    """
)


def dispatcher_trouble(database: Database) -> str:
    """Return what is wrong with the dispatcher that runs at this address, or an empty string."""
    try:
        with database.transaction() as session:
            age = session.scalar(LAST_SIGN)
    except SQLAlchemyError as error:
        return trouble_of(error)
    if age is None:
        return "the dispatcher has no connection to the database"
    if age > QUIET_SECONDS:
        return f"the dispatcher has done nothing for {age:.0f} s"
    return ""


def main() -> None:
    """Check the dispatcher with the settings of the environment."""
    settings = Settings()
    if settings.database_url is None:
        sys.exit("PREFSVM_DATABASE_URL must be set")
    database = Database(settings.database_url, pool_size=1, application_name="prefsvm-healthcheck")
    sys.exit(dispatcher_trouble(database) or 0)


if __name__ == "__main__":
    main()
