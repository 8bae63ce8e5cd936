"""Notices that are to be carried."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Id, Moment, Sealed, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "notices_notice",
        sa.Column("id", Id, primary_key=True),
        sa.Column("carrier", Text, nullable=False),
        sa.Column("subject", Text, nullable=False),
        sa.Column("kind", Text, nullable=False),
        sa.Column("said", Document, nullable=False),
        sa.Column("link", Sealed),
        sa.Column("attempts", Serial, nullable=False),
        sa.Column("told_at", Moment, nullable=False),
        sa.Column("due_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_index("ix_notices_notice_due_at", "notices_notice", ["due_at"])
    op.create_index("notices_notice_person", "notices_notice", ["subject", "kind"])
