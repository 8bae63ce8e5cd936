"""Linked accounts and the sessions that came of them travel to every node; a name for a new person is given once, by one node."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Collection, Document, Flag, Id, Moment, Sealed, State, Text, table

metadata = MetaData()

account = table(
    "federation_account",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),  # of provider, issuer and subject there: the same at every node
    Column("upstream_id", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("upstream_sub", Text, nullable=False),
    Column("subject", Text, nullable=False),  # the canonical subject here
    Column("email", Text),
    Column("created_at", Moment, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("last_login_at", Moment),
    Column("disabled", Flag, nullable=False),
    Column("realm", Text),  # of a person who is known by this account alone
    Column("username", Text),
    Column("person", Document),
    Index("federation_account_subject", "subject"),
    Index("federation_account_person", "realm", "username"),
)
ACCOUNT = Collection("federation_account", account)

name = table(
    "federation_name",
    metadata,
    State.OWNED,
    Column("subject", Id, primary_key=True),
    Column("account", Text, nullable=False),
)

session = table(
    "federation_session",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),  # of the session
    Column("account", Text, nullable=False),
    Column("upstream_id", Text, nullable=False),
    Column("upstream_sub", Text, nullable=False),
    Column("upstream_sid", Text),
    Column("id_token", Sealed),
    Column("expires_at", Moment, nullable=False),
    Column("ending", Flag, nullable=False),
    Index("federation_session_account", "account"),
    Index("federation_session_sub", "upstream_id", "upstream_sub"),
    Index("federation_session_sid", "upstream_id", "upstream_sid"),
    Index("federation_session_expires", "expires_at"),
    Index("federation_session_ending", "ending"),
)
SESSION = Collection("federation_session", session)

override = table(
    "federation_override",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),  # of a provider of the directory
    Column("default_acr", Text),
    Column("default_amr", Document, nullable=False),
)
OVERRIDE = Collection("federation_override", override)

SCHEMA = Schema("federation", metadata, "greatseal_federation.migrations", "0001")
