"""When and why a certificate was revoked."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Moment, Serial

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("ca_certificate", schema=None) as batch:
        batch.add_column(sa.Column("revoked_at", Moment(), nullable=True))
        batch.add_column(sa.Column("reason", Serial, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("ca_certificate", schema=None) as batch:
        batch.drop_column("reason")
        batch.drop_column("revoked_at")
