"""operators by EAB key"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Moment, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("ca_admin_operator", schema=None) as batch_op:
        batch_op.add_column(sa.Column("eab_kid", Text(), nullable=True))
        batch_op.add_column(sa.Column("eab_made_at", Moment(), nullable=True))
        batch_op.create_index("ca_admin_operator_eab_kid", ["eab_kid"], unique=True)
