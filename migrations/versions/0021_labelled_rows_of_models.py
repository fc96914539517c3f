"""fingerprints of the rows that a model had the labels of

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("labelled_rows", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("models", "labelled_rows")
