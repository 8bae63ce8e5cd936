"""What is known of a client that registered itself beside its registration. The node where it did keeps it: its id names that node."""

from sqlalchemy import Column, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Id, Moment, State, table

metadata = MetaData()

client = table(
    "registration_client",
    metadata,
    State.OWNED,
    Column("client_id", Id, primary_key=True),
    Column("token_digest", Blob),
    Column("used_at", Moment, nullable=False),
)
"""``token_digest`` is the SHA-256 of its registration access token, None without one; ``used_at`` when it last got a token, to the hour."""

SCHEMA = Schema(feature="registration", metadata=metadata, migrations="greatseal_registration.migrations", head="0001")
