"""Operators, sessions and the halt are replicated; what counts failures is of the node where they happen."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Collection, Flag, Id, Moment, Serial, State, Text, table

metadata = MetaData()

operator = table(
    "ca_admin_operator",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("cert_fingerprint", Text, unique=True),  # SHA-256 of the DER, hexadecimal
    Column("certificate", Blob),  # the DER where it was given: then the listener trusts it by itself
    Column("gssapi_principal", Text, unique=True),
    Column("eab_kid", Text),
    Column("eab_made_at", Moment),  # of the very key that was meant: another one under its id proves nobody
    Column("ca_id", Text),
    Column("active", Flag, nullable=False),
    Column("created_at", Moment, nullable=False),
)
Index("ca_admin_operator_eab_kid", operator.c.eab_kid, unique=True)
OPERATOR = Collection("ca_admin_operator", operator)

attempt = table(
    "ca_admin_attempt",
    metadata,
    State.LOCAL,
    Column("operator_id", Id, primary_key=True),
    Column("failed_attempts", Serial, nullable=False, autoincrement=False),
    Column("locked_until", Moment),
    Column("last_seen_at", Moment),
)
"""Of every operator who tried to sign in here: failures since the last success, and until when nobody may try."""

session = table(
    "ca_admin_session",
    metadata,
    State.REPLICATED,
    Column("digest", Id, primary_key=True),  # SHA-256 of the token, hexadecimal
    Column("operator_id", Id, nullable=False, index=True),
    Column("certificate", Blob),  # the DER that was shown, or the EAB key: each request asks whether it still proves anybody
    Column("eab_kid", Text),
    Column("eab_made_at", Moment),
    Column("gssapi_principal", Text),
    Column("created_at", Moment, nullable=False),
    Column("used_at", Moment, nullable=False, index=True),
    Column("locked", Flag, nullable=False),
)
SESSION = Collection("ca_admin_session", session)

halt = table(
    "ca_admin_halt",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("raised_at", Moment, nullable=False),
)
"""One row while the alarm has ended all issuing."""
HALT = Collection("ca_admin_halt", halt)

SCHEMA = Schema(feature="ca-admin", metadata=metadata, migrations="greatseal_ca_admin.migrations", head="0004")
