"""Access rules."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Id, Moment

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "hbac_rule",
        sa.Column("rule_id", Id, primary_key=True),
        sa.Column("content", Document, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
