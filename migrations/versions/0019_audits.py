"""audits

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.row_security import expose, part_of, protect

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

INSTANT = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(astext_type=sa.Text())


def upgrade() -> None:
    op.create_table(
        "audits",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("dataset_id", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("objective", JSON, nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("pool", JSON, nullable=True),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("answered", sa.Integer(), server_default="0", nullable=False),
        sa.Column("corrected", sa.Integer(), server_default="0", nullable=False),
        sa.Column("verdict", JSON, nullable=True),
        sa.Column("sealed_at", INSTANT, nullable=True),
        sa.Column("feedback_id", sa.Text(), nullable=True),
        sa.Column("created_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_audits_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["project_id", "model_id"],
            ["models.project_id", "models.id"],
            name=op.f("fk_audits_project_id_model_id_models"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_audits_dataset_id_datasets"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_audits_job_id_jobs"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audits")),
    )
    for columns in (["project_id", "created_at", "id"], ["project_id", "model_id"], ["dataset_id"], ["job_id"]):
        op.create_index(op.f(f"ix_audits_{'_'.join(columns)}"), "audits", columns)
    protect("audits")
    op.create_table(
        "audit_rows",
        sa.Column("audit_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("row", sa.BigInteger(), nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("answered_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name=op.f("fk_audit_rows_audit_id_audits"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("audit_id", "position", name=op.f("pk_audit_rows")),
        sa.UniqueConstraint("audit_id", "row", name=op.f("uq_audit_rows_audit_id_row")),
    )
    protect("audit_rows", part_of("audits", "audit_id"))
    _kinds("'train', 'batch', 'audit'")


def downgrade() -> None:
    op.execute("DELETE FROM jobs WHERE kind = 'audit'")  # what was before would take them for trainings
    _kinds("'train', 'batch'")
    for table in ("audit_rows", "audits"):
        expose(table)
        op.drop_table(table)


def _kinds(names: str) -> None:
    op.drop_constraint(op.f("ck_jobs_kind"), "jobs", type_="check")
    op.create_check_constraint(op.f("ck_jobs_kind"), "jobs", f"kind IN ({names})")
