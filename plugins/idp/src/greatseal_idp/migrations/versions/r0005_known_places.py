"""places of people, and the length of client secrets"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Moment, Serial, Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "idp_place",
        sa.Column("name", Text(), nullable=False),
        sa.Column("source", Text(), nullable=False),
        sa.Column("used_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name", "source"),
    )
    with op.batch_alter_table("idp_place", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idp_place_used_at"), ["used_at"], unique=False)
    with op.batch_alter_table("idp_client", schema=None) as batch_op:
        batch_op.add_column(sa.Column("secret_length", Serial, nullable=True))
