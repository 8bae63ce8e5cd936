"""An order may replace a certificate, and at most one that is not invalid does."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("acme_order", sa.Column("replaces", Text()))
    replaces = sa.text("replaces IS NOT NULL AND status <> 'invalid'")
    op.create_index("acme_order_replaces", "acme_order", ["replaces"], unique=True, sqlite_where=replaces, postgresql_where=replaces)
