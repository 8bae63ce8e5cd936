"""Serials are unique for each CA and issuer; what the log's plugin keeps is in tables of its own."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Serial, Text

revision = "0002"
down_revision = "0001"

_BEFORE = sa.Table(
    "ca_certificate",
    sa.MetaData(),
    sa.Column("id", Id(), primary_key=True),
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
    sa.UniqueConstraint("serial", name="ca_certificate_serial_key"),
    sa.Index("ix_ca_certificate_account", "account_id"),
    sa.Index("ix_ca_certificate_spki", "spki_sha256"),
    sa.Index("ix_ca_certificate_end", "ca_id", "not_after"),
)
"""The constraint has its name on PostgreSQL and none on SQLite, which makes the table anew and copies the rows."""


def upgrade() -> None:
    with op.batch_alter_table("ca_certificate", schema=None, copy_from=_BEFORE) as batch:
        batch.drop_constraint("ca_certificate_serial_key", type_="unique")
        batch.create_unique_constraint("uq_ca_certificate_serial", ["serial", "ca_id", "issue_as"])
        batch.drop_column("mtc_log_index")
        batch.drop_column("mtc_standalone_der")


def downgrade() -> None:
    with op.batch_alter_table("ca_certificate", schema=None) as batch:
        batch.add_column(sa.Column("mtc_log_index", Serial, nullable=True))
        batch.add_column(sa.Column("mtc_standalone_der", Blob(), nullable=True))
        batch.drop_constraint("uq_ca_certificate_serial", type_="unique")
        batch.create_unique_constraint("ca_certificate_serial_key", ["serial"])
