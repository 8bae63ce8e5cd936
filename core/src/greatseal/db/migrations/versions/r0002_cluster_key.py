"""Which cluster key is in force."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Id, Moment

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "core_cluster_key",
        sa.Column("key_id", Id(), primary_key=True),
        sa.Column("rotated_at", Moment(), nullable=False),
    )
