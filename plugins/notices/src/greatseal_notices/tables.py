"""Notices that are to be carried: a row for each carrier, as long as it was not taken."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Document, Id, Moment, Sealed, Serial, State, Text, table

metadata = MetaData()

notice = table(
    "notices_notice",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("carrier", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("said", Document, nullable=False),  # title, text and facts
    Column("link", Sealed),
    Column("attempts", Serial, nullable=False),
    Column("told_at", Moment, nullable=False),
    Column("due_at", Moment, nullable=False, index=True),
    Column("expires_at", Moment, nullable=False),
    Index("notices_notice_person", "subject", "kind"),
)

SCHEMA = Schema("notices", metadata, "greatseal_notices.migrations", "0001")
