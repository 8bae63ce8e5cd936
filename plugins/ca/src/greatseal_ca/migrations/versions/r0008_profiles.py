"""Operators make profiles."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Id, Moment

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "ca_profile",
        sa.Column("id", Id(), nullable=False),
        sa.Column("settings", Document(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("updated_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("ca_profile")
