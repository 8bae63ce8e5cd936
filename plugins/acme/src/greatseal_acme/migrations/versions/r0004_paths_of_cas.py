"""Authorizations belong to a CA, and accounts may."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Document, Flag, Id, Moment, Text

revision = "0004"
down_revision = "0003"

_BEFORE = sa.Table(
    "acme_account",
    sa.MetaData(),
    sa.Column("id", Id(), primary_key=True),
    sa.Column("status", Text(), nullable=False),
    sa.Column("thumbprint", Text(), nullable=False),
    sa.Column("jwk", Document(), nullable=False),
    sa.Column("contact", Document(), nullable=False),
    sa.Column("terms_agreed", Flag(), nullable=False),
    sa.Column("terms_url", Text()),
    sa.Column("binding", Document()),
    sa.Column("profile_grants", Document()),
    sa.Column("kerberos_principal", Text()),
    sa.Column("created_at", Moment(), nullable=False),
    sa.UniqueConstraint("thumbprint", name="acme_account_thumbprint_key"),
)
"""The constraint has its name on PostgreSQL and none on SQLite, which makes the table anew and copies the rows."""


def upgrade() -> None:
    with op.batch_alter_table("acme_account", schema=None, copy_from=_BEFORE) as batch:
        batch.add_column(sa.Column("ca_id", Id(), nullable=False, server_default=""))
        batch.drop_constraint("acme_account_thumbprint_key", type_="unique")
        batch.create_unique_constraint("uq_acme_account_key", ["thumbprint", "ca_id"])
    op.add_column("acme_authorization", sa.Column("ca_id", Id(), nullable=False, server_default="default"))
    op.execute(
        "UPDATE acme_authorization SET ca_id = (SELECT acme_order.ca_id FROM acme_order JOIN acme_order_authorization"
        " ON acme_order_authorization.order_id = acme_order.id WHERE acme_order_authorization.authorization_id = acme_authorization.id)"
        " WHERE EXISTS (SELECT 1 FROM acme_order_authorization WHERE authorization_id = acme_authorization.id)"
    )
