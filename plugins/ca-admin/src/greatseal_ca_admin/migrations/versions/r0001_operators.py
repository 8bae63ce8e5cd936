"""operators"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Flag, Id, Moment, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "ca_admin_attempt",
        sa.Column("operator_id", Id(), nullable=False),
        sa.Column("failed_attempts", Serial, autoincrement=False, nullable=False),
        sa.Column("locked_until", Moment(), nullable=True),
        sa.Column("last_seen_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("operator_id"),
    )
    op.create_table(
        "ca_admin_halt",
        sa.Column("id", Id(), nullable=False),
        sa.Column("raised_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "ca_admin_operator",
        sa.Column("id", Id(), nullable=False),
        sa.Column("name", Text(), nullable=False),
        sa.Column("role", Text(), nullable=False),
        sa.Column("cert_fingerprint", Text(), nullable=True),
        sa.Column("certificate", Blob(), nullable=True),
        sa.Column("gssapi_principal", Text(), nullable=True),
        sa.Column("ca_id", Text(), nullable=True),
        sa.Column("active", Flag(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("cert_fingerprint"),
        sa.UniqueConstraint("gssapi_principal"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "ca_admin_session",
        sa.Column("digest", Id(), nullable=False),
        sa.Column("operator_id", Id(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("used_at", Moment(), nullable=False),
        sa.Column("locked", Flag(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    with op.batch_alter_table("ca_admin_session", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ca_admin_session_operator_id"), ["operator_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_ca_admin_session_used_at"), ["used_at"], unique=False)
