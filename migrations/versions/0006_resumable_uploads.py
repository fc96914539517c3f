"""uploads in parts, and how data sets were read

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(astext_type=sa.Text())


def upgrade() -> None:
    op.add_column("datasets", sa.Column("options", JSON, server_default=sa.text("'{}'"), nullable=False))
    op.add_column("datasets", sa.Column("duplicate_rows", sa.BigInteger(), nullable=True))
    op.add_column("datasets", sa.Column("dropped_rows", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.create_table(
        "uploads",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("details", JSON, nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'receiving'"), nullable=False),
        sa.Column("claimed_until", TIME, nullable=True),
        sa.Column("dataset_id", sa.Text(), nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.CheckConstraint("status IN ('receiving', 'received', 'ready', 'failed')", name=op.f("ck_uploads_status")),
        sa.CheckConstraint("received >= 0 AND received <= bytes", name=op.f("ck_uploads_received")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_uploads_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_uploads_dataset_id_datasets"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index(op.f("ix_uploads_project_id"), "uploads", ["project_id"])
    op.create_index(op.f("ix_uploads_dataset_id"), "uploads", ["dataset_id"])
    op.create_index(op.f("ix_uploads_expires_at"), "uploads", ["expires_at"])
    op.create_index("ix_uploads_received", "uploads", ["created_at"], postgresql_where=sa.text("status = 'received'"))
    op.create_table(
        "upload_parts",
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("blob_key", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["upload_id"], ["uploads.id"], name=op.f("fk_upload_parts_upload_id_uploads"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("upload_id", "position", name=op.f("pk_upload_parts")),
    )


def downgrade() -> None:
    op.drop_table("upload_parts")
    op.drop_table("uploads")
    op.drop_column("datasets", "dropped_rows")
    op.drop_column("datasets", "duplicate_rows")
    op.drop_column("datasets", "options")
