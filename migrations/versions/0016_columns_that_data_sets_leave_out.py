"""columns of a file that its data set leaves out, each with the reason

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("left_out", JSONB(), server_default="{}", nullable=False))


def downgrade() -> None:
    op.drop_column("datasets", "left_out")
