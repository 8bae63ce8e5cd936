"""Accounts, orders, authorizations, challenges and the validation queue.

Tables with random keys are without rowid on SQLite: half the pages to write for each order.
"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Flag, Id, Moment, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "acme_account",
        sa.Column("id", Id, primary_key=True),
        sa.Column("status", Text, nullable=False),
        sa.Column("thumbprint", Text, nullable=False, unique=True),
        sa.Column("jwk", Document, nullable=False),
        sa.Column("contact", Document, nullable=False),
        sa.Column("terms_agreed", Flag, nullable=False),
        sa.Column("binding", Document),
        sa.Column("profile_grants", Document),
        sa.Column("kerberos_principal", Text),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "acme_order",
        sa.Column("id", Id, primary_key=True),
        sa.Column("account_id", Id, nullable=False),
        sa.Column("ca_id", Text, nullable=False),
        sa.Column("profile", Text, nullable=False),
        sa.Column("profile_requested", Flag, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("identifiers", Document, nullable=False),
        sa.Column("not_before", Moment),
        sa.Column("not_after", Moment),
        sa.Column("error", Document),
        sa.Column("certificate_id", Id),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Column("claimed_at", Moment),
        sqlite_with_rowid=False,
    )
    processing = sa.text("status = 'processing'")
    op.create_index("acme_order_claimed", "acme_order", ["claimed_at"], sqlite_where=processing, postgresql_where=processing)
    op.create_table(
        "acme_authorization",
        sa.Column("id", Id, primary_key=True),
        sa.Column("account_id", Id, nullable=False),
        sa.Column("identifier_type", Text, nullable=False),
        sa.Column("identifier_value", Text, nullable=False),
        sa.Column("wildcard", Flag, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "acme_order_authorization",
        sa.Column("order_id", Id, sa.ForeignKey("acme_order.id"), primary_key=True),
        sa.Column("position", Serial, primary_key=True),
        sa.Column("authorization_id", Id, sa.ForeignKey("acme_authorization.id"), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("acme_order_authorization_of", "acme_order_authorization", ["authorization_id"])
    op.create_table(
        "acme_challenge",
        sa.Column("id", Id, primary_key=True),
        sa.Column("authorization_id", Id, sa.ForeignKey("acme_authorization.id"), nullable=False),
        sa.Column("type", Text, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("token", Text, nullable=False),
        sa.Column("kept", Document),
        sa.Column("error", Document),
        sa.Column("validated_at", Moment),
        sa.UniqueConstraint("authorization_id", "type"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "acme_validation",
        sa.Column("challenge_id", Id, sa.ForeignKey("acme_challenge.id"), primary_key=True),
        sa.Column("lease_until", Moment, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("acme_validation_lease", "acme_validation", ["lease_until"])
