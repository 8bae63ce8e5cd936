"""The tables of the certificate authority."""

from sqlalchemy import Column, Index, MetaData, PrimaryKeyConstraint, UniqueConstraint

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Collection, Document, Flag, Id, Moment, Serial, State, Text, table

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

first = table(
    "ca_first",
    metadata,
    State.APPEND_ONLY,
    Column("digest", Blob, primary_key=True),
    Column("ca_id", Id, nullable=False),
    Column("role", Text, nullable=False),
    Column("kid", Text, nullable=False),
    Column("tbs", Blob, nullable=False),
    Column("created_at", Moment, nullable=False),
)
"""Certificates of CAs that a first start signed with the root's key ``kid``, or was about to; ``digest`` is the SHA-256 of ``tbs``. A start
that follows a kill makes others, for the same key."""

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
    Column("crl_shard", Serial),
    UniqueConstraint("serial", "ca_id", "issue_as", name="uq_ca_certificate_serial"),
    Index("ix_ca_certificate_account", "account_id", "id"),
    Index("ix_ca_certificate_spki", "spki_sha256", "id"),
    Index("ix_ca_certificate_profile", "profile", "id"),
    Index("ix_ca_certificate_end", "not_after", "id"),
    Index("ix_ca_certificate_shard", "ca_id", "crl_shard", "not_after"),
)
"""The inventory. ``serial`` is lower-case hex without sign byte, and of one CA and issuer alone; ``tbs`` is there as long as the
certificate is not (``der`` holds it); ``crl_shard`` is the list on which it is told when it is revoked, None where none tells of it."""

name = table(
    "ca_name",
    metadata,
    State.APPEND_ONLY,
    Column("name", Text, nullable=False),
    Column("certificate_id", Id, nullable=False),
    PrimaryKeyConstraint("name", "certificate_id"),
)
"""By what certificates are found: their names, and behind a dot the domains above them (:func:`greatseal_ca.names.words_of`)."""

crl = table(
    "ca_crl",
    metadata,
    State.OWNED,
    Column("ca_id", Id, nullable=False),
    Column("shard", Serial, nullable=False),
    Column("kid", Text, nullable=False),
    Column("used", Serial, nullable=False),
    Column("revision", Serial, nullable=False),
    Column("number", Serial, nullable=False),
    Column("made_revision", Serial, nullable=False),
    PrimaryKeyConstraint("ca_id", "shard"),
)
"""The lists of each CA; ``kid`` is the key that signs them, ``used`` how many certificates may be told on them. ``revision`` counts what
is to be told, ``made_revision`` is the one that the list of ``number`` told. List 0 is that of the root, about CA certificates."""

crl_base = table(
    "ca_crl_base",
    metadata,
    State.APPEND_ONLY,
    Column("ca_id", Id, nullable=False),
    Column("base", Text, nullable=False),
    PrimaryKeyConstraint("ca_id", "base"),
)
"""Where certificates ever said that the lists of their CA are: a list names all of these places as its own."""

crl_number = table(
    "ca_crl_number",
    metadata,
    State.APPEND_ONLY,
    Column("ca_id", Id, nullable=False),
    Column("shard", Serial, nullable=False),
    Column("number", Serial, nullable=False),
    Column("digest", Blob, nullable=False),
    Column("made_at", Moment, nullable=False),
    PrimaryKeyConstraint("ca_id", "shard", "number"),
)
"""What was about to be signed as the list of a number: its SHA-256."""

revocation = table(
    "ca_revocation",
    metadata,
    State.APPEND_ONLY,
    Column("ca_id", Id, nullable=False),
    Column("shard", Serial, nullable=False),
    Column("serial", Text, nullable=False),
    Column("revoked_at", Moment, nullable=False),
    Column("reason", Serial),
    Column("not_after", Moment, nullable=False),
    PrimaryKeyConstraint("ca_id", "shard", "serial"),
)
"""The entries of the lists: certificates that are revoked or unknown, until a while after they expired."""

responder = table(
    "ca_responder",
    metadata,
    State.OWNED,
    Column("serial", Text, primary_key=True),
    Column("ca_id", Id, nullable=False),
    Column("issuer_kid", Text, nullable=False),
    Column("kid", Text, nullable=False),
    Column("not_before", Moment, nullable=False),
    Column("not_after", Moment, nullable=False),
    Column("tbs", Blob, nullable=False),
    Column("der", Blob),
    Index("ix_ca_responder_ca", "ca_id", "issuer_kid"),
)
"""Certificates of the keys that sign OCSP answers for a CA, recorded before they are signed."""

profile = table(
    "ca_profile",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("settings", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)
"""Profiles that operators made: ``settings`` are the keys of a table ``[profiles.<id>]`` as JSON."""
PROFILE = Collection("ca_profile", profile)

SCHEMA = Schema(feature="ca", metadata=metadata, migrations="greatseal_ca.migrations", head="0008")
