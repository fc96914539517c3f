"""jobs that predict a whole data set

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("kind", sa.Text(), server_default=sa.text("'train'"), nullable=False))
    op.add_column("jobs", sa.Column("result", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.create_check_constraint(op.f("ck_jobs_kind"), "jobs", "kind IN ('train', 'batch')")


def downgrade() -> None:
    op.execute("DELETE FROM jobs WHERE kind = 'batch'")  # what was before would take them for trainings
    op.drop_constraint(op.f("ck_jobs_kind"), "jobs", type_="check")
    op.drop_column("jobs", "result")
    op.drop_column("jobs", "kind")
