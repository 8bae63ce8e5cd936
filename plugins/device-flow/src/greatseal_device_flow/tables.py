"""What devices ask for belongs to the node that they asked; both codes name it."""

from sqlalchemy import Column, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Document, Id, Moment, State, Text, table

metadata = MetaData()

request = table(
    "device_flow_request",
    metadata,
    State.OWNED,
    Column("digest", Blob, primary_key=True),  # SHA-256 of the device code; also the origin of what was allowed
    Column("user_digest", Blob, nullable=False, unique=True),  # SHA-256 of the letters of the user code
    Column("client_id", Id, nullable=False),
    Column("asked", Document, nullable=False),
    Column("status", Text, nullable=False),  # pending, approved, denied, used
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
)

SCHEMA = Schema("device-flow", metadata, "greatseal_device_flow.migrations", "0001")
