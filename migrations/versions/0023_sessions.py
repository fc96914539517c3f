"""sessions of people who look at the pages

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.row_security import expose, protect

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

INSTANT = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_sessions_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    for column in ("key_id", "expires_at"):
        op.create_index(op.f(f"ix_sessions_{column}"), "sessions", [column])
    protect("sessions")


def downgrade() -> None:
    expose("sessions")
    op.drop_table("sessions")
