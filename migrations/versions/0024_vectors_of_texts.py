"""vectors of texts, kept for the next training

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.row_security import expose, protect

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

INSTANT = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "text_encoders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("probe_texts_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("probes", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_text_encoders_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_text_encoders")),
    )
    op.create_index(op.f("ix_text_encoders_project_id_model"), "text_encoders", ["project_id", "model"])
    op.create_table(
        "text_vectors",
        sa.Column("encoder_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("used_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["encoder_id"],
            ["text_encoders.id"],
            name=op.f("fk_text_vectors_encoder_id_text_encoders"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_text_vectors_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("encoder_id", "sha256", name=op.f("pk_text_vectors")),
    )
    op.create_index(op.f("ix_text_vectors_project_id_used_at"), "text_vectors", ["project_id", "used_at"])
    for table in ("text_encoders", "text_vectors"):
        protect(table)


def downgrade() -> None:
    for table in ("text_vectors", "text_encoders"):
        expose(table)
        op.drop_table(table)
