"""lists have pages"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BOUND = ("kerberos_principal", "kerberos_principal_pattern", "spiffe_id")
LIVE = sa.text("revoked_at IS NULL")
ENDED = sa.text("revoked_at IS NOT NULL")


def upgrade() -> None:
    op.create_index("idp_client_created", "idp_client", ["created_at", "client_id"])
    for name in BOUND:
        bound = sa.text(f"{name} IS NOT NULL")
        op.create_index(f"idp_client_{name}", "idp_client", [name, "client_id"], sqlite_where=bound, postgresql_where=bound)
    op.drop_index("idp_consent_subject", "idp_consent")
    op.create_index("idp_consent_subject", "idp_consent", ["subject", "granted_at", "client_id"])
    op.drop_index("ix_idp_family_expires_at", "idp_family")
    op.drop_index("ix_idp_family_revoked_at", "idp_family")
    op.drop_index("idp_family_subject", "idp_family")
    op.drop_index("idp_family_client", "idp_family")
    op.create_index("idp_family_revoked", "idp_family", ["revoked_at"], sqlite_where=ENDED, postgresql_where=ENDED)
    op.create_index("idp_family_end", "idp_family", ["expires_at", "id"], sqlite_where=LIVE, postgresql_where=LIVE)
    op.create_index("idp_family_subject", "idp_family", ["subject", "expires_at", "id"], sqlite_where=LIVE, postgresql_where=LIVE)
    op.create_index("idp_family_client", "idp_family", ["client_id", "expires_at", "id"], sqlite_where=LIVE, postgresql_where=LIVE)
