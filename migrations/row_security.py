"""The second wall between projects: Postgres itself shows a transaction the rows of one project only.

For migrations. A policy is not for the owner of a table (nor for a superuser): who works as one is not held back. Who
may see the rows of all projects is said in ``service/db/roles.py``, because roles are there or not by installation.
"""

from __future__ import annotations

from alembic import op

PROJECT = "current_setting('prefsvm.project', true)"
"""Said by `service.db.session` at the beginning of each transaction of the API; nobody's if it was not."""


def protect(table: str, condition: str = f"project_id = {PROJECT}") -> None:
    """Show and take rows of a table only where they belong to the project of the transaction.

    A table without a ``project_id`` gives a condition that asks the table that its rows belong to: whoever asks sees no
    more of that one than its own policy shows.
    """
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY of_project ON {table} USING ({condition})")


def part_of(parent: str, column: str) -> str:
    """Return the condition for a table whose `column` names the row of `parent` that a row belongs to."""
    return f"EXISTS (SELECT FROM {parent} WHERE {parent}.id = {column})"


def expose(table: str) -> None:
    """Take the policies of a table away."""
    op.execute(f"DROP POLICY IF EXISTS all_projects ON {table}")
    op.execute(f"DROP POLICY of_project ON {table}")
    op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
