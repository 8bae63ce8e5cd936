"""Logs that rest in the database, and what is known of certificates, checkpoints and landmarks of all logs."""

from sqlalchemy import Column, Index, MetaData, PrimaryKeyConstraint, UniqueConstraint

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Flag, Id, Moment, Serial, State, Text, table

metadata = MetaData()

log = table(
    "mtc_log",
    metadata,
    State.OWNED,
    Column("log", Id, primary_key=True),
    Column("fence", Serial, nullable=False),  # one more with each holder
    Column("size", Serial),  # None before the first commit, as root and edge
    Column("root", Blob),
    Column("edge", Blob),
)

object = table(
    "mtc_object",
    metadata,
    State.OWNED,
    Column("log", Id, nullable=False),
    Column("name", Text, nullable=False),
    Column("content", Blob, nullable=False),
    PrimaryKeyConstraint("log", "name"),
)

document = table(
    "mtc_document",
    metadata,
    State.OWNED,
    Column("log", Id, nullable=False),
    Column("name", Text, nullable=False),
    Column("content", Blob, nullable=False),
    PrimaryKeyConstraint("log", "name"),
)

current = table(
    "mtc_current",
    metadata,
    State.OWNED,
    Column("ca_id", Id, primary_key=True),
    Column("first_number", Serial, nullable=False),
    Column("log_number", Serial, nullable=False),
    Column("opened_at", Moment, nullable=False),
)
"""The number of the log that each CA writes, which only grows, and the one that it began with."""

entry = table(
    "mtc_entry",
    metadata,
    State.OWNED,
    Column("certificate_id", Id, primary_key=True),
    Column("ca_id", Id, nullable=False),
    Column("issue_as", Text, nullable=False),
    Column("tbs", Blob),
    Column("log_number", Serial),
    Column("position", Serial),
    Column("batch_start", Serial),
    Column("batch_end", Serial),
    Column("standalone", Blob),
    UniqueConstraint("ca_id", "log_number", "position", name="uq_mtc_entry_position"),
)
"""Certificates that are to be logged or are: ``position`` is the index in the log, ``batch_start`` and ``batch_end`` the entries that were
committed with it. ``tbs`` is there as long as the standalone certificate of an ordinary one is to be made, ``standalone`` is that
certificate; one that was issued as such has neither, it is in the inventory."""
Index(
    "ix_mtc_entry_waiting",
    entry.c.ca_id,
    entry.c.certificate_id,
    sqlite_where=entry.c.position.is_(None),
    postgresql_where=entry.c.position.is_(None),
)
Index(
    "ix_mtc_entry_lacking",
    entry.c.ca_id,
    entry.c.log_number,
    entry.c.position,
    sqlite_where=entry.c.tbs.is_not(None),
    postgresql_where=entry.c.tbs.is_not(None),
)

revoked = table(
    "mtc_revoked",
    metadata,
    State.OWNED,
    Column("certificate_id", Id, primary_key=True),
    Column("ca_id", Id, nullable=False),
    Column("not_after", Moment, nullable=False),
    Index("ix_mtc_revoked_end", "ca_id", "not_after"),
)
"""Certificates of logs that are revoked, or count as such, whether they are logged yet or not."""

checkpoint = table(
    "mtc_checkpoint",
    metadata,
    State.OWNED,
    Column("ca_id", Id, nullable=False),
    Column("sequence_no", Serial, nullable=False),
    Column("log_number", Serial, nullable=False),
    Column("tree_size", Serial, nullable=False),
    Column("root_hash", Blob, nullable=False),
    Column("der", Blob, nullable=False),
    Column("signature", Blob, nullable=False),
    Column("note", Blob, nullable=False),
    Column("cosigned", Blob, nullable=False),
    Column("log_note", Blob, nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("ca_id", "sequence_no"),
)
"""What was signed of each log. ``der`` is the Checkpoint, ``signature`` the CA cosigner's over the tree at its time, ``note`` the signed
note of the log operator, ``cosigned`` the same text with the CA cosigner's signature, ``log_note`` the CA cosigner's note under the ID of
the log. No size of a log has two of them."""

cosignature = table(
    "mtc_cosignature",
    metadata,
    State.OWNED,
    Column("ca_id", Id, nullable=False),
    Column("sequence_no", Serial, nullable=False),
    Column("url", Text, nullable=False),
    Column("first", Serial, nullable=False),
    Column("last", Serial, nullable=False),
    Column("der", Blob, nullable=False),
    Column("received_at", Moment, nullable=False),
    PrimaryKeyConstraint("ca_id", "sequence_no", "url", "first", "last"),
)
"""What others signed for a checkpoint: ``der`` is a SubtreeSignature over the entries ``first`` to ``last``, by the cosigner at ``url``."""

witnessed = table(
    "mtc_witnessed",
    metadata,
    State.OWNED,
    Column("ca_id", Id, nullable=False),
    Column("sequence_no", Serial, nullable=False),
    Column("url", Text, nullable=False),
    Column("line", Text, nullable=False),
    Column("of_log", Flag, nullable=False),
    Column("received_at", Moment, nullable=False),
    PrimaryKeyConstraint("ca_id", "sequence_no", "url"),
)
"""The line of signature that a witness gave for a checkpoint; ``of_log``: for its ``log_note``."""

landmark = table(
    "mtc_landmark",
    metadata,
    State.OWNED,
    Column("id", Serial, primary_key=True),
    Column("ca_id", Id, nullable=False),
    Column("log_number", Serial, nullable=False),
    Column("sequence_no", Serial, nullable=False),
    Column("previous_size", Serial, nullable=False),
    Column("tree_size", Serial, nullable=False),
    Column("cert_der", Blob),
    Column("created", Serial, nullable=False),
    UniqueConstraint("ca_id", "log_number", "sequence_no", name="uq_mtc_landmark_sequence_no"),
    UniqueConstraint("ca_id", "log_number", "tree_size", name="uq_mtc_landmark_tree_size"),
)
"""Landmarks of the log that a CA writes, from ``sequence_no`` 0 on in each log: ``tree_size`` is what it freezes, ``previous_size`` what
the one before it froze, ``cert_der`` its LandmarkCertificate when it is made, ``created`` Unix seconds."""

witness = table(
    "mtc_witness",
    metadata,
    State.OWNED,
    Column("log", Id, primary_key=True),  # SHA-256 of the origin, hexadecimal: the path under which it is published
    Column("origin", Text, nullable=False),
    Column("size", Serial, nullable=False, autoincrement=False),
    Column("root", Blob, nullable=False),
    Column("note", Blob, nullable=False),  # the checkpoint with the signatures of the log that were verified
    Column("cosignatures", Blob),  # NULL until they are made: what is signed was recorded before
    Column("moved_at", Moment, nullable=False),
)
"""The last checkpoint of each log of others that was cosigned."""

SCHEMA = Schema("mtc", metadata, "greatseal_mtc.migrations", "0003")
