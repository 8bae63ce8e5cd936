"""Logs that rest in the database."""

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Id, Serial, State, Text, table

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

SCHEMA = Schema("mtc", metadata, "greatseal_mtc.migrations", "0001")
