"""Issuing certificates after the first: their chains, what they are asked for with, and what roots sign."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Flag, Id, Moment, Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("ca_authority", schema=None) as batch:
        batch.add_column(sa.Column("chain_id", Id(), nullable=True))
    op.create_table(
        "ca_request",
        sa.Column("ca_id", Id(), primary_key=True),
        sa.Column("kid", Text(), nullable=False),
        sa.Column("elsewhere", Flag(), nullable=False),
        sa.Column("csr", Blob(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
    )
    op.create_table(
        "ca_subordinate",
        sa.Column("certificate_id", Id(), primary_key=True),
        sa.Column("ca_id", Id(), nullable=False),
        sa.Column("kind", Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("ca_subordinate")
    op.drop_table("ca_request")
    with op.batch_alter_table("ca_authority", schema=None) as batch:
        batch.drop_column("chain_id")
