"""Root and first issuing certificates are recorded before they are signed."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "ca_first",
        sa.Column("digest", Blob(), nullable=False),
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("role", Text(), nullable=False),
        sa.Column("kid", Text(), nullable=False),
        sa.Column("tbs", Blob(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )


def downgrade() -> None:
    op.drop_table("ca_first")
