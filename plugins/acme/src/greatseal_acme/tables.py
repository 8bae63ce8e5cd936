"""Accounts are replicated configuration; orders, authorizations and challenges belong to the node that made them."""

from sqlalchemy import Column, ForeignKey, Index, MetaData, UniqueConstraint, text

from greatseal.api.declarations import Schema
from greatseal.db.tables import Collection, Document, Flag, Id, Moment, Serial, State, Text, table

metadata = MetaData()

account = table(
    "acme_account",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("status", Text, nullable=False),
    Column("ca_id", Id, nullable=False, server_default=""),  # the CA that it belongs to alone; empty: all
    Column("thumbprint", Text, nullable=False),
    Column("jwk", Document, nullable=False),
    Column("contact", Document, nullable=False),
    Column("terms_agreed", Flag, nullable=False),
    Column("terms_url", Text),  # where the terms were that it agreed to last
    Column("binding", Document),  # {member: echo} of the verified AccountBinding
    Column("profile_grants", Document),
    Column("kerberos_principal", Text),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("thumbprint", "ca_id", name="uq_acme_account_key"),
)
ACCOUNT = Collection("acme_account", account)

order = table(
    "acme_order",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("account_id", Id, nullable=False),
    Column("ca_id", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("profile_requested", Flag, nullable=False),
    Column("status", Text, nullable=False),
    Column("identifiers", Document, nullable=False),
    Column("not_before", Moment),
    Column("not_after", Moment),
    Column("error", Document),
    Column("certificate_id", Id),  # that of the reservation from processing on
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("claimed_at", Moment),
    Column("replaces", Text),  # a certificate, by the name of RFC 9773
)
Index(
    "acme_order_claimed", order.c.claimed_at, sqlite_where=order.c.status == "processing", postgresql_where=order.c.status == "processing"
)

OPEN = text("status IN ('pending', 'ready', 'processing')")
"""Of an order that its account may still finish, unless its time is over."""
Index("acme_order_open", order.c.account_id, order.c.expires_at, sqlite_where=OPEN, postgresql_where=OPEN)
REPLACES = text("replaces IS NOT NULL AND status <> 'invalid'")
Index("acme_order_replaces", order.c.replaces, unique=True, sqlite_where=REPLACES, postgresql_where=REPLACES)
Index("acme_order_of", order.c.account_id, order.c.id)

authorization = table(
    "acme_authorization",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("account_id", Id, nullable=False),
    Column("ca_id", Id, nullable=False, server_default="default"),
    Column("identifier_type", Text, nullable=False),
    Column("identifier_value", Text, nullable=False),  # without wildcard prefix
    Column("wildcard", Flag, nullable=False),
    Column("subdomains", Flag, nullable=False, server_default="0"),  # for the names below it too (RFC 9444)
    Column("preauthorized", Flag, nullable=False, server_default="0"),  # asked for without an order
    Column("status", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
)
BEFOREHAND = text("preauthorized = 1")
Index(
    "acme_authorization_beforehand",
    authorization.c.account_id,
    authorization.c.identifier_type,
    authorization.c.identifier_value,
    sqlite_where=BEFOREHAND,
    postgresql_where=BEFOREHAND,
)
HELD = text("status IN ('pending', 'valid')")
"""Of an authorization that its account may still use, unless its time is over."""
Index(
    "acme_authorization_held",
    authorization.c.account_id,
    authorization.c.identifier_type,
    authorization.c.identifier_value,
    sqlite_where=HELD,
    postgresql_where=HELD,
)

order_authorization = table(
    "acme_order_authorization",
    metadata,
    State.OWNED,
    Column("order_id", Id, ForeignKey("acme_order.id"), primary_key=True),
    Column("position", Serial, primary_key=True),
    Column("authorization_id", Id, ForeignKey("acme_authorization.id"), nullable=False),
)
Index("acme_order_authorization_of", order_authorization.c.authorization_id)

challenge = table(
    "acme_challenge",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("authorization_id", Id, ForeignKey("acme_authorization.id"), nullable=False),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("kept", Document),
    Column("error", Document),
    Column("validated_at", Moment),
    UniqueConstraint("authorization_id", "type"),
)

validation = table(
    "acme_validation",
    metadata,
    State.OWNED,
    Column("challenge_id", Id, ForeignKey("acme_challenge.id"), primary_key=True),
    Column("lease_until", Moment, nullable=False),
)
Index("acme_validation_lease", validation.c.lease_until)

SCHEMA = Schema(feature="acme", metadata=metadata, migrations="greatseal_acme.migrations", head="0006")
