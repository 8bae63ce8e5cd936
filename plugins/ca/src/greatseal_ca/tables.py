"""The tables of the certificate authority."""

from sqlalchemy import Column, Index, MetaData, PrimaryKeyConstraint, UniqueConstraint

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Flag, Id, Moment, Serial, State, Text, table

metadata = MetaData()

authority = table(
    "ca_authority",
    metadata,
    State.OWNED,
    Column("ca_id", Id, nullable=False),
    Column("role", Text, nullable=False),
    Column("generation", Serial, nullable=False),
    Column("kid", Text, nullable=False),
    Column("der", Blob, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("chain_id", Id),
    PrimaryKeyConstraint("ca_id", "role", "generation"),
)
"""Certificates of CAs whose keys are here; ``role`` is root or issuing, ``kid`` the key in the ring of that role. ``chain_id`` are those
above it, root last; where it is empty, the root of this table. The issuing certificate of the highest generation signs."""

request = table(
    "ca_request",
    metadata,
    State.OWNED,
    Column("ca_id", Id, primary_key=True),
    Column("kid", Text, nullable=False),
    Column("elsewhere", Flag, nullable=False),
    Column("csr", Blob, nullable=False),
    Column("created_at", Moment, nullable=False),
)
"""What the next issuing certificate of a CA is asked for with, of the root of this service or ``elsewhere``; gone when that is there."""

subordinate = table(
    "ca_subordinate",
    metadata,
    State.APPEND_ONLY,
    Column("certificate_id", Id, primary_key=True),
    Column("ca_id", Id, nullable=False),
    Column("kind", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)
"""Certificates of CAs in the inventory that the root of a CA signs; ``kind`` is issuing or cross."""

chain = table(
    "ca_chain",
    metadata,
    State.APPEND_ONLY,
    Column("id", Id, primary_key=True),
    Column("certificates", Blob, nullable=False),
)
"""The chains under which certificates were issued: DER certificates one after the other; ``id`` is their SHA-256 in hex."""

certificate = table(
    "ca_certificate",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("status", Text, nullable=False),
    Column("ca_id", Id, nullable=False),
    Column("issue_as", Text, nullable=False),
    Column("kid", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("serial", Text),
    Column("account_id", Id),
    Column("order_id", Id),
    Column("spki_sha256", Blob, nullable=False),
    Column("not_before", Moment, nullable=False),
    Column("not_after", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("issued_at", Moment),
    Column("tbs", Blob),
    Column("der", Blob),
    Column("chain_id", Id),
    Column("media_type", Text),
    Column("revoked_at", Moment),
    Column("reason", Serial),
    UniqueConstraint("serial", "ca_id", "issue_as", name="uq_ca_certificate_serial"),
    Index("ix_ca_certificate_account", "account_id"),
    Index("ix_ca_certificate_spki", "spki_sha256"),
    Index("ix_ca_certificate_end", "ca_id", "not_after"),
)
"""The inventory. ``serial`` is lower-case hex without sign byte, and of one CA and issuer alone; ``tbs`` is there as long as the
certificate is not (``der`` holds it)."""

SCHEMA = Schema(feature="ca", metadata=metadata, migrations="greatseal_ca.migrations", head="0004")
