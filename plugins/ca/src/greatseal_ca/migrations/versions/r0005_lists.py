"""Revocation lists, numbers of them, and the certificates of OCSP signers. What was issued before is told on list 1."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Serial, Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "ca_crl",
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("shard", Serial, nullable=False),
        sa.Column("kid", Text(), nullable=False),
        sa.Column("used", Serial, nullable=False),
        sa.Column("revision", Serial, nullable=False),
        sa.Column("number", Serial, nullable=False),
        sa.Column("made_revision", Serial, nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "shard"),
    )
    op.create_table(
        "ca_crl_base",
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("base", Text(), nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "base"),
    )
    op.create_table(
        "ca_crl_number",
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("shard", Serial, nullable=False),
        sa.Column("number", Serial, nullable=False),
        sa.Column("digest", Blob(), nullable=False),
        sa.Column("made_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "shard", "number"),
    )
    op.create_table(
        "ca_revocation",
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("shard", Serial, nullable=False),
        sa.Column("serial", Text(), nullable=False),
        sa.Column("revoked_at", Moment(), nullable=False),
        sa.Column("reason", Serial, nullable=True),
        sa.Column("not_after", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "shard", "serial"),
    )
    op.create_table(
        "ca_responder",
        sa.Column("serial", Text(), nullable=False),
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("issuer_kid", Text(), nullable=False),
        sa.Column("kid", Text(), nullable=False),
        sa.Column("not_before", Moment(), nullable=False),
        sa.Column("not_after", Moment(), nullable=False),
        sa.Column("tbs", Blob(), nullable=False),
        sa.Column("der", Blob(), nullable=True),
        sa.PrimaryKeyConstraint("serial"),
    )
    op.create_index("ix_ca_responder_ca", "ca_responder", ["ca_id", "issuer_kid"])
    op.add_column("ca_certificate", sa.Column("crl_shard", Serial, nullable=True))
    op.create_index("ix_ca_certificate_shard", "ca_certificate", ["ca_id", "crl_shard", "not_after"])
    op.execute("UPDATE ca_certificate SET crl_shard = 1 WHERE issue_as = 'x509'")
    op.execute("UPDATE ca_certificate SET revoked_at = created_at WHERE status = 'unknown'")
    op.execute(
        "INSERT INTO ca_revocation (ca_id, shard, serial, revoked_at, reason, not_after) "
        "SELECT ca_id, crl_shard, serial, revoked_at, reason, not_after FROM ca_certificate "
        "WHERE status IN ('revoked', 'unknown') AND crl_shard IS NOT NULL AND serial IS NOT NULL"
    )


def downgrade() -> None:
    op.drop_index("ix_ca_certificate_shard", "ca_certificate")
    with op.batch_alter_table("ca_certificate", schema=None) as batch:
        batch.drop_column("crl_shard")
    for name in ("ca_responder", "ca_revocation", "ca_crl_number", "ca_crl_base", "ca_crl"):
        op.drop_table(name)
