"""Authorizations may be asked for without an order, and for all names below a domain."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Flag

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("acme_authorization", sa.Column("subdomains", Flag(), nullable=False, server_default="0"))
    op.add_column("acme_authorization", sa.Column("preauthorized", Flag(), nullable=False, server_default="0"))
    beforehand = sa.text("preauthorized = 1")
    columns = ["account_id", "identifier_type", "identifier_value"]
    op.create_index("acme_authorization_beforehand", "acme_authorization", columns, sqlite_where=beforehand, postgresql_where=beforehand)
