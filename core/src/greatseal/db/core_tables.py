"""The kernel's own tables, ``core_<noun>``."""

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint

from greatseal.db.tables import Blob, Collection, Id, Moment, Sealed, Serial, State, Text, table

__all__ = [
    "BLOCKED_KEYS", "CLUSTER_KEY", "ENVELOPE_KEYS", "KEYS", "audit", "blocked_key", "cluster_key", "envelope_key", "key", "metadata",
    "strike",
]  # fmt: skip

metadata = MetaData()

audit = table(
    "core_audit",
    metadata,
    State.APPEND_ONLY,
    Column("id", Serial, primary_key=True),
    Column("event_type", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("sub", Text),
    Column("client_id", Text),
    Column("principal", Text),
    Column("detail", Text),
    Column("created_at", Moment, nullable=False),
)
"""Audit events: written by ``tx.audit``, never changed."""

strike = table(
    "core_strike",
    metadata,
    State.OWNED,
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("until", Moment, nullable=False, index=True),
    PrimaryKeyConstraint("kind", "key"),
)
"""Keys that were used once and may not come again before ``until``."""

key = table(
    "core_key",
    metadata,
    State.REPLICATED,
    Column("kid", Id, primary_key=True),
    Column("purpose", Text, nullable=False),
    Column("algorithm", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("spki", Blob, nullable=False),
    Column("private", Sealed),
    Column("store", Text),
)
"""Signing keys. ``private`` is None where a key store has the private half: ``store`` names it, until a revoked key is destroyed there."""

KEYS = Collection("key", key)

cluster_key = table(
    "core_cluster_key",
    metadata,
    State.REPLICATED,
    Column("key_id", Id, primary_key=True),
    Column("rotated_at", Moment, nullable=False),
)
"""One row: which cluster key is in force. The key itself is in a file; where that holds several, this row decides."""

CLUSTER_KEY = Collection("cluster_key", cluster_key)

blocked_key = table(
    "core_blocked_key",
    metadata,
    State.REPLICATED,
    Column("spki_sha256", Id, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("blocked_by", Text, nullable=False),
    Column("blocked_at", Moment, nullable=False),
)
"""Public keys that nobody may use any more; the key is in hexadecimal."""

BLOCKED_KEYS = Collection("blocked_key", blocked_key)

envelope_key = table(
    "core_envelope_key",
    metadata,
    State.REPLICATED,
    Column("node", Id, primary_key=True),
    Column("value", Sealed, nullable=False),
    Column("created_at", Moment, nullable=False),
)
"""Under which key each node seals what leaves the service and comes back."""

ENVELOPE_KEYS = Collection("envelope_key", envelope_key)
