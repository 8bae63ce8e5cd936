"""What devices ask for."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Document, Id, Moment, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "device_flow_request",
        sa.Column("digest", Blob, primary_key=True),
        sa.Column("user_digest", Blob, nullable=False, unique=True),
        sa.Column("client_id", Id, nullable=False),
        sa.Column("asked", Document, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_index("ix_device_flow_request_expires_at", "device_flow_request", ["expires_at"])
