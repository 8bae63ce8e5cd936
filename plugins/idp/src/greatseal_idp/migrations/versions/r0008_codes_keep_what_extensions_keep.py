"""codes keep what extensions keep"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    with op.batch_alter_table("idp_code", schema=None) as batch_op:
        batch_op.add_column(sa.Column("more", Document(), nullable=True))
