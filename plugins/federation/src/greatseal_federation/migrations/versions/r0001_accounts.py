"""Linked accounts, names of people, sessions of other providers, and overrides."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Flag, Id, Moment, Sealed, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "federation_account",
        sa.Column("id", Id, primary_key=True),
        sa.Column("upstream_id", Text, nullable=False),
        sa.Column("issuer", Text, nullable=False),
        sa.Column("upstream_sub", Text, nullable=False),
        sa.Column("subject", Text, nullable=False),
        sa.Column("email", Text),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("created_by", Text, nullable=False),
        sa.Column("last_login_at", Moment),
        sa.Column("disabled", Flag, nullable=False),
        sa.Column("realm", Text),
        sa.Column("username", Text),
        sa.Column("person", Document),
    )
    op.create_index("federation_account_subject", "federation_account", ["subject"])
    op.create_index("federation_account_person", "federation_account", ["realm", "username"])
    op.create_table(
        "federation_name",
        sa.Column("subject", Id, primary_key=True),
        sa.Column("account", Text, nullable=False),
    )
    op.create_table(
        "federation_session",
        sa.Column("id", Id, primary_key=True),
        sa.Column("account", Text, nullable=False),
        sa.Column("upstream_id", Text, nullable=False),
        sa.Column("upstream_sub", Text, nullable=False),
        sa.Column("upstream_sid", Text),
        sa.Column("id_token", Sealed),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Column("ending", Flag, nullable=False),
    )
    op.create_index("federation_session_account", "federation_session", ["account"])
    op.create_index("federation_session_sub", "federation_session", ["upstream_id", "upstream_sub"])
    op.create_index("federation_session_sid", "federation_session", ["upstream_id", "upstream_sid"])
    op.create_index("federation_session_expires", "federation_session", ["expires_at"])
    op.create_index("federation_session_ending", "federation_session", ["ending"])
    op.create_table(
        "federation_override",
        sa.Column("id", Id, primary_key=True),
        sa.Column("default_acr", Text),
        sa.Column("default_amr", Document, nullable=False),
    )
