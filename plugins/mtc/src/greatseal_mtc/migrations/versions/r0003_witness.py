"""What the witness remembers of each log."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Serial, Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "mtc_witness",
        sa.Column("log", Id(), primary_key=True),
        sa.Column("origin", Text(), nullable=False),
        sa.Column("size", Serial, nullable=False, autoincrement=False),
        sa.Column("root", Blob(), nullable=False),
        sa.Column("note", Blob(), nullable=False),
        sa.Column("cosignatures", Blob()),
        sa.Column("moved_at", Moment(), nullable=False),
    )
