"""Tokens travel to every node; how far each was used, and which recovery codes are left, decides the node that the person's name gives."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Collection, Id, Moment, Sealed, Serial, State, Text, table

metadata = MetaData()

token = table(
    "otp_token",
    metadata,
    State.REPLICATED,
    Column("token_id", Id, primary_key=True),
    Column("subject", Text, nullable=False, index=True),
    Column("label", Text, nullable=False),
    Column("secret", Sealed, nullable=False),
    Column("algorithm", Text, nullable=False),
    Column("digits", Serial, nullable=False),
    Column("period", Serial, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("confirmed_at", Moment),
    Column("last_used_at", Moment),
)
Index("otp_token_waiting", token.c.confirmed_at, token.c.created_at)
TOKEN = Collection("otp_token", token)

step = table(
    "otp_step",
    metadata,
    State.OWNED,
    Column("token_id", Id, primary_key=True),
    Column("step", Serial, nullable=False),  # the last one whose code was taken
)

recovery = table(
    "otp_recovery",
    metadata,
    State.REPLICATED,
    Column("subject", Id, primary_key=True),
    Column("remaining", Serial, nullable=False),  # what the other nodes are told of otp_recovery_code
    Column("created_at", Moment, nullable=False),
)
RECOVERY = Collection("otp_recovery", recovery)

recovery_code = table(
    "otp_recovery_code",
    metadata,
    State.OWNED,
    Column("digest", Blob, primary_key=True),
    Column("subject", Text, nullable=False, index=True),
)

device = table(
    "otp_device",
    metadata,
    State.REPLICATED,
    Column("device_id", Id, primary_key=True),
    Column("subject", Text, nullable=False, index=True),
    Column("digest", Blob, nullable=False, unique=True, index=True),  # of the handle in its cookie
    Column("sealed", Sealed, nullable=False),  # whose it is, and what was so when it was made
    Column("label", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
)
DEVICE = Collection("otp_device", device)

wrong = table(
    "otp_wrong",
    metadata,
    State.OWNED,
    Column("subject", Id, primary_key=True),
    Column("failures", Serial, nullable=False),  # codes in a row
)

SCHEMA = Schema("otp", metadata, "greatseal_otp.migrations", "0002")
