"""whether a threshold was picked by hand

Revision ID: 0027
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operating_points", sa.Column("picked", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    op.drop_column("operating_points", "picked")
