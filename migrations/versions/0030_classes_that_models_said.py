"""of how many rows a model of several classes said each of them

Revision ID: 0030
Revises: 0029
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("model_statistics", sa.Column("said", JSONB(), server_default="{}", nullable=False))


def downgrade() -> None:
    op.drop_column("model_statistics", "said")
