"""Devices that are remembered, and wrong codes in a row."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Sealed, Serial, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "otp_device",
        sa.Column("device_id", Id, primary_key=True),
        sa.Column("subject", Text, nullable=False),
        sa.Column("digest", Blob, nullable=False),
        sa.Column("sealed", Sealed, nullable=False),
        sa.Column("label", Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_used_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_index("ix_otp_device_subject", "otp_device", ["subject"])
    op.create_index("ix_otp_device_digest", "otp_device", ["digest"], unique=True)
    op.create_index("ix_otp_device_expires_at", "otp_device", ["expires_at"])
    op.create_table(
        "otp_wrong",
        sa.Column("subject", Id, primary_key=True),
        sa.Column("failures", Serial, nullable=False),
    )
