"""kerberos principals of sessions"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("ca_admin_session", schema=None) as batch_op:
        batch_op.add_column(sa.Column("gssapi_principal", Text(), nullable=True))
