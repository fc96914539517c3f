"""a new kind of jobs needs no migration

Revision ID: 0020
Revises: 0019
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _check("kind ~ '^[a-z][a-z0-9_-]{0,31}$'")


def downgrade() -> None:
    # What was before would take them for trainings.
    op.execute("DELETE FROM jobs WHERE kind NOT IN ('train', 'batch', 'audit')")
    _check("kind IN ('train', 'batch', 'audit')")


def _check(condition: str) -> None:
    op.drop_constraint(op.f("ck_jobs_kind"), "jobs", type_="check")
    op.create_check_constraint(op.f("ck_jobs_kind"), "jobs", condition)
