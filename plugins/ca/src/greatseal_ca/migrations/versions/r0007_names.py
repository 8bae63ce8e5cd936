"""Certificates are found by their names, and lists of them walk along an index."""

import sqlalchemy as sa
from alembic import op
from cryptography import x509

from greatseal.db.tables import Id, Text
from greatseal_ca.names import names_of, words_of

revision = "0007"
down_revision = "0006"

BITE = 1000
_SIGNED = sa.text("SELECT id, der FROM ca_certificate WHERE der IS NOT NULL AND id > :after ORDER BY id LIMIT :bite")
_NAME = sa.text("INSERT INTO ca_name (name, certificate_id) VALUES (:name, :certificate_id)")


def upgrade() -> None:
    op.create_table(
        "ca_name",
        sa.Column("name", Text(), nullable=False),
        sa.Column("certificate_id", Id(), nullable=False),
        sa.PrimaryKeyConstraint("name", "certificate_id"),
    )
    for index in ("account", "spki", "end"):
        op.drop_index(f"ix_ca_certificate_{index}", "ca_certificate")
    op.create_index("ix_ca_certificate_account", "ca_certificate", ["account_id", "id"])
    op.create_index("ix_ca_certificate_spki", "ca_certificate", ["spki_sha256", "id"])
    op.create_index("ix_ca_certificate_profile", "ca_certificate", ["profile", "id"])
    op.create_index("ix_ca_certificate_end", "ca_certificate", ["not_after", "id"])
    store, after = op.get_bind(), ""
    while rows := store.execute(_SIGNED, {"after": after, "bite": BITE}).all():
        after = rows[-1].id
        if words := [{"name": word, "certificate_id": row.id} for row in rows for word in _words(bytes(row.der))]:
            store.execute(_NAME, words)


def downgrade() -> None:
    for index in ("account", "spki", "profile", "end"):
        op.drop_index(f"ix_ca_certificate_{index}", "ca_certificate")
    op.create_index("ix_ca_certificate_account", "ca_certificate", ["account_id"])
    op.create_index("ix_ca_certificate_spki", "ca_certificate", ["spki_sha256"])
    op.create_index("ix_ca_certificate_end", "ca_certificate", ["ca_id", "not_after"])
    op.drop_table("ca_name")


def _words(der: bytes) -> list[str]:
    """None of what another issuer made and is no X.509 certificate."""
    try:
        return words_of(names_of(x509.load_der_x509_certificate(der)))
    except ValueError:
        return []
