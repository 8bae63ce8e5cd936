"""What clients ask of people."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Document, Id, Moment, Sealed, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "ciba_request",
        sa.Column("id", Id, primary_key=True),
        sa.Column("digest", Blob, nullable=False, unique=True),
        sa.Column("client_id", Id, nullable=False),
        sa.Column("subject", Id, nullable=False),
        sa.Column("asked", Document, nullable=False),
        sa.Column("binding_message", Text),
        sa.Column("status", Text, nullable=False),
        sa.Column("notification", Sealed),
        sa.Column("attempts", Serial, nullable=False),
        sa.Column("due_at", Moment),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_index("ix_ciba_request_due_at", "ciba_request", ["due_at"])
    op.create_index("ix_ciba_request_expires_at", "ciba_request", ["expires_at"])
    op.create_index("ciba_request_subject", "ciba_request", ["subject", "created_at"])
