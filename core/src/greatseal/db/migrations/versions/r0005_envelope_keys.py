"""The keys of what leaves a node sealed and comes back."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Id, Moment, Sealed

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "core_envelope_key",
        sa.Column("node", Id(), primary_key=True),
        sa.Column("value", Sealed(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
    )
