"""What clients ask of people belongs to the node that they asked: handle and id name it."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Document, Id, Moment, Sealed, Serial, State, Text, table

metadata = MetaData()

request = table(
    "ciba_request",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("digest", Blob, nullable=False, unique=True),  # SHA-256 of the auth_req_id; also the origin of what was allowed
    Column("client_id", Id, nullable=False),
    Column("subject", Id, nullable=False),
    Column("asked", Document, nullable=False),
    Column("binding_message", Text),
    Column("status", Text, nullable=False),  # pending, approved, denied, used
    Column("notification", Sealed),  # of a ping that is owed: auth_req_id and client_notification_token
    Column("attempts", Serial, nullable=False),
    Column("due_at", Moment, index=True),  # of the next attempt at the ping, once the person has decided
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
    Index("ciba_request_subject", "subject", "created_at"),
)

SCHEMA = Schema("ciba", metadata, "greatseal_ciba.migrations", "0001")
