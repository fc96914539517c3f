"""labelled rows as a model saw them, for others to be compared with

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("kept_rows", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("models", "kept_rows")
