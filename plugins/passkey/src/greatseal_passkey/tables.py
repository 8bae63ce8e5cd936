"""Passkeys are replicated: whoever registered one signs in at every node."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Collection, Document, Flag, Id, Moment, Sealed, Serial, State, Text, table

metadata = MetaData()

credential = table(
    "passkey_credential",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),  # base64url of the credential id
    Column("subject", Id, nullable=False),
    Column("public_key", Blob, nullable=False),  # SubjectPublicKeyInfo
    Column("user_handle", Blob, nullable=False),
    Index("passkey_credential_subject", "subject"),
)
CREDENTIAL = Collection("passkey_credential", credential)

record = table(
    "passkey_record",  # what no store has to keep: also of credentials that rest in a directory
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("subject", Id, nullable=False),
    Column("store", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("aaguid", Text, nullable=False),
    Column("transports", Document, nullable=False),
    Column("sign_count", Serial, nullable=False),
    Column("backup_eligible", Flag, nullable=False),
    Column("backup_state", Flag, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment),
    Column("suspected_at", Moment),  # when its signature counter went back
    Index("passkey_record_subject", "subject", "created_at"),
)
RECORD = Collection("passkey_record", record)

secret = table(
    "passkey_secret",
    metadata,
    State.REPLICATED,
    Column("name", Id, primary_key=True),  # decoys: what those of unknown names are made of
    Column("value", Sealed, nullable=False),
)
SECRET = Collection("passkey_secret", secret)

SCHEMA = Schema("passkey", metadata, "greatseal_passkey.migrations", "0001")
