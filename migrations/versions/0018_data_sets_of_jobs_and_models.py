"""deleting a data set looks up its jobs and models by an index

Revision ID: 0018
Revises: 0017
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_jobs_dataset_id", "jobs", ["dataset_id"])
    op.create_index("ix_models_dataset_id", "models", ["dataset_id"])


def downgrade() -> None:
    op.drop_index("ix_models_dataset_id", table_name="models")
    op.drop_index("ix_jobs_dataset_id", table_name="jobs")
