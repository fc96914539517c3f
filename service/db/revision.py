"""Which migration a database is at, and which one this version of the product needs.

Apart from `service.db.migrate`, because the API asks it and never migrates: Alembic takes a fifth of its start.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import Connection

import migrations

_CURRENT = text("SELECT version_num FROM alembic_version")


def head() -> str:
    """Return the newest revision that this version of the product knows: the number that its file begins with."""
    files = (Path(migrations.__file__).parent / "versions").glob("[0-9]*_*.py")
    found = max((path.name.partition("_")[0] for path in files), default=None)
    if found is None:
        raise RuntimeError("no migrations are installed beside the product")
    return found


def current(connection: Connection) -> str | None:
    """Return the revision of a database, or None where no migration has run."""
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    found: str | None = connection.scalar(_CURRENT)
    return found


def is_new_enough(connection: Connection) -> bool:
    """Tell whether a database has what this version of the product needs; one of a later version has it, too."""
    found = current(connection)
    return found is not None and found >= head()
