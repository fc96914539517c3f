"""whose turn it is: numbers of requests for aliases, and what the fair choice of the next job looks at

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

OPEN = "ix_jobs_open_of_project"
IS_OPEN = sa.text("status IN ('queued', 'running')")


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("alias_requests")))
    op.add_column("aliases", sa.Column("request", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("alias_request", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("wait_until", postgresql.TIMESTAMP(timezone=True), nullable=True))
    op.drop_index(OPEN, table_name="jobs")
    op.create_index(OPEN, "jobs", ["project_id", "status", "created_at", "id"], postgresql_where=IS_OPEN)
    op.create_index(op.f("ix_jobs_project_id_started_at"), "jobs", ["project_id", "started_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_project_id_started_at"), table_name="jobs")
    op.drop_index(OPEN, table_name="jobs")
    op.create_index(OPEN, "jobs", ["project_id", "status"], postgresql_where=IS_OPEN)
    op.drop_column("jobs", "wait_until")
    op.drop_column("jobs", "alias_request")
    op.drop_column("aliases", "request")
    op.execute(sa.schema.DropSequence(sa.Sequence("alias_requests")))
