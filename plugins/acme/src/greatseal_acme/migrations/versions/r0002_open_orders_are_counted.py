"""open orders are counted"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    is_open = sa.text("status IN ('pending', 'ready', 'processing')")
    op.create_index("acme_order_open", "acme_order", ["account_id", "expires_at"], sqlite_where=is_open, postgresql_where=is_open)
