"""Audit events, strikes and signing keys."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Sealed, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "core_audit",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("event_type", Text(), nullable=False),
        sa.Column("service", Text(), nullable=False),
        sa.Column("outcome", Text(), nullable=False),
        sa.Column("sub", Text()),
        sa.Column("client_id", Text()),
        sa.Column("principal", Text()),
        sa.Column("detail", Text()),
        sa.Column("created_at", Moment(), nullable=False),
    )
    op.create_table(
        "core_strike",
        sa.Column("kind", Text(), nullable=False),
        sa.Column("key", Text(), nullable=False),
        sa.Column("until", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "key"),
        sqlite_with_rowid=False,  # one tree to write for each strike instead of two
    )
    op.create_index("ix_core_strike_until", "core_strike", ["until"])
    op.create_table(
        "core_key",
        sa.Column("kid", Id(), primary_key=True),
        sa.Column("purpose", Text(), nullable=False),
        sa.Column("algorithm", Text(), nullable=False),
        sa.Column("state", Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("spki", Blob(), nullable=False),
        sa.Column("private", Sealed()),
    )
