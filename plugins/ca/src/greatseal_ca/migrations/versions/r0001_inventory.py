"""Authorities, chains, inventory."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "ca_authority",
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("role", Text(), nullable=False),
        sa.Column("generation", Serial, nullable=False),
        sa.Column("kid", Text(), nullable=False),
        sa.Column("der", Blob(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "role", "generation"),
    )
    op.create_table(
        "ca_chain",
        sa.Column("id", Id(), nullable=False),
        sa.Column("certificates", Blob(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "ca_certificate",
        sa.Column("id", Id(), nullable=False),
        sa.Column("status", Text(), nullable=False),
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("issue_as", Text(), nullable=False),
        sa.Column("kid", Text(), nullable=False),
        sa.Column("profile", Text(), nullable=False),
        sa.Column("serial", Text(), nullable=True),
        sa.Column("account_id", Id(), nullable=True),
        sa.Column("order_id", Id(), nullable=True),
        sa.Column("spki_sha256", Blob(), nullable=False),
        sa.Column("not_before", Moment(), nullable=False),
        sa.Column("not_after", Moment(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("issued_at", Moment(), nullable=True),
        sa.Column("tbs", Blob(), nullable=True),
        sa.Column("der", Blob(), nullable=True),
        sa.Column("chain_id", Id(), nullable=True),
        sa.Column("media_type", Text(), nullable=True),
        sa.Column("mtc_log_index", Serial, nullable=True),
        sa.Column("mtc_standalone_der", Blob(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("serial"),
    )
    op.create_index("ix_ca_certificate_account", "ca_certificate", ["account_id"])
    op.create_index("ix_ca_certificate_spki", "ca_certificate", ["spki_sha256"])
    op.create_index("ix_ca_certificate_end", "ca_certificate", ["ca_id", "not_after"])


def downgrade() -> None:
    for name in ("ca_certificate", "ca_chain", "ca_authority"):
        op.drop_table(name)
