"""projects and keys

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

DEFAULT_PROJECT = "prj_" + 32 * "0"
OPEN = sa.text("status IN ('queued', 'running')")
OWNED = ("datasets", "jobs", "models", "aliases", "alias_changes", "idempotency_keys")


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("limits", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("name", name=op.f("uq_projects_name")),
    )
    op.execute(sa.text("INSERT INTO projects (id, name) VALUES (:id, 'default')").bindparams(id=DEFAULT_PROJECT))
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_used_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("octet_length(secret_sha256) = 32", name=op.f("ck_api_keys_secret")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_api_keys_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index(
        op.f("ix_api_keys_project_id_created_at_id"), "api_keys", ["project_id", "created_at", "id"], unique=False
    )

    # The default gives the rows that are there to the default project; later ones must name theirs.
    for table in OWNED:
        op.add_column(
            table, sa.Column("project_id", sa.Text(), server_default=sa.text(f"'{DEFAULT_PROJECT}'"), nullable=False)
        )
        op.alter_column(table, "project_id", server_default=None)
    for table in ("datasets", "jobs", "models", "alias_changes"):
        op.create_foreign_key(
            op.f(f"fk_{table}_project_id_projects"), table, "projects", ["project_id"], ["id"], ondelete="RESTRICT"
        )
    op.create_foreign_key(
        op.f("fk_idempotency_keys_project_id_projects"),
        "idempotency_keys",
        "projects",
        ["project_id"],
        ["id"],
        ondelete="CASCADE",
    )
    for table in ("datasets", "jobs", "models"):
        op.drop_index(op.f(f"ix_{table}_created_at_id"), table_name=table)
        op.create_index(op.f(f"ix_{table}_project_id_created_at_id"), table, ["project_id", "created_at", "id"])
    op.create_index("ix_jobs_open_of_project", "jobs", ["project_id", "status"], postgresql_where=OPEN)
    op.drop_index(op.f("ix_alias_changes_name_id"), table_name="alias_changes")
    op.create_index(op.f("ix_alias_changes_project_id_name_id"), "alias_changes", ["project_id", "name", "id"])
    op.create_unique_constraint(op.f("uq_models_project_id_id"), "models", ["project_id", "id"])

    op.drop_constraint(op.f("fk_aliases_model_id_models"), "aliases")
    op.create_foreign_key(
        op.f("fk_aliases_project_id_model_id_models"),
        "aliases",
        "models",
        ["project_id", "model_id"],
        ["project_id", "id"],
        ondelete="RESTRICT",
    )
    op.drop_constraint(op.f("pk_aliases"), "aliases")
    op.create_primary_key(op.f("pk_aliases"), "aliases", ["project_id", "name"])
    op.drop_constraint(op.f("pk_idempotency_keys"), "idempotency_keys")
    op.create_primary_key(op.f("pk_idempotency_keys"), "idempotency_keys", ["project_id", "operation", "key"])


def downgrade() -> None:
    """Go back to one owner of everything. Refused by the primary keys where two projects use the same name."""
    op.drop_constraint(op.f("pk_idempotency_keys"), "idempotency_keys")
    op.create_primary_key(op.f("pk_idempotency_keys"), "idempotency_keys", ["operation", "key"])
    op.drop_constraint(op.f("pk_aliases"), "aliases")
    op.create_primary_key(op.f("pk_aliases"), "aliases", ["name"])
    op.drop_constraint(op.f("fk_aliases_project_id_model_id_models"), "aliases")
    op.create_foreign_key(
        op.f("fk_aliases_model_id_models"), "aliases", "models", ["model_id"], ["id"], ondelete="RESTRICT"
    )
    op.drop_constraint(op.f("uq_models_project_id_id"), "models")
    op.drop_index(op.f("ix_alias_changes_project_id_name_id"), table_name="alias_changes")
    op.create_index(op.f("ix_alias_changes_name_id"), "alias_changes", ["name", "id"])
    op.drop_index("ix_jobs_open_of_project", table_name="jobs", postgresql_where=OPEN)
    for table in ("models", "jobs", "datasets"):
        op.drop_index(op.f(f"ix_{table}_project_id_created_at_id"), table_name=table)
        op.create_index(op.f(f"ix_{table}_created_at_id"), table, ["created_at", "id"])
    for table in OWNED:
        op.drop_column(table, "project_id")
    op.drop_table("api_keys")
    op.drop_table("projects")
