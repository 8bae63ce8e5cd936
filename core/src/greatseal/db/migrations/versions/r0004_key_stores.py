"""Keys whose private half is in a key store."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("core_key", sa.Column("store", Text()))
