"""proofs of sessions"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Moment, Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("DELETE FROM ca_admin_session")  # they do not say what they stand for: operators sign in again
    with op.batch_alter_table("ca_admin_session", schema=None) as batch_op:
        batch_op.add_column(sa.Column("certificate", Blob(), nullable=True))
        batch_op.add_column(sa.Column("eab_kid", Text(), nullable=True))
        batch_op.add_column(sa.Column("eab_made_at", Moment(), nullable=True))
