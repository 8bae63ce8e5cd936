"""Public keys that nobody may use any more."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Id, Moment, Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "core_blocked_key",
        sa.Column("spki_sha256", Id(), primary_key=True),
        sa.Column("reason", Text(), nullable=False),
        sa.Column("blocked_by", Text(), nullable=False),
        sa.Column("blocked_at", Moment(), nullable=False),
    )
