"""Certificates in logs, checkpoints and what others signed of them, landmarks."""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Flag, Id, Moment, Serial, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _entries()
    _revoked()
    _checkpoints()
    _landmarks()


def _entries() -> None:
    op.create_table(
        "mtc_current",
        sa.Column("ca_id", Id, primary_key=True),
        sa.Column("first_number", Serial, nullable=False),
        sa.Column("log_number", Serial, nullable=False),
        sa.Column("opened_at", Moment, nullable=False),
    )
    op.create_table(
        "mtc_entry",
        sa.Column("certificate_id", Id, primary_key=True),
        sa.Column("ca_id", Id, nullable=False),
        sa.Column("issue_as", Text, nullable=False),
        sa.Column("tbs", Blob),
        sa.Column("log_number", Serial),
        sa.Column("position", Serial),
        sa.Column("batch_start", Serial),
        sa.Column("batch_end", Serial),
        sa.Column("standalone", Blob),
        sa.UniqueConstraint("ca_id", "log_number", "position", name="uq_mtc_entry_position"),
    )
    waiting, lacking = sa.text("position IS NULL"), sa.text("tbs IS NOT NULL")
    op.create_index("ix_mtc_entry_waiting", "mtc_entry", ["ca_id", "certificate_id"], sqlite_where=waiting, postgresql_where=waiting)
    op.create_index(
        "ix_mtc_entry_lacking", "mtc_entry", ["ca_id", "log_number", "position"], sqlite_where=lacking, postgresql_where=lacking
    )


def _revoked() -> None:
    op.create_table(
        "mtc_revoked",
        sa.Column("certificate_id", Id, primary_key=True),
        sa.Column("ca_id", Id, nullable=False),
        sa.Column("not_after", Moment, nullable=False),
    )
    op.create_index("ix_mtc_revoked_end", "mtc_revoked", ["ca_id", "not_after"])


def _checkpoints() -> None:
    op.create_table(
        "mtc_checkpoint",
        sa.Column("ca_id", Id, nullable=False),
        sa.Column("sequence_no", Serial, nullable=False),
        sa.Column("log_number", Serial, nullable=False),
        sa.Column("tree_size", Serial, nullable=False),
        sa.Column("root_hash", Blob, nullable=False),
        sa.Column("der", Blob, nullable=False),
        sa.Column("signature", Blob, nullable=False),
        sa.Column("note", Blob, nullable=False),
        sa.Column("cosigned", Blob, nullable=False),
        sa.Column("log_note", Blob, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "sequence_no"),
    )
    op.create_table(
        "mtc_cosignature",
        sa.Column("ca_id", Id, nullable=False),
        sa.Column("sequence_no", Serial, nullable=False),
        sa.Column("url", Text, nullable=False),
        sa.Column("first", Serial, nullable=False),
        sa.Column("last", Serial, nullable=False),
        sa.Column("der", Blob, nullable=False),
        sa.Column("received_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "sequence_no", "url", "first", "last"),
    )
    op.create_table(
        "mtc_witnessed",
        sa.Column("ca_id", Id, nullable=False),
        sa.Column("sequence_no", Serial, nullable=False),
        sa.Column("url", Text, nullable=False),
        sa.Column("line", Text, nullable=False),
        sa.Column("of_log", Flag, nullable=False),
        sa.Column("received_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("ca_id", "sequence_no", "url"),
    )


def _landmarks() -> None:
    op.create_table(
        "mtc_landmark",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("ca_id", Id, nullable=False),
        sa.Column("log_number", Serial, nullable=False),
        sa.Column("sequence_no", Serial, nullable=False),
        sa.Column("previous_size", Serial, nullable=False),
        sa.Column("tree_size", Serial, nullable=False),
        sa.Column("cert_der", Blob),
        sa.Column("created", Serial, nullable=False),
        sa.UniqueConstraint("ca_id", "log_number", "sequence_no", name="uq_mtc_landmark_sequence_no"),
        sa.UniqueConstraint("ca_id", "log_number", "tree_size", name="uq_mtc_landmark_tree_size"),
    )
