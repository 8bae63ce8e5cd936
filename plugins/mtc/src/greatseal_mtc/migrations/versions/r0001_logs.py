"""Logs that rest in the database."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "mtc_log",
        sa.Column("log", Id, primary_key=True),
        sa.Column("fence", Serial, nullable=False),
        sa.Column("size", Serial),
        sa.Column("root", Blob),
        sa.Column("edge", Blob),
    )
    for name in ("mtc_object", "mtc_document"):
        op.create_table(
            name,
            sa.Column("log", Id, nullable=False),
            sa.Column("name", Text, nullable=False),
            sa.Column("content", Blob, nullable=False),
            sa.PrimaryKeyConstraint("log", "name"),
        )
