"""Clients that registered themselves."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "registration_client",
        sa.Column("client_id", Id, primary_key=True),
        sa.Column("token_digest", Blob),
        sa.Column("used_at", Moment, nullable=False),
    )
