"""who gave a label, or what concluded it

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("feedback", sa.Column("source", sa.Text(), server_default="person", nullable=False))


def downgrade() -> None:
    op.drop_column("feedback", "source")
