"""what an account agreed to, and what it has"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("acme_account", sa.Column("terms_url", Text))
    op.create_index("acme_order_of", "acme_order", ["account_id", "id"])
    is_held = sa.text("status IN ('pending', 'valid')")
    columns = ["account_id", "identifier_type", "identifier_value"]
    op.create_index("acme_authorization_held", "acme_authorization", columns, sqlite_where=is_held, postgresql_where=is_held)
