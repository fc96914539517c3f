"""what models met and said while predicting

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "model_statistics",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("outside_range", sa.BigInteger(), nullable=False),
        sa.Column("positive", sa.BigInteger(), nullable=False),
        sa.Column("unseen", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "model_id"],
            ["models.project_id", "models.id"],
            name=op.f("fk_model_statistics_project_id_models"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", "model_id", "day", "threshold", name=op.f("pk_model_statistics")),
    )


def downgrade() -> None:
    op.drop_table("model_statistics")
