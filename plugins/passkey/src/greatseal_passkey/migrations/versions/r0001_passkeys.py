"""Passkeys, what is known of them, and a secret."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Document, Flag, Id, Moment, Sealed, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "passkey_credential",
        sa.Column("id", Id, primary_key=True),
        sa.Column("subject", Id, nullable=False),
        sa.Column("public_key", Blob, nullable=False),
        sa.Column("user_handle", Blob, nullable=False),
    )
    op.create_index("passkey_credential_subject", "passkey_credential", ["subject"])
    op.create_table(
        "passkey_record",
        sa.Column("id", Id, primary_key=True),
        sa.Column("subject", Id, nullable=False),
        sa.Column("store", Text, nullable=False),
        sa.Column("label", Text, nullable=False),
        sa.Column("aaguid", Text, nullable=False),
        sa.Column("transports", Document, nullable=False),
        sa.Column("sign_count", Serial, nullable=False),
        sa.Column("backup_eligible", Flag, nullable=False),
        sa.Column("backup_state", Flag, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_used_at", Moment),
        sa.Column("suspected_at", Moment),
    )
    op.create_index("passkey_record_subject", "passkey_record", ["subject", "created_at"])
    op.create_table(
        "passkey_secret",
        sa.Column("name", Id, primary_key=True),
        sa.Column("value", Sealed, nullable=False),
    )
