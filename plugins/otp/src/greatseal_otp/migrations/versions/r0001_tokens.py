"""Tokens, how far they were used, and recovery codes."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Sealed, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "otp_token",
        sa.Column("token_id", Id, primary_key=True),
        sa.Column("subject", Text, nullable=False),
        sa.Column("label", Text, nullable=False),
        sa.Column("secret", Sealed, nullable=False),
        sa.Column("algorithm", Text, nullable=False),
        sa.Column("digits", Serial, nullable=False),
        sa.Column("period", Serial, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("confirmed_at", Moment),
        sa.Column("last_used_at", Moment),
    )
    op.create_index("ix_otp_token_subject", "otp_token", ["subject"])
    op.create_index("otp_token_waiting", "otp_token", ["confirmed_at", "created_at"])
    op.create_table(
        "otp_step",
        sa.Column("token_id", Id, primary_key=True),
        sa.Column("step", Serial, nullable=False),
    )
    op.create_table(
        "otp_recovery",
        sa.Column("subject", Id, primary_key=True),
        sa.Column("remaining", Serial, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "otp_recovery_code",
        sa.Column("digest", Blob, primary_key=True),
        sa.Column("subject", Text, nullable=False),
    )
    op.create_index("ix_otp_recovery_code_subject", "otp_recovery_code", ["subject"])
