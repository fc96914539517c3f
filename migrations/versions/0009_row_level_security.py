"""row level security

Revision ID: 0009
Revises: 0008
"""

from migrations.row_security import PROJECT, expose, part_of, protect

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

OWNED = (
    "api_keys",
    "datasets",
    "uploads",
    "jobs",
    "webhooks",
    "models",
    "model_statistics",
    "aliases",
    "alias_changes",
    "idempotency_keys",
)
PARTS = (
    ("upload_parts", "uploads", "upload_id"),
    ("webhook_deliveries", "webhooks", "webhook_id"),
    ("job_events", "jobs", "job_id"),
    ("model_chunks", "models", "model_id"),
    ("operating_points", "models", "model_id"),
)


def upgrade() -> None:
    protect("projects", f"id = {PROJECT}")
    for table in OWNED:
        protect(table)
    for table, parent, column in PARTS:
        protect(table, part_of(parent, column))


def downgrade() -> None:
    for table in (*(table for table, _, _ in reversed(PARTS)), *reversed(OWNED), "projects"):
        expose(table)
