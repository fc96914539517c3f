"""webhooks, retries and estimates of jobs

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIME = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("retry_of", sa.Text(), nullable=True))
    op.create_foreign_key(op.f("fk_jobs_retry_of_jobs"), "jobs", "jobs", ["retry_of"], ["id"], ondelete="SET NULL")
    op.create_index(op.f("ix_jobs_retry_of"), "jobs", ["retry_of"])
    op.add_column("jobs", sa.Column("estimate", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_webhooks_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_project_id_created_at_id"), "webhooks", ["project_id", "created_at", "id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("job_status", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_attempt_at", TIME, server_default=sa.text("now()"), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("delivered_at", TIME, nullable=True),
        sa.CheckConstraint("status IN ('pending', 'delivered', 'dead')", name=op.f("ck_webhook_deliveries_status")),
        sa.CheckConstraint(
            "(status = 'pending') = (next_attempt_at IS NOT NULL)", name=op.f("ck_webhook_deliveries_due")
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_deliveries_webhook_id_webhooks"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("webhook_id", "job_id", name=op.f("uq_webhook_deliveries_webhook_id_job_id")),
    )
    op.create_index(
        op.f("ix_webhook_deliveries_webhook_id_created_at_id"),
        "webhook_deliveries",
        ["webhook_id", "created_at", "id"],
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["next_attempt_at"],
        postgresql_where=sa.text("status = 'pending'"),
    )


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
    op.drop_column("jobs", "estimate")
    op.drop_index(op.f("ix_jobs_retry_of"), table_name="jobs")
    op.drop_constraint(op.f("fk_jobs_retry_of_jobs"), "jobs", type_="foreignkey")
    op.drop_column("jobs", "retry_of")
