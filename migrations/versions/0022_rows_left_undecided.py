"""which scores a model gives no label, and how many rows that were

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operating_points", sa.Column("abstain", postgresql.JSONB(), nullable=True))
    op.add_column("model_statistics", sa.Column("undecided", sa.BigInteger(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("model_statistics", "undecided")
    op.drop_column("operating_points", "abstain")
