"""Keys, and which of them were used."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Id, Moment, Sealed, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "eab_key",
        sa.Column("kid", Id, primary_key=True),
        sa.Column("hmac_key_b64u", Sealed, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("used_at", Moment),
        sa.Column("profile_grants", Document),
        sa.Column("bound_principal", Text),
    )
    op.create_index("eab_key_created", "eab_key", ["created_at", "kid"])
    op.create_table("eab_use", sa.Column("kid", Id, primary_key=True), sa.Column("used_at", Moment, nullable=False))
