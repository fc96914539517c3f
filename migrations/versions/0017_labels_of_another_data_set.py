"""trainings whose labels are in another data set

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("labels_dataset_id", sa.Text(), nullable=True))
    op.create_foreign_key(
        op.f("fk_jobs_labels_dataset_id_datasets"),
        "jobs",
        "datasets",
        ["labels_dataset_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.create_index(
        "ix_jobs_labels_dataset_id",
        "jobs",
        ["labels_dataset_id"],
        postgresql_where=sa.text("labels_dataset_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_labels_dataset_id", table_name="jobs")
    op.drop_constraint(op.f("fk_jobs_labels_dataset_id_datasets"), "jobs", type_="foreignkey")
    op.drop_column("jobs", "labels_dataset_id")
