"""rules that are given to models of several classes, and the left-out rows that they are chosen on

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("left_out", sa.LargeBinary(), nullable=True))
    op.add_column("operating_points", sa.Column("rule", JSONB(), nullable=True))
    op.alter_column("operating_points", "threshold", nullable=True)


def downgrade() -> None:
    # the version before knows no operating points of several classes: those of their training decide again
    op.execute("DELETE FROM operating_points WHERE threshold IS NULL")
    op.alter_column("operating_points", "threshold", nullable=False)
    op.drop_column("operating_points", "rule")
    op.drop_column("models", "left_out")
