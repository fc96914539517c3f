"""feedback, and shadows of aliases

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.row_security import expose, protect

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

INSTANT = postgresql.TIMESTAMP(timezone=True)
ALIAS = (["project_id", "alias"], ["aliases.project_id", "aliases.name"])
MODEL = ["models.project_id", "models.id"]
PAIR = ("project_id", "alias", "model_id", "shadow_id")


def _created_at(name: str = "created_at") -> sa.Column:
    return sa.Column(name, INSTANT, server_default=sa.text("now()"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "feedback",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        _created_at(),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_feedback_project_id_projects"), ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(*ALIAS, name=op.f("fk_feedback_project_id_alias_aliases"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
    )
    op.create_index(op.f("ix_feedback_project_id_alias_seq"), "feedback", ["project_id", "alias", "seq"])
    op.create_index(op.f("ix_feedback_project_id_created_at_id"), "feedback", ["project_id", "created_at", "id"])
    protect("feedback")
    op.add_column("jobs", sa.Column("feedback_until", sa.BigInteger(), nullable=True))

    op.add_column("aliases", sa.Column("shadow_id", sa.Text(), nullable=True))
    op.create_index(op.f("ix_aliases_shadow_id"), "aliases", ["shadow_id"])
    op.create_check_constraint(op.f("ck_aliases_shadow"), "aliases", "shadow_id <> model_id")
    op.create_foreign_key(
        op.f("fk_aliases_project_id_shadow_id_models"),
        "aliases",
        "models",
        ["project_id", "shadow_id"],
        ["project_id", "id"],
        ondelete="RESTRICT",
    )
    op.create_table(
        "shadow_statistics",
        *(sa.Column(name, sa.Text(), nullable=False) for name in PAIR),
        sa.Column("pairs", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        _created_at(),
        _created_at("updated_at"),
        sa.ForeignKeyConstraint(*ALIAS, name=op.f("fk_shadow_statistics_project_id_alias_aliases"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["project_id", "model_id"],
            MODEL,
            name=op.f("fk_shadow_statistics_project_id_model_id_models"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id", "shadow_id"],
            MODEL,
            name=op.f("fk_shadow_statistics_project_id_shadow_id_models"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(*PAIR, name=op.f("pk_shadow_statistics")),
    )
    protect("shadow_statistics")
    op.create_table(
        "shadow_disagreements",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in PAIR),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("shadow_label", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("shadow_score", sa.Double(), nullable=False),
        _created_at(),
        sa.ForeignKeyConstraint(
            list(PAIR),
            [f"shadow_statistics.{name}" for name in PAIR],
            name=op.f("fk_shadow_disagreements_shadow_statistics"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shadow_disagreements")),
    )
    op.create_index(
        op.f("ix_shadow_disagreements_project_id_alias_id"), "shadow_disagreements", ["project_id", "alias", "id"]
    )
    protect("shadow_disagreements")


def downgrade() -> None:
    for table in ("shadow_disagreements", "shadow_statistics"):
        expose(table)
        op.drop_table(table)
    op.drop_constraint(op.f("fk_aliases_project_id_shadow_id_models"), "aliases", type_="foreignkey")
    op.drop_constraint(op.f("ck_aliases_shadow"), "aliases", type_="check")
    op.drop_index(op.f("ix_aliases_shadow_id"), table_name="aliases")
    op.drop_column("aliases", "shadow_id")
    op.drop_column("jobs", "feedback_until")
    expose("feedback")
    op.drop_table("feedback")
