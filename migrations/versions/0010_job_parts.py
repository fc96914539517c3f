"""parts of jobs that several workers share, and who those workers are

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.row_security import expose, part_of, protect

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

INSTANT = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("numerics", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.Column("seen_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    protect("workers", "false")
    op.create_table(
        "job_parts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("job_attempt", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("numerics", sa.Text(), nullable=False),
        sa.Column("cache_bytes", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=True),
        sa.Column("lease_until", INSTANT, nullable=True),
        sa.Column("dispatched_at", INSTANT, nullable=True),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('waiting', 'running', 'done')", name=op.f("ck_job_parts_status")),
        sa.CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name=op.f("ck_job_parts_lease")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_parts_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_parts")),
        sa.UniqueConstraint(
            "job_id", "job_attempt", "stage", "number", name=op.f("uq_job_parts_job_id_job_attempt_stage_number")
        ),
    )
    protect("job_parts", part_of("jobs", "job_id"))


def downgrade() -> None:
    expose("job_parts")
    op.drop_table("job_parts")
    expose("workers")
    op.drop_table("workers")
