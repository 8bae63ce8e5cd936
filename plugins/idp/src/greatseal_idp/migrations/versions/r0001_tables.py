"""tables"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Document, Flag, Id, Moment, Sealed, Serial, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "idp_authorization",
        sa.Column("digest", Blob(), nullable=False),
        sa.Column("kind", Text(), nullable=False),
        sa.Column("client_id", Id(), nullable=False),
        sa.Column("session_id", Id(), nullable=True),
        sa.Column("subject", Text(), nullable=True),
        sa.Column("parameters", Document(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.Column("used_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    with op.batch_alter_table("idp_authorization", schema=None) as batch_op:
        batch_op.create_index("idp_authorization_session", ["session_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_idp_authorization_expires_at"), ["expires_at"], unique=False)

    op.create_table(
        "idp_client",
        sa.Column("client_id", Id(), nullable=False),
        sa.Column("client_name", Text(), nullable=False),
        sa.Column("token_endpoint_auth_method", Text(), nullable=False),
        sa.Column("redirect_uris", Document(), nullable=False),
        sa.Column("scopes", Document(), nullable=False),
        sa.Column("grant_types", Document(), nullable=False),
        sa.Column("secret_form", Text(), nullable=True),
        sa.Column("secret_digest", Blob(), nullable=True),
        sa.Column("secret_sealed", Sealed(), nullable=True),
        sa.Column("jwks_uri", Text(), nullable=True),
        sa.Column("jwks", Document(), nullable=True),
        sa.Column("tls_client_certificate_sha256", Text(), nullable=True),
        sa.Column("kerberos_principal", Text(), nullable=True),
        sa.Column("kerberos_principal_pattern", Text(), nullable=True),
        sa.Column("kerberos_hbac_service", Text(), nullable=True),
        sa.Column("spiffe_id", Text(), nullable=True),
        sa.Column("workload_type", Text(), nullable=True),
        sa.Column("allow_token_exchange_actor", Flag(), nullable=False),
        sa.Column("source", Text(), nullable=False),
        sa.Column("more", Document(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("updated_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("client_id"),
    )
    op.create_table(
        "idp_code",
        sa.Column("digest", Blob(), nullable=False),
        sa.Column("client_id", Id(), nullable=False),
        sa.Column("redirect_uri", Text(), nullable=False),
        sa.Column("code_challenge", Text(), nullable=True),
        sa.Column("subject", Text(), nullable=False),
        sa.Column("session_id", Id(), nullable=True),
        sa.Column("scopes", Document(), nullable=False),
        sa.Column("nonce", Text(), nullable=True),
        sa.Column("claims", Document(), nullable=True),
        sa.Column("auth_time", Moment(), nullable=False),
        sa.Column("amr", Document(), nullable=False),
        sa.Column("acr", Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.Column("used_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    with op.batch_alter_table("idp_code", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idp_code_expires_at"), ["expires_at"], unique=False)

    op.create_table(
        "idp_consent",
        sa.Column("id", Id(), nullable=False),
        sa.Column("subject", Text(), nullable=False),
        sa.Column("client_id", Id(), nullable=False),
        sa.Column("scopes", Document(), nullable=False),
        sa.Column("granted_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("idp_consent", schema=None) as batch_op:
        batch_op.create_index("idp_consent_client", ["client_id"], unique=False)
        batch_op.create_index("idp_consent_subject", ["subject"], unique=False)

    op.create_table(
        "idp_family",
        sa.Column("id", Id(), nullable=False),
        sa.Column("client_id", Id(), nullable=False),
        sa.Column("subject", Text(), nullable=False),
        sa.Column("session_id", Id(), nullable=True),
        sa.Column("origin", Blob(), nullable=True),
        sa.Column("scopes", Document(), nullable=False),
        sa.Column("granted", Document(), nullable=False),
        sa.Column("generation", Serial, nullable=False),
        sa.Column("rotated_at", Moment(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("idle_expires_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.Column("revoked_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("idp_family", schema=None) as batch_op:
        batch_op.create_index("idp_family_client", ["client_id"], unique=False)
        batch_op.create_index("idp_family_origin", ["origin"], unique=False)
        batch_op.create_index("idp_family_session", ["session_id"], unique=False)
        batch_op.create_index("idp_family_subject", ["subject"], unique=False)
        batch_op.create_index(batch_op.f("ix_idp_family_expires_at"), ["expires_at"], unique=False)

    op.create_table(
        "idp_notification",
        sa.Column("id", Id(), nullable=False),
        sa.Column("client_id", Id(), nullable=False),
        sa.Column("subject", Text(), nullable=False),
        sa.Column("session_id", Id(), nullable=True),
        sa.Column("attempts", Serial, nullable=False),
        sa.Column("due_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("idp_notification", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idp_notification_due_at"), ["due_at"], unique=False)

    op.create_table(
        "idp_revoked",
        sa.Column("kind", Text(), nullable=False),
        sa.Column("value", Text(), nullable=False),
        sa.Column("until", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "value"),
    )
    with op.batch_alter_table("idp_revoked", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idp_revoked_until"), ["until"], unique=False)

    op.create_table(
        "idp_scope",
        sa.Column("name", Id(), nullable=False),
        sa.Column("description", Text(), nullable=False),
        sa.Column("claims", Document(), nullable=False),
        sa.Column("is_system", Flag(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "idp_secret",
        sa.Column("name", Id(), nullable=False),
        sa.Column("value", Sealed(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "idp_session",
        sa.Column("id", Id(), nullable=False),
        sa.Column("digest", Blob(), nullable=False),
        sa.Column("subject", Text(), nullable=False),
        sa.Column("username", Text(), nullable=False),
        sa.Column("realm", Text(), nullable=False),
        sa.Column("groups", Document(), nullable=False),
        sa.Column("amr", Document(), nullable=False),
        sa.Column("acr", Text(), nullable=True),
        sa.Column("auth_time", Moment(), nullable=False),
        sa.Column("remote", Text(), nullable=False),
        sa.Column("user_agent", Text(), nullable=True),
        sa.Column("upstream", Document(), nullable=True),
        sa.Column("clients", Document(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("last_seen_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    with op.batch_alter_table("idp_session", schema=None) as batch_op:
        batch_op.create_index("idp_session_end", ["expires_at"], unique=False)
        batch_op.create_index("idp_session_subject", ["subject"], unique=False)
