"""checksum of what workers read of a data set

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("columnar_sha256", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("datasets", "columnar_sha256")
